// SPDX-License-Identifier: Apache-2.0
/* GET /wait: a test waits here for what it expects, instead of sleeping. */
#include <string.h>

#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "apiserver/server.h"
#include "apiserver/watch.h"
#include "common/alloc.h"

#define DEFAULT_TIMEOUT_MS 10000

/* equals: JSON, or a plain text for a string. */
static bool equals(const json_t *value, const char *wanted)
{
    if (json_is_string(value) && !strcmp(json_string_value(value), wanted)) return true;
    json_t *parsed = as_json_parse(wanted, strlen(wanted), NULL);
    bool same = parsed && value && json_equal(parsed, value);
    json_decref(parsed);
    return same;
}

/* What an object predicate says of the present state: pointer is "" for the object itself. */
static bool object_holds(struct apiserver *s, const struct as_params *p, const struct as_resource *type)
{
    const char *pointer = as_param(p, "pointer"), *wanted = as_param(p, "equals"), *absent = as_param(p, "absent");
    const struct as_version *v = as_store_get(&s->store, type, as_param(p, "namespace"), as_param(p, "name"));
    json_t *object = v ? as_version_json(v, NULL) : NULL;
    const json_t *value = object ? as_pointer_get(object, pointer ? pointer : "") : NULL;
    bool holds = absent && strcmp(absent, "false") != 0 ? !value : wanted ? equals(value, wanted) : value != NULL;
    json_decref(object);
    return holds;
}

static bool idle_for(struct apiserver *s, int64_t ms, int64_t *recheck_ns)
{
    int64_t idle_at = s->counts.last_ns + ms * AS_MS;
    if (s->counts.in_flight) return false;
    *recheck_ns = idle_at;
    return as_now_ns() >= idle_at;
}

static bool holds(struct apiserver *s, const struct as_params *p, int64_t *recheck_ns)
{
    const char *resource = as_param(p, "resource");
    *recheck_ns = AS_FOREVER;
    if (as_param(p, "atLeast")) return (int64_t)as_counts_select(&s->counts, p) >= as_param_int(p, "atLeast", 0);
    if (as_param(p, "openWatches")) return (int64_t)as_watch_count(s, resource) >= as_param_int(p, "openWatches", 0);
    if (as_param(p, "idleMs")) return idle_for(s, as_param_int(p, "idleMs", 0), recheck_ns);
    return object_holds(s, p, as_resource_find(resource));
}

static bool is_understood(const struct as_params *p)
{
    if (as_param(p, "atLeast") || as_param(p, "openWatches") || as_param(p, "idleMs")) return true;
    const char *resource = as_param(p, "resource");
    return as_param(p, "name") && resource && as_resource_find(resource);
}

int as_wait(struct apiserver *s, const struct as_params *p, char **out_error)
{
    int64_t recheck, deadline = as_now_ns() + as_param_int(p, "timeoutMs", DEFAULT_TIMEOUT_MS) * AS_MS;
    if (!is_understood(p)) {
        *out_error = need_strdup("wait needs atLeast, openWatches, idleMs, or resource and name");
        return 400;
    }
    pthread_mutex_lock(&s->mu);
    bool there = holds(s, p, &recheck);
    while (!there && !s->stopping && as_now_ns() < deadline) {
        as_cond_wait(&s->changed, &s->mu, recheck < deadline ? recheck : deadline);
        there = holds(s, p, &recheck);
    }
    pthread_mutex_unlock(&s->mu);
    return there ? 200 : 408;
}
