/* SPDX-License-Identifier: Apache-2.0 */
#include "core/event.h"

#include "base/mem.h"

struct csireg_event *cr_event_new(enum csireg_event_kind kind, const char *driver, const char *path)
{
    struct csireg_event *e = CR_NEW(struct csireg_event);
    if (!e) return NULL;
    cr_list_init(&e->node);
    e->kind = kind;
    e->driver = cr_strdup(driver);
    e->path = cr_strdup(path);
    if ((!driver || e->driver) && (!path || e->path)) return e;
    csireg_event_free(e);
    return NULL;
}

static const char *text(const char *s) { return s ? s : ""; }

enum csireg_event_kind csireg_event_kind(const struct csireg_event *e) { return e->kind; }
const char *csireg_event_driver(const struct csireg_event *e) { return text(e->driver); }
const char *csireg_event_path(const struct csireg_event *e) { return text(e->path); }
const char *csireg_event_endpoint(const struct csireg_event *e) { return text(e->endpoint); }
const char *csireg_event_type(const struct csireg_event *e) { return text(e->type); }
uint64_t csireg_event_token(const struct csireg_event *e) { return e->token; }
uint64_t csireg_event_generation(const struct csireg_event *e) { return e->generation; }
const struct csireg_error *csireg_event_error(const struct csireg_event *e) { return e->error; }

size_t csireg_event_versions(const struct csireg_event *e, const char *const **out_versions)
{
    size_t n = 0;
    while (e->versions && e->versions[n]) n++;
    if (out_versions) *out_versions = (const char *const *)e->versions;
    return n;
}

void csireg_event_free(struct csireg_event *e)
{
    if (!e) return;
    cr_free(e->driver);
    cr_free(e->path);
    cr_free(e->endpoint);
    cr_free(e->type);
    cr_strv_free(e->versions);
    csireg_error_free(e->error);
    cr_free(e);
}

static const char *const names[] = {"",        "REGISTERED", "UNREGISTERED", "FAILED", "CHANGED",
                                    "WARNING", "PLUGIN",     "PLUGIN_GONE",  "STOPPED"};

const char *csireg_event_kind_name(enum csireg_event_kind kind)
{
    return kind >= CSIREG_EVENT_REGISTERED && kind <= CSIREG_EVENT_STOPPED ? names[kind] : "UNKNOWN";
}
