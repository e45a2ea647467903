/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the relay: two sockets and a buffer each way. Relay thread, but for the fields that say otherwise.
 */
#ifndef APISERVER_RELAY_CONN_H
#define APISERVER_RELAY_CONN_H

#include <stdatomic.h>
#include <stddef.h>

#include "apiserver/relay.h"
#include "base/list.h"

#define AS_PIPE_SIZE 65536

struct as_pipe {
    char data[AS_PIPE_SIZE];
    size_t start, len;
    bool ended; /* the source has no more */
};

enum as_conn_state {
    AS_CONN_WAITING, /* accepted, held back by acceptDelayMs */
    AS_CONN_HANDSHAKE,
    AS_CONN_OPEN,
    AS_CONN_DONE, /* to be closed */
};

enum { AS_CLIENT, AS_INNER };

struct as_side {
    struct as_conn *conn;
    int fd;
    unsigned interest; /* as epoll knows it; 0: not registered */
};

/* Looks for the end of the answer's header, then counts its body. */
struct as_cut_plan {
    bool armed, in_body;
    unsigned matched; /* bytes of CR LF CR LF seen */
    uint64_t body_left;
};

struct as_conn {
    struct cr_list link;
    atomic_uint refs;
    uint64_t id;
    enum as_conn_state state;
    int64_t ready_ns; /* WAITING: until then */
    struct as_side side[2];
    gnutls_session_t tls;         /* NULL: plain */
    gnutls_datum_t *certificates; /* written before the HTTP library hears of the connection, then constant */
    unsigned n_certificates;
    struct as_pipe up, down; /* towards the HTTP library, towards the client */
    bool upload_ended;       /* the end of up was passed on */
    /* any thread, under the relay's lock */
    bool cut;    /* at once */
    bool abrupt; /* a fault ends it: no farewell of TLS */
    enum as_cut_how how;
    struct as_cut_plan plan;
    uint64_t requests;
    /* any thread */
    atomic_bool gone;
    struct as_relay *relay;
};

struct as_conn *as_conn_new(struct as_relay *relay, uint64_t id, int fd);
void as_conn_start_tls(struct as_conn *c, gnutls_certificate_credentials_t credentials);
bool as_conn_handshake(struct as_conn *c, bool fail); /* false: not done yet, or over (state DONE) */
bool as_conn_step(struct as_conn *c); /* moves what can be moved without waiting; false: the connection is over */
unsigned as_conn_wants(const struct as_conn *c, int side); /* epoll events */
void as_conn_close(struct as_conn *c); /* both sockets, as `how` says; the memory goes with the last reference */

#endif
