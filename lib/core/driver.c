/* SPDX-License-Identifier: Apache-2.0 */
/* The driver table: who owns a name, what is registered, what remains to be removed. */
#include "base/mem.h"
#include "core/internal.h"

#include <string.h>

struct cr_driver *cr_driver_find(struct cr_core *core, const char *name)
{
    CR_LIST_FOREACH (l, &core->drivers)
        if (strcmp(cr_driver_of(l)->name, name) == 0) return cr_driver_of(l);
    return NULL;
}

struct cr_driver *cr_driver_new(struct cr_core *core, const char *name)
{
    struct cr_driver *d = CR_NEW(struct cr_driver);
    if (!d) return NULL;
    d->name = cr_strdup(name);
    if (!d->name) {
        cr_free(d);
        return NULL;
    }
    d->since_wall_ms = core->now.wall_ms;
    cr_list_append(&core->drivers, &d->node);
    return d;
}

struct cr_driver *cr_driver_claim(struct cr_core *core, const char *name, struct cr_instance *inst)
{
    struct cr_driver *d = cr_driver_find(core, name);
    if (!d) d = cr_driver_new(core, name);
    if (!d) return NULL;
    inst->driver = d;
    if (d->owner == inst) return d;
    if (d->owner)
        d->claimant = inst;
    else
        d->owner = inst;
    cr_driver_changed(d);
    core->generation++;
    return d;
}

void cr_driver_release(struct cr_driver *d, struct cr_instance *inst)
{
    if (inst->driver == d) inst->driver = NULL;
    inst->core->generation++;
    cr_driver_changed(d);
    if (d->owner == inst) {
        d->owner = d->claimant; /* there is nobody to take over from any more */
        cr_desired_fini(&d->saved);
    }
    if (d->claimant == inst || d->claimant == d->owner) d->claimant = NULL;
    if (!d->owner && !d->pending && !d->touched) cr_driver_free(d);
}

void cr_driver_changed(struct cr_driver *d)
{
    json_decref(d->status);
    d->status = NULL;
}

enum cr_driver_state cr_driver_state(const struct cr_driver *d)
{
    bool unconfirmed = d->owner && (d->owner->unconfirmed || d->owner->state == CR_STATE_UNCONFIRMED);
    if (d->registered) return unconfirmed ? CR_DRIVER_UNCONFIRMED : CR_DRIVER_REGISTERED;
    bool removing = d->desired.want == CR_WANT_REMOVE && (!d->owner || d->pending);
    return removing ? CR_DRIVER_REMOVING : CR_DRIVER_REGISTERING;
}

static void view_fini(struct csireg_driver *v)
{
    cr_free(v->name);
    cr_free(v->endpoint);
    cr_free(v->version);
    cr_free(v->node_id);
    *v = (struct csireg_driver){0};
}

static int view_fill(struct csireg_driver *out, const struct csireg_driver *v)
{
    *out = (struct csireg_driver){.name = cr_strdup(v->name),
                                  .endpoint = cr_strdup(v->endpoint),
                                  .version = cr_strdup(v->version),
                                  .node_id = cr_strdup(v->node_id),
                                  .flow = v->flow};
    if (out->name && out->endpoint && out->version && out->node_id) return 0;
    view_fini(out);
    return CSIREG_ERR_NOMEM;
}

struct csireg_driver *cr_driver_copy(const struct csireg_driver *v)
{
    struct csireg_driver *copy = CR_NEW(struct csireg_driver);
    if (copy && view_fill(copy, v) == 0) return copy;
    cr_free(copy);
    return NULL;
}

void csireg_driver_free(struct csireg_driver *v)
{
    if (!v) return;
    view_fini(v);
    cr_free(v);
}

static bool view_equal(const struct csireg_driver *a, const struct csireg_driver *b)
{
    return strcmp(a->endpoint, b->endpoint) == 0 && strcmp(a->version, b->version) == 0 &&
           strcmp(a->node_id, b->node_id) == 0 && a->flow == b->flow;
}

int cr_driver_set_registered(struct cr_driver *d, const struct csireg_driver *view)
{
    struct cr_core *core = d->owner->core;
    struct csireg_driver fresh;
    bool again = d->registered;
    if (again && view_equal(&d->view, view)) return 0;
    if (view_fill(&fresh, view) != 0) return CSIREG_ERR_NOMEM;
    view_fini(&d->view);
    d->view = fresh;
    d->registered = true;
    d->since_wall_ms = core->now.wall_ms;
    cr_driver_changed(d);
    core->generation++;
    cr_emit_event(core, again ? CSIREG_EVENT_CHANGED : CSIREG_EVENT_REGISTERED, d->owner, d, NULL);
    cr_emit_log(core, CSIREG_LOG_INFO, "registration", d->owner, "%s in the %s flow, node id %s, endpoint %s",
                again ? "changed" : "registered", view->flow == CSIREG_FLOW_NODE ? "node" : "controller", view->node_id,
                view->endpoint);
    return 0;
}

void cr_driver_unregister(struct cr_driver *d, const struct csireg_error *why)
{
    struct cr_core *core = d->owner->core;
    d->registered = false;
    d->completed = false;
    d->owner->unconfirmed = false;
    d->since_wall_ms = core->now.wall_ms;
    core->generation++;
    cr_driver_changed(d);
    cr_emit_event(core, CSIREG_EVENT_UNREGISTERED, d->owner, d, why);
    cr_emit_log(core, CSIREG_LOG_INFO, "registration", d->owner, "unregistered");
    view_fini(&d->view);
    cr_refresh_stop(d->owner);
    cr_probe_stop(d->owner);
    if (!d->claimant) cr_publisher_remove(core, d); /* else its attempt decides */
}

void cr_driver_free(struct cr_driver *d)
{
    cr_list_remove(&d->node);
    view_fini(&d->view);
    cr_desired_fini(&d->desired);
    cr_desired_fini(&d->saved);
    cr_free(d->name);
    cr_free(d->warning);
    csireg_error_free(d->error);
    json_decref(d->status);
    cr_free(d);
}

struct csireg_driver **cr_core_drivers(const struct cr_core *core)
{
    size_t n = 0;
    CR_LIST_FOREACH (l, &core->drivers) n += cr_driver_of(l)->registered;
    struct csireg_driver **all = cr_calloc(n + 1, sizeof(struct csireg_driver *));
    size_t k = 0;
    CR_LIST_FOREACH (l, &core->drivers) {
        const struct cr_driver *d = cr_driver_of(l);
        if (!all || !d->registered) continue;
        all[k] = cr_driver_copy(&d->view);
        if (!all[k++]) {
            cr_driver_array_free(all);
            return NULL;
        }
    }
    return all;
}

void cr_driver_array_free(struct csireg_driver **drivers)
{
    for (size_t i = 0; drivers && drivers[i]; i++) csireg_driver_free(drivers[i]);
    cr_free(drivers);
}
