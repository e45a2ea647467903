// SPDX-License-Identifier: Apache-2.0
#include "apiserver/relay.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "apiserver/relay_conn.h"
#include "apiserver/relay_lock.h"
#include "common/alloc.h"

#define MAX_EVENTS   64
#define BACKLOG      512
#define ACCEPT_PAUSE (100 * (int64_t)AS_MS) /* when no descriptors are left */

/* What /net asks for. */
struct net {
    bool refuse, blackhole, tls_fail, reset_all;
    int64_t accept_delay_ns;
};

struct as_relay {
    struct as_relay_handlers handlers;
    struct sockaddr_storage bound;
    socklen_t bound_len;
    char *address;
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t applied;
    /* relay thread */
    int epoll, listener, bell;
    bool listening, watching; /* the listener listens; epoll knows it */
    int64_t accept_after_ns;
    struct net now;
    size_t waiting; /* connections in state WAITING */
    bool gone_news;
    /* under mu */
    struct cr_list conns;
    gnutls_certificate_credentials_t credentials;
    struct net wanted;
    uint64_t wanted_generation, applied_generation;
    struct as_relay_counts counts;
    uint64_t last_id;
    bool stopping;
    int64_t stop_ns;
};

void as_relay_lock(struct as_relay *r) { pthread_mutex_lock(&r->mu); }
void as_relay_unlock(struct as_relay *r) { pthread_mutex_unlock(&r->mu); }

static void ring(struct as_relay *r)
{
    uint64_t one = 1;
    if (write(r->bell, &one, sizeof one) < 0) return; /* a full counter rings as well */
}

/* ---- epoll ---- */

static void set_interest(struct as_relay *r, struct as_side *side, unsigned wants)
{
    struct epoll_event event = {.events = wants, .data.ptr = side};
    if (side->fd < 0 || wants == side->interest) return;
    int op = !wants ? EPOLL_CTL_DEL : side->interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    epoll_ctl(r->epoll, op, side->fd, &event);
    side->interest = wants;
}

static void update_interest(struct as_relay *r, struct as_conn *c)
{
    for (int i = 0; i < 2; i++) set_interest(r, &c->side[i], r->now.blackhole ? 0 : as_conn_wants(c, i));
}

static void watch_listener(struct as_relay *r, bool on)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (r->watching == on) return;
    epoll_ctl(r->epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, r->listener, &event);
    r->watching = on;
}

/* ---- connections ---- */

static void drop(struct as_relay *r, struct as_conn *c)
{
    for (int i = 0; i < 2; i++) set_interest(r, &c->side[i], 0);
    r->waiting -= c->state == AS_CONN_WAITING;
    as_relay_lock(r);
    cr_list_remove(&c->link);
    r->counts.open--;
    as_relay_unlock(r);
    as_conn_close(c);
    c->state = AS_CONN_DONE;
    r->gone_news = true;
    as_conn_unref(c);
}

/* Hands the connection to the HTTP library. */
static bool open_inner(struct as_relay *r, struct as_conn *c)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) return false;
    c->side[AS_INNER].fd = pair[0];
    as_relay_lock(r);
    r->counts.handshakes += c->tls != NULL;
    as_relay_unlock(r);
    r->handlers.opened(r->handlers.user, pair[1], c->id);
    return true;
}

static bool go_on(struct as_relay *r, struct as_conn *c)
{
    if (c->state == AS_CONN_HANDSHAKE && as_conn_handshake(c, r->now.tls_fail) && !open_inner(r, c)) return false;
    if (c->state == AS_CONN_DONE) return false;
    if (c->state == AS_CONN_OPEN && !as_conn_step(c)) return false;
    if (c->up.ended && !atomic_exchange(&c->gone, true)) r->gone_news = true;
    return true;
}

static void advance(struct as_relay *r, struct as_conn *c)
{
    if (r->now.blackhole) return;
    if (go_on(r, c))
        update_interest(r, c);
    else
        drop(r, c);
}

static void start(struct as_relay *r, struct as_conn *c)
{
    as_relay_lock(r);
    gnutls_certificate_credentials_t credentials = r->credentials;
    as_relay_unlock(r);
    r->waiting--;
    c->state = AS_CONN_HANDSHAKE;
    if (credentials) as_conn_start_tls(c, credentials);
    advance(r, c);
}

