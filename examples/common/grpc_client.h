/* SPDX-License-Identifier: Apache-2.0 */
/* One blocking unary gRPC call to a Unix socket on a connection of its own. Any thread; grpc_init must have been
 * called. */
#ifndef COMMON_GRPC_CLIENT_H
#define COMMON_GRPC_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#define GCLIENT_MAX_RESPONSE (64 * 1024)

struct gclient_reply {
    int code;   /* 0..16; 14 when it could not connect */
    int error;  /* errno of the connect, 0 when it connected */
    char *text; /* owned; for people, never NULL */
    void *body; /* owned; code 0: never NULL */
    size_t len;
};

/* The request is len bytes, 0 for an empty message. Everything ends within timeout_ms. */
void gclient_call(const char *path, const char *method, const void *request, size_t len, int64_t timeout_ms,
                  struct gclient_reply *out);
void gclient_reply_fini(struct gclient_reply *reply);

#endif
