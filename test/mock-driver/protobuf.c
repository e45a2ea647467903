/* SPDX-License-Identifier: Apache-2.0 */
#include "mock-driver/protobuf.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

enum { WIRE_VARINT = 0, WIRE_LENGTH = 2 };

void bytes_fini(struct bytes *b)
{
    free(b->data);
    *b = (struct bytes){0};
}

/* What is allocated for len bytes: doubling, so that a large message is not copied for each of its fields. */
static size_t room(size_t len)
{
    size_t n = 64;
    while (n < len) n *= 2;
    return n;
}

void bytes_add(struct bytes *b, const void *data, size_t len)
{
    if (len == 0) return;
    if (!b->data || b->len + len > room(b->len)) b->data = need_array(b->data, room(b->len + len), 1);
    memcpy(b->data + b->len, data, len);
    b->len += len;
}

static void put_varint(struct bytes *b, uint64_t value)
{
    unsigned char text[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) text[n++] = (unsigned char)(value | 0x80);
    text[n++] = (unsigned char)value;
    bytes_add(b, text, n);
}

void put_message(struct bytes *b, unsigned field, const struct bytes *message)
{
    put_varint(b, field << 3 | WIRE_LENGTH);
    put_varint(b, message->len);
    bytes_add(b, message->data, message->len);
}

void put_bytes(struct bytes *b, unsigned field, const struct bytes *value)
{
    if (value->len) put_message(b, field, value);
}

void put_int(struct bytes *b, unsigned field, int64_t value)
{
    if (value == 0) return;
    put_varint(b, field << 3 | WIRE_VARINT);
    put_varint(b, (uint64_t)value);
}
