/* SPDX-License-Identifier: Apache-2.0 */
#include "api/metrics.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "csireg/version.h"

#define MAX_LABELS 4
#define COUNT(a)   (sizeof(a) / sizeof *(a))

struct row {
    struct csireg_metric metric;
    const char *labels[MAX_LABELS];
    char number[12]; /* a label that is one */
};

struct csireg_metrics {
    struct cr_snapshot *snapshot; /* whose names and arrays the rows show */
    size_t n;
    struct row rows[];
};

/* ---- families ---- */

struct family {
    enum csireg_metric_type type;
    const char *name, *help, *labels[MAX_LABELS];
};

#define COUNTER   CSIREG_METRIC_COUNTER
#define GAUGE     CSIREG_METRIC_GAUGE
#define HISTOGRAM CSIREG_METRIC_HISTOGRAM

static const struct family operations = {HISTOGRAM,
                                         "csi_operations_seconds",
                                         "Duration of calls to CSI drivers and their registrars.",
                                         {"driver_name", "method_name", "grpc_status_code", "migrated"}};
static const struct family attempts = {
    COUNTER, "csireg_registration_attempts_total", "Attempts to register a plugin that were begun.", {NULL}};
static const struct family retries = {
    COUNTER, "csireg_registration_retries_total", "Attempts that followed a failed one.", {NULL}};
static const struct family failures = {COUNTER,
                                       "csireg_registration_failures_total",
                                       "Attempts that failed, by the step at which they did.",
                                       {"step", "class"}};
static const struct family drivers = {GAUGE, "csireg_drivers", "CSI drivers by state and flow.", {"state", "flow"}};
static const struct family sockets = {GAUGE, "csireg_sockets", "Registration sockets by state.", {"state"}};
static const struct family refreshes = {
    COUNTER, "csireg_refreshes_total", "Times that a driver was asked for its volume limit again.", {"result"}};
static const struct family requests = {
    COUNTER, "csireg_api_requests_total", "Requests to the API server that ended.", {"verb", "resource", "code"}};
static const struct family conflicts = {
    COUNTER, "csireg_api_conflicts_total", "Writes that met another writer's change.", {"resource"}};
static const struct family api_retries = {
    COUNTER, "csireg_api_retries_total", "Pauses before the API server was asked again.", {NULL}};
static const struct family api_state = {GAUGE, "csireg_api_state", "Whether the API server is usable.", {"state"}};
static const struct family restarts = {
    COUNTER, "csireg_watch_restarts_total", "Watches that were begun after the first one.", {"resource"}};
static const struct family scans = {
    COUNTER, "csireg_registry_scans_total", "Full scans of the registry directory.", {NULL}};
static const struct family registry_sockets = {
    GAUGE, "csireg_registry_sockets", "Sockets seen below the registry directory.", {NULL}};
static const struct family registry_mode = {
    GAUGE, "csireg_registry_mode", "How the registry directory is watched.", {"mode"}};
static const struct family queue = {
    GAUGE, "csireg_event_queue_length", "Events that the host has not read yet.", {NULL}};
static const struct family feature = {GAUGE, "csireg_feature_enabled", "Whether a feature gate is on.", {"name"}};
static const struct family build = {GAUGE,
                                    "csireg_build_info",
                                    "Version of the library, number of the capability NODE_INFO_FROM_CONTROLLER.",
                                    {"version", "capability"}};

/* ---- rows ---- */

/* The labels are filled by the caller, in the family's order. */
static struct row *add(struct csireg_metrics *m, const struct family *f, double value)
{
    struct row *r = &m->rows[m->n++];
    r->metric = (struct csireg_metric){.size = sizeof r->metric,
                                       .type = f->type,
                                       .name = f->name,
                                       .help = f->help,
                                       .label_names = f->labels,
                                       .label_values = r->labels,
                                       .value = value};
    while (r->metric.n_labels < MAX_LABELS && f->labels[r->metric.n_labels]) r->metric.n_labels++;
    return r;
}

static void add_labelled(struct csireg_metrics *m, const struct family *f, double value, const char *first,
                         const char *second)
{
    struct row *r = add(m, f, value);
    r->labels[0] = first;
    r->labels[1] = second;
}

static void add_counter(struct csireg_metrics *m, const struct family *f, uint64_t n) { add(m, f, (double)n); }

/* The names of gRPC codes as Go has them, which is what the kubelet shows. */
static const char *grpc_code_name(int code)
{
    static const char *const names[] = {
        "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
        "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
        "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
        "DataLoss", "Unauthenticated"};
    return code >= 0 && code < (int)COUNT(names) ? names[code] : "Unknown";
}

static void add_operations(struct csireg_metrics *m, const struct cr_metrics *from)
{
    for (size_t i = 0; i < from->n_latencies; i++) {
        const struct cr_latency *l = &from->latencies[i];
        struct row *r = add(m, &operations, l->seconds);
        r->labels[0] = from->drivers[l->driver].name;
        r->labels[1] = l->method;
        r->labels[2] = grpc_code_name(l->code);
        r->labels[3] = "false";
        r->metric.count = l->count;
        r->metric.n_buckets = CR_LATENCY_BUCKETS;
        r->metric.bounds = cr_latency_bounds;
        r->metric.buckets = l->buckets;
    }
}

