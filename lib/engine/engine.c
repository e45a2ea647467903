/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's life and its loop. */
#include "engine/engine.h"

#include <curl/curl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>

#include "base/mem.h"
#include "engine/document.h"
#include "engine/state.h"
#include "engine/timed.h"

#define FEW_CLOSED 4     /* closed connections that wait for a quiet millisecond; more wait for a quiet moment */
#define UNTOLD_US  20000 /* between snapshots that no event waits for */

static _Thread_local const struct cr_engine *self; /* the engine that this thread runs */

/* ---- snapshots and events ---- */

static struct cr_watcher_status registry_status(const struct cr_engine *e)
{
    struct cr_watcher_status status = {.generation = 0};
    if (e->watcher) cr_watcher_status(e->watcher, &status);
    return status;
}

static bool snapshot_is_old(const struct cr_engine *e)
{
    struct cr_watcher_status registry = registry_status(e);
    return e->counted || cr_core_generation(e->core) != e->shown_core || registry.generation != e->shown_registry ||
           registry.scans != e->shown_scans;
}

static struct cr_snapshot *take_snapshot(struct cr_engine *e)
{
    struct cr_watcher_status registry = registry_status(e);
    struct cr_document d = {.core = cr_core_status(e->core),
                            .requests = cr_http_request_counts(e->http),
                            .node_name = e->config.core.node_name,
                            .access = e->config.access,
                            .registry = e->watcher ? &registry : NULL};
    json_t *status = cr_document_build(&d);
    struct cr_metrics *metrics = cr_metrics_new(e->core, &e->latencies, e->http, e->watcher ? &registry : NULL);
    struct cr_snapshot *s = cr_snapshot_new(cr_core_drivers(e->core), status, cr_core_initial_done(e->core));
    if (!s || !metrics) {
        cr_snapshot_unref(s);
        cr_metrics_free(metrics);
        return NULL;
    }
    s->metrics = metrics;
    return s;
}

/* False: no memory; the old snapshot stays. */
static bool show_snapshot(struct cr_engine *e)
{
    struct cr_snapshot *s = take_snapshot(e);
    if (!s) return false;
    e->shown_core = cr_core_generation(e->core);
    e->shown_registry = registry_status(e).generation;
    e->shown_scans = registry_status(e).scans;
    e->shown_initial = cr_core_initial_done(e->core);
    e->counted = false;
    e->shown_us = cr_timed_now_us();
    cr_board_publish(&e->board, s);
    return true;
}

static void release_news(struct cr_engine *e)
{
    for (struct cr_list *n; (n = cr_list_pop(&e->held));)
        cr_events_push(&e->events, CR_CONTAINER(n, struct csireg_event, node));
    if (e->answered) cr_answers_release(&e->answers);
    e->answered = false;
}

/* Somebody waits for the next snapshot. */
static bool has_news(const struct cr_engine *e)
{
    return !cr_list_empty(&e->held) || e->answered || cr_core_initial_done(e->core) != e->shown_initial;
}

static int64_t publish_time_us(const struct cr_engine *e)
{
    int64_t wanted = has_news(e) ? 0 : e->shown_us + UNTOLD_US;
    return wanted > e->publish_after_us ? wanted : e->publish_after_us;
}

/* Events and answers follow the snapshot that agrees with them: a host that reads REGISTERED finds the driver. */
static void publish(struct cr_engine *e)
{
    int64_t begin = cr_timed_now_us();
    if (snapshot_is_old(e)) {
        if (begin < publish_time_us(e)) return;
        bool shown = show_snapshot(e);
        int64_t end = cr_timed_now_us();
        e->publish_after_us = end + (shown ? 9 * (end - begin) : 100000);
        if (!shown) return;
    }
    release_news(e);
}

/* ---- the loop ---- */

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t watcher_deadline(const struct cr_engine *e)
{
    return e->watcher ? cr_watcher_deadline(e->watcher) : CR_NEVER;
}

static int64_t publish_deadline(const struct cr_engine *e)
{
    return snapshot_is_old(e) ? publish_time_us(e) / 1000 + 1 : CR_NEVER;
}

