/* SPDX-License-Identifier: Apache-2.0 */
/* The rig's world: plugins, drivers and an API server that answer as they should, unless a fault is set. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/node.h"
#include "unit/core_rig.h"

static struct rig_fault *fault_of(struct rig *r, const struct rig_line *l)
{
    for (size_t i = 0; i < r->n_faults; i++) {
        struct rig_fault *f = &r->faults[i];
        if (f->times == 0 || strncmp(l->text, f->match, strlen(f->match)) != 0) continue;
        if (f->times > 0) f->times--;
        return f;
    }
    return NULL;
}

/* ---- plugins ---- */

static const struct rig_plugin *plugin_at(const struct rig *r, const char *path, bool *out_open)
{
    for (size_t i = 0; i < r->n_plugins; i++) {
        const struct rig_plugin *p = &r->plugins[i];
        bool registration = strcmp(p->path, path) == 0;
        *out_open = registration ? p->listening : p->serving;
        if (registration || strcmp(p->endpoint, path) == 0) return p;
    }
    return NULL;
}

static void answer_connect(struct rig *r, struct rig_line *l)
{
    bool open = false;
    const struct rig_fault *f = fault_of(r, l);
    const struct rig_plugin *p = plugin_at(r, l->path, &open);
    struct cr_input in = {.kind = CR_IN_CONNECTED, .id = l->id};
    in.error_number = f ? f->number : !p ? ENOENT : open ? 0 : ECONNREFUSED;
    in.ok = l->kind == CR_EFF_PROBE;
    l->open = in.error_number == 0 && l->kind == CR_EFF_CONNECT;
    rig_input(r, &in);
}

static void say_info(const struct rig_plugin *p, struct cr_plugin_info *out)
{
    out->type = cr_strdup(p->type);
    out->name = cr_strdup(p->name);
    out->endpoint = cr_strdup(p->said_endpoint ? p->said_endpoint : p->endpoint);
    while (out->n_versions < 4 && p->versions[out->n_versions]) out->n_versions++;
    out->versions = cr_strv_dup(p->versions, out->n_versions);
}

static void say_capabilities(const struct rig_plugin *p, struct cr_node_capabilities *out)
{
    while (out->n_types < 4 && p->capabilities[out->n_types]) out->n_types++;
    out->types = cr_calloc(4, sizeof *out->types);
    memcpy(out->types, p->capabilities, sizeof p->capabilities);
}

static void say_node_info(const struct rig_plugin *p, bool flagged, struct cr_node_info *out)
{
    out->node_id = cr_strdup(p->node_id);
    out->max_volumes = p->limit;
    if (flagged) return; /* wire hands no topology on then */
    out->segments = cr_calloc(8, sizeof *out->segments);
    for (; out->n_segments < 8 && p->topology[out->n_segments]; out->n_segments++) {
        const char *pair = p->topology[out->n_segments], *equals = strchr(pair, '=');
        struct cr_pair *s = &out->segments[out->n_segments];
        s->key = cr_strndup(pair, (size_t)(equals - pair));
        s->value = cr_strdup(equals + 1);
    }
}

static void answer_rpc(struct rig *r, struct rig_line *l)
{
    bool open;
    struct rig_line *c = NULL;
    for (size_t i = 0; i < r->n_lines && !c; i++)
        if (r->lines[i].id == l->conn) c = &r->lines[i];
    const struct rig_plugin *p = plugin_at(r, c->path, &open);
    const struct rig_fault *f = l->cancelled ? NULL : fault_of(r, l);
    struct cr_rpc_result res = {0};
    struct cr_input in = {.kind = CR_IN_RPC_DONE, .id = l->id, .rpc = &res};
    if (f || l->cancelled) {
        res.code = f ? f->number : CR_GRPC_CANCELLED;
        res.refused = f && f->refused;
        res.text = f ? cr_strdup(f->text) : NULL;
    } else if (l->method == CR_RPC_GET_INFO) {
        say_info(p, &res.plugin);
    } else if (l->method == CR_RPC_NODE_GET_CAPABILITIES) {
        say_capabilities(p, &res.capabilities);
    } else if (l->method == CR_RPC_NODE_GET_INFO) {
        say_node_info(p, l->flag, &res.node);
    }
    rig_input(r, &in);
    cr_rpc_result_fini(&res);
}

/* ---- the API server ---- */

static void stamp(struct rig *r, json_t *object)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)++r->version);
    json_object_set_new(json_object_get(object, "metadata"), "resourceVersion", json_string(text));
}

void rig_new_node(struct rig *r)
{
    char uid[32];
    snprintf(uid, sizeof uid, "node-%llu", (unsigned long long)++r->generation);
    json_decref(r->node);
    r->node = json_pack("{s:s,s:s,s:{s:s,s:s,s:{s:s},s:{}}}", "apiVersion", "v1", "kind", "Node", "metadata", "name",
                        "n1", "uid", uid, "labels", "os", "linux", "annotations");
    stamp(r, r->node);
}

