// SPDX-License-Identifier: Apache-2.0
#include "apiserver/store.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "common/alloc.h"

struct as_version *as_version_ref(struct as_version *v)
{
    atomic_fetch_add(&v->refs, 1);
    return v;
}

void as_version_unref(struct as_version *v)
{
    if (!v || atomic_fetch_sub(&v->refs, 1) != 1) return;
    free(v->user);
    free(v->namespace_);
    free(v->name);
    free(v->text);
    free(v);
}

/* A server older than KEP-6011's field cannot tell that it is stored. */
static bool hides(const struct as_version *v, const struct as_gates *gates)
{
    return gates->node_info == AS_GATE_UNKNOWN && strstr(v->text, "\"driverRegistrations\"");
}

json_t *as_version_json(const struct as_version *v, const struct as_gates *gates)
{
    json_t *stored = as_json_parse(v->text, v->len, NULL);
    if (!gates || !hides(v, gates)) return stored;
    struct as_decoding d = {.registrations_known = false, .strict = json_array()};
    json_t *known = as_schema_decode(v->type->schema, stored, &d);
    json_decref(d.strict);
    json_decref(stored);
    struct as_change c = {.gates = *gates, .old = known, .object = known};
    v->type->prepare(&c);
    return known;
}

char *as_version_text(const struct as_version *v, const struct as_gates *gates)
{
    if (!gates || !hides(v, gates)) return need_strdup(v->text);
    json_t *known = as_version_json(v, gates);
    char *text = as_json_text(known);
    json_decref(known);
    return text;
}

char *as_version_full(const struct as_version *v, const struct as_gates *gates)
{
    char *text = as_version_text(v, gates);
    char *full =
        need_printf("{\"kind\":\"%s\",\"apiVersion\":\"%s\",%s", v->type->kind, v->type->api_version, text + 1);
    free(text);
    return full;
}

json_t *as_full_json(const struct as_resource *type, const json_t *object)
{
    json_t *full = json_pack("{s:s, s:s}", "kind", type->kind, "apiVersion", type->api_version);
    json_object_update(full, (json_t *)object);
    return full;
}

static struct as_version *version_new(const struct as_resource *type, const json_t *object, const char *user,
                                      enum as_verb verb, uint64_t rv)
{
    const json_t *metadata = json_object_get(object, "metadata");
    struct as_version *v = NEED_NEW(struct as_version);
    atomic_init(&v->refs, 1);
    v->type = type;
    v->rv = rv;
    v->ns = as_now_ns();
    v->verb = verb;
    v->user = need_strdup(user);
    v->namespace_ = need_strdup(as_json_str(metadata, "namespace"));
    v->name = need_strdup(as_json_str(metadata, "name"));
    v->text = as_json_text(object);
    v->len = strlen(v->text);
    return v;
}

static int compare(const void *a, const void *b)
{
    const struct as_object *x = a, *y = b;
    int by_namespace = strcmp(x->namespace_, y->namespace_);
    return by_namespace ? by_namespace : strcmp(x->name, y->name);
}

static void object_free(void *p)
{
    struct as_object *o = p;
    for (size_t i = 0; i < o->n; i++) as_version_unref(o->versions[i]);
    free(o->versions);
    free(o->namespace_);
    free(o->name);
    free(o);
}

void as_store_init(struct as_store *s, size_t window, void (*committed)(void *user, const struct as_resource *type),
                   void *user)
{
    *s = (struct as_store){.rv = 1, .committed = committed, .user = user};
    for (size_t i = 0; i < AS_RESOURCES; i++) {
        s->events[i].ring = need_calloc(window, sizeof(struct as_event));
        s->events[i].size = window;
    }
}

static void event_fini(struct as_event *e)
{
    as_version_unref(e->version);
    as_version_unref(e->before);
    *e = (struct as_event){0};
}

void as_store_compact(struct as_store *s, const struct as_resource *type)
{
    struct as_events *e = as_store_events(s, type);
    for (uint64_t n = e->first; n < e->next; n++) event_fini(&e->ring[n % e->size]);
    e->first = e->next;
    e->compacted = s->rv;
}

void as_store_reset(struct as_store *s)
{
    s->rv++;
    for (size_t i = 0; i < AS_RESOURCES; i++) {
        as_store_compact(s, &as_resources[i]);
        tdestroy(s->trees[i], object_free);
        s->trees[i] = NULL;
        s->present[i] = 0;
    }
}

