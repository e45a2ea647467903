/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated API server's traffic: requests and their faults, watches, foreign writers, the controller side. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/server.h"

/* ---- requests and their faults ---- */

static void deliver(struct sim *s, struct event *e)
{
    struct cr_input in = {.kind = CR_IN_API_DONE, .id = e->id, .api = &e->api};
    check_answer(s, e);
    sim_trace(s, "answer of the API server: %s%d %s", e->api.transport ? "transport " : "",
              e->api.transport ? (int)e->api.transport : e->api.status, e->api.body ? e->api.body : "");
    if (e->flag && e->api.status < 300 && e->api.transport == CR_TRANSPORT_OK && e->api.body) {
        json_t *object = json_loads(e->api.body, 0, NULL);
        const char *kind = json_string_value(json_object_get(object, "kind"));
        if (kind && strcmp(kind, "CSINode") == 0) {
            json_decref(s->seen);
            s->seen = e->verb && strcmp(e->verb, "delete") == 0 ? NULL : json_incref(object);
        }
        if (kind && strcmp(kind, "Node") == 0)
            snprintf(s->seen_uid, sizeof s->seen_uid, "%s", server_meta(object, "uid"));
        json_decref(object);
    }
    sim_input(s, &in);
    if (s->starved) s->known.uid_is_old = false; /* it may not have been understood */
}

static void set_body(struct cr_api_answer *a, const char *text)
{
    cr_free(a->body);
    a->body = cr_strdup(text);
    a->body_len = strlen(text);
}

static void nonsense(struct sim *s, struct cr_api_answer *a)
{
    static const char *const bodies[] = {"<html>login</html>", "", "{\"kind\":\"CSINode\",\"meta", "{\"kind\":\"Pod\"}",
                                         "[]"};
    a->status = 200;
    set_body(a, bodies[sim_below(s, 5)]);
}

static void refuse(struct sim *s, struct cr_api_answer *a)
{
    static const int codes[] = {401, 403, 422, 429, 429, 500, 503, 504};
    int code = codes[sim_below(s, 8)];
    struct reply r = server_status(code, code == 403 ? "Forbidden" : code == 422 ? "Invalid" : "Other", "csinodes");
    char *text = json_dumps(r.body, JSON_COMPACT);
    a->status = r.status;
    if (code == 429) a->retry_after_ms = 1000;
    set_body(a, text);
    free(text);
    json_decref(r.body);
}

static void answer(struct sim *s, struct event *e, const struct cr_api_request *r)
{
    struct reply reply = server_execute(s, r);
    char *text = json_dumps(reply.body, JSON_COMPACT);
    e->api.status = reply.status;
    e->flag = true; /* a body that the object was really in */
    set_body(&e->api, text);
    free(text);
    json_decref(reply.body);
}

static void foreign_write(struct sim *s);
static void open_watch(struct sim *s, const struct cr_effect *effect);

static void serve(struct sim *s, struct event *e, const struct cr_api_request *r)
{
    bool write = r->method != CR_HTTP_GET;
    e->api.retry_after_ms = -1;
    if (s->server.down || sim_chance(s, 4)) {
        e->api.transport = CR_TRANSPORT_CONNECT;
    } else if (sim_chance(s, 6)) {
        refuse(s, &e->api);
    } else if (sim_chance(s, 3) && write) { /* stored, the answer is lost */
        answer(s, e, r);
        e->flag = false;
        e->api.transport = CR_TRANSPORT_BROKEN;
    } else if (sim_chance(s, 3)) {
        if (sim_below(s, 2)) answer(s, e, r);
        e->flag = false;
        nonsense(s, &e->api);
    } else {
        if (sim_chance(s, 10)) foreign_write(s);
        answer(s, e, r);
    }
}

static void execute_later(struct sim *s, struct event *e);

struct request_event { /* a request on its way: kept apart because struct event is copied */
    struct cr_api_request request;
    char seen_uid[32]; /* of the Node as the core knew it when it sent this */
    int64_t sent_ms;
};

