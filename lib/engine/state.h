/* SPDX-License-Identifier: Apache-2.0 */
/* What engine.c (life and loop) and dispatch.c (inputs and effects) share: the engine itself. */
#ifndef CR_ENGINE_STATE_H
#define CR_ENGINE_STATE_H

#include "engine/answers.h"
#include "engine/connections.h"
#include "engine/engine.h"
#include "engine/metrics.h"
#include "engine/reported.h"
#include "io/http.h"
#include "io/rpc.h"

struct cr_engine {
    /* constant after new */
    struct cr_engine_config config;
    int made; /* how many of the four below: new may fail between them */

    /* any thread: each has its own mutex */
    struct cr_mailbox mailbox;
    struct cr_events events;
    struct cr_board board;
    struct cr_answers answers;

    /* start, stop and free, one at a time */
    pthread_t thread;
    bool threaded; /* thread is there to be joined */
    struct cr_command *stop_command;
    struct csireg_event *stopped_event; /* made early: stopping needs no memory */

    /* the engine thread; before it runs and after its end, start and stop */
    struct cr_core *core;
    struct cr_http *http;
    struct cr_watcher *watcher; /* NULL: no first door */
    struct cr_rpc *rpc;
    struct cr_connections connections;
    struct cr_reported reported;
    struct cr_latencies latencies;
    struct cr_list held; /* events that wait for the snapshot that agrees with them */
    bool answered;       /* an answer waits for its snapshot likewise */
    bool running;
    bool stirred;                        /* the HTTP client has something to do before the next sleep */
    bool active;                         /* the core had an input in this turn */
    bool counted;                        /* a request or call began or ended since the last snapshot */
    uint64_t shown_core, shown_registry; /* generations in the last snapshot */
    uint64_t shown_scans;
    bool shown_initial;
    int64_t shown_us;         /* when the last snapshot was taken */
    int64_t publish_after_us; /* monotonic: snapshots take at most a tenth of the thread's time */
};

/* dispatch.c */
void cr_engine_input(struct cr_engine *e, struct cr_input *in);
void cr_engine_drain_mailbox(struct cr_engine *e);
void cr_engine_carry_out(struct cr_engine *e); /* effects, until there are none */
void cr_engine_log(struct cr_engine *e, enum csireg_log_level level, const char *module, const char *path,
                   const char *text);
void cr_engine_warn(struct cr_engine *e, const char *path, const char *text); /* a WARNING event */
extern const struct cr_http_handlers cr_engine_http_handlers;                 /* user: to be set to the engine */
extern const struct cr_watcher_handlers cr_engine_watcher_handlers;

#endif
