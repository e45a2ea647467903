/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of lib/io/rpc.c share: the module with a mailbox behind it, and calls that wait for their end. */
#ifndef UNIT_RPC_RIG_H
#define UNIT_RPC_RIG_H

#include <pthread.h>

#include "io/rpc.h"

#define LONG_MS  60000 /* never reached when things go right */
#define SHORT_MS 100   /* for peers that never answer */

struct rpc_rig {
    struct cr_rpc *rpc;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct cr_list finished;
    uint64_t last_id;
    char directory[32], path[64];
};

/* Setup and teardown of cmocka; *state is the rig. */
int rpc_rig_setup(void **state);
int rpc_rig_teardown(void **state);

struct cr_conn *rpc_rig_connect(struct rpc_rig *r, const char *path); /* fails the test when it cannot */

/* A call: an id of its own, LONG_MS unless said otherwise. */
void rpc_rig_start(struct rpc_rig *r, struct cr_conn *conn, enum cr_rpc_method method, int64_t timeout_ms, bool flag,
                   const char *text);
struct cr_rpc_call *rpc_rig_await(struct rpc_rig *r);    /* the next finished call */
struct cr_rpc_result rpc_rig_collect(struct rpc_rig *r); /* of the call started last; the caller's */
struct cr_rpc_result rpc_rig_ask(struct rpc_rig *r, const char *path, enum cr_rpc_method method, int64_t timeout_ms,
                                 bool flag, const char *text); /* all of it on a connection of its own */
struct cr_rpc_result rpc_rig_get_info(struct rpc_rig *r, int64_t timeout_ms);

/* Ends the result. */
void assert_rpc_code(struct cr_rpc_result result, int code);

#endif
