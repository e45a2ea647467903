/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted HTTP/1.1 server with or without TLS on the loopback interface, a thread per connection, for tests of the
 * client. The handler sees each request and writes whatever bytes it likes. Every descriptor is CLOEXEC.
 */
#ifndef TEST_UNIT_TLS_SERVER_H
#define TEST_UNIT_TLS_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "unit/pki.h"

struct tls_server;
struct tls_conn;

struct tls_request {
    const char *head;    /* request line and headers, as received, without the empty line */
    const char *body;    /* "" without one */
    const char *client;  /* CN of the client's certificate, "" without one */
    const char *sni;     /* the name the client asked for, "" without one */
    unsigned connection; /* 1, 2, ... in order of accept */
    unsigned n;          /* 1, 2, ... on this connection */
};

enum tls_after { TLS_KEEP, TLS_CLOSE, TLS_CUT /* no close_notify */, TLS_RESET };

/* On the connection's thread. */
typedef enum tls_after tls_handler(void *user, struct tls_conn *conn, const struct tls_request *request);

struct tls_server_config {
    const struct pki_pair *pair; /* NULL: plain HTTP */
    const char *client_ca;       /* PEM; NULL: no client certificate is asked for */
    bool ipv6;                   /* ::1 instead of 127.0.0.1 */
    const char *greeting;        /* says this in clear at once and nothing more; "" for silence; NULL: serves */
    tls_handler *handler;
    void *user;
};

struct tls_server *tls_server_start(const struct tls_server_config *config);
void tls_server_stop(struct tls_server *s); /* ends every connection and joins; NULL is fine */

unsigned tls_server_port(const struct tls_server *s);
unsigned tls_server_accepts(const struct tls_server *s);
unsigned tls_server_requests(const struct tls_server *s);
unsigned tls_server_open(const struct tls_server *s); /* connections that the client has not closed */

/* For handlers. False when the client is gone. */
bool tls_send(struct tls_conn *conn, const void *data, size_t len);
bool tls_puts(struct tls_conn *conn, const char *text);
/* headers: "Name: value\r\n"... or NULL. */
bool tls_reply(struct tls_conn *conn, int status, const char *headers, const char *body);
void tls_wait_closed(struct tls_conn *conn); /* until the client closes or the server stops */

#endif
