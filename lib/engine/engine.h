/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread that owns every mutable object of a manager: turns what happened into inputs of the core, carries out its
 * effects, publishes snapshots and events for the host. The facade (lib/api) is its only user.
 */
#ifndef CR_ENGINE_ENGINE_H
#define CR_ENGINE_ENGINE_H

#include "core/core.h"
#include "io/access.h"
#include "io/watcher.h"

struct cr_engine;

struct cr_engine_config {
    struct cr_core_config core;
    struct cr_watcher_config registry; /* path NULL: no first door */
    struct cr_access *access;          /* taken; NULL: local only */
    csireg_log_fn *log;
    void *log_user;
    enum csireg_log_level log_level;
};

/* What lookup and status read: immutable, counted. */
struct cr_snapshot {
    int refs; /* atomic */
    bool initial_done;
    struct csireg_driver **drivers; /* NULL-terminated */
    json_t *status;
};

#endif
