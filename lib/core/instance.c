/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an instance: attempts begin, end, are repeated; the instance vanishes. */
#include <stdio.h>
#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/internal.h"

const char *cr_instance_name(const struct cr_instance *i) { return i->plugin.name ? i->plugin.name : ""; }

static void changed(struct cr_instance *i)
{
    json_decref(i->status);
    i->status = NULL;
    if (i->driver) cr_driver_changed(i->driver);
    i->core->generation++;
}

void cr_instance_set_state(struct cr_instance *i, enum cr_state state)
{
    bool legal = cr_state_may_follow(i->state, state);
    cr_emit_log(i->core, legal ? CSIREG_LOG_DEBUG : CSIREG_LOG_ERROR, "registration", i, "%s -> %s%s",
                cr_state_name(i->state), cr_state_name(state), legal ? "" : " (not in the table: a fault of csireg)");
    i->state = state;
    i->since_wall_ms = i->core->now.wall_ms;
    i->timer_ms = CR_NEVER;
    i->next_try_wall_ms = 0;
    changed(i);
}

bool cr_instance_gathering(const struct cr_instance *i)
{
    return i->state >= CR_STATE_CONNECTING && i->state <= CR_STATE_NODE_INFO && i->state != CR_STATE_HANDLER;
}

void cr_instance_close(struct cr_instance *i)
{
    i->waiting = 0;
    cr_emit_close(i->core, &i->service);
    cr_emit_close(i->core, &i->conn);
}

/* ---- attempts ---- */

bool cr_instance_owns(const struct cr_instance *i) { return i->driver && i->driver->owner == i; }

/* What is on its way to the API server is not awaited any more. */
static void stop_publishing(struct cr_instance *i)
{
    struct cr_driver *d = i->driver;
    if (i->state != CR_STATE_PUBLISHING || !d) return;
    if (d->claimant == i)
        cr_publisher_restore(i->core, d);
    else if (!d->registered)
        cr_publisher_leave(d);
}

/* Gives the name up; a standby of it may try. */
static void release_name(struct cr_instance *i, struct cr_driver *d)
{
    char name[CR_MAX_DRIVER_NAME + 1];
    snprintf(name, sizeof name, "%s", d->name);
    cr_driver_release(d, i);
    cr_contest_name_free(i->core, name);
}

static void restore_previous(struct cr_instance *i)
{
    if (!i->previous) return;
    if (i->driver) release_name(i, i->driver);
    i->driver = i->previous;
    i->previous = NULL;
}

void cr_instance_start(struct cr_instance *i)
{
    cr_instance_close(i);
    stop_publishing(i);
    restore_previous(i); /* an attempt under another name that did not come to its end */
    if (i->token) cr_emit_plugin(i->core, CSIREG_EVENT_PLUGIN_GONE, i);
    i->token = 0;
    i->plugin_accepted = false; /* the host was told that it is gone */
    cr_instance_set_state(i, CR_STATE_NEW);
    i->attempts++;
    i->core->counters.attempts++;
    i->gather_ms = i->core->now.mono_ms;
    i->attempt_seq = ++i->core->seq;
    i->waits_for_name = false;
    i->forced_node_flow = false;
    i->quiet = false;
    cr_handshake_begin(i);
}

void cr_instance_retry(struct cr_instance *i)
{
    cr_backoff_reset(&i->backoff);
    bool waits = i->state == CR_STATE_BACKOFF || i->state == CR_STATE_UNCONFIRMED || i->state == CR_STATE_STANDBY;
    if (i->state == CR_STATE_REJECTING) i->again = true;
    if (!waits) return;
    i->core->counters.retries++;
    cr_instance_start(i);
}

/* ---- how an attempt ends ---- */

static bool same_error(const struct csireg_error *a, const struct csireg_error *b)
{
    return a && b && a->code == b->code && a->number == b->number &&
           strcmp(csireg_error_message(a), csireg_error_message(b)) == 0;
}

/* Keeps the error for status; tells host and log when it is another one than the last time. */
static void record(struct cr_instance *i, const char *step, struct csireg_error *err)
{
    cr_error_set_step(err, step);
    cr_error_set_driver(err, cr_instance_name(i));
    bool news = !same_error(i->error, err);
    cr_count_failure(&i->core->counters, step, !err->retryable);
    csireg_error_free(i->error);
    i->error = err;
    i->error_wall_ms = i->core->now.wall_ms;
    if (!news) return;
    /* a driver that stays registered has not failed */
    cr_emit_event(i->core, i->unconfirmed ? CSIREG_EVENT_WARNING : CSIREG_EVENT_FAILED, i, NULL, err);
    cr_emit_log(i->core, CSIREG_LOG_WARNING, "registration", i, "%s failed (%s): %s", step,
                err->retryable ? "transient" : "persistent", csireg_error_message(err));
}

void cr_instance_withdraw(struct cr_instance *i, const struct csireg_error *why)
{
    if (!cr_instance_owns(i)) return;
    if (i->driver->registered)
        cr_driver_unregister(i->driver, why);
    else
        cr_publisher_remove(i->core, i->driver);
}

/* The name that the instance had before it reported another one. */
void cr_instance_give_up_previous(struct cr_instance *i)
{
    struct cr_driver *old = i->previous;
    if (!old) return;
    i->previous = NULL;
    cr_driver_unregister(old, i->error);
    release_name(i, old);
}

