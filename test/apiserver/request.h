/* SPDX-License-Identifier: Apache-2.0 */
/* One API request as the pipeline sees it, whoever brought it: a connection, or the control interface's /do. */
#ifndef APISERVER_REQUEST_H
#define APISERVER_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apiserver/resource.h"

struct as_conn;

#define AS_MAX_BODY   3145728 /* of a request */
#define AS_MAX_PARAMS 32      /* of a query; further ones are ignored */

struct as_params {
    char *key[AS_MAX_PARAMS], *value[AS_MAX_PARAMS]; /* decoded, malloc'ed */
    size_t n;
};

void as_params_parse(struct as_params *p, const char *query); /* NULL: none */
void as_params_fini(struct as_params *p);
const char *as_param(const struct as_params *p, const char *key); /* first one; NULL when absent */
int64_t as_param_int(const struct as_params *p, const char *key, int64_t otherwise);

struct as_user {
    char *name;     /* NULL: not authenticated */
    json_t *groups; /* array of strings */
};

void as_user_fini(struct as_user *u);
bool as_user_in(const struct as_user *u, const char *group);
const char *as_user_node(const struct as_user *u); /* the node's name when it is a node identity, else NULL */

struct as_request {
    char *method, *path, *query; /* path percent-encoded; query without "?", may be NULL */
    struct as_params params;
    struct as_route route;
    char *content_type, *accept, *authorization, *user_agent; /* may be NULL */
    char *body;                                               /* NUL-terminated; NULL when empty */
    size_t body_len;
    bool too_large;
    struct as_conn *conn; /* NULL: from /do, which is neither counted nor faulted */
    struct as_user user;
    json_t *action; /* of the rule that acts on it, or NULL */
    uint64_t rule;
    int64_t start_ns;
    uint64_t rv_before;
};

/* target: path and query as in the request line. */
struct as_request *as_request_new(const char *method, const char *target);
void as_request_route(struct as_request *r); /* once method and target are there */
void as_request_free(struct as_request *r);
bool as_request_append(struct as_request *r, const char *data,
                       size_t len);                                     /* past AS_MAX_BODY: only too_large is set */
const char *as_request_name(const struct as_request *r, json_t **keep); /* of the URL, or of a created object's body */
bool as_media_type_is(const char *content_type, const char *media);     /* parameters after ";" do not count */

#endif
