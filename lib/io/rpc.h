/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unary gRPC calls to Unix sockets: our own connect, then grpc_channel_create_from_fd.
 *
 * Engine thread: everything here but `done`. Pump thread (one, owned by this module): blocks on the completion queue
 * and calls `done` for each finished call, decoded and checked (wire/). All signals are blocked in every thread made
 * here. Each started call ends in exactly one `done`, also when memory is short; finishing never allocates the call.
 * gRPC is initialised by cr_rpc_new and shut down by cr_rpc_free; both are counted inside gRPC, so a host may use it
 * too.
 */
#ifndef CR_IO_RPC_H
#define CR_IO_RPC_H

#include <stdint.h>

#include "base/error.h"
#include "base/list.h"
#include "base/messages.h"

struct cr_rpc;
struct cr_conn;

/* A finished call as handed to done; the receiver owns it and gives it back with cr_rpc_call_free (engine thread). */
struct cr_rpc_call {
    struct cr_list node; /* free for the receiver's mailbox */
    uint64_t id;
    enum cr_rpc_method method;
    struct cr_rpc_result result;
    /* private members of rpc.c follow in its own struct that begins with this one */
};

/* done: on the pump thread, or on the engine thread from inside cr_rpc_start when a call could not be started. */
int cr_rpc_new(struct cr_rpc **out, void (*done)(void *user, struct cr_rpc_call *call), void *user,
               struct csireg_error **error);
void cr_rpc_free(struct cr_rpc *rpc); /* every call is done and freed, every connection closed; joins the pump */

/* Borrowed, for the whole life: who may serve a socket that is connected to (SO_PEERCRED, checked before the first byte
 * is sent; others give EPERM). NULL: everybody. */
void cr_rpc_allow_peers(struct cr_rpc *rpc, const struct cr_uids *allowed);

/* Connects without blocking: 0 and *out, or the errno. ENAMETOOLONG past CR_MAX_PATH. *identity is that of the file.
 * EAGAIN: the listener's queue is full, or the file was replaced while connecting. */
int cr_rpc_connect(struct cr_rpc *rpc, const char *path, struct cr_conn **out, struct cr_identity *identity);
void cr_rpc_close(struct cr_conn *conn); /* cancels what runs on it; descriptor and memory go with its last call */

/* flag, text: see CR_EFF_RPC. timeout_ms <= 0: done with DEADLINE_EXCEEDED at once. One call at a time on a connection.
 */
void cr_rpc_start(struct cr_conn *conn, uint64_t id, enum cr_rpc_method method, int64_t timeout_ms, bool flag,
                  const char *text);
void cr_rpc_cancel(struct cr_rpc *rpc, uint64_t id); /* unknown id: nothing */
void cr_rpc_call_free(struct cr_rpc_call *call);

const char *cr_rpc_method_path(enum cr_rpc_method method); /* static: "/csi.v1.Node/NodeGetInfo" */

#endif
