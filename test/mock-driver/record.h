/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to mock drivers as JSON lines, written as it happens, each in one piece. Any thread.
 * Events: listening, ready, connected, call, notified, abandoned, error, stopped.
 */
#ifndef MOCK_RECORD_H
#define MOCK_RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

bool record_open(const char *path); /* appends to the file; NULL or "": standard output. False and errno */
void record_close(void);

json_t *record_new(const char *event, const char *driver);           /* with the time; driver may be NULL */
void record_text(json_t *record, const char *key, const char *text); /* bytes that are no UTF-8 go as "hex:..." */
void record_hex(json_t *record, const char *key, const void *data, size_t len);
void record_write(json_t *record); /* takes it */

#endif
