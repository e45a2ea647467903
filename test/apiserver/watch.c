// SPDX-License-Identifier: Apache-2.0
#include "apiserver/watch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "apiserver/server.h"
#include "common/alloc.h"

#define SECOND         (1000 * (int64_t)AS_MS)
#define BOOKMARK_EVERY (60 * SECOND)
#define FAREWELL       (2 * SECOND) /* the last bookmark comes this long before the deadline */
#define MAX_OUT        (64u * 1024 * 1024)

const char *as_event_type_name(enum as_event_type type)
{
    static const char *const names[AS_EVENT_TYPES] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"};
    return names[type];
}

/* ---- start ---- */

static void collect(void *user, struct as_version *v)
{
    struct as_watch *w = user;
    if (w->namespace_ && strcmp(w->namespace_, v->namespace_) != 0) return;
    if (as_selector_match(&w->selector, v)) w->initial[w->n_initial++] = as_version_ref(v);
}

static void put_event(struct as_watch *w, struct cr_buf *to, enum as_event_type type, const char *object)
{
    w->server->counts.events[type]++;
    cr_buf_printf(to, "{\"type\":\"%s\",\"object\":%s}\n", as_event_type_name(type), object);
}

static void put_error(struct as_watch *w, json_t *status)
{
    char *text = as_json_text(status);
    put_event(w, &w->inject, AS_ERROR, text);
    w->last_words = true;
    free(text);
    json_decref(status);
}

static void put_expired(struct as_watch *w, uint64_t wanted)
{
    const struct as_events *e = as_store_events(&w->server->store, w->type);
    uint64_t oldest = e->next > e->first ? as_event_at(e, e->first)->version->rv : w->server->store.rv;
    char *message = need_printf("too old resource version: %" PRIu64 " (%" PRIu64 ")", wanted, oldest);
    put_error(w, as_expired_status(message));
    free(message);
}

/* Where the watch begins in the window of events. */
static void set_start(struct as_watch *w, uint64_t rv)
{
    struct as_store *store = &w->server->store;
    const struct as_events *e = as_store_events(store, w->type);
    w->cursor = e->next;
    w->bytes = e->bytes;
    if (!rv) {
        w->initial = need_calloc(store->present[as_resource_index(w->type)] + 1, sizeof(struct as_version *));
        as_store_each(store, w->type, collect, w);
        return;
    }
    w->start_rv = rv;
    if (rv < e->compacted) {
        put_expired(w, rv);
        return;
    }
    w->cursor = as_events_after(e, rv);
    if (w->cursor < e->next) w->bytes = as_event_at(e, w->cursor)->bytes - as_event_at(e, w->cursor)->version->len;
}

static void set_timers(struct as_watch *w, const struct as_params *p)
{
    const char *bookmarks = as_param(p, "allowWatchBookmarks");
    int64_t seconds = as_param_int(p, "timeoutSeconds", 0), now = as_now_ns();
    if (seconds <= 0) seconds = 1800 + (int64_t)(as_random() % 1801);
    w->deadline_ns = seconds > 10000000 ? AS_FOREVER : now + seconds * SECOND;
    w->bookmark_ns = w->farewell_ns = AS_FOREVER;
    if (!bookmarks || (strcmp(bookmarks, "true") != 0 && strcmp(bookmarks, "1") != 0)) return;
    w->bookmark_ns = now + BOOKMARK_EVERY;
    if (seconds > 2) w->farewell_ns = w->deadline_ns == AS_FOREVER ? AS_FOREVER : w->deadline_ns - FAREWELL;
}

/* Streaming lists are not served, and without them a watch takes no resourceVersionMatch. */
static bool check_streaming(const struct as_request *r, struct as_answer *a)
{
    static const char field[] = "resourceVersionMatch";
    const char *match = as_param(&r->params, field);
    struct as_causes causes;
    as_causes_init(&causes);
    if (as_param(&r->params, "sendInitialEvents")) {
        as_cause(&causes, "FieldValueForbidden", "sendInitialEvents", "Forbidden: streaming lists are not served");
    } else if (match && *match) {
        as_cause(&causes, "FieldValueForbidden", field,
                 "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        if (strcmp(match, "NotOlderThan") != 0) as_cause_not_supported(&causes, field, match, "\"NotOlderThan\"");
    }
    if (as_causes_any(&causes)) as_invalid(a, "ListOptions", "meta.k8s.io", "", &causes);
    as_causes_fini(&causes);
    return a->code == 0;
}