static void admit(struct as_relay *r, int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    as_relay_lock(r);
    struct as_conn *c = as_conn_new(r, ++r->last_id, fd);
    cr_list_append(&r->conns, &c->link);
    r->counts.accepted++;
    r->counts.open++;
    as_relay_unlock(r);
    c->ready_ns = as_now_ns() + r->now.accept_delay_ns;
    r->waiting++;
    if (!r->now.accept_delay_ns) start(r, c);
}

static void accept_all(struct as_relay *r)
{
    for (;;) {
        int fd = accept4(r->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            admit(r, fd);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR) continue;
        if (errno != EAGAIN) r->accept_after_ns = as_now_ns() + ACCEPT_PAUSE;
        return;
    }
}

static struct as_conn *conn_of(struct cr_list *link) { return CR_CONTAINER(link, struct as_conn, link); }

/* ---- listening and refusing ---- */

static int bind_listener(struct sockaddr_storage *to, socklen_t len)
{
    int on = 1, fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)to, len) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Not listening, the port stays ours: whoever connects is refused. */
static void set_listening(struct as_relay *r, bool on)
{
    if (on == r->listening) return;
    if (on) {
        if (listen(r->listener, BACKLOG) < 0) return;
    } else {
        watch_listener(r, false);
        close(r->listener);
        r->listener = bind_listener(&r->bound, r->bound_len);
    }
    r->listening = on;
}

/* ---- what other threads ask for ---- */

static void reset_all(struct as_relay *r)
{
    as_relay_lock(r);
    CR_LIST_FOREACH (link, &r->conns) {
        conn_of(link)->cut = true;
        conn_of(link)->how = AS_CUT_RST;
    }
    as_relay_unlock(r);
}

static bool apply_net(struct as_relay *r)
{
    as_relay_lock(r);
    bool news = r->applied_generation != r->wanted_generation;
    r->now = r->wanted;
    r->wanted.reset_all = false;
    bool stopping = r->stopping;
    as_relay_unlock(r);
    set_listening(r, !r->now.refuse && !stopping);
    if (r->now.reset_all) reset_all(r);
    r->now.reset_all = false;
    return news;
}

static void say_applied(struct as_relay *r)
{
    as_relay_lock(r);
    r->applied_generation = r->wanted_generation;
    pthread_cond_broadcast(&r->applied);
    as_relay_unlock(r);
}

static bool is_cut(struct as_relay *r, struct as_conn *c)
{
    as_relay_lock(r);
    bool cut = c->cut;
    c->abrupt = c->abrupt || cut;
    as_relay_unlock(r);
    return cut;
}

/* Cuts, delayed starts, the beginning and the end of a blackhole. */
static void visit_all(struct as_relay *r, bool everyone)
{
    int64_t now = as_now_ns();
    CR_LIST_FOREACH_SAFE (link, &r->conns) {
        struct as_conn *c = conn_of(link);
        if (is_cut(r, c))
            drop(r, c);
        else if (c->state == AS_CONN_WAITING && c->ready_ns <= now)
            start(r, c);
        else if (everyone && r->now.blackhole)
            update_interest(r, c);
        else if (everyone && c->state != AS_CONN_WAITING)
            advance(r, c);
    }
}

static int64_t next_timer(struct as_relay *r)
{
    int64_t next = r->accept_after_ns ? r->accept_after_ns : AS_FOREVER;
    if (!r->waiting) return next;
    CR_LIST_FOREACH (link, &r->conns) {
        struct as_conn *c = conn_of(link);
        if (c->state == AS_CONN_WAITING && c->ready_ns < next) next = c->ready_ns;
    }
    return next;
}

static int sleep_ms(struct as_relay *r)
{
    int64_t next = next_timer(r), now = as_now_ns();
    as_relay_lock(r);
    if (r->stopping && r->stop_ns < next) next = r->stop_ns;
    as_relay_unlock(r);
    if (next == AS_FOREVER) return -1;
    return next <= now ? 0 : (int)((next - now) / AS_MS) + 1;
}

