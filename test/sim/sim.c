/* SPDX-License-Identifier: Apache-2.0 */
/* The clock, the queue of what happens next, effects to whom they concern, one whole run. */
#include "sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/coverage.h"

#define TRACE_SIZE (1u << 20)
#define MAX_STEPS  400000

void sim_trace(struct sim *s, const char *fmt, ...)
{
    char line[600];
    va_list ap;
    int n = snprintf(line, sizeof line, "%9.3f ", (double)s->now.mono_ms / 1000);
    va_start(ap, fmt);
    vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    va_end(ap);
    size_t len = strlen(line);
    if (s->trace_len + len + 2 > TRACE_SIZE) { /* keep the newer half */
        memmove(s->trace, s->trace + s->trace_len / 2, s->trace_len - s->trace_len / 2);
        s->trace_len -= s->trace_len / 2;
    }
    memcpy(s->trace + s->trace_len, line, len);
    s->trace_len += len;
    s->trace[s->trace_len++] = '\n';
    s->trace[s->trace_len] = '\0';
    if (s->options.verbose) puts(line);
}

void sim_fail(struct sim *s, const char *invariant, const char *fmt, ...)
{
    va_list ap;
    if (s->failed) return;
    s->failed = invariant;
    va_start(ap, fmt);
    vsnprintf(s->why, sizeof s->why, fmt, ap);
    va_end(ap);
    sim_trace(s, "BROKEN %s: %s", invariant, s->why);
}

uint64_t sim_below(struct sim *s, uint64_t n) { return cr_rng_below(&s->rng, n); }

bool sim_chance(struct sim *s, unsigned percent) { return s->faults && sim_below(s, 100) < percent; }

struct event *sim_later(struct sim *s, int64_t delay_ms, void (*run)(struct sim *, struct event *))
{
    static struct event overflow;
    if (s->n_events == MAX_EVENTS) {
        sim_fail(s, "bounded", "more than %d things at once", MAX_EVENTS);
        return &overflow;
    }
    struct event *e = &s->events[s->n_events++];
    *e = (struct event){.at_ms = s->now.mono_ms + delay_ms, .order = ++s->order, .run = run, .plugin = -1};
    return e;
}

/* ---- effects ---- */

static void check_id(struct sim *s, uint64_t id)
{
    if (id <= s->last_effect_id) sim_fail(s, "effect ids", "id %llu came again", (unsigned long long)id);
    s->last_effect_id = id;
}

static void on_event(struct sim *s, const struct csireg_event *e)
{
    sim_trace(s, "  event %s %s %s", csireg_event_kind_name(e->kind), csireg_event_driver(e),
              csireg_error_message(e->error));
    struct plugin *p = plugin_named(s, csireg_event_driver(e));
    plugins_event(s, e);
    if (e->kind == CSIREG_EVENT_REGISTERED) json_object_del(s->lost, csireg_event_driver(e));
    if (e->kind == CSIREG_EVENT_REGISTERED) json_object_del(s->ended, csireg_event_driver(e));
    if (e->kind == CSIREG_EVENT_UNREGISTERED)
        json_object_set_new(s->ended, csireg_event_driver(e), json_integer(s->now.mono_ms));
    if (p && e->kind == CSIREG_EVENT_FAILED) check_failure(s, p, e->error);
    if (p && (e->kind == CSIREG_EVENT_REGISTERED || e->kind == CSIREG_EVENT_CHANGED)) check_registered(s, p);
}

static void on_log(struct sim *s, const struct cr_effect *e)
{
    sim_trace(s, "  log %s %s", e->path ? e->path : "", e->text ? e->text : "(no memory)");
    coverage_step(e->text ? e->text : "");
    if (e->level == CSIREG_LOG_ERROR) sim_fail(s, "legal transitions", "%s", e->text);
}

static void check_stopped(struct sim *s)
{
    for (size_t i = 0; i < s->n_events; i++)
        if (s->events[i].id != 0 && s->events[i].id != UINT64_MAX)
            sim_fail(s, "stop ends", "an effect is out when STOPPED comes");
}

