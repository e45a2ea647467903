/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for the programs: a failed allocation ends the program with a message and exit code 1. Any thread. */
#ifndef COMMON_ALLOC_H
#define COMMON_ALLOC_H

#include <stdarg.h>
#include <stddef.h>

void *need_calloc(size_t n, size_t size);             /* zeroed */
void *need_array(void *array, size_t n, size_t size); /* grown to n elements; the new ones are not zeroed */
char *need_strdup(const char *s);                     /* NULL in, NULL out */
char *need_strndup(const char *s, size_t n);
char *need_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *need_vprintf(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));

#define NEED_NEW(type) ((type *)need_calloc(1, sizeof(type)))

#endif
