/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole core: the input is a program of what plugins, API server, host and time do, some of it with arbitrary
 * bodies. The effect contract is checked at each step, and that what is not ours is never changed; in the end the core
 * stops. FUZZ_TRACE=1 in the environment prints what the core logs, and its requests.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "core/json.h"
#include "core/metrics.h"
#include "fuzz/core_world.h"
#include "fuzz/fuzz.h"

#define MAX_STEPS 400
#define OUT       512 /* effects that are not answered yet; a run that comes near it ends */
#define PLUGINS   4

struct outstanding {
    enum cr_effect_kind kind;
    uint64_t id, conn;
    enum cr_rpc_method method;
    int plugin;
    bool flag, cancelled, watch;
    struct cr_api_request request;
};

struct conn { /* id 0: free */
    uint64_t id;
    int plugin;
    bool busy, closed;
};

struct run {
    struct cr_core *core;
    struct cr_time now;
    struct fuzz_in in;
    struct world *world;
    struct outstanding out[OUT]; /* the first n_out, in order */
    size_t n_out;
    struct conn conns[OUT];
    uint64_t last_id, generation, token;
    unsigned stopped;
    bool stopping;
};

/* Two plugins of one name, two more; each has its registration socket and its endpoint. */
static const char *const names[PLUGINS] = {"a.example.com", "a.example.com", "b.example.com", "C.example.com"};
static const char *const sockets[PLUGINS] = {"/r/a-reg.sock", "/r/a2-reg.sock", "/r/b-reg.sock", "/r/c-reg.sock"};
static const char *const endpoints[PLUGINS] = {"/d/a.sock", "/d/a2.sock", "/d/b.sock", "/d/c.sock"};
static const char *const versions[] = {"1.0.0"};
static const char *const types[] = {"DevicePlugin"};

static bool tracing;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    tracing = getenv("FUZZ_TRACE");
    return 0;
}

static int plugin_at(const char *path)
{
    for (int i = 0; i < PLUGINS; i++)
        if (strcmp(path, sockets[i]) == 0 || strcmp(path, endpoints[i]) == 0) return i;
    return -1; /* an endpoint that a plugin made up */
}

/* ---- effects ---- */

static struct outstanding *new_out(struct run *r, const struct cr_effect *e)
{
    CHECK(!r->stopping); /* nothing is started then */
    CHECK(e->id > r->last_id);
    r->last_id = e->id;
    CHECK(r->n_out < OUT);
    r->out[r->n_out] = (struct outstanding){.kind = e->kind, .id = e->id};
    return &r->out[r->n_out++];
}

static struct conn *conn_of(struct run *r, uint64_t id)
{
    for (size_t i = 0; i < OUT; i++)
        if (r->conns[i].id == id && id) return &r->conns[i];
    return NULL;
}

static void cancel_on(struct run *r, uint64_t id)
{
    for (size_t i = 0; i < r->n_out; i++)
        if (r->out[i].kind == CR_EFF_RPC && r->out[i].conn == id) r->out[i].cancelled = true;
}

static void on_close(struct run *r, const struct cr_effect *e)
{
    struct conn *c = conn_of(r, e->conn);
    CHECK(c && !c->closed);
    c->closed = true;
    cancel_on(r, c->id);
    if (!c->busy) c->id = 0;
}

static void on_rpc(struct run *r, const struct cr_effect *e)
{
    struct outstanding *o = new_out(r, e);
    struct conn *c = conn_of(r, e->conn);
    CHECK(c && !c->closed && !c->busy);
    CHECK(e->method >= CR_RPC_GET_INFO && e->method <= CR_RPC_NODE_GET_INFO);
    c->busy = true;
    o->conn = e->conn;
    o->plugin = c->plugin;
    o->method = e->method;
    o->flag = e->flag;
    if (e->method == CR_RPC_NOTIFY && e->text) CHECK(strlen(e->text) <= CR_MAX_NOTIFY_ERROR);
}

static void on_api(struct run *r, struct cr_effect *e)
{
    struct outstanding *o = new_out(r, e);
    CHECK(e->request.timeout_ms > 0 && e->request.path[0] == '/');
    CHECK(!e->request.body == !e->request.content_type);
    o->request = e->request;
    o->watch = e->request.watch;
    e->request = (struct cr_api_request){0};
}

static void on_cancel(struct run *r, uint64_t id)
{
    CHECK(id && id <= r->last_id);
    for (size_t i = 0; i < r->n_out; i++)
        if (r->out[i].id == id) r->out[i].cancelled = true;
}

