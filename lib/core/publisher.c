/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one writer of Node and CSINode. Keeps both objects as the API server last returned them, lets changes gather,
 * sends one write at a time (plan.c says which), and goes on until what is desired is what is there.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "core/apistatus.h"
#include "core/csinode.h"
#include "core/internal.h"

#define REMOVAL_QUIET_MS 5  /* a removal waits until no socket event came for this long, */
#define REMOVAL_HOLD_MS  50 /* but at most this long */
#define MAX_WRITES       8  /* of one name while pending: more means that the server does not keep what is written */
#define MAX_REPAIRS      4

void cr_desired_fini(struct cr_desired *d)
{
    for (size_t k = 0; k < d->n_labels; k++) {
        cr_free(d->labels[k].key);
        cr_free(d->labels[k].value);
    }
    cr_free(d->labels);
    cr_free(d->keys);
    cr_free(d->node_id);
    *d = (struct cr_desired){.want = CR_WANT_LEAVE};
}

static bool on_node(enum cr_op op) { return op == CR_OP_GET_NODE || op == CR_OP_PATCH_NODE; }
static bool is_read(enum cr_op op) { return op == CR_OP_GET_NODE || op == CR_OP_GET_CSINODE; }

/* ---- what is known ---- */

static void forget_node(struct cr_publisher *pub)
{
    cr_node_fini(&pub->node);
    pub->node = (struct cr_node){0};
    pub->node_slot.known = pub->node_slot.absent = false;
}

static void forget_csinode(struct cr_publisher *pub)
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
        forget_node(pub);
    else
        forget_csinode(pub);
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

void cr_publisher_init(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    pub->state = core->config.local_only ? "local-only" : "ok";
    pub->state_wall_ms = core->now.wall_ms;
    pub->create = core->config.create_at_start && !core->config.local_only;
    pub->verify_ms = pub->timer_ms = CR_NEVER;
    if (pub->create) pub->timer_ms = core->now.mono_ms;
}

void cr_publisher_fini(struct cr_core *core)
{
    forget_node(&core->publisher);
    forget_csinode(&core->publisher);
    csireg_error_free(core->publisher.error);
}

/* ---- ends of names ---- */

static void settle_pending(struct cr_driver *d)
{
    d->pending = d->isolated = d->sent = d->expected = false;
    d->tries = d->writes = 0;
    csireg_error_free(d->error);
    d->error = NULL;
    cr_driver_changed(d);
}

/* The end of an installation: to the attempt that waits for it, if it still does. Takes err. */
static void report(struct cr_driver *d, struct csireg_error *err, bool dropped)
{
    if (d->owner && d->owner->state == CR_STATE_PUBLISHING && d->owner->driver == d)
        cr_handshake_published(d->owner, err, dropped);
    else
        csireg_error_free(err);
}

static void arm_verification(struct cr_core *core)
{
    bool any = false;
    CR_LIST_FOREACH(l, &core->drivers) any |= cr_plan_is_install(cr_driver_of(l));
    bool on = any && core->config.verify_interval_ms > 0 && !core->config.local_only;
    int64_t next = on ? core->now.mono_ms + cr_jitter(core, core->config.verify_interval_ms, 10) : CR_NEVER;
    core->publisher.verify_ms = next;
}

static void confirmed(struct cr_core *core, struct cr_driver *d)
{
    settle_pending(d);
    core->generation++;
    if (cr_plan_is_install(d)) {
        if (core->publisher.verify_ms == CR_NEVER) arm_verification(core);
        report(d, NULL, false);
        return;
    }
    cr_desired_fini(&d->desired);
    d->touched = false;
    if (!d->owner) cr_driver_free(d);
}

/* What cannot be removed now stays on the list: refused ones are tried again at the cap. */
static void removal_refused(struct cr_core *core, struct cr_driver *d, struct csireg_error *err)
{
    d->not_before_ms = core->now.mono_ms + CR_BACKOFF_CAP_MS;
    d->isolated = false;
    d->writes = 0;
    csireg_error_free(d->error);
    d->error = err;
    cr_driver_changed(d);
    core->generation++;
    cr_emit_log(core, CSIREG_LOG_WARNING, "publisher", d->owner, "%s: its entries could not be removed: %s", d->name,
                csireg_error_message(err));
}

