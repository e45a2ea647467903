/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the core counts, and how many there are of each kind now. Plain numbers: a counter rises where the thing
 * happens, the rest is counted when somebody asks. Nothing here allocates.
 */
#ifndef CR_CORE_METRICS_H
#define CR_CORE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/states.h"
#include "csireg/manager.h"

struct cr_core;

/* The steps that a failure names (csireg_error_step), in the order of an attempt. */
#define CR_STEPS(X)                                                                                                    \
    X(DISCOVERY, "discovery")                                                                                          \
    X(CONNECT, "connect")                                                                                              \
    X(GET_INFO, "GetInfo")                                                                                             \
    X(HANDLER, "handler")                                                                                              \
    X(NODE_GET_CAPABILITIES, "NodeGetCapabilities")                                                                    \
    X(CSIDRIVER, "CSIDriver")                                                                                          \
    X(NODE_GET_INFO, "NodeGetInfo")                                                                                    \
    X(PUBLISH, "publish")                                                                                              \
    X(NOTIFY, "NotifyRegistrationStatus")                                                                              \
    X(ENDPOINT, "endpoint")                                                                                            \
    X(OTHER, "other")

enum cr_step {
#define X(name, text) CR_STEP_##name,
    CR_STEPS(X)
#undef X
        CR_STEP_COUNT
};

const char *cr_step_name(enum cr_step step);

/* A driver's state in status, from the driver's side; that of a socket is enum cr_state. */
enum cr_driver_state {
    CR_DRIVER_REGISTERING,
    CR_DRIVER_REGISTERED,
    CR_DRIVER_UNCONFIRMED,
    CR_DRIVER_REMOVING,
    CR_DRIVER_STATE_COUNT
};

const char *cr_driver_state_name(enum cr_driver_state state);

/* CR_FLOW_UNDECIDED: not known yet, or nothing is to be published. */
enum cr_flow_count { CR_FLOW_UNDECIDED, CR_FLOW_IN_NODE, CR_FLOW_IN_CONTROLLER, CR_FLOW_COUNT };

struct cr_counters {
    uint64_t attempts, retries;          /* begun; of these because an earlier one had failed */
    uint64_t failures[CR_STEP_COUNT][2]; /* [1]: persistent */
    uint64_t node_conflicts, csinode_conflicts;
    uint64_t api_retries; /* pauses before the API server is asked again: conflict, outage, answer of no use */
    uint64_t watches;     /* of CSIDrivers, begun */
    uint64_t refreshes[CSIREG_EXHAUSTED_FAILED + 1]; /* by result; [0] unused */
};

void cr_count_failure(struct cr_counters *c, const char *step, bool persistent);
void cr_count_refresh(struct cr_counters *c, int result); /* enum csireg_exhausted_result; a code counts as nothing */

struct cr_numbers {
    struct cr_counters counters;
    size_t sockets[CR_STATE_COUNT];
    size_t drivers[CR_DRIVER_STATE_COUNT][CR_FLOW_COUNT];
    const char *api_state; /* static: "ok", "waiting", "refused", "local-only" */
    bool gate;
    int32_t capability; /* the number of NODE_INFO_FROM_CONTROLLER */
};

void cr_core_numbers(const struct cr_core *core, struct cr_numbers *out);
bool cr_core_knows(const struct cr_core *core, const char *driver); /* somebody has the name, or it is being removed */

#endif
