/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of one attempt, in order: connect, GetInfo, checks, NodeGetCapabilities, flow, NodeGetInfo, publication,
 * notification. Each step starts an effect and returns; its answer comes back here and starts the next.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "core/csinode.h"
#include "core/internal.h"
#include "core/names.h"
#include "core/shown.h"
#include "core/versions.h"

#define LATE_MS 1000 /* past its deadline a call is not waited for any more */

/* ---- errors ---- */

static struct csireg_error *transient(struct csireg_error *e)
{
    cr_error_set_retryable(e, true);
    return e;
}

static bool persistent_errno(int number)
{
    return number == EACCES || number == EPERM || number == ENOTSOCK || number == EPROTOTYPE || number == ENAMETOOLONG;
}

static const char *errno_hint(int number)
{
    switch (number) {
    case EACCES:
    case EPERM:
        return " (check the mode of the socket and its directories, the security module, and allowed-socket-owners)";
    case ENOTSOCK:
    case EPROTOTYPE:
        return " (not a stream socket)";
    case ENOENT:
        return " (does the driver run, and is this the path as seen on the host?)";
    case ECONNREFUSED:
        return " (nobody listens there: does the driver run?)";
    case ENAMETOOLONG:
        return " (a socket path has at most 4095 bytes)";
    default:
        return "";
    }
}

static struct csireg_error *owner_error(const struct cr_instance *i, const char *what, const char *path, uint32_t uid)
{
    return cr_error_new(CSIREG_ERR_REFUSED,
                        "%s%sthe %s %s belongs to uid %u, which allowed-socket-owners does not list",
                        cr_instance_name(i), *cr_instance_name(i) ? ": " : "", what, path, (unsigned)uid);
}

static struct csireg_error *connect_error(const struct cr_instance *i, const char *what, const char *path,
                                          const struct cr_input *in)
{
    const char *name = cr_instance_name(i);
    int number = in->error_number;
    if (number == EPERM && in->identity.ino && !cr_uids_have(&i->core->config.allowed_owners, in->identity.uid))
        return owner_error(i, what, path, in->identity.uid);
    struct csireg_error *e =
        cr_error_os(number, "%s%sconnecting to the %s %s%s", name, *name ? ": " : "", what, path, errno_hint(number));
    cr_error_set_retryable(e, !persistent_errno(number));
    return e;
}

/* persistent: besides refused messages, the code that makes this RPC's failure class P; -1 for none. */
static struct csireg_error *rpc_error(const struct cr_instance *i, const char *rpc, const char *path,
                                      const struct cr_rpc_result *r, int persistent, const char *hint)
{
    const char *name = cr_instance_name(i), *text = r->text ? r->text : "";
    struct csireg_error *e =
        cr_error_new(CSIREG_ERR_RPC, "%s%s%s on %s failed: gRPC code %d%s%s%s", name, *name ? ": " : "", rpc, path,
                     r->code, *text ? ": " : "", text, r->code == persistent ? hint : "");
    cr_error_set_origin(e, CSIREG_ORIGIN_GRPC, r->code);
    cr_error_set_retryable(e, !r->refused && r->code != persistent);
    return e;
}

static struct csireg_error *refusal(const struct cr_instance *i, struct csireg_error *e)
{
    if (*cr_instance_name(i)) cr_error_prefix(e, "%s", cr_shown(cr_instance_name(i)).text);
    return e;
}

/* ---- connect and GetInfo ---- */

static void connect_registration(struct cr_instance *i)
{
    i->timer_ms = CR_NEVER;
    i->waiting = cr_emit_connect(i->core, i->path);
    if (!i->waiting) cr_instance_failed(i, "connect", cr_error_oom());
}

static void begin_node_rpcs(struct cr_instance *i);
static void check_plugin(struct cr_instance *i);

