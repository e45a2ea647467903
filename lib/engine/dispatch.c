/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened becomes an input of the core; what the core wants done is carried out. Inputs never nest: effects are
 * popped and carried out outside of cr_core_input, one at a time, and one that is answered at once (CONNECT) makes its
 * input there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "engine/state.h"
#include "engine/timed.h"
#include "io/rpc_dial.h"

/* ---- log and warnings ---- */

static void log_record(struct cr_engine *e, const struct csireg_log_record *record)
{
    if (e->config.log && record->level <= e->config.log_level) e->config.log(e->config.log_user, record);
}

void cr_engine_log(struct cr_engine *e, enum csireg_log_level level, const char *module, const char *path,
                   const char *text)
{
    log_record(
        e, &(struct csireg_log_record){sizeof(struct csireg_log_record), level, module, "", path ? path : "", text});
}

static void hold(struct cr_engine *e, struct csireg_event *event) { cr_list_append(&e->held, &event->node); }

void cr_engine_warn(struct cr_engine *e, const char *path, const char *text)
{
    struct csireg_event *event = cr_event_new(CSIREG_EVENT_WARNING, NULL, path);
    if (!event) return; /* log and status still tell */
    event->error = cr_error_new(CSIREG_ERR_CONFIG, "%s", text);
    cr_error_set_origin(event->error, CSIREG_ORIGIN_CONFIG, 0);
    hold(e, event);
}

/* ---- inputs ---- */

void cr_engine_input(struct cr_engine *e, struct cr_input *in)
{
    e->active = true;
    cr_core_input(e->core, cr_clock_now(), in);
}

static void path_input(struct cr_engine *e, enum cr_input_kind kind, const char *path)
{
    cr_engine_input(e, &(struct cr_input){.kind = kind, .path = path});
}

static void on_api_done(void *user, uint64_t id, struct cr_api_answer *answer)
{
    struct cr_engine *e = user;
    e->counted = true;
    cr_engine_input(e, &(struct cr_input){.kind = CR_IN_API_DONE, .id = id, .api = answer});
}

static void on_watch_line(void *user, uint64_t id, const char *line, size_t len)
{
    (void)len;
    cr_engine_input(user, &(struct cr_input){.kind = CR_IN_WATCH_LINE, .id = id, .text = line});
}

static void on_credentials_changed(void *user)
{
    cr_engine_input(user, &(struct cr_input){.kind = CR_IN_CREDENTIALS_CHANGED});
}

const struct cr_http_handlers cr_engine_http_handlers = {
    .done = on_api_done, .watch_line = on_watch_line, .credentials_changed = on_credentials_changed};

static void on_seen(void *user, const char *path, const struct cr_identity *identity)
{
    cr_engine_input(user, &(struct cr_input){.kind = CR_IN_SOCKET_SEEN, .path = path, .identity = *identity});
}

static void on_gone(void *user, const char *path) { path_input(user, CR_IN_SOCKET_GONE, path); }

static void on_scan_done(void *user) { cr_engine_input(user, &(struct cr_input){.kind = CR_IN_SCAN_DONE}); }

static void on_watcher_log(void *user, enum csireg_log_level level, const char *path, const char *text)
{
    cr_engine_log(user, level, "watcher", path, text);
    if (level <= CSIREG_LOG_WARNING) cr_engine_warn(user, path, text);
}

const struct cr_watcher_handlers cr_engine_watcher_handlers = {
    .seen = on_seen, .gone = on_gone, .scan_done = on_scan_done, .log = on_watcher_log};

/* ---- commands of the host ---- */

static void log_ignored(struct cr_engine *e, const char *path, int error_number)
{
    char text[CR_MAX_LOG_TEXT + 1], why[128] = "";
    enum csireg_log_level level = error_number == ENOENT ? CSIREG_LOG_DEBUG : CSIREG_LOG_WARNING;
    if (!e->config.log || level > e->config.log_level) return;
    const char *reason =
        error_number == ENOSPC ? "the limit of reported sockets is reached" : strerror_r(error_number, why, sizeof why);
    snprintf(text, sizeof text, "ignoring a reported socket: %s", reason);
    cr_engine_log(e, level, "registration", path, text);
}

static void socket_seen(struct cr_engine *e, const char *path)
{
    int error_number = 0;
    struct cr_input in = {.kind = CR_IN_SOCKET_SEEN, .path = path, .from_host = true};
    switch (cr_reported_seen(&e->reported, path, &in.identity, &error_number)) {
    case CR_REPORT_SEEN:
        cr_engine_input(e, &in);
        break;
    case CR_REPORT_GONE:
        path_input(e, CR_IN_SOCKET_GONE, path);
        break;
    case CR_REPORT_IGNORED:
        log_ignored(e, path, error_number);
        break;
    }
}

static void socket_gone(struct cr_engine *e, const char *path)
{
    if (cr_reported_gone(&e->reported, path) == CR_REPORT_GONE) path_input(e, CR_IN_SOCKET_GONE, path);
}

