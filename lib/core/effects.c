/* SPDX-License-Identifier: Apache-2.0 */
/* Making effects. What must not fail (closing, cancelling, stopping) falls back on a small reserve made at the start.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "core/internal.h"

static struct cr_effect *effect_new(struct cr_core *core, enum cr_effect_kind kind, bool must)
{
    struct cr_effect *e = CR_NEW(struct cr_effect);
    if (!e && must && !cr_list_empty(&core->reserve))
        e = CR_CONTAINER(cr_list_pop(&core->reserve), struct cr_effect, node);
    if (!e) return NULL;
    cr_list_init(&e->node);
    e->kind = kind;
    return e;
}

void cr_effect_free(struct cr_effect *e)
{
    if (!e) return;
    cr_free(e->path);
    cr_free(e->text);
    cr_free(e->driver);
    cr_api_request_fini(&e->request);
    csireg_event_free(e->event);
    cr_free(e);
}

static void push(struct cr_core *core, struct cr_effect *e) { cr_list_append(&core->effects, &e->node); }

/* An effect that will be answered. */
static uint64_t start(struct cr_core *core, struct cr_effect *e)
{
    e->id = ++core->next_id;
    core->out++;
    push(core, e);
    return e->id;
}

static uint64_t with_path(struct cr_core *core, enum cr_effect_kind kind, const char *path)
{
    struct cr_effect *e = effect_new(core, kind, false);
    if (!e) return 0;
    e->path = cr_strdup(path);
    if (e->path) return start(core, e);
    cr_effect_free(e);
    return 0;
}

/* What will close the connection is made with it. */
uint64_t cr_emit_connect(struct cr_core *core, const char *path)
{
    struct cr_effect *close = CR_NEW(struct cr_effect);
    uint64_t id = close ? with_path(core, CR_EFF_CONNECT, path) : 0;
    if (id) cr_list_append(&core->reserve, &close->node);
    if (!id) cr_free(close);
    return id;
}

void cr_emit_nothing_to_close(struct cr_core *core)
{
    struct cr_list *l = cr_list_pop(&core->reserve);
    if (l) cr_free(CR_CONTAINER(l, struct cr_effect, node));
}

uint64_t cr_emit_probe(struct cr_core *core, const char *path) { return with_path(core, CR_EFF_PROBE, path); }

void cr_emit_exhausted(struct cr_core *core, uint64_t token, int result)
{
    struct cr_effect *e = effect_new(core, CR_EFF_EXHAUSTED, true);
    if (!e) return; /* the caller's own time runs out then */
    e->id = token;
    e->result = result;
    push(core, e);
}

void cr_emit_close(struct cr_core *core, uint64_t *conn)
{
    if (*conn == 0) return;
    struct cr_list *l = cr_list_pop(&core->reserve);
    struct cr_effect *e = l ? CR_CONTAINER(l, struct cr_effect, node) : NULL;
    if (!e) return;
    e->kind = CR_EFF_CLOSE;
    e->conn = *conn;
    *conn = 0;
    push(core, e);
}

uint64_t cr_emit_rpc(const struct cr_instance *i, uint64_t conn, enum cr_rpc_method method, int64_t timeout_ms,
                     bool flag, const char *text)
{
    struct cr_effect *e = effect_new(i->core, CR_EFF_RPC, false);
    if (!e) return 0;
    e->conn = conn;
    e->method = method;
    e->timeout_ms = timeout_ms;
    e->flag = flag;
    e->text = cr_strdup(text);
    e->driver = i->driver ? cr_strdup(i->driver->name) : NULL; /* for the measurement: it may be missing */
    if (!text || e->text) return start(i->core, e);
    cr_effect_free(e);
    return 0;
}

uint64_t cr_emit_api(struct cr_core *core, struct cr_api_request *request)
{
    struct cr_effect *e = request->path ? effect_new(core, CR_EFF_API, false) : NULL;
    if (!e) {
        cr_api_request_fini(request);
        return 0;
    }
    e->request = *request;
    *request = (struct cr_api_request){0};
    return start(core, e);
}

void cr_emit_cancel_api(struct cr_core *core, uint64_t id)
{
    struct cr_effect *e = id ? effect_new(core, CR_EFF_CANCEL_API, true) : NULL;
    if (!e) return;
    e->id = id;
    push(core, e);
}

void cr_emit_stopped(struct cr_core *core)
{
    struct cr_effect *e = effect_new(core, CR_EFF_STOPPED, true);
    if (!e) return;
    core->stopped = true;
    push(core, e);
}

static void push_event(struct cr_core *core, struct csireg_event *event)
{
    struct cr_effect *e = event ? effect_new(core, CR_EFF_EVENT, false) : NULL;
    if (!e) {
        csireg_event_free(event); /* short of memory: status still tells */
        return;
    }
    event->generation = ++core->event_generation;
    e->event = event;
    push(core, e);
}

void cr_emit_event(struct cr_core *core, enum csireg_event_kind kind, const struct cr_instance *inst,
                   const struct cr_driver *driver, const struct csireg_error *error)
{
    const char *name = driver ? driver->name : inst ? cr_instance_name(inst) : NULL;
    struct csireg_event *event = cr_event_new(kind, name, inst ? inst->path : NULL);
    if (!event) return;
    event->endpoint = inst ? cr_strdup(inst->endpoint) : NULL;
    event->error = cr_error_copy(error);
    push_event(core, event);
}

void cr_emit_plugin(struct cr_core *core, enum csireg_event_kind kind, const struct cr_instance *inst)
{
    struct csireg_event *event = cr_event_new(kind, inst->plugin.name, inst->path);
    if (!event) return;
    event->type = cr_strdup(inst->plugin.type);
    event->endpoint = cr_strdup(inst->endpoint);
    event->versions = cr_strv_dup((const char *const *)inst->plugin.versions, inst->plugin.n_versions);
    event->token = inst->token;
    push_event(core, event);
}

void cr_emit_log(struct cr_core *core, enum csireg_log_level level, const char *module, const struct cr_instance *inst,
                 const char *fmt, ...)
{
    if (level > core->config.log_level) return;
    struct cr_effect *e = effect_new(core, CR_EFF_LOG, false);
    if (!e) return;
    char text[CR_MAX_LOG_TEXT + 1];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    e->level = level;
    e->module = module;
    e->text = cr_strdup(text);
    if (!e->text) { /* short of memory: status still tells */
        cr_effect_free(e);
        return;
    }
    e->path = inst ? cr_strdup(inst->path) : NULL;
    e->driver = inst ? cr_strdup(cr_instance_name(inst)) : NULL;
    push(core, e);
}

int64_t cr_jitter(struct cr_core *core, int64_t ms, unsigned percent)
{
    uint64_t span = (uint64_t)ms * percent / 100;
    return ms - (int64_t)span + (int64_t)cr_rng_below(&core->rng, 2 * span + 1);
}
