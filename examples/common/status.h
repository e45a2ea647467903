/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the library's status document for people. Pure, any thread. */
#ifndef COMMON_STATUS_H
#define COMMON_STATUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

const char *status_str(const json_t *object, const char *key); /* borrowed; "" when it is no string there */
long long status_int(const json_t *object, const char *key);   /* 0 when it is no integer there */

bool status_time(const char *text, double *out_seconds); /* RFC 3339 in UTC, since the epoch; false: anything else */

#define STATUS_AGE_SIZE 32
void status_age(double seconds, char out[STATUS_AGE_SIZE]); /* "9.5 s", "12 min", "3 h", "5 days" */

/* What a socket "is" in that state, as a person would say it: "being connected to"; a state of no name as it is. */
const char *status_words(const char *state);
bool status_is_registered(const json_t *driver); /* lookups find it */
/* Its driver or plugin is neither registered nor meant to wait for another one. */
bool status_is_unregistered(const json_t *socket);

#endif
