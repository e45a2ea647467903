/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CSIDriver cache behind the core's inputs, against a model of it. Input: lines; the first byte of each says what
 * happens: 'L' a list with this body, 'F' a list that fails, 'W' a watch event, 'E' the end of the watch, others: time.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "core/internal.h"
#include "core/json.h"
#include "fuzz/fuzz.h"

#define MAX_LINES 64

struct run {
    struct cr_core *core;
    struct cr_time now;
    uint64_t call; /* outstanding request; 0: none */
    bool watch;
    json_t *model;  /* name -> [attachRequired, period] */
    bool synced;    /* a whole list came */
    bool uncertain; /* a list was taken in part: unknown until the next one */
};

static const struct cr_core_config config = {
    .node_name = "n1",
    .gate = true,
    .connect_timeout_ms = 5000,
    .getinfo_timeout_ms = 5000,
    .node_rpc_timeout_ms = 5000,
    .publish_timeout_ms = 5000,
    .notify_timeout_ms = 5000,
    .request_timeout_ms = 5000,
    .handler_timeout_ms = 5000,
};

/* ---- effects ---- */

static void check_path(const struct cr_api_request *r)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/?&=-_.";
    CHECK(r->path[0] == '/' && strspn(r->path, allowed) == strlen(r->path));
    CHECK(r->watch == (strstr(r->path, "watch=true") != NULL));
    CHECK(!r->watch || strstr(r->path, "resourceVersion="));
    CHECK(r->timeout_ms > 0 && !r->body);
}

static void take_effects(struct run *r)
{
    for (struct cr_effect *e; (e = cr_core_pop_effect(r->core));) {
        if (e->kind == CR_EFF_API) {
            CHECK(r->call == 0); /* one at a time */
            check_path(&e->request);
            r->call = e->id;
            r->watch = e->request.watch;
        } else {
            CHECK(e->kind == CR_EFF_LOG && e->level != CSIREG_LOG_ERROR);
        }
        cr_effect_free(e);
    }
}

static void input(struct run *r, struct cr_input *in)
{
    cr_core_input(r->core, r->now, in);
    take_effects(r);
}

static void pass_time(struct run *r, int64_t ms)
{
    struct cr_input tick = {.kind = CR_IN_TICK};
    int64_t due = cr_core_deadline(r->core);
    r->now.mono_ms += ms;
    if (due != CR_NEVER && due > r->now.mono_ms) r->now.mono_ms = due;
    input(r, &tick);
    CHECK(cr_core_deadline(r->core) > r->now.mono_ms);
}

/* ---- the model ---- */

static const char *name_of(const json_t *object)
{
    return json_string_value(json_object_get(json_object_get(object, "metadata"), "name"));
}

static json_t *entry(const json_t *object)
{
    const json_t *spec = json_object_get(object, "spec");
    json_int_t seconds = json_integer_value(json_object_get(spec, "nodeAllocatableUpdatePeriodSeconds"));
    bool attach = !json_is_false(json_object_get(spec, "attachRequired"));
    const json_int_t month = 30 * 24 * 3600;
    return json_pack("[b,I]", attach, seconds < 10 ? 0 : seconds > month ? month : seconds);
}

/* A member whose name was cut at a NUL is one by the shorter name. */
static bool model_set(json_t *model, const json_t *object)
{
    const char *name = name_of(object);
    if (!name) return true;
    if (strlen(name) > CR_MAX_PLUGIN_NAME) return false;
    json_object_set_new(model, name, entry(object));
    return true;
}

static bool usable_version(const json_t *object)
{
    const char *v = json_string_value(json_object_get(json_object_get(object, "metadata"), "resourceVersion"));
    size_t len = v ? strlen(v) : 0;
    return len > 0 && len <= 64 && strspn(v, "0123456789abcdefABCDEF-_.") == len;
}

