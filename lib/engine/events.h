/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of events between the engine, which pushes, and the host, which pops. Any thread; one mutex of its own.
 *
 * One descriptor tells whether something is queued: an eventfd (CLOEXEC, non-blocking), readable exactly while the
 * queue is not empty. The queue is level-style: what the newest state says already is not kept twice, so a host that
 * never reads costs at most CR_MAX_EVENTS records.
 *
 * - REGISTERED, UNREGISTERED, CHANGED: one record per driver, the newest. A CHANGED that meets an unread REGISTERED
 *   leaves a REGISTERED with the new values: the host has not seen the driver yet.
 * - FAILED: one record per socket (per driver where there is no socket); a later REGISTERED of that socket removes it.
 * - WARNING: equal ones once, CR_MAX_PENDING_WARNINGS in all; the oldest gives way.
 * - PLUGIN: never merged. One that its socket's next PLUGIN or its own PLUGIN_GONE overtakes unread is dead and
 * dropped.
 * - STOPPED: the last; nothing is taken after it.
 * A record that replaces another goes to the end of the queue, so generations rise from first to last.
 */
#ifndef CR_ENGINE_EVENTS_H
#define CR_ENGINE_EVENTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "core/event.h"

struct cr_events {
    int fd; /* constant after init */
    pthread_mutex_t mutex;
    /* below: under the mutex */
    struct cr_list queue; /* of struct csireg_event */
    size_t n, n_warnings, n_plugins;
    uint64_t generation; /* of the last event pushed */
    bool ended;          /* STOPPED was pushed */
};

int cr_events_init(struct cr_events *q); /* 0 or an errno; nothing to undo then */
void cr_events_fini(struct cr_events *q);

void cr_events_push(struct cr_events *q, struct csireg_event *event); /* takes the event, gives it its generation */
struct csireg_event *cr_events_pop(struct cr_events *q);              /* oldest first, the caller's; NULL: none */
size_t cr_events_length(struct cr_events *q);

#endif
