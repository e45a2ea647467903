// SPDX-License-Identifier: Apache-2.0
#include "apiserver/counts.h"

#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "apiserver/watch.h"
#include "common/alloc.h"

#define SHA256_SIZE 32

struct as_log_entry {
    int64_t start_ns, end_ns;
    char *method, *path, *query, *user, *user_agent, *content_type, *body;
    unsigned char sha256[SHA256_SIZE];
    int code;
    uint64_t rv_before, rv_after, rule;
};

void as_counts_init(struct as_counts *c)
{
    *c = (struct as_counts){.last_ns = as_now_ns()};
    c->log = need_calloc(AS_LOG_ENTRIES, sizeof *c->log);
}

static void entry_fini(struct as_log_entry *e)
{
    free(e->method);
    free(e->path);
    free(e->query);
    free(e->user);
    free(e->user_agent);
    free(e->content_type);
    free(e->body);
    *e = (struct as_log_entry){0};
}

void as_counts_clear(struct as_counts *c)
{
    for (size_t i = 0; i < c->n; i++) free(c->count[i].user);
    free(c->count);
    for (size_t i = 0; i < AS_LOG_ENTRIES && i < c->logged; i++) entry_fini(&c->log[i]);
    *c = (struct as_counts){.log = c->log,
                            .in_flight = c->in_flight,
                            .max_in_flight = c->in_flight,
                            .open_watches = c->open_watches,
                            .last_ns = c->last_ns};
}

void as_counts_fini(struct as_counts *c)
{
    as_counts_clear(c);
    free(c->log);
}

void as_counts_begin(struct as_counts *c)
{
    c->in_flight++;
    if (c->in_flight > c->max_in_flight) c->max_in_flight = c->in_flight;
    c->last_ns = as_now_ns();
}

static struct as_count *count_for(struct as_counts *c, const struct as_request *r, int code)
{
    const char *resource = r->route.type ? r->route.type->plural : "", *user = r->user.name ? r->user.name : "";
    for (size_t i = 0; i < c->n; i++) {
        struct as_count *k = &c->count[i];
        if (k->verb == r->route.verb && k->code == code && !strcmp(k->resource, resource) &&
            !strcmp(k->subresource, r->route.subresource) && !strcmp(k->user, user))
            return k;
    }
    c->count = need_array(c->count, c->n + 1, sizeof *c->count);
    c->count[c->n] = (struct as_count){.verb = r->route.verb,
                                       .resource = resource,
                                       .subresource = r->route.subresource,
                                       .user = need_strdup(user),
                                       .code = code};
    return &c->count[c->n++];
}

static void log_request(struct as_counts *c, const struct as_request *r, int code, uint64_t rv_after)
{
    struct as_log_entry *e = &c->log[c->logged % AS_LOG_ENTRIES];
    if (c->logged >= AS_LOG_ENTRIES) entry_fini(e);
    *e = (struct as_log_entry){.start_ns = r->start_ns,
                               .end_ns = as_now_ns(),
                               .method = need_strdup(r->method),
                               .path = need_strdup(r->path),
                               .query = need_strdup(r->query),
                               .user = need_strdup(r->user.name),
                               .user_agent = need_strdup(r->user_agent),
                               .content_type = need_strdup(r->content_type),
                               .body = need_strdup(r->body),
                               .code = code,
                               .rv_before = r->rv_before,
                               .rv_after = rv_after,
                               .rule = r->rule};
    if (r->body) gnutls_hash_fast(GNUTLS_DIG_SHA256, r->body, r->body_len, e->sha256);
    c->logged++;
    if (c->logged > AS_LOG_BODIES) {
        struct as_log_entry *old = &c->log[(c->logged - 1 - AS_LOG_BODIES) % AS_LOG_ENTRIES];
        free(old->body);
        old->body = NULL;
    }
}

void as_counts_end(struct as_counts *c, const struct as_request *r, int code, size_t bytes_out, uint64_t rv_after)
{
    struct as_count *k = count_for(c, r, code);
    k->number++;
    k->bytes_in += r->body_len;
    k->bytes_out += bytes_out;
    c->in_flight--;
    c->last_ns = as_now_ns();
    log_request(c, r, code, rv_after);
}

