/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte buffer that grows up to a maximum given at its start and never past it. Always NUL-terminated.
 * A failed append leaves the content as it was and marks the buffer as failed; one check at the end is enough.
 */
#ifndef CR_BASE_BUF_H
#define CR_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct cr_buf {
    char *data;
    size_t len, cap, max; /* max: bytes without the terminator */
    bool failed;          /* something did not fit or memory was short */
};

void cr_buf_init(struct cr_buf *b, size_t max);
void cr_buf_free(struct cr_buf *b);
bool cr_buf_append(struct cr_buf *b, const void *data, size_t len);
bool cr_buf_puts(struct cr_buf *b, const char *s);
bool cr_buf_printf(struct cr_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cr_buf_reset(struct cr_buf *b); /* empties, keeps the memory */
char *
cr_buf_take(struct cr_buf *b); /* the string, now the caller's; NULL if the buffer failed. The buffer is empty again */
const char *cr_buf_str(const struct cr_buf *b); /* never NULL */

#endif
