/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated API server: Node, CSINode and CSIDriver with the rules that matter here (resourceVersion, immutable
 * entries, equal ids in both lists, the feature gate, preconditions).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/server.h"

void server_stamp(struct sim *s, json_t *object)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)++s->server.version);
    json_object_set_new(json_object_get(object, "metadata"), "resourceVersion", json_string(text));
}

void server_new_node(struct sim *s)
{
    char uid[32];
    snprintf(uid, sizeof uid, "node-%llu", (unsigned long long)++s->generation);
    json_decref(s->server.node);
    s->server.node = json_pack("{s:s,s:s,s:{s:s,s:s,s:{s:s,s:s},s:{s:s}},s:{s:s}}", "apiVersion", "v1", "kind", "Node",
                               "metadata", "name", "n1", "uid", uid, "labels", "taken.example.com/zone", "theirs", "os",
                               "linux", "annotations", "foreign", "kept", "spec", "podCIDR", "10.0.0.0/24");
    server_stamp(s, s->server.node);
}

static void foreign_csinode(struct sim *s)
{
    json_t *node_meta = json_object_get(s->server.node, "metadata");
    s->server.csinode =
        json_pack("{s:s,s:s,s:{s:s,s:s,s:s,s:[{s:s,s:s,s:s,s:O}]},s:{s:[{s:s,s:s,s:[s],s:s}],s:s},s:{s:s}}",
                  "apiVersion", "storage.k8s.io/v1", "kind", "CSINode", "metadata", "name", "n1", "uid", "csinode-0",
                  "future", "field", "ownerReferences", "apiVersion", "v1", "kind", "Node", "name", "n1", "uid",
                  json_object_get(node_meta, "uid"), "spec", "drivers", "name", "foreign.example.com", "nodeID", "f-1",
                  "topologyKeys", "f/zone", "unknown", "kept", "later", "kept", "status", "s", "kept");
    server_stamp(s, s->server.csinode);
}

void server_init(struct sim *s)
{
    server_new_node(s);
    if (sim_below(s, 2)) foreign_csinode(s);
    s->server.attach = json_object();
    s->server.history = json_array();
    s->server.gate = sim_below(s, 4) != 0;
}

void server_fini(struct sim *s)
{
    json_decref(s->server.node);
    json_decref(s->server.csinode);
    json_decref(s->server.attach);
    json_decref(s->server.history);
}

/* ---- reading objects ---- */

json_t *server_list(const json_t *csinode, const char *list)
{
    return json_object_get(json_object_get(csinode, "spec"), list);
}

json_t *server_find(const json_t *csinode, const char *list, const char *name)
{
    size_t k;
    json_t *entry;
    json_array_foreach (server_list(csinode, list), k, entry) {
        const char *n = json_string_value(json_object_get(entry, "name"));
        if (n && strcmp(n, name) == 0) return entry;
    }
    return NULL;
}

const char *server_meta(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(json_object_get(object, "metadata"), key));
}

/* ---- the rules ---- */

struct reply server_status(int code, const char *reason, const char *kind)
{
    json_t *body = json_pack("{s:s,s:s,s:s,s:s,s:i,s:{s:s,s:s}}", "kind", "Status", "apiVersion", "v1", "status",
                             "Failure", "reason", reason, "code", code, "details", "name", "n1", "kind", kind);
    return (struct reply){code, reason, body};
}

static struct reply ok(int code, const json_t *object) { return (struct reply){code, NULL, json_deep_copy(object)}; }

static bool same_member(const json_t *a, const json_t *b, const char *key)
{
    const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
    bool x_empty = !x || json_is_null(x) || (json_is_array(x) && json_array_size(x) == 0);
    bool y_empty = !y || json_is_null(y) || (json_is_array(y) && json_array_size(y) == 0);
    return (x_empty && y_empty) || json_equal(x, y);
}

static bool refused(const struct sim *s, const char *name)
{
    for (int i = 0; i < 2 * s->n_plugins; i++)
        if (s->plugins[i / 2].kind == REFUSED && strcmp(s->plugins[i / 2].names[i % 2], name) == 0) return true;
    return false;
}