static void carry_out(struct sim *s, struct cr_effect *e)
{
    switch (e->kind) {
    case CR_EFF_CONNECT:
        check_id(s, e->id);
        plugins_connect(s, e);
        break;
    case CR_EFF_PROBE:
        check_id(s, e->id);
        plugins_probe(s, e);
        break;
    case CR_EFF_EXHAUSTED:
        if (e->id == 0) sim_fail(s, "exhausted", "an answer without a question");
        break;
    case CR_EFF_CLOSE:
        plugins_close(s, e->conn);
        break;
    case CR_EFF_RPC:
        check_id(s, e->id);
        plugins_rpc(s, e);
        break;
    case CR_EFF_API:
        check_id(s, e->id);
        server_request(s, e);
        break;
    case CR_EFF_CANCEL_API:
        server_cancel(s, e->id);
        break;
    case CR_EFF_EVENT:
        on_event(s, e->event);
        break;
    case CR_EFF_LOG:
        on_log(s, e);
        break;
    case CR_EFF_STOPPED:
        check_stopped(s);
        s->stopped = true;
        break;
    case CR_EFF_CANCEL_RPC:
        break;
    }
}

static void run_core(struct sim *s, struct cr_input *in)
{
    bool scarce = s->options.short_memory && sim_chance(s, 8);
    unsigned long n = scarce ? 1 + (unsigned long)sim_below(s, 80) : 0;
    cr_mem_fail_after(n);
    cr_core_input(s->core, s->now, in);
    s->starved = n && cr_mem_count() >= n;
    cr_mem_fail_after(0);
    if (s->starved) sim_trace(s, "  out of memory");
}

void sim_input(struct sim *s, struct cr_input *in)
{
    coverage_input(s, in);
    check_input(s, in);
    run_core(s, in);
    for (struct cr_effect *e; (e = cr_core_pop_effect(s->core));) {
        carry_out(s, e);
        cr_effect_free(e);
    }
}

/* ---- one step ---- */

static size_t next_event(const struct sim *s)
{
    size_t best = 0;
    for (size_t i = 1; i < s->n_events; i++) {
        const struct event *a = &s->events[i], *b = &s->events[best];
        if (a->at_ms < b->at_ms || (a->at_ms == b->at_ms && a->order < b->order)) best = i;
    }
    return best;
}

static void move_to(struct sim *s, int64_t ms)
{
    if (ms <= s->now.mono_ms) return;
    s->now.wall_ms += ms - s->now.mono_ms;
    s->now.mono_ms = ms;
}

/* false: nothing happens before `until`. */
static bool step(struct sim *s, int64_t until)
{
    int64_t deadline = cr_core_deadline(s->core);
    size_t k = next_event(s);
    int64_t event_at = s->n_events ? s->events[k].at_ms : CR_NEVER;
    int64_t at = deadline < event_at ? deadline : event_at;
    if (at > until) {
        move_to(s, until);
        return false;
    }
    move_to(s, at);
    if (deadline < event_at) {
        struct cr_input tick = {.kind = CR_IN_TICK};
        sim_input(s, &tick);
        return true;
    }
    struct event e = s->events[k];
    s->events[k] = s->events[--s->n_events];
    e.run(s, &e);
    cr_rpc_result_fini(&e.rpc);
    cr_api_answer_fini(&e.api);
    return true;
}

static void run_until(struct sim *s, int64_t until)
{
    unsigned steps = 0;
    while (!s->failed && step(s, until))
        if (++steps > MAX_STEPS) sim_fail(s, "bounded", "no rest after %u steps", steps);
}

/* ---- lives of the core ---- */

static void drop_events(struct sim *s)
{
    for (size_t i = 0; i < s->n_events;) {
        struct event *e = &s->events[i];
        if (e->id == 0 || server_orphan(e)) { /* belongs to the world, not to the core */
            i++;
            continue;
        }
        cr_rpc_result_fini(&e->rpc);
        cr_api_answer_fini(&e->api);
        *e = s->events[--s->n_events];
    }
}

static void start_core(struct sim *s)
{
    s->config.seed = sim_below(s, UINT64_MAX);
    for (int i = 0; i < s->n_plugins; i++) s->plugins[i].token = 0;
    s->core = cr_core_new(&s->config, s->now);
    s->last_effect_id = 0;
    s->known = (struct known){0};
    json_object_clear(s->ended);
    plugins_announce(s);
}

static void end_core(struct sim *s, bool in_order)
{
    if (in_order) {
        struct cr_input in = {.kind = CR_IN_STOP};
        s->stopped = false;
        s->stopping = true;
        sim_input(s, &in);
        run_until(s, s->now.mono_ms + 20000);
        if (!s->stopped) sim_fail(s, "stop ends", "the core waits for an effect after 20 s");
    }
    s->stopping = false;
    cr_core_free(s->core);
    s->core = NULL;
    drop_events(s);
    memset(s->conns, 0, sizeof s->conns);
    json_decref(s->seen);
    s->seen = NULL;
    s->watch = 0;
}