void cr_handshake_begin(struct cr_instance *i)
{
    if (!i->path) {
        check_plugin(i);
        return;
    }
    cr_instance_set_state(i, CR_STATE_CONNECTING);
    cr_backoff_reset(&i->connect_backoff);
    i->step_deadline_ms = i->core->now.mono_ms + i->core->config.connect_timeout_ms;
    connect_registration(i);
}

static bool worth_waiting_for(int number) { return number == ENOENT || number == ECONNREFUSED || number == EAGAIN; }

static void registration_connected(struct cr_instance *i, const struct cr_input *in)
{
    struct cr_core *core = i->core;
    if (in->error_number == 0) {
        i->conn = in->id;
        cr_instance_set_state(i, CR_STATE_GET_INFO);
        i->waiting = cr_emit_rpc(i, i->conn, CR_RPC_GET_INFO, core->config.getinfo_timeout_ms, false, NULL);
        cr_handshake_expect(i, core->config.getinfo_timeout_ms);
        if (!i->waiting) cr_instance_failed(i, "GetInfo", cr_error_oom());
        return;
    }
    int64_t pause = cr_backoff_next(&i->connect_backoff, CR_CONNECT_FIRST_MS, CR_CONNECT_CAP_MS, &core->rng);
    if (worth_waiting_for(in->error_number) && core->now.mono_ms + pause < i->step_deadline_ms)
        i->timer_ms = core->now.mono_ms + pause;
    else
        cr_instance_failed(i, "connect", connect_error(i, "registration socket", i->path, in));
}

static void got_info(struct cr_instance *i, struct cr_rpc_result *r)
{
    if (r->code != CR_GRPC_OK) {
        cr_instance_failed(
            i, "GetInfo",
            rpc_error(i, "GetInfo", i->path, r, CR_GRPC_UNIMPLEMENTED,
                      " (this socket does not serve plugin registration: is it the CSI service socket?)"));
        return;
    }
    if (strcmp(cr_instance_name(i), r->plugin.name) != 0) cr_instance_remove_remains(i);
    cr_plugin_info_fini(&i->plugin);
    i->plugin = r->plugin;
    r->plugin = (struct cr_plugin_info){0};
    cr_utf8_sanitise(i->plugin.name,
                     strlen(i->plugin.name)); /* no legal name changes, and none breaks a line of a log */
    cr_utf8_sanitise(i->plugin.type, strlen(i->plugin.type));
    check_plugin(i);
}

/* ---- checks ---- */

static bool handled_type(const struct cr_instance *i)
{
    for (char **t = i->core->types; *t; t++)
        if (strcmp(*t, i->plugin.type) == 0) return true;
    return false;
}

static int choose(struct cr_instance *i, struct csireg_error **err)
{
    char *endpoint = NULL, *version = NULL;
    int rc = cr_check_driver_name(i->plugin.name, err);
    if (rc == 0) rc = cr_check_endpoint(i->plugin.endpoint, i->path, &endpoint, err);
    if (rc == 0) rc = cr_version_choose((const char *const *)i->plugin.versions, i->plugin.n_versions, &version, err);
    if (rc != 0) {
        cr_free(endpoint);
        return rc;
    }
    cr_free(i->endpoint);
    cr_free(i->version);
    i->endpoint = endpoint;
    i->version = version;
    return 0;
}

static void ask_handler(struct cr_instance *i)
{
    cr_free(i->endpoint);
    i->endpoint = cr_strdup(*i->plugin.endpoint ? i->plugin.endpoint : i->path);
    i->token = ++i->core->next_token;
    i->plugin_accepted = false;
    cr_instance_set_state(i, CR_STATE_HANDLER);
    i->timer_ms = i->core->now.mono_ms + i->core->config.handler_timeout_ms;
    cr_emit_plugin(i->core, CSIREG_EVENT_PLUGIN, i);
}