static void add_registrations(struct csireg_metrics *m, const struct cr_numbers *from)
{
    static const char *const classes[] = {"transient", "persistent"};
    static const char *const flows[] = {"undecided", "node", "controller"};
    static const char *const results[] = {NULL, "refreshed", "unchanged", "failed"};
    add_counter(m, &attempts, from->counters.attempts);
    add_counter(m, &retries, from->counters.retries);
    for (int s = 0; s < CR_STEP_COUNT; s++)
        for (int c = 0; c < 2; c++)
            add_labelled(m, &failures, (double)from->counters.failures[s][c], cr_step_name((enum cr_step)s),
                         classes[c]);
    for (int s = 0; s < CR_DRIVER_STATE_COUNT; s++)
        for (int f = 0; f < CR_FLOW_COUNT; f++)
            add_labelled(m, &drivers, (double)from->drivers[s][f], cr_driver_state_name((enum cr_driver_state)s),
                         flows[f]);
    for (int s = 0; s < CR_STATE_COUNT; s++)
        add_labelled(m, &sockets, (double)from->sockets[s], cr_state_name((enum cr_state)s), NULL);
    for (int r = CSIREG_EXHAUSTED_REFRESHED; r <= CSIREG_EXHAUSTED_FAILED; r++)
        add_labelled(m, &refreshes, (double)from->counters.refreshes[r], results[r], NULL);
}

static const char *code_text(struct row *r, int code)
{
    static const char *const transports[] = {[CR_TRANSPORT_OK] = "other",
                                             [CR_TRANSPORT_CONNECT] = "connect",
                                             [CR_TRANSPORT_TLS] = "tls",
                                             [CR_TRANSPORT_TIMEOUT] = "timeout",
                                             [CR_TRANSPORT_BROKEN] = "broken",
                                             [CR_TRANSPORT_TOO_LARGE] = "too-large",
                                             [CR_TRANSPORT_CREDENTIALS] = "credentials",
                                             [CR_TRANSPORT_CANCELLED] = "cancelled",
                                             [CR_TRANSPORT_NOMEM] = "nomem"};
    if (code <= 0) return transports[-code];
    snprintf(r->number, sizeof r->number, "%d", code);
    return r->number;
}

static void add_api(struct csireg_metrics *m, const struct cr_metrics *from)
{
    static const char *const states[] = {"ok", "waiting", "refused", "local-only"};
    for (size_t i = 0; i < from->n_requests; i++) {
        const struct cr_http_tally *t = &from->requests[i];
        struct row *r = add(m, &requests, (double)t->n);
        r->labels[0] = t->verb;
        r->labels[1] = t->resource;
        r->labels[2] = code_text(r, t->code);
    }
    add_labelled(m, &conflicts, (double)from->core.counters.node_conflicts, "nodes", NULL);
    add_labelled(m, &conflicts, (double)from->core.counters.csinode_conflicts, "csinodes", NULL);
    add_counter(m, &api_retries, from->core.counters.api_retries);
    for (size_t i = 0; i < COUNT(states); i++)
        add_labelled(m, &api_state, strcmp(from->core.api_state, states[i]) == 0, states[i], NULL);
    uint64_t watches = from->core.counters.watches;
    add_labelled(m, &restarts, watches ? (double)(watches - 1) : 0, "csidrivers", NULL);
}

static void add_registry(struct csireg_metrics *m, const struct cr_metrics *from)
{
    static const struct {
        enum cr_watcher_mode mode;
        const char *name;
    } modes[] = {{CR_WATCHER_INOTIFY, "inotify"}, {CR_WATCHER_POLLING, "polling"}, {CR_WATCHER_WAITING, "waiting"}};
    if (!from->has_registry) return;
    add_counter(m, &scans, from->registry_scans);
    add(m, &registry_sockets, (double)from->registry_sockets);
    for (size_t i = 0; i < COUNT(modes); i++)
        add_labelled(m, &registry_mode, from->registry_mode == modes[i].mode, modes[i].name, NULL);
}

static void add_rest(struct csireg_metrics *m, const struct cr_numbers *from, size_t queued_events)
{
    add(m, &queue, (double)queued_events);
    add_labelled(m, &feature, from->gate, "CSIControllerGetNodeInfo", NULL);
    struct row *r = add(m, &build, 1);
    snprintf(r->number, sizeof r->number, "%d", (int)from->capability);
    r->labels[0] = CSIREG_VERSION;
    r->labels[1] = r->number;
}

/* ---- all of it ---- */

/* Rows besides latencies and requests: steps by class, states by flow, and less than 32 of everything else. */
#define FIXED_ROWS (2 * CR_STEP_COUNT + CR_DRIVER_STATE_COUNT * CR_FLOW_COUNT + CR_STATE_COUNT + 32)

struct csireg_metrics *cr_metrics_list(struct cr_snapshot *snapshot, size_t queued_events)
{
    const struct cr_metrics *from = snapshot->metrics;
    size_t cap = FIXED_ROWS + from->n_latencies + from->n_requests;
    struct csireg_metrics *m = cr_calloc(1, sizeof *m + cap * sizeof m->rows[0]);
    if (!m) {
        cr_snapshot_unref(snapshot);
        return NULL;
    }
    m->snapshot = snapshot;
    add_operations(m, from);
    add_registrations(m, &from->core);
    add_api(m, from);
    add_registry(m, from);
    add_rest(m, &from->core, queued_events);
    return m;
}

const struct csireg_metric *csireg_metrics_get(const struct csireg_metrics *m, size_t i)
{
    return m && i < m->n ? &m->rows[i].metric : NULL;
}

void csireg_metrics_free(struct csireg_metrics *m)
{
    if (!m) return;
    cr_snapshot_unref(m->snapshot);
    cr_free(m);
}
