/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated plugins: registration sockets and drivers that work, fail, hang, lie, come and go. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/sim.h"

static void new_values(struct sim *s, struct plugin *p)
{
    snprintf(p->node_id, sizeof p->node_id, "id-%d", (int)sim_below(s, 3));
    p->capability = sim_below(s, 2);
    p->topology = (int)sim_below(s, 3);
    p->limit = (int64_t)sim_below(s, 6) * 10 - 10;
}

static void new_file(struct sim *s, struct plugin *p)
{
    p->identity.ino = ++s->generation;
    p->identity.birth_ns = (int64_t)s->generation;
    p->version = sim_below(s, 5) ? "1.0.0" : "1.1.0";
    if (!p->third_door && sim_below(s, 10) == 0) memcpy(p->name, p->names[sim_below(s, 2)], sizeof p->name);
}

/* Two instances of one name. */
static void take_over_name(struct plugin *p, const struct plugin *twin)
{
    p->kind = twin->kind;
    p->third_door &= p->kind != FOREIGN;
    memcpy(p->names, twin->names, sizeof p->names);
}

void plugins_init(struct sim *s)
{
    s->n_plugins = 1 + (int)sim_below(s, MAX_PLUGINS);
    for (int i = 0; i < s->n_plugins; i++) {
        struct plugin *p = &s->plugins[i];
        p->shares = i > 0 && sim_below(s, 10) == 0 ? i - 1 : -1;
        p->kind = sim_below(s, 6) ? GOOD : (enum plugin_kind)sim_below(s, PLUGIN_KINDS);
        p->third_door = sim_below(s, 5) == 0 && p->kind != FOREIGN;
        snprintf(p->path, sizeof p->path, "/r/p%d-reg.sock", i);
        snprintf(p->endpoint, sizeof p->endpoint, "/d/p%d.sock", i);
        for (int k = 0; k < 2; k++)
            snprintf(p->names[k], sizeof p->names[k], "%s%c%d.example.com", p->kind == BAD_NAME ? "_" : "", "dr"[k], i);
        if (p->shares >= 0) take_over_name(p, &s->plugins[p->shares]);
        memcpy(p->name, p->names[0], sizeof p->name);
        new_values(s, p);
        p->exists = sim_below(s, 2);
        p->listening = true;
        p->identity = (struct cr_identity){.dev = 1};
        new_file(s, p);
    }
}

struct plugin *plugin_named(struct sim *s, const char *name)
{
    for (int i = 0; i < s->n_plugins; i++)
        if (s->plugins[i].exists && strcmp(s->plugins[i].name, name) == 0) return &s->plugins[i];
    return NULL;
}

/* ---- what the core is told ---- */

/* The socket goes or is made anew: an attempt on the old one ends without a notification. */
static void excuse(struct sim *s, const struct plugin *p)
{
    for (int i = 0; i < MAX_CONNS; i++)
        if (&s->plugins[s->conns[i].plugin] == p) s->conns[i].notified = true;
}

static void tell(struct sim *s, struct plugin *p)
{
    const char *versions[] = {p->version, NULL};
    struct cr_input in = {.path = p->path, .identity = p->identity, .name = p->name, .endpoint = p->endpoint};
    in.versions = versions;
    in.n_versions = 1;
    if (p->third_door)
        in.kind = p->exists ? CR_IN_DRIVER_REGISTER : CR_IN_DRIVER_DEREGISTER;
    else
        in.kind = p->exists ? CR_IN_SOCKET_SEEN : CR_IN_SOCKET_GONE;
    if (!p->told) excuse(s, p);
    p->told = true;
    sim_trace(s, "%s %s", p->exists ? "appears:" : "vanishes:", p->third_door ? p->name : p->path);
    sim_input(s, &in);
}

static void scan_done(struct sim *s, struct event *e)
{
    struct cr_input in = {.kind = CR_IN_SCAN_DONE};
    (void)e;
    sim_input(s, &in);
}