static void check_plugin(struct cr_instance *i)
{
    struct csireg_error *err = NULL;
    if (i->path && strcmp(i->plugin.type, "CSIPlugin") != 0) {
        if (handled_type(i)) {
            ask_handler(i);
            return;
        }
        err = cr_error_new(
            CSIREG_ERR_REFUSED,
            "plugin type \"%s\" has no handler here: \"CSIPlugin\" is served, others are with plugin-types",
            i->plugin.type);
        cr_instance_rejected(i, "GetInfo", err);
        return;
    }
    if (choose(i, &err) != 0) {
        cr_instance_rejected(i, "GetInfo", refusal(i, err));
        return;
    }
    if (cr_contest_enter(i)) begin_node_rpcs(i);
}

/* ---- node RPCs ---- */

/* The driver cannot be used as it is: what is published under its name goes, then the plugin is told. */
static void node_rpc_failed(struct cr_instance *i, const char *step, struct csireg_error *err)
{
    if (!i->quiet) cr_instance_withdraw(i, err);
    cr_instance_rejected(i, step, err);
}

static void begin_node_rpcs(struct cr_instance *i)
{
    struct cr_core *core = i->core;
    if (!core->config.local_only) {
        cr_publisher_prefetch(core);
        cr_csidrivers_open(core);
    }
    cr_instance_set_state(i, CR_STATE_ENDPOINT);
    i->step_deadline_ms = core->now.mono_ms + core->config.node_rpc_timeout_ms;
    i->waiting = cr_emit_connect(core, i->endpoint);
    if (!i->waiting) node_rpc_failed(i, "connect", cr_error_oom());
}

static void call_node(struct cr_instance *i, enum cr_rpc_method method, enum cr_state state, const char *step)
{
    int64_t left = i->step_deadline_ms - i->core->now.mono_ms;
    cr_instance_set_state(i, state);
    i->waiting = cr_emit_rpc(i, i->service, method, left, i->flow == CSIREG_FLOW_CONTROLLER, NULL);
    cr_handshake_expect(i, left);
    if (!i->waiting) node_rpc_failed(i, step, cr_error_oom());
}

static void get_node_info(struct cr_instance *i, enum csireg_flow flow)
{
    if (i->state == CR_STATE_CSIDRIVER) i->gather_ms = i->core->now.mono_ms;
    i->flow = flow;
    call_node(i, CR_RPC_NODE_GET_INFO, CR_STATE_NODE_INFO, "NodeGetInfo");
}

static bool gate(const struct cr_instance *i)
{
    return i->core->config.gate && !i->core->config.local_only && !i->forced_node_flow;
}

static void endpoint_connected(struct cr_instance *i, const struct cr_input *in)
{
    if (in->error_number != 0) {
        node_rpc_failed(i, "connect", connect_error(i, "driver's endpoint", i->endpoint, in));
        return;
    }
    i->service = in->id;
    i->flow = CSIREG_FLOW_NODE;
    i->capable = false;
    if (gate(i))
        call_node(i, CR_RPC_NODE_GET_CAPABILITIES, CR_STATE_CAPABILITIES, "NodeGetCapabilities");
    else
        get_node_info(i, CSIREG_FLOW_NODE);
}

void cr_handshake_connected(struct cr_instance *i, const struct cr_input *in)
{
    i->waiting = 0;
    if (i->state == CR_STATE_CONNECTING)
        registration_connected(i, in);
    else
        endpoint_connected(i, in);
}

static bool has_capability(const struct cr_node_capabilities *c, int32_t wanted)
{
    for (size_t k = 0; k < c->n_types; k++)
        if (c->types[k] == wanted) return true;
    return false;
}

static void got_capabilities(struct cr_instance *i, const struct cr_rpc_result *r)
{
    bool none = r->code == CR_GRPC_UNIMPLEMENTED && !r->refused; /* an old driver */
    if (r->code != CR_GRPC_OK && !none) {
        node_rpc_failed(i, "NodeGetCapabilities", rpc_error(i, "NodeGetCapabilities", i->endpoint, r, -1, ""));
        return;
    }
    if (none || !has_capability(&r->capabilities, i->core->config.node_info_from_controller)) {
        get_node_info(i, CSIREG_FLOW_NODE);
        return;
    }
    i->capable = true;
    cr_instance_set_state(i, CR_STATE_CSIDRIVER);
    i->timer_ms = i->step_deadline_ms;
    cr_handshake_csidriver(i);
}

