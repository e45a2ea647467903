/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a manager counts and measures, as numbers for whatever the host exports them with. csireg_manager_metrics takes
 * a picture; csireg_metrics_get goes through it, one record for each combination of labels:
 *
 *     const struct csireg_metric *m;
 *     for (size_t i = 0; (m = csireg_metrics_get(metrics, i)) != NULL; i++) ...
 *
 * Names, types and labels are made for Prometheus, and are part of the interface; records may be added. Those of one
 * name are neighbours. The numbers begin with the manager, not with the process.
 *
 *   csi_operations_seconds                  HISTOGRAM  driver_name, method_name, grpc_status_code, migrated
 *       Calls to drivers and registrars, as the kubelet measures them: same labels and buckets. method_name is the full
 *       gRPC method, grpc_status_code a name such as OK or DeadlineExceeded, migrated always "false". driver_name is
 *       "unknown-driver" until the name is known and accepted. Names of drivers that are gone are dropped when there
 *       are more than 1,024.
 *   csireg_registration_attempts_total      COUNTER
 *   csireg_registration_retries_total       COUNTER    attempts that followed a failed one
 *   csireg_registration_failures_total      COUNTER    step (csireg_error_step), class ("transient", "persistent")
 *   csireg_drivers                          GAUGE      state, flow (both as in status; flow "undecided" too)
 *   csireg_sockets                          GAUGE      state (of the registration socket, as in status)
 *   csireg_refreshes_total                  COUNTER    result ("refreshed", "unchanged", "failed")
 *   csireg_api_requests_total               COUNTER    verb, resource, code
 *       Requests to the API server, counted when they end. code is the HTTP status; without an answer "connect", "tls",
 *       "timeout", "broken", "too-large", "credentials", "cancelled" or "nomem"; "other" past 256 combinations.
 *   csireg_api_conflicts_total              COUNTER    resource: writes that met another writer's
 *   csireg_api_retries_total                COUNTER    pauses before the API server is asked again
 *   csireg_api_state                        GAUGE      state (as in status): 1 for the one it is in, else 0
 *   csireg_watch_restarts_total             COUNTER    resource ("csidrivers")
 *   csireg_registry_scans_total             COUNTER    with plugins-registry-dir only, like the two that follow
 *   csireg_registry_sockets                 GAUGE
 *   csireg_registry_mode                    GAUGE      mode (as in status): 1 for the one it is in, else 0
 *   csireg_event_queue_length               GAUGE      events that the host has not read
 *   csireg_feature_enabled                  GAUGE      name ("CSIControllerGetNodeInfo"): 1 or 0
 *   csireg_build_info                       GAUGE      version, capability (the number of NODE_INFO_FROM_CONTROLLER)
 */
#ifndef CSIREG_METRICS_H
#define CSIREG_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include <csireg/version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct csireg_manager;
struct csireg_metrics;

/* Values never change; new ones are appended. */
enum csireg_metric_type {
    CSIREG_METRIC_COUNTER = 1,  /* only rises */
    CSIREG_METRIC_GAUGE = 2,    /* rises and falls */
    CSIREG_METRIC_HISTOGRAM = 3 /* observations sorted into buckets */
};

/* One record. Strings are UTF-8, never NULL, and live as long as the metrics, like the arrays. */
struct csireg_metric {
    size_t size; /* of this struct in the library; later releases may append fields */
    enum csireg_metric_type type;
    const char *name; /* "csireg_drivers" */
    const char *help; /* one sentence */
    size_t n_labels;
    const char *const *label_names;
    const char *const *label_values; /* a driver's name is the only one that comes from outside */
    double value;                    /* HISTOGRAM: the sum of all observations, in seconds */
    /* HISTOGRAM only, else 0 and NULL */
    uint64_t count; /* observations */
    size_t n_buckets;
    const double *bounds;    /* upper bound of each bucket, inclusive, rising; the last bucket, +Inf, is left out */
    const uint64_t *buckets; /* observations up to that bound, those of the buckets before included */
};

/*
 * The numbers of now: what the engine published last, and the queue's length. Read on the caller's thread, like status,
 * and legal when status is. *out_metrics never changes, is the caller's, outlives the manager, and may be read by
 * several threads. STATE also when the manager was stopped without having been started. INVALID: manager or out_metrics
 * is NULL. FORKED, NOMEM.
 */
CSIREG_API int csireg_manager_metrics(struct csireg_manager *manager, struct csireg_metrics **out_metrics);

/* Record i; NULL past the last one, and for NULL. Borrowed from the metrics. */
CSIREG_API const struct csireg_metric *csireg_metrics_get(const struct csireg_metrics *metrics, size_t i);

/* NULL is fine. */
CSIREG_API void csireg_metrics_free(struct csireg_metrics *metrics);

#ifdef __cplusplus
}
#endif

#endif
