/* SPDX-License-Identifier: Apache-2.0 */
/* The publisher's requests: what is sent, what an answer means for the objects as known and for the names it concerns.
 */
#include <string.h>

#include "base/mem.h"
#include "core/apistatus.h"
#include "core/csinode.h"
#include "core/json.h"
#include "core/publish.h"

#define MAX_WRITES  8 /* of one name while pending: more means that the server does not keep what is written */
#define MAX_REPAIRS 4 /* of confirmed names in one round */

static bool on_node(enum cr_op op) { return op == CR_OP_GET_NODE || op == CR_OP_PATCH_NODE; }
static bool is_read(enum cr_op op) { return op == CR_OP_GET_NODE || op == CR_OP_GET_CSINODE; }

/* ---- what is known ---- */

void cr_publish_forget_node(struct cr_publisher *pub)
{
    cr_node_fini(&pub->node);
    pub->node = (struct cr_node){0};
    pub->node_slot.known = pub->node_slot.absent = false;
}

void cr_publish_forget_csinode(struct cr_publisher *pub)
{
    json_decref(pub->csinode);
    pub->csinode = NULL;
    pub->csinode_slot.known = pub->csinode_slot.absent = false;
}

static void forget(struct cr_core *core, enum cr_op op)
{
    struct cr_publisher *pub = &core->publisher;
    struct cr_slot *slot = on_node(op) ? &pub->node_slot : &pub->csinode_slot;
    slot->read_ms = core->now.mono_ms;
    if (on_node(op))
        cr_publish_forget_node(pub);
    else
        cr_publish_forget_csinode(pub);
}

static void set_absent(struct cr_slot *slot) { slot->known = slot->absent = true; }

/* ---- the API's state, for people ---- */

static void set_api_state(struct cr_core *core, const char *state, const struct csireg_error *err)
{
    struct cr_publisher *pub = &core->publisher;
    if (err) {
        csireg_error_free(pub->error);
        pub->error = cr_error_copy(err);
        pub->error_wall_ms = core->now.wall_ms;
        core->generation++;
    }
    if (strcmp(pub->state, state) == 0) return;
    enum csireg_log_level level = strcmp(state, "ok") == 0 ? CSIREG_LOG_INFO : CSIREG_LOG_WARNING;
    cr_emit_log(core, level, "publisher", NULL, "API server: %s -> %s%s%s", pub->state, state, err ? ": " : "",
                err ? csireg_error_message(err) : "");
    pub->state = state;
    pub->state_wall_ms = core->now.wall_ms;
    core->generation++;
}

/* ---- sending ---- */

static const struct {
    enum cr_http_method method;
    const char *verb, *resource, *prefix, *suffix, *content_type;
} ops[] = {
    [CR_OP_GET_NODE] = {CR_HTTP_GET, "get", "nodes", "/api/v1/nodes/", "", NULL},
    [CR_OP_GET_CSINODE] = {CR_HTTP_GET, "get", "csinodes", "/apis/storage.k8s.io/v1/csinodes/", "", NULL},
    [CR_OP_PATCH_NODE] = {CR_HTTP_PATCH, "patch", "nodes/status", "/api/v1/nodes/", "/status",
                          "application/strategic-merge-patch+json"},
    [CR_OP_PUT_CSINODE] = {CR_HTTP_PUT, "update", "csinodes", "/apis/storage.k8s.io/v1/csinodes/", "",
                           "application/json"},
    [CR_OP_POST_CSINODE] = {CR_HTTP_POST, "create", "csinodes", "/apis/storage.k8s.io/v1/csinodes", NULL,
                            "application/json"},
    [CR_OP_DELETE_CSINODE] = {CR_HTTP_DELETE, "delete", "csinodes", "/apis/storage.k8s.io/v1/csinodes/", "",
                              "application/json"},
};

