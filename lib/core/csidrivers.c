/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CSIDriver objects of the cluster, from one list and one watch over the collection. Of each object only the name,
 * attachRequired and nodeAllocatableUpdatePeriodSeconds are kept. A list that did not come is never taken for "there is
 * no such object".
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "core/apistatus.h"
#include "core/internal.h"

#define BASE_PATH      "/apis/storage.k8s.io/v1/csidrivers"
#define WATCH_MIN_S    300
#define WATCH_MAX_S    600
#define WATCH_GRACE_MS 10000
#define SHORT_WATCH_MS 1000 /* one that ended sooner is followed by a pause */

struct item {
    struct cr_list node;
    bool attach_required;
    int64_t period_s; /* nodeAllocatableUpdatePeriodSeconds; 0: unset, or below what the API allows */
    bool listed;      /* in the list that is being read */
    char name[];
};

static struct item *item_of(struct cr_list *l) { return CR_CONTAINER(l, struct item, node); }

void cr_csidrivers_init(struct cr_core *core)
{
    cr_list_init(&core->csidrivers.items);
    core->csidrivers.retry_ms = CR_NEVER;
}

static void remove_item(struct cr_csidrivers *c, struct item *item)
{
    cr_list_remove(&item->node);
    cr_free(item);
    c->n_items--;
}

void cr_csidrivers_fini(struct cr_core *core)
{
    struct cr_csidrivers *c = &core->csidrivers;
    CR_LIST_FOREACH_SAFE (l, &c->items) remove_item(c, item_of(l));
    cr_free(c->resource_version);
    csireg_error_free(c->error);
}

/* ---- requests ---- */

static void retry_in(struct cr_core *core, int64_t ms) { core->csidrivers.retry_ms = core->now.mono_ms + ms; }

static void send(struct cr_core *core, struct cr_api_request *r)
{
    core->csidrivers.retry_ms = CR_NEVER;
    core->csidrivers.call = cr_emit_api(core, r);
    if (!core->csidrivers.call) retry_in(core, CR_BACKOFF_FIRST_MS);
}

static void list(struct cr_core *core)
{
    struct cr_api_request r = {.method = CR_HTTP_GET,
                               .verb = "list",
                               .resource = "csidrivers",
                               .path = cr_strdup(BASE_PATH),
                               .timeout_ms = core->config.request_timeout_ms};
    core->csidrivers.watching = false;
    send(core, &r);
}

static void watch(struct cr_core *core)
{
    struct cr_csidrivers *c = &core->csidrivers;
    char path[512];
    unsigned seconds = WATCH_MIN_S + (unsigned)cr_rng_below(&core->rng, WATCH_MAX_S - WATCH_MIN_S + 1);
    snprintf(path, sizeof path, BASE_PATH "?allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%u&watch=true",
             c->resource_version, seconds);
    struct cr_api_request r = {.method = CR_HTTP_GET,
                               .verb = "watch",
                               .resource = "csidrivers",
                               .path = cr_strdup(path),
                               .timeout_ms = (int64_t)seconds * 1000 + WATCH_GRACE_MS,
                               .watch = true};
    c->watching = true;
    core->counters.watches++;
    c->watch_started_ms = core->now.mono_ms;
    send(core, &r);
}

void cr_csidrivers_open(struct cr_core *core)
{
    if (core->csidrivers.open) return;
    core->csidrivers.open = true;
    list(core);
}

static void go_on(struct cr_core *core)
{
    if (core->csidrivers.resource_version)
        watch(core);
    else
        list(core);
}

/* ---- the objects ---- */

static struct item *find(const struct cr_csidrivers *c, const char *name)
{
    CR_LIST_FOREACH (l, &c->items)
        if (strcmp(item_of(l)->name, name) == 0) return item_of(l);
    return NULL;
}

static struct item *add(struct cr_csidrivers *c, const char *name)
{
    size_t len = strlen(name);
    struct item *item =
        c->n_items < CR_MAX_CSIDRIVERS && len <= CR_MAX_PLUGIN_NAME ? cr_calloc(1, sizeof *item + len + 1) : NULL;
    if (!item) return NULL;
    memcpy(item->name, name, len);
    cr_list_append(&c->items, &item->node);
    c->n_items++;
    return item;
}

