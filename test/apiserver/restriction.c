// SPDX-License-Identifier: Apache-2.0
/* Kubernetes' NodeRestriction admission. */
#include <stdlib.h>
#include <string.h>

#include "apiserver/authorize.h"
#include "apiserver/json.h"
#include "base/buf.h"

#define MAX_LABEL_LIST (1024 * 1024) /* bytes of the refused labels' names in a message */

static bool ends_with_domain(const char *prefix, size_t len, const char *domain)
{
    size_t n = strlen(domain);
    if (len == n) return !strncmp(prefix, domain, n);
    return len > n && prefix[len - n - 1] == '.' && !strncmp(prefix + len - n, domain, n);
}

static bool is_listed(const char *key)
{
    static const char *const allowed[] = {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    };
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (!strcmp(key, allowed[i])) return true;
    return false;
}

static bool may_change(const char *key)
{
    const char *slash = strchr(key, '/');
    size_t len = slash ? (size_t)(slash - key) : 0;
    if (!slash || is_listed(key)) return true;
    if (ends_with_domain(key, len, "node-restriction.kubernetes.io")) return false;
    if (!ends_with_domain(key, len, "kubernetes.io") && !ends_with_domain(key, len, "k8s.io")) return true;
    return ends_with_domain(key, len, "kubelet.kubernetes.io") || ends_with_domain(key, len, "node.kubernetes.io");
}

static void collect(json_t *refused, json_t *labels, json_t *others)
{
    const char *key;
    json_t *value;
    json_object_foreach (labels, key, value) {
        if (!json_equal(value, json_object_get(others, key)) && !may_change(key))
            json_object_set_new(refused, key, json_true());
    }
}

static int compare(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void say_labels(const struct as_request *r, json_t *refused, bool create, struct as_answer *a)
{
    size_t n = 0;
    const char *key, **keys = calloc(json_object_size(refused), sizeof *keys);
    json_t *value;
    struct cr_buf text;
    if (!keys) return;
    json_object_foreach (refused, key, value) keys[n++] = key;
    qsort(keys, n, sizeof *keys, compare);
    cr_buf_init(&text, MAX_LABEL_LIST);
    for (size_t i = 0; i < n; i++) cr_buf_printf(&text, "%s%s", i ? ", " : "", keys[i]);
    const char *node = as_user_node(&r->user);
    if (create)
        as_forbidden(a, r->route.type, node, "node \"%s\" is not allowed to set the following labels: %s", node,
                     cr_buf_str(&text));
    else
        as_forbidden(a, r->route.type, node, "is not allowed to modify labels: %s", cr_buf_str(&text));
    cr_buf_free(&text);
    free(keys);
}

static bool check_labels(const struct as_request *r, const struct as_change *c, struct as_answer *a)
{
    json_t *now = as_json_at(c->object, "metadata", "labels"), *old = as_json_at(c->old, "metadata", "labels");
    json_t *refused = json_object();
    collect(refused, now, old);
    collect(refused, old, now);
    bool ok = json_object_size(refused) == 0;
    if (!ok) say_labels(r, refused, !c->old, a);
    json_decref(refused);
    return ok;
}

static bool check_node(const struct as_request *r, const struct as_change *c, const char *node, const char *name,
                       struct as_answer *a)
{
    const struct as_resource *type = r->route.type;
    if (strcmp(node, name) != 0) {
        as_forbidden(a, type, name, "node \"%s\" is not allowed to modify node \"%s\"", node, name);
        return false;
    }
    if (c->old && !as_json_same(as_json_at(c->old, "spec", "taints"), as_json_at(c->object, "spec", "taints"))) {
        as_forbidden(a, type, name, "node \"%s\" is not allowed to modify taints", node);
        return false;
    }
    if (!as_json_same(as_json_at(c->old, "metadata", "ownerReferences"),
                      as_json_at(c->object, "metadata", "ownerReferences"))) {
        as_forbidden(a, type, name, "node \"%s\" is not allowed to modify ownerReferences", node);
        return false;
    }
    return check_labels(r, c, a);
}

bool as_node_restriction(const struct as_request *r, const struct as_change *c, struct as_answer *a)
{
    const char *node = as_user_node(&r->user);
    const char *name = as_json_str(json_object_get(c->object, "metadata"), "name");
    if (!node || as_user_in(&r->user, "system:masters")) return true;
    if (!strcmp(r->route.type->plural, "nodes")) return check_node(r, c, node, name, a);
    if (strcmp(r->route.type->plural, "csinodes") != 0 || c->old || !strcmp(name, node)) return true;
    as_forbidden(a, r->route.type, *name ? name : "Unknown",
                 "can only access CSINode with the same name as the requesting node");
    return false;
}
