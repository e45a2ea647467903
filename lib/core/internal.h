/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the core share: its objects and who calls whom.
 *
 *   core.c          inputs to the right object, effects out, deadlines
 *   instance.c      one registration socket (or one driver that the host handed over): its life
 *   handshake.c     the steps of an attempt, from connect to notification
 *   contest.c       several instances of one name: who wins, takes over, waits
 *   refresh.c       the limit asked again, periodically and when an attach found it exhausted
 *   probe.c         whether the service socket of a registered driver still answers
 *   driver.c        who owns a name; registered, being removed
 *   publisher.c     the one writer: when to read, write, wait, give up
 *   plan.c          what to write next: desired state against the objects as last received
 *   csidrivers.c    CSIDriver objects from one list and watch
 *   status.c        what people and lookups see
 *   metrics.c       what is counted
 *
 * Object links: core owns instances and drivers; a driver points to the instance that owns the name (owner) and the
 * instance back to it (driver). Both pointers are set and cleared together by cr_driver_claim / cr_driver_release.
 */
#ifndef CR_CORE_INTERNAL_H
#define CR_CORE_INTERNAL_H

#include "base/rng.h"
#include "core/backoff.h"
#include "core/core.h"
#include "core/metrics.h"
#include "core/node.h"
#include "core/states.h"

struct cr_instance;
struct cr_driver;

/* ---- desired state of one name ---- */

enum cr_want {
    CR_WANT_LEAVE = 0, /* nothing is decided: neither written nor removed */
    CR_WANT_REMOVE,    /* no entry in either list, no annotation key */
    CR_WANT_NODE_FLOW,
    CR_WANT_CONTROLLER_FLOW,
};

struct cr_desired {
    enum cr_want want;
    char *node_id;
    struct cr_pair *labels; /* node flow: the topology as reported, sorted by key */
    const char **keys;      /* the keys of labels */
    size_t n_labels;
    bool has_count;
    int32_t count;
};

void cr_desired_fini(struct cr_desired *d);

/* ---- a driver name ---- */

struct cr_driver {
    struct cr_list node;
    char *name;
    struct cr_instance *owner;    /* NULL: nobody has the name; what is left is to be removed */
    struct cr_instance *claimant; /* a stronger instance whose attempt runs beside the registered owner */

    bool registered;           /* lookups find it */
    struct csireg_driver view; /* valid while registered; strings owned */
    int64_t since_wall_ms, published_wall_ms;
    bool completed; /* controller flow: D with our node id was seen */

    struct cr_desired desired;
    struct cr_desired saved; /* the owner's, while a claimant's is being published */
    int64_t grace_ms;        /* a removal waits until then (unregister-grace) */
    bool pending;            /* desired is not yet confirmed by the API server */
    bool sent;               /* the write in flight carries a change of this name */
    bool expected;           /* and its answer must show what is desired */
    unsigned writes; /* that carried the name since pending: a server that keeps nothing is not written to for ever */
    bool touched;    /* a write of ours may have left something under this name */
    bool isolated;   /* a write with several names was refused: this one is tried alone */
    int64_t due_ms;  /* pending since; moved on while the API is not usable */
    int64_t not_before_ms;      /* a refused removal waits until then */
    uint64_t fresh_after;       /* a refusal may only rest on reads newer than this (core sequence) */
    unsigned tries;             /* failed requests since pending */
    char *warning;              /* for people; NULL when there is none */
    struct csireg_error *error; /* of the last failed removal or repair */

    json_t *status; /* cached part of the status document; NULL when stale */
};

struct cr_driver *cr_driver_find(struct cr_core *core, const char *name);
struct cr_driver *cr_driver_new(struct cr_core *core, const char *name); /* without an owner; NULL: no memory */
/* Makes inst the owner of name, or its claimant when another instance is registered (creating the record). NULL: no
 * memory. */
