/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small TCP relay in front of the HTTP library. It accepts, speaks TLS, and passes plain bytes to the HTTP library
 * over a socket pair; so it can break a connection at a chosen byte, and knows at once when a client goes away while
 * its request hangs. One thread (epoll) for all connections. Functions may be called from any thread.
 */
#ifndef APISERVER_RELAY_H
#define APISERVER_RELAY_H

#include <gnutls/gnutls.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct as_relay;
struct as_conn;

enum as_cut_how { AS_CUT_FIN, AS_CUT_RST };

struct as_relay_handlers {
    /* A client came through: inner is the HTTP library's end, the callee's to close; id names the connection. Relay
     * thread. */
    void (*opened)(void *user, int inner, uint64_t id);
    /* A client went away, or was cut off. Relay thread, no lock held. */
    void (*gone)(void *user);
    void *user;
};

struct as_relay_counts {
    uint64_t accepted, handshakes, open;
};

/* address: "127.0.0.1:0", "[::1]:443". credentials NULL: plain HTTP; else borrowed until replaced or stopped. */
struct as_relay *as_relay_start(const char *address, gnutls_certificate_credentials_t credentials,
                                const struct as_relay_handlers *handlers, char **out_error);
const char *as_relay_address(const struct as_relay *r); /* with the port really taken */
/* Takes no more clients, passes on what is buffered for at most grace_ms, ends. */
void as_relay_stop(struct as_relay *r, int grace_ms);
void as_relay_free(struct as_relay *r);

struct as_relay_counts as_relay_count(struct as_relay *r);

/* Faults of the network, all of them at once; see the keys of /net. False and *out_error: not understood. */
bool as_relay_net(struct as_relay *r, const json_t *net, char **out_error);
/* From the next handshake on. The old credentials are still borrowed by running ones: free them after stop. */
void as_relay_set_credentials(struct as_relay *r, gnutls_certificate_credentials_t credentials);

struct as_conn *as_relay_conn(struct as_relay *r, uint64_t id); /* a reference, NULL when unknown */
struct as_conn *as_conn_ref(struct as_conn *c);
void as_conn_unref(struct as_conn *c); /* NULL is fine */
bool as_conn_gone(const struct as_conn *c);
uint64_t as_conn_requests(struct as_conn *c); /* counts one more request and returns how many there were before */
/* The client's certificate chain, DER, leaf first; borrowed. */
const gnutls_datum_t *as_conn_certificates(const struct as_conn *c, unsigned *n);

void as_conn_cut(struct as_conn *c, enum as_cut_how how);        /* now; what is buffered is lost */
void as_conn_cut_at_end(struct as_conn *c, enum as_cut_how how); /* when the HTTP library closes it */
/* Cuts when body_bytes of the body of the answer that is to come were passed on (0: right after its header). */
void as_conn_cut_after(struct as_conn *c, uint64_t body_bytes, enum as_cut_how how);

#endif