#define MIN_PERIOD_S 10
#define MAX_PERIOD_S (30 * 24 * 3600)

static int64_t period_of(const json_t *object)
{
    const json_t *value = json_object_get(json_object_get(object, "spec"), "nodeAllocatableUpdatePeriodSeconds");
    json_int_t seconds = json_integer_value(value);
    if (seconds < MIN_PERIOD_S) return 0;
    return seconds < MAX_PERIOD_S ? seconds : MAX_PERIOD_S;
}

/* false: no room to remember it. */
static bool take(struct cr_csidrivers *c, const json_t *object)
{
    const char *name = json_string_value(json_object_get(json_object_get(object, "metadata"), "name"));
    if (!name) return true;
    struct item *item = find(c, name);
    if (!item) item = add(c, name);
    if (!item) return false;
    item->attach_required = !json_is_false(json_object_get(json_object_get(object, "spec"), "attachRequired"));
    item->period_s = period_of(object);
    item->listed = true;
    return true;
}

static bool remember_version(struct cr_csidrivers *c, const json_t *object)
{
    const char *version = json_string_value(json_object_get(json_object_get(object, "metadata"), "resourceVersion"));
    bool usable =
        version && *version && strlen(version) <= 64 && strspn(version, "0123456789abcdefABCDEF-_.") == strlen(version);
    char *copy = usable ? cr_strdup(version) : NULL;
    if (!copy) return false;
    cr_free(c->resource_version);
    c->resource_version = copy;
    return true;
}

static void forget_version(struct cr_csidrivers *c)
{
    cr_free(c->resource_version);
    c->resource_version = NULL;
}

enum cr_attach cr_csidrivers_attach(const struct cr_core *core, const char *name)
{
    const struct cr_csidrivers *c = &core->csidrivers;
    if (!c->synced) return c->error && !c->error->retryable ? CR_ATTACH_FAILED : CR_ATTACH_UNKNOWN;
    const struct item *item = find(c, name);
    return !item || item->attach_required ? CR_ATTACH_REQUIRED : CR_ATTACH_NOT_REQUIRED;
}

int64_t cr_csidrivers_period(const struct cr_core *core, const char *name)
{
    const struct item *item = find(&core->csidrivers, name);
    return item ? item->period_s : 0;
}

/* A registered driver whose flow would be another one now. */
static bool flow_flipped(const struct cr_instance *i)
{
    bool settled = i->state == CR_STATE_REGISTERED && cr_instance_owns(i) && i->driver->registered;
    if (!settled || !i->capable || i->forced_node_flow || !i->core->csidrivers.synced) return false;
    bool controller = cr_csidrivers_attach(i->core, i->driver->name) == CR_ATTACH_REQUIRED;
    return controller != (i->driver->view.flow == CSIREG_FLOW_CONTROLLER);
}

/* Whoever waits for an answer, has another flow now, or another period. */
static void tell_instances(struct cr_core *core)
{
    CR_LIST_FOREACH_SAFE (l, &core->instances) {
        struct cr_instance *i = cr_instance_of(l);
        if (i->state == CR_STATE_CSIDRIVER)
            cr_handshake_csidriver(i);
        else
            cr_csidrivers_check(i);
    }
}

void cr_csidrivers_check(struct cr_instance *i)
{
    if (flow_flipped(i)) cr_handshake_decide_again(i);
    cr_refresh_schedule(i);
}

/* ---- answers ---- */

static void keep_error(struct cr_core *core, struct csireg_error *err)
{
    const struct csireg_error *old = core->csidrivers.error;
    bool news = err && (!old || strcmp(csireg_error_message(old), csireg_error_message(err)) != 0);
    csireg_error_free(core->csidrivers.error);
    core->csidrivers.error = err;
    core->generation++;
    if (news) cr_emit_log(core, CSIREG_LOG_WARNING, "csidrivers", NULL, "%s", csireg_error_message(err));
}

static void list_failed(struct cr_core *core, struct csireg_error *err, int64_t retry_after_ms)
{
    cr_error_prefix(err, "list of csidrivers");
    core->counters.api_retries++;
    int64_t delay = err->retryable
                        ? cr_backoff_next(&core->csidrivers.backoff, CR_BACKOFF_FIRST_MS, CR_BACKOFF_CAP_MS, &core->rng)
                        : CR_BACKOFF_CAP_MS;
    retry_in(core, delay > retry_after_ms ? delay : retry_after_ms);
    keep_error(core, err);
    tell_instances(core);
}

