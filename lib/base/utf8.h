/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 checks and repairs. Pure. */
#ifndef CR_BASE_UTF8_H
#define CR_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Valid UTF-8 (no overlong forms, no surrogates, at most U+10FFFF) without a NUL byte. */
bool cr_utf8_valid(const char *s, size_t len);

/* The largest length <= max of s at which no character is cut; s has at least max bytes. A broken tail is dropped. */
size_t cr_utf8_cut(const char *s, size_t max);

/* Replaces bytes below 0x20, DEL, NUL and invalid UTF-8 by '?', in place. */
void cr_utf8_sanitise(char *s, size_t len);

#endif
