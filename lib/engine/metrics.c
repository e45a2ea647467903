/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/metrics.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/rpc.h"

#define UNKNOWN "unknown-driver"
#define GONE    UINT_MAX

const double cr_latency_bounds[CR_LATENCY_BUCKETS] = {.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600};

struct running {
    struct cr_list node;
    uint64_t id;
    struct cr_measured_driver driver;
    enum cr_rpc_method method;
    int64_t begin_us;
};

static struct running *running_of(struct cr_list *l) { return CR_CONTAINER(l, struct running, node); }

void cr_latencies_init(struct cr_latencies *l)
{
    *l = (struct cr_latencies){.n_drivers = 0};
    cr_list_init(&l->running);
    cr_list_init(&l->spare);
}

static void free_running(struct cr_list *list)
{
    for (struct cr_list *n; (n = cr_list_pop(list));) cr_free(running_of(n));
}

void cr_latencies_fini(struct cr_latencies *l)
{
    free_running(&l->running);
    free_running(&l->spare);
    cr_free(l->drivers);
    cr_free(l->series);
}

/* ---- running calls ---- */

void cr_latencies_begin(struct cr_latencies *l, uint64_t id, const char *driver, enum cr_rpc_method method,
                        int64_t now_us)
{
    struct cr_list *spare = cr_list_pop(&l->spare);
    struct running *r = spare ? running_of(spare) : CR_NEW(struct running);
    if (!r) return;
    r->id = id;
    r->method = method;
    r->begin_us = now_us;
    snprintf(r->driver.name, sizeof r->driver.name, "%s", driver ? driver : UNKNOWN);
    cr_list_append(&l->running, &r->node);
}

static struct running *find_running(struct cr_latencies *l, uint64_t id)
{
    CR_LIST_FOREACH (n, &l->running)
        if (running_of(n)->id == id) return running_of(n);
    return NULL;
}

/* ---- names ---- */

/* Room for one more; false: no memory. */
static bool grow(void **array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return true;
    size_t more = *cap ? 2 * *cap : 8;
    void *grown = cr_realloc_array(*array, more, size);
    if (!grown) return false;
    *array = grown;
    *cap = more;
    return true;
}

static bool add_driver(struct cr_latencies *l, const char *name)
{
    void *drivers = l->drivers;
    if (!grow(&drivers, l->n_drivers, &l->cap_drivers, sizeof *l->drivers)) return false;
    l->drivers = drivers;
    struct cr_measured_driver *d = &l->drivers[l->n_drivers++];
    snprintf(d->name, sizeof d->name, "%s", name);
    return true;
}

static unsigned find_driver(const struct cr_latencies *l, const char *name)
{
    for (unsigned i = 0; i < l->n_drivers; i++)
        if (strcmp(l->drivers[i].name, name) == 0) return i;
    return GONE;
}

static void drop_series(struct cr_latencies *l, const unsigned *new_place)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->n_series; i++) {
        unsigned place = new_place[l->series[i].driver];
        if (place == GONE) continue;
        l->series[kept] = l->series[i];
        l->series[kept++].driver = place;
    }
    l->n_series = kept;
}

static void forget_gone(struct cr_latencies *l, const struct cr_core *core)
{
    unsigned kept = 1, place[CR_MAX_MEASURED_DRIVERS + 1] = {0};
    for (size_t i = 1; i < l->n_drivers; i++) {
        place[i] = cr_core_knows(core, l->drivers[i].name) ? kept : GONE;
        if (place[i] != GONE) l->drivers[kept++] = l->drivers[i];
    }
    l->n_drivers = kept;
    drop_series(l, place);
}

/* GONE: no memory. */
static unsigned place_of(struct cr_latencies *l, const struct cr_core *core, const char *name)
{
    if (l->n_drivers == 0 && !add_driver(l, UNKNOWN)) return GONE;
    unsigned place = find_driver(l, name);
    if (place != GONE) return place;
    if (l->n_drivers > CR_MAX_MEASURED_DRIVERS) forget_gone(l, core);
    if (l->n_drivers > CR_MAX_MEASURED_DRIVERS) return 0;
    return add_driver(l, name) ? (unsigned)l->n_drivers - 1 : GONE;
}

/* ---- series ---- */

static struct cr_latency *series_of(struct cr_latencies *l, unsigned driver, const char *method, int code)
{
    for (size_t i = 0; i < l->n_series; i++) {
        struct cr_latency *s = &l->series[i];
        if (s->driver == driver && s->method == method && s->code == code) return s;
    }
    void *series = l->series;
    if (!grow(&series, l->n_series, &l->cap_series, sizeof *l->series)) return NULL;
    l->series = series;
    l->series[l->n_series] = (struct cr_latency){.driver = driver, .method = method, .code = code};
    return &l->series[l->n_series++];
}

static void observe(struct cr_latency *s, double seconds)
{
    s->count++;
    s->seconds += seconds;
    for (size_t i = 0; i < CR_LATENCY_BUCKETS; i++) s->buckets[i] += seconds <= cr_latency_bounds[i];
}

void cr_latencies_end(struct cr_latencies *l, const struct cr_core *core, uint64_t id, int code, int64_t now_us)
{
    struct running *r = find_running(l, id);
    if (!r) return;
    cr_list_remove(&r->node);
    cr_list_append(&l->spare, &r->node);
    unsigned driver = place_of(l, core, r->driver.name);
    struct cr_latency *s = driver == GONE ? NULL : series_of(l, driver, cr_rpc_method_path(r->method), code);
    if (s) observe(s, (double)(now_us - r->begin_us) / 1e6);
}

/* ---- the picture ---- */

/* *out: a copy, NULL when there is nothing. False: no memory. */
static bool copy_array(void **out, const void *from, size_t n, size_t size)
{
    if (n == 0) return true;
    *out = cr_calloc(n, size);
    if (*out) memcpy(*out, from, n * size);
    return *out != NULL;
}

static bool fill(struct cr_metrics *m, const struct cr_latencies *l, const struct cr_http *http)
{
    void *drivers = NULL, *latencies = NULL, *requests = NULL;
    const struct cr_http_tally *tallies = cr_http_tallies(http, &m->n_requests);
    bool ok = copy_array(&drivers, l->drivers, l->n_drivers, sizeof *l->drivers) &&
              copy_array(&latencies, l->series, l->n_series, sizeof *l->series) &&
              copy_array(&requests, tallies, m->n_requests, sizeof *tallies);
    m->drivers = drivers;
    m->latencies = latencies;
    m->n_latencies = l->n_series;
    m->requests = requests;
    return ok;
}

struct cr_metrics *cr_metrics_new(const struct cr_core *core, const struct cr_latencies *latencies,
                                  const struct cr_http *http, const struct cr_watcher_status *registry)
{
    struct cr_metrics *m = CR_NEW(struct cr_metrics);
    if (!m) return NULL;
    cr_core_numbers(core, &m->core);
    m->has_registry = registry != NULL;
    if (registry) {
        m->registry_mode = registry->mode;
        m->registry_sockets = registry->sockets;
        m->registry_scans = registry->scans;
    }
    if (fill(m, latencies, http)) return m;
    cr_metrics_free(m);
    return NULL;
}

void cr_metrics_free(struct cr_metrics *m)
{
    if (!m) return;
    cr_free(m->drivers);
    cr_free(m->latencies);
    cr_free(m->requests);
    cr_free(m);
}
