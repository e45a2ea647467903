/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* ---- life ---- */

struct rig *rig_new(void)
{
    struct rig *r = calloc(1, sizeof *r);
    r->lines = calloc(RIG_LINES, sizeof *r->lines);
    r->now = (struct cr_time){.mono_ms = 1000, .wall_ms = 1700000000000};
    r->config = (struct cr_core_config){.node_name = "n1",
                                        .node_info_from_controller = 9,
                                        .gather_window_ms = 50,
                                        .connect_timeout_ms = 10000,
                                        .getinfo_timeout_ms = 5000,
                                        .node_rpc_timeout_ms = 120000,
                                        .publish_timeout_ms = 30000,
                                        .notify_timeout_ms = 5000,
                                        .request_timeout_ms = 10000,
                                        .handler_timeout_ms = 120000,
                                        .seed = 1,
                                        .log_level = CSIREG_LOG_DEBUG};
    rig_world_init(r);
    return r;
}

void rig_start(struct rig *r)
{
    if (r->around) r->around(true);
    r->core = cr_core_new(&r->config, r->now);
    if (r->around) r->around(false);
    if (!r->around) assert_non_null(r->core);
}

struct rig *rig_started(void)
{
    struct rig *r = rig_new();
    rig_start(r);
    return r;
}

struct rig *rig_gate_on(void)
{
    struct rig *r = rig_new();
    r->config.gate = true;
    rig_start(r);
    return r;
}

void rig_free(struct rig *r)
{
    cr_core_free(r->core);
    for (size_t i = 0; i < r->n_lines; i++) {
        cr_api_request_fini(&r->lines[i].request);
        free(r->lines[i].text);
        free(r->lines[i].path);
        free(r->lines[i].said);
    }
    json_decref(r->node);
    json_decref(r->csinode);
    json_decref(r->attach);
    json_decref(r->periods);
    free(r->lines);
    free(r);
}

/* ---- effects ---- */

static struct rig_line *by_id(struct rig *r, uint64_t id)
{
    for (size_t i = r->n_lines; i-- > 0;)
        if (r->lines[i].id == id && id) return &r->lines[i];
    fail_msg("nothing was started with id %" PRIu64, id);
    return NULL;
}

static struct rig_line *connection(struct rig *r, uint64_t conn)
{
    struct rig_line *l = by_id(r, conn);
    if (l->kind != CR_EFF_CONNECT || !l->open) fail_msg("connection %" PRIu64 " is not open", conn);
    return l;
}

static void say(struct rig_line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct rig_line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&l->text, fmt, ap) < 0) fail();
    va_end(ap);
}

static const char *or_empty(const char *s) { return s ? s : ""; }

static void on_rpc(struct rig *r, struct rig_line *l, const struct cr_effect *e)
{
    static const char *const names[] = {"", "GetInfo", "Notify", "NodeGetCapabilities", "NodeGetInfo"};
    const char *path = connection(r, e->conn)->path;
    if (e->method != CR_RPC_NOTIFY)
        say(l, "%s%s %s", names[e->method], e->flag ? "+flag" : "", path);
    else if (e->flag)
        say(l, "Notify true %s", path);
    else
        say(l, "Notify false %s: %s", path, or_empty(e->text));
    l->method = e->method;
    l->timeout_ms = e->timeout_ms;
    l->flag = e->flag;
    l->said = e->text ? strdup(e->text) : NULL;
}

static void on_api(struct rig_line *l, struct cr_effect *e)
{
    static const char *const methods[] = {"", "GET", "POST", "PUT", "PATCH", "DELETE"};
    struct cr_api_request *q = &e->request;
    say(l, "%s %s | %s %s", q->verb, q->resource, methods[q->method], q->path);
    l->timeout_ms = q->timeout_ms;
    l->watch = q->watch;
    l->request = *q;
    *q = (struct cr_api_request){0};
}

static void on_event(struct rig_line *l, const struct csireg_event *e)
{
    const char *path = csireg_event_path(e);
    say(l, "event %s %s%s%s%s", csireg_event_kind_name(e->kind), csireg_event_driver(e), *path ? " [" : "", path,
        *path ? "]" : "");
    l->token = csireg_event_token(e);
    l->said = e->error ? strdup(csireg_error_message(e->error)) : NULL;
    l->retryable = e->error && csireg_error_retryable(e->error);
}

static void on_close(struct rig *r, struct rig_line *l, uint64_t conn)
{
    struct rig_line *c = connection(r, conn);
    say(l, "close %s", c->path);
    c->open = false;
    for (size_t i = 0; i < r->n_lines; i++)
        if (r->lines[i].kind == CR_EFF_RPC && r->lines[i].conn == conn) r->lines[i].cancelled = true;
}