static void restart(struct sim *s)
{
    bool in_order = sim_below(s, 2);
    sim_trace(s, "-- the agent %s", in_order ? "stops and starts again" : "is killed and starts again");
    for (int i = 0; i < 2 * s->n_plugins; i++)
        json_object_set_new(s->lost, s->plugins[i / 2].names[i % 2], json_true());
    end_core(s, in_order);
    if (!s->failed) start_core(s);
}

/* What a host does meanwhile. */
static void ask(struct sim *s)
{
    const struct plugin *p = &s->plugins[sim_below(s, (uint64_t)s->n_plugins)];
    struct cr_input exhausted = {.kind = CR_IN_EXHAUSTED, .name = p->name, .token = ++s->order};
    struct cr_input retry = {.kind = CR_IN_RETRY, .name = sim_below(s, 3) ? p->name : NULL};
    struct cr_input credentials = {.kind = CR_IN_CREDENTIALS_CHANGED};
    if (sim_chance(s, 25)) sim_input(s, &exhausted);
    if (sim_chance(s, 2)) sim_input(s, &retry);
    if (sim_chance(s, 1)) sim_input(s, &credentials);
}

static void churn(struct sim *s, struct event *e)
{
    (void)e;
    if (!s->faults) return;
    if (s->stopping) {
        sim_later(s, 100, churn);
        return;
    }
    plugins_churn(s);
    if (sim_chance(s, 3)) plugins_rescan(s);
    server_churn(s);
    ask(s);
    if (sim_chance(s, 2)) restart(s);
    sim_later(s, (int64_t)sim_below(s, 1500), churn);
}

static void end_of_faults(struct sim *s)
{
    s->faults = false;
    s->server.down = false;
    s->server.gate = true;
    sim_trace(s, "-- the faults are over");
    plugins_heal(s);
}

static const char *const plugin_types[] = {FOREIGN_TYPE};

static void init(struct sim *s, uint64_t seed, struct sim_options options)
{
    *s = (struct sim){.options = options, .seed = seed, .faults = true};
    s->rng.state = seed * 0x9e3779b97f4a7c15u;
    s->trace = calloc(1, TRACE_SIZE);
    s->now = (struct cr_time){.mono_ms = 1000, .wall_ms = 1700000000000};
    s->lost = json_object();
    s->ended = json_object();
    s->config = (struct cr_core_config){.node_name = "n1",
                                        .gate = sim_below(s, 3) != 0,
                                        .fallback_to_node_flow = sim_below(s, 4) == 0,
                                        .create_at_start = sim_below(s, 8) == 0,
                                        .first_instance_wins = sim_below(s, 6) == 0,
                                        .annotate_in_controller_flow = sim_below(s, 4) == 0,
                                        .unregister_grace_ms = sim_below(s, 4) ? 0 : 3000,
                                        .endpoint_dead_after_ms = sim_below(s, 4) ? 0 : 5000,
                                        .prune_unclaimed_after_ms = sim_below(s, 5) ? 0 : 30000,
                                        .watches_registry = true,
                                        .plugin_types = plugin_types,
                                        .n_plugin_types = 1,
                                        .node_info_from_controller = 9,
                                        .gather_window_ms = sim_below(s, 5) ? 50 : 0,
                                        .verify_interval_ms = 60000,
                                        .connect_timeout_ms = 10000,
                                        .getinfo_timeout_ms = 5000,
                                        .node_rpc_timeout_ms = sim_below(s, 4) ? 120000 : 6000,
                                        .publish_timeout_ms = 30000,
                                        .notify_timeout_ms = 5000,
                                        .request_timeout_ms = 10000,
                                        .handler_timeout_ms = 120000,
                                        .log_level = CSIREG_LOG_DEBUG};
    server_init(s);
    plugins_init(s);
}

static void fini(struct sim *s)
{
    if (s->core) end_core(s, false);
    for (size_t i = 0; i < s->n_events; i++) {
        cr_rpc_result_fini(&s->events[i].rpc);
        cr_api_answer_fini(&s->events[i].api);
    }
    server_fini(s);
    json_decref(s->lost);
    json_decref(s->ended);
}

bool sim_run(uint64_t seed, struct sim_options options, char **out_trace)
{
    struct sim *s = calloc(1, sizeof *s);
    init(s, seed, options);
    start_core(s);
    sim_later(s, 1, churn);
    run_until(s, FAULT_MS);
    if (!s->failed) end_of_faults(s);
    run_until(s, FAULT_MS + SETTLE_MS);
    if (!s->failed) check_converged(s);
    if (!s->failed) end_core(s, true);
    bool ok = !s->failed;
    fini(s);
    if (out_trace)
        *out_trace = s->trace;
    else
        free(s->trace);
    free(s);
    return ok;
}
