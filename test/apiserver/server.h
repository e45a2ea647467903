/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One emulated API server. Threads: the relay's, one of the HTTP library per connection, one per control connection.
 * One lock for all state; nobody waits for the network under it.
 */
#ifndef APISERVER_SERVER_H
#define APISERVER_SERVER_H

#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "apiserver/answer.h"
#include "apiserver/apiserver.h"
#include "apiserver/auth.h"
#include "apiserver/counts.h"
#include "apiserver/pki.h"
#include "apiserver/relay.h"
#include "apiserver/rules.h"
#include "apiserver/store.h"
#include "base/list.h"

struct MHD_Daemon;
struct unix_listener;

struct apiserver {
    pthread_mutex_t mu;
    pthread_cond_t changed; /* counts, objects, rules, connections: what /wait and hung requests look at */
    /* under mu */
    bool stopping;
    struct as_gates gates;
    struct as_store store;
    struct as_auth auth;
    json_t *rbac;
    struct as_rules rules;
    struct as_counts counts;
    struct cr_list watches;
    FILE *log; /* NULL: none */
    /* set at start */
    struct as_authority *authority, *client_authority; /* NULL where files were given */
    char *ca;                                          /* PEM of what signed the server certificate */
    gnutls_certificate_credentials_t *credentials;     /* all that were ever used */
    size_t n_credentials;
    bool plain;
    struct as_relay *relay;
    struct MHD_Daemon *api, *control;
    pthread_mutex_t door; /* api takes connections while it is open */
    bool door_open;
    struct unix_listener *control_listener;
};

/* ---- pipeline.c ---- */

/* One request from authentication to the store, in Kubernetes' order of checks. The lock is not held. Counted and
 * faulted when it came over a connection. */
void as_serve(struct apiserver *s, struct as_request *r, struct as_answer *a);
/* The cut before the body is read, if a rule wants it; true: the connection is gone. */
bool as_serve_headers(struct apiserver *s, struct as_request *r);
/* The same for a request that already knows its user, from /do. */
void as_serve_as(struct apiserver *s, struct as_request *r, struct as_answer *a);

/* ---- faults.c: what a rule's action does; lock not held ---- */

bool as_fault_before(struct apiserver *s, struct as_request *r, struct as_answer *a); /* false: answered or dropped */
void as_fault_after(struct apiserver *s, struct as_request *r, struct as_answer *a);
void as_fault_conflict(struct apiserver *s, const struct as_request *r); /* lock held: another writer comes first */
void as_fault_drop(const struct as_request *r, json_t *object);

/* ---- read.c, write.c: the verbs; lock not held ---- */

void as_get(struct apiserver *s, struct as_request *r, struct as_answer *a);
void as_list(struct apiserver *s, struct as_request *r, struct as_answer *a);
void as_create(struct apiserver *s, struct as_request *r, struct as_answer *a);
void as_update(struct apiserver *s, struct as_request *r, struct as_answer *a);
void as_patch(struct apiserver *s, struct as_request *r, struct as_answer *a);
void as_delete(struct apiserver *s, struct as_request *r, struct as_answer *a);
bool as_write_options(const struct as_request *r, struct as_answer *a); /* dryRun, fieldValidation */
/* Waits until version `rv` is there; 504 after 3 s. Lock held. */
bool as_wait_version(struct apiserver *s, const char *rv, struct as_answer *a);

/* ---- http.c, control.c ---- */

bool as_http_start(struct apiserver *s, const char *address, char **out_error);
bool as_control_start(struct apiserver *s, const char *path, char **out_error);
void as_control_stop(struct apiserver *s);

/* ---- server.c ---- */

bool as_server_gate(struct apiserver *s, const char *name, const char *value); /* lock held */
/* Serves another certificate from now on. */
bool as_server_credentials(struct apiserver *s, const char *certificate, const char *key, char **out_error);

/* ---- server_hooks.c: the bodies of POST /auth (lock held; new, or NULL) and POST /net (not held) ---- */

json_t *as_server_auth(struct apiserver *s, const json_t *body, char **out_error);
bool as_server_net(struct apiserver *s, const json_t *body, char **out_error);

/* ---- wait.c: GET /wait ---- */

/* Blocks until what the parameters ask for is there. 200, 408 when it did not come, 400 and *out_error. */
int as_wait(struct apiserver *s, const struct as_params *p, char **out_error);

#endif