static void failed(struct cr_core *core, struct cr_driver *d, struct csireg_error *err, bool dropped)
{
    if (!cr_plan_is_install(d)) {
        removal_refused(core, d, err);
        return;
    }
    unsigned tries = d->tries;
    settle_pending(d);
    if (!d->registered) cr_desired_fini(&d->desired);
    if (tries > 1)
        cr_error_prefix(err, "%s: publication failed after %u tries", d->name, tries);
    else
        cr_error_prefix(err, "%s: publication failed", d->name);
    report(d, err, dropped);
}

/* ---- requests from the rest of the core ---- */

void cr_publisher_prefetch(struct cr_core *core) { core->publisher.prefetch = true; }

void cr_publisher_event(struct cr_core *core) { core->publisher.last_event_ms = core->now.mono_ms; }

static bool any_pending(const struct cr_core *core)
{
    CR_LIST_FOREACH(l, &core->drivers)
    if (cr_driver_of(l)->pending) return true;
    return false;
}

static void due(struct cr_core *core, struct cr_driver *d)
{
    if (!any_pending(core)) core->publisher.first_due_ms = core->now.mono_ms;
    settle_pending(d);
    d->pending = true;
    d->due_ms = core->now.mono_ms;
    d->not_before_ms = 0;
    core->generation++;
}

void cr_publisher_want(struct cr_core *core, struct cr_driver *d, struct cr_desired *desired, uint64_t fresh_after)
{
    cr_desired_fini(&d->desired);
    d->desired = *desired;
    *desired = (struct cr_desired){.want = CR_WANT_LEAVE};
    d->fresh_after = fresh_after;
    due(core, d);
    if (core->config.local_only) confirmed(core, d);
}

void cr_publisher_remove(struct cr_core *core, struct cr_driver *d)
{
    if (d->desired.want == CR_WANT_REMOVE) return;
    cr_desired_fini(&d->desired);
    d->desired.want = CR_WANT_REMOVE;
    due(core, d);
    if (!core->config.local_only) return;
    settle_pending(d);
    d->desired.want = CR_WANT_LEAVE;
}

void cr_publisher_leave(struct cr_driver *d)
{
    cr_desired_fini(&d->desired);
    settle_pending(d);
}

void cr_publisher_retry_now(struct cr_core *core)
{
    CR_LIST_FOREACH(l, &core->drivers) cr_driver_of(l)->not_before_ms = 0;
    core->publisher.retry_ms = 0;
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

static void pause_until(struct cr_core *core, int64_t delay_ms)
{
    core->publisher.retry_ms = core->now.mono_ms + delay_ms;
}

/* body is taken; NULL for a read. */
static void send(struct cr_core *core, enum cr_op op, char *body)
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
    if (!slot->call) pause_until(core, CR_CONFLICT_CAP_MS); /* no memory: a little later */
}

/* ---- after failures ---- */

static void count_tries(struct cr_core *core)
{
    CR_LIST_FOREACH(l, &core->drivers)
    if (cr_driver_of(l)->pending) cr_driver_of(l)->tries++;
}

static void unusable(struct cr_core *core, const struct csireg_error *err, int64_t retry_after_ms)
{
    struct cr_publisher *pub = &core->publisher;
    int64_t delay = cr_backoff_next(&pub->outage, CR_BACKOFF_FIRST_MS, CR_BACKOFF_CAP_MS, &core->rng);
    pub->unusable = true;
    count_tries(core);
    set_api_state(core, "waiting", err);
    pause_until(core, delay > retry_after_ms ? delay : retry_after_ms);
}

static void usable(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    set_api_state(core, "ok", NULL);
    if (!pub->unusable) return;
    pub->unusable = false;
    cr_backoff_reset(&pub->outage);
    CR_LIST_FOREACH(l, &core->drivers) cr_driver_of(l)->due_ms = core->now.mono_ms;
}

