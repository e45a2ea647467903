/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the HTTPS client, for http*.c alone. Engine thread.
 *
 * An identity is what a connection was made with: credentials, CA, names. It never changes; a rotation makes another
 * one with a higher generation. A transfer's easy handle has one identity for its life, a socket remembers the
 * generation that opened it, and a socket of an older generation is shut down as soon as no transfer of that generation
 * runs, so that libcurl finds it dead and does not use it again.
 *
 * A transfer is in exactly one of the lists starting, running, finished. libcurl is entered from cr_http_perform and
 * cr_http_poll only: what callbacks ask for waits in `starting` or as `cancelled`.
 */
#ifndef CR_IO_HTTP_INTERNAL_H
#define CR_IO_HTTP_INTERNAL_H

#include <curl/curl.h>

#include "base/bounds.h"
#include "base/buf.h"
#include "base/list.h"
#include "io/http.h"

#define CR_REQUEST_KINDS 16 /* more than there are combinations of verb and resource */

struct cr_http_identity {
    unsigned refs;
    unsigned long generation;
    struct cr_secret ca, certificate, key; /* data only */
    char *authorization;                   /* the header; NULL without a token */
    char *host;                            /* the Host header when the URL has the TLS server name instead; or NULL */
    char *base_url;                        /* "https://NAME:PORT/PREFIX" */
    char *connect_to;                      /* where NAME really is; or NULL */
    struct curl_slist connect_to_node, header_nodes[4], *headers;
};

struct cr_http_socket {
    curl_socket_t fd;
    unsigned long generation;
    bool watch; /* never used again anyway */
    bool shut;
};

struct cr_http_count {
    const char *verb, *resource;
    json_int_t n;
};

struct cr_http_transfer {
    struct cr_list node;
    struct cr_http *http;
    struct cr_http_identity *identity; /* of easy; NULL before there is one */
    CURL *easy;
    uint64_t id;
    int64_t asked_ms; /* when cr_http_start was called */
    struct cr_api_request request;
    struct cr_api_answer answer;
    struct cr_buf body, line;
    size_t header_bytes;
    bool head_complete; /* the empty line after the headers came */
    bool cancelled;
    enum cr_transport abort; /* why a callback of ours ended it; OK: none did */
    struct curl_slist content_type_node;
    char content_type[128], why[CURL_ERROR_SIZE];
};

struct cr_http {
    CURLM *multi;
    struct cr_access *access;
    struct cr_http_handlers handlers;
    struct cr_http_identity *identity; /* the newest */
    unsigned long generation;
    bool unauthorized; /* the newest identity met a 401 */
    bool renew;        /* the credentials differ from those of the newest identity */
    bool tell_changed; /* credentials_changed is due */
    bool some_cancelled;
    int64_t checked_ms; /* when credential files were looked at last */
    struct cr_list starting, running, finished;
    struct cr_http_socket *sockets;
    size_t n_sockets, cap_sockets;
    struct cr_http_count *counts;
    size_t n_counts, cap_counts;
    struct cr_http_tally tallies[CR_MAX_REQUEST_TALLIES + CR_REQUEST_KINDS];
    size_t n_tallies;
};

/* http_identity.c */
int cr_http_renew_identity(struct cr_http *http, struct csireg_error **error); /* a new one from http->access */
void cr_http_identity_unref(struct cr_http_identity *identity);                /* NULL is fine */
curl_socket_t cr_http_open_socket(void *transfer, curlsocktype purpose, struct curl_sockaddr *address);
int cr_http_close_socket(void *http, curl_socket_t fd);
size_t cr_http_kept_sockets(const struct cr_http *http);  /* of the newest generation, for plain requests */
bool cr_http_has_old_sockets(const struct cr_http *http); /* some connection of an older generation may be used again */
void cr_http_shut_old_sockets(struct cr_http *http);      /* unless a request of an older generation runs */

/* http_transfer.c */
struct cr_http_transfer *cr_http_transfer_new(struct cr_http *http); /* NULL: no memory */
void cr_http_transfer_free(struct cr_http_transfer *t);
bool cr_http_transfer_prepare(struct cr_http_transfer *t); /* sets up the handle for request; false: no memory */
void cr_http_transfer_end(struct cr_http_transfer *t, CURLcode code); /* fills answer */
void cr_http_transfer_fail(struct cr_http_transfer *t, enum cr_transport transport, const char *text);

/* http_answer.c */
int64_t cr_http_retry_after(const char *value, int64_t wall_ms); /* milliseconds, bounded; -1: not understood */
char *cr_http_warning_text(const char *value);
/* Overwrites the token that the request was sent with: a server that echoes it must not bring it into errors and logs.
 * text need not end with NUL. */
void cr_http_hide_token(const struct cr_http_transfer *t, char *text,
                        size_t len); /* of a Warning header; NULL: none, or no memory */
enum cr_transport cr_http_transport_of(const struct cr_http_transfer *t, CURLcode code); /* not for CURLE_OK */
/* What went wrong, for people: the server, the step, libcurl's reason, a remedy. NULL: no memory. */
char *cr_http_failure_text(const struct cr_http_transfer *t, CURLcode code, enum cr_transport transport);

/* http_cloexec.c */
void cr_http_set_cloexec(CURLM *multi); /* on the descriptors that libcurl made for its wake-up */

#endif
