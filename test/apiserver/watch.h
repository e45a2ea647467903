/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches. Each is a cursor on its resource's window of events, read by the thread of its own connection, which sleeps
 * on a condition of its own; a commit wakes the watches of its resource and costs the writer nothing else.
 */
#ifndef APISERVER_WATCH_H
#define APISERVER_WATCH_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "apiserver/answer.h"
#include "apiserver/request.h"
#include "apiserver/selector.h"
#include "base/buf.h"
#include "base/list.h"

enum as_event_type { AS_ADDED, AS_MODIFIED, AS_DELETED, AS_BOOKMARK, AS_ERROR };
#define AS_EVENT_TYPES 5
const char *as_event_type_name(enum as_event_type type);

#define AS_MAX_LAG_EVENTS 1000 /* a reader further behind loses its connection */
#define AS_MAX_LAG_BYTES  (8 * 1024 * 1024)

struct apiserver;

struct as_watch {
    struct cr_list link; /* in the server's list */
    struct apiserver *server;
    const struct as_resource *type;
    struct as_conn *conn; /* a reference */
    char *namespace_;     /* NULL: all */
    char *user;
    struct as_selector selector;
    pthread_cond_t wake;
    /* under the server's lock */
    struct as_version **initial; /* present objects, still to be sent as ADDED */
    size_t n_initial, next_initial;
    uint64_t cursor;                               /* number of the next event */
    uint64_t start_rv;                             /* events up to it are not sent */
    uint64_t bytes;                                /* of the events up to the cursor, as in as_event */
    int64_t deadline_ns, bookmark_ns, farewell_ns; /* AS_FOREVER: none */
    struct cr_buf inject;                          /* what the control interface puts between events */
    bool last_words;                               /* the end comes after inject */
    bool cut_off;                                  /* after inject the connection breaks off */
    int64_t stalled_until_ns, delay_ns, swallow, duplicate;
    bool delayed; /* the delay before the next event is over or running */
    /* the connection's thread alone */
    struct cr_buf out;
    size_t sent;
    uint64_t total;
};

/* Starts a watch for r, or answers why not. */
void as_watch_start(struct apiserver *s, struct as_request *r, struct as_answer *a);
/* For the HTTP library: fills data with what comes next, waiting for it; 0: the clean end, -1: broken off. */
ssize_t as_watch_read(struct as_watch *w, char *data, size_t max);
void as_watch_free(struct as_watch *w);

/* Server's lock held from here on. */
void as_watch_notify(struct apiserver *s, const struct as_resource *type); /* NULL: all */
uint64_t as_watch_count(struct apiserver *s, const char *plural);          /* NULL: all */
/* POST /watches/<what>; the number of watches that match, or -1 and *out_error (malloc'ed). */
int as_watch_control(struct apiserver *s, const char *what, const json_t *body, char **out_error);

#endif