static void on_event(struct run *r, const struct cr_effect *e)
{
    const struct csireg_error *error = csireg_event_error(e->event);
    if (error) CHECK(strlen(csireg_error_message(error)) <= CR_MAX_ERROR_TEXT);
    if (csireg_event_kind(e->event) == CSIREG_EVENT_PLUGIN) r->token = csireg_event_token(e->event);
}

static void on_log(const struct cr_effect *e)
{
    if (e->level == CSIREG_LOG_ERROR) fprintf(stderr, "%s\n", e->text ? e->text : "");
    CHECK(e->level != CSIREG_LOG_ERROR); /* a fault of csireg */
}

static void trace(const struct run *r, const struct cr_effect *e)
{
    const char *text = e->kind == CR_EFF_API ? e->request.path : e->text;
    fprintf(stderr, "%lld effect %d id %llu conn %llu method %d %s: %s\n", (long long)r->now.mono_ms, e->kind,
            (unsigned long long)e->id, (unsigned long long)e->conn, e->method, e->path ? e->path : "",
            text ? text : "");
}

static void on_effect(struct run *r, struct cr_effect *e)
{
    CHECK(!r->stopped);
    if (tracing) trace(r, e);
    switch (e->kind) {
    case CR_EFF_CONNECT:
    case CR_EFF_PROBE:
        CHECK(e->path && e->path[0] == '/');
        new_out(r, e)->plugin = plugin_at(e->path);
        break;
    case CR_EFF_CLOSE:
        on_close(r, e);
        break;
    case CR_EFF_RPC:
        on_rpc(r, e);
        break;
    case CR_EFF_API:
        on_api(r, e);
        break;
    case CR_EFF_CANCEL_RPC:
    case CR_EFF_CANCEL_API:
        on_cancel(r, e->id);
        break;
    case CR_EFF_EVENT:
        on_event(r, e);
        break;
    case CR_EFF_LOG:
        on_log(e);
        break;
    case CR_EFF_STOPPED:
        CHECK(r->stopping);
        r->stopped++;
        break;
    case CR_EFF_EXHAUSTED:
        break;
    }
}

static void input(struct run *r, struct cr_input *in)
{
    cr_core_input(r->core, r->now, in);
    for (struct cr_effect *e; (e = cr_core_pop_effect(r->core));) {
        on_effect(r, e);
        cr_effect_free(e);
    }
    CHECK(cr_core_generation(r->core) >= r->generation);
    r->generation = cr_core_generation(r->core);
}

/* ---- answers ---- */

static void answer_connect(struct run *r, const struct outstanding *o, uint8_t how)
{
    static const int errors[] = {0, 0, 0, 0, 0, 111, 2, 11};
    struct cr_input in = {.kind = CR_IN_CONNECTED, .id = o->id, .error_number = errors[how % 8]};
    if (o->kind == CR_EFF_PROBE) in.ok = true;
    if (o->plugin >= 0) in.identity = r->world->identities[o->plugin];
    in.identity.dev += how >> 6;
    for (size_t i = 0; o->kind == CR_EFF_CONNECT && in.error_number == 0 && i < OUT; i++) {
        if (r->conns[i].id) continue;
        r->conns[i] = (struct conn){.id = o->id, .plugin = o->plugin};
        break;
    }
    input(r, &in);
}

/* Arbitrary bytes, as a plugin may send them: a length, the message. */
static void arbitrary_rpc(struct run *r, const struct outstanding *o, struct cr_rpc_result *out)
{
    size_t len = fuzz_byte(&r->in);
    if (len > r->in.left) len = r->in.left;
    cr_wire_decode_answer(o->method, o->flag, fuzz_bytes(&r->in, len), len, out);
    if (out->plugin.name && strcmp(out->plugin.name, WORLD_FOREIGN) == 0) r->world->trusts = true;
}

static void good_rpc(const struct outstanding *o, uint8_t how, struct cr_rpc_result *out)
{
    int p = o->plugin < 0 ? 0 : o->plugin;
    if (o->method == CR_RPC_GET_INFO)
        world_plugin_info(&out->plugin, how & 32 ? "other.example.com" : names[p], endpoints[p], how & 16);
    if (o->method == CR_RPC_NODE_GET_CAPABILITIES && (how & 16)) world_capabilities(&out->capabilities);
    if (o->method == CR_RPC_NODE_GET_INFO) world_node_info(&out->node, how >> 4, o->flag);
}

