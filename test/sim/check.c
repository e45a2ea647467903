/* SPDX-License-Identifier: Apache-2.0 */
/* The promises. */
#include <string.h>

#include "core/backoff.h"
#include "core/node.h"
#include "sim/sim.h"

static bool ours(const struct sim *s, const char *name)
{
    for (int i = 0; i < 2 * s->n_plugins; i++)
        if (strcmp(s->plugins[i / 2].names[i % 2], name) == 0) return true;
    return false;
}

static const char *text(const json_t *o, const char *key)
{
    const char *t = json_string_value(json_object_get(o, key));
    return t ? t : "";
}

/* ---- what is not ours stays as it is ---- */

static json_t *without_ours(const struct sim *s, const json_t *csinode)
{
    json_t *copy = json_deep_copy(csinode), *spec = json_object_get(copy, "spec");
    const char *const lists[] = {"drivers", "driverRegistrations"};
    for (int k = 0; k < 2; k++) {
        json_t *list = json_object_get(spec, lists[k]);
        for (size_t i = json_array_size(list); i-- > 0;)
            if (ours(s, text(json_array_get(list, i), "name")) || s->config.prune_unclaimed_after_ms)
                json_array_remove(list, i); /* pruning is opted into */
        if (json_array_size(list) == 0) json_object_del(spec, lists[k]);
    }
    json_t *meta = json_object_get(copy, "metadata");
    json_object_del(meta, "resourceVersion");
    json_object_del(meta, "ownerReferences"); /* the right owner may be added */
    return copy;
}

static void check_foreign(struct sim *s, const json_t *before, const json_t *after)
{
    json_t *a = without_ours(s, before), *b = without_ours(s, after);
    if (!json_equal(a, b)) sim_fail(s, "foreign entries stay", "a write changed what is not ours");
    json_decref(a);
    json_decref(b);
}

/* ---- labels and annotation are on the Node before the entry is visible; flagged values never come from here ---- */

static void check_new_entry(struct sim *s, const json_t *entry)
{
    const json_t *labels = json_object_get(json_object_get(s->server.node, "metadata"), "labels");
    size_t k;
    const json_t *key;
    json_array_foreach (json_object_get(entry, "topologyKeys"), k, key) {
        if (!json_object_get(labels, json_string_value(key)))
            sim_fail(s, "labels first", "%s is visible before label %s", text(entry, "name"), json_string_value(key));
    }
}

static void check_new_entries(struct sim *s, const json_t *before, const json_t *after)
{
    size_t k;
    const json_t *entry;
    json_array_foreach (json_object_get(json_object_get(after, "spec"), "drivers"), k, entry) {
        const char *name = text(entry, "name");
        if (!ours(s, name) || (before && server_find(before, "drivers", name))) continue;
        if (server_find(after, "driverRegistrations", name))
            sim_fail(s, "completed by the controller", "%s: an entry in drivers was made beside a registration", name);
        const char *uid = s->server.node ? text(json_object_get(s->server.node, "metadata"), "uid") : "";
        if (s->orphan || strcmp(uid, s->planned_uid) != 0)
            continue; /* made anew since the core read it: only verification can tell */
        check_new_entry(s, entry);
    }
}

static void check_names(struct sim *s, const json_t *after)
{
    size_t k;
    const json_t *entry;
    json_array_foreach (json_object_get(json_object_get(after, "spec"), "drivers"), k, entry)
        if (strcmp(text(entry, "name"), "") == 0 || strchr(text(entry, "name"), '_'))
            sim_fail(s, "names", "a bad name was written: %s", text(entry, "name"));
}

/* The controller side's entry stays as long as its registration does. */
static void check_completed(struct sim *s, const json_t *before, const json_t *after)
{
    size_t k;
    const json_t *d;
    json_array_foreach (json_object_get(json_object_get(before, "spec"), "drivers"), k, d) {
        const json_t *r = server_find(after, "driverRegistrations", text(d, "name"));
        if (!r || server_find(after, "drivers", text(d, "name"))) continue;
        if (!s->seen || !server_find(s->seen, "drivers", text(d, "name"))) continue; /* it was never shown */
        if (strcmp(text(r, "nodeID"), text(d, "nodeID")) == 0)
            sim_fail(s, "completed entries stay", "%s lost its entry, its registration says the same id",
                     text(d, "name"));
    }
}