void as_counts_add_watch_bytes(struct as_counts *c, const struct as_resource *type, const char *user, uint64_t bytes)
{
    for (size_t i = 0; i < c->n; i++) {
        struct as_count *k = &c->count[i];
        if (k->verb == AS_WATCH && k->code == 200 && !strcmp(k->resource, type->plural) && !strcmp(k->user, user)) {
            k->bytes_out += bytes;
            return;
        }
    }
}

static bool selects(const struct as_params *p, const char *key, const char *value)
{
    const char *wanted = as_param(p, key);
    return !wanted || !strcmp(wanted, value);
}

uint64_t as_counts_select(const struct as_counts *c, const struct as_params *p)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct as_count *k = &c->count[i];
        char code[16];
        snprintf(code, sizeof code, "%d", k->code);
        if (selects(p, "verb", as_verb_name(k->verb)) && selects(p, "resource", k->resource) &&
            selects(p, "subresource", k->subresource) && selects(p, "user", k->user) && selects(p, "code", code))
            sum += k->number;
    }
    return sum;
}

json_t *as_counts_json(const struct as_counts *c)
{
    json_t *requests = json_array(), *events = json_object();
    for (size_t i = 0; i < c->n; i++) {
        const struct as_count *k = &c->count[i];
        json_array_append_new(requests,
                              json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I}", "verb", as_verb_name(k->verb),
                                        "resource", k->resource, "subresource", k->subresource, "user", k->user, "code",
                                        k->code, "count", (json_int_t)k->number, "bytesIn", (json_int_t)k->bytes_in,
                                        "bytesOut", (json_int_t)k->bytes_out));
    }
    for (int t = 0; t < AS_EVENT_TYPES; t++)
        json_object_set_new(events, as_event_type_name((enum as_event_type)t), json_integer((json_int_t)c->events[t]));
    return json_pack("{s:o, s:{s:I, s:o}, s:I, s:I, s:I, s:I}", "requests", requests, "watches", "open",
                     (json_int_t)c->open_watches, "events", events, "inFlight", (json_int_t)c->in_flight, "maxInFlight",
                     (json_int_t)c->max_in_flight, "reused", (json_int_t)c->reused, "logged", (json_int_t)c->logged);
}

static void put_text(json_t *object, const char *key, const char *value)
{
    if (value) json_object_set_new(object, key, json_string(value));
}

static json_t *entry_json(const struct as_log_entry *e, uint64_t index)
{
    char hex[2 * SHA256_SIZE + 1] = "";
    for (size_t i = 0; i < SHA256_SIZE; i++) snprintf(hex + 2 * i, 3, "%02x", e->sha256[i]);
    json_t *o = json_pack("{s:I, s:I, s:I, s:i, s:I, s:I, s:I}", "index", (json_int_t)index, "startNs",
                          (json_int_t)e->start_ns, "endNs", (json_int_t)e->end_ns, "code", e->code, "rvBefore",
                          (json_int_t)e->rv_before, "rvAfter", (json_int_t)e->rv_after, "rule", (json_int_t)e->rule);
    put_text(o, "method", e->method);
    put_text(o, "path", e->path);
    put_text(o, "query", e->query);
    put_text(o, "user", e->user);
    put_text(o, "userAgent", e->user_agent);
    put_text(o, "contentType", e->content_type);
    put_text(o, "bodySha256", hex);
    put_text(o, "body", e->body);
    return o;
}

json_t *as_counts_log(const struct as_counts *c, uint64_t from)
{
    json_t *list = json_array();
    uint64_t oldest = c->logged > AS_LOG_ENTRIES ? c->logged - AS_LOG_ENTRIES : 0;
    for (uint64_t i = from > oldest ? from : oldest; i < c->logged; i++)
        json_array_append_new(list, entry_json(&c->log[i % AS_LOG_ENTRIES], i));
    return list;
}