static struct csireg_error *csidriver_error(const struct cr_instance *i, const char *why)
{
    const struct csireg_error *cause = i->core->csidrivers.error;
    struct csireg_error *e =
        cr_error_new(CSIREG_ERR_API,
                     "%s: the CSIDriver objects could not be read%s, so attachRequired and with it the "
                     "flow are unknown: %s",
                     i->plugin.name, why, cause ? csireg_error_message(cause) : "no answer yet");
    if (cause) cr_error_set_origin(e, cause->origin, cause->number);
    return transient(e);
}

void cr_handshake_csidriver(struct cr_instance *i)
{
    switch (cr_csidrivers_attach(i->core, i->plugin.name)) {
    case CR_ATTACH_UNKNOWN:
        return; /* the timer ends it */
    case CR_ATTACH_FAILED:
        node_rpc_failed(i, "CSIDriver", csidriver_error(i, ""));
        return;
    case CR_ATTACH_REQUIRED:
        get_node_info(i, CSIREG_FLOW_CONTROLLER);
        return;
    case CR_ATTACH_NOT_REQUIRED:
        get_node_info(i, CSIREG_FLOW_NODE);
        return;
    }
}

void cr_handshake_decide_again(struct cr_instance *i)
{
    cr_emit_log(i->core, CSIREG_LOG_INFO, "registration", i, "attachRequired changed: the flow is decided again");
    i->quiet = true;
    begin_node_rpcs(i);
}

/* ---- what NodeGetInfo said ---- */

static bool fill_desired(const struct cr_instance *i, struct cr_desired *d, char **out_warning)
{
    *d = (struct cr_desired){.want = i->flow == CSIREG_FLOW_NODE ? CR_WANT_NODE_FLOW : CR_WANT_CONTROLLER_FLOW};
    d->node_id = cr_strdup(i->info.node_id);
    if (!d->node_id) return false;
    if (i->flow == CSIREG_FLOW_CONTROLLER) return true;
    d->labels = cr_calloc(i->info.n_segments, sizeof *d->labels);
    d->keys = cr_calloc(i->info.n_segments, sizeof *d->keys);
    if (i->info.n_segments && (!d->labels || !d->keys)) return false;
    for (size_t k = 0; k < i->info.n_segments; k++) {
        d->n_labels = k + 1;
        d->labels[k].key = cr_strdup(i->info.segments[k].key);
        d->labels[k].value = cr_strdup(i->info.segments[k].value);
        d->keys[k] = d->labels[k].key;
        if (!d->labels[k].key || !d->labels[k].value) return false;
    }
    return cr_csinode_count_from_limit(i->info.max_volumes, &d->has_count, &d->count, out_warning) == 0;
}

static void warn(struct cr_instance *i, char *warning)
{
    struct cr_driver *d = i->driver;
    bool news = warning && (!d->warning || strcmp(d->warning, warning) != 0);
    cr_free(d->warning);
    d->warning = warning;
    cr_driver_changed(d);
    if (!news) return;
    struct csireg_error *e = cr_error_new(CSIREG_ERR_REFUSED, "%s: %s", d->name, warning);
    cr_error_set_step(e, "NodeGetInfo");
    cr_emit_event(i->core, CSIREG_EVENT_WARNING, i, d, e);
    cr_emit_log(i->core, CSIREG_LOG_WARNING, "registration", i, "%s", warning);
    csireg_error_free(e);
}

