// SPDX-License-Identifier: Apache-2.0
/* What the action of a fault rule does to its request. */
#include <stdlib.h>
#include <string.h>

#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "apiserver/patch.h"
#include "apiserver/server.h"
#include "common/alloc.h"

static enum as_cut_how cut_how(const json_t *cut)
{
    return !strcmp(as_json_str(cut, "how"), "rst") ? AS_CUT_RST : AS_CUT_FIN;
}

/* The connection ends once the request was counted: whoever sees the end finds it in the counts. */
static void cut_now(const json_t *cut, struct as_answer *a)
{
    a->dropped = true;
    a->how = cut_how(cut);
}

/* Waits for the delay; while `hang`, until the rule goes. False: the client went or the server stops. */
static bool hold(struct apiserver *s, struct as_request *r, int64_t until_ns, bool hang)
{
    pthread_mutex_lock(&s->mu);
    while (!s->stopping && !as_conn_gone(r->conn) && (hang ? as_rules_has(&s->rules, r->rule) : as_now_ns() < until_ns))
        as_cond_wait(&s->changed, &s->mu, hang ? AS_FOREVER : until_ns);
    bool on = !s->stopping && !as_conn_gone(r->conn);
    pthread_mutex_unlock(&s->mu);
    return on;
}

static bool held_back(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    int64_t delay = as_json_int(r->action, "delayMs", 0);
    bool on = delay <= 0 || hold(s, r, as_now_ns() + delay * AS_MS, false);
    if (on && as_json_true(r->action, "hang")) on = hold(s, r, 0, true);
    if (!on) cut_now(NULL, a);
    return on;
}

/* "status": N in one of its forms. */
static void answer_status(const json_t *action, int code, struct as_answer *a)
{
    const char *form = as_json_str(action, "body"), *message = as_json_str(action, "message");
    const char *reason = as_json_str(action, "reason");
    int retry = (int)as_json_int(action, "retryAfter", 0);
    json_t *details = retry ? json_pack("{s:i}", "retryAfterSeconds", retry) : NULL;
    as_status(a, code, *reason ? reason : NULL, details, "%s", *message ? message : "injected fault");
    if (!strcmp(form, "text"))
        as_answer_text(a, code, "text/plain; charset=utf-8",
                       need_printf("%s\n", *message ? message : "injected fault"));
    else if (!strcmp(form, "empty"))
        as_answer_text(a, code, "application/json", NULL);
    else if (!strcmp(form, "html"))
        as_answer_text(a, code, "text/html", need_strdup("<html><body><h1>Bad Gateway</h1></body></html>\n"));
    else if (!strcmp(form, "garbage"))
        as_answer_text(a, code, "application/json", need_strdup("\x01\xff{{]garbage\xc3"));
    else if (!strcmp(form, "truncated"))
        a->len /= 2;
}

static void answer_429(struct as_answer *a)
{
    as_answer_text(a, 429, "text/plain; charset=utf-8", need_strdup("Too many requests, please try again later.\n"));
    a->retry_after = 1;
}

/* Answers instead of executing; false: nothing of the kind is asked for. */
static bool answered(const json_t *action, struct as_answer *a)
{
    json_t *lie = json_object_get(action, "respond");
    int status = (int)as_json_int(action, "status", 0);
    if (as_json_true(action, "unauthorized"))
        as_unauthorized(a);
    else if (as_json_true(action, "plain429"))
        answer_429(a);
    else if (status)
        answer_status(action, status, a);
    else if (lie)
        as_answer_json(a, 200, json_incref(lie));
    else
        return false;
    return true;
}

static bool at(const json_t *cut, const char *where) { return !strcmp(as_json_str(cut, "at"), where); }

bool as_fault_before(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    if (!r->conn) return true;
    if (!r->action) {
        pthread_mutex_lock(&s->mu);
        as_rules_apply(&s->rules, r, false);
        pthread_mutex_unlock(&s->mu);
    }
    if (!r->action) return true;
    const json_t *cut = json_object_get(r->action, "cut");
    if (!held_back(s, r, a)) return false;
    if (at(cut, "beforeRead") || at(cut, "afterRead")) {
        cut_now(cut, a);
        return false;
    }
    return !answered(r->action, a);
}

void as_fault_after(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    (void)s;
    const json_t *cut = json_object_get(r->action, "cut"), *bytes = json_object_get(cut, "bytes");
    int instead = (int)as_json_int(r->action, "commitThenStatus", 0);
    const char *warning = as_json_str(r->action, "warning");
    if (instead) {
        as_answer_reset(a);
        answer_status(r->action, instead, a);
    }
    if (*warning) as_answer_warn(a, "%s", warning);
    if (at(cut, "afterCommit")) cut_now(cut, a);
    if (!a->dropped) a->cut_short = at(cut, "header") || bytes;
    if (a->cut_short) as_conn_cut_after(r->conn, bytes ? (uint64_t)json_integer_value(bytes) : 0, cut_how(cut));
}

static json_t *default_edit(uint64_t rv)
{
    char *text = need_printf("changed at %llu", (unsigned long long)rv);
    json_t *edit = json_pack("{s:{s:{s:s}}}", "metadata", "annotations", "emulator.csireg.test/conflict", text);
    free(text);
    return edit;
}

void as_fault_conflict(struct apiserver *s, const struct as_request *r)
{
    const json_t *conflict = json_object_get(r->action, "conflict");
    const struct as_version *now = as_store_get(&s->store, r->route.type, r->route.namespace_, r->route.name);
    if (!conflict || json_is_false(conflict) || !now) return;
    const json_t *wanted = json_object_get(conflict, "edit");
    json_t *edit = wanted ? json_deep_copy(wanted) : default_edit(now->rv);
    json_t *object = as_merge_patch(as_version_json(now, NULL), edit);
    as_store_put(&s->store, r->route.type, object, "fault:conflict", AS_PATCH);
    json_decref(object);
    json_decref(edit);
}

void as_fault_drop(const struct as_request *r, json_t *object)
{
    size_t i;
    json_t *pointer;
    json_array_foreach (json_object_get(r->action, "drop"), i, pointer) {
        if (json_is_string(pointer)) as_pointer_remove(object, json_string_value(pointer));
    }
}