static bool has_entry(const json_t *csinode, const char *name)
{
    return server_find(csinode, "drivers", name) || server_find(csinode, "driverRegistrations", name);
}

/* Who had the name went with it, not to another one. */
static bool is_left(const struct sim *s, const char *name)
{
    bool left = true;
    for (int i = 0; i < 2 * s->n_plugins; i++) {
        const struct plugin *p = &s->plugins[i / 2];
        bool renamed = strcmp(p->name, name) != 0;
        if (strcmp(p->names[i % 2], name) == 0) left &= !p->exists && !renamed;
    }
    return left;
}

/* With unregister-grace what is not registered any more keeps its entries that long. */
static void check_grace(struct sim *s, const json_t *before, const json_t *after)
{
    const char *name;
    json_t *at;
    json_object_foreach (s->ended, name, at) {
        int64_t ended = json_integer_value(at);
        bool early = s->sent_ms >= ended && s->sent_ms < ended + s->config.unregister_grace_ms;
        if (early && !s->orphan && is_left(s, name) && has_entry(before, name) && !has_entry(after, name))
            sim_fail(s, "grace", "%s lost its entries within the grace", name);
    }
}

void check_write(struct sim *s, const json_t *before, const json_t *after)
{
    if (before) check_foreign(s, before, after);
    if (before) check_completed(s, before, after);
    if (before) check_grace(s, before, after);
    check_new_entries(s, before, after);
    check_names(s, after);
}

/* ---- success only after the API server showed the entry ---- */

static const json_t *shown(const struct sim *s, const struct plugin *p, const char *list)
{
    return s->seen ? server_find(s->seen, list, p->name) : NULL;
}

const char *check_list_of(const struct sim *s, const char *name)
{
    const char *list = NULL;
    struct csireg_driver **all = cr_core_drivers(s->core);
    for (size_t i = 0; all && all[i]; i++)
        if (strcmp(all[i]->name, name) == 0)
            list = all[i]->flow == CSIREG_FLOW_NODE ? "drivers" : "driverRegistrations";
    cr_driver_array_free(all);
    return list;
}

void check_registered(struct sim *s, const struct plugin *p)
{
    const char *list = check_list_of(s, p->name);
    if (!list) sim_fail(s, "lookups agree", "%s is reported as registered, but not found", p->name);
    if (list && !shown(s, p, list))
        sim_fail(s, "confirmed first", "%s is reported as registered, but no answer showed its entry", p->name);
}

/* ---- in the end ---- */

static bool twin_exists(const struct sim *s, int k)
{
    for (int i = 0; i < s->n_plugins; i++)
        if (i != k && s->plugins[i].exists && strcmp(s->plugins[i].name, s->plugins[k].name) == 0) return true;
    return false;
}

/* Which instance status shows as the active one of the plugin's name. */
static bool is_active(struct sim *s, const struct plugin *p)
{
    json_t *status = cr_core_status(s->core);
    size_t k;
    const json_t *i;
    bool active = false;
    json_array_foreach (json_object_get(status, "sockets"), k, i)
        active |= strcmp(text(i, "path"), p->third_door ? "" : p->path) == 0 &&
                  strcmp(text(i, "driver"), p->name) == 0 && json_is_true(json_object_get(i, "active"));
    json_decref(status);
    return active;
}