struct cr_driver *cr_driver_claim(struct cr_core *core, const char *name, struct cr_instance *inst);
/* inst lets go, as owner or claimant; a record with nothing left to do goes away. */
void cr_driver_release(struct cr_driver *d, struct cr_instance *inst);
int cr_driver_set_registered(struct cr_driver *d, const struct csireg_driver *view); /* 0 or NOMEM; emits events */
/* Lookups stop finding it, the host is told, everything published under the name is to be removed. */
void cr_driver_unregister(struct cr_driver *d, const struct csireg_error *why);
void cr_driver_changed(struct cr_driver *d); /* status is stale */
enum cr_driver_state cr_driver_state(const struct cr_driver *d);
void cr_driver_free(struct cr_driver *d);

/* ---- an instance ---- */

/* The refresh of the limit (KEP-4876) of a driver in the node flow; see refresh.c. */
struct cr_refresh {
    int64_t period_s;    /* as known when due_ms was set; 0: none */
    int64_t due_ms;      /* of the next periodic run; CR_NEVER */
    int64_t earliest_ms; /* runs keep a distance */
    bool running, again; /* again: triggered during a run */
    bool publishing;
    int64_t deadline_ms; /* of the run */
    uint64_t waiting, conn;
    bool old_has_count; /* to return to when the new count cannot be published */
    int32_t old_count;
    char *error;            /* of the last run; NULL after success */
    struct cr_list waiters; /* who asked by exhausted(), for this run or the next */
    size_t n_waiters;
};

struct cr_instance {
    struct cr_list node;
    struct cr_core *core;
    char *path; /* registration socket; NULL: the host did the handshake */
    struct cr_identity identity;
    bool from_host;
    bool initial;   /* found by the initial scan and not tried yet */
    bool recreated; /* the socket was made anew; the first failure unregisters what its predecessor registered */

    enum cr_state state;
    int64_t since_wall_ms;
    unsigned attempts;
    int64_t gather_ms; /* since when its plugin is awaited: the start of the attempt, or later when the API server held
                          it up */
    uint64_t attempt_seq; /* core sequence at that moment */
    int64_t timer_ms;     /* what it means depends on the state; CR_NEVER: none */
    int64_t next_try_wall_ms;
    int64_t step_deadline_ms;
    struct cr_backoff backoff, connect_backoff;

    uint64_t waiting;       /* id of the effect whose answer this state waits for; 0: none */
    uint64_t conn, service; /* open connections; 0: none */

    struct cr_plugin_info plugin; /* of the last GetInfo answer; third door: as handed over */
    char *version, *endpoint;     /* chosen; checked */
    enum csireg_flow flow;
    bool forced_node_flow; /* the API server drops registrations and the host asked for the node flow then */
    struct cr_node_info info;
    uint64_t token;       /* PLUGIN request; 0: none */
    bool plugin_accepted; /* a foreign plugin that the host took */

    bool capable; /* the driver has NODE_INFO_FROM_CONTROLLER (asked only with the gate on) */
    bool quiet;   /* the flow is decided again: no registration socket, no notification, failure keeps everything */
    struct cr_refresh refresh;
    uint64_t probe;                              /* id of the running probe of the endpoint */
    int64_t probe_ms;                            /* the next one; CR_NEVER */
    int64_t unreachable_ms, unreachable_wall_ms; /* since when the endpoint refuses connections; 0: it does not */

    struct cr_driver *driver; /* the name this instance owns; NULL: none */
    struct cr_driver
        *previous; /* the name it was registered under before it changed it; goes or returns with the attempt's end */
    bool again;    /* the host asked for a retry while a failed attempt was still being ended */
    bool unconfirmed;           /* registered, but its plugin was not told yet */
    bool waits_for_name;        /* refused because another instance has the name */
    struct csireg_error *error; /* of the last failed attempt; NULL after success */
    int64_t error_wall_ms;

    json_t *status;
};

