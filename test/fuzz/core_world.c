/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/core_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/csinode.h"
#include "core/json.h"
#include "core/node.h"
#include "fuzz/fuzz.h"

/* ---- objects ---- */

static json_t *metadata_of(const json_t *object) { return json_object_get(object, "metadata"); }

static void touch(struct world *w, json_t *object)
{
    char version[32];
    snprintf(version, sizeof version, "%u", ++w->version);
    if (object) json_object_set_new(metadata_of(object), "resourceVersion", json_string(version));
}

static void set_uid(struct world *w, json_t *object, const char *kind)
{
    char uid[32];
    snprintf(uid, sizeof uid, "%s-uid-%u", kind, ++w->version);
    json_object_set_new(metadata_of(object), "uid", json_string(uid));
    touch(w, object);
}

static void make_node(struct world *w)
{
    json_decref(w->node);
    w->node = json_pack("{s:s,s:s,s:{s:s,s:{s:s},s:{s:s}},s:{s:[]}}", "kind", "Node", "apiVersion", "v1", "metadata",
                        "name", "n1", "labels", "kubernetes.io/hostname", "n1", "annotations", CR_NODE_ID_ANNOTATION,
                        "{\"" WORLD_FOREIGN "\":\"f-1\"}", "status", "conditions");
    set_uid(w, w->node, "node");
}

static void make_csinode(struct world *w, const char *owner)
{
    json_decref(w->csinode);
    w->csinode = json_pack("{s:s,s:s,s:{s:s,s:[{s:s,s:s,s:s,s:s}]},s:{s:[{s:s,s:s,s:[s],s:{s:i}},{s:s,s:s,s:n}]},s:s}",
                           "kind", "CSINode", "apiVersion", "storage.k8s.io/v1", "metadata", "name", "n1",
                           "ownerReferences", "apiVersion", "v1", "kind", "Node", "name", "n1", "uid", owner, "spec",
                           "drivers", "name", WORLD_FOREIGN, "nodeID", "f-1", "topologyKeys", "f", "future", "x", 1,
                           "name", "a.example.com", "nodeID", "old", "topologyKeys", "unknown", "kept");
    set_uid(w, w->csinode, "csinode");
}

static const char *uid_of(const json_t *object)
{
    const char *uid = cr_json_str(metadata_of(object), "uid");
    return uid ? uid : "none";
}

struct world *world_new(bool gate, uint8_t state, bool prunes)
{
    struct world *w = calloc(1, sizeof *w);
    CHECK(w);
    w->keeps_registrations = gate && !(state & 1);
    w->attach = !(state & 2);
    w->trusts = prunes;
    if (!(state & 4)) make_node(w);
    if (state & 8) make_csinode(w, state & 16 ? "stale" : uid_of(w->node));
    for (uint64_t i = 0; i < WORLD_PLUGINS; i++)
        w->identities[i] = (struct cr_identity){.dev = 1, .ino = i + 1, .birth_ns = (int64_t)i};
    w->last_inode = WORLD_PLUGINS;
    return w;
}

void world_free(struct world *w)
{
    json_decref(w->node);
    json_decref(w->csinode);
    free(w);
}

/* ---- checks ---- */

static bool is_ours(const json_t *entry) { return !cr_json_is(json_object_get(entry, "name"), WORLD_FOREIGN); }

static json_t *without_ours(const json_t *csinode)
{
    static const char *const lists[] = {"drivers", "driverRegistrations"};
    json_t *copy = json_deep_copy(csinode), *spec = json_object_get(copy, "spec");
    for (size_t k = 0; k < 2; k++) {
        json_t *list = json_object_get(spec, lists[k]);
        for (size_t i = json_array_size(list); i-- > 0;)
            if (is_ours(json_array_get(list, i))) json_array_remove(list, i);
        if (cr_json_empty(list)) json_object_del(spec, lists[k]);
    }
    if (cr_json_empty(spec)) json_object_del(copy, "spec");
    json_object_del(metadata_of(copy), "resourceVersion");
    json_object_del(metadata_of(copy), "ownerReferences"); /* the right owner may be added */
    json_object_del(metadata_of(copy), "annotations");     /* the migrated plugins, and there is nothing else */
    return copy;
}

static void check_update(const struct world *w, const json_t *new)
{
    if (w->trusts) return;
    json_t *a = without_ours(w->csinode), *b = without_ours(new);
    CHECK(json_equal(a, b));
    json_decref(a);
    json_decref(b);
}

static void check_labels(const struct world *w, const json_t *labels)
{
    const char *key;
    json_t *value;
    const json_t *have = json_object_get(metadata_of(w->node), "labels");
    json_object_foreach ((json_t *)labels, key, value) {
        const json_t *old = json_object_get(have, key);
        CHECK(!old || json_equal(old, value));
    }
}

