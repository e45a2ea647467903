/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t read_ms(clockid_t id)
{
    struct timespec t = {0};
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct cr_time cr_clock_now(void)
{
    return (struct cr_time){.mono_ms = read_ms(CLOCK_MONOTONIC), .wall_ms = read_ms(CLOCK_REALTIME)};
}

void cr_clock_rfc3339(int64_t wall_ms, char out[CR_RFC3339_SIZE])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm = {0};
    char date[24] = "";
    gmtime_r(&seconds, &tm);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, CR_RFC3339_SIZE, "%s.%03dZ", date, (int)(wall_ms % 1000));
}