static char *path_of(const struct cr_core *core, enum cr_op op)
{
    const char *name = ops[op].suffix ? core->node_name : "", *suffix = ops[op].suffix ? ops[op].suffix : "";
    size_t size = strlen(ops[op].prefix) + strlen(name) + strlen(suffix) + 1;
    char *path = cr_calloc(1, size);
    if (!path) return NULL;
    memcpy(path, ops[op].prefix, strlen(ops[op].prefix));
    memcpy(path + strlen(path), name, strlen(name));
    memcpy(path + strlen(path), suffix, strlen(suffix));
    return path;
}

void cr_publish_pause(struct cr_core *core, int64_t delay_ms)
{
    int64_t until = core->now.mono_ms + delay_ms; /* two reads may be out: the longer pause holds */
    if (until > core->publisher.retry_ms) core->publisher.retry_ms = until;
}

void cr_publish_send(struct cr_core *core, enum cr_op op, char *body)
{
    struct cr_slot *slot = on_node(op) ? &core->publisher.node_slot : &core->publisher.csinode_slot;
    struct cr_api_request r = {.method = ops[op].method,
                               .verb = ops[op].verb,
                               .resource = ops[op].resource,
                               .path = path_of(core, op),
                               .content_type = ops[op].content_type,
                               .body = body,
                               .timeout_ms = core->config.request_timeout_ms};
    slot->call = cr_emit_api(core, &r);
    slot->op = slot->call ? op : CR_OP_NONE;
    slot->read_seq = ++core->seq;
    if (!slot->call) cr_publish_pause(core, CR_CONFLICT_CAP_MS); /* no memory: a little later */
}

/* ---- after failures ---- */

static void count_tries(struct cr_core *core)
{
    CR_LIST_FOREACH (l, &core->drivers)
        if (cr_driver_of(l)->pending) cr_driver_of(l)->tries++;
}

static void unusable(struct cr_core *core, enum cr_op op, const struct csireg_error *err, int64_t retry_after_ms)
{
    struct cr_publisher *pub = &core->publisher;
    int64_t delay = cr_backoff_next(&pub->outage, CR_BACKOFF_FIRST_MS, CR_BACKOFF_CAP_MS, &core->rng);
    pub->unusable = true;
    pub->failing |= 1u << op;
    core->counters.api_retries++;
    count_tries(core);
    set_api_state(core, "waiting", err);
    cr_publish_pause(core, delay > retry_after_ms ? delay : retry_after_ms);
}

static void usable(struct cr_core *core, enum cr_op op)
{
    struct cr_publisher *pub = &core->publisher;
    pub->failing = is_read(op) ? pub->failing & ~(1u << op) : 0;
    if (pub->failing) return; /* what works says nothing about what does not, whose pauses go on growing */
    set_api_state(core, "ok", NULL);
    if (!pub->unusable) return;
    pub->unusable = false;
    cr_backoff_reset(&pub->outage);
    CR_LIST_FOREACH (l, &core->drivers) cr_driver_of(l)->due_ms = core->now.mono_ms;
}

static bool installs_pending(const struct cr_core *core)
{
    CR_LIST_FOREACH (l, &core->drivers)
        if (cr_driver_of(l)->pending && cr_plan_is_install(cr_driver_of(l))) return true;
    return false;
}

void cr_publish_try_again(struct cr_core *core, const struct csireg_error *err)
{
    struct cr_publisher *pub = &core->publisher;
    int64_t cap = installs_pending(core) ? CR_CONFLICT_CAP_MS : CR_BACKOFF_CAP_MS;
    count_tries(core);
    core->counters.api_retries++;
    csireg_error_free(pub->error);
    pub->error = cr_error_copy(err);
    pub->error_wall_ms = core->now.wall_ms;
    cr_publish_pause(core, cr_backoff_next(&pub->conflicts, CR_CONFLICT_FIRST_MS, cap, &core->rng));
}

static unsigned sent_count(const struct cr_core *core)
{
    unsigned n = 0;
    CR_LIST_FOREACH (l, &core->drivers) n += cr_driver_of(l)->sent && cr_driver_of(l)->pending;
    return n;
}

