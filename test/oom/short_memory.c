/* SPDX-License-Identifier: Apache-2.0 */
#include "oom/short_memory.h"

#include <jansson.h>
#include <stddef.h>

#include "base/rng.h"

static struct {
    enum shortage kind;
    unsigned long n, count, calls;
    struct cr_rng rng;
    bool armed, inside, hit, failing;
} now;

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool fails(void)
{
    if (!now.armed || !now.inside) return false;
    now.count++;
    bool due = now.kind == RANDOM ? cr_rng_below(&now.rng, 5 + now.n % 56) == 0 : now.count == now.n;
    if (due && (now.kind == REST || now.kind == DROUGHT)) now.failing = true;
    now.hit |= due;
    return due || now.failing;
}

void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t size) { return fails() ? NULL : __real_realloc(p, size); }

/*
 * A parse fails as a whole: when the buffer of jansson's lexer (2.14) cannot grow, bytes are lost without an error, and
 * a token may even be read past its end. That is jansson's to repair and would hide what is ours.
 */
json_t *__real_json_loadb(const char *text, size_t len, size_t flags, json_error_t *error);
json_t *__wrap_json_loadb(const char *text, size_t len, size_t flags, json_error_t *error);
json_t *__real_json_loads(const char *text, size_t flags, json_error_t *error);
json_t *__wrap_json_loads(const char *text, size_t flags, json_error_t *error);

json_t *__wrap_json_loadb(const char *text, size_t len, size_t flags, json_error_t *error)
{
    bool inside = now.inside;
    if (fails()) return NULL;
    now.inside = false;
    json_t *value = __real_json_loadb(text, len, flags, error);
    now.inside = inside;
    return value;
}

json_t *__wrap_json_loads(const char *text, size_t flags, json_error_t *error)
{
    bool inside = now.inside;
    if (fails()) return NULL;
    now.inside = false;
    json_t *value = __real_json_loads(text, flags, error);
    now.inside = inside;
    return value;
}

static void *json_alloc(size_t n) { return __wrap_calloc(1, n); }

void short_memory_begin(enum shortage kind, unsigned long n)
{
    json_set_alloc_funcs(json_alloc, free);
    now.kind = kind;
    now.n = n;
    now.count = now.calls = 0;
    now.rng.state = n;
    now.armed = true;
    now.hit = now.failing = false;
}

bool short_memory_hit(void) { return now.hit; }

void short_memory_end(void) { now.armed = now.failing = false; }

void short_memory_inside(bool inside)
{
    now.inside = inside;
    if (inside || !now.failing) return;
    if (now.kind == REST || ++now.calls == DROUGHT_CALLS) now.failing = false;
}
