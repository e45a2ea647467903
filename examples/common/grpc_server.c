/* SPDX-License-Identifier: Apache-2.0 */
#include "common/grpc_server.h"

#include <errno.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/unix_socket.h"

#define MAX_STREAMS     256 /* calls at a time on one connection */
#define ACCEPT_PAUSE_MS 100 /* after accept failed for want of descriptors or memory */
#define GRPC_NO_MESSAGE 13  /* INTERNAL */

/* What an event of the completion queue is about. */
enum tag_kind { TAG_NEW, TAG_MESSAGE, TAG_CLOSED, TAG_SENT, TAG_COUNT, TAG_SHUTDOWN };

struct tag {
    enum tag_kind kind;
    void *owner; /* struct gcall; struct gserver for TAG_SHUTDOWN */
};

/* Fires on the accepting thread with the loop's lock held. */
struct timer {
    TAILQ_ENTRY(timer) link;
    bool set;
    int64_t due_ms;
    void (*fire)(void *owner);
    void *owner;
};

struct gcall {
    TAILQ_ENTRY(gcall) link;
    struct gserver *server;
    struct tag tags[TAG_COUNT];
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *request;
    int cancelled;
    /* under the loop's lock */
    int refs; /* batches under way, and the timer */
    bool closed, replying;
    struct timer timer;
    int code;
    grpc_slice text;
    grpc_byte_buffer *response;
};

struct gserver {
    TAILQ_ENTRY(gserver) link;
    struct gloop *loop;
    const struct gserver_hooks *hooks;
    void *user;
    char *path;
    grpc_server *server;
    struct tag shutdown_tag;
    /* under the loop's lock */
    struct unix_listener listener;
    struct timer timer; /* start of listening, or the pause of accept */
    TAILQ_HEAD(, gcall) calls;
    bool stopping, shut_down;
};

struct gloop {
    grpc_completion_queue *cq;
    pthread_t handling, accepting;
    int epoll, wake;
    pthread_mutex_t lock;
    pthread_cond_t changed;     /* a call or a shutdown of some server ended */
    TAILQ_HEAD(, timer) timers; /* the next one first */
    TAILQ_HEAD(, gserver) servers;
    bool stopping;
};

/* ---- timers, all with the lock held ---- */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void wake_up(const struct gloop *loop)
{
    uint64_t one = 1;
    ssize_t written = write(loop->wake, &one, sizeof one);
    (void)written; /* full means awake already */
}

static void timer_set(struct gloop *loop, struct timer *timer, int64_t after_ms, void (*fire)(void *), void *owner)
{
    *timer = (struct timer){.set = true, .due_ms = now_ms() + after_ms, .fire = fire, .owner = owner};
    struct timer *later;
    TAILQ_FOREACH(later, &loop->timers, link)
    if (later->due_ms > timer->due_ms) break;
    if (later)
        TAILQ_INSERT_BEFORE(later, timer, link);
    else
        TAILQ_INSERT_TAIL(&loop->timers, timer, link);
    if (TAILQ_FIRST(&loop->timers) == timer) wake_up(loop);
}

static bool timer_unset(struct gloop *loop, struct timer *timer)
{
    if (!timer->set) return false;
    TAILQ_REMOVE(&loop->timers, timer, link);
    timer->set = false;
    return true;
}

/* The milliseconds until the next one, -1 without one. */
static int fire_timers(struct gloop *loop)
{
    struct timer *timer;
    while ((timer = TAILQ_FIRST(&loop->timers)) != NULL) {
        int64_t left = timer->due_ms - now_ms();
        if (left > 0) return left > INT_MAX ? INT_MAX : (int)left;
        timer_unset(loop, timer);
        timer->fire(timer->owner);
    }
    return -1;
}

/* ---- calls ---- */

static void call_free(struct gcall *c)
{
    grpc_call_details_destroy(&c->details);
    grpc_metadata_array_destroy(&c->metadata);
    grpc_byte_buffer_destroy(c->request);
    grpc_byte_buffer_destroy(c->response);
    grpc_slice_unref(c->text);
    if (c->call) grpc_call_unref(c->call);
    free(c);
}

/* Lock held. The server may be gone as soon as the lock is released. */
static void call_unref(struct gcall *c)
{
    if (--c->refs > 0) return;
    TAILQ_REMOVE(&c->server->calls, c, link);
    pthread_cond_broadcast(&c->server->loop->changed);
    call_free(c);
}

