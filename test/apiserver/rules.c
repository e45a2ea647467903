// SPDX-License-Identifier: Apache-2.0
#include "apiserver/rules.h"

#include <stdlib.h>
#include <string.h>

#include "apiserver/json.h"
#include "common/alloc.h"

struct rule {
    struct cr_list link;
    uint64_t id;
    json_t *text; /* as it was given */
    int64_t skip, count, every;
    int64_t matched, hits;
};

static struct rule *rule_of(struct cr_list *link) { return CR_CONTAINER(link, struct rule, link); }

void as_rules_init(struct as_rules *rules)
{
    cr_list_init(&rules->list);
    rules->last_id = 0;
}

static void rule_free(struct rule *rule)
{
    cr_list_remove(&rule->link);
    json_decref(rule->text);
    free(rule);
}

void as_rules_clear(struct as_rules *rules)
{
    CR_LIST_FOREACH_SAFE (link, &rules->list) rule_free(rule_of(link));
}

void as_rules_fini(struct as_rules *rules) { as_rules_clear(rules); }

static bool is_known(const char *key, const char *const *known)
{
    for (; *known; known++)
        if (!strcmp(key, *known)) return true;
    return false;
}

static bool check_keys(json_t *object, const char *const *known, char **out_error)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        if (is_known(key, known)) continue;
        *out_error = need_printf("unknown key \"%s\" in a rule", key);
        return false;
    }
    return true;
}

/* A misspelt fault would make a test pass for nothing, so unknown keys are refused. */
static bool check_rule(const json_t *rule, char **out_error)
{
    static const char *const top[] = {"match", "skip", "count", "every", "action", NULL};
    static const char *const match[] = {"verb", "resource",    "subresource", "namespace", "name",
                                        "user", "contentType", "watch",       NULL};
    static const char *const action[] = {
        "status",           "reason",   "message", "retryAfter", "body",     "delayMs",      "hang",    "cut",
        "commitThenStatus", "conflict", "drop",    "respond",    "plain429", "unauthorized", "warning", NULL};
    if (!json_is_object(json_object_get(rule, "action"))) {
        *out_error = need_strdup("a rule needs an \"action\"");
        return false;
    }
    return check_keys((json_t *)rule, top, out_error) && check_keys(json_object_get(rule, "match"), match, out_error) &&
           check_keys(json_object_get(rule, "action"), action, out_error);
}

uint64_t as_rules_add(struct as_rules *rules, const json_t *text, char **out_error)
{
    if (!check_rule(text, out_error)) return 0;
    struct rule *rule = NEED_NEW(struct rule);
    rule->id = ++rules->last_id;
    rule->text = json_deep_copy(text);
    rule->skip = as_json_int(text, "skip", 0);
    rule->count = as_json_int(text, "count", -1);
    rule->every = as_json_int(text, "every", 1);
    cr_list_init(&rule->link);
    cr_list_append(&rules->list, &rule->link);
    return rule->id;
}

static struct rule *find(const struct as_rules *rules, uint64_t id)
{
    CR_LIST_FOREACH (link, &((struct as_rules *)rules)->list) {
        if (rule_of(link)->id == id) return rule_of(link);
    }
    return NULL;
}

bool as_rules_has(const struct as_rules *rules, uint64_t id) { return find(rules, id) != NULL; }

bool as_rules_remove(struct as_rules *rules, uint64_t id)
{
    struct rule *rule = find(rules, id);
    if (rule) rule_free(rule);
    return rule != NULL;
}

json_t *as_rules_json(const struct as_rules *rules)
{
    json_t *list = json_array();
    CR_LIST_FOREACH (link, &((struct as_rules *)rules)->list) {
        struct rule *rule = rule_of(link);
        json_t *entry = json_deep_copy(rule->text);
        json_object_set_new(entry, "id", json_integer((json_int_t)rule->id));
        json_object_set_new(entry, "matched", json_integer(rule->matched));
        json_object_set_new(entry, "hits", json_integer(rule->hits));
        json_array_append_new(list, entry);
    }
    return list;
}

static bool is(const json_t *match, const char *key, const char *value)
{
    const json_t *wanted = json_object_get(match, key);
    return !wanted || !strcmp(json_string_value(wanted) ? json_string_value(wanted) : "", value ? value : "");
}

static bool matches(const json_t *match, const struct as_request *r, const char *name)
{
    const struct as_route *route = &r->route;
    const json_t *type = json_object_get(match, "contentType"), *watch = json_object_get(match, "watch");
    return is(match, "verb", as_verb_name(route->verb)) &&
           is(match, "resource", route->type ? route->type->plural : "") &&
           is(match, "subresource", route->subresource) && is(match, "namespace", route->namespace_) &&
           is(match, "name", name) && is(match, "user", r->user.name) &&
           (!type || as_media_type_is(r->content_type ? r->content_type : "", json_string_value(type))) &&
           (!watch || json_is_true(watch) == (route->verb == AS_WATCH));
}

static bool cuts_before_read(const struct rule *rule)
{
    return !strcmp(as_json_str(as_json_at(rule->text, "action", "cut"), "at"), "beforeRead");
}

/* Counts one more match; true when the rule acts on it. */
static bool takes(struct rule *rule)
{
    int64_t n = rule->matched++ - rule->skip;
    if (n < 0 || (rule->count >= 0 && rule->hits >= rule->count)) return false;
    if (rule->every > 1 && (n + 1) % rule->every != 0) return false;
    rule->hits++;
    return true;
}

void as_rules_apply(struct as_rules *rules, struct as_request *r, bool headers_only)
{
    json_t *body = NULL;
    const char *name = headers_only ? (r->route.name ? r->route.name : "") : as_request_name(r, &body);
    CR_LIST_FOREACH (link, &rules->list) {
        struct rule *rule = rule_of(link);
        if (cuts_before_read(rule) != headers_only || !matches(json_object_get(rule->text, "match"), r, name)) continue;
        if (!takes(rule)) continue;
        r->rule = rule->id;
        r->action = json_deep_copy(json_object_get(rule->text, "action"));
        break;
    }
    json_decref(body);
}