static void on_cancel(struct rig *r, struct rig_line *l, uint64_t id)
{
    struct rig_line *of = by_id(r, id);
    assert_true(of->out);
    of->cancelled = true;
    say(l, "cancel %s", of->text);
}

static void on_log(struct rig *r, const struct cr_effect *e)
{
    if (!e->text) fail_msg("a log without a text");
    if (e->level == CSIREG_LOG_ERROR) fail_msg("log of level error: %s", or_empty(e->text));
    if (e->level == CSIREG_LOG_WARNING) snprintf(r->last_log, sizeof r->last_log, "%s", or_empty(e->text));
}

static void started(struct rig *r, struct rig_line *l)
{
    if (l->id <= r->last_id) fail_msg("%s: id %" PRIu64 " after %" PRIu64, l->text, l->id, r->last_id);
    r->last_id = l->id;
    l->out = true;
}

static bool starts(enum cr_effect_kind kind)
{
    return kind == CR_EFF_CONNECT || kind == CR_EFF_PROBE || kind == CR_EFF_RPC || kind == CR_EFF_API;
}

static void take(struct rig *r, struct cr_effect *e)
{
    if (e->kind == CR_EFF_LOG) {
        on_log(r, e);
        return;
    }
    assert_true(r->n_lines < RIG_LINES);
    assert_false(r->stopped);
    struct rig_line *l = &r->lines[r->n_lines++];
    *l = (struct rig_line){.kind = e->kind, .conn = e->conn, .at_ms = r->now.mono_ms};
    if (starts(e->kind)) l->id = e->id;
    switch (e->kind) {
    case CR_EFF_CONNECT:
        say(l, "connect %s", e->path);
        l->path = strdup(e->path);
        break;
    case CR_EFF_PROBE:
        say(l, "probe %s", e->path);
        l->path = strdup(e->path);
        break;
    case CR_EFF_EXHAUSTED:
        say(l, "exhausted %" PRIu64 " %d", e->id, e->result);
        break;
    case CR_EFF_CLOSE:
        on_close(r, l, e->conn);
        break;
    case CR_EFF_RPC:
        on_rpc(r, l, e);
        break;
    case CR_EFF_API:
        on_api(l, e);
        break;
    case CR_EFF_CANCEL_RPC:
    case CR_EFF_CANCEL_API:
        on_cancel(r, l, e->id);
        break;
    case CR_EFF_EVENT:
        on_event(l, e->event);
        break;
    default:
        say(l, "stopped");
        r->stopped = true;
        break;
    }
    if (starts(e->kind)) started(r, l);
}

void rig_input(struct rig *r, struct cr_input *in)
{
    if (r->around) r->around(true);
    cr_core_input(r->core, r->now, in);
    if (r->around) r->around(false);
    for (struct cr_effect *e; (e = cr_core_pop_effect(r->core));) {
        take(r, e);
        cr_effect_free(e);
    }
}

/* ---- answers and time ---- */

static bool held(const struct rig *r, const struct rig_line *l)
{
    if (l->cancelled) return false;
    for (size_t i = 0; i < r->n_holds; i++)
        if (begins(l->text, r->holds[i])) return true;
    return l->watch;
}

void rig_settle(struct rig *r)
{
    for (size_t i = 0; i < r->n_lines; i++)
        if (r->lines[i].out && !held(r, &r->lines[i])) {
            rig_answer_line(r, &r->lines[i]);
            i = (size_t)-1; /* a cancel may have freed an earlier one */
        }
}

static void tick(struct rig *r)
{
    struct cr_input in = {.kind = CR_IN_TICK};
    rig_input(r, &in);
}

void rig_advance(struct rig *r, int64_t ms)
{
    int64_t end = r->now.mono_ms + ms, last = -1;
    unsigned same = 0;
    rig_settle(r);
    for (;;) {
        int64_t at = cr_core_deadline(r->core);
        if (at > end) at = end;
        if (at > r->now.mono_ms) {
            r->now.wall_ms += at - r->now.mono_ms;
            r->now.mono_ms = at;
        } else if (at < end || cr_core_deadline(r->core) <= end) {
            same = at == last ? same + 1 : 0;
            if (same > 100) fail_msg("the core's deadline does not move although it ticks");
            last = at;
        }
        if (cr_core_deadline(r->core) > r->now.mono_ms) return;
        tick(r);
        rig_settle(r);
    }
}

