// SPDX-License-Identifier: Apache-2.0
#include "apiserver/clock.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>

int64_t as_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t as_random(void)
{
    uint64_t n = 0;
    if (getrandom(&n, sizeof n, 0) != (ssize_t)sizeof n) n = (uint64_t)as_now_ns();
    return n;
}

void as_uuid(char out[AS_UUID_SIZE])
{
    uint64_t a = as_random(), b = as_random();
    snprintf(out, AS_UUID_SIZE, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(a >> 32), (unsigned)(a >> 16) & 0xffffu,
             (unsigned)a & 0xfffu, 0x8000u | ((unsigned)(b >> 48) & 0x3fffu),
             (unsigned long long)(b & 0xffffffffffffu));
}

void as_date(char out[AS_DATE_SIZE])
{
    struct tm tm;
    time_t now = time(NULL);
    gmtime_r(&now, &tm);
    strftime(out, AS_DATE_SIZE, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void as_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

void as_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mu, int64_t deadline_ns)
{
    if (deadline_ns == AS_FOREVER) {
        pthread_cond_wait(cond, mu);
        return;
    }
    struct timespec t = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
    pthread_cond_timedwait(cond, mu, &t);
}