/* A failed first attempt after a recreation ends what its predecessor had registered. */
static void end_of_recreation(struct cr_instance *i)
{
    if (i->recreated) {
        i->recreated = false;
        cr_instance_give_up_previous(i);
        if (cr_instance_owns(i) && i->driver->registered) cr_driver_unregister(i->driver, i->error);
    }
    restore_previous(i);
}

static void wait_for_next_try(struct cr_instance *i)
{
    bool transient = !i->error || i->error->retryable || i->waits_for_name; /* the name is free again */
    int64_t delay = transient ? cr_backoff_next(&i->backoff, CR_BACKOFF_FIRST_MS, CR_BACKOFF_CAP_MS, &i->core->rng)
                              : CR_BACKOFF_CAP_MS + (int64_t)cr_rng_below(&i->core->rng, CR_BACKOFF_CAP_MS / 10);
    i->timer_ms = i->core->now.mono_ms + delay;
    i->next_try_wall_ms = i->core->now.wall_ms + delay;
}

static void tried(struct cr_instance *i)
{
    i->initial = false;
    i->core->generation++;
}

void cr_instance_settle(struct cr_instance *i)
{
    cr_instance_close(i);
    end_of_recreation(i);
    bool keeps = i->plugin_accepted || (cr_instance_owns(i) && i->driver->registered);
    bool stands_by = !keeps && i->waits_for_name && cr_contest_is_taken(i);
    cr_instance_set_state(i, keeps       ? i->quiet ? CR_STATE_REGISTERED : CR_STATE_UNCONFIRMED
                             : stands_by ? CR_STATE_STANDBY
                                         : CR_STATE_BACKOFF);
    if (!stands_by) wait_for_next_try(i);
    if (i->again && !stands_by) i->timer_ms = i->core->now.mono_ms;
    i->again = false;
    tried(i);
    if (!keeps && i->driver) release_name(i, i->driver);
}

void cr_instance_failed(struct cr_instance *i, const char *step, struct csireg_error *err)
{
    record(i, step, err);
    cr_instance_settle(i);
}

void cr_instance_rejected(struct cr_instance *i, const char *step, struct csireg_error *err)
{
    char text[CR_MAX_NOTIFY_ERROR + 1];
    record(i, step, err);
    cr_emit_close(i->core, &i->service);
    if (i->conn) {
        const char *message = csireg_error_message(err);
        size_t len = strlen(message);
        if (len > CR_MAX_NOTIFY_ERROR) len = cr_utf8_cut(message, CR_MAX_NOTIFY_ERROR);
        memcpy(text, message, len);
        text[len] = '\0';
        i->waiting = cr_emit_rpc(i, i->conn, CR_RPC_NOTIFY, i->core->config.notify_timeout_ms, false, text);
        if (i->waiting) {
            cr_instance_set_state(i, CR_STATE_REJECTING);
            cr_handshake_expect(i, i->core->config.notify_timeout_ms);
            return;
        }
    }
    cr_instance_settle(i);
}

void cr_instance_unconfirmed(struct cr_instance *i, struct csireg_error *err)
{
    i->recreated = false;
    i->unconfirmed = true;
    record(i, "NotifyRegistrationStatus", err);
    cr_instance_settle(i);
}

void cr_instance_succeeded(struct cr_instance *i)
{
    cr_instance_close(i);
    i->recreated = i->quiet = i->unconfirmed = false;
    csireg_error_free(i->error);
    i->error = NULL;
    cr_backoff_reset(&i->backoff);
    cr_instance_set_state(i, CR_STATE_REGISTERED);
    tried(i);
    if (i->plugin_accepted) return;
    cr_csidrivers_check(i);                             /* it may have changed while the attempt ran */
    cr_contest_name_free(i->core, cr_instance_name(i)); /* its version may be lower than it was */
}

/* ---- the end ---- */

static void let_go(struct cr_instance *i, struct cr_driver *d)
{
    if (!d) return;
    if (d->claimant == i) {
        stop_publishing(i);
    } else if (d->registered) {
        if (d == i->driver && cr_contest_succeed(i)) return;
        cr_driver_unregister(d, NULL);
    } else if (cr_plan_is_install(d) || d->touched) {
        cr_publisher_remove(i->core, d);
    }
    release_name(i, d);
}

void cr_instance_remove_remains(struct cr_instance *i)
{
    struct cr_driver *d = cr_driver_find(i->core, cr_instance_name(i));
    if (d && !d->owner && d->touched) cr_publisher_remove(i->core, d);
}

void cr_instance_vanish(struct cr_instance *i)
{
    cr_refresh_stop(i);
    cr_instance_close(i);
    cr_emit_log(i->core, CSIREG_LOG_INFO, "registration", i, "gone");
    if (i->token || i->plugin_accepted) cr_emit_plugin(i->core, CSIREG_EVENT_PLUGIN_GONE, i);
    i->core->generation++;
    i->waits_for_name = false;
    let_go(i, i->previous);
    if (i->driver)
        let_go(i, i->driver);
    else
        cr_instance_remove_remains(i);
    cr_instance_free(i);
}

void cr_instance_free(struct cr_instance *i)
{
    cr_list_remove(&i->node);
    i->core->n_instances--;
    cr_free(i->path);
    cr_free(i->version);
    cr_free(i->endpoint);
    cr_plugin_info_fini(&i->plugin);
    cr_node_info_fini(&i->info);
    csireg_error_free(i->error);
    json_decref(i->status);
    cr_refresh_fini(i);
    cr_free(i);
}
