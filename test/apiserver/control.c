// SPDX-License-Identifier: Apache-2.0
/* The control interface: one table of methods and paths, served over its own Unix socket and by apiserver_control. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "apiserver/server.h"
#include "apiserver/watch.h"
#include "common/alloc.h"

struct command {
    struct apiserver *s;
    const struct as_params *params;
    const char *rest;   /* of the path behind the command's own, without its leading slash */
    const json_t *body; /* an object or array; never NULL */
    int status;
    json_t *answer; /* NULL: {} */
    char *error;    /* with status 400 or 404 */
};

static void reject(struct command *c, int status, const char *why)
{
    c->status = status;
    if (!c->error) c->error = need_strdup(why);
}

/* ---- rules ---- */

static void rules_add(struct command *c)
{
    uint64_t id = as_rules_add(&c->s->rules, c->body, &c->error);
    if (id)
        c->answer = json_pack("{s:I}", "id", (json_int_t)id);
    else
        reject(c, 400, "no rule");
}

static void rules_list(struct command *c) { c->answer = json_pack("{s:o}", "rules", as_rules_json(&c->s->rules)); }

static void rules_delete(struct command *c)
{
    if (!*c->rest)
        as_rules_clear(&c->s->rules);
    else if (!as_rules_remove(&c->s->rules, strtoull(c->rest, NULL, 10)))
        reject(c, 404, "no such rule");
    pthread_cond_broadcast(&c->s->changed);
}

/* ---- what was asked and stored ---- */

static void counts(struct command *c)
{
    struct as_relay_counts net = as_relay_count(c->s->relay);
    c->answer = as_counts_json(&c->s->counts);
    json_object_set_new(c->answer, "connections",
                        json_pack("{s:I, s:I, s:I}", "accepted", (json_int_t)net.accepted, "handshakes",
                                  (json_int_t)net.handshakes, "open", (json_int_t)net.open));
    json_object_set_new(c->answer, "resourceVersion", json_integer((json_int_t)c->s->store.rv));
}

static void request_log(struct command *c)
{
    c->answer =
        json_pack("{s:o}", "entries", as_counts_log(&c->s->counts, (uint64_t)as_param_int(c->params, "from", 0)));
}

static json_t *version_entry(const struct as_version *v)
{
    char rv[24];
    json_t *object = as_version_json(v, NULL);
    snprintf(rv, sizeof rv, "%" PRIu64, v->rv);
    json_t *entry = json_pack("{s:s, s:I, s:s, s:s, s:b, s:o}", "resourceVersion", rv, "ns", (json_int_t)v->ns, "user",
                              v->user, "verb", as_verb_name(v->verb), "deleted", v->verb == AS_DELETE, "object",
                              as_full_json(v->type, object));
    json_decref(object);
    return entry;
}

/* rest: PLURAL/NAME or PLURAL/NAMESPACE/NAME. */
static void history(struct command *c)
{
    size_t plural_len = strcspn(c->rest, "/");
    char *plural = need_strndup(c->rest, plural_len),
         *key = need_strdup(c->rest + plural_len + (c->rest[plural_len] != 0));
    char *slash = strchr(key, '/');
    const struct as_resource *type = as_resource_find(plural);
    if (slash) *slash = '\0';
    const struct as_object *o =
        type ? as_store_find(&c->s->store, type, slash ? key : "", slash ? slash + 1 : key) : NULL;
    json_t *list = json_array();
    for (size_t i = 0; o && i < o->n; i++) json_array_append_new(list, version_entry(o->versions[i]));
    c->answer = json_pack("{s:o}", "versions", list);
    if (!type) reject(c, 404, "no such resource");
    free(plural);
    free(key);
}

static void dump_one(void *user, struct as_version *v)
{
    json_t *object = as_version_json(v, NULL);
    json_array_append_new(user, as_full_json(v->type, object));
    json_decref(object);
}

static void dump(struct command *c)
{
    json_t *items = json_array();
    for (size_t i = 0; i < AS_RESOURCES; i++) as_store_each(&c->s->store, &as_resources[i], dump_one, items);
    c->answer = json_pack("{s:o}", "items", items);
}

/* ---- settings ---- */

static const char *gate_text(enum as_gate gate)
{
    return gate == AS_GATE_ON ? "on" : gate == AS_GATE_OFF ? "off" : "unknown";
}

static void gate(struct command *c)
{
    const char *name;
    json_t *value;
    struct as_gates before = c->s->gates;
    json_object_foreach ((json_t *)c->body, name, value) {
        if (json_is_string(value) && as_server_gate(c->s, name, json_string_value(value))) continue;
        c->s->gates = before;
        reject(c, 400, "unknown gate or value");
        return;
    }
    c->answer = json_pack("{s:s, s:s}", "CSIControllerGetNodeInfo", gate_text(c->s->gates.node_info), "CSIVolumeHealth",
                          gate_text(c->s->gates.volume_health));
}

static void auth(struct command *c)
{
    c->answer = as_server_auth(c->s, c->body, &c->error);
    if (!c->answer) reject(c, 400, "not understood");
}

static void rbac(struct command *c)
{
    if (!json_is_array(c->body)) {
        reject(c, 400, "the rule table is an array");
        return;
    }
    json_decref(c->s->rbac);
    c->s->rbac = json_deep_copy(c->body);
}

