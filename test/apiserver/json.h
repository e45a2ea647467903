/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulator does with JSON trees, on top of jansson. Pure; out of memory ends the program. */
#ifndef APISERVER_JSON_H
#define APISERVER_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A tree of any type; NULL and *out_error (malloc'ed) when it is none. */
json_t *as_json_parse(const char *text, size_t len, char **out_error);
char *as_json_text(const json_t *value); /* compact; malloc'ed */

json_t *as_json_at(const json_t *object, const char *outer, const char *inner); /* borrowed, NULL when absent */
const char *as_json_str(const json_t *object, const char *key);                 /* "" when absent or no string */
int64_t as_json_int(const json_t *object, const char *key, int64_t otherwise);
bool as_json_true(const json_t *object, const char *key);

/* Equal where absent, null, {} and [] are the same. */
bool as_json_same(const json_t *a, const json_t *b);
bool as_json_empty(const json_t *v); /* absent, null, {}, [] or "" */

void as_json_set(json_t *object, const char *key, json_t *value);       /* takes value; NULL deletes the key */
void as_json_copy(json_t *object, const json_t *from, const char *key); /* also its absence */
json_t *as_json_child(json_t *object, const char *key);                 /* the object there, made when absent */
void as_json_append_text(json_t *array, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* RFC 6901. The value, borrowed, or NULL. */
json_t *as_pointer_get(json_t *root, const char *pointer);
bool as_pointer_remove(json_t *root, const char *pointer); /* false: nothing was there */
/* The container that holds the last token, which is decoded into `last` (malloc'ed); NULL when there is none. */
json_t *as_pointer_parent(json_t *root, const char *pointer, char **last);

#endif
