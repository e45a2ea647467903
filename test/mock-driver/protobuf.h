/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf messages written field by field. The generated code cannot say what a mock driver must be able to say:
 * strings with NUL or broken UTF-8, keys twice, fields that no message has. Pure.
 */
#ifndef MOCK_PROTOBUF_H
#define MOCK_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
    unsigned char *data; /* owned; NULL when empty */
    size_t len;
};

void bytes_fini(struct bytes *b);
void bytes_add(struct bytes *b, const void *data, size_t len);

/* Like proto3, a value of zero length or 0 is left out; put_message is always written. */
void put_bytes(struct bytes *b, unsigned field, const struct bytes *value);
void put_int(struct bytes *b, unsigned field, int64_t value);
void put_message(struct bytes *b, unsigned field, const struct bytes *message);

#endif
