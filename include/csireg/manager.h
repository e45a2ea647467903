/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manager: registers CSI drivers on one node, the way the kubelet does, and publishes them in Node and CSINode.
 *
 * Drivers reach it through three doors, which may all be used at once:
 *   1. it watches a registry directory itself (option plugins-registry-dir);
 *   2. the host reports registration sockets: csireg_manager_socket_seen, _socket_gone;
 *   3. the host did the handshake itself: csireg_manager_driver_register, _driver_deregister.
 * A registration socket belongs to one door: do not report sockets below the watched registry.
 * One registry and one node name belong to one manager; a kubelet must not serve the same.
 *
 * Threads: every call but free may be made from any thread, several at a time. None waits for a driver, a file or a
 * server, but for stop (until what was started is cancelled) and the two that say how long they may wait. A manager has
 * two threads of its own, however many drivers there are, besides those of gRPC; all signals are blocked in them.
 *
 * Which call is legal when:
 *
 *                    new   started   stopped   log callback   child after fork
 *   start            yes     -         -           -               -
 *   stop             yes    yes       yes          -               -
 *   free             yes    yes       yes          -           does nothing
 *   fd               yes    yes       yes         yes              -
 *   next_event       yes    yes       yes          -               -
 *   status_json       -     yes       yes          -               -
 *   metrics           -     yes       yes          -               -
 *   all others        -     yes        -           -               -
 *
 * A call out of turn fails with STATE, in a child of the process that made the manager with FORKED; a NULL manager is
 * INVALID. These three codes may come from every call and are not listed at each again. fork followed by exec is fine:
 * all descriptors are CLOEXEC.
 */
#ifndef CSIREG_MANAGER_H
#define CSIREG_MANAGER_H

#include <stddef.h>
#include <stdint.h>

#include <csireg/error.h>
#include <csireg/event.h>
#include <csireg/options.h>
#include <csireg/version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct csireg_manager;
struct csireg_driver;

/* ---- life cycle ---- */

/*
 * Copies the options, checks them together and finds the API server: reads the kubeconfig or credential files and,
 * where neither kubeconfig, api-server nor local-only is set, the environment's KUBERNETES_SERVICE_HOST and _PORT. No
 * thread is started, nothing is connected to.
 *
 * INVALID: node-name is missing, or options exclude each other. CONFIG: kubeconfig or credentials are wrong, or there
 * are none. SYSTEM: no descriptor for events. LIMIT: a file is too large. NOMEM.
 */
CSIREG_API int csireg_manager_new(const struct csireg_options *options, struct csireg_manager **out_manager,
                                  struct csireg_error **error);

/*
 * Starts the threads and, with plugins-registry-dir, the initial scan; returns before that is over (see wait_initial).
 * A registry that is missing and an API server that does not answer are no failures: both are waited for. On failure
 * nothing is left behind and start may be called again. SYSTEM: no thread or descriptor. CONFIG, LIMIT, NOMEM.
 */
CSIREG_API int csireg_manager_start(struct csireg_manager *manager, struct csireg_error **error);

/*
 * Accepts nothing new, cancels what runs, ends the threads. Nothing is undone in the cluster and no plugin is notified:
 * a later start goes on from what it finds. Never waits for a driver or a server. The last event is STOPPED; events and
 * status stay readable until free. Idempotent; several callers all return once the manager has stopped. A manager that
 * was never started is stopped too and cannot be started any more. Returns 0.
 */
CSIREG_API int csireg_manager_stop(struct csireg_manager *manager);

/* Stops if need be and frees all, unread events included. NULL is fine. No other call may run or follow. In a child
 * process, and from the log callback, it does nothing. */
CSIREG_API void csireg_manager_free(struct csireg_manager *manager);

/* ---- events ---- */

/*
 * A descriptor for poll, epoll and the like: readable exactly while an event is queued. The same from new to free, and
 * the manager's: neither read nor close it. Negative: an error code.
 */
CSIREG_API int csireg_manager_fd(const struct csireg_manager *manager);

/* The oldest event: 1 and *out_event, which is the caller's (csireg_event_free); 0 when none is queued; or a negative
 * code. INVALID: out_event is NULL. Does not wait. */