static void publish(struct cr_instance *i)
{
    struct cr_desired desired;
    char *warning = NULL;
    cr_emit_close(i->core, &i->service);
    if (!fill_desired(i, &desired, &warning)) {
        cr_desired_fini(&desired);
        cr_instance_rejected(i, "publish", cr_error_oom());
        return;
    }
    warn(i, warning);
    cr_instance_set_state(i, CR_STATE_PUBLISHING);
    if (i->previous) cr_publisher_remove(i->core, i->previous);
    cr_publisher_want(i->core, i->driver, &desired, i->attempt_seq);
}

static bool allowed(const struct cr_core *core, const char *key)
{
    for (char **p = core->prefixes; *p; p++)
        if (strncmp(key, *p, strlen(*p)) == 0) return true;
    return core->config.n_label_prefixes == 0;
}

static int check_allowed(const struct cr_instance *i, struct csireg_error **err)
{
    for (size_t k = 0; k < i->info.n_segments; k++)
        if (!allowed(i->core, i->info.segments[k].key))
            return cr_error_put(err, cr_error_new(CSIREG_ERR_REFUSED,
                                                  "topology key %s is outside the label prefixes allowed on this node",
                                                  i->info.segments[k].key));
    return 0;
}

static int check_node_info(const struct cr_instance *i, struct csireg_error **err)
{
    int rc = cr_check_node_id(i->info.node_id, err);
    if (rc != 0 || i->flow == CSIREG_FLOW_CONTROLLER) return rc;
    rc = cr_check_topology(i->info.segments, i->info.n_segments, err);
    return rc == 0 ? check_allowed(i, err) : rc;
}

static void got_node_info(struct cr_instance *i, struct cr_rpc_result *r)
{
    struct csireg_error *err = NULL;
    if (r->code != CR_GRPC_OK) {
        err =
            rpc_error(i, "NodeGetInfo", i->endpoint, r, CR_GRPC_UNIMPLEMENTED, " (the driver must serve NodeGetInfo)");
        node_rpc_failed(i, "NodeGetInfo", err);
        return;
    }
    cr_node_info_fini(&i->info);
    i->info = r->node;
    r->node = (struct cr_node_info){0};
    if (check_node_info(i, &err) != 0)
        node_rpc_failed(i, "NodeGetInfo", refusal(i, err));
    else
        publish(i);
}

/* ---- publication and notification ---- */

static int registered(struct cr_instance *i)
{
    struct csireg_driver view = {.name = i->plugin.name,
                                 .endpoint = i->endpoint,
                                 .version = i->version,
                                 .node_id = i->info.node_id,
                                 .flow = i->flow};
    i->driver->published_wall_ms = i->core->now.wall_ms;
    int rc = cr_driver_set_registered(i->driver, &view);
    cr_refresh_schedule(i);
    cr_probe_schedule(i);
    return rc;
}

static void notify_registered(struct cr_instance *i)
{
    if (!i->path || i->quiet) {
        cr_instance_succeeded(i);
        return;
    }
    cr_instance_set_state(i, CR_STATE_NOTIFYING);
    i->waiting = cr_emit_rpc(i, i->conn, CR_RPC_NOTIFY, i->core->config.notify_timeout_ms, true, "");
    cr_handshake_expect(i, i->core->config.notify_timeout_ms);
    if (!i->waiting) cr_instance_unconfirmed(i, cr_error_oom());
}

/* The API server keeps no registrations and the host wants the node flow then: one more NodeGetInfo, without the flag.
 */
static void fall_back(struct cr_instance *i, struct csireg_error *err)
{
    cr_emit_log(i->core, CSIREG_LOG_WARNING, "registration", i, "%s; falling back to the node flow",
                csireg_error_message(err));
    csireg_error_free(err);
    i->forced_node_flow = true;
    begin_node_rpcs(i);
}

void cr_handshake_published(struct cr_instance *i, struct csireg_error *err, bool dropped)
{
    if (!err) cr_contest_won(i);
    if (!err && registered(i) != 0) err = cr_error_oom();
    if (!err) {
        cr_instance_give_up_previous(i);
        notify_registered(i);
    } else if (dropped && i->core->config.fallback_to_node_flow) {
        fall_back(i, err);
    } else {
        bool untouched = !cr_instance_owns(i) || i->quiet || (err->retryable && i->driver->registered);
        if (untouched)
            cr_publisher_restore(i->core, i->driver);
        else if (err->retryable)
            cr_publisher_leave(i->driver);
        else
            cr_instance_withdraw(i, err);
        cr_instance_rejected(i, "publish", err);
    }
}