void plugins_announce(struct sim *s)
{
    for (int i = 0; i < s->n_plugins; i++) {
        struct plugin *p = &s->plugins[i];
        if (p->exists) tell(s, p);
        p->told = true;
    }
    struct event *e = sim_later(s, sim_below(s, 2) ? 0 : (int64_t)sim_below(s, 4000), scan_done);
    e->id = UINT64_MAX; /* dies with the core */
}

static void change(struct sim *s, struct plugin *p)
{
    bool was = p->exists;
    unsigned what = (unsigned)sim_below(s, 4);
    if (what == 0) p->exists = !p->exists;
    if (what == 1) new_values(s, p);
    if (what == 2) p->listening = !p->listening;
    if ((what == 3 && !p->third_door) || (p->exists && !was)) new_file(s, p);
    if (what == 0 || what == 3) {
        p->told = false;
        p->notified = false;
    }
}

void plugins_churn(struct sim *s)
{
    for (int i = 0; i < s->n_plugins; i++) {
        struct plugin *p = &s->plugins[i];
        if (sim_chance(s, 4)) change(s, p);
        if (!p->told && sim_below(s, 3)) tell(s, p);
    }
}

/* As from the scans of a registry. */
void plugins_rescan(struct sim *s)
{
    for (int i = 0; i < s->n_plugins; i++)
        if (s->plugins[i].told) tell(s, &s->plugins[i]);
}

void plugins_heal(struct sim *s)
{
    for (int i = 0; i < s->n_plugins; i++) {
        s->plugins[i].listening = true;
        tell(s, &s->plugins[i]);
    }
}

/* ---- plugins of another type: the host's handler ---- */

static void answer_for_handler(struct sim *s, struct event *e)
{
    struct cr_input in = {
        .kind = CR_IN_PLUGIN_RESULT, .token = e->token, .ok = e->flag, .text = "the handler's reason"};
    sim_input(s, &in);
}

static struct plugin *plugin_at(struct sim *s, const char *path)
{
    for (int i = 0; i < s->n_plugins; i++)
        if (strcmp(s->plugins[i].path, path) == 0) return &s->plugins[i];
    return NULL;
}

void plugins_event(struct sim *s, const struct csireg_event *e)
{
    struct plugin *p = plugin_at(s, csireg_event_path(e));
    uint64_t token = csireg_event_token(e);
    if (e->kind == CSIREG_EVENT_PLUGIN) {
        if (!token || p->kind != FOREIGN) sim_fail(s, "handlers", "%s is asked about", p->path);
        p->token = token;
        if (sim_chance(s, 20)) return; /* no answer */
        struct event *later = sim_later(s, (int64_t)sim_below(s, 3000), answer_for_handler);
        later->token = token;
        later->flag = !sim_chance(s, 30);
        later->id = UINT64_MAX; /* dies with the core */
    } else if (e->kind == CSIREG_EVENT_PLUGIN_GONE) {
        if (token != p->token && !s->options.short_memory)
            sim_fail(s, "handlers", "%s is gone, but not with its token", p->path);
        p->token = 0;
    }
}

/* ---- connections ---- */

static struct conn *find_conn(struct sim *s, uint64_t id)
{
    for (int i = 0; i < MAX_CONNS; i++)
        if (s->conns[i].id == id && id) return &s->conns[i];
    return NULL;
}

static int by_path(const struct sim *s, const char *path, bool *registration)
{
    for (int i = 0; i < s->n_plugins; i++) {
        *registration = strcmp(s->plugins[i].path, path) == 0;
        if (*registration || strcmp(s->plugins[i].endpoint, path) == 0) return i;
    }
    return -1;
}

/* Most connects to a Unix socket end at once. */
static int64_t connect_delay(struct sim *s) { return sim_chance(s, 20) ? (int64_t)sim_below(s, 3000) : 0; }

static void deliver_connected(struct sim *s, struct event *e)
{
    struct cr_input in = {.kind = CR_IN_CONNECTED, .id = e->id, .error_number = e->number, .ok = e->flag};
    sim_input(s, &in);
}