CSIREG_API int csireg_manager_next_event(struct csireg_manager *manager, struct csireg_event **out_event);

/* ---- second door: registration sockets that the host found ---- */

/*
 * "There is a registration socket at path (again)." A hint: the path is looked at, and what is there decides, so
 * reporting a socket twice starts nothing twice, a replaced socket starts over, and what is not a socket is logged and
 * ignored. The path is absolute, at most 4,095 bytes, and is compared by its bytes. At most 1,024 sockets and drivers
 * of all doors. INVALID: the path breaks that. LIMIT: 65,536 calls wait for the engine. NOMEM.
 */
CSIREG_API int csireg_manager_socket_seen(struct csireg_manager *manager, const char *path,
                                          struct csireg_error **error);

/* "It is gone": taken at its word, even if a file is still there; its driver is unregistered. A path that was not
 * reported is ignored. Errors as above. */
CSIREG_API int csireg_manager_socket_gone(struct csireg_manager *manager, const char *path,
                                          struct csireg_error **error);

/* ---- third door: drivers that the host shook hands with ---- */

/*
 * Registers the driver that serves csi.v1.Node at endpoint: an absolute path, "unix:" before it is taken off. versions:
 * what its registration said it supports; the highest of major version 1 is chosen. There is no GetInfo and no
 * notification: the outcome is an event (REGISTERED, or FAILED for a bad name, endpoint or version too). The same name
 * and endpoint again starts nothing twice. INVALID: a text is empty, not UTF-8 or too long (name 253 bytes, version 64;
 * 64 versions). LIMIT: 65,536 calls wait for the engine. NOMEM.
 */
CSIREG_API int csireg_manager_driver_register(struct csireg_manager *manager, const char *name, const char *endpoint,
                                              const char *const *versions, size_t n_versions,
                                              struct csireg_error **error);

/* Unregisters what was registered with exactly this name and endpoint; anything else is ignored. Errors as above. */
CSIREG_API int csireg_manager_driver_deregister(struct csireg_manager *manager, const char *name, const char *endpoint,
                                                struct csireg_error **error);

/* ---- questions: answered at once, from the state that the latest events told ---- */

/*
 * The registered driver of that name, as a copy that the caller frees. NOT_REGISTERED. NOT_READY: not registered so
 * far, and the initial scan of the registry is not over (wait_initial). INVALID: name or out_driver is NULL. NOMEM.
 */
CSIREG_API int csireg_manager_lookup(struct csireg_manager *manager, const char *name,
                                     struct csireg_driver **out_driver);

/*
 * Everything, for people and tools: why is my driver not registered? JSON, UTF-8, one line, at most 64 MiB; the caller
 * gives it to free(). Times are RFC 3339, what is unknown is absent, fields may be added:
 *
 *   version       1
 *   library       version of the library
 *   node          name
 *   gates         CSIControllerGetNodeInfo: true or false
 *   capabilities  NODE_INFO_FROM_CONTROLLER: its number
 *   registry      path, resolved, mode ("inotify", "polling", "waiting", "none"), sockets, lastEvent, initialScanDone,
 *                 warnings
 *   api           server, source ("kubeconfig", "in-cluster", "explicit", "none"), state ("ok", "waiting", "refused",
 *                 "local-only"), since, lastError, requests (number by verb and resource, like "get csinodes"),
 *                 warnings
 *
 *   sockets       one for each registration socket: path, driver, type, state, active, attempts, since, nextTry,
 *                 lastError
 *
 *   drivers       name, endpoint, version, nodeID, flow ("node", "controller"), state ("registering", "registered",
 *                 "unconfirmed", "removing"), since, publishedSince, waitingForControllerSince, completed,
 *                 unreachableSince, pending, warnings
 *
 *   unclaimed     names in the CSINode that no driver of this manager has
 *   labelsAdded   labels of the Node that this manager added, with their values; absent while there are none
 *
 * lastError: code, origin, number, step, message, time, class ("transient", "persistent").
 * INVALID: out_text is NULL. STATE also when the manager was stopped without having been started. NOMEM.
 */