/* Lock held. Waits for the next call; one waits at a time, more queue up in gRPC. */
static void request_call(struct gserver *server)
{
    struct gcall *c = NEED_NEW(struct gcall);
    c->server = server;
    c->refs = 1;
    c->text = grpc_empty_slice();
    for (int i = 0; i < TAG_COUNT; i++) c->tags[i] = (struct tag){(enum tag_kind)i, c};
    grpc_call_details_init(&c->details);
    grpc_metadata_array_init(&c->metadata);
    TAILQ_INSERT_TAIL(&server->calls, c, link);
    grpc_completion_queue *cq = server->loop->cq;
    if (grpc_server_request_call(server->server, &c->call, &c->details, &c->metadata, cq, cq, &c->tags[TAG_NEW]) !=
        GRPC_CALL_OK)
        call_unref(c);
}

/* Lock held; the batch holds a reference until its event. */
static void start_batch(struct gcall *c, const grpc_op *ops, size_t n, enum tag_kind kind)
{
    c->refs++;
    if (grpc_call_start_batch(c->call, ops, n, &c->tags[kind], NULL) != GRPC_CALL_OK) call_unref(c);
}

/* Reading the message is a batch of its own: later gRPC never completes one that also replies. */
static void on_new(struct gcall *c, bool success)
{
    if (success && !c->server->stopping) request_call(c->server);
    if (success) {
        grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &c->cancelled};
        grpc_op message = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->request};
        start_batch(c, &close, 1, TAG_CLOSED);
        start_batch(c, &message, 1, TAG_MESSAGE);
    }
    call_unref(c);
}

static void send_reply(struct gcall *c)
{
    c->replying = true;
    grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}};
    size_t n = 1;
    if (c->code == 0) {
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = c->response;
    }
    ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[n].data.send_status_from_server.status = (grpc_status_code)c->code;
    ops[n++].data.send_status_from_server.status_details = &c->text;
    start_batch(c, ops, n, TAG_SENT);
}

static void reply_due(void *owner)
{
    struct gcall *c = owner;
    send_reply(c);
    call_unref(c);
}

static int64_t time_left(gpr_timespec deadline)
{
    if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return -1;
    int64_t ms = gpr_time_to_millis(gpr_time_sub(deadline, gpr_now(deadline.clock_type)));
    return ms > 0 ? ms : 0;
}

/* Without the lock: the handler may take its time. */
static void ask_handler(struct gcall *c, struct gserver_reply *reply)
{
    grpc_byte_buffer_reader reader;
    if (!c->request || !grpc_byte_buffer_reader_init(&reader, c->request)) {
        *reply = (struct gserver_reply){.code = GRPC_NO_MESSAGE, .text = "no request message"};
        return;
    }
    grpc_slice bytes = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    char *method = grpc_slice_to_c_string(c->details.method), *authority = grpc_slice_to_c_string(c->details.host);
    char *peer = grpc_call_get_peer(c->call);
    struct gserver_request request = {.method = method,
                                      .authority = authority,
                                      .peer = peer,
                                      .body = GRPC_SLICE_START_PTR(bytes),
                                      .len = GRPC_SLICE_LENGTH(bytes),
                                      .timeout_ms = time_left(c->details.deadline)};
    c->server->hooks->handle(c->server->user, &request, reply);
    gpr_free(peer);
    gpr_free(authority);
    gpr_free(method);
    grpc_slice_unref(bytes);
}

static void keep_reply(struct gcall *c, const struct gserver_reply *reply)
{
    c->code = reply->code;
    if (reply->text) c->text = grpc_slice_from_copied_string(reply->text);
    grpc_slice body = reply->body ? grpc_slice_from_copied_buffer(reply->body, reply->len) : grpc_empty_slice();
    c->response = grpc_raw_byte_buffer_create(&body, 1);
    grpc_slice_unref(body);
}

static void on_message(struct gcall *c)
{
    struct gloop *loop = c->server->loop;
    struct gserver_reply reply = {0};
    ask_handler(c, &reply);
    pthread_mutex_lock(&loop->lock);
    keep_reply(c, &reply);
    if (!c->closed && reply.delay_ms > 0 && !reply.hang) {
        c->refs++;
        timer_set(loop, &c->timer, reply.delay_ms, reply_due, c);
    } else if (!c->closed && !reply.hang) {
        send_reply(c);
    }
    call_unref(c);
    pthread_mutex_unlock(&loop->lock);
    free(reply.body);
}

static void tell_finished(const struct gcall *c, bool sent)
{
    if (!c->server->hooks->finished) return;
    char *method = grpc_slice_to_c_string(c->details.method);
    c->server->hooks->finished(c->server->user, method, sent);
    gpr_free(method);
}

