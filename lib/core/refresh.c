/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The refresh of allocatable.count (KEP-4876): NodeGetInfo again, for drivers in the node flow whose CSIDriver sets
 * nodeAllocatableUpdatePeriodSeconds. One run per driver at a time, periodic ones with jitter so that nodes that were
 * started together do not call together, and runs that an exhausted attach asks for. In the controller flow the limit
 * is the controller side's (KEP-6011).
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "core/csinode.h"
#include "core/internal.h"
#include "core/names.h"

#define DISTANCE_MS    2000 /* between the starts of two runs */
#define LATE_MS        1000 /* past its deadline a call is not waited for any more */
#define JITTER_PERCENT 20
#define MAX_WAITERS    64 /* of exhausted() on one driver */

struct waiter {
    struct cr_list node;
    uint64_t token;
    bool next; /* came during a run: answered by the one after it */
};

void cr_refresh_init(struct cr_instance *i)
{
    i->refresh = (struct cr_refresh){.due_ms = CR_NEVER};
    cr_list_init(&i->refresh.waiters);
}

static bool applies(const struct cr_instance *i)
{
    return cr_instance_owns(i) && i->driver->registered && i->driver->view.flow == CSIREG_FLOW_NODE &&
           (i->state == CR_STATE_REGISTERED || i->state == CR_STATE_UNCONFIRMED || i->state == CR_STATE_NOTIFYING);
}

static void answer_waiters(struct cr_instance *i, int result)
{
    CR_LIST_FOREACH_SAFE (l, &i->refresh.waiters) {
        struct waiter *w = CR_CONTAINER(l, struct waiter, node);
        if (w->next) continue;
        cr_emit_exhausted(i->core, w->token, result);
        cr_list_remove(&w->node);
        cr_free(w);
        i->refresh.n_waiters--;
    }
}

static void advance_waiters(struct cr_instance *i)
{
    CR_LIST_FOREACH (l, &i->refresh.waiters) CR_CONTAINER(l, struct waiter, node)->next = false;
}

static void set_due(struct cr_instance *i)
{
    struct cr_refresh *r = &i->refresh;
    r->due_ms = r->period_s ? i->core->now.mono_ms + cr_jitter(i->core, r->period_s * 1000, JITTER_PERCENT) : CR_NEVER;
}

void cr_refresh_schedule(struct cr_instance *i)
{
    struct cr_refresh *r = &i->refresh;
    int64_t period = applies(i) ? cr_csidrivers_period(i->core, i->driver->name) : 0;
    if (period == r->period_s) return; /* other changes do not disturb a running period */
    r->period_s = period;
    set_due(i);
}

/* ---- one run ---- */

static void end_run(struct cr_instance *i, int result, const char *error)
{
    struct cr_refresh *r = &i->refresh;
    bool news = error ? !r->error || strcmp(r->error, error) != 0 : r->error != NULL;
    if (news) {
        cr_emit_log(i->core, error ? CSIREG_LOG_WARNING : CSIREG_LOG_INFO, "refresh", i, "%s",
                    error ? error : "the limit can be refreshed again");
        cr_free(r->error);
        r->error = cr_strdup(error);
        if (i->driver) cr_driver_changed(i->driver);
        i->core->generation++;
    }
    cr_count_refresh(&i->core->counters, result);
    cr_emit_close(i->core, &r->conn);
    r->running = r->publishing = false;
    r->waiting = 0;
    answer_waiters(i, result);
    set_due(i);
    if (!r->again) return;
    r->again = false;
    advance_waiters(i);
    r->due_ms = r->earliest_ms; /* in due time: see cr_refresh_timer */
}

static void start_run(struct cr_instance *i)
{
    struct cr_refresh *r = &i->refresh;
    r->running = true;
    r->due_ms = CR_NEVER;
    r->earliest_ms = i->core->now.mono_ms + DISTANCE_MS;
    r->deadline_ms = i->core->now.mono_ms + i->core->config.node_rpc_timeout_ms;
    r->waiting = cr_emit_connect(i->core, i->driver->view.endpoint);
    if (!r->waiting) end_run(i, CSIREG_EXHAUSTED_FAILED, "out of memory");
}

