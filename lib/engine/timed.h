/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting on a condition for at most some milliseconds, unmoved by steps of the wall clock. Any thread. */
#ifndef CR_ENGINE_TIMED_H
#define CR_ENGINE_TIMED_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

int cr_timed_init(pthread_cond_t *c); /* a condition on CLOCK_MONOTONIC; 0 or an errno */
/* For pthread_cond_timedwait on such a condition; ms >= 0, past a year counts as a year. */
struct timespec cr_timed_in(int64_t ms);

int64_t cr_timed_now_us(void); /* CLOCK_MONOTONIC */

#endif
