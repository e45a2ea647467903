/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated API server: Node, CSINode and CSIDriver with the rules that matter here (resourceVersion, immutable
 * entries, equal ids in both lists, the feature gate, preconditions), foreign writers, the controller side, and faults.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/sim.h"

struct reply {
    int status;
    const char *reason;
    json_t *body; /* owned */
};

static void stamp(struct sim *s, json_t *object)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)++s->server.version);
    json_object_set_new(json_object_get(object, "metadata"), "resourceVersion", json_string(text));
}

static void new_node(struct sim *s)
{
    char uid[32];
    snprintf(uid, sizeof uid, "node-%llu", (unsigned long long)++s->generation);
    json_decref(s->server.node);
    s->server.node = json_pack("{s:s,s:s,s:{s:s,s:s,s:{s:s,s:s},s:{s:s}},s:{s:s}}", "apiVersion", "v1", "kind", "Node",
                               "metadata", "name", "n1", "uid", uid, "labels", "taken.example.com/zone", "theirs", "os",
                               "linux", "annotations", "foreign", "kept", "spec", "podCIDR", "10.0.0.0/24");
    stamp(s, s->server.node);
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
    stamp(s, s->server.csinode);
}

void server_init(struct sim *s)
{
    new_node(s);
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

static json_t *list_of(const json_t *csinode, const char *list)
{
    return json_object_get(json_object_get(csinode, "spec"), list);
}

json_t *server_find(const json_t *csinode, const char *list, const char *name)
{
    size_t k;
    json_t *entry;
    json_array_foreach (list_of(csinode, list), k, entry) {
        const char *n = json_string_value(json_object_get(entry, "name"));
        if (n && strcmp(n, name) == 0) return entry;
    }
    return NULL;
}

static const char *meta(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(json_object_get(object, "metadata"), key));
}

/* ---- the rules ---- */

static struct reply status(int code, const char *reason, const char *kind)
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

static bool valid(const json_t *old, const json_t *new)
{
    size_t k;
    const json_t *entry;
    json_array_foreach (list_of(new, "drivers"), k, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        const json_t *before = old && name ? server_find(old, "drivers", name) : NULL;
        const char *id = json_string_value(json_object_get(entry, "nodeID"));
        if (!name || !*name || !id || !*id) return false;
        if (before && (!same_member(before, entry, "nodeID") || !same_member(before, entry, "topologyKeys")))
            return false;
        const json_t *r = server_find(new, "driverRegistrations", name);
        if (r && !same_member(r, entry, "nodeID")) return false;
    }
    return true;
}

static void apply_gate(struct sim *s, const json_t *old, json_t *new)
{
    if (s->server.gate || json_array_size(list_of(old, "driverRegistrations")) > 0) return;
    json_object_del(json_object_get(new, "spec"), "driverRegistrations");
}

static struct reply store(struct sim *s, json_t *new, int code)
{
    json_t *old = s->server.csinode;
    apply_gate(s, old, new);
    if (!valid(old, new)) {
        json_decref(new);
        return status(422, "Invalid", "CSINode");
    }
    bool same = old && json_equal(json_object_get(old, "spec"), json_object_get(new, "spec")) &&
                json_equal(json_object_get(old, "metadata"), json_object_get(new, "metadata"));
    if (!same) {
        stamp(s, new);
        check_write(s, old, new);
    }
    s->server.csinode = new;
    json_decref(old);
    return ok(code, new);
}

static struct reply put(struct sim *s, const char *text)
{
    json_t *new = json_loads(text, 0, NULL);
    const char *version = meta(new, "resourceVersion");
    struct reply r;
    if (!new || !version)
        r = status(422, "Invalid", "CSINode");
    else if (!s->server.csinode)
        r = status(404, "NotFound", "csinodes");
    else if (strcmp(version, meta(s->server.csinode, "resourceVersion")) != 0)
        r = status(409, "Conflict", "csinodes");
    else
        return store(s, new, 200);
    json_decref(new);
    return r;
}

