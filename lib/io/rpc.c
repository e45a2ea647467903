/* SPDX-License-Identifier: Apache-2.0 */
#include "io/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "csireg/version.h"
#include "io/rpc_dial.h"
#include "wire/wire.h"

#define GRPC_FIRST_FDS 8 /* more than it opens before the first connection */

struct cr_rpc {
    void (*done)(void *user, struct cr_rpc_call *call);
    void *user;
    const struct cr_uids *allowed; /* NULL: everybody */
    grpc_completion_queue *queue;
    grpc_channel
        *idle; /* to nowhere: gRPC ends the threads behind its channels with the last, and each first makes them */
    pthread_t pump;
    pthread_mutex_t lock; /* passes a call's members from the engine to the pump */
    struct cr_list calls; /* engine: started and not yet freed */
};

/* Engine thread from start to free, but the pump owns it between the start of its batch and `done`. */
struct call {
    struct cr_rpc_call public;
    struct cr_list node;
    struct cr_conn *conn; /* counted */
    bool flag;
    grpc_call *handle;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *answer;
    grpc_status_code status;
    grpc_slice details;
};

struct cr_conn {
    struct cr_rpc *rpc;
    grpc_channel *channel;
    int fd;                     /* the same socket as the channel's, to end what gRPC is writing to it */
    grpc_resource_quota *quota; /* enforced only as long as somebody holds it: the channel does not */
    int refs;                   /* the owner and each call not yet freed */
    struct call reserve;        /* tells of a call for which there was no memory */
};

/* ---- signals ---- */

/* Threads inherit the mask: no handler of the host may run on one of gRPC's or ours. */
static void block_signals(sigset_t *old)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, old);
}

static void restore_signals(const sigset_t *old) { pthread_sigmask(SIG_SETMASK, old, NULL); }

/* ---- the end of a call ---- */

/* Harmless once the call is over. */
static void cancel(struct call *c)
{
    if (c->handle) grpc_call_cancel(c->handle, NULL);
}

/* gRPC ends no call while it writes to the connection: a peer that does not read would hold up even cancelled ones. */
static void hang_up(struct cr_conn *conn) { shutdown(conn->fd, SHUT_RDWR); }

static void set_failure(struct cr_rpc_result *r, int code, const char *text)
{
    r->code = code;
    r->text = cr_strdup(text);
}

/* In place of gRPC's own words for a quota that was used up. */
static char *too_large(void)
{
    char text[64];
    snprintf(text, sizeof text, "the answer is larger than %d bytes", CR_MAX_RPC_MESSAGE);
    return cr_strdup(text);
}

/* The peer's text is for people: bounded, printable, never a reason to fail. */
static char *peer_text(const grpc_slice *details)
{
    size_t len = GRPC_SLICE_LENGTH(*details);
    const char *start = (const char *)GRPC_SLICE_START_PTR(*details);
    if (grpc_slice_str_cmp(*details, "Buffers full") == 0) return too_large();
    if (len > CR_MAX_GRPC_MESSAGE) len = cr_utf8_cut(start, CR_MAX_GRPC_MESSAGE);
    char *text = len ? cr_calloc(len + 1, 1) : NULL;
    if (!text) return NULL;
    memcpy(text, start, len);
    cr_utf8_sanitise(text, len);
    return text;
}

static void decode(struct call *c)
{
    grpc_byte_buffer_reader reader;
    if (!grpc_byte_buffer_reader_init(&reader, c->answer)) {
        set_failure(&c->public.result, CR_GRPC_INTERNAL, "the response message cannot be read");
        return;
    }
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
    cr_wire_decode_answer(c->public.method, c->flag, GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all),
                          &c->public.result);
    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&reader);
}

static void evaluate(struct call *c)
{
    struct cr_rpc_result *r = &c->public.result;
    if (c->status == GRPC_STATUS_OK && c->answer) {
        decode(c);
    } else if (c->status == GRPC_STATUS_OK) {
        set_failure(r, CR_GRPC_INTERNAL, "no response message");
    } else {
        int code = (int)c->status;
        r->code = code < 0 || code > GRPC_STATUS_UNAUTHENTICATED ? CR_GRPC_UNKNOWN : code;
        r->text = peer_text(&c->details);
    }
}

static void *pump(void *user)
{
    struct cr_rpc *rpc = user;
    for (;;) {
        grpc_event event = grpc_completion_queue_next(rpc->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN) return NULL;
        struct call *c = event.tag;
        pthread_mutex_lock(&rpc->lock); /* the queue's own ordering is out of a race detector's sight */
        pthread_mutex_unlock(&rpc->lock);
        evaluate(c);
        rpc->done(rpc->user, &c->public);
    }
}

/* ---- life of the module ---- */

