/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/events.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bounds.h"

#define EVENT(l) CR_CONTAINER(l, struct csireg_event, node)

int cr_events_init(struct cr_events *q)
{
    *q = (struct cr_events){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (q->fd < 0) return errno;
    cr_list_init(&q->queue);
    int rc = pthread_mutex_init(&q->mutex, NULL);
    if (rc != 0) close(q->fd);
    return rc;
}

void cr_events_fini(struct cr_events *q)
{
    CR_LIST_FOREACH_SAFE (it, &q->queue) csireg_event_free(EVENT(it));
    pthread_mutex_destroy(&q->mutex);
    close(q->fd);
}

static void put(struct cr_events *q, struct csireg_event *e)
{
    cr_list_append(&q->queue, &e->node);
    q->n++;
    q->n_warnings += e->kind == CSIREG_EVENT_WARNING;
    q->n_plugins += e->kind == CSIREG_EVENT_PLUGIN;
}

static struct csireg_event *take(struct cr_events *q, struct csireg_event *e)
{
    cr_list_remove(&e->node);
    q->n--;
    q->n_warnings -= e->kind == CSIREG_EVENT_WARNING;
    q->n_plugins -= e->kind == CSIREG_EVENT_PLUGIN;
    return e;
}

/* Makes the descriptor say what the queue is now. */
static void show(struct cr_events *q, bool was_empty)
{
    uint64_t counter = 1;
    ssize_t n = 0;
    if (was_empty && q->n > 0) n = write(q->fd, &counter, sizeof counter);
    if (!was_empty && q->n == 0) n = read(q->fd, &counter, sizeof counter);
    (void)n; /* neither can fail on an eventfd that is 0 when the queue is empty and 1 otherwise */
}

static bool same(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }
static bool same_driver(const struct csireg_event *a, const struct csireg_event *b)
{
    return same(a->driver, b->driver);
}

static bool same_socket(const struct csireg_event *a, const struct csireg_event *b)
{
    return same(a->path, b->path) && ((a->path && *a->path) || same_driver(a, b));
}

static bool same_warning(const struct csireg_event *a, const struct csireg_event *b)
{
    return same_driver(a, b) && same(a->path, b->path) &&
           same(csireg_error_message(a->error), csireg_error_message(b->error));
}

static bool tells_driver_state(const struct csireg_event *e)
{
    return e->kind == CSIREG_EVENT_REGISTERED || e->kind == CSIREG_EVENT_UNREGISTERED ||
           e->kind == CSIREG_EVENT_CHANGED;
}

/* Is there no more to learn from the older one once the newer one is read? */
static bool overtakes(const struct csireg_event *newer, const struct csireg_event *older)
{
    if (tells_driver_state(newer) && tells_driver_state(older)) return same_driver(newer, older);
    if (newer->kind == CSIREG_EVENT_REGISTERED) return older->kind == CSIREG_EVENT_FAILED && same_socket(newer, older);
    if (newer->kind == CSIREG_EVENT_PLUGIN_GONE)
        return older->kind == CSIREG_EVENT_PLUGIN && newer->token == older->token;
    if (newer->kind != older->kind) return false;
    if (newer->kind == CSIREG_EVENT_FAILED) return same_socket(newer, older);
    if (newer->kind == CSIREG_EVENT_WARNING) return same_warning(newer, older);
    return newer->kind == CSIREG_EVENT_PLUGIN && same_socket(newer, older);
}

/* False: the event itself is of no use any more. */
static bool overtake(struct cr_events *q, struct csireg_event *e)
{
    bool useful = true;
    CR_LIST_FOREACH_SAFE (it, &q->queue) {
        struct csireg_event *older = EVENT(it);
        if (!overtakes(e, older)) continue;
        if (e->kind == CSIREG_EVENT_PLUGIN_GONE) useful = false; /* the host never heard of that plugin */
        if (e->kind == CSIREG_EVENT_CHANGED && older->kind == CSIREG_EVENT_REGISTERED)
            e->kind = CSIREG_EVENT_REGISTERED;
        csireg_event_free(take(q, older));
    }
    return useful;
}

static bool may_be_forgotten(const struct csireg_event *e)
{
    return e->kind == CSIREG_EVENT_WARNING || e->kind == CSIREG_EVENT_FAILED || e->kind == CSIREG_EVENT_UNREGISTERED;
}

/* Status still tells what is dropped here. The other kinds have bounds of their own: live drivers and open requests. */
static void drop_oldest(struct cr_events *q, bool warning)
{
    CR_LIST_FOREACH (it, &q->queue) {
        if (warning ? EVENT(it)->kind != CSIREG_EVENT_WARNING : !may_be_forgotten(EVENT(it))) continue;
        csireg_event_free(take(q, EVENT(it)));
        return;
    }
}

static bool full_of_plugins(const struct cr_events *q, const struct csireg_event *e)
{
    return e->kind == CSIREG_EVENT_PLUGIN && q->n_plugins >= CR_MAX_PENDING_PLUGINS;
}

void cr_events_push(struct cr_events *q, struct csireg_event *e)
{
    pthread_mutex_lock(&q->mutex);
    bool was_empty = q->n == 0;
    if (q->ended || !overtake(q, e) || full_of_plugins(q, e)) {
        csireg_event_free(e);
    } else {
        e->generation = ++q->generation;
        q->ended = e->kind == CSIREG_EVENT_STOPPED;
        put(q, e);
        if (q->n_warnings > CR_MAX_PENDING_WARNINGS) drop_oldest(q, true);
        if (q->n > CR_MAX_EVENTS) drop_oldest(q, false);
    }
    show(q, was_empty);
    pthread_mutex_unlock(&q->mutex);
}

struct csireg_event *cr_events_pop(struct cr_events *q)
{
    pthread_mutex_lock(&q->mutex);
    bool was_empty = q->n == 0;
    struct csireg_event *e = was_empty ? NULL : take(q, EVENT(q->queue.next));
    show(q, was_empty);
    pthread_mutex_unlock(&q->mutex);
    return e;
}

size_t cr_events_length(struct cr_events *q)
{
    pthread_mutex_lock(&q->mutex);
    size_t n = q->n;
    pthread_mutex_unlock(&q->mutex);
    return n;
}
