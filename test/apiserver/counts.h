/* SPDX-License-Identifier: Apache-2.0 */
/* What was asked of the server: totals by kind, and the last requests one by one. The caller holds the server's lock.
 */
#ifndef APISERVER_COUNTS_H
#define APISERVER_COUNTS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "apiserver/request.h"

#define AS_LOG_ENTRIES 100000
#define AS_LOG_BODIES  1000 /* of the newest entries the whole body is kept */

struct as_count {
    enum as_verb verb;
    const char *resource, *subresource; /* static */
    char *user;
    int code; /* 0: a fault ended it */
    uint64_t number, bytes_in, bytes_out;
};

struct as_log_entry;

struct as_counts {
    struct as_count *count;
    size_t n;
    struct as_log_entry *log;          /* ring; entry i at log[i % AS_LOG_ENTRIES] */
    uint64_t logged;                   /* entries so far */
    uint64_t in_flight, max_in_flight; /* watches not counted */
    uint64_t reused;                   /* requests on connections that had one before */
    uint64_t open_watches;
    uint64_t events[5]; /* sent, by enum as_event_type */
    int64_t last_ns;    /* end of the last request, or its beginning while it runs */
};

void as_counts_init(struct as_counts *c);
void as_counts_fini(struct as_counts *c);
void as_counts_clear(struct as_counts *c); /* what is in flight and the open watches stay */

void as_counts_begin(struct as_counts *c);
/* Counts r as answered with code, 0: ended by a fault. */
void as_counts_end(struct as_counts *c, const struct as_request *r, int code, size_t bytes_out, uint64_t rv_after);

/* Adds what a watch sent to the bytes of the watches of its kind. */
void as_counts_add_watch_bytes(struct as_counts *c, const struct as_resource *type, const char *user, uint64_t bytes);

/* How many requests the parameters verb, resource, subresource, user and code select; absent ones select all. */
uint64_t as_counts_select(const struct as_counts *c, const struct as_params *p);
json_t *as_counts_json(const struct as_counts *c);               /* new */
json_t *as_counts_log(const struct as_counts *c, uint64_t from); /* new */

#endif
