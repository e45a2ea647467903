/* SPDX-License-Identifier: Apache-2.0 */
/* A protobuf-c allocator over one block of fixed size: bounds what a decode can take, and freeing the block frees all.
 */
#ifndef CR_WIRE_ARENA_H
#define CR_WIRE_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

struct cr_arena {
    unsigned char *block;
    size_t used, size;
    bool exhausted; /* an allocation did not fit */
    ProtobufCAllocator allocator;
};

bool cr_arena_init(struct cr_arena *arena, size_t size); /* false: no memory; fini is fine then too */
void cr_arena_fini(struct cr_arena *arena);

#endif