const char *cr_instance_name(const struct cr_instance *i); /* driver or plugin name, "" while unknown */
void cr_instance_set_state(struct cr_instance *i, enum cr_state state);
void cr_instance_start(struct cr_instance *i);  /* a new attempt, from whatever state */
void cr_instance_retry(struct cr_instance *i);  /* forgets the backoff; starts at once when it was waiting */
void cr_instance_vanish(struct cr_instance *i); /* the socket went or the host took the driver back; frees i */
void cr_instance_free(struct cr_instance *i);
void cr_instance_give_up_previous(struct cr_instance *i); /* it is published under its new name: the old one goes */
/* A failed attempt may have left a write of unknown outcome under a name that nobody owns now. */
void cr_instance_remove_remains(struct cr_instance *i);
void cr_instance_close(struct cr_instance *i);           /* drops what is awaited, closes both connections */
bool cr_instance_gathering(const struct cr_instance *i); /* between connect and the end of its node RPCs */
bool cr_instance_owns(const struct cr_instance *i); /* the registration or, if nobody is registered, the name is its */

/* the ends of an attempt; each takes err */
void cr_instance_failed(struct cr_instance *i, const char *step,
                        struct csireg_error *err); /* no GetInfo answer: no notification */
void cr_instance_rejected(struct cr_instance *i, const char *step, struct csireg_error *err); /* notifies false */
void cr_instance_unconfirmed(struct cr_instance *i,
                             struct csireg_error *err); /* registered, but the plugin was not told */
void cr_instance_succeeded(struct cr_instance *i);
void cr_instance_settle(struct cr_instance *i); /* to BACKOFF or UNCONFIRMED, with the timer for the next attempt */
void cr_instance_withdraw(struct cr_instance *i,
                          const struct csireg_error *why); /* what is published under its name goes */

/* contest.c */
bool cr_contest_enter(struct cr_instance *i);      /* false: refused, the attempt is over; true: i->driver is claimed */
void cr_contest_won(struct cr_instance *i);        /* published: a claimant becomes the owner, the old one a standby */
bool cr_contest_succeed(struct cr_instance *gone); /* true: another instance inherits what `gone` had registered */
bool cr_contest_is_taken(const struct cr_instance *i);             /* another instance has its name */
void cr_contest_name_free(struct cr_core *core, const char *name); /* whoever had it let go: the best standby may try */

/* handshake.c */
void cr_handshake_begin(struct cr_instance *i);
void cr_handshake_connected(struct cr_instance *i, const struct cr_input *in);
void cr_handshake_rpc_done(struct cr_instance *i, struct cr_rpc_result *r);
void cr_handshake_timer(struct cr_instance *i);
void cr_handshake_expect(struct cr_instance *i, int64_t timeout_ms); /* the state's call must have ended by then */
void cr_handshake_plugin_result(struct cr_instance *i, bool ok, const char *text);
void cr_handshake_csidriver(struct cr_instance *i); /* the CSIDriver cache may have the answer now */
void cr_handshake_published(struct cr_instance *i, struct csireg_error *err,
                            bool dropped); /* err NULL: confirmed; taken */

void cr_handshake_decide_again(struct cr_instance *i); /* node RPCs and publication once more, without a notification */

/* refresh.c: the limit of drivers in the node flow */
void cr_refresh_init(struct cr_instance *i);
void cr_refresh_fini(struct cr_instance *i);
void cr_refresh_schedule(struct cr_instance *i); /* registration or CSIDriver changed: a timer, or none */
void cr_refresh_stop(struct cr_instance *i);
int64_t cr_refresh_deadline(const struct cr_instance *i);
void cr_refresh_timer(struct cr_instance *i);
void cr_refresh_exhausted(struct cr_core *core, const char *name, uint64_t token);
void cr_refresh_connected(struct cr_instance *i, const struct cr_input *in);
void cr_refresh_rpc_done(struct cr_instance *i, struct cr_rpc_result *r);
void cr_refresh_published(struct cr_instance *i, const struct csireg_error *err); /* err NULL: confirmed */

/* probe.c: is the service socket of a registered driver still there? */
void cr_probe_schedule(struct cr_instance *i);
void cr_probe_stop(struct cr_instance *i);
void cr_probe_timer(struct cr_instance *i);
void cr_probe_answer(struct cr_instance *i, int error_number);