static void watches(struct command *c)
{
    int n = as_watch_control(c->s, c->rest, c->body, &c->error);
    if (n < 0)
        reject(c, 404, "no such action");
    else
        c->answer = json_pack("{s:i}", "watches", n);
}

static void compact(struct command *c)
{
    const char *plural = as_json_str(c->body, "resource");
    const struct as_resource *type = as_resource_find(plural);
    if (type)
        as_store_compact(&c->s->store, type);
    else
        reject(c, 400, "compact needs a resource");
}

static void reset(struct command *c)
{
    as_watch_control(c->s, "expire", c->body, &c->error);
    as_store_reset(&c->s->store);
    as_rules_clear(&c->s->rules);
    as_counts_clear(&c->s->counts);
    as_watch_notify(c->s, NULL);
    pthread_cond_broadcast(&c->s->changed);
}

/* ---- those that must not hold the lock ---- */

static void net(struct command *c)
{
    if (!as_server_net(c->s, c->body, &c->error)) reject(c, 400, "not understood");
}

static void wait_for(struct command *c)
{
    int status = as_wait(c->s, c->params, &c->error);
    if (status != 200) reject(c, status, "it did not come in time");
}

static struct as_request *request_of(const json_t *body)
{
    const char *method = as_json_str(body, "method"), *user = as_json_str(body, "user");
    const json_t *groups = json_object_get(body, "groups"), *sent = json_object_get(body, "body");
    struct as_request *r = as_request_new(*method ? method : "GET", as_json_str(body, "path"));
    const char *type = as_json_str(body, "contentType");
    r->content_type = need_strdup(*type ? type : NULL);
    r->user.name = need_strdup(*user ? user : "system:admin");
    r->user.groups = groups ? json_deep_copy(groups) : *user ? json_array() : json_pack("[s]", AS_MASTERS);
    if (!*type && !strcmp(r->method, "PATCH")) r->content_type = need_strdup("application/merge-patch+json");
    char *text = json_is_string(sent) ? need_strdup(json_string_value(sent)) : sent ? as_json_text(sent) : NULL;
    if (text) as_request_append(r, text, strlen(text));
    free(text);
    as_request_route(r);
    return r;
}

static void run_request(struct command *c)
{
    struct as_answer a = {0};
    struct as_request *r = request_of(c->body);
    as_serve_as(c->s, r, &a);
    json_t *body = a.body ? as_json_parse(a.body, a.len, NULL) : NULL;
    if (!body) body = json_string(a.body ? a.body : "");
    c->answer = json_pack("{s:i, s:o}", "code", a.code, "body", body);
    if (a.warnings) json_object_set(c->answer, "warnings", a.warnings);
    as_answer_fini(&a);
    as_request_free(r);
}

/* ---- the table ---- */

static const struct {
    const char *method, *path;
    bool more; /* the path may go on */
    bool unlocked;
    void (*run)(struct command *c);
} commands[] = {
    {"POST", "/rules", false, false, rules_add},     {"GET", "/rules", false, false, rules_list},
    {"DELETE", "/rules", true, false, rules_delete}, {"POST", "/rules-rbac", false, false, rbac},
    {"GET", "/counts", false, false, counts},        {"GET", "/log", false, false, request_log},
    {"GET", "/history", true, false, history},       {"GET", "/dump", false, false, dump},
    {"GET", "/wait", false, true, wait_for},         {"POST", "/gate", false, false, gate},
    {"POST", "/auth", false, false, auth},           {"POST", "/net", false, true, net},
    {"POST", "/watches", true, false, watches},      {"POST", "/compact", false, false, compact},
    {"POST", "/do", false, true, run_request},       {"POST", "/reset", false, false, reset},
};

static bool path_is(const char *path, const char *wanted, bool more)
{
    size_t n = strlen(wanted);
    return !strncmp(path, wanted, n) && (!path[n] || (more && path[n] == '/'));
}

static void dispatch(struct command *c, const char *method, const char *path)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].method, method) != 0 || !path_is(path, commands[i].path, commands[i].more)) continue;
        const char *rest = path + strlen(commands[i].path);
        c->rest = *rest ? rest + 1 : rest;
        if (!commands[i].unlocked) pthread_mutex_lock(&c->s->mu);
        commands[i].run(c);
        if (!commands[i].unlocked) pthread_mutex_unlock(&c->s->mu);
        return;
    }
    reject(c, 404, "no such control command");
}

static char *finish(struct command *c, int *status)
{
    if (c->error) {
        json_decref(c->answer);
        c->answer = json_pack("{s:s}", "error", c->error);
    }
    if (!c->answer) c->answer = json_object();
    char *text = as_json_text(c->answer);
    *status = c->status;
    json_decref(c->answer);
    free(c->error);
    return text;
}

char *apiserver_control(struct apiserver *s, const char *method, const char *path, const char *body, int *status)
{
    struct as_params params;
    struct command c = {.s = s, .params = &params, .status = 200};
    size_t path_len = strcspn(path, "?");
    char *bare = as_url_decode(path, path_len, false), *why = NULL;
    json_t *parsed = body && *body ? as_json_parse(body, strlen(body), &why) : json_object();
    as_params_parse(&params, path[path_len] ? path + path_len + 1 : NULL);
    c.body = parsed;
    if (parsed && bare)
        dispatch(&c, method, bare);
    else
        reject(&c, 400, why ? why : "not understood");
    char *text = finish(&c, status);
    as_params_fini(&params);
    json_decref(parsed);
    free(why);
    free(bare);
    return text;
}