static bool installs_pending(const struct cr_core *core)
{
    CR_LIST_FOREACH(l, &core->drivers)
    if (cr_driver_of(l)->pending && cr_plan_is_install(cr_driver_of(l))) return true;
    return false;
}

/* Conflicts, a missing Node, nonsense: the API works, but this try came to nothing. */
static void try_again(struct cr_core *core, const struct csireg_error *err)
{
    struct cr_publisher *pub = &core->publisher;
    int64_t cap = installs_pending(core) ? CR_CONFLICT_CAP_MS : CR_BACKOFF_CAP_MS;
    count_tries(core);
    csireg_error_free(pub->error);
    pub->error = cr_error_copy(err);
    pub->error_wall_ms = core->now.wall_ms;
    pause_until(core, cr_backoff_next(&pub->conflicts, CR_CONFLICT_FIRST_MS, cap, &core->rng));
}

static unsigned sent_count(const struct cr_core *core)
{
    unsigned n = 0;
    CR_LIST_FOREACH(l, &core->drivers) n += cr_driver_of(l)->sent && cr_driver_of(l)->pending;
    return n;
}

/* A write that carried several names was refused: each is tried alone, so that the refusal meets only its cause. */
static void write_refused(struct cr_core *core, const struct csireg_error *err)
{
    unsigned n = sent_count(core);
    core->publisher.repair = false;
    if (n == 0) core->publisher.create = false;
    CR_LIST_FOREACH_SAFE(l, &core->drivers)
    {
        struct cr_driver *d = cr_driver_of(l);
        if (!d->sent || !d->pending) continue;
        if (n > 1)
            d->isolated = true;
        else
            failed(core, d, cr_error_copy(err), false);
    }
}

static void read_refused(struct cr_core *core, const struct csireg_error *err)
{
    core->publisher.prefetch = core->publisher.repair = core->publisher.create = core->publisher.verify = false;
    CR_LIST_FOREACH_SAFE(l, &core->drivers)
    {
        struct cr_driver *d = cr_driver_of(l);
        if (d->pending && d->not_before_ms <= core->now.mono_ms) failed(core, d, cr_error_copy(err), false);
    }
}

/* ---- answers ---- */

static void note_completed(struct cr_core *core)
{
    CR_LIST_FOREACH(l, &core->drivers)
    {
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
                : "the API server accepted the write but its answer does not show what was written for %s (an "
                  "admission webhook or another writer changes it)",
        d->name);
}

/* The answer to a write must show what was written; success is reported only after that. */
static void check_kept(struct cr_core *core)
{
    CR_LIST_FOREACH_SAFE(l, &core->drivers)
    {
        struct cr_driver *d = cr_driver_of(l);
        if (!d->sent || !d->pending || !d->expected || cr_plan_csinode_satisfied(core, d)) continue;
        bool dropped = d->desired.want == CR_WANT_CONTROLLER_FLOW &&
                       cr_csinode_match_registration(core->publisher.csinode, d->name, "") == CR_REGISTRATION_ABSENT;
        failed(core, d, not_kept(d, dropped), dropped);
    }
}

/* Writes that the server takes and then shows no trace of would go on for ever. */
static void count_writes(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    if (sent_count(core) == 0 && ++pub->repairs > MAX_REPAIRS) pub->repair = pub->create = false;
    CR_LIST_FOREACH_SAFE(l, &core->drivers)
    {
        struct cr_driver *d = cr_driver_of(l);
        if (d->sent && d->pending && ++d->writes > MAX_WRITES) failed(core, d, not_kept(d, false), false);
    }
}

static void succeeded(struct cr_core *core, enum cr_op op, json_t *body)
{
    struct cr_publisher *pub = &core->publisher;
    struct csireg_error *err = NULL;
    usable(core);
    if (load(core, op, body, &err) != 0) {
        cr_error_set_retryable(err, true); /* not the object that was asked for: as if nothing had come */
        try_again(core, err);
        csireg_error_free(err);
        return;
    }
    if (is_read(op)) {
        pub->repair = true;
        return;
    }
    cr_backoff_reset(&pub->conflicts);
    if (op == CR_OP_PUT_CSINODE || op == CR_OP_POST_CSINODE) pub->create = false;
    if (op == CR_OP_PUT_CSINODE || op == CR_OP_POST_CSINODE) check_kept(core);
    count_writes(core);
}

