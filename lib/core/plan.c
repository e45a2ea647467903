/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to write next. Compares what the drivers desire with the objects as last received and gives the one write that
 * comes first:
 *   1 Node: labels and annotation keys that are missing (before the entry in CSINode is visible)
 *   2 CSINode: entries added, changed, removed; or the object made, or replaced when its owner is an earlier Node
 *   3 Node: annotation keys whose entries are gone
 * After each answer the comparison starts over, so a foreign writer, a lost answer or a restart needs no case of its
 * own.
 */
#include <string.h>

#include "base/mem.h"
#include "core/csinode.h"
#include "core/internal.h"
#include "core/json.h"

#define NODE_BASE_MS 10000 /* an older Node is read again before a conditional patch: its agents write it often */

bool cr_plan_is_install(const struct cr_driver *d) { return d->desired.want >= CR_WANT_NODE_FLOW; }

static const struct cr_driver *isolated(const struct cr_core *core)
{
    CR_LIST_FOREACH (l, &core->drivers) {
        const struct cr_driver *d = cr_driver_of(l);
        if (d->isolated && d->pending && d->not_before_ms <= core->now.mono_ms) return d;
    }
    return NULL;
}

bool cr_plan_considers(const struct cr_core *core, const struct cr_driver *d)
{
    const struct cr_driver *alone = isolated(core);
    if (d->desired.want == CR_WANT_LEAVE) return false;
    if (alone) return d == alone;
    if (d->pending) return d->not_before_ms <= core->now.mono_ms && d->grace_ms <= core->now.mono_ms;
    return core->publisher.repair && cr_plan_is_install(d);
}

static struct cr_csinode_driver entry(const struct cr_driver *d)
{
    return (struct cr_csinode_driver){.name = d->name,
                                      .node_id = d->desired.node_id,
                                      .topology_keys = d->desired.keys,
                                      .n_topology_keys = d->desired.n_labels,
                                      .has_count = d->desired.has_count,
                                      .count = d->desired.count};
}

static bool clean(const json_t *obj, const char *name)
{
    return !cr_csinode_driver_node_id(obj, name) &&
           cr_csinode_match_registration(obj, name, "") == CR_REGISTRATION_ABSENT;
}

bool cr_plan_csinode_satisfied(const struct cr_core *core, const struct cr_driver *d)
{
    const json_t *obj = core->publisher.csinode;
    const struct cr_csinode_driver want = entry(d);
    const char *other;
    switch (d->desired.want) {
    case CR_WANT_LEAVE:
        return true;
    case CR_WANT_REMOVE:
        return !obj || clean(obj, d->name);
    case CR_WANT_NODE_FLOW:
        return obj && cr_csinode_match_driver(obj, &want) == CR_DRIVER_EQUAL &&
               cr_csinode_match_registration(obj, d->name, "") == CR_REGISTRATION_ABSENT;
    case CR_WANT_CONTROLLER_FLOW:
        other = obj ? cr_csinode_driver_node_id(obj, d->name) : NULL;
        return obj && cr_csinode_match_registration(obj, d->name, d->desired.node_id) == CR_REGISTRATION_EQUAL &&
               (!other || strcmp(other, d->desired.node_id) == 0);
    }
    return false;
}

/* A refusal, or the end of a foreign object, may not rest on a Node that was read before the attempt began. */
static bool node_is_fresh(const struct cr_core *core, const struct cr_driver *d)
{
    return core->publisher.node_slot.read_seq > d->fresh_after;
}

static void mark(struct cr_driver *d, bool expected)
{
    d->sent = true;
    d->expected = expected;
}

/* ---- Node ---- */

struct node_edit {
    json_t *labels, *ids; /* labels to add; the whole annotation as a map */
    bool ids_readable, ids_changed;
    bool failed; /* no memory */
};

static void edit_fini(struct node_edit *e)
{
    json_decref(e->labels);
    json_decref(e->ids);
}

static const char *label_in(const json_t *labels, const char *key)
{
    return json_string_value(json_object_get(labels, key));
}