static int sleep_ms(const struct cr_engine *e)
{
    size_t closed = cr_connections_closed(&e->connections);
    if (closed > 0) return e->active && closed <= FEW_CLOSED ? 1 : 0;
    int64_t next = earlier(cr_core_deadline(e->core), earlier(watcher_deadline(e), publish_deadline(e)));
    int64_t left = next == CR_NEVER ? -1 : next - cr_clock_now().mono_ms;
    if (next == CR_NEVER) return -1;
    return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

/* True: the watcher has something to read. */
static bool sleep_until_something(struct cr_engine *e)
{
    struct curl_waitfd watched = {.fd = e->watcher ? cr_watcher_fd(e->watcher) : -1, .events = CURL_WAIT_POLLIN};
    cr_http_poll(e->http, &watched, watched.fd >= 0 ? 1 : 0, sleep_ms(e));
    return watched.revents != 0;
}

static void run_watcher(struct cr_engine *e, bool readable)
{
    struct cr_time now = cr_clock_now();
    if (e->watcher && (readable || watcher_deadline(e) <= now.mono_ms)) cr_watcher_run(e->watcher, now);
}

static void run_timers(struct cr_engine *e)
{
    if (cr_core_deadline(e->core) <= cr_clock_now().mono_ms) cr_engine_input(e, &(struct cr_input){.kind = CR_IN_TICK});
}

static void tell_access_warning(struct cr_engine *e)
{
    const char *warning = e->config.access ? e->config.access->warning : NULL;
    if (!warning) return;
    cr_engine_log(e, CSIREG_LOG_WARNING, "api", NULL, warning);
    cr_engine_warn(e, NULL, warning);
}

static void take_turn(struct cr_engine *e, bool readable)
{
    cr_engine_drain_mailbox(e);
    run_watcher(e, readable);
    e->stirred = false;
    cr_http_perform(e->http);
    run_timers(e);
    cr_engine_carry_out(e);
}

/* What a turn asks of the API server is sent before anything is tidied up or shown; and what takes long and helps nobody
 * waits until nothing else has happened for a millisecond. */
static void *run(void *arg)
{
    struct cr_engine *e = arg;
    bool readable = true;
    self = e;
    tell_access_warning(e);
    while (e->running) {
        e->active = false;
        take_turn(e, readable);
        while (e->stirred) take_turn(e, false);
        if (!e->active) cr_connections_end_one(&e->connections);
        publish(e);
        if (e->running) readable = sleep_until_something(e);
    }
    show_snapshot(e);
    release_news(e);
    return NULL;
}

/* ---- start and stop ---- */

static void on_call_done(void *user, struct cr_rpc_call *call)
{
    cr_mailbox_call(&((struct cr_engine *)user)->mailbox, call);
}

static void ring(void *user) { cr_http_wakeup(((struct cr_engine *)user)->http); }

/* Undoes any prefix of make_edges. Before it, nothing is out; after it, nobody rings. */
static void free_edges(struct cr_engine *e)
{
    cr_connections_close_all(&e->connections);
    if (e->rpc) cr_rpc_free(e->rpc);
    cr_watcher_free(e->watcher);
    if (e->http) cr_http_free(e->http);
    cr_core_free(e->core);
    e->rpc = NULL;
    e->watcher = NULL;
    e->http = NULL;
    e->core = NULL;
}

static int make_watcher(struct cr_engine *e, struct csireg_error **error)
{
    struct cr_watcher_handlers handlers = cr_engine_watcher_handlers;
    handlers.user = e;
    if (!e->config.registry.path) return CSIREG_OK;
    return cr_watcher_new(&e->watcher, &e->config.registry, &handlers, error);
}

static int make_edges(struct cr_engine *e, struct csireg_error **error)
{
    struct cr_http_handlers handlers = cr_engine_http_handlers;
    handlers.user = e;
    e->core = cr_core_new(&e->config.core, cr_clock_now());
    int rc = e->core ? CSIREG_OK : cr_error_put(error, cr_error_oom());
    if (rc == CSIREG_OK) rc = cr_http_new(&e->http, e->config.access, &handlers, error);
    if (rc == CSIREG_OK) rc = make_watcher(e, error);
    if (rc == CSIREG_OK) rc = cr_rpc_new(&e->rpc, on_call_done, e, error);
    if (rc == CSIREG_OK) cr_rpc_allow_peers(e->rpc, &e->config.core.allowed_owners);
    if (rc == CSIREG_OK && !show_snapshot(e)) rc = cr_error_put(error, cr_error_oom());
    return rc;
}

/* Every thread made here inherits the mask: the host's handlers run on the host's threads only. */
static int start_with_signals_blocked(struct cr_engine *e, struct csireg_error **error)
{
    int rc = make_edges(e, error);
    if (rc != CSIREG_OK) return rc;
    e->running = true;
    int err = pthread_create(&e->thread, NULL, run, e);
    if (err != 0) return cr_error_put(error, cr_error_os(err, "starting the engine thread"));
    pthread_setname_np(e->thread, "csireg-engine");
    e->threaded = true;
    cr_mailbox_open(&e->mailbox);
    return CSIREG_OK;
}

int cr_engine_start(struct cr_engine *e, struct csireg_error **error)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int rc = start_with_signals_blocked(e, error);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != CSIREG_OK) free_edges(e);
    return rc;
}

