/* SPDX-License-Identifier: Apache-2.0 */
/* Durations as people and flags write them: "500ms", "10s", "1m30s", "1.5h", "0". Pure. */
#ifndef COMMON_DURATION_H
#define COMMON_DURATION_H

#include <stdbool.h>
#include <stdint.h>

#define DURATION_SIZE 32 /* the longest text of duration_format and its terminator */

/* One or more "<number><unit>", units ms, s, m, h; or a bare 0. False: not one, negative, past int64_t or not whole
 * milliseconds; *out_ms is untouched then. */
bool duration_parse(const char *text, int64_t *out_ms);

/* The shortest such text for ms >= 0: 90000 is "1m30s". */
void duration_format(int64_t ms, char out[DURATION_SIZE]);

#endif