/* Another driver of this very write reports the same label with another value. */
static struct csireg_error *clash(const struct cr_driver *d, const struct node_edit *e)
{
    for (size_t k = 0; k < d->desired.n_labels; k++) {
        const struct cr_pair *l = &d->desired.labels[k];
        const char *other = label_in(e->labels, l->key);
        if (other && strcmp(other, l->value) != 0)
            return cr_error_new(
                CSIREG_ERR_REFUSED,
                "label %s: the driver reports \"%s\", but another driver reported \"%s\" at the same time", l->key,
                l->value, other);
    }
    return NULL;
}

static struct csireg_error *cannot_label(const struct cr_core *core, const struct cr_driver *d,
                                         const struct node_edit *e)
{
    struct csireg_error *err = NULL;
    json_t *map = NULL;
    if (cr_node_check_labels(&core->publisher.node, d->desired.labels, d->desired.n_labels, &err) != 0) return err;
    if (!e->ids_readable && cr_node_ids_load(&core->publisher.node, &map, &err) != 0) return err;
    json_decref(map);
    return clash(d, e);
}

static void add_labels(struct node_edit *e, const struct cr_core *core, struct cr_driver *d)
{
    for (size_t k = 0; k < d->desired.n_labels; k++) {
        const struct cr_pair *l = &d->desired.labels[k];
        if (json_object_get(core->publisher.node.labels, l->key)) continue;
        if (json_object_set_new(e->labels, l->key, json_string(l->value)) != 0) e->failed = true;
        mark(d, false);
    }
}

static void set_id(struct node_edit *e, struct cr_driver *d)
{
    const char *now = json_string_value(json_object_get(e->ids, d->name));
    if (!e->ids_readable || (now && strcmp(now, d->desired.node_id) == 0)) return;
    if (json_object_set_new(e->ids, d->name, json_string(d->desired.node_id)) != 0) e->failed = true;
    e->ids_changed = true;
    mark(d, false);
}

static void drop_id(struct node_edit *e, const struct cr_core *core, struct cr_driver *d)
{
    const char *now = json_string_value(json_object_get(e->ids, d->name));
    bool stays = d->desired.want == CR_WANT_CONTROLLER_FLOW && now && strcmp(now, d->desired.node_id) == 0;
    if (!now || stays || !cr_plan_csinode_satisfied(core, d)) return;
    json_object_del(e->ids, d->name);
    e->ids_changed = true;
    mark(d, false);
}

/* Fills the edit; gives the driver that cannot be written, if there is one. */
static struct cr_driver *edit_node(struct cr_core *core, struct node_edit *e, struct csireg_error **err)
{
    CR_LIST_FOREACH (l, &core->drivers) {
        struct cr_driver *d = cr_driver_of(l);
        if (!cr_plan_considers(core, d)) continue;
        if (d->desired.want != CR_WANT_NODE_FLOW) {
            if (d->desired.want == CR_WANT_CONTROLLER_FLOW && core->config.annotate_in_controller_flow)
                set_id(e, d);
            else
                drop_id(e, core, d);
            continue;
        }
        struct csireg_error *why = cannot_label(core, d, e);
        if (why && d->pending) {
            *err = why;
            return d;
        }
        if (!why) {
            add_labels(e, core, d);
            set_id(e, d);
        }
        csireg_error_free(why); /* a confirmed driver keeps what it has */
    }
    return NULL;
}

static void begin_edit(struct cr_core *core, struct node_edit *e)
{
    *e = (struct node_edit){.labels = json_object()};
    struct csireg_error *err = NULL;
    int rc = cr_node_ids_load(&core->publisher.node, &e->ids, &err);
    e->ids_readable = rc == 0;
    e->failed = !e->labels || rc == CSIREG_ERR_NOMEM;
    csireg_error_free(err);
}

static void unmark(struct cr_core *core)
{
    CR_LIST_FOREACH (l, &core->drivers) {
        cr_driver_of(l)->sent = false;
        cr_driver_of(l)->expected = false;
    }
}

static void out_of_memory(struct cr_plan *out)
{
    out->op = CR_OP_NONE;
    out->error = cr_error_oom();
}

static void refuse(struct cr_core *core, struct cr_plan *out, struct cr_driver *culprit, struct csireg_error *err)
{
    if (node_is_fresh(core, culprit)) {
        out->culprit = culprit;
        out->error = err;
        return;
    }
    csireg_error_free(err);
    out->op = CR_OP_GET_NODE;
}

