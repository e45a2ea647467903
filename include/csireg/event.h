/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a manager tells its host. Events are pulled with csireg_manager_next_event when csireg_manager_fd is readable.
 *
 * Events are level-style: they say how things are now, not how they came to be so. At most one event per driver and one
 * failure per socket wait to be read, with the newest state; so a host that reads late misses no state, only steps in
 * between, and may see UNREGISTERED of a driver whose REGISTERED it never saw. Requests about foreign plugins (PLUGIN)
 * are never merged. At most 4,096 events wait, at most 256 of them warnings; past that the oldest UNREGISTERED, FAILED
 * and WARNING are dropped, and csireg_manager_status_json tells what they would have said. Generations rise from event
 * to event.
 *
 * When an event can be read, csireg_manager_lookup and csireg_manager_status_json agree with it already.
 */
#ifndef CSIREG_EVENT_H
#define CSIREG_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include <csireg/error.h>
#include <csireg/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values never change; new ones are appended: skip what you do not know. */
enum csireg_event_kind {
    /* The driver is usable: its publication was confirmed by the API server (or local-only is on). In the controller
     * flow its entry in spec.driverRegistrations was confirmed; the controller side may still have to do its part
     * (KEP-6011). */
    CSIREG_EVENT_REGISTERED = 1,
    /* The driver is gone: its socket vanished, the host took it back, or a later attempt failed for good. Its entries
     * are being removed from the cluster. */
    CSIREG_EVENT_UNREGISTERED = 2,
    /* An attempt to register failed; error says where and why. It is tried again as csireg_error_retryable says. What
     * was registered before under that name stays unless UNREGISTERED says otherwise. */
    CSIREG_EVENT_FAILED = 3,
    /* A registered driver has other values now: lookup gives the new endpoint, version, node id or flow. */
    CSIREG_EVENT_CHANGED = 4,
    /* Something that a person should know and that stops nothing: error says what. */
    CSIREG_EVENT_WARNING = 5,
    /* A plugin of a type in the option plugin-types asks to be registered. Answer with csireg_manager_plugin_result and
     * the token, within the option handler-timeout. */
    CSIREG_EVENT_PLUGIN = 6,
    /* The socket of the plugin with that token vanished, whether it had been answered or not. */
    CSIREG_EVENT_PLUGIN_GONE = 7,
    /* The last event: the manager has stopped. */
    CSIREG_EVENT_STOPPED = 8
};

/* Who publishes what a driver says about this node. */
enum csireg_flow {
    CSIREG_FLOW_NODE = 1, /* this side: labels, annotation, CSINode.spec.drivers */
    CSIREG_FLOW_CONTROLLER =
        2 /* this side writes CSINode.spec.driverRegistrations, the controller side does the rest */
};

struct csireg_event;

/*
 * Getters. The event must not be NULL. Strings are never NULL ("" where there is nothing to say) and live as long as
 * the event, as do the version list and the error. An event never changes once it is out: any thread.
 */
CSIREG_API enum csireg_event_kind csireg_event_kind(const struct csireg_event *event);
CSIREG_API const char *
csireg_event_driver(const struct csireg_event *event); /* driver or plugin name, "" if not known */
/* Registration socket; "" for a driver that the host handed over. Bytes of a file name, perhaps not UTF-8. */
CSIREG_API const char *csireg_event_path(const struct csireg_event *event);
CSIREG_API const char *csireg_event_endpoint(const struct csireg_event *event); /* service socket, "" if not known */
CSIREG_API const char *csireg_event_type(const struct csireg_event *event); /* PLUGIN, PLUGIN_GONE: the plugin type */
/* PLUGIN: how many versions the plugin supports, and the list if out_versions is not NULL. 0 otherwise. */
CSIREG_API size_t csireg_event_versions(const struct csireg_event *event, const char *const **out_versions);
/* PLUGIN, PLUGIN_GONE: names the request, never 0, never used again by this manager. 0 otherwise. */
CSIREG_API uint64_t csireg_event_token(const struct csireg_event *event);
CSIREG_API uint64_t
csireg_event_generation(const struct csireg_event *event); /* larger than that of every event before */
CSIREG_API const struct csireg_error *
csireg_event_error(const struct csireg_event *event); /* FAILED, WARNING; else NULL */

/* Frees the event and its error; NULL is fine. */
CSIREG_API void csireg_event_free(struct csireg_event *event);

/* "REGISTERED", ...; "UNKNOWN" for what is no kind. Static. Any thread. */
CSIREG_API const char *csireg_event_kind_name(enum csireg_event_kind kind);

#ifdef __cplusplus
}
#endif

#endif