static bool is_over(struct as_relay *r)
{
    as_relay_lock(r);
    bool over = r->stopping && (cr_list_empty(&r->conns) || as_now_ns() >= r->stop_ns);
    as_relay_unlock(r);
    return over;
}

/* ---- the thread ---- */

static void dispatch(struct as_relay *r, struct epoll_event *events, int n)
{
    /* A connection that this batch drops may be named again further on: it is held until the batch is done. */
    for (int i = 0; i < n; i++) {
        struct as_side *side = events[i].data.ptr;
        if (side && (void *)side != (void *)r) as_conn_ref(side->conn);
    }
    for (int i = 0; i < n; i++) {
        struct as_side *side = events[i].data.ptr;
        if (!side) {
            accept_all(r);
        } else if ((void *)side != (void *)r) {
            if (side->conn->state != AS_CONN_DONE) advance(r, side->conn);
            as_conn_unref(side->conn);
        }
    }
}

static bool hear_bell(struct as_relay *r)
{
    uint64_t n;
    return read(r->bell, &n, sizeof n) > 0;
}

static void tell_gone(struct as_relay *r)
{
    if (!r->gone_news) return;
    r->gone_news = false;
    r->handlers.gone(r->handlers.user);
}

static void *run(void *arg)
{
    struct as_relay *r = arg;
    struct epoll_event events[MAX_EVENTS];
    while (!is_over(r)) {
        bool may_accept = r->listening && !r->now.blackhole && as_now_ns() >= r->accept_after_ns;
        if (may_accept) r->accept_after_ns = 0;
        watch_listener(r, may_accept);
        int n = epoll_wait(r->epoll, events, MAX_EVENTS, sleep_ms(r));
        dispatch(r, events, n > 0 ? n : 0);
        if (hear_bell(r) || r->waiting) {
            visit_all(r, apply_net(r));
            say_applied(r);
        }
        tell_gone(r);
    }
    CR_LIST_FOREACH_SAFE (link, &r->conns) drop(r, conn_of(link));
    tell_gone(r);
    return NULL;
}

/* ---- start and stop ---- */

static char *split_host(const char *address, char **port)
{
    const char *colon = strrchr(address, ':');
    if (!colon) return NULL;
    *port = need_strdup(colon + 1);
    if (*address == '[' && colon > address + 1 && colon[-1] == ']')
        return need_strndup(address + 1, (size_t)(colon - address - 2));
    return need_strndup(address, (size_t)(colon - address));
}

static bool resolve(struct as_relay *r, const char *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV},
                    *found;
    char *port = NULL, *host = split_host(address, &port);
    int result = host ? getaddrinfo(*host ? host : NULL, port, &hints, &found) : EAI_NONAME;
    if (result == 0) {
        memcpy(&r->bound, found->ai_addr, found->ai_addrlen);
        r->bound_len = found->ai_addrlen;
        freeaddrinfo(found);
    }
    free(host);
    free(port);
    return result == 0;
}