static void notified(struct cr_instance *i, const struct cr_rpc_result *r)
{
    if (r->code == CR_GRPC_OK) {
        cr_instance_succeeded(i);
        return;
    }
    struct csireg_error *e = rpc_error(i, "NotifyRegistrationStatus", i->path, r, -1, "");
    cr_error_prefix(e, "registered, but the plugin could not be told");
    cr_instance_unconfirmed(i, transient(e));
}

/*
 * A call's own deadline ends it; a peer that does not read can keep the transport from doing so. Then this ends the
 * step, and closing the connection ends the call.
 */
void cr_handshake_expect(struct cr_instance *i, int64_t timeout_ms)
{
    i->timer_ms = i->core->now.mono_ms + timeout_ms + LATE_MS;
}

static void answer_is_late(struct cr_instance *i)
{
    struct cr_rpc_result late = {.code = CR_GRPC_DEADLINE_EXCEEDED};
    cr_handshake_rpc_done(i, &late);
}

void cr_handshake_rpc_done(struct cr_instance *i, struct cr_rpc_result *r)
{
    i->waiting = 0;
    switch (i->state) {
    case CR_STATE_GET_INFO:
        got_info(i, r);
        break;
    case CR_STATE_CAPABILITIES:
        got_capabilities(i, r);
        break;
    case CR_STATE_NODE_INFO:
        got_node_info(i, r);
        break;
    case CR_STATE_NOTIFYING:
        notified(i, r);
        break;
    case CR_STATE_REJECTING:
        cr_instance_settle(i);
        break; /* told or not: the attempt is over */
    default:
        break; /* no other state waits for an RPC */
    }
}

/* ---- plugins of other types ---- */

static struct csireg_error *handler_error(const struct cr_instance *i, const char *text)
{
    return transient(cr_error_new(CSIREG_ERR_REFUSED, "%s: the handler for plugin type %s refused: %s", i->plugin.name,
                                  i->plugin.type, text && *text ? text : "no reason given"));
}

void cr_handshake_plugin_result(struct cr_instance *i, bool ok, const char *text)
{
    if (!ok) i->token = 0; /* an accepted plugin keeps its token: PLUGIN_GONE names it */
    i->plugin_accepted = ok;
    if (ok)
        notify_registered(i);
    else
        cr_instance_rejected(i, "handler", handler_error(i, text));
}

/* ---- time ---- */

void cr_handshake_timer(struct cr_instance *i)
{
    i->timer_ms = CR_NEVER;
    switch (i->state) {
    case CR_STATE_CONNECTING:
        connect_registration(i);
        break;
    case CR_STATE_CSIDRIVER:
        node_rpc_failed(i, "CSIDriver", csidriver_error(i, " in time"));
        break;
    case CR_STATE_GET_INFO:
    case CR_STATE_CAPABILITIES:
    case CR_STATE_NODE_INFO:
    case CR_STATE_NOTIFYING:
    case CR_STATE_REJECTING:
        answer_is_late(i);
        break;
    case CR_STATE_HANDLER:
        cr_emit_plugin(i->core, CSIREG_EVENT_PLUGIN_GONE, i); /* a late answer changes nothing any more */
        i->token = 0;
        cr_instance_rejected(i, "handler", handler_error(i, "no answer in time"));
        break;
    case CR_STATE_BACKOFF:
    case CR_STATE_UNCONFIRMED:
        i->core->counters.retries++;
        cr_instance_start(i);
        break;
    case CR_STATE_REGISTERED:
        cr_handshake_decide_again(i);
        break;
    default:
        break;
    }
}
