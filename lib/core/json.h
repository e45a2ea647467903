/* SPDX-License-Identifier: Apache-2.0 */
/* What the core needs of JSON beyond jansson: bounded parsing and text out of our own memory. Pure. */
#ifndef CR_CORE_JSON_H
#define CR_CORE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * Parses an outsider's text. flags: jansson's, added to JSON_ALLOW_NUL (an unknown member may hold "\u0000" and must
 * survive). At most CR_MAX_JSON_VALUES values, since an empty one takes a hundred times the memory of its text.
 * 0; REFUSED (persistent, origin JSON, the message says where it broke); LIMIT; NOMEM.
 */
int cr_json_parse(const char *text, size_t len, size_t flags, json_t **out, struct csireg_error **err);

/* Compact text, at most CR_MAX_API_BODY; flags are jansson's. The caller's; NULL: no memory, or too long. */
char *cr_json_text(const json_t *value, size_t flags);

/* As json_copy and json_deep_copy, which leave members out in silence when memory is short: whole, or NULL. */
json_t *cr_json_copy(const json_t *value);
json_t *cr_json_deep_copy(const json_t *value);

const char *cr_json_str(const json_t *object, const char *key); /* a member that is a string without NUL, else NULL */
bool cr_json_is(const json_t *value, const char *s);            /* a string of exactly these bytes; false for NULL */
bool cr_json_empty(const json_t *value);                        /* absent, null, [] or {} */

#endif