void rig_world_init(struct rig *r)
{
    rig_new_node(r);
    r->attach = json_object();
    r->periods = json_object();
    r->keeps_registrations = true;
}

static json_t *member(const json_t *object, const char *a, const char *b)
{
    return json_object_get(json_object_get(object, a), b);
}

static const char *meta(const json_t *object, const char *key)
{
    const char *text = json_string_value(member(object, "metadata", key));
    return text ? text : "";
}

void rig_set_csinode(struct rig *r, const char *spec)
{
    char uid[32];
    snprintf(uid, sizeof uid, "csinode-%llu", (unsigned long long)++r->generation);
    json_decref(r->csinode);
    r->csinode = json_pack("{s:s,s:s,s:{s:s,s:s,s:[{s:s,s:s,s:s,s:s}]},s:o}", "apiVersion", "storage.k8s.io/v1", "kind",
                           "CSINode", "metadata", "name", "n1", "uid", uid, "ownerReferences", "apiVersion", "v1",
                           "kind", "Node", "name", "n1", "uid", meta(r->node, "uid"), "spec", rig_json(spec));
    stamp(r, r->csinode);
}

void rig_touch_csinode(struct rig *r)
{
    json_object_set_new(json_object_get(r->csinode, "metadata"), "touched", json_integer((json_int_t)++r->generation));
    stamp(r, r->csinode);
}

void rig_touch_node(struct rig *r) { stamp(r, r->node); }

static json_t *entry(const json_t *csinode, const char *list, const char *name)
{
    size_t k;
    json_t *e;
    json_array_foreach (member(csinode, "spec", list), k, e) {
        const char *n = json_string_value(json_object_get(e, "name"));
        if (n && strcmp(n, name) == 0) return e;
    }
    return NULL;
}

json_t *rig_entry(struct rig *r, const char *list, const char *name) { return entry(r->csinode, list, name); }

const char *rig_label(struct rig *r, const char *key)
{
    return json_string_value(json_object_get(member(r->node, "metadata", "labels"), key));
}

const char *rig_ids(struct rig *r)
{
    const char *text =
        json_string_value(json_object_get(member(r->node, "metadata", "annotations"), CR_NODE_ID_ANNOTATION));
    return text ? text : "";
}

static json_t *status(int code, const char *reason, const char *kind)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:{s:s,s:s}}", "kind", "Status", "apiVersion", "v1", "status", "Failure",
                     "reason", reason, "message", "the server's words", "code", code, "details", "name", "n1", "kind",
                     kind);
}

static json_t *fails(int *code, int with, const char *reason, const char *kind)
{
    *code = with;
    return status(with, reason, kind);
}

static bool same(const json_t *a, const json_t *b, const char *key)
{
    const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
    return json_array_size(x) + json_array_size(y) == 0 || json_equal(x, y);
}

static const char *id_of(const json_t *e) { return json_string_value(json_object_get(e, "nodeID")); }

/* What is immutable, and equal ids in both lists. */
static bool valid(const json_t *old, const json_t *new)
{
    size_t k;
    const json_t *d;
    json_array_foreach (member(new, "spec", "drivers"), k, d) {
        const char *name = json_string_value(json_object_get(d, "name"));
        const json_t *before = entry(old, "drivers", name), *r = entry(new, "driverRegistrations", name);
        if (before && (strcmp(id_of(before), id_of(d)) != 0 || !same(before, d, "topologyKeys"))) return false;
        if (r && strcmp(id_of(r), id_of(d)) != 0) return false;
    }
    return true;
}

static json_t *store(struct rig *r, json_t *new, int *code)
{
    bool used = json_array_size(member(r->csinode, "spec", "driverRegistrations")) > 0;
    if (!r->keeps_registrations && !used) json_object_del(json_object_get(new, "spec"), "driverRegistrations");
    if (!valid(r->csinode, new)) return fails(code, 422, "Invalid", "CSINode");
    if (r->always && !entry(new, "drivers", r->always) && !entry(new, "driverRegistrations", r->always))
        fail_msg("a CSINode without %s was stored", r->always);
    json_decref(r->csinode);
    r->csinode = json_incref(new);
    stamp(r, r->csinode);
    return json_deep_copy(new);
}

static bool meets(const json_t *object, const char *uid, const char *version)
{
    return strcmp(meta(object, "uid"), uid) == 0 && strcmp(meta(object, "resourceVersion"), version) == 0;
}

static json_t *put(struct rig *r, json_t *new, int *code)
{
    if (!r->csinode) return fails(code, 404, "NotFound", "csinodes");
    if (!meets(r->csinode, meta(new, "uid"), meta(new, "resourceVersion")))
        return fails(code, 409, "Conflict", "csinodes");
    return store(r, new, code);
}