void cr_refresh_timer(struct cr_instance *i)
{
    struct cr_refresh *r = &i->refresh;
    if (r->running && r->waiting && r->deadline_ms + LATE_MS <= i->core->now.mono_ms) {
        end_run(i, CSIREG_EXHAUSTED_FAILED, "the limit could not be refreshed: no answer in time");
        return;
    }
    if (r->running || r->due_ms > i->core->now.mono_ms) return;
    if (applies(i))
        start_run(i);
    else
        set_due(i);
}

int64_t cr_refresh_deadline(const struct cr_instance *i)
{
    const struct cr_refresh *r = &i->refresh;
    if (!r->running) return r->due_ms;
    return r->waiting ? r->deadline_ms + LATE_MS : CR_NEVER;
}

void cr_refresh_stop(struct cr_instance *i)
{
    struct cr_refresh *r = &i->refresh;
    r->period_s = 0;
    r->again = false;
    advance_waiters(i);
    if (r->running)
        end_run(i, CSIREG_ERR_NOT_REGISTERED, NULL);
    else
        answer_waiters(i, CSIREG_ERR_NOT_REGISTERED);
    r->due_ms = CR_NEVER;
}

void cr_refresh_fini(struct cr_instance *i)
{
    for (struct cr_list *l; (l = cr_list_pop(&i->refresh.waiters));) cr_free(CR_CONTAINER(l, struct waiter, node));
    cr_free(i->refresh.error);
}

void cr_refresh_connected(struct cr_instance *i, const struct cr_input *in)
{
    struct cr_refresh *r = &i->refresh;
    r->waiting = 0;
    if (in->error_number != 0) {
        end_run(i, CSIREG_EXHAUSTED_FAILED, "the limit could not be refreshed: no connection to the driver's endpoint");
        return;
    }
    r->conn = in->id;
    r->waiting = cr_emit_rpc(i, r->conn, CR_RPC_NODE_GET_INFO, r->deadline_ms - i->core->now.mono_ms, false, NULL);
    if (!r->waiting) end_run(i, CSIREG_EXHAUSTED_FAILED, "out of memory");
}

/* ---- what the driver says now ---- */

static bool same_keys(const struct cr_desired *d, const struct cr_node_info *info)
{
    if (d->n_labels != info->n_segments) return false;
    for (size_t k = 0; k < d->n_labels; k++)
        if (strcmp(d->labels[k].key, info->segments[k].key) != 0) return false;
    return true;
}

static void warn_changed(struct cr_instance *i)
{
    static const char text[] = "NodeGetInfo reports another node id or other topology keys than registered: nothing is "
                               "written; the driver must register again";
    struct csireg_error *e = cr_error_new(CSIREG_ERR_REFUSED, "%s: %s", i->driver->name, text);
    cr_error_set_step(e, "refresh");
    cr_emit_event(i->core, CSIREG_EVENT_WARNING, i, i->driver, e);
    csireg_error_free(e);
    end_run(i, CSIREG_EXHAUSTED_FAILED, text);
}

static void update(struct cr_instance *i, bool has_count, int32_t count)
{
    struct cr_refresh *r = &i->refresh;
    struct cr_desired *d = &i->driver->desired;
    if (d->has_count == has_count && (!has_count || d->count == count)) {
        end_run(i, CSIREG_EXHAUSTED_UNCHANGED, NULL);
        return;
    }
    r->publishing = true;
    r->old_has_count = d->has_count;
    r->old_count = d->count;
    cr_publisher_update_count(i->core, i->driver, has_count, count);
}

