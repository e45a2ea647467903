/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs to the object they concern, effects out, the next deadline. */
#include "core/core.h"

#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "core/internal.h"

#define RESERVED_EFFECTS 16

static bool fill_reserve(struct cr_core *core)
{
    for (int i = 0; i < RESERVED_EFFECTS; i++) {
        struct cr_effect *e = CR_NEW(struct cr_effect);
        if (!e) return false;
        cr_list_append(&core->reserve, &e->node);
    }
    return true;
}

static bool copy_owners(struct cr_core *core, const struct cr_uids *owners)
{
    core->config.allowed_owners = (struct cr_uids){0};
    if (owners->n == 0) return true;
    core->owners = cr_calloc(owners->n, sizeof *core->owners);
    if (!core->owners) return false;
    memcpy(core->owners, owners->uids, owners->n * sizeof *core->owners);
    core->config.allowed_owners = (struct cr_uids){core->owners, owners->n};
    return true;
}

struct cr_core *cr_core_new(const struct cr_core_config *config, struct cr_time now)
{
    struct cr_core *core = CR_NEW(struct cr_core);
    if (!core) return NULL;
    cr_list_init(&core->effects);
    cr_list_init(&core->reserve);
    cr_list_init(&core->instances);
    cr_list_init(&core->drivers);
    core->config = *config;
    core->now = now;
    core->rng.state = config->seed;
    core->generation = 1;
    core->node_name = cr_strdup(config->node_name);
    core->migrated = cr_strv_dup(config->migrated_plugins, config->n_migrated_plugins);
    core->types = cr_strv_dup(config->plugin_types, config->n_plugin_types);
    core->prefixes = cr_strv_dup(config->label_prefixes, config->n_label_prefixes);
    core->scan_done = !config->watches_registry;
    cr_csidrivers_init(core);
    cr_publisher_init(core);
    if (!copy_owners(core, &config->allowed_owners)) {
        cr_core_free(core);
        return NULL;
    }
    if (core->node_name && core->migrated && core->types && core->prefixes && fill_reserve(core)) return core;
    cr_core_free(core);
    return NULL;
}

static void free_effects(struct cr_list *list)
{
    for (struct cr_list *l; (l = cr_list_pop(list));) cr_effect_free(CR_CONTAINER(l, struct cr_effect, node));
}

void cr_core_free(struct cr_core *core)
{
    if (!core) return;
    CR_LIST_FOREACH_SAFE (l, &core->instances) cr_instance_free(cr_instance_of(l));
    CR_LIST_FOREACH_SAFE (l, &core->drivers) cr_driver_free(cr_driver_of(l));
    cr_publisher_fini(core);
    cr_csidrivers_fini(core);
    free_effects(&core->effects);
    free_effects(&core->reserve);
    cr_strv_free(core->migrated);
    cr_strv_free(core->types);
    cr_strv_free(core->prefixes);
    cr_free(core->owners);
    cr_free(core->node_name);
    cr_free(core);
}

struct cr_effect *cr_core_pop_effect(struct cr_core *core)
{
    struct cr_list *l = cr_list_pop(&core->effects);
    return l ? CR_CONTAINER(l, struct cr_effect, node) : NULL;
}

/* ---- finding things ---- */

static struct cr_instance *by_path(struct cr_core *core, const char *path)
{
    CR_LIST_FOREACH (l, &core->instances) {
        struct cr_instance *i = cr_instance_of(l);
        if (i->path && strcmp(i->path, path) == 0) return i;
    }
    return NULL;
}

static struct cr_instance *handed_over(struct cr_core *core, const char *name, const char *endpoint)
{
    CR_LIST_FOREACH (l, &core->instances) {
        struct cr_instance *i = cr_instance_of(l);
        if (!i->path && strcmp(i->plugin.name, name) == 0 && strcmp(i->plugin.endpoint, endpoint) == 0) return i;
    }
    return NULL;
}

static struct cr_instance *waiting_for(struct cr_core *core, uint64_t id)
{
    CR_LIST_FOREACH (l, &core->instances)
        if (id != 0 && cr_instance_of(l)->waiting == id) return cr_instance_of(l);
    return NULL;
}

static struct cr_instance *refreshing(struct cr_core *core, uint64_t id)
{
    CR_LIST_FOREACH (l, &core->instances)
        if (id != 0 && cr_instance_of(l)->refresh.waiting == id) return cr_instance_of(l);
    return NULL;
}

static struct cr_instance *probing(struct cr_core *core, uint64_t id)
{
    CR_LIST_FOREACH (l, &core->instances)
        if (id != 0 && cr_instance_of(l)->probe == id) return cr_instance_of(l);
    return NULL;
}

/* ---- sockets and drivers come and go ---- */

