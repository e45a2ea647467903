/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one writer of Node and CSINode. Keeps both objects as the API server last returned them, lets changes gather,
 * sends one write at a time (plan.c says which, publish_requests.c sends it), and goes on until what is desired is what
 * is there.
 */
#include <string.h>

#include "base/mem.h"
#include "core/csinode.h"
#include "core/publish.h"

#define REMOVAL_QUIET_MS 5  /* a removal waits until no socket event came for this long, */
#define REMOVAL_HOLD_MS  50 /* but at most this long */

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

void cr_publisher_init(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    pub->state = core->config.local_only ? "local-only" : "ok";
    pub->state_wall_ms = core->now.wall_ms;
    pub->create = core->config.create_at_start && !core->config.local_only;
    pub->verify_ms = pub->timer_ms = pub->prune_ms = CR_NEVER;
    if (pub->create) pub->timer_ms = core->now.mono_ms;
}

void cr_publisher_fini(struct cr_core *core)
{
    cr_publish_forget_node(&core->publisher);
    cr_publish_forget_csinode(&core->publisher);
    csireg_error_free(core->publisher.error);
    json_decref(core->publisher.labels_sent);
    json_decref(core->publisher.labels_added);
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
    struct cr_instance *i = d->claimant ? d->claimant : d->owner;
    if (i && i->state == CR_STATE_PUBLISHING && i->driver == d) {
        cr_handshake_published(i, err, dropped);
        return;
    }
    if (d->owner) cr_refresh_published(d->owner, err);
    csireg_error_free(err);
}

static bool publishes_anything(const struct cr_core *core)
{
    CR_LIST_FOREACH (l, &core->drivers)
        if (cr_plan_is_install(cr_driver_of(l))) return true;
    return false;
}

static void arm_verification(struct cr_core *core)
{
    bool on = publishes_anything(core) && core->config.verify_interval_ms > 0 && !core->config.local_only;
    int64_t next = on ? core->now.mono_ms + cr_jitter(core, core->config.verify_interval_ms, 10) : CR_NEVER;
    core->publisher.verify_ms = next;
}

