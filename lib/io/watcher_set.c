/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/mem.h"
#include "io/watcher_internal.h"

static const char *key(const void *item) { return *(char *const *)item; }

/* The first index whose key is not below path. */
static size_t lower_bound(const struct cr_path_set *set, const char *path)
{
    size_t low = 0, high = set->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(key(set->items[middle]), path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool holds(const struct cr_path_set *set, size_t i, const char *path)
{
    return i < set->n && strcmp(key(set->items[i]), path) == 0;
}

void *cr_path_set_find(const struct cr_path_set *set, const char *path)
{
    size_t i = lower_bound(set, path);
    return holds(set, i, path) ? set->items[i] : NULL;
}

static bool grow(struct cr_path_set *set)
{
    size_t cap = set->cap ? set->cap * 2 : 16;
    void **items = cr_realloc_array(set->items, cap, sizeof *items);
    if (!items) return false;
    set->items = items;
    set->cap = cap;
    return true;
}

bool cr_path_set_add(struct cr_path_set *set, void *item)
{
    if (set->n == set->cap && !grow(set)) return false;
    size_t i = lower_bound(set, key(item));
    memmove(set->items + i + 1, set->items + i, (set->n - i) * sizeof *set->items);
    set->items[i] = item;
    set->n++;
    return true;
}

void cr_path_set_remove(struct cr_path_set *set, const char *path)
{
    size_t i = lower_bound(set, path);
    if (!holds(set, i, path)) return;
    set->n--;
    memmove(set->items + i, set->items + i + 1, (set->n - i) * sizeof *set->items);
}

void cr_path_set_fini(struct cr_path_set *set)
{
    cr_free(set->items);
    *set = (struct cr_path_set){0};
}