void server_request(struct sim *s, struct cr_effect *effect)
{
    struct cr_api_request *r = &effect->request;
    sim_trace(s, "  request %s %s %s", r->verb, r->path, r->body ? r->body : "");
    check_request(s, r);
    s->server.requests++;
    if (r->watch) {
        open_watch(s, effect);
        return;
    }
    struct event *e =
        sim_later(s, 1 + (int64_t)sim_below(s, s->faults && sim_below(s, 5) == 0 ? 3000 : 20), execute_later);
    e->id = effect->id;
    struct request_event *box = calloc(1, sizeof *box);
    box->request = *r;
    memcpy(box->seen_uid, s->seen_uid, sizeof box->seen_uid);
    box->sent_ms = s->now.mono_ms;
    *r = (struct cr_api_request){0};
    e->api.text = (char *)box; /* until it is executed */
}

static void to_nobody(struct sim *s, struct event *e)
{
    (void)s;
    (void)e;
}

/* The core that sent it is gone; the request is on its way all the same. */
bool server_orphan(struct event *e)
{
    if (e->run != execute_later) return false;
    e->id = 0;
    return true;
}

/* The server works half way between request and answer. */
static void execute_later(struct sim *s, struct event *e)
{
    struct request_event *box = (void *)e->api.text;
    e->api.text = NULL;
    struct event *done = sim_later(s, 1 + (int64_t)sim_below(s, 10), e->id ? deliver : to_nobody);
    done->id = e->id;
    done->verb = box->request.verb;
    done->resource = box->request.resource;
    s->orphan = e->id == 0;
    memcpy(s->planned_uid, box->seen_uid, sizeof s->planned_uid);
    s->sent_ms = box->sent_ms;
    serve(s, done, &box->request);
    s->orphan = false;
    if (sim_chance(s, 1)) {
        done->at_ms += box->request.timeout_ms;
        done->api.transport = CR_TRANSPORT_TIMEOUT;
        done->flag = false;
    }
    cr_api_request_fini(&box->request);
    free(box);
}

void server_cancel(struct sim *s, uint64_t id)
{
    struct event *e = sim_later(s, 1, deliver);
    if (id == s->watch) {
        e->id = id;
        e->api.transport = CR_TRANSPORT_CANCELLED;
        e->api.retry_after_ms = -1;
        s->watch = 0;
        return;
    }
    s->n_events--; /* other requests simply come to their end */
}

/* ---- others who write ---- */

static void set_entry(json_t *csinode, const char *list, json_t *entry)
{
    json_t *array = server_list(csinode, list);
    if (!json_is_array(array)) {
        array = json_array();
        json_object_set_new(json_object_get(csinode, "spec"), list, array);
    }
    json_array_append_new(array, entry);
}

/* The controller side completes what is registered. */
static void complete(struct sim *s)
{
    size_t k;
    const json_t *r;
    json_array_foreach (server_list(s->server.csinode, "driverRegistrations"), k, r) {
        const char *name = json_string_value(json_object_get(r, "name"));
        if (server_find(s->server.csinode, "drivers", name)) continue;
        set_entry(s->server.csinode, "drivers",
                  json_pack("{s:s,s:O,s:[s],s:{s:i}}", "name", name, "nodeID", json_object_get(r, "nodeID"),
                            "topologyKeys", "controller/zone", "allocatable", "count", 77));
        server_stamp(s, s->server.csinode);
        return;
    }
}

static void foreign_write(struct sim *s)
{
    unsigned what = (unsigned)sim_below(s, 4);
    if (what == 0 && s->server.csinode) {
        json_object_set_new(json_object_get(s->server.csinode, "metadata"), "touched",
                            json_integer((json_int_t)++s->generation));
        server_stamp(s, s->server.csinode);
    } else if (what == 1 && s->server.node) {
        json_object_set_new(json_object_get(json_object_get(s->server.node, "metadata"), "labels"), "beat",
                            json_string(s->server.version % 2 ? "a" : "b"));
        server_stamp(s, s->server.node);
    } else if (what == 2 && s->server.csinode) {
        complete(s);
    }
}