static void not_found(struct cr_core *core, enum cr_op op)
{
    struct cr_publisher *pub = &core->publisher;
    usable(core);
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
    forget_node(pub); /* it went behind our back, perhaps with its Node: the uid is read anew */
}

static void handle(struct cr_core *core, enum cr_op op, const struct cr_api_answer *a)
{
    json_t *body = NULL;
    struct csireg_error *err = NULL;
    const char *kind = op == CR_OP_DELETE_CSINODE ? NULL : on_node(op) ? "Node" : "CSINode";
    enum cr_api_class class = cr_api_classify(a, kind, &body, &err);
    if (class != CR_API_REFUSED) forget(core, op); /* only a refusal says for sure that nothing changed */
    switch (class) {
    case CR_API_OK:
        succeeded(core, op, body);
        break;
    case CR_API_UNUSABLE:
        unusable(core, err, a->retry_after_ms);
        break;
    case CR_API_NOT_FOUND:
        not_found(core, op);
        break;
    case CR_API_REFUSED:
        usable(core);
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
        usable(core);
        try_again(core, err);
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

/* ---- deciding what to do now ---- */

static void wake_at(struct cr_publisher *pub, int64_t ms)
{
    if (ms < pub->timer_ms) pub->timer_ms = ms;
}

static bool considers_pending(const struct cr_core *core, bool installs_only)
{
    CR_LIST_FOREACH(l, &core->drivers)
    {
        const struct cr_driver *d = cr_driver_of(l);
        if (d->pending && cr_plan_considers(core, d) && (!installs_only || cr_plan_is_install(d))) return true;
    }
    return false;
}

static bool has_work(const struct cr_core *core)
{
    const struct cr_publisher *pub = &core->publisher;
    return pub->prefetch || pub->create || pub->verify || considers_pending(core, false);
}

/* true: reads are out or were just sent. */
static bool reading(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    if (!pub->node_slot.known && !pub->node_slot.call) send(core, CR_OP_GET_NODE, NULL);
    if (!pub->csinode_slot.known && !pub->csinode_slot.call) send(core, CR_OP_GET_CSINODE, NULL);
    return pub->node_slot.call || pub->csinode_slot.call || !pub->node_slot.known || !pub->csinode_slot.known;
}

/* When the write may go: others that are about to finish share it. 0: now. */
static int64_t held_until(const struct cr_core *core)
{
    const struct cr_publisher *pub = &core->publisher;
    int64_t window = core->config.gather_window_ms, until = 0, now = core->now.mono_ms;
    if (window == 0) return 0;
    if (!considers_pending(core, true)) {
        until = pub->last_event_ms + REMOVAL_QUIET_MS;
        if (until > pub->first_due_ms + REMOVAL_HOLD_MS) until = pub->first_due_ms + REMOVAL_HOLD_MS;
        return until > now ? until : 0;
    }
    CR_LIST_FOREACH(l, &core->instances)
    {
        const struct cr_instance *i = cr_instance_of(l);
        if (cr_instance_gathering(i) && i->attempt_ms + window > until) until = i->attempt_ms + window;
    }
    if (until > pub->first_due_ms + window) until = pub->first_due_ms + window;
    return until > now ? until : 0;
}

static void node_missing(struct cr_core *core)
{
    struct csireg_error *err =
        cr_error_new(CSIREG_ERR_API, "Node \"%s\" not found: is the node name right, and did the node register itself?",
                     core->node_name);
    cr_error_set_origin(err, CSIREG_ORIGIN_HTTP, 404);
    cr_error_set_retryable(err, true);
    core->publisher.repair = core->publisher.verify = false;
    forget_node(&core->publisher);
    try_again(core, err);
    csireg_error_free(err);
}

static void end_of_round(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    pub->repair = false;
    pub->repairs = 0;
    pub->create = pub->verify = false;
}

static void confirm_round(struct cr_core *core)
{
    bool alone = false;
    CR_LIST_FOREACH(l, &core->drivers) alone |= cr_driver_of(l)->isolated;
    CR_LIST_FOREACH_SAFE(l, &core->drivers)
    {
        struct cr_driver *d = cr_driver_of(l);
        if (d->pending && cr_plan_considers(core, d)) {
            confirmed(core, d);
            if (alone) return;
        }
    }
    end_of_round(core);
}

static void send_write(struct cr_core *core, struct cr_plan *plan)
{
    CR_LIST_FOREACH(l, &core->drivers)
    if (cr_driver_of(l)->sent) cr_driver_of(l)->touched = true;
    send(core, plan->op, plan->body);
    plan->body = NULL;
    core->publisher.first_due_ms = core->now.mono_ms;
}

/* true: the state changed without a request, look again. */
static bool carry_out(struct cr_core *core, struct cr_plan *plan)
{
    if (plan->culprit) {
        failed(core, plan->culprit, plan->error, false);
        return true;
    }
    if (plan->error) { /* no memory */
        pause_until(core, CR_CONFLICT_CAP_MS);
        return true;
    }
    if (plan->op == CR_OP_GET_NODE) {
        forget_node(&core->publisher);
        return true;
    }
    if (plan->op != CR_OP_NONE) {
        send_write(core, plan);
        return false;
    }
    confirm_round(core);
    return true;
}

/* One look at the state; true: look again. */
static bool look(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    struct cr_plan plan;
    if (!has_work(core)) return false;
    if (pub->retry_ms > core->now.mono_ms) {
        wake_at(pub, pub->retry_ms);
        return false;
    }
    if (reading(core)) return false;
    pub->prefetch = false;
    if (!pub->create && !pub->verify && !considers_pending(core, false)) return false;
    if (pub->node_slot.absent && (considers_pending(core, true) || pub->create || pub->verify)) {
        node_missing(core);
        return true;
    }
    if (pub->node_slot.absent) pub->repair = false;
    int64_t until = held_until(core);
    if (until) {
        wake_at(pub, until);
        return false;
    }
    cr_plan_next(core, &plan);
    return carry_out(core, &plan);
}

void cr_publisher_step(struct cr_core *core)
{
    core->publisher.timer_ms = CR_NEVER;
    if (core->config.local_only) return;
    while (look(core)) continue;
}

/* ---- time ---- */

static void give_up_late(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    if (pub->unusable) return;
    CR_LIST_FOREACH_SAFE(l, &core->drivers)
    {
        struct cr_driver *d = cr_driver_of(l);
        bool late = d->due_ms + core->config.publish_timeout_ms <= core->now.mono_ms;
        if (!d->pending || !cr_plan_is_install(d) || !late) continue;
        struct csireg_error *err = pub->error ? cr_error_copy(pub->error) : NULL;
        if (!err) err = cr_error_new(CSIREG_ERR_TIMEOUT, "not published in time");
        cr_error_set_retryable(err, true);
        failed(core, d, err, false);
    }
}

static void verify(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    arm_verification(core);
    if (pub->verify_ms == CR_NEVER) return; /* nothing of ours is there */
    pub->verify = true;
    if (!pub->node_slot.call) forget_node(pub);
    if (!pub->csinode_slot.call) forget_csinode(pub);
}

void cr_publisher_timer(struct cr_core *core)
{
    if (core->publisher.verify_ms <= core->now.mono_ms) verify(core);
    give_up_late(core);
}

int64_t cr_publisher_deadline(const struct cr_core *core)
{
    const struct cr_publisher *pub = &core->publisher;
    int64_t next = pub->timer_ms < pub->verify_ms ? pub->timer_ms : pub->verify_ms;
    CR_LIST_FOREACH(l, &core->drivers)
    {
        const struct cr_driver *d = cr_driver_of(l);
        if (!d->pending) continue;
        int64_t at = cr_plan_is_install(d) ? pub->unusable ? CR_NEVER : d->due_ms + core->config.publish_timeout_ms
                     : d->not_before_ms > core->now.mono_ms ? d->not_before_ms
                                                            : CR_NEVER;
        if (at < next) next = at;
    }
    return next;
}