static struct reply post(struct sim *s, const char *text)
{
    if (s->server.csinode) return status(409, "AlreadyExists", "csinodes");
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
        r = status(404, "NotFound", "csinodes");
    else if (!uid || !version || strcmp(uid, meta(s->server.csinode, "uid")) != 0 ||
             strcmp(version, meta(s->server.csinode, "resourceVersion")) != 0)
        r = status(409, "Conflict", "csinodes");
    else {
        const json_t *owner =
            json_array_get(json_object_get(json_object_get(s->server.csinode, "metadata"), "ownerReferences"), 0);
        const char *owner_uid = json_string_value(json_object_get(owner, "uid"));
        if (owner_uid && strcmp(owner_uid, meta(s->server.node, "uid")) == 0)
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
    const char *version = meta(change, "resourceVersion");
    struct reply r;
    if (!s->server.node) {
        r = status(404, "NotFound", "nodes");
    } else if (!version || strcmp(version, meta(s->server.node, "resourceVersion")) != 0) {
        r = status(409, "Conflict", "nodes");
    } else {
        json_t *nm = json_object_get(s->server.node, "metadata");
        if (json_object_size(change) != 1) sim_fail(s, "patch", "the Node patch has more than metadata");
        if (json_object_get(json_object_get(m, "labels"), "taken.example.com/zone"))
            sim_fail(s, "labels", "an existing label is overwritten");
        merge(json_object_get(nm, "labels"), json_object_get(m, "labels"));
        if (!json_object_get(nm, "annotations")) json_object_set_new(nm, "annotations", json_object());
        merge(json_object_get(nm, "annotations"), json_object_get(m, "annotations"));
        stamp(s, s->server.node);
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

static struct reply execute(struct sim *s, const struct cr_api_request *r)
{
    bool node = strncmp(r->resource, "nodes", 5) == 0;
    if (strcmp(r->resource, "csidrivers") == 0) return list(s);
    switch (r->method) {
    case CR_HTTP_GET:
        if (node) return s->server.node ? ok(200, s->server.node) : status(404, "NotFound", "nodes");
        return s->server.csinode ? ok(200, s->server.csinode) : status(404, "NotFound", "csinodes");
    case CR_HTTP_PATCH:
        return patch(s, r->body);
    case CR_HTTP_PUT:
        return put(s, r->body);
    case CR_HTTP_POST:
        return post(s, r->body);
    case CR_HTTP_DELETE:
        return delete (s, r->body);
    }
    return status(405, "MethodNotAllowed", "");
}

/* ---- requests and their faults ---- */

static void deliver(struct sim *s, struct event *e)
{
    struct cr_input in = {.kind = CR_IN_API_DONE, .id = e->id, .api = &e->api};
    sim_trace(s, "answer of the API server: %s%d %s", e->api.transport ? "transport " : "",
              e->api.transport ? (int)e->api.transport : e->api.status, e->api.body ? e->api.body : "");
    if (e->flag && e->api.status < 300 && e->api.transport == CR_TRANSPORT_OK && e->api.body) {
        json_t *object = json_loads(e->api.body, 0, NULL);
        const char *kind = json_string_value(json_object_get(object, "kind"));
        if (kind && strcmp(kind, "CSINode") == 0) {
            json_decref(s->seen);
            s->seen = json_incref(object);
        }
        if (kind && strcmp(kind, "Node") == 0) snprintf(s->seen_uid, sizeof s->seen_uid, "%s", meta(object, "uid"));
        json_decref(object);
    }
    sim_input(s, &in);
}

static void set_body(struct cr_api_answer *a, const char *text)
{
    cr_free(a->body);
    a->body = cr_strdup(text);
    a->body_len = strlen(text);
}

static void nonsense(struct sim *s, struct cr_api_answer *a)
{
    static const char *const bodies[] = {"<html>login</html>", "", "{\"kind\":\"CSINode\",\"meta", "{\"kind\":\"Pod\"}",
                                         "[]"};
    a->status = 200;
    set_body(a, bodies[sim_below(s, 5)]);
}

static void refuse(struct sim *s, struct cr_api_answer *a)
{
    static const int codes[] = {401, 403, 422, 429, 429, 500, 503, 504};
    int code = codes[sim_below(s, 8)];
    struct reply r = status(code, code == 403 ? "Forbidden" : code == 422 ? "Invalid" : "Other", "csinodes");
    char *text = json_dumps(r.body, JSON_COMPACT);
    a->status = r.status;
    if (code == 429) a->retry_after_ms = 1000;
    set_body(a, text);
    free(text);
    json_decref(r.body);
}

static void answer(struct sim *s, struct event *e, const struct cr_api_request *r)
{
    struct reply reply = execute(s, r);
    char *text = json_dumps(reply.body, JSON_COMPACT);
    e->api.status = reply.status;
    e->flag = true; /* a body that the object was really in */
    set_body(&e->api, text);
    free(text);
    json_decref(reply.body);
}

static void foreign_write(struct sim *s);
static void open_watch(struct sim *s, const struct cr_effect *effect);

static void serve(struct sim *s, struct event *e, const struct cr_api_request *r)
{
    bool write = r->method != CR_HTTP_GET;
    e->api.retry_after_ms = -1;
    if (s->server.down || sim_chance(s, 4)) {
        e->api.transport = CR_TRANSPORT_CONNECT;
    } else if (sim_chance(s, 6)) {
        refuse(s, &e->api);
    } else if (sim_chance(s, 3) && write) { /* stored, the answer is lost */
        answer(s, e, r);
        e->flag = false;
        e->api.transport = CR_TRANSPORT_BROKEN;
    } else if (sim_chance(s, 3)) {
        if (sim_below(s, 2)) answer(s, e, r);
        e->flag = false;
        nonsense(s, &e->api);
    } else {
        if (sim_chance(s, 10)) foreign_write(s);
        answer(s, e, r);
    }
}

static void execute_later(struct sim *s, struct event *e);

struct request_event { /* a request on its way: kept apart because struct event is copied */
    struct cr_api_request request;
    char seen_uid[32]; /* of the Node as the core knew it when it sent this */
};

void server_request(struct sim *s, struct cr_effect *effect)
{
    struct cr_api_request *r = &effect->request;
    sim_trace(s, "  request %s %s %s", r->verb, r->path, r->body ? r->body : "");
    s->server.requests++;
    if (r->watch) {
        open_watch(s, effect);
        return;
    }
    struct event *e =
        sim_later(s, 1 + (int64_t)sim_below(s, s->faults && sim_below(s, 5) == 0 ? 3000 : 20), execute_later);
    e->id = effect->id;
    struct request_event *box = calloc(1, sizeof *box);
    box->request = *r;
    memcpy(box->seen_uid, s->seen_uid, sizeof box->seen_uid);
    *r = (struct cr_api_request){0};
    e->api.text = (char *)box; /* until it is executed */
}

static void to_nobody(struct sim *s, struct event *e)
{
    (void)s;
    (void)e;
}

/* The core that sent it is gone; the request is on its way all the same. */
bool server_orphan(struct event *e)
{
    if (e->run != execute_later) return false;
    e->id = 0;
    return true;
}

/* The server works half way between request and answer. */
static void execute_later(struct sim *s, struct event *e)
{
    struct request_event *box = (void *)e->api.text;
    e->api.text = NULL;
    struct event *done = sim_later(s, 1 + (int64_t)sim_below(s, 10), e->id ? deliver : to_nobody);
    done->id = e->id;
    s->orphan = e->id == 0;
    memcpy(s->planned_uid, box->seen_uid, sizeof s->planned_uid);
    serve(s, done, &box->request);
    s->orphan = false;
    if (sim_chance(s, 1)) {
        done->at_ms += box->request.timeout_ms;
        done->api.transport = CR_TRANSPORT_TIMEOUT;
        done->flag = false;
    }
    cr_api_request_fini(&box->request);
    free(box);
}

void server_cancel(struct sim *s, uint64_t id)
{
    struct event *e = sim_later(s, 1, deliver);
    if (id == s->watch) {
        e->id = id;
        e->api.transport = CR_TRANSPORT_CANCELLED;
        e->api.retry_after_ms = -1;
        s->watch = 0;
        return;
    }
    s->n_events--; /* other requests simply come to their end */
}

/* ---- others who write ---- */

static void set_entry(json_t *csinode, const char *list, json_t *entry)
{
    json_t *array = list_of(csinode, list);
    if (!json_is_array(array)) {
        array = json_array();
        json_object_set_new(json_object_get(csinode, "spec"), list, array);
    }
    json_array_append_new(array, entry);
}

/* The controller side completes what is registered. */
static void complete(struct sim *s)
{
    size_t k;
    const json_t *r;
    json_array_foreach (list_of(s->server.csinode, "driverRegistrations"), k, r) {
        const char *name = json_string_value(json_object_get(r, "name"));
        if (server_find(s->server.csinode, "drivers", name)) continue;
        set_entry(s->server.csinode, "drivers",
                  json_pack("{s:s,s:O,s:[s],s:{s:i}}", "name", name, "nodeID", json_object_get(r, "nodeID"),
                            "topologyKeys", "controller/zone", "allocatable", "count", 77));
        stamp(s, s->server.csinode);
        return;
    }
}

static void foreign_write(struct sim *s)
{
    unsigned what = (unsigned)sim_below(s, 4);
    if (what == 0 && s->server.csinode) {
        json_object_set_new(json_object_get(s->server.csinode, "metadata"), "touched",
                            json_integer((json_int_t)++s->generation));
        stamp(s, s->server.csinode);
    } else if (what == 1 && s->server.node) {
        json_object_set_new(json_object_get(json_object_get(s->server.node, "metadata"), "labels"), "beat",
                            json_string(s->server.version % 2 ? "a" : "b"));
        stamp(s, s->server.node);
    } else if (what == 2 && s->server.csinode) {
        complete(s);
    }
}

/* Every event since the version at which the open watch stands, in order, exactly once. */
static void flush_watch(struct sim *s, struct event *e)
{
    size_t k;
    json_t *event;
    (void)e;
    json_array_foreach (s->server.history, k, event) {
        const char *version = meta(json_object_get(event, "object"), "resourceVersion");
        uint64_t v = version ? strtoull(version, NULL, 10) : 0;
        if (!s->watch || v <= s->watch_version) continue;
        s->watch_version = v;
        char *line = json_dumps(event, JSON_COMPACT);
        struct cr_input in = {.kind = CR_IN_WATCH_LINE, .id = s->watch, .text = line};
        sim_trace(s, "watch: %s", line);
        sim_input(s, &in);
        free(line);
    }
}

/* A clean end, as at the watch's timeoutSeconds. */
static void close_watch(struct sim *s, struct event *e)
{
    if (s->watch != e->id) return;
    s->watch = 0;
    e->api.status = 200;
    e->api.retry_after_ms = -1;
    deliver(s, e);
}

static uint64_t parameter(const char *path, const char *name)
{
    const char *at = strstr(path, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void open_watch(struct sim *s, const struct cr_effect *effect)
{
    const char *path = effect->request.path;
    s->watch = effect->id;
    s->watch_version = parameter(path, "resourceVersion=");
    sim_later(s, 1, flush_watch);
    sim_later(s, (int64_t)parameter(path, "timeoutSeconds=") * 1000, close_watch)->id = effect->id;
}

static void send_watch(struct sim *s, const char *type, const char *name, const json_t *spec)
{
    json_t *object = json_pack("{s:s,s:{s:s},s:O}", "kind", "CSIDriver", "metadata", "name", name, "spec", spec);
    json_t *copy = json_deep_copy(object);
    json_decref(object);
    stamp(s, copy);
    json_array_append_new(s->server.history, json_pack("{s:s,s:o}", "type", type, "object", copy));
    flush_watch(s, NULL);
}

/* attachRequired is immutable: it changes when the object is deleted and made anew. */
static void csidriver_churn(struct sim *s)
{
    const struct plugin *p = &s->plugins[sim_below(s, (uint64_t)s->n_plugins)];
    if (!sim_chance(s, 10)) return;
    json_t *spec = json_object_get(s->server.attach, p->name);
    if (spec && sim_below(s, 2)) {
        json_incref(spec);
        json_object_del(s->server.attach, p->name);
        send_watch(s, "DELETED", p->name, spec);
        json_decref(spec);
        return;
    }
    bool fresh = !spec;
    if (fresh) {
        spec = json_pack("{s:b}", "attachRequired", (int)sim_below(s, 2));
        json_object_set_new(s->server.attach, p->name, spec);
    }
    if (sim_below(s, 2))
        json_object_set_new(spec, "nodeAllocatableUpdatePeriodSeconds", json_integer(9 + (json_int_t)sim_below(s, 20)));
    else
        json_object_del(spec, "nodeAllocatableUpdatePeriodSeconds");
    send_watch(s, fresh ? "ADDED" : "MODIFIED", p->name, spec);
}

static void end_watch(struct sim *s)
{
    static const char expired[] = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}";
    if (!s->watch) return;
    struct cr_input line = {.kind = CR_IN_WATCH_LINE, .id = s->watch, .text = sim_below(s, 2) ? expired : "{garbage"};
    if (sim_below(s, 2)) sim_input(s, &line);
    sim_later(s, 1, close_watch)->id = s->watch;
}

void server_churn(struct sim *s)
{
    if (sim_chance(s, 20)) foreign_write(s);
    if (sim_chance(s, 3)) s->server.down = !s->server.down;
    if (s->server.down && sim_chance(s, 30)) s->server.down = false;
    if (sim_chance(s, 1)) s->server.gate = !s->server.gate;
    if (sim_chance(s, 1) && s->server.csinode) {
        sim_trace(s, "-- somebody deletes the CSINode");
        json_decref(s->server.csinode);
        s->server.csinode = NULL;
    }
    if (sim_chance(s, 1)) {
        sim_trace(s, "-- the Node is made anew");
        new_node(s);
    }
    csidriver_churn(s);
    if (sim_chance(s, 3)) end_watch(s);
}