static json_t *post(struct rig *r, json_t *new, int *code)
{
    char uid[32];
    if (r->csinode) return fails(code, 409, "AlreadyExists", "csinodes");
    snprintf(uid, sizeof uid, "csinode-%llu", (unsigned long long)++r->generation);
    json_object_set_new(json_object_get(new, "metadata"), "uid", json_string(uid));
    *code = 201;
    return store(r, new, code);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static json_t *delete_csinode(struct rig *r, const json_t *options, int *code)
{
    const json_t *pre = json_object_get(options, "preconditions");
    if (!r->csinode) return fails(code, 404, "NotFound", "csinodes");
    if (!meets(r->csinode, text_of(pre, "uid"), text_of(pre, "resourceVersion")))
        return fails(code, 409, "Conflict", "csinodes");
    json_t *gone = r->csinode;
    r->csinode = NULL;
    return gone;
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

static json_t *patch_node(struct rig *r, const json_t *change, int *code)
{
    const char *version = meta(change, "resourceVersion");
    if (!r->node) return fails(code, 404, "NotFound", "nodes");
    if (*version && strcmp(version, meta(r->node, "resourceVersion")) != 0)
        return fails(code, 409, "Conflict", "nodes");
    merge(member(r->node, "metadata", "labels"), member(change, "metadata", "labels"));
    merge(member(r->node, "metadata", "annotations"), member(change, "metadata", "annotations"));
    stamp(r, r->node);
    return json_deep_copy(r->node);
}

static json_t *list(const struct rig *r)
{
    json_t *items = json_array();
    const char *name;
    json_t *attach;
    json_object_foreach (r->attach, name, attach) {
        json_t *item = json_pack("{s:{s:s},s:{s:O}}", "metadata", "name", name, "spec", "attachRequired", attach);
        json_t *period = json_object_get(r->periods, name);
        if (period) json_object_set(json_object_get(item, "spec"), "nodeAllocatableUpdatePeriodSeconds", period);
        json_array_append_new(items, item);
    }
    return json_pack("{s:s,s:s,s:{s:s},s:o}", "kind", "CSIDriverList", "apiVersion", "storage.k8s.io/v1", "metadata",
                     "resourceVersion", "100", "items", items);
}

static json_t *execute(struct rig *r, const struct cr_api_request *q, int *code)
{
    bool node = strncmp(q->resource, "nodes", 5) == 0;
    json_t *body = q->body ? json_loads(q->body, JSON_REJECT_DUPLICATES, NULL) : NULL, *reply = NULL;
    *code = 200;
    if (strcmp(q->resource, "csidrivers") == 0)
        reply = list(r);
    else if (q->method == CR_HTTP_GET && node)
        reply = r->node ? json_deep_copy(r->node) : fails(code, 404, "NotFound", "nodes");
    else if (q->method == CR_HTTP_GET)
        reply = r->csinode ? json_deep_copy(r->csinode) : fails(code, 404, "NotFound", "csinodes");
    else if (q->method == CR_HTTP_PATCH)
        reply = patch_node(r, body, code);
    else if (q->method == CR_HTTP_PUT)
        reply = put(r, body, code);
    else if (q->method == CR_HTTP_POST)
        reply = post(r, body, code);
    else
        reply = delete_csinode(r, body, code);
    json_decref(body);
    return reply;
}

static void set_body(struct cr_api_answer *a, json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    cr_free(a->body);
    a->body = cr_strdup(text);
    a->body_len = text ? strlen(text) : 0;
    free(text);
    json_decref(body);
}

static void fail_answer(struct cr_api_answer *a, const struct rig_fault *f, const struct cr_api_request *q)
{
    a->transport = f->transport;
    a->status = f->number;
    if (f->retry_after_s) a->retry_after_ms = f->retry_after_s * 1000;
    if (f->transport != CR_TRANSPORT_OK) {
        set_body(a, NULL);
    } else if (f->body) {
        set_body(a, NULL);
        a->body = cr_strdup(f->body);
        a->body_len = strlen(f->body);
    } else {
        set_body(a, status(f->number, f->reason ? f->reason : "", f->kind ? f->kind : q->resource));
    }
}

static void answer_api(struct rig *r, struct rig_line *l)
{
    struct cr_api_answer a = {.retry_after_ms = -1};
    struct cr_input in = {.kind = CR_IN_API_DONE, .id = l->id, .api = &a};
    const struct rig_fault *f = l->cancelled ? NULL : fault_of(r, l);
    bool replaced = f && (f->number || f->transport || f->body);
    if (f && f->before) f->before(r);
    if (l->cancelled)
        a.transport = CR_TRANSPORT_CANCELLED;
    else if (!replaced || f->commit)
        set_body(&a, execute(r, &l->request, &a.status));
    if (replaced) fail_answer(&a, f, &l->request);
    rig_input(r, &in);
    cr_api_answer_fini(&a);
}

void rig_answer_line(struct rig *r, struct rig_line *l)
{
    l->out = false;
    if (l->kind == CR_EFF_CONNECT || l->kind == CR_EFF_PROBE)
        answer_connect(r, l);
    else if (l->kind == CR_EFF_RPC)
        answer_rpc(r, l);
    else
        answer_api(r, l);
}
