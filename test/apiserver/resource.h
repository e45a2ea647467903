/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resource table: every type that is served, with what sets it apart. A further type is a row here, a schema and
 * two functions. Pure.
 */
#ifndef APISERVER_RESOURCE_H
#define APISERVER_RESOURCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "apiserver/schema.h"

struct as_causes;

enum as_gate { AS_GATE_OFF, AS_GATE_ON, AS_GATE_UNKNOWN };

struct as_gates {
    enum as_gate node_info;     /* CSIControllerGetNodeInfo (KEP-6011); UNKNOWN: a server older than the field */
    enum as_gate volume_health; /* CSIVolumeHealth */
};

/* One create (old NULL) or update on its way into the store. */
struct as_change {
    struct as_gates gates;
    const json_t *old;
    json_t *object; /* decoded; edited in place */
    bool status;    /* through the status subresource */
    struct as_causes *causes;
};

struct as_resource {
    const char *plural, *kind, *group, *version;
    const char *api_version; /* "storage.k8s.io/v1" */
    const char *qualified;   /* "csinodes.storage.k8s.io" */
    bool namespaced;
    bool has_status;          /* has the status subresource */
    bool status_takes_labels; /* which changes labels and annotations too */
    bool deleted_object;      /* DELETE answers the object, else a Status */
    bool needs_version;       /* PUT without resourceVersion is refused */
    bool put_creates;         /* PUT of a missing object creates it */
    const struct as_schema *schema;
    void (*prepare)(struct as_change *c); /* defaults, fields of gates that are off, what the server itself sets */
    void (*validate)(struct as_change *c);
};

#define AS_RESOURCES 3
extern const struct as_resource as_resources[AS_RESOURCES];

size_t as_resource_index(const struct as_resource *type);
const struct as_resource *as_resource_find(const char *plural); /* in any group */

enum as_verb {
    AS_VERB_NONE, /* no resource request, or a method that no verb stands for */
    AS_GET,
    AS_LIST,
    AS_WATCH,
    AS_CREATE,
    AS_UPDATE,
    AS_PATCH,
    AS_DELETE,
    AS_DELETE_COLLECTION,
};

const char *as_verb_name(enum as_verb verb); /* "get"; "" for none */

enum as_route_kind {
    AS_ROUTE_RESOURCE,
    AS_ROUTE_UNKNOWN,   /* inside a served group and version */
    AS_ROUTE_NOT_FOUND, /* outside */
    AS_ROUTE_HEALTH,
    AS_ROUTE_VERSION,
};

/* What a method and a path ask for. */
struct as_route {
    enum as_route_kind kind;
    const struct as_resource *type; /* RESOURCE */
    enum as_verb verb;
    char *namespace_, *name; /* decoded, malloc'ed, NULL when absent */
    const char *subresource; /* "" or "status" */
};

/* path: percent-encoded, without query. watch: the query asks for one. */
void as_route_parse(struct as_route *r, const char *method, const char *path, bool watch);
void as_route_fini(struct as_route *r);

/* Percent-decodes; NULL for a malformed escape or a NUL. plus: "+" is a space. */
char *as_url_decode(const char *s, size_t len, bool plus);

/* Each type's prepare, validate and schema, for the table. */
extern const struct as_schema as_node_schema, as_csinode_schema, as_csidriver_schema;
void as_node_prepare(struct as_change *c);
void as_node_validate(struct as_change *c);
void as_csinode_prepare(struct as_change *c);
void as_csinode_validate(struct as_change *c);
void as_csidriver_prepare(struct as_change *c);
void as_csidriver_validate(struct as_change *c);

#endif
