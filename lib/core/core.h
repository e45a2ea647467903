/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pure core: takes one input and the time, changes its state, leaves effects. No I/O, thread, clock, environment.
 *
 * The effect contract
 * - CONNECT, PROBE, RPC and API each carry an id that is never used again and each ends in exactly one input with that
 * id (CONNECTED, RPC_DONE, API_DONE), also when cancelled. An API request with `watch` has WATCH_LINE inputs before its
 * end.
 * - CLOSE, CANCEL_RPC, CANCEL_API start nothing and have no answer of their own. A connection is closed by CLOSE alone;
 *   a CLOSE while an RPC runs on it cancels that RPC first (its RPC_DONE still comes).
 * - The core drops answers whose id it no longer waits for, so late ones are harmless.
 * - Inputs are borrowed for the call; the core may take members out of rpc and api answers (and leaves them empty).
 * - Effects are owned by whoever popped them: cr_effect_free.
 * - Timers are inside: cr_core_deadline says when the next TICK is due. A TICK that comes early does nothing.
 */
#ifndef CR_CORE_CORE_H
#define CR_CORE_CORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/messages.h"
#include "core/event.h"
#include "csireg/log.h"
#include "csireg/manager.h"

struct cr_core;

/* Copied by cr_core_new. Times in milliseconds, defaults and bounds as in the option table. */
struct cr_core_config {
    const char *node_name;
    bool gate;                  /* CSIControllerGetNodeInfo */
    bool local_only;            /* no API: publication is skipped and drivers are registered on this node only */
    bool fallback_to_node_flow; /* registration-dropped=node-flow */
    bool create_at_start;
    bool first_instance_wins;          /* same-name=first: of equal versions the first instance stays, as in kubelet */
    bool annotate_in_controller_flow;  /* the Node annotation is written in the controller flow too */
    bool watches_registry;             /* first door in use: lookups say "not ready" until the initial scan was tried */
    int32_t node_info_from_controller; /* the capability's number */
    const char *const *migrated_plugins;
    size_t n_migrated_plugins;
    const char *const *plugin_types; /* foreign types that the host handles */
    size_t n_plugin_types;
    const char *const *label_prefixes; /* a topology key must begin with one of them; none: every key may */
    size_t n_label_prefixes;
    int64_t verify_interval_ms, gather_window_ms, connect_timeout_ms, getinfo_timeout_ms, node_rpc_timeout_ms,
        publish_timeout_ms, notify_timeout_ms, request_timeout_ms, handler_timeout_ms;
    int64_t unregister_grace_ms; /* removals wait that long; 0: none */
    int64_t
        endpoint_dead_after_ms; /* a service socket that refuses connections so long ends the registration; 0: off */
    int64_t prune_unclaimed_after_ms; /* entries without a socket are removed so long after the initial scan; 0: off */
    struct cr_uids allowed_owners;    /* of registration sockets; others are refused before a connect */
    uint64_t seed;                    /* jitter */
    enum csireg_log_level log_level;
};

/* ---- inputs ---- */

enum cr_input_kind {
    CR_IN_TICK = 1,
    CR_IN_SOCKET_SEEN,     /* path, identity, from_host: the file is there (again); idempotent */
    CR_IN_SOCKET_GONE,     /* path */
    CR_IN_SCAN_DONE,       /* the initial scan of the registry is over */
    CR_IN_CONNECTED,       /* id, error_number, identity */
    CR_IN_RPC_DONE,        /* id, rpc */
    CR_IN_API_DONE,        /* id, api */
    CR_IN_WATCH_LINE,      /* id, text */
    CR_IN_DRIVER_REGISTER, /* name, endpoint, versions (checked for bounds and UTF-8 by the facade, not for grammar) */
    CR_IN_DRIVER_DEREGISTER, /* name, endpoint */
    CR_IN_RETRY,             /* name: driver, socket path, or NULL for all */
    CR_IN_PLUGIN_RESULT,     /* token, ok, text */
    CR_IN_CREDENTIALS_CHANGED,
    CR_IN_EXHAUSTED, /* name, token: an attach failed with RESOURCE_EXHAUSTED; EXHAUSTED effect with the token */
    CR_IN_STOP,      /* cancels everything; the core emits STOPPED once nothing is out */
};