static void command(struct cr_engine *e, struct cr_command *c)
{
    if (c->kind == CR_IN_SOCKET_SEEN) {
        socket_seen(e, c->path);
    } else if (c->kind == CR_IN_SOCKET_GONE) {
        socket_gone(e, c->path);
    } else {
        cr_engine_input(e, &(struct cr_input){.kind = c->kind,
                                              .name = c->name,
                                              .endpoint = c->endpoint,
                                              .text = c->text,
                                              .versions = (const char *const *)c->versions,
                                              .n_versions = c->n_versions,
                                              .token = c->token,
                                              .ok = c->ok});
    }
    cr_command_free(c);
}

static void call_done(struct cr_engine *e, struct cr_rpc_call *call)
{
    cr_latencies_end(&e->latencies, e->core, call->id, call->result.code, cr_timed_now_us());
    e->counted = true;
    cr_engine_input(e, &(struct cr_input){.kind = CR_IN_RPC_DONE, .id = call->id, .rpc = &call->result});
    cr_rpc_call_free(call);
}

void cr_engine_drain_mailbox(struct cr_engine *e)
{
    struct cr_list commands, calls, *n;
    cr_list_init(&commands);
    cr_list_init(&calls);
    cr_mailbox_drain(&e->mailbox, &commands, &calls);
    while ((n = cr_list_pop(&calls))) call_done(e, CR_CONTAINER(n, struct cr_rpc_call, node));
    while ((n = cr_list_pop(&commands))) command(e, CR_CONTAINER(n, struct cr_command, node));
}

/* ---- effects ---- */

static void connect_now(struct cr_engine *e, const struct cr_effect *f)
{
    struct cr_conn *conn = NULL;
    struct cr_input in = {.kind = CR_IN_CONNECTED, .id = f->id};
    in.error_number = cr_rpc_connect(e->rpc, f->path, &conn, &in.identity);
    if (in.error_number == 0 && !cr_connections_add(&e->connections, f->id, conn)) {
        cr_rpc_close(conn);
        in.error_number = ENOMEM;
    }
    cr_engine_input(e, &in);
}

/* Does the service socket take connections? Nothing is said on the connection. */
static void probe_now(struct cr_engine *e, const struct cr_effect *f)
{
    int fd = -1;
    struct cr_input in = {.kind = CR_IN_CONNECTED, .id = f->id, .ok = true};
    in.error_number = cr_rpc_dial(f->path, &e->config.core.allowed_owners, &fd, &in.identity);
    if (in.error_number == 0) close(fd);
    cr_engine_input(e, &in);
}

static void start_rpc(struct cr_engine *e, const struct cr_effect *f)
{
    struct cr_conn *conn = cr_connections_get(&e->connections, f->conn);
    if (conn) {
        cr_latencies_begin(&e->latencies, f->id, f->driver, f->method, cr_timed_now_us());
        cr_rpc_start(conn, f->id, f->method, f->timeout_ms, f->flag, f->text);
        return;
    }
    struct cr_rpc_result closed = {.code = CR_GRPC_UNAVAILABLE}; /* every effect ends in one input, this one too */
    cr_engine_input(e, &(struct cr_input){.kind = CR_IN_RPC_DONE, .id = f->id, .rpc = &closed});
}

static void start_request(struct cr_engine *e, struct cr_effect *f)
{
    e->counted = e->stirred = true;
    cr_http_start(e->http, f->id, &f->request);
}

static void cancel_request(struct cr_engine *e, uint64_t id)
{
    e->stirred = true;
    cr_http_cancel(e->http, id);
}

static void answer(struct cr_engine *e, const struct cr_effect *f)
{
    cr_answers_put(&e->answers, f->id, f->result);
    e->answered = true;
}

static void log_effect(struct cr_engine *e, const struct cr_effect *f)
{
    log_record(e, &(struct csireg_log_record){sizeof(struct csireg_log_record), f->level, f->module,
                                              f->driver ? f->driver : "", f->path ? f->path : "", f->text});
}

static void carry_out(struct cr_engine *e, struct cr_effect *f)
{
    switch (f->kind) {
    case CR_EFF_CONNECT:
        connect_now(e, f);
        break;
    case CR_EFF_PROBE:
        probe_now(e, f);
        break;
    case CR_EFF_CLOSE:
        cr_connections_close(&e->connections, f->conn);
        break;
    case CR_EFF_RPC:
        start_rpc(e, f);
        break;
    case CR_EFF_CANCEL_RPC:
        cr_rpc_cancel(e->rpc, f->id);
        break;
    case CR_EFF_API:
        start_request(e, f);
        break;
    case CR_EFF_CANCEL_API:
        cancel_request(e, f->id);
        break;
    case CR_EFF_EXHAUSTED:
        answer(e, f);
        break;
    case CR_EFF_LOG:
        log_effect(e, f);
        break;
    case CR_EFF_STOPPED:
        e->running = false;
        break;
    case CR_EFF_EVENT:
        hold(e, f->event);
        f->event = NULL;
        break;
    }
}

void cr_engine_carry_out(struct cr_engine *e)
{
    struct cr_effect *f;
    while ((f = cr_core_pop_effect(e->core))) {
        carry_out(e, f);
        cr_effect_free(f);
    }
}