static void on_sent(struct gcall *c, bool success)
{
    tell_finished(c, success);
    call_unref(c);
}

/* The call is over; a reply that is still to come is pointless. */
static void on_closed(struct gcall *c)
{
    c->closed = true;
    if (timer_unset(c->server->loop, &c->timer)) call_unref(c);
    if (!c->replying) tell_finished(c, false);
    call_unref(c);
}

static void on_shutdown(struct gserver *server)
{
    server->shut_down = true;
    pthread_cond_broadcast(&server->loop->changed);
}

/* ---- the handling thread ---- */

static void on_event(struct gloop *loop, const struct tag *tag, bool success)
{
    pthread_mutex_lock(&loop->lock); /* the queue's own ordering is out of a race detector's sight */
    bool message = tag->kind == TAG_MESSAGE;
    pthread_mutex_unlock(&loop->lock);
    if (message) return on_message(tag->owner);
    pthread_mutex_lock(&loop->lock);
    switch (tag->kind) {
    case TAG_NEW:
        on_new(tag->owner, success);
        break;
    case TAG_CLOSED:
        on_closed(tag->owner);
        break;
    case TAG_SENT:
        on_sent(tag->owner, success);
        break;
    case TAG_SHUTDOWN:
        on_shutdown(tag->owner);
        break;
    default:
        break;
    }
    pthread_mutex_unlock(&loop->lock);
}

static void *handle_events(void *arg)
{
    struct gloop *loop = arg;
    for (;;) {
        grpc_event event = grpc_completion_queue_next(loop->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN) return NULL;
        if (event.type == GRPC_OP_COMPLETE) on_event(loop, event.tag, event.success);
    }
}

/* ---- the accepting thread ---- */

static bool watch_listener(struct gserver *server)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = server};
    return epoll_ctl(server->loop->epoll, EPOLL_CTL_ADD, server->listener.fd, &event) == 0;
}

static void resume_accept(void *owner) { watch_listener(owner); }

static void pause_accept(struct gserver *server)
{
    epoll_ctl(server->loop->epoll, EPOLL_CTL_DEL, server->listener.fd, NULL);
    timer_set(server->loop, &server->timer, ACCEPT_PAUSE_MS, resume_accept, server);
}

static void serve_connection(struct gserver *server, int fd)
{
    if (server->hooks->accepted && server->hooks->accepted(server->user, fd)) return;
    grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
    grpc_server_add_channel_from_fd(server->server, fd, credentials);
    grpc_server_credentials_release(credentials);
}

static void accept_all(struct gserver *server)
{
    for (;;) {
        int fd = accept4(server->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            serve_connection(server, fd);
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR && errno != ECONNABORTED)
            return pause_accept(server);
    }
}

/* An event may be of a server that was stopped meanwhile. */
static bool is_served(const struct gloop *loop, const void *server)
{
    const struct gserver *s;
    TAILQ_FOREACH(s, &loop->servers, link)
    if (s == server) return s->listener.fd >= 0;
    return false;
}

static void *accept_connections(void *arg)
{
    struct gloop *loop = arg;
    pthread_mutex_lock(&loop->lock);
    while (!loop->stopping) {
        int timeout = fire_timers(loop);
        pthread_mutex_unlock(&loop->lock);
        struct epoll_event events[16];
        int n = epoll_wait(loop->epoll, events, 16, timeout);
        pthread_mutex_lock(&loop->lock);
        for (int i = 0; i < n; i++) {
            uint64_t count;
            if (events[i].data.ptr == NULL) {
                ssize_t got = read(loop->wake, &count, sizeof count);
                (void)got;
            } else if (is_served(loop, events[i].data.ptr)) {
                accept_all(events[i].data.ptr);
            }
        }
    }
    pthread_mutex_unlock(&loop->lock);
    return NULL;
}

/* ---- loop ---- */

struct gloop *gloop_new(void)
{
    setenv("GRPC_VERBOSITY", "NONE", 0); /* its own lines would mix with ours; whoever sets it wins */
    grpc_init();
    struct gloop *loop = NEED_NEW(struct gloop);
    loop->cq = grpc_completion_queue_create_for_next(NULL);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&loop->lock, NULL);
    pthread_cond_init(&loop->changed, NULL);
    TAILQ_INIT(&loop->timers);
    TAILQ_INIT(&loop->servers);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(loop->epoll, EPOLL_CTL_ADD, loop->wake, &event);
    pthread_create(&loop->handling, NULL, handle_events, loop);
    pthread_create(&loop->accepting, NULL, accept_connections, loop);
    return loop;
}

