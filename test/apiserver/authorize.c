// SPDX-License-Identifier: Apache-2.0
#include "apiserver/authorize.h"

#include <stdlib.h>
#include <string.h>

#include "apiserver/auth.h"
#include "apiserver/json.h"
#include "apiserver/selector.h"
#include "common/alloc.h"

/* Gives NULL when the node may, else why not (malloc'ed; "" for no particular reason). */
typedef char *node_rule(const struct as_gates *gates, const struct as_request *r, const char *node);

static char *refuse(const char *why) { return need_strdup(why); }

static bool is_any_of(enum as_verb verb, unsigned set) { return (set >> verb) & 1u; }
#define VERBS_OWN   (1u << AS_GET | 1u << AS_CREATE | 1u << AS_UPDATE | 1u << AS_PATCH | 1u << AS_DELETE)
#define VERBS_READ  (1u << AS_GET | 1u << AS_LIST | 1u << AS_WATCH)
#define VERBS_WRITE (1u << AS_CREATE | 1u << AS_UPDATE | 1u << AS_PATCH)

static const char other_csinode[] = "can only access CSINode with the same name as the requesting node";

static char *csinodes_rule(const struct as_gates *gates, const struct as_request *r, const char *node)
{
    bool status = *r->route.subresource != '\0';
    if (status && gates->volume_health != AS_GATE_ON)
        return refuse("CSINode status access requires CSIVolumeHealth feature");
    if (!is_any_of(r->route.verb, VERBS_OWN)) return refuse("can only get, create, update, patch, or delete a CSINode");
    return r->route.name && strcmp(r->route.name, node) != 0 ? refuse(other_csinode) : NULL;
}

/* The one object that a request is about (malloc'ed): the one in its path, or whose name a list or watch selects. */
static char *object_name(const struct as_request *r)
{
    struct as_selector selector;
    char *error = NULL;
    if (r->route.name || !is_any_of(r->route.verb, VERBS_READ)) return need_strdup(r->route.name);
    bool ok = as_selector_parse(&selector, as_param(&r->params, "fieldSelector"), &error);
    char *name = need_strdup(ok ? as_selector_exact(&selector, "metadata.name") : NULL);
    as_selector_fini(&selector);
    free(error);
    return name;
}

static char *one_node_rule(const char *name, const char *node)
{
    if (!name) return need_printf("node '%s' cannot read all nodes, only its own Node object", node);
    if (!strcmp(name, node)) return NULL;
    return need_printf("node '%s' cannot read '%s', only its own Node object", node, name);
}

static char *nodes_rule(const struct as_gates *gates, const struct as_request *r, const char *node)
{
    (void)gates;
    enum as_verb verb = r->route.verb;
    if (*r->route.subresource) return verb == AS_UPDATE || verb == AS_PATCH ? NULL : refuse("");
    if (is_any_of(verb, VERBS_WRITE)) return NULL; /* node restriction looks at the name */
    if (!is_any_of(verb, VERBS_READ)) return refuse("");
    char *name = object_name(r), *why = one_node_rule(name, node);
    free(name);
    return why;
}

static char *csidrivers_rule(const struct as_gates *gates, const struct as_request *r, const char *node)
{
    (void)gates;
    (void)node;
    return is_any_of(r->route.verb, VERBS_READ) ? NULL : refuse("");
}

static const struct {
    const char *plural;
    node_rule *rule;
} node_rules[] = {{"csinodes", csinodes_rule}, {"nodes", nodes_rule}, {"csidrivers", csidrivers_rule}};

static char *ask_node_rules(const struct as_gates *gates, const struct as_request *r, const char *node)
{
    for (size_t i = 0; i < sizeof node_rules / sizeof *node_rules; i++)
        if (!strcmp(node_rules[i].plural, r->route.type->plural)) return node_rules[i].rule(gates, r, node);
    return refuse("");
}

/* ---- the rule table ---- */

static const char roles_text[] =
    "{\"viewer\":[{\"verbs\":[\"get\",\"list\",\"watch\"]}],"
    "\"csireg-node-info\":["
    "{\"apiGroups\":[\"storage.k8s.io\"],\"resources\":[\"csinodes\"],\"verbs\":[\"get\",\"list\",\"watch\",\"update\"]"
    "},"
    "{\"apiGroups\":[\"\"],\"resources\":[\"nodes\"],\"verbs\":[\"get\",\"patch\"]},"
    "{\"apiGroups\":[\"storage.k8s.io\"],\"resources\":[\"csidrivers\"],\"verbs\":[\"get\",\"list\",\"watch\"]},"
    "{\"apiGroups\":[\"storage.k8s.io\"],\"resources\":[\"volumeattachments\"],"
    "\"verbs\":[\"get\",\"list\",\"watch\",\"patch\"]},"
    "{\"apiGroups\":[\"storage.k8s.io\"],\"resources\":[\"volumeattachments/status\"],\"verbs\":[\"patch\"]},"
    "{\"apiGroups\":[\"\"],\"resources\":[\"persistentvolumes\"],\"verbs\":[\"get\",\"list\",\"watch\",\"patch\"]},"
    "{\"apiGroups\":[\"\"],\"resources\":[\"events\"],\"namespaces\":[\"default\"],\"verbs\":[\"create\",\"patch\"]},"
    "{\"apiGroups\":[\"coordination.k8s.io\"],\"resources\":[\"leases\"],\"verbs\":[\"get\",\"create\",\"update\"]}]}";

