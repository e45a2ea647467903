/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC servers for unary methods on Unix sockets, on gRPC's C core. A loop has two threads whatever the number of
 * servers: one runs handlers, the other accepts connections and keeps the time of delayed replies. A delayed or hanging
 * reply holds up nobody else. Start and stop from a thread that is not the loop's, with signals blocked
 * (common/stop.h).
 */
#ifndef COMMON_GRPC_SERVER_H
#define COMMON_GRPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GSERVER_MAX_REQUEST (4 * 1024 * 1024)  /* bytes of one request; RESOURCE_EXHAUSTED past it */
#define GSERVER_QUOTA       (64 * 1024 * 1024) /* memory of all connections of one server */

struct gloop;
struct gserver;

struct gserver_request {
    const char *method;    /* "/csi.v1.Node/NodeGetInfo" */
    const char *authority; /* ":authority" as received */
    const char *peer;      /* as gRPC names the connection, "fd:9" */
    const void *body;      /* never NULL */
    size_t len;
    int64_t timeout_ms; /* what is left until the caller's deadline; -1: none */
};

struct gserver_reply {
    int code;         /* preset: 0 */
    const char *text; /* grpc-message; borrowed until the handler's next call; NULL: none */
    void *body;       /* malloc'ed, taken; NULL: an empty message */
    size_t len;
    int64_t delay_ms; /* sent that much later */
    bool hang;        /* never sent */
};

/* All on the loop's threads; must not call back into loop or server. */
struct gserver_hooks {
    /* A method. Answer UNIMPLEMENTED (12) for one that is not served. */
    void (*handle)(void *user, const struct gserver_request *request, struct gserver_reply *reply);
    /* The reply of a method went out (true), or the caller gave up before (false). May be NULL. */
    void (*finished)(void *user, const char *method, bool sent);
    /* A connection; true takes it, the server does not see it then. May be NULL. */
    bool (*accepted)(void *user, int fd);
    /* The socket listens, or could not (error is not NULL); only with listen_after_ms. May be NULL. */
    void (*listening)(void *user, const char *error);
};

struct gserver_options {
    const char *path;
    const struct gserver_hooks *hooks; /* borrowed */
    void *user;
    int64_t listen_after_ms; /* 0: at once */
    bool bind_early;         /* with listen_after_ms: the file is there at once and refuses connections until then */
};

struct gloop *gloop_new(void);       /* grpc_init included */
void gloop_free(struct gloop *loop); /* after its servers; grpc_shutdown included; NULL is fine */

/* NULL and *out_error (malloc'ed, names path and cause). */
struct gserver *gserver_start(struct gloop *loop, const struct gserver_options *options, char **out_error);
void gserver_stop(struct gserver *server); /* socket file removed, calls cancelled, memory freed; NULL is fine */

#endif