struct cr_input {
    enum cr_input_kind kind;
    uint64_t id;
    const char *path, *name, *endpoint, *text;
    const char *const *versions;
    size_t n_versions;
    struct cr_identity identity;
    bool from_host;   /* SOCKET_SEEN: reported through the second door */
    bool ok;          /* PLUGIN_RESULT; CONNECTED: the answer to a PROBE */
    uint64_t token;   /* PLUGIN_RESULT, EXHAUSTED */
    int error_number; /* CONNECTED: 0 or the errno of connect */
    struct cr_rpc_result *rpc;
    struct cr_api_answer *api;
};

/* ---- effects ---- */

enum cr_effect_kind {
    CR_EFF_CONNECT =
        1, /* id, path: non-blocking connect to a Unix stream socket; later effects name the connection by this id */
    CR_EFF_PROBE, /* id, path: connect and close again at once; CONNECTED answers, no connection is left */
    CR_EFF_CLOSE, /* conn */
    CR_EFF_RPC, /* id, conn, method, timeout_ms, flag (NodeGetInfo: controller_get_node_info; Notify: registered), text
                   (Notify: error) */
    CR_EFF_CANCEL_RPC, /* id */
    CR_EFF_API,        /* id, request */
    CR_EFF_CANCEL_API, /* id */
    CR_EFF_EVENT,      /* event: taken by the engine */
    CR_EFF_EXHAUSTED,  /* id: the input's token; result: enum csireg_exhausted_result, or a negative csireg_code */
    CR_EFF_LOG,        /* level, module, driver, path, text */
    CR_EFF_STOPPED,    /* after STOP: nothing is out any more */
};

struct cr_effect {
    struct cr_list node;
    enum cr_effect_kind kind;
    uint64_t id, conn;
    enum cr_rpc_method method;
    int64_t timeout_ms;
    bool flag;
    int result;
    char *path, *text, *driver;
    struct cr_api_request request;
    struct csireg_event *event;
    enum csireg_log_level level;
    const char *module; /* static */
};

void cr_effect_free(struct cr_effect *e);

/* ---- the machine ---- */

struct cr_core *cr_core_new(const struct cr_core_config *config, struct cr_time now); /* NULL: no memory */
void cr_core_free(struct cr_core *core); /* at any state; answers no longer come */

void cr_core_input(struct cr_core *core, struct cr_time now, struct cr_input *in);
struct cr_effect *cr_core_pop_effect(struct cr_core *core); /* oldest first; NULL when there is none */
int64_t cr_core_deadline(const struct cr_core *core);       /* monotonic ms of the next TICK; CR_NEVER */

/* ---- what others may see ---- */

struct csireg_driver {
    char *name, *endpoint, *version, *node_id;
    enum csireg_flow flow;
};
struct csireg_driver *cr_driver_copy(const struct csireg_driver *d); /* NULL: no memory */

/* Rises whenever lookup or status would answer otherwise. */
uint64_t cr_core_generation(const struct cr_core *core);
/* The initial scan is over and each of its sockets was tried once (or there is no first door). */
bool cr_core_initial_done(const struct cr_core *core);
/* The registered drivers: a NULL-terminated array, caller frees with cr_driver_array_free. NULL: no memory. */
struct csireg_driver **cr_core_drivers(const struct cr_core *core);
void cr_driver_array_free(struct csireg_driver **drivers);
/* "gates", "capabilities", "sockets", "drivers", "unclaimed" and the core's part of "api" (state, since, lastError) of
 * the status document; a new reference, parts of it shared and never changed afterwards. NULL: no memory. */
json_t *cr_core_status(struct cr_core *core);

#endif