CSIREG_API int csireg_manager_status_json(struct csireg_manager *manager, char **out_text);

/*
 * Waits until each socket that the initial scan found was tried once: from then on lookup tells "not registered" from
 * "not ready". At once without plugins-registry-dir. TIMEOUT after that many milliseconds (0: only looks). STATE also
 * when the manager is stopped meanwhile. INVALID: milliseconds is negative.
 */
CSIREG_API int csireg_manager_wait_initial(struct csireg_manager *manager, int64_t milliseconds);

/* ---- commands ---- */

/*
 * Tries again now what waits for its next attempt: the driver of that name, the socket at that path, or all for NULL.
 * The API server is tried again at once too, and with NULL what is published is verified: Node and CSINode are read and
 * what is missing of ours is repaired. A driver whose failure is still being reported to its plugin tries again right
 * after that; what does not wait otherwise is left alone. INVALID: the text is empty, not UTF-8 or
 * longer than 4,095 bytes. LIMIT: 65,536 calls wait for the engine. NOMEM.
 */
CSIREG_API int csireg_manager_retry(struct csireg_manager *manager, const char *name_or_path,
                                    struct csireg_error **error);

/*
 * Answers a PLUGIN event: ok (not 0) or not, with the reason. The plugin is notified; text (NULL reads as "") is used
 * when ok is 0, at most 1,024 bytes of it. A token that no longer waits is ignored. INVALID: the token is 0. LIMIT:
 * 65,536 calls wait for the engine. NOMEM.
 */
CSIREG_API int csireg_manager_plugin_result(struct csireg_manager *manager, uint64_t token, int ok, const char *text,
                                            struct csireg_error **error);

/* Values never change; new ones are appended. */
enum csireg_exhausted_result {
    CSIREG_EXHAUSTED_REFRESHED = 1, /* the driver reports another limit, and it is published */
    CSIREG_EXHAUSTED_UNCHANGED = 2, /* the driver reports the limit that is published */
    CSIREG_EXHAUSTED_FAILED = 3,    /* the driver or the API server did not answer as hoped */
    CSIREG_EXHAUSTED_NO_PERIOD = 4, /* the driver's CSIDriver object does not ask for refreshes */
    CSIREG_EXHAUSTED_DELEGATED = 5  /* controller flow: refreshing is the controller side's (KEP-6011) */
};

/*
 * The host saw an attachment fail with RESOURCE_EXHAUSTED (code 8): asks the driver for its limit again where its
 * CSIDriver object has a nodeAllocatableUpdatePeriodSeconds, and publishes it. Waits at most that many milliseconds for
 * the outcome; runs of one driver are shared by their callers and start at least 2 s apart.
 * TIMEOUT: the run goes on. NOT_REGISTERED: as lookup. NOT_READY: as lookup, or the CSIDriver objects were not read
 * yet. STATE also when the manager is stopped meanwhile. INVALID: name is NULL, empty, not UTF-8 or longer than 253
 * bytes, out_result is NULL, or milliseconds is negative. LIMIT: 65,536 calls wait for the engine. NOMEM.
 */
CSIREG_API int csireg_manager_exhausted(struct csireg_manager *manager, const char *name, int64_t milliseconds,
                                        enum csireg_exhausted_result *out_result);

/* ---- a registered driver, as lookup found it ---- */

/* A copy of its own: outlives the manager, never changes, any thread. NULL reads as "" and NODE. Strings are never NULL
 * and live as long as the driver. */
CSIREG_API const char *csireg_driver_name(const struct csireg_driver *driver);
CSIREG_API const char *csireg_driver_endpoint(const struct csireg_driver *driver); /* absolute path of its socket */
CSIREG_API const char *
csireg_driver_version(const struct csireg_driver *driver); /* the one chosen of those it supports */
CSIREG_API const char *csireg_driver_node_id(const struct csireg_driver *driver); /* as its NodeGetInfo said */
CSIREG_API enum csireg_flow csireg_driver_flow(const struct csireg_driver *driver);
CSIREG_API void csireg_driver_free(struct csireg_driver *driver); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
