/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread that owns every mutable object of a manager: turns what happened into inputs of the core, carries out its
 * effects, publishes snapshots and events for the host. The facade (lib/api) is its only user.
 *
 * Life: new -> start -> stop -> free; new -> stop -> free and new -> free too. start may be tried again after it
 * failed. The callers of start, stop and free see to it that only one of them runs at a time; everything else is for
 * any thread between new and free.
 */
#ifndef CR_ENGINE_ENGINE_H
#define CR_ENGINE_ENGINE_H

#include "core/core.h"
#include "engine/answers.h"
#include "engine/events.h"
#include "engine/mailbox.h"
#include "engine/snapshot.h"
#include "io/access.h"
#include "io/watcher.h"

struct cr_engine;

/* Strings and lists are borrowed until cr_engine_free. */
struct cr_engine_config {
    struct cr_core_config core;
    struct cr_watcher_config registry; /* path NULL: no first door */
    struct cr_access *access;          /* taken when cr_engine_new succeeds; NULL: local only */
    uint32_t *owners;                  /* the array behind core.allowed_owners; taken likewise */
    csireg_log_fn *log;                /* called on the engine thread; NULL: silent */
    void *log_user;
    enum csireg_log_level log_level;
};

int cr_engine_new(struct cr_engine **out, const struct cr_engine_config *config, struct csireg_error **error);
void cr_engine_free(struct cr_engine *engine); /* not between start and stop; NULL is fine */

/* Ready, or as if it had never been called. The first snapshot is there afterwards. */
int cr_engine_start(struct cr_engine *engine, struct csireg_error **error);
/* Cancels everything, waits until each started effect has ended, joins. Snapshots and events stay readable; STOPPED is
 * the last event. Also for an engine that was never started. */
void cr_engine_stop(struct cr_engine *engine);

bool cr_engine_is_self(const struct cr_engine *engine); /* the caller is the engine's own thread (a log callback) */

/* Takes the command, also when it fails: LIMIT, or STATE before start and after stop. */
int cr_engine_post(struct cr_engine *engine, struct cr_command *command);

struct cr_events *cr_engine_events(struct cr_engine *engine);
struct cr_board *cr_engine_board(struct cr_engine *engine);
struct cr_answers *cr_engine_answers(struct cr_engine *engine); /* to posted EXHAUSTED commands */

#endif
