/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time as the core sees it: one monotonic reading for every decision, one wall-clock reading for people.
 * The core never asks for it; it comes with each input.
 */
#ifndef CR_BASE_CLOCK_H
#define CR_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define CR_NEVER INT64_MAX

struct cr_time {
    int64_t mono_ms; /* CLOCK_MONOTONIC */
    int64_t wall_ms; /* CLOCK_REALTIME, since 1970 */
};

#define CR_RFC3339_SIZE 32 /* "2026-12-01T15:04:05.678Z" and its terminator */

struct cr_time cr_clock_now(void);
void cr_clock_rfc3339(int64_t wall_ms, char out[CR_RFC3339_SIZE]);

#endif
