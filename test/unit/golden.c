/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/golden.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"

#define OOM_MOST 10000 /* allocations of one scenario */

static int is_case(const struct dirent *d) { return d->d_name[0] != '.'; }

size_t golden_run(const char *suite, void (*run)(const char *folder))
{
    char folder[512];
    struct dirent **cases = NULL;
    snprintf(folder, sizeof folder, "test/data/%s", suite);
    int n = scandir(folder, &cases, is_case, alphasort);
    if (n <= 0) fail_msg("no cases in %s; run from the root of the project", folder);
    for (int i = 0; i < n; i++) {
        snprintf(folder, sizeof folder, "test/data/%s/%s", suite, cases[i]->d_name);
        free(cases[i]);
        run(folder);
    }
    free(cases);
    return (size_t)n;
}

char *golden_read(const char *folder, const char *file)
{
    char path[1024], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "re");
    if (!f) return NULL;
    if (getdelim(&text, &size, '\0', f) < 0) fail_msg("%s: empty or unreadable", path);
    fclose(f);
    return text;
}

json_t *golden_json(const char *folder, const char *file)
{
    json_error_t e;
    char *text = golden_read(folder, file);
    if (!text) return NULL;
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    if (!value) fail_msg("%s/%s:%d: %s", folder, file, e.line, e.text);
    free(text);
    return value;
}

static void *json_alloc(size_t n) { return cr_calloc(1, n); }

void oom_run(bool (*scenario)(void))
{
    unsigned long n = 0;
    json_set_alloc_funcs(json_alloc, cr_free);
    for (bool done = false; !done;) {
        assert_true(++n < OOM_MOST);
        cr_mem_fail_after(n);
        done = scenario();
    }
    bool complete = cr_mem_count() < n;
    cr_mem_fail_after(0);
    json_set_alloc_funcs(malloc, free);
    if (!complete) fail_msg("the scenario succeeded although allocation %lu failed", n);
}