static bool of_refused(const struct sim *s, const json_t *csinode)
{
    bool any = false;
    for (int i = 0; i < 4 * s->n_plugins; i++) {
        const struct plugin *p = &s->plugins[i / 4];
        any |=
            p->kind == REFUSED && server_find(csinode, i % 2 ? "drivers" : "driverRegistrations", p->names[i / 2 % 2]);
    }
    return any;
}

static bool valid(const struct sim *s, const json_t *old, const json_t *new)
{
    size_t k;
    const json_t *entry;
    json_array_foreach (server_list(new, "drivers"), k, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const json_t *before = old && name ? server_find(old, "drivers", name) : NULL;
        const char *id = json_string_value(json_object_get(entry, "nodeID"));
        if (!before && name && refused(s, name)) return false;
        if (!name || !*name || !id || !*id) return false;
        if (before && (!same_member(before, entry, "nodeID") || !same_member(before, entry, "topologyKeys")))
            return false;
        const json_t *r = server_find(new, "driverRegistrations", name);
        if (r && !same_member(r, entry, "nodeID")) return false;
    }
    json_array_foreach (server_list(new, "driverRegistrations"), k, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        bool before = old && name && server_find(old, "driverRegistrations", name);
        if (!name || (!before && refused(s, name))) return false;
    }
    return true;
}

static void apply_gate(struct sim *s, const json_t *old, json_t *new)
{
    if (s->server.gate || json_array_size(server_list(old, "driverRegistrations")) > 0) return;
    json_object_del(json_object_get(new, "spec"), "driverRegistrations");
}

/* An admission webhook that takes something out. */
static void admit(struct sim *s, json_t *csinode)
{
    static const char *const lists[] = {"driverRegistrations", "drivers"};
    for (int i = 0; i < 2 * s->n_plugins; i++) {
        const char *list = lists[i % 2], *name = s->plugins[i / 2].name;
        json_t *entries = server_list(csinode, list);
        if (!server_find(csinode, list, name) || server_find(csinode, lists[1 - i % 2], name)) continue;
        for (size_t k = json_array_size(entries); k-- > 0;)
            if (json_array_get(entries, k) == server_find(csinode, list, name)) json_array_remove(entries, k);
        return;
    }
}

static struct reply store(struct sim *s, json_t *new, int code)
{
    json_t *old = s->server.csinode;
    apply_gate(s, old, new);
    if (!valid(s, old, new)) {
        struct reply r = server_status(422, "Invalid", "CSINode");
        if (of_refused(s, new)) json_object_set_new(r.body, "message", json_string(OF_REFUSED));
        json_decref(new);
        return r;
    }
    bool same = old && json_equal(json_object_get(old, "spec"), json_object_get(new, "spec")) &&
                json_equal(json_object_get(old, "metadata"), json_object_get(new, "metadata"));
    if (!same) {
        server_stamp(s, new);
        check_write(s, old, new);
        if (sim_chance(s, 2)) admit(s, new);
    }
    s->server.csinode = new;
    json_decref(old);
    return ok(code, new);
}

static struct reply put(struct sim *s, const char *text)
{
    json_t *new = json_loads(text, 0, NULL);
    const char *version = server_meta(new, "resourceVersion");
    struct reply r;
    if (!new || !version)
        r = server_status(422, "Invalid", "CSINode");
    else if (!s->server.csinode)
        r = server_status(404, "NotFound", "csinodes");
    else if (strcmp(version, server_meta(s->server.csinode, "resourceVersion")) != 0)
        r = server_status(409, "Conflict", "csinodes");
    else
        return store(s, new, 200);
    json_decref(new);
    return r;
}

static struct reply post(struct sim *s, const char *text)
{
    if (s->server.csinode) return server_status(409, "AlreadyExists", "csinodes");
    json_t *new = json_loads(text, 0, NULL);
    char uid[32];
    snprintf(uid, sizeof uid, "csinode-%llu", (unsigned long long)++s->generation);
    json_object_set_new(json_object_get(new, "metadata"), "uid", json_string(uid));
    return store(s, new, 201);
}