/* A write that carried several names was refused: each is tried alone, so that the refusal meets only its cause. */
static void write_refused(struct cr_core *core, const struct csireg_error *err)
{
    unsigned n = sent_count(core);
    core->publisher.repair = false;
    if (n == 0) core->publisher.create = false;
    CR_LIST_FOREACH_SAFE (l, &core->drivers) {
        struct cr_driver *d = cr_driver_of(l);
        if (!d->sent || !d->pending) continue;
        if (n > 1)
            d->isolated = true;
        else
            cr_publish_failed(core, d, cr_error_copy(err), false);
    }
}

static void read_refused(struct cr_core *core, const struct csireg_error *err)
{
    core->publisher.prune = core->publisher.prefetch = core->publisher.repair = core->publisher.create =
        core->publisher.verify = false;
    CR_LIST_FOREACH_SAFE (l, &core->drivers) {
        struct cr_driver *d = cr_driver_of(l);
        if (d->pending && d->not_before_ms <= core->now.mono_ms) cr_publish_failed(core, d, cr_error_copy(err), false);
    }
}

/* ---- answers ---- */

static void note_completed(struct cr_core *core)
{
    CR_LIST_FOREACH (l, &core->drivers) {
        struct cr_driver *d = cr_driver_of(l);
        if (d->desired.want != CR_WANT_CONTROLLER_FLOW) continue;
        const char *id = core->publisher.csinode ? cr_csinode_driver_node_id(core->publisher.csinode, d->name) : NULL;
        bool completed = id && strcmp(id, d->desired.node_id) == 0;
        if (completed == d->completed) continue;
        d->completed = completed;
        cr_driver_changed(d);
        core->generation++;
    }
}

static int load(struct cr_core *core, enum cr_op op, json_t *body, struct csireg_error **err)
{
    struct cr_publisher *pub = &core->publisher;
    if (on_node(op)) {
        int rc = cr_node_load(&pub->node, body, core->node_name, err);
        if (rc == 0) pub->node_slot.known = true;
        return rc;
    }
    if (op == CR_OP_DELETE_CSINODE) {
        set_absent(&pub->csinode_slot);
        return 0;
    }
    int rc = cr_csinode_check(body, core->node_name, err);
    if (rc != 0) return rc;
    pub->csinode = json_incref(body);
    pub->csinode_slot.known = true;
    note_completed(core);
    return 0;
}

static struct csireg_error *not_kept(const struct cr_driver *d, bool dropped)
{
    return cr_error_new(
        CSIREG_ERR_REFUSED,
        dropped ? "the API server accepted the update but does not keep %s in spec.driverRegistrations: it "
                  "is older than the field, or its feature gate CSIControllerGetNodeInfo is off; enable the "
                  "gate there, or set registration-dropped=node-flow here"
                : "the API server accepted the write but the CSINode in its answer does not show what was written for "
                  "%s (an "
                  "admission webhook or another writer changes it)",
        d->name);
}

/* The answer to a write must show what was written; success is reported only after that. */
static void check_kept(struct cr_core *core)
{
    CR_LIST_FOREACH_SAFE (l, &core->drivers) {
        struct cr_driver *d = cr_driver_of(l);
        if (!d->sent || !d->pending || !d->expected || cr_plan_csinode_satisfied(core, d)) continue;
        bool dropped = d->desired.want == CR_WANT_CONTROLLER_FLOW &&
                       cr_csinode_match_registration(core->publisher.csinode, d->name, "") == CR_REGISTRATION_ABSENT;
        cr_publish_failed(core, d, not_kept(d, dropped), dropped);
    }
}

/* Writes that the server takes and then shows no trace of would go on for ever. */
static void count_writes(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    if (sent_count(core) == 0 && ++pub->repairs > MAX_REPAIRS) pub->repair = pub->create = false;
    CR_LIST_FOREACH_SAFE (l, &core->drivers) {
        struct cr_driver *d = cr_driver_of(l);
        if (d->sent && d->pending && ++d->writes > MAX_WRITES) cr_publish_failed(core, d, not_kept(d, false), false);
    }
}

/* For the operator who cleans up one day: csireg itself never removes a label. */
static void note_labels(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    if (!pub->labels_added) pub->labels_added = json_object();
    json_t *all = pub->labels_sent ? cr_json_copy(pub->labels_added) : NULL; /* the old one may be shown somewhere */
    if (!all || json_object_update(all, pub->labels_sent) != 0) {
        json_decref(all);
        return;
    }
    json_decref(pub->labels_added);
    pub->labels_added = all;
    core->generation++;
}

