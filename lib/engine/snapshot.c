/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/snapshot.h"

#include <errno.h>
#include <string.h>

#include "base/bounds.h"
#include "base/buf.h"
#include "base/mem.h"
#include "engine/timed.h"

static void fini(struct csireg_driver **drivers, json_t *status)
{
    if (drivers) cr_driver_array_free(drivers);
    json_decref(status);
}

struct cr_snapshot *cr_snapshot_new(struct csireg_driver **drivers, json_t *status, bool initial_done)
{
    struct cr_snapshot *s = drivers && status ? CR_NEW(struct cr_snapshot) : NULL;
    if (!s) {
        fini(drivers, status);
        return NULL;
    }
    atomic_init(&s->refs, 1);
    s->initial_done = initial_done;
    s->drivers = drivers;
    s->status = status;
    return s;
}

void cr_snapshot_unref(struct cr_snapshot *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) > 1) return;
    fini(s->drivers, s->status);
    cr_metrics_free(s->metrics);
    cr_free(s);
}

const struct csireg_driver *cr_snapshot_driver(const struct cr_snapshot *s, const char *name)
{
    for (size_t i = 0; s->drivers[i]; i++)
        if (strcmp(s->drivers[i]->name, name) == 0) return s->drivers[i];
    return NULL;
}

static int append(const char *text, size_t len, void *buf) { return cr_buf_append(buf, text, len) ? 0 : -1; }

char *cr_snapshot_text(const struct cr_snapshot *s)
{
    struct cr_buf b;
    cr_buf_init(&b, CR_MAX_STATUS);
    if (json_dump_callback(s->status, append, &b, JSON_COMPACT) != 0) b.failed = true;
    return cr_buf_take(&b);
}

/* ---- the board ---- */

int cr_board_init(struct cr_board *b)
{
    *b = (struct cr_board){.current = NULL};
    int rc = pthread_mutex_init(&b->mutex, NULL);
    if (rc != 0) return rc;
    rc = cr_timed_init(&b->changed);
    if (rc != 0) pthread_mutex_destroy(&b->mutex);
    return rc;
}

void cr_board_fini(struct cr_board *b)
{
    cr_snapshot_unref(b->current);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->mutex);
}

void cr_board_publish(struct cr_board *b, struct cr_snapshot *s)
{
    pthread_mutex_lock(&b->mutex);
    struct cr_snapshot *old = b->current;
    b->current = s;
    if (s->initial_done) pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->mutex);
    cr_snapshot_unref(old);
}

void cr_board_end(struct cr_board *b)
{
    pthread_mutex_lock(&b->mutex);
    b->ended = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->mutex);
}

struct cr_snapshot *cr_board_get(struct cr_board *b)
{
    pthread_mutex_lock(&b->mutex);
    struct cr_snapshot *s = b->current;
    if (s) atomic_fetch_add(&s->refs, 1);
    pthread_mutex_unlock(&b->mutex);
    return s;
}

int cr_board_wait_initial(struct cr_board *b, int64_t timeout_ms)
{
    struct timespec until = cr_timed_in(timeout_ms);
    int waited = 0;
    pthread_mutex_lock(&b->mutex);
    while (!b->ended && !(b->current && b->current->initial_done) && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&b->changed, &b->mutex, &until);
    bool done = b->current && b->current->initial_done, ended = b->ended;
    pthread_mutex_unlock(&b->mutex);
    return ended ? CSIREG_ERR_STATE : done ? CSIREG_OK : CSIREG_ERR_TIMEOUT;
}
