/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small in-memory API server that follows kube-apiserver for the few resources csireg uses, with fault injection and
 * counting, for tests and demonstrations. Never part of the library. Several may run in one process; nothing is global.
 * Functions may be called from any thread. It uses threads of its own; it ends the program when memory is short.
 */
#ifndef APISERVER_APISERVER_H
#define APISERVER_APISERVER_H

#include <stdbool.h>
#include <stddef.h>

struct apiserver;

struct apiserver_config {
    const char *listen;             /* "ADDR:PORT", port 0: a free one; NULL: 127.0.0.1:0 */
    bool plain_http;                /* no TLS */
    const char *tls_cert, *tls_key; /* PEM files; NULL: an authority and a certificate are made */
    const char *const *host_names;  /* further names and addresses in the certificate that is made */
    size_t n_host_names;
    const char *client_ca;          /* PEM file of who signs client certificates; NULL: one is made */
    const char *tokens;             /* JSON file: [{token, user, groups, ttlMs?}] */
    const char *rules;              /* JSON file: the rule table of authorization */
    bool no_anonymous;              /* requests without credentials get 401 */
    const char *gate_node_info;     /* "on", "off" (default), "unknown" */
    const char *gate_volume_health; /* "on", "off" (default) */
    long history;                   /* events kept for watches per resource; 0: 1,000 */
    const char *load;               /* JSON file: a List, or one object a line, created at start */
    const char *const *nodes;       /* Nodes made at start; each gets a token of its node identity */
    size_t n_nodes;
    const char *control; /* Unix socket of the control interface; NULL: none */
    const char *log;     /* file for one line per request; NULL: none */
};

/* 0, or -1 and *error (malloc'ed). */
int apiserver_start(const struct apiserver_config *config, struct apiserver **out, char **error);
/* Watches end cleanly, hung requests are dropped; returns when all threads are gone. NULL is fine. */
void apiserver_stop(struct apiserver *s);

const char *apiserver_address(const struct apiserver *s); /* "127.0.0.1:40123" */
const char *apiserver_ca(const struct apiserver *s);      /* PEM; NULL with plain HTTP or given files */

/* One control request, as over the control socket; path with its query, body may be NULL.
 * The answer's text (malloc'ed) and its HTTP status. May wait, see /wait. */
char *apiserver_control(struct apiserver *s, const char *method, const char *path, const char *body, int *status);

/* A kubeconfig (YAML, malloc'ed) with the token of this user, or with a new one when it has none; groups are those of
 * a node identity for "system:node:..." and system:masters otherwise. */
char *apiserver_kubeconfig(struct apiserver *s, const char *user);

#endif
