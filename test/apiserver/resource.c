// SPDX-License-Identifier: Apache-2.0
#include "apiserver/resource.h"

#include <stdlib.h>
#include <string.h>

#include "apiserver/json.h"
#include "common/alloc.h"

const struct as_resource as_resources[AS_RESOURCES] = {
    {.plural = "nodes",
     .kind = "Node",
     .group = "",
     .version = "v1",
     .api_version = "v1",
     .qualified = "nodes",
     .has_status = true,
     .status_takes_labels = true,
     .schema = &as_node_schema,
     .prepare = as_node_prepare,
     .validate = as_node_validate},
    {.plural = "csinodes",
     .kind = "CSINode",
     .group = "storage.k8s.io",
     .version = "v1",
     .api_version = "storage.k8s.io/v1",
     .qualified = "csinodes.storage.k8s.io",
     .has_status = true,
     .deleted_object = true,
     .needs_version = true,
     .schema = &as_csinode_schema,
     .prepare = as_csinode_prepare,
     .validate = as_csinode_validate},
    {.plural = "csidrivers",
     .kind = "CSIDriver",
     .group = "storage.k8s.io",
     .version = "v1",
     .api_version = "storage.k8s.io/v1",
     .qualified = "csidrivers.storage.k8s.io",
     .deleted_object = true,
     .needs_version = true,
     .schema = &as_csidriver_schema,
     .prepare = as_csidriver_prepare,
     .validate = as_csidriver_validate},
};

size_t as_resource_index(const struct as_resource *type) { return (size_t)(type - as_resources); }

const struct as_resource *as_resource_find(const char *plural)
{
    for (size_t i = 0; i < AS_RESOURCES; i++)
        if (!strcmp(as_resources[i].plural, plural)) return &as_resources[i];
    return NULL;
}

const char *as_verb_name(enum as_verb verb)
{
    static const char *const names[] = {"",       "get",   "list",   "watch",           "create",
                                        "update", "patch", "delete", "deletecollection"};
    return names[verb];
}

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

char *as_url_decode(const char *s, size_t len, bool plus)
{
    char *out = need_calloc(len + 1, 1), *w = out;
    for (size_t i = 0; i < len; i++, w++) {
        *w = plus && s[i] == '+' ? ' ' : s[i];
        if (s[i] != '%') continue;
        int high = i + 2 < len ? hex(s[i + 1]) : -1, low = high >= 0 ? hex(s[i + 2]) : -1;
        if (low < 0 || (high == 0 && low == 0)) {
            free(out);
            return NULL;
        }
        *w = (char)(high * 16 + low);
        i += 2;
    }
    return out;
}

#define MAX_SEGMENTS 10

struct segments {
    char *at[MAX_SEGMENTS];
    size_t n;
    bool bad; /* too many, empty or undecodable ones */
};

static void split(struct segments *s, const char *path)
{
    *s = (struct segments){.bad = *path != '/'};
    while (*path == '/') {
        const char *end = strchr(path + 1, '/');
        size_t len = end ? (size_t)(end - path - 1) : strlen(path + 1);
        char *segment = as_url_decode(path + 1, len, false);
        if (!segment || !*segment || s->n == MAX_SEGMENTS) {
            free(segment);
            s->bad = true;
            return;
        }
        s->at[s->n++] = segment;
        path += len + 1;
    }
}

static bool served(const char *group)
{
    for (size_t i = 0; i < AS_RESOURCES; i++)
        if (!strcmp(as_resources[i].group, group)) return true;
    return false;
}

static enum as_verb verb_of(const char *method, bool item, bool watch)
{
    if (!strcmp(method, "GET")) return item ? AS_GET : watch ? AS_WATCH : AS_LIST;
    if (!strcmp(method, "POST")) return item ? AS_VERB_NONE : AS_CREATE;
    if (!strcmp(method, "PUT")) return item ? AS_UPDATE : AS_VERB_NONE;
    if (!strcmp(method, "PATCH")) return item ? AS_PATCH : AS_VERB_NONE;
    if (!strcmp(method, "DELETE")) return item ? AS_DELETE : AS_DELETE_COLLECTION;
    return AS_VERB_NONE;
}

/* rest: VERSION [namespaces NS] PLURAL [NAME [SUBRESOURCE]] */
static void resource_route(struct as_route *r, const char *group, char *const *rest, size_t n, const char *method,
                           bool watch)
{
    const char *ns = NULL, *version = *rest++;
    n--;
    if (n >= 3 && !strcmp(rest[0], "namespaces")) {
        ns = rest[1];
        rest += 2;
        n -= 2;
    }
    const struct as_resource *type = n ? as_resource_find(rest[0]) : NULL;
    bool status = n == 3 && type && type->has_status && !strcmp(rest[2], "status");
    r->kind = AS_ROUTE_UNKNOWN;
    if (!type || strcmp(type->group, group) != 0 || strcmp(type->version, version) != 0 || n > 3 || (n == 3 && !status))
        return;
    if (type->namespaced ? !ns && n > 1 : ns != NULL) return;
    *r = (struct as_route){.kind = AS_ROUTE_RESOURCE,
                           .type = type,
                           .verb = verb_of(method, n > 1, watch),
                           .namespace_ = need_strdup(ns),
                           .name = need_strdup(n > 1 ? rest[1] : NULL),
                           .subresource = status ? "status" : ""};
    if (status && r->verb == AS_DELETE) r->verb = AS_VERB_NONE;
}

static bool is_health(const struct segments *s)
{
    return s->n == 1 && (!strcmp(s->at[0], "healthz") || !strcmp(s->at[0], "livez") || !strcmp(s->at[0], "readyz"));
}

void as_route_parse(struct as_route *r, const char *method, const char *path, bool watch)
{
    struct segments s;
    *r = (struct as_route){.kind = AS_ROUTE_NOT_FOUND, .subresource = ""};
    split(&s, path);
    if (s.bad)
        r->kind = AS_ROUTE_NOT_FOUND;
    else if (is_health(&s))
        r->kind = AS_ROUTE_HEALTH;
    else if (s.n == 1 && !strcmp(s.at[0], "version"))
        r->kind = AS_ROUTE_VERSION;
    else if (s.n > 2 && !strcmp(s.at[0], "api"))
        resource_route(r, "", s.at + 1, s.n - 1, method, watch);
    else if (s.n > 3 && !strcmp(s.at[0], "apis") && served(s.at[1]))
        resource_route(r, s.at[1], s.at + 2, s.n - 2, method, watch);
    for (size_t i = 0; i < s.n; i++) free(s.at[i]);
}

void as_route_fini(struct as_route *r)
{
    free(r->namespace_);
    free(r->name);
}
