// SPDX-License-Identifier: Apache-2.0
#include "apiserver/request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "common/alloc.h"

static void add_param(struct as_params *p, const char *s, size_t len)
{
    const char *equals = memchr(s, '=', len);
    size_t key_len = equals ? (size_t)(equals - s) : len;
    char *key = as_url_decode(s, key_len, true);
    char *value = equals ? as_url_decode(equals + 1, len - key_len - 1, true) : need_strdup("");
    if (!key || !value || p->n == AS_MAX_PARAMS) {
        free(key);
        free(value);
        return;
    }
    p->key[p->n] = key;
    p->value[p->n++] = value;
}

void as_params_parse(struct as_params *p, const char *query)
{
    *p = (struct as_params){0};
    while (query && *query) {
        size_t len = strcspn(query, "&");
        if (len) add_param(p, query, len);
        query += len + (query[len] == '&');
    }
}

void as_params_fini(struct as_params *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->key[i]);
        free(p->value[i]);
    }
    p->n = 0;
}

const char *as_param(const struct as_params *p, const char *key)
{
    for (size_t i = 0; i < p->n; i++)
        if (!strcmp(p->key[i], key)) return p->value[i];
    return NULL;
}

int64_t as_param_int(const struct as_params *p, const char *key, int64_t otherwise)
{
    char *end;
    const char *text = as_param(p, key);
    if (!text || !*text) return otherwise;
    long long n = strtoll(text, &end, 10);
    return *end ? otherwise : n;
}

void as_user_fini(struct as_user *u)
{
    free(u->name);
    json_decref(u->groups);
    *u = (struct as_user){0};
}

bool as_user_in(const struct as_user *u, const char *group)
{
    size_t i;
    json_t *g;
    json_array_foreach (u->groups, i, g) {
        if (!strcmp(json_string_value(g), group)) return true;
    }
    return false;
}

const char *as_user_node(const struct as_user *u)
{
    static const char prefix[] = "system:node:";
    bool is = u->name && !strncmp(u->name, prefix, sizeof prefix - 1) && as_user_in(u, "system:nodes");
    return is ? u->name + sizeof prefix - 1 : NULL;
}

struct as_request *as_request_new(const char *method, const char *target)
{
    struct as_request *r = NEED_NEW(struct as_request);
    r->method = need_strdup(method);
    r->start_ns = as_now_ns();
    size_t path_len = strcspn(target, "?");
    r->path = need_strndup(target, path_len);
    if (target[path_len]) r->query = need_strdup(target + path_len + 1);
    as_params_parse(&r->params, r->query);
    return r;
}

void as_request_route(struct as_request *r)
{
    const char *watch = as_param(&r->params, "watch");
    as_route_fini(&r->route);
    as_route_parse(&r->route, r->method, r->path, watch && (!strcmp(watch, "true") || !strcmp(watch, "1")));
}

void as_request_free(struct as_request *r)
{
    if (!r) return;
    free(r->method);
    free(r->path);
    free(r->query);
    as_params_fini(&r->params);
    as_route_fini(&r->route);
    free(r->content_type);
    free(r->accept);
    free(r->authorization);
    free(r->user_agent);
    free(r->body);
    as_user_fini(&r->user);
    json_decref(r->action);
    free(r);
}

bool as_request_append(struct as_request *r, const char *data, size_t len)
{
    if (r->body_len + len > AS_MAX_BODY) r->too_large = true;
    if (r->too_large) return false;
    r->body = need_array(r->body, r->body_len + len + 1, 1);
    memcpy(r->body + r->body_len, data, len);
    r->body_len += len;
    r->body[r->body_len] = '\0';
    return true;
}

const char *as_request_name(const struct as_request *r, json_t **keep)
{
    if (r->route.name || r->route.verb != AS_CREATE || !r->body) return r->route.name ? r->route.name : "";
    *keep = as_json_parse(r->body, r->body_len, NULL);
    return as_json_str(json_object_get(*keep, "metadata"), "name");
}

bool as_media_type_is(const char *content_type, const char *media)
{
    size_t len = strcspn(content_type, ";");
    while (len && content_type[len - 1] == ' ') len--;
    return len == strlen(media) && !strncasecmp(content_type, media, len);
}
