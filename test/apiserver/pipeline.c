// SPDX-License-Identifier: Apache-2.0
/* The order of checks that every request goes through. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "apiserver/authorize.h"
#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "apiserver/server.h"
#include "apiserver/watch.h"
#include "common/alloc.h"

/* A step either lets the request pass or answers it. */
typedef bool step(struct apiserver *s, struct as_request *r, struct as_answer *a);

static bool public_paths(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    (void)s;
    if (r->route.kind != AS_ROUTE_HEALTH) return true;
    as_answer_text(a, 200, "text/plain; charset=utf-8", need_strdup("ok"));
    return false;
}

static bool authenticate(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    if (r->user.name || as_authenticate(s, r)) return true;
    as_unauthorized(a);
    return false;
}

static bool authorize(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    if (r->route.kind == AS_ROUTE_VERSION) return true;
    pthread_mutex_lock(&s->mu);
    bool may = as_authorize(&s->gates, s->rbac, r, a);
    pthread_mutex_unlock(&s->mu);
    return may;
}

static bool path_and_method(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    (void)s;
    if (r->route.kind == AS_ROUTE_VERSION)
        as_answer_json(a, 200, json_pack("{s:s, s:s, s:s}", "major", "1", "minor", "37", "gitVersion", "v1.37.2"));
    else if (r->route.kind == AS_ROUTE_UNKNOWN)
        as_unknown_resource(a);
    else if (r->route.kind != AS_ROUTE_RESOURCE)
        as_answer_text(a, 404, "text/plain; charset=utf-8", need_strdup("404 page not found\n"));
    else if (r->route.verb == AS_VERB_NONE || r->route.verb == AS_DELETE_COLLECTION)
        as_method_not_allowed(a);
    return a->code == 0;
}

static bool accepts_json(const char *accept)
{
    while (accept && *accept) {
        size_t len = strcspn(accept, ",");
        char *range = need_strndup(accept + strspn(accept, " "), len);
        bool ok = as_media_type_is(range, "application/json") || as_media_type_is(range, "application/*") ||
                  as_media_type_is(range, "*/*");
        free(range);
        if (ok) return true;
        accept += len + (accept[len] == ',');
    }
    return false;
}

static bool known_body(const struct as_request *r)
{
    static const char *const patches[] = {"application/merge-patch+json", "application/strategic-merge-patch+json",
                                          "application/json-patch+json"};
    const char *type = r->content_type;
    if (r->route.verb != AS_PATCH) return !type || !*type || as_media_type_is(type, "application/json");
    for (size_t i = 0; type && i < sizeof patches / sizeof *patches; i++)
        if (as_media_type_is(type, patches[i])) return true;
    return false;
}

static bool media_types(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    (void)s;
    bool has_body = r->route.verb == AS_CREATE || r->route.verb == AS_UPDATE || r->route.verb == AS_PATCH;
    if (has_body && !known_body(r)) {
        if (r->route.verb == AS_PATCH)
            as_status(a, 415, "UnsupportedMediaType", json_object(), "415: Unsupported Media Type");
        else
            as_status(a, 415, "UnsupportedMediaType", NULL,
                      "the body of the request was in an unknown format - accepted media types include: "
                      "application/json");
        return false;
    }
    if (!r->accept || accepts_json(r->accept)) return true;
    as_status(a, 406, "NotAcceptable", json_object(), "406: Not Acceptable, only application/json is served");
    return false;
}

static bool body_size(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    (void)s;
    if (!r->too_large) return true;
    as_status(a, 413, "RequestEntityTooLarge", NULL, "Request entity too large: limit is %d", AS_MAX_BODY);
    return false;
}

static bool options(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    (void)s;
    return as_write_options(r, a);
}

static bool execute(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    switch (r->route.verb) {
    case AS_GET:
        as_get(s, r, a);
        break;
    case AS_LIST:
        as_list(s, r, a);
        break;
    case AS_WATCH:
        as_watch_start(s, r, a);
        break;
    case AS_CREATE:
        as_create(s, r, a);
        break;
    case AS_UPDATE:
        as_update(s, r, a);
        break;
    case AS_PATCH:
        as_patch(s, r, a);
        break;
    default:
        as_delete(s, r, a);
        break;
    }
    return false;
}

static void run(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    static step *const steps[] = {public_paths, authenticate, as_fault_before, authorize, path_and_method,
                                  media_types,  body_size,    options,         execute};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (!steps[i](s, r, a)) return;
}

static void log_line(struct apiserver *s, const struct as_request *r, int code)
{
    if (!s->log) return;
    fprintf(s->log, "%" PRIu64 " %s %s%s%s %s %d %.3f ms\n", s->counts.logged, r->method, r->path, r->query ? "?" : "",
            r->query ? r->query : "", r->user.name ? r->user.name : "-", code,
            (double)(as_now_ns() - r->start_ns) / AS_MS);
    fflush(s->log);
}

static void finish(struct apiserver *s, struct as_request *r, const struct as_answer *a)
{
    int code = a->dropped || a->cut_short ? 0 : a->code;
    pthread_mutex_lock(&s->mu);
    as_counts_end(&s->counts, r, code, a->len, s->store.rv);
    log_line(s, r, code);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mu);
    if (a->dropped) as_conn_cut(r->conn, a->how);
}

static void begin(struct apiserver *s, struct as_request *r)
{
    uint64_t before = as_conn_requests(r->conn);
    pthread_mutex_lock(&s->mu);
    as_counts_begin(&s->counts);
    s->counts.reused += before > 0;
    r->rv_before = s->store.rv;
    pthread_mutex_unlock(&s->mu);
}

void as_serve(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    begin(s, r);
    run(s, r, a);
    if (!a->dropped) as_fault_after(s, r, a);
    finish(s, r, a);
}

bool as_serve_headers(struct apiserver *s, struct as_request *r)
{
    pthread_mutex_lock(&s->mu);
    bool any = !cr_list_empty(&s->rules.list);
    pthread_mutex_unlock(&s->mu);
    if (!any || r->route.kind == AS_ROUTE_HEALTH) return false;
    as_authenticate(s, r);
    pthread_mutex_lock(&s->mu);
    as_rules_apply(&s->rules, r, true);
    pthread_mutex_unlock(&s->mu);
    if (!r->action) {
        as_user_fini(&r->user);
        return false;
    }
    struct as_answer a = {0};
    begin(s, r);
    as_fault_before(s, r, &a);
    finish(s, r, &a);
    as_answer_fini(&a);
    return true;
}

void as_serve_as(struct apiserver *s, struct as_request *r, struct as_answer *a) { run(s, r, a); }
