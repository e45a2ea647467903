/* SPDX-License-Identifier: Apache-2.0 */
/* The core's part of the status document. Parts are cached per object and shared between documents, never changed. */
#include <string.h>

#include "core/csinode.h"
#include "core/internal.h"

static void set_text(json_t *o, const char *key, const char *text)
{
    if (text && *text) json_object_set_new(o, key, json_string(text));
}

static void set_time(json_t *o, const char *key, int64_t wall_ms)
{
    char text[CR_RFC3339_SIZE];
    if (wall_ms == 0) return;
    cr_clock_rfc3339(wall_ms, text);
    json_object_set_new(o, key, json_string(text));
}

static const char *origin_name(enum csireg_origin origin)
{
    static const char *const names[] = {"none", "os", "grpc", "http", "json", "config"};
    return names[origin];
}

static json_t *error_json(const struct csireg_error *e, int64_t wall_ms)
{
    json_t *o = json_object();
    set_text(o, "code", csireg_code_name(e->code));
    set_text(o, "origin", origin_name(e->origin));
    if (e->origin != CSIREG_ORIGIN_NONE) json_object_set_new(o, "number", json_integer(e->number));
    set_text(o, "step", e->step);
    set_text(o, "message", csireg_error_message(e));
    set_time(o, "time", wall_ms);
    set_text(o, "class", e->retryable ? "transient" : "persistent");
    return o;
}

static void set_error(json_t *o, const struct csireg_error *e, int64_t wall_ms)
{
    if (e) json_object_set_new(o, "lastError", error_json(e, wall_ms));
}

static bool active(const struct cr_instance *i) { return i->driver && i->driver->registered && i->driver->owner == i; }

static json_t *socket_json(const struct cr_instance *i)
{
    json_t *o = json_object();
    set_text(o, "path", i->path);
    set_text(o, "driver", cr_instance_name(i));
    set_text(o, "type", i->plugin.type);
    set_text(o, "state", cr_state_name(i->state));
    json_object_set_new(o, "active", json_boolean(active(i)));
    json_object_set_new(o, "attempts", json_integer(i->attempts));
    set_time(o, "since", i->since_wall_ms);
    set_time(o, "nextTry", i->next_try_wall_ms);
    set_error(o, i->error, i->error_wall_ms);
    return o;
}

static json_t *pending_json(const struct cr_driver *d)
{
    static const char *const what[] = {"", "removal from Node and CSINode", "entry in spec.drivers, labels, annotation",
                                       "entry in spec.driverRegistrations"};
    json_t *list = json_array();
    if (d->pending) json_array_append_new(list, json_string(what[d->desired.want]));
    return list;
}

static void set_registration(json_t *o, const struct cr_driver *d)
{
    const struct cr_instance *i = d->owner;
    set_text(o, "endpoint", d->registered ? d->view.endpoint : i ? i->endpoint : NULL);
    set_text(o, "version", d->registered ? d->view.version : i ? i->version : NULL);
    set_text(o, "nodeID", d->registered ? d->view.node_id : d->desired.node_id);
    if (!d->registered) return;
    set_text(o, "flow", d->view.flow == CSIREG_FLOW_NODE ? "node" : "controller");
    set_time(o, "publishedSince", d->published_wall_ms);
    bool complete = d->view.flow == CSIREG_FLOW_NODE || d->completed;
    json_object_set_new(o, "completed", json_boolean(complete));
    if (!complete) set_time(o, "waitingForControllerSince", d->published_wall_ms);
}

static json_t *driver_json(const struct cr_driver *d)
{
    json_t *o = json_object(), *warnings = json_array();
    set_text(o, "name", d->name);
    set_text(o, "state", cr_driver_state_name(cr_driver_state(d)));
    set_time(o, "since", d->since_wall_ms);
    set_registration(o, d);
    if (d->owner) set_time(o, "unreachableSince", d->owner->unreachable_wall_ms);
    json_object_set_new(o, "pending", pending_json(d));
    if (d->warning) json_array_append_new(warnings, json_string(d->warning));
    if (d->error) json_array_append_new(warnings, json_string(csireg_error_message(d->error)));
    if (d->owner && d->owner->refresh.error) json_array_append_new(warnings, json_string(d->owner->refresh.error));
    json_object_set_new(o, "warnings", warnings);
    return o;
}

static json_t *sockets_json(struct cr_core *core)
{
    json_t *list = json_array();
    CR_LIST_FOREACH (l, &core->instances) {
        struct cr_instance *i = cr_instance_of(l);
        if (!i->status) i->status = socket_json(i);
        json_array_append(list, i->status);
    }
    return list;
}

static json_t *drivers_json(struct cr_core *core)
{
    json_t *list = json_array();
    CR_LIST_FOREACH (l, &core->drivers) {
        struct cr_driver *d = cr_driver_of(l);
        if (!d->status) d->status = driver_json(d);
        json_array_append(list, d->status);
    }
    return list;
}

/* Names in CSINode that no driver of this node has. */
static json_t *unclaimed_json(struct cr_core *core)
{
    json_t *list = json_array(), *names = core->publisher.csinode ? cr_csinode_names(core->publisher.csinode) : NULL;
    size_t k;
    json_t *name;
    json_array_foreach (names, k, name) {
        const struct cr_driver *d = cr_driver_find(core, json_string_value(name));
        if (!d || !d->owner) json_array_append(list, name);
    }
    json_decref(names);
    return list;
}

static json_t *api_json(const struct cr_core *core)
{
    json_t *o = json_object();
    set_text(o, "state", core->publisher.state);
    set_time(o, "since", core->publisher.state_wall_ms);
    set_error(o, core->publisher.error, core->publisher.error_wall_ms);
    return o;
}

json_t *cr_core_status(struct cr_core *core)
{
    json_t *o = json_object();
    if (!o) return NULL;
    json_object_set_new(o, "gates", json_pack("{s:b}", "CSIControllerGetNodeInfo", core->config.gate));
    json_object_set_new(o, "capabilities",
                        json_pack("{s:i}", "NODE_INFO_FROM_CONTROLLER", core->config.node_info_from_controller));
    json_object_set_new(o, "api", api_json(core));
    json_object_set_new(o, "sockets", sockets_json(core));
    json_object_set_new(o, "drivers", drivers_json(core));
    json_object_set_new(o, "unclaimed", unclaimed_json(core));
    json_object_set(o, "labelsAdded", core->publisher.labels_added);
    return o;
}
