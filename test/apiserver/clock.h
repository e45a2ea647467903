/* SPDX-License-Identifier: Apache-2.0 */
/* Times, deadlines and random ids. Any thread. */
#ifndef APISERVER_CLOCK_H
#define APISERVER_CLOCK_H

#include <pthread.h>
#include <stdint.h>

#define AS_UUID_SIZE 37
#define AS_DATE_SIZE 32
#define AS_MS        1000000 /* in ns */
#define AS_FOREVER   INT64_MAX

int64_t as_now_ns(void); /* monotonic */
uint64_t as_random(void);
void as_uuid(char out[AS_UUID_SIZE]); /* version 4 */
void as_date(char out[AS_DATE_SIZE]); /* now, RFC 3339, whole seconds */

void as_cond_init(pthread_cond_t *cond); /* on the monotonic clock */
/* Waits until signalled or until deadline_ns (AS_FOREVER: no limit); the mutex is held before and after. */
void as_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mu, int64_t deadline_ns);

#endif