/* ---- the publisher ---- */

enum cr_op {
    CR_OP_NONE = 0,
    CR_OP_GET_NODE,
    CR_OP_GET_CSINODE,
    CR_OP_PATCH_NODE,
    CR_OP_PUT_CSINODE,
    CR_OP_POST_CSINODE,
    CR_OP_DELETE_CSINODE,
};

struct cr_slot { /* one object at the API server: at most one request on it is out */
    uint64_t call;
    enum cr_op op;
    bool known; /* what the members below say is the last answer */
    bool absent;
    uint64_t read_seq; /* core sequence when the last read was sent */
    int64_t read_ms;   /* when the last answer came */
};

struct cr_publisher {
    struct cr_slot node_slot, csinode_slot;
    struct cr_node node; /* valid when known and not absent */
    json_t *csinode;     /* valid when known and not absent */

    bool prefetch; /* a driver is on its way: have the objects ready */
    bool create;   /* the object is to be made even without a driver */
    bool prune;    /* names without an instance are to be removed */
    int64_t prune_ms;
    json_t *labels_sent, *labels_added; /* by the patch in flight; since the start */
    bool verify;                        /* compare and repair everything of ours */
    bool repair;                        /* an object was read anew: confirmed entries are compared too */
    unsigned repairs;                   /* writes of this round that carried confirmed entries only */
    int64_t verify_ms;
    int64_t first_due_ms, last_event_ms; /* gathering */
    int64_t timer_ms;

    int64_t retry_ms; /* nothing is sent before this; 0: free */
    struct cr_backoff conflicts, outage;
    bool unusable;
    unsigned failing;  /* bits of enum cr_op that met the outage: a read ends it for itself alone, a write for all */
    const char *state; /* status: "ok", "waiting", "refused", "local-only" */
    int64_t state_wall_ms, error_wall_ms;
    struct csireg_error *error;
};

void cr_publisher_init(struct cr_core *core);
void cr_publisher_fini(struct cr_core *core);
void cr_publisher_prefetch(struct cr_core *core);
/* Takes desired. fresh_after: see cr_driver. The end comes through cr_handshake_published when the driver has an owner.
 */
void cr_publisher_want(struct cr_core *core, struct cr_driver *d, struct cr_desired *desired, uint64_t fresh_after);
void cr_publisher_remove(struct cr_core *core, struct cr_driver *d);
void cr_publisher_update_count(struct cr_core *core, struct cr_driver *d, bool has_count, int32_t count);
void cr_publisher_verify(struct cr_core *core); /* compares and repairs now */
void cr_publisher_leave(struct cr_driver *d);   /* stops working on the name */
void cr_publisher_restore(struct cr_core *core,
                          struct cr_driver *d); /* back to what the owner has: the claimant gave up */
void cr_publisher_step(struct cr_core *core);   /* sends what can be sent now */
void cr_publisher_timer(struct cr_core *core);
void cr_publisher_answer(struct cr_core *core, uint64_t id, struct cr_api_answer *answer);
void cr_publisher_retry_now(struct cr_core *core);
void cr_publisher_event(struct cr_core *core); /* a socket came or went: removals gather a little longer */
int64_t cr_publisher_deadline(const struct cr_core *core);

/* plan.c: the next write, computed from the desired state and the objects as known. */
struct cr_plan {
    enum cr_op op;  /* a write; GET_NODE: the Node must be read again first; NONE: all that is considered holds */
    char *body;     /* of the write */
    json_t *labels; /* that a patch adds: a reference, or NULL */
    struct cr_driver *culprit;  /* op NONE and error set: this name alone cannot be published */
    struct csireg_error *error; /* without a culprit: no memory */
};
/* Both objects are known. Marks the drivers that the write carries as `sent`, and as `expected` where its answer must
 * show what they desire. */
