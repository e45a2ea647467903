/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lookups, status and metrics read: an immutable picture of the engine's state, counted, and the place where the
 * newest one hangs. The engine publishes; any thread takes a reference and reads it without touching the engine.
 */
#ifndef CR_ENGINE_SNAPSHOT_H
#define CR_ENGINE_SNAPSHOT_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "engine/metrics.h"

/* Parts of one status document live on in the next, on other threads. */
#if !JSON_HAVE_ATOMIC_BUILTINS && !JSON_HAVE_SYNC_BUILTINS
#error "jansson's reference counts are not atomic here"
#endif

struct cr_snapshot {
    atomic_int refs;
    bool initial_done;
    struct csireg_driver **drivers; /* NULL-terminated */
    json_t *status;
    struct cr_metrics *metrics; /* owned; NULL until it is set */
};

/* Takes drivers and status, also when it fails. NULL: no memory, or one of them is NULL. */
struct cr_snapshot *cr_snapshot_new(struct csireg_driver **drivers, json_t *status, bool initial_done);
void cr_snapshot_unref(struct cr_snapshot *s); /* NULL is fine */
const struct csireg_driver *cr_snapshot_driver(const struct cr_snapshot *s,
                                               const char *name); /* NULL: not registered */
char *
cr_snapshot_text(const struct cr_snapshot *s); /* the status document, the caller's; NULL: no memory or too long */

struct cr_board {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    /* below: under the mutex */
    struct cr_snapshot *current; /* NULL before the first */
    bool ended;                  /* the engine is gone */
};

int cr_board_init(struct cr_board *b); /* 0 or an errno; nothing to undo then */
void cr_board_fini(struct cr_board *b);
void cr_board_publish(struct cr_board *b, struct cr_snapshot *s); /* takes s */
void cr_board_end(struct cr_board *b);                            /* who waits is told */
struct cr_snapshot *cr_board_get(struct cr_board *b);             /* a new reference; NULL before the first */
/* Waits at most that long for a snapshot with initial_done: 0, TIMEOUT, or STATE when the engine ended. */
int cr_board_wait_initial(struct cr_board *b, int64_t timeout_ms);

#endif
