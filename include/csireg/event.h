/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSIREG_EVENT_H
#define CSIREG_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include <csireg/error.h>
#include <csireg/version.h>

#ifdef __cplusplus
extern "C" {
#endif

enum csireg_event_kind {
    CSIREG_EVENT_REGISTERED = 1,
    CSIREG_EVENT_UNREGISTERED = 2,
    CSIREG_EVENT_FAILED = 3,
    CSIREG_EVENT_CHANGED = 4,
    CSIREG_EVENT_WARNING = 5,
    CSIREG_EVENT_PLUGIN = 6,
    CSIREG_EVENT_PLUGIN_GONE = 7,
    CSIREG_EVENT_STOPPED = 8
};

enum csireg_flow { CSIREG_FLOW_NODE = 1, CSIREG_FLOW_CONTROLLER = 2 };

struct csireg_event;

CSIREG_API enum csireg_event_kind csireg_event_kind(const struct csireg_event *event);
CSIREG_API const char *csireg_event_driver(const struct csireg_event *event);   /* driver or plugin name, "" if not known */
CSIREG_API const char *csireg_event_path(const struct csireg_event *event);     /* registration socket, "" for the third door */
CSIREG_API const char *csireg_event_endpoint(const struct csireg_event *event); /* service socket, "" if not known */
CSIREG_API const char *csireg_event_type(const struct csireg_event *event);     /* PLUGIN, PLUGIN_GONE: the plugin type */
CSIREG_API size_t csireg_event_versions(const struct csireg_event *event, const char *const **out_versions); /* PLUGIN */
CSIREG_API uint64_t csireg_event_token(const struct csireg_event *event);       /* PLUGIN, PLUGIN_GONE */
CSIREG_API uint64_t csireg_event_generation(const struct csireg_event *event);
CSIREG_API const struct csireg_error *csireg_event_error(const struct csireg_event *event); /* FAILED, WARNING; else NULL; borrowed */
CSIREG_API void csireg_event_free(struct csireg_event *event);
CSIREG_API const char *csireg_event_kind_name(enum csireg_event_kind kind);

#ifdef __cplusplus
}
#endif

#endif