void as_store_fini(struct as_store *s)
{
    as_store_reset(s);
    for (size_t i = 0; i < AS_RESOURCES; i++) free(s->events[i].ring);
}

struct as_object *as_store_find(struct as_store *s, const struct as_resource *type, const char *ns, const char *name)
{
    struct as_object key = {.namespace_ = (char *)(ns ? ns : ""), .name = (char *)name};
    void *found = tfind(&key, &s->trees[as_resource_index(type)], compare);
    return found ? *(struct as_object **)found : NULL;
}

struct as_version *as_store_get(struct as_store *s, const struct as_resource *type, const char *ns, const char *name)
{
    struct as_object *o = as_store_find(s, type, ns, name);
    return o ? o->current : NULL;
}

static void add_event(struct as_store *s, const struct as_resource *type, struct as_version *v,
                      struct as_version *before)
{
    struct as_events *e = as_store_events(s, type);
    if (e->next - e->first == e->size) {
        struct as_event *oldest = &e->ring[e->first++ % e->size];
        e->compacted = oldest->version->rv;
        event_fini(oldest);
    }
    e->bytes += v->len;
    e->ring[e->next++ % e->size] =
        (struct as_event){as_version_ref(v), before ? as_version_ref(before) : NULL, e->bytes};
}

static void forget_half(struct as_object *o)
{
    size_t half = o->n / 2;
    for (size_t i = 0; i < half; i++) as_version_unref(o->versions[i]);
    memmove(o->versions, o->versions + half, (o->n - half) * sizeof(struct as_version *));
    o->n -= half;
}

static void add_version(struct as_store *s, struct as_object *o, struct as_version *v, struct as_version *current)
{
    add_event(s, v->type, v, o->current);
    if (o->n == AS_MAX_VERSIONS) forget_half(o);
    if (o->n == o->cap) {
        o->cap = o->cap ? o->cap * 2 : 4;
        o->versions = need_array(o->versions, o->cap, sizeof *o->versions);
    }
    o->versions[o->n++] = v;
    size_t *present = &s->present[as_resource_index(v->type)];
    *present = *present + (current != NULL) - (o->current != NULL);
    o->current = current;
    s->committed(s->user, v->type);
}

static uint64_t stamp(struct as_store *s, json_t *object)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, ++s->rv);
    as_json_set(as_json_child(object, "metadata"), "resourceVersion", json_string(text));
    return s->rv;
}

struct as_version *as_store_put(struct as_store *s, const struct as_resource *type, json_t *object, const char *user,
                                enum as_verb verb)
{
    uint64_t rv = stamp(s, object);
    struct as_version *v = version_new(type, object, user, verb, rv);
    struct as_object *o = as_store_find(s, type, v->namespace_, v->name);
    if (!o) {
        o = NEED_NEW(struct as_object);
        o->namespace_ = need_strdup(v->namespace_);
        o->name = need_strdup(v->name);
        tsearch(o, &s->trees[as_resource_index(type)], compare);
    }
    add_version(s, o, v, v);
    return v;
}

struct as_version *as_store_delete(struct as_store *s, struct as_object *o, const char *user)
{
    const struct as_resource *type = o->current->type;
    json_t *last = as_version_json(o->current, NULL);
    uint64_t rv = stamp(s, last);
    struct as_version *v = version_new(type, last, user, AS_DELETE, rv);
    json_decref(last);
    add_version(s, o, v, NULL);
    return v;
}

struct visit {
    void (*visit)(void *user, struct as_version *version);
    void *user;
};

static void visit_node(const void *node, VISIT which, void *closure)
{
    struct as_object *o = *(struct as_object *const *)node;
    struct visit *v = closure;
    if ((which == postorder || which == leaf) && o->current) v->visit(v->user, o->current);
}

void as_store_each(struct as_store *s, const struct as_resource *type,
                   void (*visit)(void *user, struct as_version *version), void *user)
{
    struct visit v = {visit, user};
    twalk_r(s->trees[as_resource_index(type)], visit_node, &v);
}

struct as_events *as_store_events(struct as_store *s, const struct as_resource *type)
{
    return &s->events[as_resource_index(type)];
}

const struct as_event *as_event_at(const struct as_events *e, uint64_t number) { return &e->ring[number % e->size]; }

uint64_t as_events_after(const struct as_events *e, uint64_t rv)
{
    uint64_t low = e->first, high = e->next;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (as_event_at(e, middle)->version->rv > rv)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
