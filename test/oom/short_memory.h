/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that runs short at a chosen allocation, for the library's own allocations and jansson's. Needs the linker's
 * --wrap for calloc, realloc, json_loadb and json_loads. Only what happens between short_memory_inside(true) and
 * (false) counts and fails.
 */
#ifndef TEST_OOM_SHORT_MEMORY_H
#define TEST_OOM_SHORT_MEMORY_H

#include <stdbool.h>

enum shortage {
    ONE,     /* the n-th allocation alone fails */
    REST,    /* it and all that follow in the same call of the core */
    DROUGHT, /* all from there on, for the next DROUGHT_CALLS calls of the core */
    RANDOM,  /* n seeds which ones fail, from one in five to one in sixty, until short_memory_end */
    SHORTAGES
};
#define DROUGHT_CALLS 25

void short_memory_begin(enum shortage kind, unsigned long n); /* counts from 1 */
bool short_memory_hit(void);                                  /* an allocation has failed */
void short_memory_end(void);                                  /* enough of it from now on */
void short_memory_inside(bool inside);                        /* the core runs */

#endif