void rig_up(struct rig *r, struct rig_plugin *p)
{
    rig_appear(r, p);
    rig_advance(r, 1000);
}

void rig_answer(struct rig *r, const char *match)
{
    for (size_t i = 0; i < r->n_lines; i++) {
        if (!r->lines[i].out || !begins(r->lines[i].text, match)) continue;
        rig_answer_line(r, &r->lines[i]);
        return;
    }
    fail_msg("nothing like this is outstanding: %s", match);
}

void rig_hold(struct rig *r, const char *match)
{
    assert_true(r->n_holds < RIG_HOLDS);
    r->holds[r->n_holds++] = match;
}

void rig_release(struct rig *r) { r->n_holds = 0; }

void rig_fault(struct rig *r, struct rig_fault f)
{
    assert_true(r->n_faults < RIG_FAULTS);
    r->faults[r->n_faults++] = f;
}

void rig_no_faults(struct rig *r) { r->n_faults = 0; }

/* ---- inputs ---- */

struct rig_plugin *rig_plugin(struct rig *r, const char *name)
{
    assert_true(r->n_plugins < RIG_PLUGINS);
    struct rig_plugin *p = &r->plugins[r->n_plugins++];
    *p = (struct rig_plugin){
        .type = "CSIPlugin", .versions = {"1.0.0"}, .limit = 10, .listening = true, .serving = true};
    snprintf(p->path, sizeof p->path, "/r/%s-reg.sock", name);
    snprintf(p->endpoint, sizeof p->endpoint, "/d/%s.sock", name);
    snprintf(p->name, sizeof p->name, "%s.example.com", name);
    snprintf(p->node_id_text, sizeof p->node_id_text, "id-%s", name);
    snprintf(p->topology_text, sizeof p->topology_text, "%s.example.com/zone=z1", name);
    p->node_id = p->node_id_text;
    p->topology[0] = p->topology_text;
    return p;
}

struct rig_plugin *rig_capable(struct rig *r, const char *name)
{
    struct rig_plugin *p = rig_plugin(r, name);
    p->capabilities[0] = 1;
    p->capabilities[1] = 9;
    return p;
}

void rig_appear(struct rig *r, struct rig_plugin *p)
{
    p->identity.dev = 1;
    p->identity.ino = ++r->generation;
    p->identity.birth_ns = (int64_t)r->generation;
    struct cr_input in = {.kind = CR_IN_SOCKET_SEEN, .path = p->path, .identity = p->identity};
    rig_input(r, &in);
}

void rig_vanish(struct rig *r, struct rig_plugin *p)
{
    struct cr_input in = {.kind = CR_IN_SOCKET_GONE, .path = p->path};
    rig_input(r, &in);
}

static void third_door(struct rig *r, const struct rig_plugin *p, enum cr_input_kind kind)
{
    struct cr_input in = {.kind = kind, .name = p->name, .endpoint = p->endpoint, .versions = p->versions};
    while (in.n_versions < 4 && p->versions[in.n_versions]) in.n_versions++;
    rig_input(r, &in);
}

void rig_register(struct rig *r, struct rig_plugin *p) { third_door(r, p, CR_IN_DRIVER_REGISTER); }
void rig_deregister(struct rig *r, struct rig_plugin *p) { third_door(r, p, CR_IN_DRIVER_DEREGISTER); }

void rig_command(struct rig *r, enum cr_input_kind kind, const char *name)
{
    struct cr_input in = {.kind = kind, .name = name};
    rig_input(r, &in);
}

void rig_exhausted(struct rig *r, const char *name, uint64_t token)
{
    struct cr_input in = {.kind = CR_IN_EXHAUSTED, .name = name, .token = token};
    rig_input(r, &in);
}

void rig_plugin_result(struct rig *r, uint64_t token, bool ok, const char *text)
{
    struct cr_input in = {.kind = CR_IN_PLUGIN_RESULT, .token = token, .ok = ok, .text = text};
    rig_input(r, &in);
}

static struct rig_line *open_watch(struct rig *r)
{
    for (size_t i = 0; i < r->n_lines; i++)
        if (r->lines[i].watch && r->lines[i].out) return &r->lines[i];
    fail_msg("no watch is open");
    return NULL;
}

static char *quoted(const char *text)
{
    char *copy = strdup(text);
    for (char *p = copy; *p; p++)
        if (*p == '\'') *p = '"';
    return copy;
}

void rig_watch_line(struct rig *r, const char *line)
{
    char *text = quoted(line);
    struct cr_input in = {.kind = CR_IN_WATCH_LINE, .id = open_watch(r)->id, .text = text};
    rig_input(r, &in);
    free(text);
}

