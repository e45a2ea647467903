/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long calls to drivers took, and all numbers of a manager as one picture that goes out with the snapshot.
 *
 * Latencies: engine thread. A call begins when it is given to gRPC and ends when its answer reaches the engine.
 * Counting allocates only for a series or a number of running calls that was never there before; when memory is short,
 * what does not fit is not counted. At most CR_MAX_MEASURED_DRIVERS names: then those that the core does not know any
 * more are dropped, and while there are none the call counts as an unknown driver's. The picture: made on the engine
 * thread, never changed afterwards.
 */
#ifndef CR_ENGINE_METRICS_H
#define CR_ENGINE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bounds.h"
#include "base/list.h"
#include "core/core.h"
#include "core/metrics.h"
#include "io/http.h"
#include "io/watcher.h"

#define CR_LATENCY_BUCKETS 13
extern const double cr_latency_bounds[CR_LATENCY_BUCKETS]; /* seconds, as the kubelet's */

struct cr_measured_driver {
    char name[CR_MAX_DRIVER_NAME + 1];
};

/* One series. */
struct cr_latency {
    unsigned driver;                             /* place in the list of names */
    const char *method;                          /* static: "/csi.v1.Node/NodeGetInfo" */
    int code;                                    /* gRPC */
    uint64_t count, buckets[CR_LATENCY_BUCKETS]; /* each with those before it */
    double seconds;                              /* of all together */
};

struct cr_latencies {
    struct cr_measured_driver *drivers; /* the first one stands for every unknown driver */
    size_t n_drivers, cap_drivers;
    struct cr_latency *series;
    size_t n_series, cap_series;
    struct cr_list running, spare; /* calls */
};

void cr_latencies_init(struct cr_latencies *l);
void cr_latencies_fini(struct cr_latencies *l);
/* driver: a checked name, or NULL while it is unknown. Each begun id ends once. */
void cr_latencies_begin(struct cr_latencies *l, uint64_t id, const char *driver, enum cr_rpc_method method,
                        int64_t now_us);
void cr_latencies_end(struct cr_latencies *l, const struct cr_core *core, uint64_t id, int code, int64_t now_us);

struct cr_metrics {
    struct cr_numbers core;
    struct cr_measured_driver *drivers;
    struct cr_latency *latencies;
    size_t n_latencies;
    struct cr_http_tally *requests;
    size_t n_requests;
    bool has_registry; /* the first door is in use; what follows counts only then */
    enum cr_watcher_mode registry_mode;
    size_t registry_sockets;
    uint64_t registry_scans;
};

/* registry NULL: no first door. NULL: no memory. */
struct cr_metrics *cr_metrics_new(const struct cr_core *core, const struct cr_latencies *latencies,
                                  const struct cr_http *http, const struct cr_watcher_status *registry);
void cr_metrics_free(struct cr_metrics *m);

#endif