void plugins_connect(struct sim *s, const struct cr_effect *e)
{
    bool registration = false;
    int k = by_path(s, e->path, &registration);
    struct event *later = sim_later(s, connect_delay(s), deliver_connected);
    later->id = e->id;
    struct plugin *p = k >= 0 ? &s->plugins[k] : NULL;
    if (p) p->connects += s->now.mono_ms > FAULT_MS + SETTLE_MS / 2;
    later->number = !p || !p->exists ? ENOENT : !p->listening ? ECONNREFUSED : sim_chance(s, 3) ? EAGAIN : 0;
    sim_trace(s, "  connect %s: %s", e->path, later->number ? strerror(later->number) : "ok");
    if (later->number) return;
    struct conn *c = find_conn(s, 0);
    for (int i = 0; i < MAX_CONNS && !c; i++)
        if (!s->conns[i].open) c = &s->conns[i];
    if (!c) {
        sim_fail(s, "connections closed", "more than %d are open", MAX_CONNS);
        return;
    }
    *c = (struct conn){
        .id = e->id, .plugin = k, .registration = registration, .open = true, .generation = p->identity.ino};
}

/* A driver is replaced while it is asked something: the answer takes long, the registration socket is new. */
static bool replaced(struct sim *s, struct plugin *p)
{
    if (!p || p->third_door || !p->exists || !sim_chance(s, 6)) return false;
    new_file(s, p);
    p->told = p->notified = false;
    return true;
}

void plugins_probe(struct sim *s, const struct cr_effect *e)
{
    bool registration = false;
    int k = by_path(s, e->path, &registration);
    struct plugin *p = k >= 0 ? &s->plugins[k] : NULL;
    struct event *later =
        sim_later(s, replaced(s, p) ? 500 + (int64_t)sim_below(s, 6000) : connect_delay(s), deliver_connected);
    later->id = e->id;
    later->flag = true;
    later->number = p && p->exists && p->listening ? 0 : ECONNREFUSED;
}

void plugins_close(struct sim *s, uint64_t id)
{
    struct conn *c = find_conn(s, id);
    if (!c || !c->open) {
        sim_fail(s, "close once", "connection %llu is not open", (unsigned long long)id);
        return;
    }
    const struct plugin *p = &s->plugins[c->plugin];
    bool same = p->exists && p->told && p->identity.ino == c->generation;
    c->open = false;
    for (size_t i = 0; i < s->n_events; i++) /* closing cancels what runs on the connection */
        if (s->events[i].conn == id) s->events[i].at_ms = s->now.mono_ms;
    if (c->got_info && !c->notified && same && !s->stopping && !s->starved && c->registration)
        sim_fail(s, "one notification", "%s got none in an attempt that had a GetInfo answer", p->path);
}

/* ---- calls ---- */

static void good_info(struct sim *s, const struct plugin *p, struct cr_rpc_result *r)
{
    r->plugin.type = cr_strdup(p->kind == FOREIGN ? FOREIGN_TYPE : "CSIPlugin");
    r->plugin.name = cr_strdup(p->name);
    r->plugin.endpoint = cr_strdup(p->endpoint);
    const char *version = sim_chance(s, 4) ? "0.3.0" : p->version; /* that one is refused */
    r->plugin.versions = cr_strv_dup(&version, 1);
    r->plugin.n_versions = 1;
}

static void good_node_info(struct sim *s, int k, bool flagged, struct cr_rpc_result *r)
{
    struct plugin *p = &s->plugins[k];
    r->node.node_id = cr_strdup(sim_chance(s, 3) ? "" : p->node_id);
    r->node.max_volumes = p->limit;
    if (flagged) return; /* wire hands no topology on then */
    int n = p->kind == COLLIDES ? 1 : p->topology;
    r->node.segments = cr_calloc((size_t)n + 1, sizeof *r->node.segments);
    r->node.n_segments = (size_t)n;
    for (int i = 0; i < n; i++) {
        char key[64];
        snprintf(key, sizeof key, p->kind == COLLIDES ? "taken.example.com/zone" : "p%d.example.com/t%d", k, i);
        r->node.segments[i] = (struct cr_pair){.key = cr_strdup(key), .value = cr_strdup("mine")};
    }
}