static bool check_options(const struct as_request *r, uint64_t *rv, struct as_answer *a)
{
    const char *text = as_param(&r->params, "resourceVersion"), *labels = as_param(&r->params, "labelSelector");
    char *end = NULL;
    *rv = text && *text ? strtoull(text, &end, 10) : 0;
    if (!check_streaming(r, a)) return false;
    if (labels && *labels)
        as_bad_request(a, "label selectors are not served by this emulator");
    else if (end && (*end || *text < '0' || *text > '9'))
        as_status(a, 500, NULL, NULL,
                  "resourceVersion: Invalid value: \"%s\": strconv.ParseUint: parsing \"%s\": invalid syntax", text,
                  text);
    return a->code == 0;
}

static struct as_watch *watch_new(struct apiserver *s, struct as_request *r)
{
    struct as_watch *w = NEED_NEW(struct as_watch);
    w->server = s;
    w->type = r->route.type;
    w->namespace_ = need_strdup(r->route.namespace_);
    w->user = need_strdup(r->user.name);
    w->conn = as_conn_ref(r->conn);
    as_cond_init(&w->wake);
    cr_list_init(&w->link);
    cr_buf_init(&w->inject, MAX_OUT);
    cr_buf_init(&w->out, MAX_OUT);
    return w;
}

void as_watch_start(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    uint64_t rv;
    char *error = NULL;
    if (!check_options(r, &rv, a)) return;
    if (!r->conn) {
        as_bad_request(a, "a watch needs a connection of its own");
        return;
    }
    struct as_watch *w = watch_new(s, r);
    if (!as_selector_parse(&w->selector, as_param(&r->params, "fieldSelector"), &error)) {
        as_bad_request(a, "%s", error);
        free(error);
        as_watch_free(w);
        return;
    }
    pthread_mutex_lock(&s->mu);
    set_start(w, rv);
    set_timers(w, &r->params);
    cr_list_append(&s->watches, &w->link);
    s->counts.open_watches++;
    pthread_mutex_unlock(&s->mu);
    as_answer_text(a, 200, "application/json", NULL);
    a->watch = w;
}

void as_watch_free(struct as_watch *w)
{
    struct apiserver *s = w->server;
    pthread_mutex_lock(&s->mu);
    if (!cr_list_empty(&w->link)) s->counts.open_watches--;
    as_counts_add_watch_bytes(&s->counts, w->type, w->user, w->total);
    cr_list_remove(&w->link);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mu);
    for (size_t i = w->next_initial; i < w->n_initial; i++) as_version_unref(w->initial[i]);
    free(w->initial);
    free(w->namespace_);
    free(w->user);
    as_selector_fini(&w->selector);
    as_conn_unref(w->conn);
    cr_buf_free(&w->inject);
    cr_buf_free(&w->out);
    pthread_cond_destroy(&w->wake);
    free(w);
}

/* ---- what comes next; lock held ---- */

enum next { NEXT_NOTHING, NEXT_TEXT, NEXT_END, NEXT_BROKEN };

static void put_version(struct as_watch *w, enum as_event_type type, const struct as_version *v)
{
    char *full = as_version_full(v, &w->server->gates);
    put_event(w, &w->out, type, full);
    free(full);
}