void rig_watch_end(struct rig *r, enum cr_transport transport, int status)
{
    struct rig_line *l = open_watch(r);
    struct cr_api_answer a = {.transport = transport, .status = status, .retry_after_ms = -1};
    struct cr_input in = {.kind = CR_IN_API_DONE, .id = l->id, .api = &a};
    l->out = false;
    rig_input(r, &in);
}

/* ---- what came ---- */

void rig_mark(struct rig *r) { r->mark = r->n_lines; }

const struct rig_line *rig_last(struct rig *r, const char *match)
{
    for (size_t i = r->n_lines; i-- > r->mark;)
        if (begins(r->lines[i].text, match)) return &r->lines[i];
    return NULL;
}

size_t rig_count(struct rig *r, const char *match)
{
    size_t n = 0;
    for (size_t i = r->mark; i < r->n_lines; i++) n += begins(r->lines[i].text, match);
    return n;
}

json_t *rig_json(const char *text)
{
    json_error_t e;
    char *copy = quoted(text);
    json_t *value = json_loads(copy, JSON_DECODE_ANY, &e);
    if (!value) fail_msg("%s: %s", text, e.text);
    free(copy);
    return value;
}

json_t *rig_body(struct rig *r, const char *match)
{
    const struct rig_line *l = rig_last(r, match);
    if (!l || !l->request.body) fail_msg("no body came with %s", match);
    json_t *body = json_loads(l->request.body, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(body);
    return body;
}

json_t *rig_status(struct rig *r)
{
    json_t *status = cr_core_status(r->core);
    assert_non_null(status);
    return status;
}

bool rig_registered(struct rig *r, const struct rig_plugin *p)
{
    struct csireg_driver **all = cr_core_drivers(r->core);
    bool found = false;
    for (size_t i = 0; all[i]; i++)
        found |= strcmp(all[i]->name, p->name) == 0 && strcmp(all[i]->endpoint, p->endpoint) == 0;
    cr_driver_array_free(all);
    return found;
}

const char *rig_state(struct rig *r, const struct rig_plugin *p)
{
    static char text[64];
    json_t *status = rig_status(r);
    size_t k;
    json_t *s;
    text[0] = '\0';
    json_array_foreach (json_object_get(status, "sockets"), k, s) {
        const char *path = json_string_value(json_object_get(s, "path"));
        if (path && strcmp(path, p->path) == 0)
            snprintf(text, sizeof text, "%s", json_string_value(json_object_get(s, "state")));
    }
    json_decref(status);
    return text;
}

/* ---- comparing ---- */

static void print_since_mark(const struct rig *r)
{
    for (size_t i = r->mark; i < r->n_lines; i++)
        print_error("  %8" PRId64 " %s\n", r->lines[i].at_ms, r->lines[i].text);
}

void rig_expect_at(struct rig *r, const char *file, int line, const char *const *want)
{
    size_t i = r->mark;
    for (; i < r->n_lines; i++) {
        if (*want && begins(r->lines[i].text, *want))
            want++;
        else if (r->lines[i].kind != CR_EFF_PROBE)
            break;
    }
    if (!*want && i == r->n_lines) return;
    print_error("expected: %s, came: %s; all:\n", *want ? *want : "nothing more",
                i < r->n_lines ? r->lines[i].text : "nothing more");
    print_since_mark(r);
    _fail(file, line);
}

static bool counted(const struct rig_line *l) { return l->kind == CR_EFF_API && !strstr(l->text, " csidrivers |"); }

void rig_expect_requests_at(struct rig *r, const char *file, int line, const char *want)
{
    char got[4096] = "";
    size_t len = 0;
    for (size_t i = r->mark; i < r->n_lines && len < sizeof got; i++) {
        const struct rig_line *l = &r->lines[i];
        if (!counted(l)) continue;
        len += (size_t)snprintf(got + len, sizeof got - len, "%s%s %s", len ? ", " : "", l->request.verb,
                                l->request.resource);
    }
    if (strcmp(got, want) == 0) return;
    print_error("expected: %s\n     got: %s\n", want, got);
    print_since_mark(r);
    _fail(file, line);
}

void rig_expect_json_at(json_t *got, const char *file, int line, const char *want)
{
    json_t *expected = rig_json(want);
    bool same = json_equal(got, expected);
    char *text = got ? json_dumps(got, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (!same) print_error("expected: %s\n     got: %s\n", want, text ? text : "nothing");
    free(text);
    json_decref(expected);
    json_decref(got);
    if (!same) _fail(file, line);
}