static void take_info(struct cr_instance *i, const struct cr_node_info *info)
{
    struct csireg_error *err = NULL;
    char *warning = NULL;
    bool has_count = false;
    int32_t count = 0;
    if (cr_check_node_id(info->node_id, &err) != 0 || cr_check_topology(info->segments, info->n_segments, &err) != 0) {
        end_run(i, CSIREG_EXHAUSTED_FAILED, csireg_error_message(err));
        csireg_error_free(err);
    } else if (strcmp(info->node_id, i->driver->desired.node_id) != 0 || !same_keys(&i->driver->desired, info)) {
        warn_changed(i);
    } else if (cr_csinode_count_from_limit(info->max_volumes, &has_count, &count, &warning) != 0) {
        end_run(i, CSIREG_EXHAUSTED_FAILED, "out of memory");
    } else {
        update(i, has_count, count);
    }
    cr_free(warning);
}

void cr_refresh_rpc_done(struct cr_instance *i, struct cr_rpc_result *result)
{
    struct cr_refresh *r = &i->refresh;
    r->waiting = 0;
    cr_emit_close(i->core, &r->conn);
    if (!applies(i) || i->driver->desired.want != CR_WANT_NODE_FLOW) {
        end_run(i, CSIREG_EXHAUSTED_FAILED, NULL);
        return;
    }
    if (result->code == CR_GRPC_OK) {
        take_info(i, &result->node);
        return;
    }
    struct csireg_error *e =
        cr_error_new(CSIREG_ERR_RPC, "the limit could not be refreshed: NodeGetInfo: gRPC code %d%s%s", result->code,
                     result->text ? ": " : "", result->text ? result->text : "");
    end_run(i, CSIREG_EXHAUSTED_FAILED, csireg_error_message(e));
    csireg_error_free(e);
}

void cr_refresh_published(struct cr_instance *i, const struct csireg_error *err)
{
    struct cr_refresh *r = &i->refresh;
    if (!r->publishing) return;
    if (!err) {
        end_run(i, CSIREG_EXHAUSTED_REFRESHED, NULL);
        return;
    }
    if (i->driver->desired.want == CR_WANT_NODE_FLOW) {
        i->driver->desired.has_count = r->old_has_count;
        i->driver->desired.count = r->old_count;
    }
    end_run(i, CSIREG_EXHAUSTED_FAILED, csireg_error_message(err));
}

/* ---- the host asks ---- */

static bool wait_for_run(struct cr_instance *i, uint64_t token)
{
    struct cr_refresh *r = &i->refresh;
    struct waiter *w = r->n_waiters < MAX_WAITERS ? CR_NEW(struct waiter) : NULL;
    if (!w) return false;
    w->token = token;
    w->next = r->running;
    cr_list_append(&r->waiters, &w->node);
    r->n_waiters++;
    return true;
}

static int refuse(struct cr_core *core, const struct cr_driver *d)
{
    if (!d || !d->registered) return cr_core_initial_done(core) ? CSIREG_ERR_NOT_REGISTERED : CSIREG_ERR_NOT_READY;
    if (d->view.flow == CSIREG_FLOW_CONTROLLER) return CSIREG_EXHAUSTED_DELEGATED;
    if (d->owner->refresh.period_s) return 0;
    /* a list that did not come yet is not read as "no such object" */
    return core->csidrivers.synced || core->config.local_only ? CSIREG_EXHAUSTED_NO_PERIOD : CSIREG_ERR_NOT_READY;
}

void cr_refresh_exhausted(struct cr_core *core, const char *name, uint64_t token)
{
    struct cr_driver *d = cr_driver_find(core, name);
    int result = refuse(core, d);
    if (result == 0 && !wait_for_run(d->owner, token)) result = CSIREG_EXHAUSTED_FAILED;
    if (result != 0) {
        cr_emit_exhausted(core, token, result);
        return;
    }
    struct cr_refresh *r = &d->owner->refresh;
    if (r->running)
        r->again = true;
    else
        r->due_ms = r->earliest_ms > core->now.mono_ms ? r->earliest_ms : core->now.mono_ms;
    cr_refresh_timer(d->owner);
}