/* true: the plan is made. */
static bool plan_node(struct cr_core *core, struct cr_plan *out)
{
    const struct cr_publisher *pub = &core->publisher;
    struct node_edit e;
    struct csireg_error *err = NULL;
    if (pub->node_slot.absent) return false; /* nothing to label, no annotation left */
    begin_edit(core, &e);
    struct cr_driver *culprit = e.failed ? NULL : edit_node(core, &e, &err);
    bool write = json_object_size(e.labels) > 0 || e.ids_changed;
    if (culprit) {
        refuse(core, out, culprit, err);
    } else if (e.failed) {
        out_of_memory(out);
    } else if (write && core->now.mono_ms - pub->node_slot.read_ms > NODE_BASE_MS) {
        out->op = CR_OP_GET_NODE;
    } else if (write) {
        out->op = CR_OP_PATCH_NODE;
        out->body = cr_node_patch(&pub->node, e.labels, e.ids_changed, e.ids);
        out->labels = json_incref(e.labels);
        if (!out->body) out_of_memory(out);
    }
    edit_fini(&e);
    return out->op != CR_OP_NONE || out->error;
}

/* ---- CSINode ---- */

/* 1: obj was changed, 0: not, < 0: no memory. */
static int put_node_flow(json_t *obj, struct cr_driver *d)
{
    const struct cr_csinode_driver want = entry(d);
    enum cr_driver_match match = cr_csinode_match_driver(obj, &want);
    bool has_r = cr_csinode_match_registration(obj, d->name, "") != CR_REGISTRATION_ABSENT;
    if (match == CR_DRIVER_EQUAL && !has_r) return 0;
    int rc = cr_csinode_remove_registration(obj, d->name);
    bool immutable = match == CR_DRIVER_IMMUTABLE_DIFFERS; /* the new entry comes with the next write */
    if (rc == 0) rc = immutable ? cr_csinode_remove_driver(obj, d->name) : cr_csinode_put_driver(obj, &want);
    mark(d, !immutable);
    return rc == 0 ? 1 : rc;
}

static int put_controller_flow(json_t *obj, struct cr_driver *d)
{
    const char *old = cr_csinode_driver_node_id(obj, d->name);
    bool other = old && strcmp(old, d->desired.node_id) != 0;
    if (!other && cr_csinode_match_registration(obj, d->name, d->desired.node_id) == CR_REGISTRATION_EQUAL) return 0;
    int rc = other ? cr_csinode_remove_driver(obj, d->name) : 0;
    if (rc == 0) rc = cr_csinode_put_registration(obj, d->name, d->desired.node_id);
    mark(d, true);
    return rc == 0 ? 1 : rc;
}

static int take_out(json_t *obj, struct cr_driver *d)
{
    if (clean(obj, d->name)) return 0;
    int rc = cr_csinode_remove_driver(obj, d->name);
    if (rc == 0) rc = cr_csinode_remove_registration(obj, d->name);
    mark(d, true);
    return rc == 0 ? 1 : rc;
}

static int edit_csinode(json_t *obj, struct cr_driver *d)
{
    switch (d->desired.want) {
    case CR_WANT_LEAVE:
        return 0;
    case CR_WANT_REMOVE:
        return take_out(obj, d);
    case CR_WANT_NODE_FLOW:
        return put_node_flow(obj, d);
    case CR_WANT_CONTROLLER_FLOW:
        return put_controller_flow(obj, d);
    }
    return 0;
}

/* No entry may be visible before its labels are. */
static bool labelled(const struct cr_core *core, const struct cr_driver *d)
{
    for (size_t k = 0; k < d->desired.n_labels; k++)
        if (!json_object_get(core->publisher.node.labels, d->desired.labels[k].key)) return false;
    return true;
}

/* all: confirmed drivers too, whatever the round considers (the object is made anew). */
static int edit_all(struct cr_core *core, json_t *obj, bool all)
{
    int changed = 0;
    CR_LIST_FOREACH (l, &core->drivers) {
        struct cr_driver *d = cr_driver_of(l);
        bool confirmed = all && !d->pending && cr_plan_is_install(d) && labelled(core, d);
        if (!confirmed && !cr_plan_considers(core, d)) continue;
        int rc = edit_csinode(obj, d);
        if (rc < 0) return rc;
        changed |= rc;
    }
    return changed;
}