static void fill(struct sim *s, struct event *e)
{
    static const int codes[] = {2, 4, 5, 8, 12, 13, 14};
    struct plugin *p = &s->plugins[e->plugin];
    bool serves = p->kind != ALWAYS_UNIMPLEMENTED || e->method == CR_RPC_NOTIFY;
    e->rpc.code = !serves ? 12 : sim_chance(s, 12) ? codes[sim_below(s, 7)] : 0;
    if (e->rpc.code == 12 && e->method == CR_RPC_NODE_GET_CAPABILITIES) p->answered_capable = false;
    if (!serves || e->rpc.code) return;
    if (sim_chance(s, 2)) {
        e->rpc.code = 13;
        e->rpc.refused = true;
    } else if (e->method == CR_RPC_GET_INFO) {
        good_info(s, p, &e->rpc);
    } else if (e->method == CR_RPC_NODE_GET_CAPABILITIES) {
        p->answered_capable = p->capability;
        if (!p->capability) return;
        e->rpc.capabilities.types = cr_calloc(2, sizeof(int32_t));
        e->rpc.capabilities.types[0] = 1;
        e->rpc.capabilities.types[1] = 9;
        e->rpc.capabilities.n_types = 2;
    } else if (e->method == CR_RPC_NODE_GET_INFO) {
        good_node_info(s, e->plugin, e->flag, &e->rpc);
    }
}

static void deliver_rpc(struct sim *s, struct event *e)
{
    struct conn *c = find_conn(s, e->conn);
    if (!c || !c->open) {
        cr_rpc_result_fini(&e->rpc);
        e->rpc.code = 1;
    } else if (e->rpc.code == 0 && !e->rpc.refused) {
        fill(s, e);
    }
    sim_trace(s, "answer %d of call %d by %s", e->rpc.code, (int)e->method, s->plugins[e->plugin].name);
    if (c && c->open && e->rpc.code == 0 && e->method == CR_RPC_GET_INFO) c->got_info = true;
    if (c && c->open && e->rpc.code == 0 && e->method == CR_RPC_NOTIFY) s->plugins[e->plugin].notified = e->flag;
    struct cr_input in = {.kind = CR_IN_RPC_DONE, .id = e->id, .rpc = &e->rpc};
    sim_input(s, &in);
}

static void check_notification(struct sim *s, struct conn *c, const struct cr_effect *e)
{
    if (c->notified) sim_fail(s, "one notification", "%s is told twice in one attempt", s->plugins[c->plugin].path);
    if (!c->got_info)
        sim_fail(s, "one notification", "%s is told without a GetInfo answer", s->plugins[c->plugin].path);
    c->notified = true;
    const struct plugin *p = &s->plugins[c->plugin];
    bool same = p->identity.ino == c->generation; /* not made anew, perhaps under another name, since it was asked */
    if (e->flag && same && p->kind != FOREIGN) check_registered(s, p);
    if (!e->flag && (!e->text || !*e->text)) sim_fail(s, "reasons", "false without a reason");
}

void plugins_rpc(struct sim *s, const struct cr_effect *e)
{
    struct conn *c = find_conn(s, e->conn);
    if (!c || !c->open) {
        sim_fail(s, "calls on open connections", "call %d on a closed one", (int)e->method);
        return;
    }
    sim_trace(s, "  call %d to %s%s %s", (int)e->method, s->plugins[c->plugin].name, e->flag ? " (flag)" : "",
              e->text ? e->text : "");
    if (e->method == CR_RPC_NOTIFY) check_notification(s, c, e);
    check_call(s, e, &s->plugins[c->plugin]);
    bool hangs = sim_chance(s, 3);
    if (e->method == CR_RPC_NODE_GET_INFO && replaced(s, &s->plugins[c->plugin])) hangs = true;
    int64_t delay = hangs ? e->timeout_ms : (int64_t)sim_below(s, s->faults && sim_below(s, 4) == 0 ? 4000 : 12);
    bool late = delay >= e->timeout_ms;
    struct event *later = sim_later(s, late ? e->timeout_ms : delay, deliver_rpc);
    later->id = e->id;
    later->conn = e->conn;
    later->plugin = c->plugin;
    later->method = e->method;
    later->flag = e->flag;
    if (late) later->rpc.code = 4;
}
