/* SPDX-License-Identifier: Apache-2.0 */
#include "common/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *p)
{
    if (p) return p;
    fputs("out of memory\n", stderr);
    exit(1);
}

void *need_calloc(size_t n, size_t size) { return checked(calloc(n ? n : 1, size ? size : 1)); }

void *need_array(void *array, size_t n, size_t size) { return checked(reallocarray(array, n ? n : 1, size)); }

char *need_strdup(const char *s) { return s ? checked(strdup(s)) : NULL; }

char *need_strndup(const char *s, size_t n) { return checked(strndup(s, n)); }

char *need_vprintf(const char *fmt, va_list args)
{
    char *text = NULL;
    return vasprintf(&text, fmt, args) < 0 ? checked(NULL) : text;
}

char *need_printf(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = need_vprintf(fmt, args);
    va_end(args);
    return text;
}
