/* SPDX-License-Identifier: Apache-2.0 */
/* A TLS server, credentials in a temporary directory and the client under test, driven by the test's own loop. */
#ifndef TEST_UNIT_HTTP_RIG_H
#define TEST_UNIT_HTTP_RIG_H

#include "io/http.h"
#include "unit/tls_server.h"

#define HTTP_RIG_TOKEN   "SECRET-one"
#define HTTP_RIG_ANSWERS 256

struct http_rig {
    char dir[64];
    struct pki *ca;
    struct pki_pair pair; /* for 127.0.0.1, ::1 and localhost */
    struct tls_server *server;
    struct cr_access *access;
    struct cr_http *http;
    uint64_t last_id;
    struct cr_api_answer answers[HTTP_RIG_ANSWERS]; /* by id */
    int done[HTTP_RIG_ANSWERS];                     /* how often `done` came */
    int changed;                                    /* how often credentials_changed came */
    char lines[65536];                              /* watch lines, each with a newline */
    size_t n_lines, longest_line;
    void (*on_line)(struct http_rig *rig, uint64_t id);
    void (*on_done)(struct http_rig *rig, uint64_t id);
};

/* cmocka fixtures; *state is the rig. */
int http_rig_setup(void **state);
int http_rig_teardown(void **state);

const char *http_rig_path(struct http_rig *rig, const char *name); /* of a file in dir; good until four more calls */
void http_rig_write(struct http_rig *rig, const char *name, const char *text); /* by rename, as credentials rotate */

void http_rig_serve(struct http_rig *rig, tls_handler *handler, void *user);
void http_rig_serve_config(struct http_rig *rig, struct tls_server_config config); /* pair: the rig's if NULL */

/* Writes ca.pem and token and makes a client for the server; x gives what differs, server and files excepted. */
void http_rig_connect(struct http_rig *rig);
void http_rig_connect_explicit(struct http_rig *rig, struct cr_access_explicit x);

uint64_t http_rig_start(struct http_rig *rig, enum cr_http_method method, const char *path, const char *body,
                        int64_t timeout_ms);
uint64_t http_rig_watch(struct http_rig *rig, const char *path, int64_t timeout_ms);
void http_rig_step(struct http_rig *rig); /* one poll and one perform */
struct cr_api_answer *http_rig_wait(struct http_rig *rig, uint64_t id);
struct cr_api_answer *http_rig_get(struct http_rig *rig, const char *path); /* start and wait, 10 s */

void assert_http_text(const char *text, const char *part); /* text contains part, and no secret */
void assert_http_failed(const struct cr_api_answer *a, enum cr_transport transport, const char *part);

/* Handlers. */
enum tls_after http_serve_ok(void *user, struct tls_conn *conn, const struct tls_request *r); /* 200 {"ok":true} */
enum tls_after http_serve_token(void *user, struct tls_conn *conn,
                                const struct tls_request *r);         /* 200 if user, else 401 */
bool request_has_line(const struct tls_request *r, const char *line); /* of the head, whole */

#endif