void gloop_free(struct gloop *loop)
{
    if (!loop) return;
    pthread_mutex_lock(&loop->lock);
    loop->stopping = true;
    pthread_mutex_unlock(&loop->lock);
    wake_up(loop);
    pthread_join(loop->accepting, NULL);
    grpc_completion_queue_shutdown(loop->cq);
    pthread_join(loop->handling, NULL);
    grpc_completion_queue_destroy(loop->cq);
    close(loop->epoll);
    close(loop->wake);
    pthread_cond_destroy(&loop->changed);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
    grpc_shutdown();
}

/* ---- server ---- */

static grpc_server *create_server(grpc_completion_queue *cq)
{
    grpc_resource_quota *quota = grpc_resource_quota_create(NULL);
    grpc_resource_quota_resize(quota, GSERVER_QUOTA);
    grpc_arg list[] = {
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
         .value.integer = GSERVER_MAX_REQUEST},
        {.type = GRPC_ARG_INTEGER, .key = (char *)GRPC_ARG_MAX_CONCURRENT_STREAMS, .value.integer = MAX_STREAMS},
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
         .value.integer = 1 << GRPC_COMPRESS_NONE},
        {.type = GRPC_ARG_POINTER,
         .key = (char *)GRPC_ARG_RESOURCE_QUOTA,
         .value.pointer = {quota, grpc_resource_quota_arg_vtable()}}};
    grpc_channel_args args = {sizeof list / sizeof *list, list};
    grpc_server *server = grpc_server_create(&args, NULL);
    grpc_resource_quota_unref(quota);
    grpc_server_register_completion_queue(server, cq, NULL);
    grpc_server_start(server);
    return server;
}

static bool open_listener(struct gserver *server, char **out_error)
{
    if (server->listener.fd < 0 && !unix_bind(server->path, &server->listener, out_error)) return false;
    return unix_listen(&server->listener, out_error) && watch_listener(server);
}

static void listen_due(void *owner)
{
    struct gserver *server = owner;
    char *error = NULL;
    open_listener(server, &error);
    if (server->hooks->listening) server->hooks->listening(server->user, error);
    free(error);
}

static bool prepare_listener(struct gserver *server, const struct gserver_options *options, char **out_error)
{
    if (options->listen_after_ms > 0)
        return !options->bind_early || unix_bind(server->path, &server->listener, out_error);
    return unix_bind(server->path, &server->listener, out_error) && unix_listen(&server->listener, out_error);
}

static void server_free(struct gserver *server)
{
    unix_close(&server->listener);
    free(server->path);
    free(server);
}

struct gserver *gserver_start(struct gloop *loop, const struct gserver_options *options, char **out_error)
{
    struct gserver *server = NEED_NEW(struct gserver);
    server->loop = loop;
    server->hooks = options->hooks;
    server->user = options->user;
    server->path = need_strdup(options->path);
    server->listener.fd = -1;
    TAILQ_INIT(&server->calls);
    if (!prepare_listener(server, options, out_error)) {
        server_free(server);
        return NULL;
    }
    server->server = create_server(loop->cq);
    server->shutdown_tag = (struct tag){TAG_SHUTDOWN, server};
    pthread_mutex_lock(&loop->lock);
    TAILQ_INSERT_TAIL(&loop->servers, server, link);
    request_call(server);
    if (options->listen_after_ms > 0)
        timer_set(loop, &server->timer, options->listen_after_ms, listen_due, server);
    else
        watch_listener(server);
    pthread_mutex_unlock(&loop->lock);
    return server;
}

void gserver_stop(struct gserver *server)
{
    if (!server) return;
    struct gloop *loop = server->loop;
    pthread_mutex_lock(&loop->lock);
    server->stopping = true;
    TAILQ_REMOVE(&loop->servers, server, link);
    timer_unset(loop, &server->timer);
    unix_close(&server->listener); /* leaves epoll by its close */
    pthread_mutex_unlock(&loop->lock);
    grpc_server_shutdown_and_notify(server->server, loop->cq, &server->shutdown_tag);
    grpc_server_cancel_all_calls(server->server);
    pthread_mutex_lock(&loop->lock);
    while (!server->shut_down || !TAILQ_EMPTY(&server->calls)) pthread_cond_wait(&loop->changed, &loop->lock);
    pthread_mutex_unlock(&loop->lock);
    grpc_server_destroy(server->server);
    server_free(server);
}
