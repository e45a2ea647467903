// SPDX-License-Identifier: Apache-2.0
#include "apiserver/relay_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apiserver/relay_lock.h"
#include "common/alloc.h"

/* A transfer's outcome, besides a number of bytes. */
enum { WOULD_BLOCK = -1, BROKEN = -2 };

struct as_conn *as_conn_new(struct as_relay *relay, uint64_t id, int fd)
{
    struct as_conn *c = NEED_NEW(struct as_conn);
    cr_list_init(&c->link);
    atomic_init(&c->refs, 1);
    atomic_init(&c->gone, false);
    c->id = id;
    c->relay = relay;
    c->side[AS_CLIENT] = (struct as_side){.conn = c, .fd = fd};
    c->side[AS_INNER] = (struct as_side){.conn = c, .fd = -1};
    return c;
}

struct as_conn *as_conn_ref(struct as_conn *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}

void as_conn_unref(struct as_conn *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) != 1) return;
    for (unsigned i = 0; i < c->n_certificates; i++) free(c->certificates[i].data);
    free(c->certificates);
    free(c);
}

bool as_conn_gone(const struct as_conn *c) { return atomic_load(&c->gone); }

const gnutls_datum_t *as_conn_certificates(const struct as_conn *c, unsigned *n)
{
    *n = c->n_certificates;
    return c->certificates;
}