static void name_address(struct as_relay *r)
{
    char host[64] = "", port[16] = "";
    getnameinfo((struct sockaddr *)&r->bound, r->bound_len, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    bool v6 = r->bound.ss_family == AF_INET6;
    r->address = need_printf("%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

static bool open_fds(struct as_relay *r)
{
    r->epoll = epoll_create1(EPOLL_CLOEXEC);
    r->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = r};
    return r->epoll >= 0 && r->bell >= 0 && epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->bell, &event) == 0;
}

static bool open_listener(struct as_relay *r)
{
    r->listener = bind_listener(&r->bound, r->bound_len);
    r->bound_len = sizeof r->bound;
    return r->listener >= 0 && listen(r->listener, BACKLOG) == 0 &&
           getsockname(r->listener, (struct sockaddr *)&r->bound, &r->bound_len) == 0;
}

struct as_relay *as_relay_start(const char *address, gnutls_certificate_credentials_t credentials,
                                const struct as_relay_handlers *handlers, char **out_error)
{
    struct as_relay *r = NEED_NEW(struct as_relay);
    r->handlers = *handlers;
    r->credentials = credentials;
    r->listener = r->epoll = r->bell = -1;
    cr_list_init(&r->conns);
    pthread_mutex_init(&r->mu, NULL);
    as_cond_init(&r->applied);
    r->listening = true;
    errno = EINVAL;
    if (resolve(r, address) && open_fds(r) && open_listener(r)) {
        name_address(r);
        if (pthread_create(&r->thread, NULL, run, r) == 0) return r;
    }
    *out_error = need_printf("cannot listen on %s: %s", address, strerror(errno));
    r->stopping = true;
    as_relay_free(r);
    return NULL;
}

const char *as_relay_address(const struct as_relay *r) { return r->address; }

void as_relay_stop(struct as_relay *r, int grace_ms)
{
    as_relay_lock(r);
    r->stopping = true;
    r->stop_ns = as_now_ns() + (int64_t)grace_ms * AS_MS;
    r->wanted.blackhole = false;
    r->wanted_generation++;
    as_relay_unlock(r);
    ring(r);
    pthread_join(r->thread, NULL);
}

void as_relay_free(struct as_relay *r)
{
    if (!r) return;
    if (r->listener >= 0) close(r->listener);
    if (r->epoll >= 0) close(r->epoll);
    if (r->bell >= 0) close(r->bell);
    pthread_mutex_destroy(&r->mu);
    pthread_cond_destroy(&r->applied);
    free(r->address);
    free(r);
}

struct as_relay_counts as_relay_count(struct as_relay *r)
{
    as_relay_lock(r);
    struct as_relay_counts counts = r->counts;
    as_relay_unlock(r);
    return counts;
}

static bool read_net(struct net *net, const json_t *wanted, char **out_error)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)wanted, key, value) {
        if (!strcmp(key, "refuse"))
            net->refuse = json_is_true(value);
        else if (!strcmp(key, "blackhole"))
            net->blackhole = json_is_true(value);
        else if (!strcmp(key, "tlsFail"))
            net->tls_fail = json_is_true(value);
        else if (!strcmp(key, "resetAll"))
            net->reset_all = json_is_true(value);
        else if (!strcmp(key, "acceptDelayMs"))
            net->accept_delay_ns = json_integer_value(value) * AS_MS;
        else
            *out_error = need_printf("unknown key \"%s\"", key);
        if (*out_error) return false;
    }
    return true;
}

bool as_relay_net(struct as_relay *r, const json_t *wanted, char **out_error)
{
    as_relay_lock(r);
    struct net net = r->wanted;
    bool ok = read_net(&net, wanted, out_error);
    if (ok) {
        r->wanted = net;
        uint64_t generation = ++r->wanted_generation;
        ring(r);
        while (r->applied_generation < generation && !r->stopping) pthread_cond_wait(&r->applied, &r->mu);
    }
    as_relay_unlock(r);
    return ok;
}

void as_relay_set_credentials(struct as_relay *r, gnutls_certificate_credentials_t credentials)
{
    as_relay_lock(r);
    r->credentials = credentials;
    as_relay_unlock(r);
}

struct as_conn *as_relay_conn(struct as_relay *r, uint64_t id)
{
    struct as_conn *found = NULL;
    as_relay_lock(r);
    CR_LIST_FOREACH (link, &r->conns) {
        if (conn_of(link)->id == id) found = conn_of(link);
    }
    if (found) as_conn_ref(found);
    as_relay_unlock(r);
    return found;
}

uint64_t as_conn_requests(struct as_conn *c)
{
    as_relay_lock(c->relay);
    uint64_t before = c->requests++;
    as_relay_unlock(c->relay);
    return before;
}

void as_conn_cut(struct as_conn *c, enum as_cut_how how)
{
    as_relay_lock(c->relay);
    c->cut = true;
    c->how = how;
    as_relay_unlock(c->relay);
    ring(c->relay);
}

void as_conn_cut_at_end(struct as_conn *c, enum as_cut_how how)
{
    as_relay_lock(c->relay);
    c->abrupt = true;
    c->how = how;
    as_relay_unlock(c->relay);
}

void as_conn_cut_after(struct as_conn *c, uint64_t body_bytes, enum as_cut_how how)
{
    as_relay_lock(c->relay);
    c->plan = (struct as_cut_plan){.armed = true, .body_left = body_bytes};
    c->how = how;
    as_relay_unlock(c->relay);
}