static void model_list(struct run *r, const char *text)
{
    json_t *body = NULL, *model = json_object();
    const json_t *items, *object;
    size_t i;
    if (text[0]) cr_json_parse(text, strlen(text), JSON_REJECT_DUPLICATES, &body, NULL);
    items = json_object_get(body, "items");
    bool good = cr_json_is(json_object_get(body, "kind"), "CSIDriverList") && json_is_array(items), whole = true;
    json_array_foreach (items, i, object) whole = whole && model_set(model, object);
    if (good && whole && usable_version(body)) {
        json_decref(r->model);
        r->model = json_incref(model);
        r->synced = true;
        r->uncertain = false;
    } else if (good) {
        r->uncertain = true;
    }
    json_decref(model);
    json_decref(body);
}

static void model_event(struct run *r, const char *line)
{
    json_t *event = json_loads(line, 0, NULL);
    const char *type = json_string_value(json_object_get(event, "type"));
    const json_t *object = json_object_get(event, "object");
    if (type && object) {
        if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0) model_set(r->model, object);
        if (strcmp(type, "DELETED") == 0 && name_of(object)) json_object_del(r->model, name_of(object));
    }
    json_decref(event);
}

static void check_model(const struct run *r)
{
    const char *name;
    json_t *want;
    bool room = json_object_size(r->model) <= CR_MAX_CSIDRIVERS;
    CHECK(r->core->csidrivers.synced == r->synced);
    if (!r->synced || r->uncertain || !room) return;
    CHECK(r->core->csidrivers.n_items == json_object_size(r->model));
    json_object_foreach (r->model, name, want) {
        bool attach = json_is_true(json_array_get(want, 0));
        CHECK(cr_csidrivers_attach(r->core, name) == (attach ? CR_ATTACH_REQUIRED : CR_ATTACH_NOT_REQUIRED));
        CHECK(cr_csidrivers_period(r->core, name) == json_integer_value(json_array_get(want, 1)));
    }
}

/* ---- one line of input ---- */

static void answer(struct run *r, struct cr_api_answer *a)
{
    struct cr_input in = {.kind = CR_IN_API_DONE, .id = r->call, .api = a};
    r->call = 0;
    input(r, &in);
}

static void end(struct run *r, uint8_t how)
{
    static const int statuses[] = {200, 410, 401, 429, 500, 404, 403, 200};
    struct cr_api_answer a = {.status = statuses[how % 8], .retry_after_ms = how & 8 ? how * 1000 : -1};
    if (how & 16) a = (struct cr_api_answer){.transport = (enum cr_transport)(1 + how % 8), .retry_after_ms = -1};
    if (how & 32) r->now.mono_ms += 60000;
    answer(r, &a);
}

static void step(struct run *r, char *line)
{
    struct cr_input event = {.kind = CR_IN_WATCH_LINE, .id = r->call, .text = line + 1};
    uint8_t how = line[0] ? (uint8_t)line[1] : 0;
    if (line[0] == 'L' && r->call && !r->watch) {
        struct cr_api_answer a = {.status = 200, .retry_after_ms = -1, .body = line + 1, .body_len = strlen(line + 1)};
        model_list(r, a.body);
        if (a.body_len == 0) a.body = NULL;
        answer(r, &a);
    } else if (line[0] == 'W' && r->call && r->watch) {
        model_event(r, line + 1);
        input(r, &event);
    } else if (r->call && (line[0] == 'E' || line[0] == 'F')) {
        if (r->watch || (how & 16) || how % 8 == 2) end(r, how);
    } else {
        pass_time(r, how * 100);
    }
    check_model(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run r = {.now = {1000000, 1700000000000}, .model = json_object()};
    char *text = fuzz_string(data, size), *rest = text;
    r.core = cr_core_new(&config, r.now);
    CHECK(r.core);
    cr_csidrivers_open(r.core);
    take_effects(&r);
    CHECK(r.call && !r.watch);
    for (int i = 0; i < MAX_LINES && rest; i++) step(&r, strsep(&rest, "\n"));
    CHECK(r.call || cr_core_deadline(r.core) != CR_NEVER); /* it never gives up */
    cr_core_free(r.core);
    json_decref(r.model);
    free(text);
    return 0;
}