static void answer_rpc(struct run *r, const struct outstanding *o, uint8_t how)
{
    static const int codes[] = {0, 0, 0, 12, 14, 13, 4, 8};
    struct cr_rpc_result result = {0};
    struct cr_input in = {.kind = CR_IN_RPC_DONE, .id = o->id, .rpc = &result};
    struct conn *c = conn_of(r, o->conn);
    if (o->cancelled)
        result.code = CR_GRPC_CANCELLED;
    else if (how % 16 == 15)
        arbitrary_rpc(r, o, &result);
    else if ((result.code = codes[how % 8]) == 0)
        good_rpc(o, how, &result);
    c->busy = false;
    if (c->closed) c->id = 0;
    input(r, &in);
    cr_rpc_result_fini(&result);
}

static void answer_api(struct run *r, struct outstanding *o, uint8_t how)
{
    static const int statuses[] = {401, 403, 404, 409, 410, 422, 429, 500};
    struct cr_api_answer a = {.retry_after_ms = how & 128 ? 1000 : -1};
    struct cr_input in = {.kind = CR_IN_API_DONE, .id = o->id, .api = &a};
    if (o->cancelled) {
        a.transport = CR_TRANSPORT_CANCELLED;
        if (how & 1) world_commit(r->world, &o->request); /* it was sent already */
    } else if (how % 16 < 10) {
        world_answer(r->world, &o->request, &a);
    } else if (how % 16 < 12) {
        a.status = statuses[how >> 4 & 7];
        if (how & 1) world_commit(r->world, &o->request);
    } else if (how % 16 < 14) {
        a.transport = (enum cr_transport)(1 + (how >> 4 & 7));
        if (how & 1) world_commit(r->world, &o->request);
    } else {
        size_t len = fuzz_short(&r->in);
        if (len > r->in.left) len = r->in.left;
        a.status = how & 16 ? statuses[how >> 5 & 7] : 200;
        a.body = len ? cr_strndup((const char *)fuzz_bytes(&r->in, len), len) : NULL;
        a.body_len = a.body ? strlen(a.body) : 0;
        r->world->trusts = true;
    }
    input(r, &in);
    cr_api_answer_fini(&a);
}

static void answer(struct run *r, struct outstanding *o, uint8_t how)
{
    struct outstanding was = *o;
    memmove(o, o + 1, (size_t)(r->out + --r->n_out - o) * sizeof *o);
    if (was.kind == CR_EFF_API)
        answer_api(r, &was, how);
    else if (was.kind == CR_EFF_RPC)
        answer_rpc(r, &was, how);
    else
        answer_connect(r, &was, how);
    cr_api_request_fini(&was.request);
}

/* The k-th of what is out, watches excepted unless there is nothing else or they are meant. */
static struct outstanding *pick(struct run *r, uint8_t k, bool watch)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_out; i++) n += r->out[i].watch == watch;
    for (size_t i = 0, seen = 0; i < r->n_out; i++)
        if (r->out[i].watch == watch && seen++ == k % n) return &r->out[i];
    return NULL;
}

/* ---- steps ---- */

static void pass_time(struct run *r, int64_t ms)
{
    struct cr_input tick = {.kind = CR_IN_TICK};
    int64_t due = cr_core_deadline(r->core);
    if (ms == 0 && due != CR_NEVER && due > r->now.mono_ms) ms = due - r->now.mono_ms;
    r->now.mono_ms += ms;
    r->now.wall_ms += ms;
    for (int i = 0; i == 0 || (i < 4 && cr_core_deadline(r->core) <= r->now.mono_ms); i++) input(r, &tick);
    if (!r->stopping) CHECK(cr_core_deadline(r->core) > r->now.mono_ms); /* no deadline that is over stays */
}

static void watch_line(struct run *r, uint8_t how)
{
    struct outstanding *o = pick(r, 0, true);
    struct cr_input in = {.kind = CR_IN_WATCH_LINE};
    if (!o) return;
    char *line = how & 1 ? fuzz_text(&r->in, 4096) : world_watch_event(r->world, how);
    in.id = o->id;
    in.text = line;
    input(r, &in);
    free(line);
}

static void socket_seen(struct run *r, uint8_t how)
{
    int p = how % PLUGINS;
    struct cr_identity *id = &r->world->identities[p];
    if (how & 16) id->ino = ++r->world->last_inode;
    if (how & 16) id->birth_ns = r->now.wall_ms * 1000000;
    struct cr_input in = {.kind = CR_IN_SOCKET_SEEN, .path = sockets[p], .identity = *id, .from_host = how & 32};
    input(r, &in);
}

