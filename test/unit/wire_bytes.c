/* SPDX-License-Identifier: Apache-2.0 */
#include "wire_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

static void varint(struct cr_buf *b, uint64_t v)
{
    do {
        unsigned char byte = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        assert_true(cr_buf_append(b, &byte, 1));
        v >>= 7;
    } while (v);
}

void wire_number(struct cr_buf *b, unsigned field, uint64_t v)
{
    varint(b, field << 3);
    varint(b, v);
}

void wire_bytes(struct cr_buf *b, unsigned field, const void *data, size_t len)
{
    varint(b, field << 3 | 2);
    varint(b, len);
    assert_true(cr_buf_append(b, data, len));
}

void wire_text(struct cr_buf *b, unsigned field, const char *s) { wire_bytes(b, field, s, strlen(s)); }

void wire_message(struct cr_buf *b, unsigned field, struct cr_buf *inner)
{
    wire_bytes(b, field, cr_buf_str(inner), inner->len);
    cr_buf_free(inner);
}

void wire_fill(struct cr_buf *b, unsigned field, size_t len)
{
    char *s = cr_calloc(len + 1, 1);
    memset(s, 'x', len);
    wire_bytes(b, field, s, len);
    cr_free(s);
}

struct cr_buf wire_start(void)
{
    struct cr_buf b;
    cr_buf_init(&b, 1 << 20);
    return b;
}