static void check_annotation(const json_t *text)
{
    json_t *map = json_loads(json_is_string(text) ? json_string_value(text) : "{}", 0, NULL);
    CHECK(json_is_object(map));
    CHECK(cr_json_is(json_object_get(map, WORLD_FOREIGN), "f-1"));
    json_decref(map);
}

/* ---- requests ---- */

static int status_body(int code, const char *reason, const char *kind, json_t **out)
{
    *out = json_pack("{s:s,s:s,s:s,s:i,s:{s:s,s:s}}", "kind", "Status", "status", "Failure", "reason", reason, "code",
                     code, "details", "name", "n1", "kind", kind);
    return code;
}

static int give(const json_t *object, const char *kind, json_t **out)
{
    if (!object) return status_body(404, "NotFound", kind, out);
    *out = json_deep_copy(object);
    return 200;
}

static bool same_version(const json_t *stored, const json_t *metadata)
{
    const json_t *version = json_object_get(metadata, "resourceVersion");
    return !version || json_equal(version, json_object_get(metadata_of(stored), "resourceVersion"));
}

static int patch_node(struct world *w, const json_t *body, json_t **out)
{
    const json_t *metadata = metadata_of(body), *labels = json_object_get(metadata, "labels");
    const json_t *annotation = json_object_get(json_object_get(metadata, "annotations"), CR_NODE_ID_ANNOTATION);
    json_t *mine = metadata_of(w->node);
    if (!w->node) return status_body(404, "NotFound", "nodes", out);
    if (!same_version(w->node, metadata)) return status_body(409, "Conflict", "nodes", out);
    if (!w->trusts) {
        check_labels(w, labels);
        if (annotation) check_annotation(annotation);
    }
    if (labels) json_object_update(json_object_get(mine, "labels"), (json_t *)labels);
    if (json_is_string(annotation))
        json_object_set(json_object_get(mine, "annotations"), CR_NODE_ID_ANNOTATION, (json_t *)annotation);
    else if (annotation)
        json_object_del(json_object_get(mine, "annotations"), CR_NODE_ID_ANNOTATION);
    touch(w, w->node);
    return give(w->node, "nodes", out);
}

static void store_csinode(struct world *w, json_t *body)
{
    if (!w->keeps_registrations) json_object_del(json_object_get(body, "spec"), "driverRegistrations");
    json_incref(body);
    json_decref(w->csinode);
    w->csinode = body;
    touch(w, body);
}

static int put_csinode(struct world *w, json_t *body, json_t **out)
{
    CHECK(cr_csinode_check(body, "n1", NULL) == 0);
    if (!w->csinode) return status_body(404, "NotFound", "csinodes", out);
    if (!same_version(w->csinode, metadata_of(body))) return status_body(409, "Conflict", "csinodes", out);
    check_update(w, body);
    store_csinode(w, body);
    return give(w->csinode, "csinodes", out);
}

static int post_csinode(struct world *w, json_t *body, json_t **out)
{
    if (w->csinode) return status_body(409, "AlreadyExists", "csinodes", out);
    json_object_del(metadata_of(body), "uid");
    store_csinode(w, body);
    set_uid(w, w->csinode, "csinode");
    give(w->csinode, "csinodes", out);
    return 201;
}

static int delete_csinode(struct world *w, const json_t *body, json_t **out)
{
    const json_t *conditions = json_object_get(body, "preconditions"), *uid = json_object_get(conditions, "uid");
    CHECK(uid);
    if (!w->csinode) return status_body(404, "NotFound", "csinodes", out);
    if (!cr_json_is(uid, uid_of(w->csinode)) || !same_version(w->csinode, conditions))
        return status_body(409, "Conflict", "csinodes", out);
    json_decref(w->csinode);
    w->csinode = NULL;
    *out = json_pack("{s:s,s:s}", "kind", "Status", "status", "Success");
    return 200;
}

static json_t *csidriver(struct world *w, const char *name, bool attach, int period)
{
    char version[32];
    snprintf(version, sizeof version, "%u", ++w->version);
    return json_pack("{s:s,s:{s:s,s:s},s:{s:b,s:i}}", "kind", "CSIDriver", "metadata", "name", name, "resourceVersion",
                     version, "spec", "attachRequired", attach, "nodeAllocatableUpdatePeriodSeconds", period);
}

static int list_csidrivers(struct world *w, json_t **out)
{
    json_t *a = csidriver(w, "a.example.com", w->attach, 60), *b = csidriver(w, "b.example.com", true, 0);
    *out =
        json_pack("{s:s,s:{s:s},s:[o,o]}", "kind", "CSIDriverList", "metadata", "resourceVersion", "7", "items", a, b);
    return 200;
}