static void host_command(struct run *r, uint8_t how)
{
    static const enum cr_input_kind kinds[] = {
        CR_IN_SCAN_DONE,       CR_IN_RETRY, CR_IN_CREDENTIALS_CHANGED, CR_IN_EXHAUSTED, CR_IN_PLUGIN_RESULT,
        CR_IN_DRIVER_REGISTER, CR_IN_RETRY, CR_IN_DRIVER_DEREGISTER};
    int p = how >> 3 & 3;
    struct cr_input in = {.kind = kinds[how % 8],
                          .name = names[p],
                          .endpoint = endpoints[p],
                          .versions = versions,
                          .n_versions = 1,
                          .token = r->token,
                          .ok = how & 64,
                          .text = how & 128 ? "no" : NULL};
    if (how % 8 == 6) in.name = NULL;
    input(r, &in);
}

static void look(struct run *r)
{
    struct csireg_driver **drivers = cr_core_drivers(r->core);
    struct cr_numbers numbers;
    json_t *status = cr_core_status(r->core);
    cr_core_numbers(r->core, &numbers);
    char *text = json_dumps(status, 0);
    CHECK(drivers && text);
    free(text);
    json_decref(status);
    cr_driver_array_free(drivers);
}

static void step(struct run *r)
{
    uint8_t what = fuzz_byte(&r->in), how = fuzz_byte(&r->in);
    struct cr_input gone = {.kind = CR_IN_SOCKET_GONE, .path = sockets[how % PLUGINS]};
    struct outstanding *o = NULL;
    switch (what % 16) {
    case 0:
    case 1:
        socket_seen(r, how);
        break;
    case 2:
        input(r, &gone);
        break;
    case 3:
        host_command(r, how);
        break;
    case 4:
        watch_line(r, how);
        break;
    case 5:
        pass_time(r, (int64_t)how * how * 10 + 1);
        break;
    case 6:
    case 7:
        pass_time(r, 0);
        break;
    case 8:
        world_change(r->world, how);
        break;
    case 9:
        look(r);
        break;
    case 10:
        o = pick(r, how, true);
        if (o) answer(r, o, how);
        break;
    default:
        o = pick(r, what >> 4, false);
        if (o) answer(r, o, how);
        break;
    }
}

/* ---- a run ---- */

static struct cr_core_config configure(uint8_t bits, uint8_t more)
{
    static const char *const plugins[] = {"kubernetes.io/aws-ebs"}, *const prefixes[] = {"topology.", "a.example.com"};
    struct cr_core_config c = {
        .node_name = "n1",
        .gate = bits & 1,
        .local_only = bits % 16 == 15,
        .fallback_to_node_flow = bits & 16,
        .create_at_start = bits & 32,
        .first_instance_wins = bits & 64,
        .annotate_in_controller_flow = bits & 128,
        .watches_registry = more & 1,
        .node_info_from_controller = 9,
        .migrated_plugins = plugins,
        .n_migrated_plugins = more >> 1 & 1,
        .plugin_types = types,
        .n_plugin_types = 1,
        .label_prefixes = prefixes,
        .n_label_prefixes = more & 4 ? 2 : 0,
        .verify_interval_ms = more & 8 ? 300000 : 0,
        .gather_window_ms = 100,
        .connect_timeout_ms = 5000,
        .getinfo_timeout_ms = 5000,
        .node_rpc_timeout_ms = 15000,
        .publish_timeout_ms = 60000,
        .notify_timeout_ms = 5000,
        .request_timeout_ms = 10000,
        .handler_timeout_ms = 120000,
        .unregister_grace_ms = more & 16 ? 5000 : 0,
        .endpoint_dead_after_ms = more & 32 ? 20000 : 0,
        .prune_unclaimed_after_ms = more & 64 ? 60000 : 0,
        .seed = more,
        .log_level = CSIREG_LOG_DEBUG,
    };
    return c;
}

static void stop(struct run *r)
{
    struct cr_input in = {.kind = CR_IN_STOP};
    r->stopping = true;
    input(r, &in);
    for (struct outstanding *o; (o = pick(r, 0, false)) || (o = pick(r, 0, true));) {
        CHECK(!r->stopped);
        answer(r, o, 0);
    }
    CHECK(r->stopped == 1);
    for (size_t i = 0; i < OUT; i++) CHECK(!r->conns[i].id); /* each was closed */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run r;
    r = (struct run){.now = {1000000, 1700000000000}, .in = {data, size}};
    uint8_t bits = fuzz_byte(&r.in), more = fuzz_byte(&r.in), state = fuzz_byte(&r.in);
    struct cr_core_config config = configure(bits, more);
    r.world = world_new(config.gate, state, more & 64);
    r.core = cr_core_new(&config, r.now);
    CHECK(r.core && r.world);
    for (int i = 0; i < MAX_STEPS && r.in.left && r.n_out < OUT / 2; i++) step(&r);
    look(&r);
    stop(&r);
    cr_core_free(r.core);
    world_free(r.world);
    return 0;
}