static struct cr_instance *instance_new(struct cr_core *core)
{
    if (core->n_instances >= CR_MAX_SOCKETS) {
        cr_emit_log(core, CSIREG_LOG_WARNING, "registration", NULL,
                    "ignoring a socket or driver: the limit of %d is reached", CR_MAX_SOCKETS);
        return NULL;
    }
    struct cr_instance *i = CR_NEW(struct cr_instance);
    if (!i) return NULL;
    i->core = core;
    i->timer_ms = i->probe_ms = CR_NEVER;
    cr_refresh_init(i);
    i->since_wall_ms = core->now.wall_ms;
    i->flow = CSIREG_FLOW_NODE;
    cr_list_append(&core->instances, &i->node);
    core->n_instances++;
    return i;
}

static bool same_identity(const struct cr_identity *a, const struct cr_identity *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->birth_ns == b->birth_ns && a->generation == b->generation;
}

/* The socket at a known path was made anew: what was registered stays until the new attempt decides. */
static void recreate(struct cr_instance *i, const struct cr_identity *identity)
{
    i->identity = *identity;
    i->recreated = true;
    cr_backoff_reset(&i->backoff);
    cr_emit_log(i->core, CSIREG_LOG_INFO, "registration", i, "the registration socket was made anew");
    cr_instance_start(i);
}

static void socket_seen(struct cr_core *core, const struct cr_input *in)
{
    struct cr_instance *i = by_path(core, in->path);
    if (i && same_identity(&i->identity, &in->identity)) return;
    cr_publisher_event(core);
    if (i) {
        recreate(i, &in->identity);
        return;
    }
    i = instance_new(core);
    if (!i) return;
    i->path = cr_strdup(in->path);
    if (!i->path) {
        cr_instance_free(i); /* the next scan sees it again */
        return;
    }
    i->identity = in->identity;
    i->from_host = in->from_host;
    i->initial = !core->scan_done && !in->from_host;
    cr_instance_start(i);
}

static void socket_gone(struct cr_core *core, const struct cr_input *in)
{
    struct cr_instance *i = by_path(core, in->path);
    if (!i) return;
    cr_publisher_event(core);
    cr_instance_vanish(i);
}

static bool fill_handed_over(struct cr_instance *i, const struct cr_input *in)
{
    i->plugin.name = cr_strdup(in->name);
    i->plugin.endpoint = cr_strdup(in->endpoint);
    i->plugin.versions = cr_strv_dup(in->versions, in->n_versions);
    i->plugin.n_versions = in->n_versions;
    return i->plugin.name && i->plugin.endpoint && i->plugin.versions;
}

static void driver_register(struct cr_core *core, const struct cr_input *in)
{
    if (handed_over(core, in->name, in->endpoint)) return;
    struct cr_instance *i = instance_new(core);
    if (!i) return;
    i->from_host = true;
    i->identity.birth_ns = core->now.wall_ms * 1000000; /* its order among several instances of the name */
    if (!fill_handed_over(i, in)) {
        struct csireg_error *oom = cr_error_oom();
        cr_emit_event(core, CSIREG_EVENT_FAILED, i, NULL, oom);
        cr_instance_free(i);
        return;
    }
    cr_publisher_event(core);
    cr_instance_start(i);
}

static void driver_deregister(struct cr_core *core, const struct cr_input *in)
{
    struct cr_instance *i = handed_over(core, in->name, in->endpoint);
    if (!i) return;
    cr_publisher_event(core);
    cr_instance_vanish(i);
}

/* ---- commands ---- */

static void retry(struct cr_core *core, const char *what)
{
    CR_LIST_FOREACH_SAFE (l, &core->instances) {
        struct cr_instance *i = cr_instance_of(l);
        bool meant = !what || strcmp(cr_instance_name(i), what) == 0 || (i->path && strcmp(i->path, what) == 0);
        if (meant) cr_instance_retry(i);
    }
    cr_publisher_retry_now(core);
    cr_csidrivers_retry_now(core);
    if (!what && !core->config.local_only) cr_publisher_verify(core);
}

static bool refused_credentials(const struct csireg_error *e)
{
    return e && e->origin == CSIREG_ORIGIN_HTTP && (e->number == 401 || e->number == 403);
}

static void credentials_changed(struct cr_core *core)
{
    CR_LIST_FOREACH_SAFE (l, &core->instances)
        if (refused_credentials(cr_instance_of(l)->error)) cr_instance_retry(cr_instance_of(l));
    cr_publisher_retry_now(core);
    cr_csidrivers_retry_now(core);
}

static void plugin_result(struct cr_core *core, const struct cr_input *in)
{
    CR_LIST_FOREACH (l, &core->instances) {
        struct cr_instance *i = cr_instance_of(l);
        if (i->state != CR_STATE_HANDLER || i->token != in->token) continue;
        cr_handshake_plugin_result(i, in->ok, in->text);
        return;
    }
}

static void stop(struct cr_core *core)
{
    if (core->stopping) return;
    core->stopping = true;
    CR_LIST_FOREACH (l, &core->instances) {
        cr_refresh_stop(cr_instance_of(l));
        cr_instance_close(cr_instance_of(l));
    }
    cr_emit_cancel_api(core, core->publisher.node_slot.call);
    cr_emit_cancel_api(core, core->publisher.csinode_slot.call);
    cr_emit_cancel_api(core, core->csidrivers.call);
}

