/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rig for the core: feeds it inputs, keeps every effect as a line of text, and plays plugins and API server.
 *
 * Nothing happens by itself: rig_settle answers what is outstanding, in order and without time passing; rig_advance
 * lets time pass, from one deadline of the core to the next. rig_hold keeps answers back, rig_fault replaces them.
 * The effect contract is checked on the way: ids rise, calls are made on open connections, each is closed once, logs
 * of level error never come.
 *
 * Lines, as rig_expect, rig_hold and rig_fault name them by their beginnings:
 *   connect /r/a-reg.sock             close /r/a-reg.sock            stopped
 *   GetInfo /r/a-reg.sock             NodeGetCapabilities /d/a.sock  NodeGetInfo /d/a.sock
 *   NodeGetInfo+flag /d/a.sock        Notify true /r/a-reg.sock      Notify false /r/a-reg.sock: text
 *   get nodes | GET /api/v1/nodes/n1  update csinodes | PUT /apis/...  (verb and resource, method and path)
 *   probe /d/a.sock                   exhausted 7 1 (token, result)
 *   cancel update csinodes | ...      event REGISTERED a.example.com [/r/a-reg.sock]
 */
#ifndef TEST_UNIT_CORE_RIG_H
#define TEST_UNIT_CORE_RIG_H

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/core.h"

#define RIG_PLUGINS 32
#define RIG_LINES   8192
#define RIG_FAULTS  32
#define RIG_HOLDS   8

struct rig_plugin {
    char path[512], endpoint[512], name[128];
    const char *type;          /* "CSIPlugin" */
    const char *said_endpoint; /* what GetInfo says; NULL: endpoint */
    const char *versions[4];   /* {"1.0.0"} */
    const char *node_id;       /* "id-<name>" */
    const char *topology[8];   /* "key=value", sorted; {"<name>.example.com/zone=z1"} */
    int64_t limit;             /* 10 */
    int32_t capabilities[4];   /* 0 ends them; {} */
    struct cr_identity identity;
    bool listening, serving;                    /* its registration socket, its endpoint */
    char node_id_text[128], topology_text[128]; /* storage of the defaults */
};

struct rig;

/* What is answered instead. */
struct rig_fault {
    const char *match; /* beginning of the line */
    int times;         /* how often; -1: for ever */
    int number;        /* errno of a connect, gRPC code, or HTTP status; API and 0: executed as usual */
    bool refused;      /* RPC: the message broke a bound */
    enum cr_transport transport;
    const char *reason, *text;     /* of the Status; of an RPC */
    const char *kind;              /* Status.details.kind; NULL: the resource */
    const char *body;              /* instead of a Status */
    int64_t retry_after_s;         /* 0: no header */
    bool commit;                   /* API: executed first, then this answer is given */
    void (*before)(struct rig *r); /* called before the request is executed: another writer */
};

struct rig_line {
    char *text;
    enum cr_effect_kind kind;
    enum cr_rpc_method method;
    uint64_t id, conn, token;
    int64_t at_ms, timeout_ms;
    bool flag;
    bool out;       /* not answered yet */
    bool cancelled; /* its answer says so */
    bool open;      /* a connection */
    bool watch;
    char *path, *said; /* of a connect; the text of a notification, the error of an event */
    bool retryable;    /* the error of an event */
    struct cr_api_request request;
};

struct rig {
    struct cr_core_config config; /* to be changed before rig_start */
    struct cr_core *core;
    struct cr_time now;
    uint64_t generation, last_id;
    struct rig_plugin plugins[RIG_PLUGINS];
    size_t n_plugins;

    json_t *node, *csinode; /* as stored; NULL: absent */
    json_t *attach;         /* CSIDriver name -> attachRequired */
    json_t *periods;        /* CSIDriver name -> nodeAllocatableUpdatePeriodSeconds, of those in attach */
    uint64_t version;
    bool keeps_registrations; /* the server's gate */
    const char *always;       /* a driver that every stored CSINode must have an entry of; NULL: none */

    struct rig_line *lines;
    size_t n_lines, mark;
    struct rig_fault faults[RIG_FAULTS];
    size_t n_faults;
    const char *holds[RIG_HOLDS];
    size_t n_holds;
    bool stopped;
    char last_log[1024];         /* of level warning */
    void (*around)(bool inside); /* called before and after the core runs; may be NULL */
};