void as_conn_start_tls(struct as_conn *c, gnutls_certificate_credentials_t credentials)
{
    static const gnutls_datum_t http11 = {(unsigned char *)"http/1.1", 8};
    gnutls_init(&c->tls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    gnutls_priority_set_direct(c->tls, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2", NULL);
    gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, credentials);
    gnutls_certificate_server_set_request(c->tls, GNUTLS_CERT_REQUEST);
    gnutls_alpn_set_protocols(c->tls, &http11, 1, 0);
    gnutls_transport_set_int(c->tls, c->side[AS_CLIENT].fd);
}

static void keep_certificates(struct as_conn *c)
{
    unsigned n = 0;
    const gnutls_datum_t *list = gnutls_certificate_get_peers(c->tls, &n);
    if (!list || !n) return;
    c->certificates = need_calloc(n, sizeof *c->certificates);
    for (unsigned i = 0; i < n; i++) {
        c->certificates[i].data = need_calloc(1, list[i].size + 1);
        c->certificates[i].size = list[i].size;
        memcpy(c->certificates[i].data, list[i].data, list[i].size);
    }
    c->n_certificates = n;
}

/* The client's hello is read before it is refused, so that the alert reaches it. */
static void refuse_handshake(struct as_conn *c)
{
    static const unsigned char alert[] = {21, 3, 3, 0, 2, 2, 40}; /* fatal, handshake failure */
    char scratch[4096];
    ssize_t n = recv(c->side[AS_CLIENT].fd, scratch, sizeof scratch, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n > 0) send(c->side[AS_CLIENT].fd, alert, sizeof alert, MSG_NOSIGNAL);
    c->state = AS_CONN_DONE;
}

bool as_conn_handshake(struct as_conn *c, bool fail)
{
    if (fail && c->tls) {
        refuse_handshake(c);
        return false;
    }
    int result = c->tls ? gnutls_handshake(c->tls) : 0;
    while (result == GNUTLS_E_INTERRUPTED || result == GNUTLS_E_WARNING_ALERT_RECEIVED)
        result = gnutls_handshake(c->tls);
    if (result == GNUTLS_E_AGAIN) return false;
    if (result < 0) {
        gnutls_alert_send_appropriate(c->tls, result);
        c->state = AS_CONN_DONE;
        return false;
    }
    if (c->tls) keep_certificates(c);
    c->state = AS_CONN_OPEN;
    return true;
}

static ssize_t outcome(ssize_t n)
{
    if (n >= 0) return n;
    return errno == EAGAIN || errno == EINTR ? WOULD_BLOCK : BROKEN;
}

static ssize_t tls_outcome(ssize_t n)
{
    if (n >= 0) return n;
    if (n == GNUTLS_E_PREMATURE_TERMINATION) return 0;
    return gnutls_error_is_fatal((int)n) ? BROKEN : WOULD_BLOCK;
}

static ssize_t receive(struct as_conn *c, int side, char *to, size_t room)
{
    if (side == AS_CLIENT && c->tls) return tls_outcome(gnutls_record_recv(c->tls, to, room));
    return outcome(recv(c->side[side].fd, to, room, 0));
}

static ssize_t transmit(struct as_conn *c, int side, const char *from, size_t len)
{
    if (side == AS_CLIENT && c->tls) return tls_outcome(gnutls_record_send(c->tls, from, len));
    return outcome(send(c->side[side].fd, from, len, MSG_NOSIGNAL));
}

/* Fills an empty pipe only: GnuTLS wants a send that would block repeated with the same bytes. */
static bool fill(struct as_conn *c, struct as_pipe *p, int side, bool *moved)
{
    if (p->len || p->ended) return true;
    ssize_t n = receive(c, side, p->data, sizeof p->data);
    if (n == WOULD_BLOCK) return true;
    if (n == BROKEN && side == AS_CLIENT) return false;
    p->start = 0;
    p->len = n > 0 ? (size_t)n : 0;
    p->ended = n <= 0;
    *moved = true;
    return true;
}

static bool drain(struct as_conn *c, struct as_pipe *p, int side, bool *moved)
{
    if (!p->len) return true;
    ssize_t n = transmit(c, side, p->data + p->start, p->len);
    if (n == WOULD_BLOCK) return true;
    if (n == BROKEN && side == AS_CLIENT) return false;
    if (n < 0) n = (ssize_t)p->len; /* the HTTP library takes no more: what the client still sends is thrown away */
    p->start += (size_t)n;
    p->len -= (size_t)n;
    *moved = true;
    return true;
}

/* How many of the bytes may pass before the cut that is planned; true when it is due after them. */
static bool plan_cut(struct as_cut_plan *plan, const char *data, size_t *len)
{
    static const char end[] = "\r\n\r\n";
    size_t i = 0;
    for (; i < *len && !plan->in_body; i++) {
        plan->matched = data[i] == end[plan->matched] ? plan->matched + 1 : data[i] == '\r';
        plan->in_body = plan->matched == 4;
    }
    if (!plan->in_body || *len - i < plan->body_left) {
        if (plan->in_body) plan->body_left -= *len - i;
        return false;
    }
    *len = i + (size_t)plan->body_left;
    return true;
}

/* Applies a planned cut to what just came from the HTTP library. */
static void watch_plan(struct as_conn *c)
{
    as_relay_lock(c->relay);
    if (c->plan.armed && c->down.len && plan_cut(&c->plan, c->down.data, &c->down.len)) {
        c->plan.armed = false;
        c->down.ended = c->abrupt = true;
    }
    as_relay_unlock(c->relay);
}

static bool fill_down(struct as_conn *c, bool *moved)
{
    bool filled = false;
    if (!fill(c, &c->down, AS_INNER, &filled)) return false;
    if (filled) watch_plan(c);
    *moved = *moved || filled;
    return true;
}

static void end_upload(struct as_conn *c)
{
    if (!c->up.ended || c->up.len || c->upload_ended) return;
    c->upload_ended = true;
    shutdown(c->side[AS_INNER].fd, SHUT_WR);
}

bool as_conn_step(struct as_conn *c)
{
    bool moved = true;
    while (moved) {
        moved = false;
        bool ok = drain(c, &c->down, AS_CLIENT, &moved) && fill_down(c, &moved) && drain(c, &c->up, AS_INNER, &moved) &&
                  fill(c, &c->up, AS_CLIENT, &moved);
        if (!ok) return false;
    }
    end_upload(c);
    return !(c->down.ended && !c->down.len);
}

unsigned as_conn_wants(const struct as_conn *c, int side)
{
    if (c->state == AS_CONN_HANDSHAKE)
        return side == AS_INNER ? 0 : c->tls && gnutls_record_get_direction(c->tls) == 1 ? EPOLLOUT : EPOLLIN;
    const struct as_pipe *in = side == AS_CLIENT ? &c->up : &c->down, *out = side == AS_CLIENT ? &c->down : &c->up;
    unsigned wants = 0;
    if (c->state != AS_CONN_OPEN) return 0;
    if (!in->len && !in->ended) wants |= EPOLLIN;
    if (out->len) wants |= EPOLLOUT;
    return wants;
}

void as_conn_close(struct as_conn *c)
{
    static const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    int fd = c->side[AS_CLIENT].fd;
    as_relay_lock(c->relay);
    bool orderly = !c->abrupt && c->down.ended && c->tls, reset_it = c->how == AS_CUT_RST;
    as_relay_unlock(c->relay);
    if (orderly) gnutls_bye(c->tls, GNUTLS_SHUT_WR);
    if (reset_it)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    else
        shutdown(fd, SHUT_WR);
    close(fd);
    if (c->side[AS_INNER].fd >= 0) close(c->side[AS_INNER].fd);
    if (c->tls) gnutls_deinit(c->tls);
    c->tls = NULL;
    atomic_store(&c->gone, true);
}