/* ---- answers ---- */

static void connected(struct cr_core *core, struct cr_input *in)
{
    struct cr_instance *i = waiting_for(core, in->id), *r = refreshing(core, in->id), *p = probing(core, in->id);
    bool probe = p || in->ok;
    if (in->error_number != 0 && !probe) cr_emit_nothing_to_close(core);
    if (p)
        cr_probe_answer(p, in->error_number);
    else if (r)
        cr_refresh_connected(r, in);
    else if (i)
        cr_handshake_connected(i, in);
    else if (in->error_number == 0 && !in->ok) /* nobody wants it any more */
        cr_emit_close(core, &in->id);
}

static void api_done(struct cr_core *core, struct cr_input *in)
{
    if (in->id == core->csidrivers.call)
        cr_csidrivers_answer(core, in->api);
    else
        cr_publisher_answer(core, in->id, in->api);
}

static void answer(struct cr_core *core, struct cr_input *in)
{
    core->out--;
    if (in->kind == CR_IN_CONNECTED) {
        connected(core, in);
    } else if (core->stopping) {
        return;
    } else if (in->kind == CR_IN_RPC_DONE) {
        struct cr_instance *i = waiting_for(core, in->id), *r = refreshing(core, in->id);
        if (i) cr_handshake_rpc_done(i, in->rpc);
        if (r) cr_refresh_rpc_done(r, in->rpc);
    } else {
        api_done(core, in);
    }
}

static void tick(struct cr_core *core)
{
    CR_LIST_FOREACH_SAFE (l, &core->instances) {
        struct cr_instance *i = cr_instance_of(l);
        if (i->timer_ms <= core->now.mono_ms) cr_handshake_timer(i);
        cr_refresh_timer(i);
        cr_probe_timer(i);
    }
    cr_csidrivers_timer(core);
    cr_publisher_timer(core);
}

static void prune_later(struct cr_core *core)
{
    int64_t after = core->config.prune_unclaimed_after_ms;
    if (after > 0 && !core->config.local_only) core->publisher.prune_ms = core->now.mono_ms + after;
}

static void dispatch(struct cr_core *core, struct cr_input *in)
{
    switch (in->kind) {
    case CR_IN_TICK:
        tick(core);
        break;
    case CR_IN_SOCKET_SEEN:
        socket_seen(core, in);
        break;
    case CR_IN_SOCKET_GONE:
        socket_gone(core, in);
        break;
    case CR_IN_SCAN_DONE:
        core->scan_done = true;
        core->generation++;
        prune_later(core);
        break;
    case CR_IN_WATCH_LINE:
        if (in->id == core->csidrivers.call) cr_csidrivers_line(core, in->text);
        break;
    case CR_IN_DRIVER_REGISTER:
        driver_register(core, in);
        break;
    case CR_IN_DRIVER_DEREGISTER:
        driver_deregister(core, in);
        break;
    case CR_IN_RETRY:
        retry(core, in->name);
        break;
    case CR_IN_EXHAUSTED:
        cr_refresh_exhausted(core, in->name, in->token);
        break;
    case CR_IN_PLUGIN_RESULT:
        plugin_result(core, in);
        break;
    case CR_IN_CREDENTIALS_CHANGED:
        credentials_changed(core);
        break;
    case CR_IN_STOP:
    case CR_IN_CONNECTED:
    case CR_IN_RPC_DONE:
    case CR_IN_API_DONE:
        break; /* handled before */
    }
}

void cr_core_input(struct cr_core *core, struct cr_time now, struct cr_input *in)
{
    core->now = now;
    if (in->kind == CR_IN_CONNECTED || in->kind == CR_IN_RPC_DONE || in->kind == CR_IN_API_DONE)
        answer(core, in);
    else if (in->kind == CR_IN_STOP)
        stop(core);
    else if (!core->stopping)
        dispatch(core, in);
    if (!core->stopping)
        cr_publisher_step(core);
    else if (core->out == 0 && !core->stopped)
        cr_emit_stopped(core);
}

int64_t cr_core_deadline(const struct cr_core *core)
{
    if (core->stopping) return CR_NEVER;
    int64_t next = cr_publisher_deadline(core);
    if (core->csidrivers.retry_ms < next) next = core->csidrivers.retry_ms;
    CR_LIST_FOREACH (l, &core->instances) {
        const struct cr_instance *i = CR_CONTAINER(l, const struct cr_instance, node);
        int64_t refresh = cr_refresh_deadline(i);
        if (i->timer_ms < next) next = i->timer_ms;
        if (refresh < next) next = refresh;
        if (!i->probe && i->probe_ms < next) next = i->probe_ms;
    }
    return next;
}

uint64_t cr_core_generation(const struct cr_core *core) { return core->generation; }

bool cr_core_initial_done(const struct cr_core *core)
{
    CR_LIST_FOREACH (l, &core->instances)
        if (CR_CONTAINER(l, const struct cr_instance, node)->initial) return false;
    return core->scan_done;
}
