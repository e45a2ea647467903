/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void cr_buf_init(struct cr_buf *b, size_t max) { *b = (struct cr_buf){.max = max}; }

void cr_buf_free(struct cr_buf *b)
{
    cr_free(b->data);
    cr_buf_init(b, b->max);
}

static bool reserve(struct cr_buf *b, size_t more)
{
    if (more > b->max - b->len) return false;
    size_t need = b->len + more + 1;
    if (need <= b->cap) return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need) cap *= 2;
    char *data = cr_realloc_array(b->data, cap, 1);
    if (!data) return false;
    b->data = data;
    b->cap = cap;
    return true;
}

bool cr_buf_append(struct cr_buf *b, const void *data, size_t len)
{
    if (!reserve(b, len)) {
        b->failed = true;
        return false;
    }
    if (len) memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
    return true;
}

bool cr_buf_puts(struct cr_buf *b, const char *s) { return cr_buf_append(b, s, strlen(s)); }

bool cr_buf_printf(struct cr_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    bool ok = n >= 0 && reserve(b, (size_t)n);
    if (ok) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    } else {
        b->failed = true;
    }
    va_end(again);
    va_end(ap);
    return ok;
}

void cr_buf_reset(struct cr_buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data) b->data[0] = '\0';
}

char *cr_buf_take(struct cr_buf *b)
{
    char *data = b->failed ? NULL : b->data ? b->data : cr_strdup("");
    if (b->failed) cr_free(b->data);
    cr_buf_init(b, b->max);
    return data;
}

const char *cr_buf_str(const struct cr_buf *b) { return b->data ? b->data : ""; }