static void succeeded(struct cr_core *core, enum cr_op op, json_t *body)
{
    struct cr_publisher *pub = &core->publisher;
    struct csireg_error *err = NULL;
    usable(core, op);
    if (load(core, op, body, &err) != 0) {
        cr_error_set_retryable(err, true); /* not the object that was asked for: as if nothing had come */
        cr_publish_try_again(core, err);
        csireg_error_free(err);
        return;
    }
    if (is_read(op)) {
        pub->repair = true;
        return;
    }
    cr_backoff_reset(&pub->conflicts);
    if (op == CR_OP_PATCH_NODE) note_labels(core);
    if (op == CR_OP_PUT_CSINODE || op == CR_OP_POST_CSINODE) pub->create = false;
    if (op == CR_OP_PUT_CSINODE || op == CR_OP_POST_CSINODE) check_kept(core);
    count_writes(core);
}

static void not_found(struct cr_core *core, enum cr_op op)
{
    struct cr_publisher *pub = &core->publisher;
    usable(core, op);
    if (!is_read(op)) count_writes(core);
    if (on_node(op)) {
        set_absent(&pub->node_slot);
        if (op == CR_OP_PATCH_NODE) pub->repair = true;
        return;
    }
    set_absent(&pub->csinode_slot);
    note_completed(core);
    if (op == CR_OP_GET_CSINODE) {
        pub->repair = true;
        return;
    }
    cr_publish_forget_node(pub); /* it went behind our back, perhaps with its Node: the uid is read anew */
}

static void name_object(const struct cr_core *core, enum cr_op op, struct csireg_error *err)
{
    if (err) cr_error_prefix(err, "%s of %s %s", ops[op].verb, on_node(op) ? "Node" : "CSINode", core->node_name);
}

static void count_conflict(struct cr_core *core, enum cr_op op)
{
    if (on_node(op))
        core->counters.node_conflicts++;
    else
        core->counters.csinode_conflicts++;
}

static void handle(struct cr_core *core, enum cr_op op, const struct cr_api_answer *a)
{
    json_t *body = NULL;
    struct csireg_error *err = NULL;
    const char *kind = op == CR_OP_DELETE_CSINODE ? NULL : on_node(op) ? "Node" : "CSINode";
    enum cr_api_class class = cr_api_classify(a, kind, &body, &err);
    name_object(core, op, err);
    if (class == CR_API_CONFLICT || class == CR_API_ALREADY_EXISTS) count_conflict(core, op);
    if (class != CR_API_REFUSED) forget(core, op); /* only a refusal says for sure that nothing changed */
    switch (class) {
    case CR_API_OK:
        succeeded(core, op, body);
        break;
    case CR_API_UNUSABLE:
        unusable(core, op, err, a->retry_after_ms);
        break;
    case CR_API_NOT_FOUND:
        not_found(core, op);
        break;
    case CR_API_REFUSED:
        usable(core, op);
        set_api_state(core, "refused", err);
        if (is_read(op))
            read_refused(core, err);
        else
            write_refused(core, err);
        break;
    case CR_API_CONFLICT:
    case CR_API_ALREADY_EXISTS:
    case CR_API_EXPIRED:
    case CR_API_NONSENSE:
        usable(core, op);
        cr_publish_try_again(core, err);
        break;
    }
    json_decref(body);
    csireg_error_free(err);
}

void cr_publisher_answer(struct cr_core *core, uint64_t id, struct cr_api_answer *answer)
{
    struct cr_publisher *pub = &core->publisher;
    bool node = id == pub->node_slot.call;
    struct cr_slot *slot = node ? &pub->node_slot : &pub->csinode_slot;
    if (slot->call != id) return;
    enum cr_op op = slot->op;
    slot->call = 0;
    slot->op = CR_OP_NONE;
    if (op != CR_OP_NONE) handle(core, op, answer);
}