static struct reply delete (struct sim *s, const char *text)
{
    json_t *options = json_loads(text, 0, NULL);
    const json_t *pre = json_object_get(options, "preconditions");
    const char *uid = json_string_value(json_object_get(pre, "uid"));
    const char *version = json_string_value(json_object_get(pre, "resourceVersion"));
    struct reply r;
    if (!s->server.csinode)
        r = server_status(404, "NotFound", "csinodes");
    else if (!uid || !version || strcmp(uid, server_meta(s->server.csinode, "uid")) != 0 ||
             strcmp(version, server_meta(s->server.csinode, "resourceVersion")) != 0)
        r = server_status(409, "Conflict", "csinodes");
    else {
        const json_t *owner =
            json_array_get(json_object_get(json_object_get(s->server.csinode, "metadata"), "ownerReferences"), 0);
        const char *owner_uid = json_string_value(json_object_get(owner, "uid"));
        if (owner_uid && strcmp(owner_uid, server_meta(s->server.node, "uid")) == 0)
            sim_fail(s, "live objects stay", "a CSINode owned by the live Node is deleted");
        r = ok(200, s->server.csinode);
        json_decref(s->server.csinode);
        s->server.csinode = NULL;
        s->server.version++;
    }
    json_decref(options);
    return r;
}

static void merge(json_t *into, const json_t *changes)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)changes, key, value) {
        if (json_is_null(value))
            json_object_del(into, key);
        else
            json_object_set(into, key, value);
    }
}

static struct reply patch(struct sim *s, const char *text)
{
    json_t *change = json_loads(text, 0, NULL);
    const json_t *m = json_object_get(change, "metadata");
    const char *version = server_meta(change, "resourceVersion");
    struct reply r;
    if (!s->server.node) {
        r = server_status(404, "NotFound", "nodes");
    } else if (!version || strcmp(version, server_meta(s->server.node, "resourceVersion")) != 0) {
        r = server_status(409, "Conflict", "nodes");
    } else {
        json_t *nm = json_object_get(s->server.node, "metadata"), *before = json_deep_copy(nm);
        if (json_object_size(change) != 1) sim_fail(s, "patch", "the Node patch has more than metadata");
        if (json_object_get(json_object_get(m, "labels"), "taken.example.com/zone"))
            sim_fail(s, "labels", "an existing label is overwritten");
        merge(json_object_get(nm, "labels"), json_object_get(m, "labels"));
        if (!json_object_get(nm, "annotations")) json_object_set_new(nm, "annotations", json_object());
        merge(json_object_get(nm, "annotations"), json_object_get(m, "annotations"));
        check_patch(s, before, nm);
        json_decref(before);
        server_stamp(s, s->server.node);
        r = ok(200, s->server.node);
    }
    json_decref(change);
    return r;
}

static struct reply list(struct sim *s)
{
    json_t *items = json_array();
    const char *name;
    json_t *attach;
    json_object_foreach (s->server.attach, name, attach)
        json_array_append_new(items, json_pack("{s:{s:s},s:O}", "metadata", "name", name, "spec", attach));
    char version[24];
    snprintf(version, sizeof version, "%llu", (unsigned long long)s->server.version);
    json_t *body = json_pack("{s:s,s:s,s:{s:s},s:o}", "kind", "CSIDriverList", "apiVersion", "storage.k8s.io/v1",
                             "metadata", "resourceVersion", version, "items", items);
    return (struct reply){200, NULL, body};
}

struct reply server_execute(struct sim *s, const struct cr_api_request *r)
{
    bool node = strncmp(r->resource, "nodes", 5) == 0;
    if (strcmp(r->resource, "csidrivers") == 0) return list(s);
    switch (r->method) {
    case CR_HTTP_GET:
        if (node) return s->server.node ? ok(200, s->server.node) : server_status(404, "NotFound", "nodes");
        return s->server.csinode ? ok(200, s->server.csinode) : server_status(404, "NotFound", "csinodes");
    case CR_HTTP_PATCH:
        return patch(s, r->body);
    case CR_HTTP_PUT:
        return put(s, r->body);
    case CR_HTTP_POST:
        return post(s, r->body);
    case CR_HTTP_DELETE:
        return delete (s, r->body);
    }
    return server_status(405, "MethodNotAllowed", "");
}