void cr_engine_stop(struct cr_engine *e)
{
    if (e->threaded) {
        cr_mailbox_close(&e->mailbox, e->stop_command);
        e->stop_command = NULL;
        pthread_join(e->thread, NULL);
        e->threaded = false;
        free_edges(e);
    }
    cr_board_end(&e->board);
    cr_answers_end(&e->answers);
    if (e->stopped_event) cr_events_push(&e->events, e->stopped_event);
    e->stopped_event = NULL;
}

/* ---- new and free ---- */

/* What has to be made and may fail, in order; what was made is undone by the caller's cr_engine_free. */
static int make_parts(struct cr_engine *e)
{
    int err = cr_mailbox_init(&e->mailbox, ring, e);
    if (err == 0) e->made++;
    if (err == 0 && (err = cr_board_init(&e->board)) == 0) e->made++;
    if (err == 0 && (err = cr_answers_init(&e->answers)) == 0) e->made++;
    if (err == 0 && (err = cr_events_init(&e->events)) == 0) e->made++;
    return err;
}

int cr_engine_new(struct cr_engine **out, const struct cr_engine_config *config, struct csireg_error **error)
{
    struct cr_engine *e = CR_NEW(struct cr_engine);
    if (!e) return cr_error_put(error, cr_error_oom());
    json_object_seed(0); /* before there are threads */
    cr_list_init(&e->held);
    cr_connections_init(&e->connections);
    cr_reported_init(&e->reported);
    cr_latencies_init(&e->latencies);
    e->stop_command = CR_NEW(struct cr_command);
    e->stopped_event = cr_event_new(CSIREG_EVENT_STOPPED, NULL, NULL);
    int err = make_parts(e);
    if (err == 0 && e->stop_command && e->stopped_event) {
        e->stop_command->kind = CR_IN_STOP;
        e->config = *config;
        *out = e;
        return CSIREG_OK;
    }
    cr_engine_free(e);
    return cr_error_put(error, err ? cr_error_os(err, "making the event descriptor") : cr_error_oom());
}

void cr_engine_free(struct cr_engine *e)
{
    if (!e) return;
    for (struct cr_list *n; (n = cr_list_pop(&e->held));) csireg_event_free(CR_CONTAINER(n, struct csireg_event, node));
    cr_reported_fini(&e->reported);
    cr_latencies_fini(&e->latencies);
    if (e->made > 3) cr_events_fini(&e->events);
    if (e->made > 2) cr_answers_fini(&e->answers);
    if (e->made > 1) cr_board_fini(&e->board);
    if (e->made > 0) cr_mailbox_fini(&e->mailbox);
    cr_command_free(e->stop_command);
    csireg_event_free(e->stopped_event);
    cr_access_free(e->config.access);
    cr_free(e->config.owners);
    cr_free(e);
}

/* ---- for the facade ---- */

bool cr_engine_is_self(const struct cr_engine *e) { return self == e; }

int cr_engine_post(struct cr_engine *e, struct cr_command *c)
{
    int rc = cr_mailbox_command(&e->mailbox, c);
    if (rc != CSIREG_OK) cr_command_free(c);
    return rc;
}

struct cr_events *cr_engine_events(struct cr_engine *e) { return &e->events; }

struct cr_board *cr_engine_board(struct cr_engine *e) { return &e->board; }

struct cr_answers *cr_engine_answers(struct cr_engine *e) { return &e->answers; }
