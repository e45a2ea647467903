/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/timed.h"

#define LONGEST_MS (366LL * 24 * 3600 * 1000) /* keeps sums far from overflow */

int cr_timed_init(pthread_cond_t *c)
{
    pthread_condattr_t monotonic;
    int rc = pthread_condattr_init(&monotonic);
    if (rc != 0) return rc;
    rc = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    if (rc == 0) rc = pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return rc;
}

struct timespec cr_timed_in(int64_t ms)
{
    struct timespec t = {0};
    if (ms > LONGEST_MS) ms = LONGEST_MS;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t ns = t.tv_nsec + ms % 1000 * 1000000;
    t.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    t.tv_nsec = (long)(ns % 1000000000);
    return t;
}

int64_t cr_timed_now_us(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
