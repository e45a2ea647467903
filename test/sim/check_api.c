/* SPDX-License-Identifier: Apache-2.0 */
/* Promises about requests: when they may be sent, and in which order things come and go. */
#include <string.h>

#include "base/error.h"
#include "core/node.h"
#include "sim/sim.h"

static bool about_csidrivers(const char *resource) { return strcmp(resource, "csidrivers") == 0; }

void check_request(struct sim *s, const struct cr_api_request *r)
{
    bool create = r->method == CR_HTTP_POST;
    if (!about_csidrivers(r->resource) && s->now.mono_ms < s->known.pause_until_ms)
        sim_fail(s, "Retry-After", "%s %s comes %d ms too early", r->verb, r->resource,
                 (int)(s->known.pause_until_ms - s->now.mono_ms));
    if (create && s->known.uid_is_old)
        sim_fail(s, "uid read afresh", "a CSINode is made with the uid that was known before the old one went");
}

static bool is_kind(const struct cr_api_answer *a, const char *kind)
{
    json_t *body = a->transport == CR_TRANSPORT_OK && a->body ? json_loads(a->body, 0, NULL) : NULL;
    const char *is = json_string_value(json_object_get(body, "kind"));
    bool same = is && strcmp(is, kind) == 0;
    json_decref(body);
    return same;
}

/* Notes what the core learns from an answer. */
void check_answer(struct sim *s, const struct event *e)
{
    const struct cr_api_answer *a = &e->api;
    if (!e->verb) return;
    if (a->retry_after_ms > 0 && !about_csidrivers(e->resource))
        s->known.pause_until_ms = s->now.mono_ms + a->retry_after_ms;
    if (strcmp(e->resource, "csinodes") == 0 && a->transport == CR_TRANSPORT_OK && a->status == 404) {
        s->known.uid_is_old |= strcmp(e->verb, "get") != 0;
        json_decref(s->seen);
        s->seen = NULL;
    }
    if (a->status == 200 && is_kind(a, "Node")) s->known.uid_is_old = false;
    if (a->status == 200 && is_kind(a, "CSIDriverList")) s->known.listed = true;
}

/* The host or new credentials end every pause. */
void check_input(struct sim *s, const struct cr_input *in)
{
    if (in->kind == CR_IN_RETRY || in->kind == CR_IN_CREDENTIALS_CHANGED) s->known.pause_until_ms = 0;
}

void check_call(struct sim *s, const struct cr_effect *e, const struct plugin *p)
{
    bool settled = s->now.mono_ms > FAULT_MS + SETTLE_MS / 2 && p->kind == GOOD && !check_is_shared(s, p);
    const char *name = p->name, *list = settled ? check_list_of(s, name) : NULL;
    if (e->method != CR_RPC_NODE_GET_INFO) return;
    if (list && strcmp(list, "driverRegistrations") == 0)
        sim_fail(s, "no refresh in the controller flow", "%s is asked for its limit", name);
    if (!e->flag) return;
    if (!s->config.gate) sim_fail(s, "gate", "%s is asked with the flag, the gate is off", name);
    if (!s->known.listed) sim_fail(s, "unread is not absent", "%s is asked with the flag before any list came", name);
}

/* ---- an annotation key stays as long as its entry ---- */

static json_t *ids_of(const json_t *metadata)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(metadata, "annotations"), CR_NODE_ID_ANNOTATION));
    json_t *ids = text ? json_loads(text, 0, NULL) : NULL;
    return ids ? ids : json_object();
}

void check_patch(struct sim *s, const json_t *before, const json_t *after)
{
    json_t *old = ids_of(before), *new = ids_of(after), *id;
    const char *name;
    json_object_foreach (old, name, id) {
        if (json_object_get(new, name) || s->orphan || !s->seen) continue;
        if (server_find(s->seen, "drivers", name) && !server_find(s->seen, "driverRegistrations", name))
            sim_fail(s, "entry first", "the annotation key of %s goes while its entry is there", name);
    }
    json_decref(old);
    json_decref(new);
}

/* ---- whom a failure meets ---- */

static bool of_the_api(const struct csireg_error *e)
{
    int n = e->number;
    bool refused_now = e->origin == CSIREG_ORIGIN_HTTP && (n == 401 || n == 408 || n == 429 || n >= 500);
    return e->code == CSIREG_ERR_API && (refused_now || e->origin == CSIREG_ORIGIN_NONE);
}

void check_failure(struct sim *s, const struct plugin *p, const struct csireg_error *e)
{
    if (!e || !e->step || strcmp(e->step, "publish") != 0) return;
    if (of_the_api(e)) sim_fail(s, "an outage is waited for", "%s failed: %s", p->name, csireg_error_message(e));
    if (strstr(csireg_error_message(e), OF_REFUSED) && p->kind != REFUSED)
        sim_fail(s, "a refusal meets its cause", "%s failed: %s", p->name, csireg_error_message(e));
}