static void fini_queue(struct cr_rpc *rpc)
{
    grpc_completion_queue_destroy(rpc->queue);
    grpc_channel_destroy(rpc->idle);
    grpc_shutdown();
    pthread_mutex_destroy(&rpc->lock);
    cr_free(rpc);
}

/* Everything that makes threads; an errno. */
static int start_threads(struct cr_rpc *rpc)
{
    sigset_t old;
    block_signals(&old);
    grpc_init();
    rpc->queue = grpc_completion_queue_create_for_next(NULL);
    rpc->idle = grpc_lame_client_channel_create("", GRPC_STATUS_UNAVAILABLE, "");
    int failed = pthread_create(&rpc->pump, NULL, pump, rpc);
    restore_signals(&old);
    if (!failed) pthread_setname_np(rpc->pump, "csireg-pump");
    return failed;
}

/* gRPC aborts the process when it cannot make its first descriptors: an errno says so before it is asked to. */
static int probe_descriptors(void)
{
    int fds[GRPC_FIRST_FDS], n = 0, error = 0;
    while (n < GRPC_FIRST_FDS && (fds[n] = eventfd(0, EFD_CLOEXEC)) >= 0) n++;
    if (n < GRPC_FIRST_FDS) error = errno;
    while (n > 0) close(fds[--n]);
    return error;
}

int cr_rpc_new(struct cr_rpc **out, void (*done)(void *user, struct cr_rpc_call *call), void *user,
               struct csireg_error **error)
{
    struct cr_rpc *rpc = CR_NEW(struct cr_rpc);
    if (!rpc) return cr_error_put(error, cr_error_oom());
    int missing = probe_descriptors();
    if (missing) {
        cr_free(rpc);
        return cr_error_put(error, cr_error_os(missing, "cannot open the descriptors that gRPC needs"));
    }
    rpc->done = done;
    rpc->user = user;
    cr_list_init(&rpc->calls);
    pthread_mutex_init(&rpc->lock, NULL);
    int failed = start_threads(rpc);
    if (failed) {
        grpc_completion_queue_shutdown(rpc->queue);
        pump(rpc);
        fini_queue(rpc);
        return cr_error_put(error, cr_error_os(failed, "cannot start the thread for gRPC"));
    }
    *out = rpc;
    return 0;
}

void cr_rpc_free(struct cr_rpc *rpc)
{
    if (!rpc) return;
    grpc_completion_queue_shutdown(rpc->queue);
    pthread_join(rpc->pump, NULL);
    fini_queue(rpc);
}

/* ---- connections ---- */

static grpc_arg integer_arg(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = value};
}

static grpc_arg string_arg(const char *key, const char *value)
{
    return (grpc_arg){.type = GRPC_ARG_STRING, .key = (char *)(uintptr_t)key, .value.string = (char *)(uintptr_t)value};
}

static grpc_arg quota_arg(grpc_resource_quota *quota)
{
    return (grpc_arg){.type = GRPC_ARG_POINTER,
                      .key = (char *)(uintptr_t)GRPC_ARG_RESOURCE_QUOTA,
                      .value.pointer = {quota, grpc_resource_quota_arg_vtable()}};
}

/* gRPC owns the descriptor from here. The message bound alone would not bound memory: the quota does. */
static grpc_channel *open_channel(int fd, grpc_resource_quota *quota)
{
    sigset_t old;
    grpc_arg list[] = {
        string_arg(GRPC_ARG_DEFAULT_AUTHORITY, "localhost"),
        string_arg(GRPC_ARG_PRIMARY_USER_AGENT_STRING, "csireg/" CSIREG_VERSION),
        integer_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, CR_MAX_RPC_MESSAGE),
        integer_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE),
        integer_arg(GRPC_ARG_ENABLE_CHANNELZ, 0), /* nobody looks at them from outside */
        quota_arg(quota),
    };
    grpc_channel_args args = {sizeof list / sizeof *list, list};
    grpc_channel_credentials *none = grpc_insecure_credentials_create();
    block_signals(&old);
    grpc_channel *channel = grpc_channel_create_from_fd("localhost", fd, none, &args);
    restore_signals(&old);
    grpc_channel_credentials_release(none);
    return channel;
}

void cr_rpc_allow_peers(struct cr_rpc *rpc, const struct cr_uids *allowed) { rpc->allowed = allowed; }

