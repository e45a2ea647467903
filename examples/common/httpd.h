/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP/1.1 server for health and status pages, on libmicrohttpd: one thread for all connections, at most
 * HTTPD_MAX_CONNECTIONS of them, idle ones are dropped. The handler runs on that thread, one request at a time.
 */
#ifndef COMMON_HTTPD_H
#define COMMON_HTTPD_H

#include <stdbool.h>
#include <stddef.h>

#define HTTPD_MAX_CONNECTIONS 64
#define HTTPD_MAX_BODY        (1024 * 1024) /* of a request; 413 past it */
#define HTTPD_IDLE_SECONDS    15

struct httpd;

struct httpd_request {
    const char *method; /* "GET" */
    const char *path;   /* decoded, without the query */
    const char *body;   /* NUL-terminated, "" without one */
    size_t body_len;
};

struct httpd_response {
    int status;               /* preset: 404 */
    const char *content_type; /* preset: "text/plain; charset=utf-8"; static */
    char *body;               /* malloc'ed, taken; NULL: empty */
    size_t body_len;
};

typedef void httpd_handler(void *user, const struct httpd_request *request, struct httpd_response *response);

void httpd_text(struct httpd_response *response, int status, const char *text); /* copies the text */

/* address: "ADDR:PORT", ":PORT" for every address, "[V6]:PORT", port 0 for a free one, or "unix:PATH".
 * NULL and *out_error (malloc'ed, names address and cause) when it cannot listen. */
struct httpd *httpd_start(const char *address, httpd_handler *handler, void *user, char **out_error);
bool httpd_is_address(const char *address);           /* whether it has this form */
const char *httpd_address(const struct httpd *httpd); /* with the port really taken */
void httpd_stop(struct httpd *httpd);                 /* ends connections, joins; NULL is fine */

#endif