static bool take_list(struct cr_csidrivers *c, const json_t *body)
{
    const json_t *items = json_object_get(body, "items");
    size_t k;
    const json_t *object;
    if (!json_is_array(items)) return false;
    CR_LIST_FOREACH (l, &c->items) item_of(l)->listed = false;
    json_array_foreach (items, k, object)
        if (!take(c, object)) return false;
    CR_LIST_FOREACH_SAFE (l, &c->items)
        if (!item_of(l)->listed) remove_item(c, item_of(l));
    return remember_version(c, body);
}

static void listed(struct cr_core *core, struct cr_api_answer *a)
{
    struct cr_csidrivers *c = &core->csidrivers;
    json_t *body = NULL;
    struct csireg_error *err = NULL;
    if (cr_api_classify(a, "CSIDriverList", &body, &err) != CR_API_OK) {
        list_failed(core, err, a->retry_after_ms);
    } else if (!take_list(c, body)) {
        err = cr_error_new(CSIREG_ERR_LIMIT, "no list of at most %d objects with a resourceVersion came",
                           CR_MAX_CSIDRIVERS);
        cr_error_set_retryable(err, true);
        list_failed(core, err, -1);
    } else {
        c->synced = true;
        cr_backoff_reset(&c->backoff);
        keep_error(core, NULL);
        tell_instances(core);
        watch(core);
    }
    json_decref(body);
}

static void watch_event(struct cr_core *core, const char *type, const json_t *object)
{
    struct cr_csidrivers *c = &core->csidrivers;
    const char *name = json_string_value(json_object_get(json_object_get(object, "metadata"), "name"));
    if (strcmp(type, "ERROR") == 0) {
        forget_version(c); /* mostly 410: the next thing is a list, after the watch ended */
        return;
    }
    if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0) {
        if (!take(c, object)) forget_version(c);
    } else if (strcmp(type, "DELETED") == 0) {
        struct item *item = name ? find(c, name) : NULL;
        if (item) remove_item(c, item);
    }
    if (c->resource_version) remember_version(c, object);
    if (strcmp(type, "BOOKMARK") != 0) tell_instances(core);
}

void cr_csidrivers_line(struct cr_core *core, const char *line)
{
    json_t *event = json_loads(line, 0, NULL);
    const char *type = json_string_value(json_object_get(event, "type"));
    const json_t *object = json_object_get(event, "object");
    if (type && object)
        watch_event(core, type, object);
    else
        forget_version(&core->csidrivers); /* not a watch event: what was missed is unknown */
    json_decref(event);
}

static void watched(struct cr_core *core, const struct cr_api_answer *a)
{
    struct cr_csidrivers *c = &core->csidrivers;
    bool clean = a->transport == CR_TRANSPORT_OK && a->status == 200;
    bool was_long = core->now.mono_ms - c->watch_started_ms >= SHORT_WATCH_MS;
    if (a->transport == CR_TRANSPORT_OK && a->status == 410) forget_version(c);
    if (clean && was_long) cr_backoff_reset(&c->backoff);
    if (clean && was_long && c->resource_version) {
        watch(core);
        return;
    }
    int64_t delay = cr_backoff_next(&c->backoff, CR_BACKOFF_FIRST_MS, CR_BACKOFF_CAP_MS, &core->rng);
    if (a->transport == CR_TRANSPORT_TOO_LARGE) forget_version(c);
    retry_in(core, delay > a->retry_after_ms ? delay : a->retry_after_ms);
}

void cr_csidrivers_answer(struct cr_core *core, struct cr_api_answer *answer)
{
    core->csidrivers.call = 0;
    if (core->csidrivers.watching)
        watched(core, answer);
    else
        listed(core, answer);
}

void cr_csidrivers_timer(struct cr_core *core)
{
    if (core->csidrivers.retry_ms > core->now.mono_ms) return;
    core->csidrivers.retry_ms = CR_NEVER;
    go_on(core);
}

void cr_csidrivers_retry_now(struct cr_core *core)
{
    if (core->csidrivers.retry_ms != CR_NEVER) core->csidrivers.retry_ms = core->now.mono_ms;
}
