/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator: the real core against a simulated node, drivers, API server and clock. One seed gives one run, always
 * the same: what happens, in which order, with which faults. Invariants are checked at every effect and every stored
 * version; when the faults have stopped everything must converge and fall silent.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "core/core.h"

#define MAX_PLUGINS 8
#define MAX_EVENTS  512
#define MAX_CONNS   64
#define FAULT_MS    120000  /* faults and churn in this first part */
#define SETTLE_MS   1200000 /* then everything must be right within this time: several tries at the longest pause */
#define QUIET_MS    600000  /* and nothing may be sent in this time */

struct sim;

/* ---- what can happen later ---- */

struct event {
    int64_t at_ms;
    uint64_t order; /* events of the same time happen in the order they were made */
    void (*run)(struct sim *s, struct event *e);
    uint64_t id, conn, token;
    int plugin;
    enum cr_rpc_method method;
    bool flag;
    int number;
    struct cr_rpc_result rpc;
    struct cr_api_answer api;
    const char *verb, *resource; /* of the request that it answers; NULL: none */
};

/* ---- plugins ---- */

#define OF_REFUSED "an entry of a driver that is refused"
/* REFUSED: the API server takes no entry of it */
enum plugin_kind { GOOD, ALWAYS_UNIMPLEMENTED, BAD_NAME, COLLIDES, FOREIGN, REFUSED, PLUGIN_KINDS };
#define FOREIGN_TYPE "DRAPlugin" /* which the host handles */

struct plugin {
    char path[64], name[64], endpoint[64], node_id[32];
    char names[2][64]; /* it may come back under the other one; name is one of them */
    enum plugin_kind kind;
    bool third_door;
    bool exists; /* the file, as the disk has it; third door: handed over */
    bool told;   /* the core was told of the file as it is now (or its end) */
    bool listening;
    struct cr_identity identity;
    bool capability, answered_capable; /* now; as last told to the core */
    int topology;                      /* number of segments */
    int zone;                          /* their value */
    int64_t limit;
    bool notified; /* NotifyRegistrationStatus(true) reached it, this life of the socket */
    const char *version;
    unsigned connects; /* in the second half of the time to settle */
    uint64_t token;    /* of the PLUGIN event that is not answered by PLUGIN_GONE; 0: none */
    int shares;        /* index of the plugin whose name it has too, or -1 */
};

struct conn { /* of the core to a plugin */
    uint64_t id;
    int plugin;
    bool registration, open;
    bool got_info, notified; /* the one notification that a GetInfo answer obliges to */
    uint64_t generation;     /* of the plugin's socket when it was opened */
};

/* ---- the API server ---- */

struct server {
    json_t *node, *csinode;
    json_t *history; /* watch events of CSIDrivers */
    json_t *attach;  /* CSIDriver name -> spec */
    uint64_t version;
    bool gate; /* keeps spec.driverRegistrations */
    bool down;
    unsigned requests, by_op[8];
};

struct known {              /* what the core at work was told */
    int64_t pause_until_ms; /* Retry-After */
    bool uid_is_old;        /* a CSINode was found missing, and no Node was read since */
    bool listed;            /* the CSIDrivers */
};

struct sim_options {
    bool verbose;
    bool short_memory; /* allocations of the core fail at random while there are faults */
};

struct sim {
    struct sim_options options;
    uint64_t seed;
    struct cr_rng rng;
    struct cr_time now;
    struct cr_core *core;
    struct cr_core_config config;
    struct event events[MAX_EVENTS];
    size_t n_events;
    uint64_t order, generation, last_effect_id;
    struct plugin plugins[MAX_PLUGINS];
    int n_plugins;
    struct conn conns[MAX_CONNS];
    struct server server;
    json_t *seen;      /* CSINode as the core last received it */
    char seen_uid[32]; /* of the Node, likewise */
    struct known known;
    json_t *ended;  /* name -> when the core told that it is not registered any more */
    json_t *lost;   /* names not registered since a new core started: their old entries may stay */
    uint64_t watch; /* id of the open watch */
    uint64_t watch_version;
    bool orphan;          /* the write that is being stored was sent by an earlier core */
    char planned_uid[32]; /* of the Node that the write was planned on */
    int64_t sent_ms;      /* when it was sent */
    bool faults, stopping, stopped;
    bool starved; /* an allocation failed in the input whose effects are being carried out */
    char *trace;  /* ring of lines */
    size_t trace_len;
    const char *failed; /* first broken invariant */
    char why[256];
};

/* sim.c */
struct event *sim_later(struct sim *s, int64_t delay_ms, void (*run)(struct sim *, struct event *));
void sim_input(struct sim *s, struct cr_input *in); /* and carries out what the core leaves */
void sim_trace(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sim_fail(struct sim *s, const char *invariant, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool sim_chance(struct sim *s, unsigned percent); /* false once the faults are over */
uint64_t sim_below(struct sim *s, uint64_t n);
bool sim_run(uint64_t seed, struct sim_options options, char **out_trace); /* true: every invariant held */

/* plugins.c */
void plugins_init(struct sim *s);
void plugins_churn(struct sim *s);  /* sockets come, go, are made anew; values change */
void plugins_rescan(struct sim *s); /* what the core was told already it hears again */
void plugins_heal(struct sim *s);   /* all listen, and the core is told of what is there */
void plugins_event(struct sim *s, const struct csireg_event *e);
void plugins_announce(struct sim *s); /* tells a new core of what is there, as an initial scan does */
void plugins_connect(struct sim *s, const struct cr_effect *e);
void plugins_probe(struct sim *s, const struct cr_effect *e);
void plugins_rpc(struct sim *s, const struct cr_effect *e);
void plugins_close(struct sim *s, uint64_t conn);
struct plugin *plugin_named(struct sim *s, const char *name); /* a present one, else NULL */

/* server.c */
void server_init(struct sim *s);
void server_fini(struct sim *s);
void server_request(struct sim *s, struct cr_effect *e);
void server_cancel(struct sim *s, uint64_t id);
bool server_orphan(struct event *e); /* true: stays in the queue although its core is gone */
void server_churn(struct sim *s);    /* foreign writers, the controller side, outages */
json_t *server_find(const json_t *csinode, const char *list, const char *name);

/* check.c */
void check_write(struct sim *s, const json_t *before, const json_t *after); /* a CSINode version that the core stored */
void check_registered(struct sim *s, const struct plugin *p);               /* success is being reported */
void check_converged(struct sim *s);
/* The list in which the driver's flow puts its entry; NULL when lookups do not find it. */
bool check_is_shared(const struct sim *s, const struct plugin *p); /* its names are another's too */
const char *check_list_of(const struct sim *s, const char *name);

/* check_api.c */
void check_input(struct sim *s, const struct cr_input *in);
void check_request(struct sim *s, const struct cr_api_request *r);
void check_answer(struct sim *s, const struct event *e);
void check_call(struct sim *s, const struct cr_effect *e, const struct plugin *p);
void check_patch(struct sim *s, const json_t *before, const json_t *after); /* metadata of the Node */
void check_failure(struct sim *s, const struct plugin *p, const struct csireg_error *e);

#endif