static void put_bookmark(struct as_watch *w, struct cr_buf *to)
{
    char *object = need_printf("{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":{\"resourceVersion\":\"%" PRIu64
                               "\",\"creationTimestamp\":null}}",
                               w->type->kind, w->type->api_version, w->server->store.rv);
    put_event(w, to, AS_BOOKMARK, object);
    free(object);
}

static bool selected(const struct as_watch *w, const struct as_version *v)
{
    return v && v->verb != AS_DELETE && (!w->namespace_ || !strcmp(w->namespace_, v->namespace_)) &&
           as_selector_match(&w->selector, v);
}

/* Puts the event at the cursor, if it concerns this watch. */
static bool put_selected(struct as_watch *w, const struct as_event *e)
{
    bool was = selected(w, e->before), is = selected(w, e->version);
    if (e->version->rv <= w->start_rv || (!was && !is)) return false;
    if (w->swallow > 0) {
        w->swallow--;
        return false;
    }
    int times = w->duplicate > 0 ? 2 : 1;
    w->duplicate -= w->duplicate > 0;
    for (int i = 0; i < times; i++) put_version(w, was && is ? AS_MODIFIED : is ? AS_ADDED : AS_DELETED, e->version);
    return true;
}

/* True: the cursor has to wait. */
static bool delays(struct as_watch *w, int64_t now)
{
    if (!w->delay_ns || w->delayed) return false;
    w->delayed = true;
    w->stalled_until_ns = now + w->delay_ns;
    return true;
}

static enum next next_event(struct as_watch *w, int64_t now)
{
    const struct as_events *e = as_store_events(&w->server->store, w->type);
    if (w->next_initial < w->n_initial) {
        struct as_version *v = w->initial[w->next_initial++];
        put_version(w, AS_ADDED, v);
        as_version_unref(v);
        return NEXT_TEXT;
    }
    if (w->cursor < e->first) {
        put_expired(w, w->start_rv);
        return NEXT_NOTHING;
    }
    while (w->cursor < e->next) {
        if (delays(w, now)) return NEXT_NOTHING;
        const struct as_event *event = as_event_at(e, w->cursor++);
        w->bytes = event->bytes;
        w->delayed = false;
        bool put = put_selected(w, event);
        w->start_rv = event->version->rv > w->start_rv ? event->version->rv : w->start_rv;
        if (put) return NEXT_TEXT;
    }
    return NEXT_NOTHING;
}

static enum next next_injected(struct as_watch *w)
{
    if (w->inject.len) {
        cr_buf_append(&w->out, w->inject.data, w->inject.len);
        cr_buf_reset(&w->inject);
        return NEXT_TEXT;
    }
    if (w->cut_off) return NEXT_BROKEN;
    return w->last_words ? NEXT_END : NEXT_NOTHING;
}

static enum next next_timed(struct as_watch *w, int64_t now)
{
    if (now >= w->deadline_ns) return NEXT_END;
    if (now < w->bookmark_ns && now < w->farewell_ns) return NEXT_NOTHING;
    if (now >= w->bookmark_ns) w->bookmark_ns = now + BOOKMARK_EVERY;
    if (now >= w->farewell_ns) w->farewell_ns = AS_FOREVER;
    put_bookmark(w, &w->out);
    return NEXT_TEXT;
}

static enum next next_step(struct as_watch *w, int64_t now)
{
    if (as_conn_gone(w->conn)) return NEXT_BROKEN;
    if (w->server->stopping) return NEXT_END;
    enum next next = next_injected(w);
    if (next == NEXT_NOTHING && now >= w->stalled_until_ns) next = next_event(w, now);
    if (next == NEXT_NOTHING) next = next_injected(w);
    return next == NEXT_NOTHING ? next_timed(w, now) : next;
}

static int64_t earliest(const struct as_watch *w, int64_t now)
{
    int64_t t = w->deadline_ns;
    if (w->bookmark_ns < t) t = w->bookmark_ns;
    if (w->farewell_ns < t) t = w->farewell_ns;
    if (w->stalled_until_ns > now && w->stalled_until_ns < t) t = w->stalled_until_ns;
    return t;
}

static enum next wait_next(struct as_watch *w)
{
    struct apiserver *s = w->server;
    pthread_mutex_lock(&s->mu);
    int64_t now = as_now_ns();
    enum next next = next_step(w, now);
    while (next == NEXT_NOTHING) {
        as_cond_wait(&w->wake, &s->mu, earliest(w, now));
        now = as_now_ns();
        next = next_step(w, now);
    }
    pthread_mutex_unlock(&s->mu);
    return next;
}

ssize_t as_watch_read(struct as_watch *w, char *data, size_t max)
{
    if (w->sent == w->out.len) {
        cr_buf_reset(&w->out);
        w->sent = 0;
        enum next next = wait_next(w);
        if (next != NEXT_TEXT) return next == NEXT_END ? 0 : -1;
    }
    size_t left = w->out.len - w->sent, n = left < max ? left : max;
    memcpy(data, w->out.data + w->sent, n);
    w->sent += n;
    w->total += n;
    return (ssize_t)n;
}

/* ---- from other threads; lock held ---- */

static struct as_watch *watch_of(struct cr_list *link) { return CR_CONTAINER(link, struct as_watch, link); }

void as_watch_notify(struct apiserver *s, const struct as_resource *type)
{
    CR_LIST_FOREACH (link, &s->watches) {
        struct as_watch *w = watch_of(link);
        if (type && w->type != type) continue;
        const struct as_events *e = as_store_events(&s->store, w->type);
        if (e->next - w->cursor > AS_MAX_LAG_EVENTS || e->bytes - w->bytes > AS_MAX_LAG_BYTES)
            as_conn_cut(w->conn, AS_CUT_RST);
        pthread_cond_signal(&w->wake);
    }
}

uint64_t as_watch_count(struct apiserver *s, const char *plural)
{
    uint64_t n = 0;
    CR_LIST_FOREACH (link, &s->watches) n += !plural || !strcmp(watch_of(link)->type->plural, plural);
    return n;
}

typedef void control(struct as_watch *w, const json_t *body);

static void control_close(struct as_watch *w, const json_t *body)
{
    const char *how = as_json_str(body, "how");
    if (!strcmp(how, "midFrame")) {
        cr_buf_puts(&w->inject, "{\"type\":\"MODIFIED\",\"object\":{\"kind\":");
        w->cut_off = true;
        as_conn_cut_at_end(w->conn, AS_CUT_FIN);
    } else {
        as_conn_cut(w->conn, !strcmp(how, "rst") ? AS_CUT_RST : AS_CUT_FIN);
    }
}

static void control_expire(struct as_watch *w, const json_t *body)
{
    (void)body;
    put_expired(w, w->start_rv);
}

static void control_error(struct as_watch *w, const json_t *body)
{
    json_t *status = json_object_get(body, "status");
    put_error(w, status ? json_incref(status) : as_expired_status("injected error"));
}

static void control_garbage(struct as_watch *w, const json_t *body)
{
    const char *text = as_json_str(body, "text");
    cr_buf_printf(&w->inject, "%s\n", *text ? text : "{\"type\":\"MODIFIED\",\"object\":[}}garbage");
}

static void control_bookmark(struct as_watch *w, const json_t *body)
{
    (void)body;
    put_bookmark(w, &w->inject);
}

static void control_stall(struct as_watch *w, const json_t *body)
{
    int64_t ms = as_json_int(body, "ms", -1);
    w->stalled_until_ns = as_json_true(body, "release") ? 0 : ms < 0 ? AS_FOREVER : as_now_ns() + ms * AS_MS;
}

static void control_delay(struct as_watch *w, const json_t *body) { w->delay_ns = as_json_int(body, "ms", 0) * AS_MS; }
static void control_swallow(struct as_watch *w, const json_t *body) { w->swallow = as_json_int(body, "count", 1); }
static void control_duplicate(struct as_watch *w, const json_t *body) { w->duplicate = as_json_int(body, "count", 1); }

static const struct {
    const char *name;
    control *act;
} controls[] = {{"close", control_close},     {"expire", control_expire},     {"error", control_error},
                {"garbage", control_garbage}, {"bookmark", control_bookmark}, {"stall", control_stall},
                {"delay", control_delay},     {"swallow", control_swallow},   {"duplicate", control_duplicate}};

static control *find_control(const char *name)
{
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
        if (!strcmp(controls[i].name, name)) return controls[i].act;
    return NULL;
}

static bool matches(const struct as_watch *w, const json_t *match)
{
    const char *resource = as_json_str(match, "resource"), *user = as_json_str(match, "user");
    return (!*resource || !strcmp(resource, w->type->plural)) && (!*user || !strcmp(user, w->user));
}

int as_watch_control(struct apiserver *s, const char *what, const json_t *body, char **out_error)
{
    int n = 0;
    control *act = find_control(what);
    if (!act) {
        *out_error = need_printf("unknown action \"%s\" on watches", what);
        return -1;
    }
    CR_LIST_FOREACH (link, &s->watches) {
        struct as_watch *w = watch_of(link);
        if (!matches(w, json_object_get(body, "match"))) continue;
        act(w, body);
        pthread_cond_signal(&w->wake);
        n++;
    }
    return n;
}