static void plan_create(struct cr_core *core, struct cr_plan *out)
{
    json_t *obj = cr_csinode_new(core->node_name, core->publisher.node.uid, (const char *const *)core->migrated,
                                 core->config.n_migrated_plugins);
    int changed = obj ? edit_all(core, obj, true) : CSIREG_ERR_NOMEM;
    if (changed > 0 || (changed == 0 && core->publisher.create)) {
        out->op = CR_OP_POST_CSINODE;
        out->body = cr_csinode_text(obj);
    }
    json_decref(obj);
    if (changed < 0 || (out->op && !out->body)) out_of_memory(out);
}

static int complete(const struct cr_core *core, json_t *obj, bool owner_missing)
{
    int rc = cr_csinode_set_migrated(obj, (const char *const *)core->migrated, core->config.n_migrated_plugins);
    if (rc == 0 && owner_missing) rc = cr_csinode_add_owner(obj, core->node_name, core->publisher.node.uid);
    return rc;
}

/*
 * The object belongs to an earlier machine of this name: sure only with a Node that was read since the attempts began,
 * and not before the CSINode (as a pair, Node first, counts as together).
 */
static bool node_is_fresh_for_all(const struct cr_core *core)
{
    if (core->publisher.node_slot.read_seq + 1 < core->publisher.csinode_slot.read_seq) return false;
    CR_LIST_FOREACH (l, &core->drivers) {
        const struct cr_driver *d = cr_driver_of(l);
        if (d->pending && cr_plan_considers(core, d) && !node_is_fresh(core, d)) return false;
    }
    return true;
}

static void plan_update(struct cr_core *core, struct cr_plan *out, bool owner_missing)
{
    json_t *obj = cr_json_deep_copy(core->publisher.csinode);
    int changed = obj ? edit_all(core, obj, false) : CSIREG_ERR_NOMEM;
    if (changed > 0 && owner_missing && !node_is_fresh_for_all(core)) {
        json_decref(obj); /* the owner that is added must be the live Node */
        out->op = CR_OP_GET_NODE;
        return;
    }
    if (changed > 0) changed = complete(core, obj, owner_missing) == 0 ? 1 : CSIREG_ERR_NOMEM;
    if (changed > 0) {
        out->op = CR_OP_PUT_CSINODE;
        out->body = cr_csinode_text(obj);
    }
    json_decref(obj);
    if (changed < 0 || (out->op && !out->body)) out_of_memory(out);
}

static void plan_delete(struct cr_core *core, struct cr_plan *out)
{
    const json_t *obj = core->publisher.csinode;
    json_t *options =
        json_pack("{s:s, s:s, s:{s:s, s:s}}", "apiVersion", "v1", "kind", "DeleteOptions", "preconditions", "uid",
                  cr_csinode_uid(obj), "resourceVersion", cr_csinode_resource_version(obj));
    char *text = options ? json_dumps(options, JSON_COMPACT) : NULL;
    json_decref(options);
    out->op = CR_OP_DELETE_CSINODE;
    out->body = cr_strdup(text);
    free(text);
    if (!out->body) out_of_memory(out);
}

static bool installs_anything(const struct cr_core *core)
{
    CR_LIST_FOREACH (l, &core->drivers)
        if (cr_plan_is_install(cr_driver_of(l)) && cr_plan_considers(core, cr_driver_of(l))) return true;
    return false;
}

static void plan_csinode(struct cr_core *core, struct cr_plan *out)
{
    const struct cr_publisher *pub = &core->publisher;
    bool installs = installs_anything(core);
    if (pub->csinode_slot.absent) {
        if (installs || pub->create) plan_create(core, out);
        return;
    }
    enum cr_owner owner =
        pub->node_slot.absent ? CR_OWNER_OK : cr_csinode_owner(pub->csinode, core->node_name, pub->node.uid);
    if (owner != CR_OWNER_STALE || !installs)
        plan_update(core, out, owner == CR_OWNER_MISSING);
    else if (node_is_fresh_for_all(core))
        plan_delete(core, out);
    else
        out->op = CR_OP_GET_NODE;
}

void cr_plan_next(struct cr_core *core, struct cr_plan *out)
{
    *out = (struct cr_plan){.op = CR_OP_NONE};
    unmark(core);
    if (plan_node(core, out)) return;
    plan_csinode(core, out);
}
