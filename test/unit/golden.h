/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Golden directories: one folder below test/data/<suite> is one case, run by the suite's function. Adding a case needs
 * no code. Also: jansson on the library's allocator, so that a test can make its n-th allocation fail too.
 */
#ifndef TEST_UNIT_GOLDEN_H
#define TEST_UNIT_GOLDEN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Runs every folder of the suite in the order of their names; returns how many. Fails the test when there is none. */
size_t golden_run(const char *suite, void (*run)(const char *folder));

char *golden_read(const char *folder, const char *file);   /* NULL when there is no such file; free() */
json_t *golden_json(const char *folder, const char *file); /* likewise; a broken file fails the test */

/* Calls scenario with the 1st, 2nd, ... allocation failing (and all after it) until it returns true: done with none. */
void oom_run(bool (*scenario)(void));

#endif