struct rig *rig_new(void); /* defaults of the options, gate off, verification off; a Node, no CSINode */
void rig_start(struct rig *r);
struct rig *rig_started(void); /* both */
struct rig *rig_gate_on(void); /* likewise, with the gate on */
void rig_free(struct rig *r);  /* r->core may be NULL */

/* ---- inputs ---- */

struct rig_plugin *rig_plugin(struct rig *r, const char *name);  /* "a": a.example.com, /r/a-reg.sock, /d/a.sock */
struct rig_plugin *rig_capable(struct rig *r, const char *name); /* with NODE_INFO_FROM_CONTROLLER */
void rig_appear(struct rig *r, struct rig_plugin *p);            /* a new file, so a recreation when one is there */
void rig_vanish(struct rig *r, struct rig_plugin *p);
void rig_register(struct rig *r, struct rig_plugin *p); /* third door */
void rig_deregister(struct rig *r, struct rig_plugin *p);
void rig_command(struct rig *r, enum cr_input_kind kind, const char *name); /* RETRY, SCAN_DONE, STOP, ... */
void rig_exhausted(struct rig *r, const char *name, uint64_t token);
void rig_plugin_result(struct rig *r, uint64_t token, bool ok, const char *text);
void rig_watch_line(struct rig *r, const char *line); /* on the open watch; ' reads as " */
void rig_watch_end(struct rig *r, enum cr_transport transport, int status);
void rig_input(struct rig *r, struct cr_input *in);

/* ---- answers and time ---- */

void rig_settle(struct rig *r);
void rig_advance(struct rig *r, int64_t ms);       /* settles, before, between and after */
void rig_up(struct rig *r, struct rig_plugin *p);  /* appears, and all that follows within a second */
void rig_answer(struct rig *r, const char *match); /* the oldest outstanding line like this, held or not */
void rig_hold(struct rig *r, const char *match);
void rig_release(struct rig *r); /* all holds; does not settle */
void rig_fault(struct rig *r, struct rig_fault f);
void rig_no_faults(struct rig *r);

/* ---- what the world has ---- */

void rig_set_csinode(struct rig *r, const char *spec); /* owned by the Node; ' reads as " */
void rig_new_node(struct rig *r);                      /* another uid */
void rig_touch_csinode(struct rig *r);                 /* another writer */
void rig_touch_node(struct rig *r);
json_t *rig_entry(struct rig *r, const char *list, const char *name); /* of the stored CSINode; borrowed */
const char *rig_ids(struct rig *r);                                   /* the Node's annotation, "" when absent */
const char *rig_label(struct rig *r, const char *key);                /* NULL when absent */

/* ---- what came ---- */

void rig_mark(struct rig *r);                                      /* what came before does not count any more */
const struct rig_line *rig_last(struct rig *r, const char *match); /* since the mark; NULL: none */
size_t rig_count(struct rig *r, const char *match);
json_t *rig_body(struct rig *r, const char *match); /* of the last such request; a new reference */
json_t *rig_json(const char *text);                 /* ' reads as " */
json_t *rig_status(struct rig *r);
bool rig_registered(struct rig *r, const struct rig_plugin *p); /* as lookups see it */
/* The state of the socket at p's path in status; "" when it is not there. Valid until the next call. */
const char *rig_state(struct rig *r, const struct rig_plugin *p);

/* Every line since the mark, but logs and unnamed probes, begins as given, in this order; NULL ends the list. */
#define rig_expect(r, ...) rig_expect_at((r), __FILE__, __LINE__, (const char *const[]){__VA_ARGS__, NULL})
void rig_expect_at(struct rig *r, const char *file, int line, const char *const *want);
/* The requests on Node and CSINode since the mark: "get nodes, update csinodes". */
#define rig_expect_requests(r, want) rig_expect_requests_at((r), __FILE__, __LINE__, (want))
void rig_expect_requests_at(struct rig *r, const char *file, int line, const char *want);
/* got (its reference is taken) equals the text, in which ' reads as ". */
#define rig_expect_json(got, want) rig_expect_json_at((got), __FILE__, __LINE__, (want))
void rig_expect_json_at(json_t *got, const char *file, int line, const char *want);

/* core_world.c: the answers. */
void rig_answer_line(struct rig *r, struct rig_line *l);
void rig_world_init(struct rig *r);

#endif