/* Every event since the version at which the open watch stands, in order, exactly once. */
static void flush_watch(struct sim *s, struct event *e)
{
    size_t k;
    json_t *event;
    (void)e;
    json_array_foreach (s->server.history, k, event) {
        const char *version = server_meta(json_object_get(event, "object"), "resourceVersion");
        uint64_t v = version ? strtoull(version, NULL, 10) : 0;
        if (!s->watch || v <= s->watch_version) continue;
        s->watch_version = v;
        char *line = json_dumps(event, JSON_COMPACT);
        struct cr_input in = {.kind = CR_IN_WATCH_LINE, .id = s->watch, .text = line};
        sim_trace(s, "watch: %s", line);
        sim_input(s, &in);
        free(line);
    }
}

/* A clean end, as at the watch's timeoutSeconds. */
static void close_watch(struct sim *s, struct event *e)
{
    if (s->watch != e->token) return;
    s->watch = 0;
    e->id = e->token;
    e->api.status = 200;
    e->api.retry_after_ms = -1;
    deliver(s, e);
}

static void close_watch_later(struct sim *s, int64_t ms)
{
    struct event *e = sim_later(s, ms, close_watch);
    e->token = s->watch;
    e->id = UINT64_MAX; /* dies with the core; the watch may have ended by then */
}

static uint64_t parameter(const char *path, const char *name)
{
    const char *at = strstr(path, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void open_watch(struct sim *s, const struct cr_effect *effect)
{
    const char *path = effect->request.path;
    s->watch = effect->id;
    s->watch_version = parameter(path, "resourceVersion=");
    sim_later(s, 1, flush_watch);
    close_watch_later(s, (int64_t)parameter(path, "timeoutSeconds=") * 1000);
}

static void send_watch(struct sim *s, const char *type, const char *name, const json_t *spec)
{
    json_t *object = json_pack("{s:s,s:{s:s},s:O}", "kind", "CSIDriver", "metadata", "name", name, "spec", spec);
    json_t *copy = json_deep_copy(object);
    json_decref(object);
    server_stamp(s, copy);
    json_array_append_new(s->server.history, json_pack("{s:s,s:o}", "type", type, "object", copy));
    flush_watch(s, NULL);
}

/* attachRequired is immutable: it changes when the object is deleted and made anew. */
static void csidriver_churn(struct sim *s)
{
    const struct plugin *p = &s->plugins[sim_below(s, (uint64_t)s->n_plugins)];
    if (!sim_chance(s, 10)) return;
    json_t *spec = json_object_get(s->server.attach, p->name);
    if (spec && sim_below(s, 2)) {
        json_incref(spec);
        json_object_del(s->server.attach, p->name);
        send_watch(s, "DELETED", p->name, spec);
        json_decref(spec);
        return;
    }
    bool fresh = !spec;
    if (fresh) {
        spec = json_pack("{s:b}", "attachRequired", (int)sim_below(s, 2));
        json_object_set_new(s->server.attach, p->name, spec);
    }
    if (sim_below(s, 2))
        json_object_set_new(spec, "nodeAllocatableUpdatePeriodSeconds", json_integer(9 + (json_int_t)sim_below(s, 20)));
    else
        json_object_del(spec, "nodeAllocatableUpdatePeriodSeconds");
    send_watch(s, fresh ? "ADDED" : "MODIFIED", p->name, spec);
}

static void end_watch(struct sim *s)
{
    static const char expired[] = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}";
    if (!s->watch) return;
    struct cr_input line = {.kind = CR_IN_WATCH_LINE, .id = s->watch, .text = sim_below(s, 2) ? expired : "{garbage"};
    if (sim_below(s, 2)) sim_input(s, &line);
    close_watch_later(s, 1);
}

void server_churn(struct sim *s)
{
    if (sim_chance(s, 20)) foreign_write(s);
    if (sim_chance(s, 3)) s->server.down = !s->server.down;
    if (s->server.down && sim_chance(s, 30)) s->server.down = false;
    if (sim_chance(s, 1)) s->server.gate = !s->server.gate;
    if (sim_chance(s, 1) && s->server.csinode) {
        sim_trace(s, "-- somebody deletes the CSINode");
        json_decref(s->server.csinode);
        s->server.csinode = NULL;
    }
    if (sim_chance(s, 1)) {
        sim_trace(s, "-- the Node is made anew");
        server_new_node(s);
    }
    csidriver_churn(s);
    if (sim_chance(s, 3)) end_watch(s);
}
