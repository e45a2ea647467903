/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/arena.h"

#include <stdalign.h>
#include <stdint.h>

#include "base/mem.h"

static void *take(void *user, size_t n)
{
    struct cr_arena *arena = user;
    const size_t align = alignof(max_align_t);
    size_t room = arena->size - arena->used;
    if (n > SIZE_MAX - align || (n + align - 1) / align * align > room) {
        arena->exhausted = true;
        return NULL;
    }
    void *p = arena->block + arena->used;
    arena->used += (n + align - 1) / align * align;
    return p;
}

static void give_back(void *user, void *p)
{
    (void)user;
    (void)p;
}

bool cr_arena_init(struct cr_arena *arena, size_t size)
{
    *arena = (struct cr_arena){.block = cr_calloc(size, 1), .size = size};
    arena->allocator = (ProtobufCAllocator){.alloc = take, .free = give_back, .allocator_data = arena};
    return arena->block;
}

void cr_arena_fini(struct cr_arena *arena)
{
    cr_free(arena->block);
    arena->block = NULL;
}