static int execute(struct world *w, const struct cr_api_request *r, json_t **out)
{
    json_t *body = NULL;
    bool node = strcmp(r->resource, "nodes") == 0 || strcmp(r->resource, "nodes/status") == 0;
    if (r->body) CHECK(cr_json_parse(r->body, strlen(r->body), JSON_REJECT_DUPLICATES, &body, NULL) == 0);
    int code = 200;
    if (strcmp(r->resource, "csidrivers") == 0)
        code = r->watch ? 200 : list_csidrivers(w, out);
    else if (r->method == CR_HTTP_GET)
        code = give(node ? w->node : w->csinode, node ? "nodes" : "csinodes", out);
    else if (r->method == CR_HTTP_PATCH)
        code = patch_node(w, body, out);
    else if (r->method == CR_HTTP_PUT)
        code = put_csinode(w, body, out);
    else if (r->method == CR_HTTP_POST)
        code = post_csinode(w, body, out);
    else
        code = delete_csinode(w, body, out);
    json_decref(body);
    return code;
}

void world_answer(struct world *w, const struct cr_api_request *r, struct cr_api_answer *out)
{
    json_t *body = NULL;
    out->status = execute(w, r, &body);
    out->body = body ? cr_json_text(body, 0) : NULL;
    out->body_len = out->body ? strlen(out->body) : 0;
    json_decref(body);
}

void world_commit(struct world *w, const struct cr_api_request *r)
{
    json_t *body = NULL;
    execute(w, r, &body);
    json_decref(body);
}

/* ---- others ---- */

static void edit_entry(struct world *w, uint8_t how)
{
    json_t *list = json_object_get(json_object_get(w->csinode, "spec"), "drivers");
    json_t *entry = json_array_get(list, json_array_size(list) ? json_array_size(list) - 1 : 0);
    if (!entry || !is_ours(entry)) return;
    if (how & 16)
        json_array_remove(list, json_array_size(list) - 1);
    else
        json_object_set_new(entry, "nodeID", json_string("edited"));
}

void world_change(struct world *w, uint8_t how)
{
    switch (how % 8) {
    case 0:
        make_node(w);
        break;
    case 1:
        json_decref(w->node);
        w->node = NULL;
        break;
    case 2:
        make_csinode(w, how & 16 ? "stale" : uid_of(w->node));
        break;
    case 3:
        json_decref(w->csinode);
        w->csinode = NULL;
        break;
    case 4:
        edit_entry(w, how);
        touch(w, w->csinode);
        break;
    case 5:
        if (w->node) json_object_del(json_object_get(metadata_of(w->node), "labels"), "topology.example.com/zone");
        touch(w, w->node);
        break;
    case 6:
        w->attach = how & 16;
        break;
    default:
        touch(w, w->node);
        touch(w, w->csinode);
        break;
    }
}

char *world_watch_event(struct world *w, uint8_t how)
{
    static const char *const types[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "MODIFIED", "", "ADDED"};
    const char *name = how & 16 ? "a.example.com" : "b.example.com";
    json_t *object = csidriver(w, name, how & 32, how & 64 ? 30 : 0);
    json_t *event = json_pack("{s:s,s:o}", "type", types[how >> 1 & 7], "object", object);
    char *line = json_dumps(event, JSON_COMPACT);
    json_decref(event);
    CHECK(line);
    return line;
}

/* ---- what plugins say ---- */

void world_plugin_info(struct cr_plugin_info *out, const char *name, const char *endpoint, bool foreign_type)
{
    static const char *const versions[] = {"1.0.0", "0.3.0"};
    *out = (struct cr_plugin_info){.type = cr_strdup(foreign_type ? "DevicePlugin" : "CSIPlugin"),
                                   .name = cr_strdup(name),
                                   .endpoint = cr_strdup(endpoint),
                                   .versions = cr_strv_dup(versions, 2),
                                   .n_versions = 2};
}

void world_capabilities(struct cr_node_capabilities *out)
{
    out->types = cr_calloc(2, sizeof *out->types);
    out->types[0] = 1;
    out->types[1] = 9;
    out->n_types = 2;
}

void world_node_info(struct cr_node_info *out, int how, bool flag)
{
    static const char *const keys[] = {"topology.example.com/zone", "zone"};
    size_t n = flag ? 0 : (size_t)how % 4 % 3;
    *out = (struct cr_node_info){.node_id = cr_strdup(how & 4 ? "id-2" : "id-1"),
                                 .max_volumes = flag      ? 0
                                                : how & 8 ? 39
                                                          : -1,
                                 .segments = cr_calloc(n + 1, sizeof *out->segments),
                                 .n_segments = n};
    for (size_t i = 0; i < n; i++) out->segments[i] = (struct cr_pair){cr_strdup(keys[i]), cr_strdup("z1")};
}