int cr_rpc_connect(struct cr_rpc *rpc, const char *path, struct cr_conn **out, struct cr_identity *identity)
{
    int fd;
    struct cr_conn *conn = CR_NEW(struct cr_conn);
    if (!conn) return ENOMEM;
    int error = cr_rpc_dial(path, rpc->allowed, &fd, identity);
    if (error) {
        cr_free(conn);
        return error;
    }
    conn->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (conn->fd < 0) {
        error = errno;
        close(fd);
        cr_free(conn);
        return error;
    }
    conn->rpc = rpc;
    conn->refs = 1;
    conn->quota = grpc_resource_quota_create("csireg");
    grpc_resource_quota_resize(conn->quota, CR_MAX_RPC_BUFFERS);
    conn->channel = open_channel(fd, conn->quota);
    *out = conn;
    return 0;
}

static void unref(struct cr_conn *conn)
{
    if (--conn->refs > 0) return;
    grpc_channel_destroy(conn->channel);
    close(conn->fd);
    grpc_resource_quota_unref(conn->quota);
    cr_free(conn);
}

void cr_rpc_close(struct cr_conn *conn)
{
    if (!conn) return;
    CR_LIST_FOREACH (it, &conn->rpc->calls) {
        struct call *c = CR_CONTAINER(it, struct call, node);
        if (c->conn == conn) cancel(c);
    }
    hang_up(conn);
    unref(conn);
}

/* ---- calls ---- */

static void finish_early(struct call *c, int code, const char *text)
{
    struct cr_rpc *rpc = c->conn->rpc;
    set_failure(&c->public.result, code, text);
    rpc->done(rpc->user, &c->public);
}

static grpc_byte_buffer *make_request(const struct call *c, const char *text)
{
    uint8_t bytes[CR_WIRE_MAX_REQUEST];
    size_t len = cr_wire_encode_request(c->public.method, c->flag, text, bytes);
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)bytes, len);
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

static grpc_call_error start_batch(struct call *c, grpc_byte_buffer *request)
{
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = request},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &c->initial},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->answer},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &c->trailing,
                                        .status = &c->status,
                                        .status_details = &c->details}},
    };
    return grpc_call_start_batch(c->handle, ops, sizeof ops / sizeof *ops, c, NULL);
}

static void make_call(struct call *c, int64_t timeout_ms)
{
    struct cr_rpc *rpc = c->conn->rpc;
    gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
    pthread_mutex_lock(&rpc->lock);
    grpc_metadata_array_init(&c->initial);
    grpc_metadata_array_init(&c->trailing);
    c->details = grpc_empty_slice();
    c->handle = grpc_channel_create_call(c->conn->channel, NULL, GRPC_PROPAGATE_DEFAULTS, rpc->queue,
                                         grpc_slice_from_static_string(cr_wire_method_name(c->public.method)), NULL,
                                         deadline, NULL);
    pthread_mutex_unlock(&rpc->lock);
}

static struct call *new_call(struct cr_conn *conn)
{
    struct call *c = CR_NEW(struct call);
    if (!c) c = &conn->reserve;
    c->conn = conn;
    conn->refs++;
    cr_list_append(&conn->rpc->calls, &c->node);
    return c;
}

void cr_rpc_start(struct cr_conn *conn, uint64_t id, enum cr_rpc_method method, int64_t timeout_ms, bool flag,
                  const char *text)
{
    struct call *c = new_call(conn);
    c->public.id = id;
    c->public.method = method;
    c->flag = flag;
    cr_list_init(&c->public.node);
    if (c == &conn->reserve) return finish_early(c, CR_GRPC_INTERNAL, "out of memory");
    if (timeout_ms <= 0) return finish_early(c, CR_GRPC_DEADLINE_EXCEEDED, "no time is left for the call");
    make_call(c, timeout_ms);
    grpc_byte_buffer *request = make_request(c, text);
    if (start_batch(c, request) != GRPC_CALL_OK) finish_early(c, CR_GRPC_INTERNAL, "gRPC did not take the call");
    grpc_byte_buffer_destroy(request);
}

void cr_rpc_cancel(struct cr_rpc *rpc, uint64_t id)
{
    CR_LIST_FOREACH (it, &rpc->calls) {
        struct call *c = CR_CONTAINER(it, struct call, node);
        if (c->public.id == id) cancel(c);
    }
}

void cr_rpc_call_free(struct cr_rpc_call *call)
{
    if (!call) return;
    struct call *c = CR_CONTAINER(call, struct call, public);
    struct cr_conn *conn = c->conn;
    cr_list_remove(&c->node);
    cr_rpc_result_fini(&call->result);
    if (c->handle) {
        grpc_call_unref(c->handle);
        grpc_byte_buffer_destroy(c->answer);
        grpc_metadata_array_destroy(&c->initial);
        grpc_metadata_array_destroy(&c->trailing);
        grpc_slice_unref(c->details);
    }
    if (c == &conn->reserve)
        *c = (struct call){0};
    else
        cr_free(c);
    unref(conn);
}

const char *cr_rpc_method_path(enum cr_rpc_method method) { return cr_wire_method_name(method); }
