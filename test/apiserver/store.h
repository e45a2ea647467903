/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All objects with all their versions, one resourceVersion counter, and per resource the window of events that watches
 * read. The caller holds the server's lock, but for ref and unref.
 *
 * A version is immutable text: the object without kind and apiVersion, as "{...}". Answers are made by putting those in
 * front of it; only writes parse it.
 */
#ifndef APISERVER_STORE_H
#define APISERVER_STORE_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "apiserver/resource.h"

#define AS_MAX_VERSIONS 100000 /* kept of one object; then the older half goes */

struct as_version {
    atomic_uint refs;
    const struct as_resource *type;
    uint64_t rv;
    int64_t ns;        /* monotonic, when it was stored */
    enum as_verb verb; /* what made it; AS_DELETE: the last state, with the version of the deletion */
    char *user;
    char *namespace_, *name; /* namespace "" when cluster-scoped */
    size_t len;
    char *text;
};

struct as_version *as_version_ref(struct as_version *v);
void as_version_unref(struct as_version *v); /* NULL is fine */

/* What a server with these gates knows of a version; NULL: all that is stored. As a new tree; as malloc'ed text; the
 * same with kind and apiVersion in front. */
json_t *as_version_json(const struct as_version *v, const struct as_gates *gates);
char *as_version_text(const struct as_version *v, const struct as_gates *gates);
char *as_version_full(const struct as_version *v, const struct as_gates *gates);
json_t *as_full_json(const struct as_resource *type, const json_t *object); /* the same for a tree; new */

struct as_event {
    struct as_version *version, *before; /* before: NULL for the first of an object's life */
    uint64_t bytes;                      /* text bytes of all events of the resource up to this one */
};

/* The newest events of a resource: numbers first .. next-1, event n at ring[n % size]. */
struct as_events {
    struct as_event *ring;
    size_t size;
    uint64_t first, next;
    uint64_t compacted; /* version of the newest event that is gone; older starts are "too old" */
    uint64_t bytes;
};

struct as_object {
    char *namespace_, *name;      /* key */
    struct as_version *current;   /* NULL: deleted */
    struct as_version **versions; /* oldest first, deletions included */
    size_t n, cap;
};

struct as_store {
    void *trees[AS_RESOURCES]; /* of as_object, by namespace and name */
    size_t present[AS_RESOURCES];
    struct as_events events[AS_RESOURCES];
    uint64_t rv;
    void (*committed)(void *user, const struct as_resource *type);
    void *user;
};

void as_store_init(struct as_store *s, size_t window, void (*committed)(void *user, const struct as_resource *type),
                   void *user);
void as_store_fini(struct as_store *s);
void as_store_reset(struct as_store *s); /* the counter goes on */
void as_store_compact(struct as_store *s, const struct as_resource *type);

/* Borrowed; NULL when there is none (find: never was one). */
struct as_object *as_store_find(struct as_store *s, const struct as_resource *type, const char *ns, const char *name);
struct as_version *as_store_get(struct as_store *s, const struct as_resource *type, const char *ns, const char *name);

/* Stores object as the newest version of the object that its metadata names, and sets its resourceVersion. Borrowed. */
struct as_version *as_store_put(struct as_store *s, const struct as_resource *type, json_t *object, const char *user,
                                enum as_verb verb);
/* Ends an object that exists; the version of the deletion. */
struct as_version *as_store_delete(struct as_store *s, struct as_object *o, const char *user);

/* Calls visit for every present object in order of namespace and name. */
void as_store_each(struct as_store *s, const struct as_resource *type,
                   void (*visit)(void *user, struct as_version *version), void *user);

struct as_events *as_store_events(struct as_store *s, const struct as_resource *type);
const struct as_event *as_event_at(const struct as_events *e, uint64_t number);
/* The number of the first event with a version above rv. */
uint64_t as_events_after(const struct as_events *e, uint64_t rv);

#endif
