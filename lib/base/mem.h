/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory. All of the library's own allocations pass here, so that a test can make the n-th one fail.
 * Any thread. Nothing aborts: a failed allocation is NULL and the caller's to handle.
 */
#ifndef CR_BASE_MEM_H
#define CR_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

void *cr_calloc(size_t n, size_t size);                 /* zeroed; NULL on overflow too */
void *cr_realloc_array(void *p, size_t n, size_t size); /* p stays valid on NULL */
char *cr_strdup(const char *s);                         /* NULL in, NULL out */
char *cr_strndup(const char *s, size_t n);
void cr_free(void *p);
char **cr_strv_dup(const char *const *v, size_t n); /* NULL-terminated copy */
void cr_strv_free(char **v);                        /* NULL-terminated; NULL is fine */

/* Tests only: the n-th allocation from now (1 = the next) and all after it fail; 0 = never. Process-wide. */
void cr_mem_fail_after(unsigned long n);
unsigned long cr_mem_count(void); /* allocations since the last cr_mem_fail_after */

static inline void cr_free_charp(char **p) { cr_free(*p); }
#define CR_AUTO_CHARP __attribute__((cleanup(cr_free_charp))) char *
#define CR_NEW(type)  ((type *)cr_calloc(1, sizeof(type)))

#endif