static void confirmed(struct cr_core *core, struct cr_driver *d)
{
    settle_pending(d);
    core->generation++;
    if (cr_plan_is_install(d)) {
        cr_desired_fini(&d->saved);
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

void cr_publish_failed(struct cr_core *core, struct cr_driver *d, struct csireg_error *err, bool dropped)
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
    CR_LIST_FOREACH (l, &core->drivers)
        if (cr_driver_of(l)->pending) return true;
    return false;
}

static void due(struct cr_core *core, struct cr_driver *d)
{
    if (!any_pending(core)) core->publisher.first_due_ms = core->now.mono_ms;
    settle_pending(d);
    d->pending = true;
    d->due_ms = core->now.mono_ms;
    d->not_before_ms = d->grace_ms = 0;
    core->generation++;
}

void cr_publisher_want(struct cr_core *core, struct cr_driver *d, struct cr_desired *desired, uint64_t fresh_after)
{
    if (d->registered && d->saved.want == CR_WANT_LEAVE)
        d->saved = d->desired; /* to return to, should this come to nothing */
    else
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
    cr_desired_fini(&d->saved);
    d->desired.want = CR_WANT_REMOVE;
    due(core, d);
    d->grace_ms = core->now.mono_ms + core->config.unregister_grace_ms;
    if (!core->config.local_only) return;
    settle_pending(d);
    d->desired.want = CR_WANT_LEAVE;
}

void cr_publisher_update_count(struct cr_core *core, struct cr_driver *d, bool has_count, int32_t count)
{
    due(core, d);
    d->desired.has_count = has_count;
    d->desired.count = count;
}

void cr_publisher_leave(struct cr_driver *d)
{
    cr_desired_fini(&d->desired);
    settle_pending(d);
}

void cr_publisher_restore(struct cr_core *core, struct cr_driver *d)
{
    if (d->saved.want == CR_WANT_LEAVE) return;
    cr_desired_fini(&d->desired);
    d->desired = d->saved;
    d->saved = (struct cr_desired){.want = CR_WANT_LEAVE};
    due(core, d);
    if (core->config.local_only) settle_pending(d);
}

void cr_publisher_retry_now(struct cr_core *core)
{
    CR_LIST_FOREACH (l, &core->drivers) cr_driver_of(l)->not_before_ms = 0;
    core->publisher.retry_ms = 0;
}

/* ---- deciding what to do now ---- */

static void wake_at(struct cr_publisher *pub, int64_t ms)
{
    if (ms < pub->timer_ms) pub->timer_ms = ms;
}

static bool considers_pending(const struct cr_core *core, bool installs_only)
{
    CR_LIST_FOREACH (l, &core->drivers) {
        const struct cr_driver *d = cr_driver_of(l);
        if (d->pending && cr_plan_considers(core, d) && (!installs_only || cr_plan_is_install(d))) return true;
    }
    return false;
}

static bool has_work(const struct cr_core *core)
{
    const struct cr_publisher *pub = &core->publisher;
    return pub->prefetch || pub->create || pub->verify || pub->prune || considers_pending(core, false);
}

/* true: reads are out or were just sent. */
static bool reading(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    if (!pub->node_slot.known && !pub->node_slot.call) cr_publish_send(core, CR_OP_GET_NODE, NULL);
    if (!pub->csinode_slot.known && !pub->csinode_slot.call) cr_publish_send(core, CR_OP_GET_CSINODE, NULL);
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
    CR_LIST_FOREACH (l, &core->instances) {
        const struct cr_instance *i = cr_instance_of(l);
        if (cr_instance_gathering(i) && i->gather_ms + window > until) until = i->gather_ms + window;
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
    cr_publish_forget_node(&core->publisher);
    cr_publish_try_again(core, err);
    csireg_error_free(err);
}

static void end_of_round(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    pub->repair = false;
    pub->repairs = 0;
    pub->create = pub->verify = false;
    pub->failing = 0; /* there is nothing left to ask for */
}

static void confirm_round(struct cr_core *core)
{
    bool alone = false;
    CR_LIST_FOREACH (l, &core->drivers) alone |= cr_driver_of(l)->isolated;
    CR_LIST_FOREACH_SAFE (l, &core->drivers) {
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
    CR_LIST_FOREACH (l, &core->drivers)
        if (cr_driver_of(l)->sent) cr_driver_of(l)->touched = true;
    json_decref(core->publisher.labels_sent);
    core->publisher.labels_sent = plan->labels;
    cr_publish_send(core, plan->op, plan->body);
    plan->body = NULL;
    core->publisher.first_due_ms = core->now.mono_ms;
}

/* true: the state changed without a request, look again. */
static bool carry_out(struct cr_core *core, struct cr_plan *plan)
{
    if (plan->culprit) {
        cr_publish_failed(core, plan->culprit, plan->error, false);
        return true;
    }
    if (plan->error) { /* no memory */
        cr_publish_pause(core, CR_CONFLICT_CAP_MS);
        return true;
    }
    if (plan->op == CR_OP_GET_NODE) {
        cr_publish_forget_node(&core->publisher);
        return true;
    }
    if (plan->op != CR_OP_NONE) {
        send_write(core, plan);
        return false;
    }
    confirm_round(core);
    return true;
}

static void remove_unclaimed(struct cr_core *core, const char *name)
{
    struct cr_driver *d = cr_driver_find(core, name);
    if (d) return; /* somebody's, or being removed already */
    d = cr_driver_new(core, name);
    if (!d) return;
    cr_emit_log(core, CSIREG_LOG_INFO, "publisher", NULL, "%s: no socket since the start, its entries are removed",
                name);
    cr_publisher_remove(core, d);
}

/* Entries and annotation keys that no instance of this life claimed. */
static void prune(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    json_t *names = pub->csinode ? cr_csinode_names(pub->csinode) : NULL, *ids = NULL, *value;
    const char *key;
    size_t k;
    pub->prune = false;
    json_array_foreach (names, k, value) remove_unclaimed(core, json_string_value(value));
    if (!pub->node_slot.absent) cr_node_ids_load(&pub->node, &ids, NULL);
    json_object_foreach (ids, key, value) remove_unclaimed(core, key);
    json_decref(names);
    json_decref(ids);
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
    if (pub->prune) prune(core);
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
    CR_LIST_FOREACH_SAFE (l, &core->drivers) {
        struct cr_driver *d = cr_driver_of(l);
        bool late = d->due_ms + core->config.publish_timeout_ms <= core->now.mono_ms;
        if (!d->pending || !cr_plan_is_install(d) || !late) continue;
        struct csireg_error *err = pub->error ? cr_error_copy(pub->error) : NULL;
        if (!err) err = cr_error_new(CSIREG_ERR_TIMEOUT, "not published in time");
        cr_error_set_retryable(err, true);
        cr_publish_failed(core, d, err, false);
    }
}

void cr_publisher_verify(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    arm_verification(core);
    if (!publishes_anything(core)) return;
    pub->verify = true;
    if (!pub->node_slot.call) cr_publish_forget_node(pub);
    if (!pub->csinode_slot.call) cr_publish_forget_csinode(pub);
}

void cr_publisher_timer(struct cr_core *core)
{
    struct cr_publisher *pub = &core->publisher;
    if (pub->verify_ms <= core->now.mono_ms) cr_publisher_verify(core);
    if (pub->prune_ms <= core->now.mono_ms) {
        pub->prune_ms = CR_NEVER;
        pub->prune = true;
    }
    give_up_late(core);
}

/* A removal: its grace, or the pause after a refusal. */
static int64_t waits_until(const struct cr_driver *d)
{
    return d->grace_ms > d->not_before_ms ? d->grace_ms : d->not_before_ms;
}

int64_t cr_publisher_deadline(const struct cr_core *core)
{
    const struct cr_publisher *pub = &core->publisher;
    int64_t next = pub->timer_ms < pub->verify_ms ? pub->timer_ms : pub->verify_ms;
    if (pub->prune_ms < next) next = pub->prune_ms;
    CR_LIST_FOREACH (l, &core->drivers) {
        const struct cr_driver *d = cr_driver_of(l);
        if (!d->pending) continue;
        int64_t at = cr_plan_is_install(d) ? d->due_ms + core->config.publish_timeout_ms : waits_until(d);
        if (cr_plan_is_install(d) ? pub->unusable : at <= core->now.mono_ms) continue;
        if (at < next) next = at;
    }
    return next;
}
