/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/document.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "csireg/version.h"

/* Paths are bytes; JSON is not. */
static json_t *text(const char *s)
{
    json_t *value = json_string(s);
    CR_AUTO_CHARP clean = value ? NULL : cr_strdup(s);
    if (!clean) return value;
    cr_utf8_sanitise(clean, strlen(clean));
    return json_string(clean);
}

static bool set_new(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}
static bool set_text(json_t *object, const char *key, const char *s) { return set_new(object, key, text(s)); }

/* Absent stays absent. */
static bool share(json_t *to, const json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);
    return !value || json_object_set(to, key, value) == 0;
}

static json_t *checked(json_t *object, bool complete)
{
    if (object && complete) return object;
    json_decref(object);
    return NULL;
}

static json_t *texts(const char *const *list)
{
    json_t *array = json_array();
    bool ok = array != NULL;
    for (; ok && list && *list; list++) ok = json_array_append_new(array, text(*list)) == 0;
    return checked(array, ok);
}

/* ---- registry ---- */

static const char *mode_name(enum cr_watcher_mode mode)
{
    return mode == CR_WATCHER_INOTIFY ? "inotify" : mode == CR_WATCHER_POLLING ? "polling" : "waiting";
}

static bool set_time(json_t *object, const char *key, int64_t wall_ms)
{
    char s[CR_RFC3339_SIZE];
    if (wall_ms == 0) return true;
    cr_clock_rfc3339(wall_ms, s);
    return set_text(object, key, s);
}

static json_t *registry(const struct cr_watcher_status *w)
{
    json_t *r = json_object();
    if (!w) return checked(r, r && set_text(r, "mode", "none"));
    bool ok = r && set_text(r, "path", w->path);
    if (ok && *w->resolved) ok = set_text(r, "resolved", w->resolved);
    ok = ok && set_text(r, "mode", mode_name(w->mode)) && set_new(r, "sockets", json_integer((json_int_t)w->sockets)) &&
         set_time(r, "lastEvent", w->last_event_wall_ms) && set_new(r, "initialScanDone", json_boolean(w->scan_done)) &&
         set_new(r, "warnings", texts(w->warnings));
    return checked(r, ok);
}

/* ---- api ---- */

static const char *source_name(const struct cr_access *access)
{
    if (!access) return "none";
    switch (access->source) {
    case CR_ACCESS_KUBECONFIG:
        return "kubeconfig";
    case CR_ACCESS_IN_CLUSTER:
        return "in-cluster";
    case CR_ACCESS_EXPLICIT:
        return "explicit";
    }
    return "none";
}

static json_t *api(const struct cr_document *d)
{
    json_t *a = json_object(), *core = json_object_get(d->core, "api");
    const char *warnings[] = {d->access ? d->access->warning : NULL, NULL};
    bool ok = a != NULL;
    if (ok && d->access) ok = set_text(a, "server", d->access->server);
    ok = ok && set_text(a, "source", source_name(d->access)) && share(a, core, "state") && share(a, core, "since") &&
         share(a, core, "lastError") && json_object_set(a, "requests", d->requests) == 0;
    if (ok && *warnings) ok = set_new(a, "warnings", texts(warnings));
    return checked(a, ok);
}

/* ---- all of it ---- */

static json_t *node(const char *name)
{
    json_t *n = json_object();
    return checked(n, n && set_text(n, "name", name));
}

json_t *cr_document_build(struct cr_document *d)
{
    json_t *all = d->core && d->requests ? json_object() : NULL;
    bool ok = all && set_new(all, "version", json_integer(1)) && set_text(all, "library", csireg_version()) &&
              set_new(all, "node", node(d->node_name)) && share(all, d->core, "gates") &&
              share(all, d->core, "capabilities") && set_new(all, "registry", registry(d->registry)) &&
              set_new(all, "api", api(d)) && share(all, d->core, "sockets") && share(all, d->core, "drivers") &&
              share(all, d->core, "unclaimed") && share(all, d->core, "labelsAdded");
    json_decref(d->core);
    json_decref(d->requests);
    return checked(all, ok);
}
