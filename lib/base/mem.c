/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

static atomic_ulong count;
static atomic_ulong fail_at; /* 0 = never */

static bool refused(void)
{
    unsigned long limit = atomic_load(&fail_at);
    unsigned long nth = atomic_fetch_add(&count, 1) + 1;
    return limit != 0 && nth >= limit;
}

void cr_mem_fail_after(unsigned long n)
{
    atomic_store(&count, 0);
    atomic_store(&fail_at, n);
}

unsigned long cr_mem_count(void) { return atomic_load(&count); }

static bool overflows(size_t n, size_t size) { return size != 0 && n > SIZE_MAX / size; }

void *cr_calloc(size_t n, size_t size) { return refused() || overflows(n, size) ? NULL : calloc(n, size); }

void *cr_realloc_array(void *p, size_t n, size_t size)
{
    if (refused() || overflows(n, size)) return NULL;
    return realloc(p, n * size);
}

char *cr_strndup(const char *s, size_t n)
{
    if (!s) return NULL;
    size_t len = strnlen(s, n);
    char *copy = cr_calloc(1, len + 1);
    if (copy) memcpy(copy, s, len);
    return copy;
}

char *cr_strdup(const char *s) { return s ? cr_strndup(s, strlen(s)) : NULL; }

void cr_free(void *p) { free(p); }

char **cr_strv_dup(const char *const *v, size_t n)
{
    char **copy = cr_calloc(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++) {
        copy[i] = cr_strdup(v[i]);
        if (!copy[i]) {
            cr_strv_free(copy);
            return NULL;
        }
    }
    return copy;
}

void cr_strv_free(char **v)
{
    for (size_t i = 0; v && v[i]; i++) cr_free(v[i]);
    cr_free(v);
}