/* Of several instances of one name the one with the highest version is active, of equal ones the newest socket. */
static void check_twins(struct sim *s, int k)
{
    const struct plugin *p = &s->plugins[k];
    bool newest = true;
    for (int i = 0; i < s->n_plugins; i++) {
        const struct plugin *q = &s->plugins[i];
        if (i == k || !q->exists || strcmp(q->name, p->name) != 0) continue;
        if (q->third_door || p->third_door) return;
        int order = strcmp(p->version, q->version);
        newest &= order ? order > 0 : p->identity.birth_ns > q->identity.birth_ns;
    }
    if (is_active(s, p) != newest) sim_fail(s, "newest wins", "%s is %sactive", p->path, newest ? "not " : "");
}

static void check_foreign_plugin(struct sim *s, const struct plugin *p)
{
    json_t *status = cr_core_status(s->core);
    size_t k;
    const json_t *i;
    bool registered = false;
    json_array_foreach (json_object_get(status, "sockets"), k, i)
        registered |= strcmp(text(i, "path"), p->path) == 0 && strcmp(text(i, "state"), "registered") == 0;
    json_decref(status);
    if (!registered || !p->notified || !p->token) sim_fail(s, "handlers", "%s is not registered in the end", p->path);
}

static bool in_status(struct sim *s, const struct plugin *p, const char *state)
{
    json_t *status = cr_core_status(s->core);
    size_t k;
    const json_t *d;
    bool found = false;
    json_array_foreach (json_object_get(status, "drivers"), k, d)
        found |= strcmp(text(d, "name"), p->name) == 0 && strcmp(text(d, "state"), state) == 0;
    json_decref(status);
    return found;
}

static void check_controller_entry(struct sim *s, const struct plugin *p)
{
    const json_t *r = server_find(s->server.csinode, "driverRegistrations", p->name);
    if (!r) return;
    if (!s->config.gate) sim_fail(s, "gate off", "%s is in driverRegistrations", p->name);
    const json_t *d = server_find(s->server.csinode, "drivers", p->name);
    if (d && strcmp(text(d, "nodeID"), text(r, "nodeID")) != 0)
        sim_fail(s, "equal ids", "%s has two node ids", p->name);
}

/* The flow in the end is the one that gate, capability and attachRequired ask for. */
static void check_flow(struct sim *s, int k)
{
    const struct plugin *p = &s->plugins[k];
    const json_t *spec = json_object_get(s->server.attach, p->name);
    bool required = !json_is_false(json_object_get(spec, "attachRequired"));
    bool controller = s->config.gate && p->answered_capable && required;
    bool r = server_find(s->server.csinode, "driverRegistrations", p->name);
    if (s->config.fallback_to_node_flow || twin_exists(s, k)) return;
    if (r != controller) sim_fail(s, "the right flow", "%s is in the %s flow", p->name, r ? "controller" : "node");
    if (!r && !server_find(s->server.csinode, "drivers", p->name))
        sim_fail(s, "the right flow", "%s has no entry", p->name);
}

/* The node id that the Node's annotation gives for a name; NULL when there is none. A new reference in *map. */
static const char *annotated_id(const struct sim *s, const char *name, json_t **map)
{
    const json_t *annotations = json_object_get(json_object_get(s->server.node, "metadata"), "annotations");
    const char *ids = json_string_value(json_object_get(annotations, CR_NODE_ID_ANNOTATION));
    *map = ids ? json_loads(ids, 0, NULL) : NULL;
    return json_string_value(json_object_get(*map, name));
}

/* In the node flow the Node says what the entry says. */
static void check_node(struct sim *s, const struct plugin *p)
{
    const json_t *d = server_find(s->server.csinode, "drivers", p->name);
    json_t *map;
    if (!d || server_find(s->server.csinode, "driverRegistrations", p->name)) return;
    const char *id = annotated_id(s, p->name, &map);
    if (!id || strcmp(id, text(d, "nodeID")) != 0)
        sim_fail(s, "annotation", "%s has the node id %s there, %s in its entry", p->name, id ? id : "(none)",
                 text(d, "nodeID"));
    json_decref(map);
    check_new_entry(s, d);
}