static bool lists(const json_t *row, const char *key, const char *value)
{
    size_t i;
    json_t *item, *list = json_object_get(row, key);
    json_array_foreach (list, i, item) {
        const char *s = json_string_value(item);
        if (s && (!strcmp(s, "*") || !strcmp(s, value))) return true;
    }
    return !list;
}

static bool row_is_about(const json_t *row, const struct as_user *u)
{
    size_t i;
    json_t *group;
    if (json_object_get(row, "users") && lists(row, "users", u->name)) return true;
    json_array_foreach (json_object_get(row, "groups"), i, group) {
        if (json_is_string(group) && as_user_in(u, json_string_value(group))) return true;
    }
    return false;
}

static bool row_allows(const json_t *row, const struct as_request *r, const char *resource)
{
    const struct as_route *route = &r->route;
    return lists(row, "verbs", as_verb_name(route->verb)) && lists(row, "apiGroups", route->type->group) &&
           lists(row, "resources", resource) && lists(row, "namespaces", route->namespace_ ? route->namespace_ : "") &&
           lists(row, "resourceNames", route->name ? route->name : "");
}

static bool role_allows(const char *role, const struct as_request *r, const char *resource)
{
    size_t i;
    json_t *row, *roles = as_json_parse(roles_text, sizeof roles_text - 1, NULL);
    bool allowed = false;
    json_array_foreach (json_object_get(roles, role), i, row) allowed = allowed || row_allows(row, r, resource);
    json_decref(roles);
    return allowed;
}

static bool table_allows(const json_t *table, const struct as_request *r, const char *resource)
{
    size_t i;
    json_t *row;
    json_array_foreach (table, i, row) {
        const char *role = as_json_str(row, "role");
        if (!row_is_about(row, &r->user)) continue;
        if (*role ? role_allows(role, r, resource) : row_allows(row, r, resource)) return true;
    }
    return false;
}

/* ---- the decision ---- */

static bool authorize_path(const struct as_request *r, struct as_answer *a)
{
    static const char *const methods[][2] = {
        {"GET", "get"}, {"POST", "post"}, {"PUT", "put"}, {"PATCH", "patch"}, {"DELETE", "delete"}};
    const char *verb = "get";
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(methods[i][0], r->method)) verb = methods[i][1];
    as_status(a, 403, "Forbidden", json_object(), "forbidden: User \"%s\" cannot %s path \"%s\"", r->user.name, verb,
              r->path);
    return false;
}

static void say_forbidden(const struct as_request *r, const char *resource, const char *why, struct as_answer *a)
{
    const struct as_route *route = &r->route;
    const char *scope = route->namespace_ ? "in the namespace \"" : "at the cluster scope";
    char *name = object_name(r);
    as_forbidden(a, route->type, name, "User \"%s\" cannot %s resource \"%s\" in API group \"%s\" %s%s%s%s%s",
                 r->user.name, as_verb_name(route->verb), resource, route->type->group, scope,
                 route->namespace_ ? route->namespace_ : "", route->namespace_ ? "\"" : "", *why ? ": " : "", why);
    free(name);
}

bool as_authorize(const struct as_gates *gates, const json_t *table, const struct as_request *r, struct as_answer *a)
{
    const char *node = as_user_node(&r->user);
    if (as_user_in(&r->user, AS_MASTERS)) return true;
    if (r->route.kind != AS_ROUTE_RESOURCE) return authorize_path(r, a);
    if (r->route.verb == AS_VERB_NONE) return true; /* 405 */
    const struct as_route *route = &r->route;
    char *resource = need_printf("%s%s%s", route->type->plural, *route->subresource ? "/" : "", route->subresource);
    char *why = node ? ask_node_rules(gates, r, node) : NULL;
    bool allowed = (node && !why) || table_allows(table, r, resource);
    char *reason = need_printf("%s%s", why && *why ? "node: " : "", why ? why : "");
    if (!allowed) say_forbidden(r, resource, reason, a);
    free(reason);
    free(resource);
    free(why);
    return allowed;
}
