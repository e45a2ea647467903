/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC server written byte by byte, for answers that no honest server gives. It accepts one connection after another
 * on a Unix socket and runs a script on each, on a thread of its own; the script talks HTTP/2 by the helpers below.
 * Reads and writes block; peer_stop ends them. When a script returns the connection is closed.
 */
#ifndef UNIT_GRPC_PEER_H
#define UNIT_GRPC_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer;

/* One connection, while its script runs. */
struct peer_conn {
    struct peer *peer;
    int fd;
    uint32_t stream; /* of the request that came last */
    int64_t connection_window, stream_window, initial_window;
};

typedef void peer_script(struct peer_conn *c, const void *arg);

struct peer *peer_start(const char *path, peer_script *script, const void *arg); /* listens when it returns */
void peer_stop(struct peer *p);                                                  /* the socket file goes too */
void peer_wait_ended(struct peer *p, size_t n); /* until n connections since the start are closed */
uint32_t peer_reset_code(struct peer *p);       /* of the last RST_STREAM that came; UINT32_MAX: none */

/* Plain bytes. false: the other side is gone. */
bool peer_write(struct peer_conn *c, const void *data, size_t len);
void peer_drain(struct peer_conn *c); /* reads frames or garbage until the other side closes */

/* HTTP/2. */
enum { H2_DATA = 0, H2_HEADERS = 1, H2_RST_STREAM = 3, H2_SETTINGS = 4, H2_PING = 6, H2_GOAWAY = 7 };
enum { H2_END_STREAM = 1, H2_ACK = 1, H2_END_HEADERS = 4 };

bool peer_settings(struct peer_conn *c); /* says our SETTINGS and reads the preface */
bool peer_request(struct peer_conn *c);  /* serves frames until a whole request came */
bool peer_frame(struct peer_conn *c, uint8_t type, uint8_t flags, uint32_t stream, const void *data, size_t len);
bool peer_data(struct peer_conn *c, const void *data, size_t len, bool end); /* keeps to the flow control windows */

/* fields: name, value, name, value, ..., NULL */
bool peer_headers(struct peer_conn *c, bool end, const char *const *fields);

/* The usual parts of a good answer: headers; one message with its five-byte prefix; trailers with this status. */
bool peer_begin(struct peer_conn *c);
bool peer_message(struct peer_conn *c, const void *data, size_t len);
bool peer_finish(struct peer_conn *c, const char *status, const char *text);

/* A whole script: answers each connection's first request as a GetInfo, with name "n", then waits for its end. */
void peer_good(struct peer_conn *c, const void *arg);

#endif