/* The CSINode belongs to the Node as it is now. */
static void check_owner(struct sim *s)
{
    const json_t *uid = json_object_get(json_object_get(s->server.node, "metadata"), "uid"), *ref;
    const json_t *owners = json_object_get(json_object_get(s->server.csinode, "metadata"), "ownerReferences");
    size_t k;
    bool found = false;
    json_array_foreach (owners, k, ref) found |= json_equal(json_object_get(ref, "uid"), uid);
    if (!found) sim_fail(s, "owner", "the CSINode is not owned by the Node as it is now");
}

static void check_good(struct sim *s, int k)
{
    const struct plugin *p = &s->plugins[k];
    bool entry = server_find(s->server.csinode, "drivers", p->name) ||
                 server_find(s->server.csinode, "driverRegistrations", p->name);
    if (!in_status(s, p, "registered")) sim_fail(s, "converges", "%s is not registered in the end", p->name);
    if (!entry) sim_fail(s, "converges", "%s has no entry in the end", p->name);
    if (!p->third_door && !p->notified && !twin_exists(s, k))
        sim_fail(s, "converges", "%s was never told that it is registered", p->path);
    check_controller_entry(s, p);
    check_flow(s, k);
    check_owner(s);
    check_node(s, p);
    if (!s->config.first_instance_wins) check_twins(s, k);
}

static void check_absent(struct sim *s, const char *name)
{
    json_t *map;
    if (json_object_get(s->lost, name)) return;
    if (server_find(s->server.csinode, "drivers", name) || server_find(s->server.csinode, "driverRegistrations", name))
        sim_fail(s, "vanished entries go", "%s is gone, its entry is not", name);
    if (annotated_id(s, name, &map)) sim_fail(s, "vanished entries go", "%s is gone, its annotation key is not", name);
    json_decref(map);
}

/* A name under which nothing may be published: no plugin that works has it. */
static bool is_free(const struct sim *s, const char *name)
{
    for (int i = 0; i < s->n_plugins; i++) {
        const struct plugin *p = &s->plugins[i];
        if (p->exists && strcmp(p->name, name) == 0 && (p->kind == GOOD || p->kind == COLLIDES)) return false;
    }
    return true;
}

static bool call_running(const struct sim *s, uint64_t conn)
{
    for (size_t i = 0; i < s->n_events; i++)
        if (s->events[i].conn == conn) return true;
    return false;
}

bool check_is_shared(const struct sim *s, const struct plugin *p)
{
    bool shared = p->shares >= 0;
    for (int i = 0; i < s->n_plugins; i++)
        shared |= s->plugins[i].shares >= 0 && &s->plugins[s->plugins[i].shares] == p;
    return shared;
}

/* What fails for good is tried again at the longest pause; each attempt connects once or twice. */
static void check_patience(struct sim *s, const struct plugin *p)
{
    bool for_good = p->kind == ALWAYS_UNIMPLEMENTED || p->kind == BAD_NAME || p->kind == REFUSED;
    if (for_good && !check_is_shared(s, p) && p->connects > 2 * (SETTLE_MS / 2 / CR_BACKOFF_CAP_MS + 2))
        sim_fail(s, "patience", "%s was connected to %u times", p->path, p->connects);
}

static void check_silence(struct sim *s)
{
    for (int i = 0; i < MAX_CONNS; i++)
        if (s->conns[i].open && !call_running(s, s->conns[i].id) && s->plugins[s->conns[i].plugin].kind == GOOD &&
            !twin_exists(s, s->conns[i].plugin))
            sim_fail(s, "connections closed", "one to %s is still open", s->plugins[s->conns[i].plugin].name);
}

void check_converged(struct sim *s)
{
    for (int k = 0; k < s->n_plugins; k++) {
        const struct plugin *p = &s->plugins[k];
        for (int n = 0; n < 2; n++)
            if (is_free(s, p->names[n])) check_absent(s, p->names[n]);
        if (p->exists && p->kind == GOOD) check_good(s, k);
        if (p->exists && p->kind == FOREIGN) check_foreign_plugin(s, p);
        check_patience(s, p);
    }
    check_silence(s);
}