void cr_plan_next(struct cr_core *core, struct cr_plan *out);
/* The names that count in this round: pending ones, confirmed ones when repairing, one alone when isolated. */
bool cr_plan_considers(const struct cr_core *core, const struct cr_driver *d);
bool cr_plan_is_install(const struct cr_driver *d);
/* The cached CSINode holds what the driver wants. */
bool cr_plan_csinode_satisfied(const struct cr_core *core, const struct cr_driver *d);

/* ---- CSIDriver objects ---- */

enum cr_attach { CR_ATTACH_UNKNOWN, CR_ATTACH_REQUIRED, CR_ATTACH_NOT_REQUIRED, CR_ATTACH_FAILED };

struct cr_csidrivers {
    bool open, synced;
    struct cr_list items;
    size_t n_items;
    char *resource_version; /* where the next watch starts */
    uint64_t call;
    bool watching;
    int64_t watch_started_ms;
    int64_t retry_ms; /* CR_NEVER: none */
    struct cr_backoff backoff;
    struct csireg_error *error; /* of the last list, NULL when it worked */
};

void cr_csidrivers_init(struct cr_core *core);
void cr_csidrivers_fini(struct cr_core *core);
void cr_csidrivers_open(struct cr_core *core);                              /* idempotent */
int64_t cr_csidrivers_period(const struct cr_core *core, const char *name); /* seconds; 0: none, or not known */
enum cr_attach cr_csidrivers_attach(const struct cr_core *core, const char *name);
void cr_csidrivers_check(struct cr_instance *i); /* is it still in the right flow, with the right period? */
void cr_csidrivers_line(struct cr_core *core, const char *line);
void cr_csidrivers_answer(struct cr_core *core, struct cr_api_answer *answer);
void cr_csidrivers_timer(struct cr_core *core);
void cr_csidrivers_retry_now(struct cr_core *core);

/* ---- the core ---- */

struct cr_core {
    struct cr_core_config config; /* strings owned */
    char *node_name;
    char **migrated, **types, **prefixes;
    uint32_t *owners;
    struct cr_time now;
    struct cr_rng rng;
    uint64_t next_id, seq, generation, event_generation, next_token;
    struct cr_list effects, reserve;
    struct cr_list instances, drivers;
    size_t n_instances;
    unsigned out; /* effects started and not yet ended */
    bool scan_done, stopping, stopped;
    struct cr_publisher publisher;
    struct cr_csidrivers csidrivers;
    struct cr_counters counters;
};

static inline struct cr_instance *cr_instance_of(struct cr_list *l)
{
    return CR_CONTAINER(l, struct cr_instance, node);
}
static inline struct cr_driver *cr_driver_of(struct cr_list *l) { return CR_CONTAINER(l, struct cr_driver, node); }

/* effects.c. Those that start something give its id, or 0 when memory is short (nothing was started then). */
uint64_t cr_emit_connect(struct cr_core *core, const char *path);
void cr_emit_nothing_to_close(struct cr_core *core); /* a connect failed */
uint64_t cr_emit_probe(struct cr_core *core, const char *path);
void cr_emit_exhausted(struct cr_core *core, uint64_t token, int result);
void cr_emit_close(struct cr_core *core, uint64_t *conn); /* 0: nothing; sets it to 0 */
uint64_t cr_emit_rpc(const struct cr_instance *i, uint64_t conn, enum cr_rpc_method method, int64_t timeout_ms,
                     bool flag, const char *text);
uint64_t cr_emit_api(struct cr_core *core, struct cr_api_request *request); /* takes the members */
void cr_emit_cancel_api(struct cr_core *core, uint64_t id);
void cr_emit_event(struct cr_core *core, enum csireg_event_kind kind, const struct cr_instance *inst,
                   const struct cr_driver *driver, const struct csireg_error *error);
void cr_emit_plugin(struct cr_core *core, enum csireg_event_kind kind, const struct cr_instance *inst);
void cr_emit_log(struct cr_core *core, enum csireg_log_level level, const char *module, const struct cr_instance *inst,
                 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void cr_emit_stopped(struct cr_core *core);

int64_t cr_jitter(struct cr_core *core, int64_t ms, unsigned percent); /* ms +- percent */

#endif
