/* SPDX-License-Identifier: Apache-2.0 */
/* Builds protobuf messages field by field, right or wrong, in a buffer that the caller frees. */
#ifndef UNIT_WIRE_BYTES_H
#define UNIT_WIRE_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define RAW(literal) literal, sizeof(literal) - 1 /* a literal with NUL bytes, and its length */

struct cr_buf wire_start(void);
void wire_number(struct cr_buf *b, unsigned field, uint64_t v); /* a varint field */
void wire_bytes(struct cr_buf *b, unsigned field, const void *data, size_t len);
void wire_text(struct cr_buf *b, unsigned field, const char *s);
void wire_fill(struct cr_buf *b, unsigned field, size_t len);              /* a string of that length */
void wire_message(struct cr_buf *b, unsigned field, struct cr_buf *inner); /* inner is freed */

#endif
