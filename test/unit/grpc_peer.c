/* SPDX-License-Identifier: Apache-2.0 */
#include "grpc_peer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FRAME_HEADER 9
#define MAX_FRAME    16384

struct peer {
    int listener;
    char *path;
    peer_script *script;
    const void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int fd; /* of the running script, -1 without */
    bool stopping;
    size_t ended;
    uint32_t reset_code;
};

/* ---- the server ---- */

static bool begin(struct peer *p, int fd)
{
    pthread_mutex_lock(&p->lock);
    p->fd = fd;
    bool go = !p->stopping;
    pthread_mutex_unlock(&p->lock);
    return go;
}

static void end(struct peer *p)
{
    pthread_mutex_lock(&p->lock);
    close(p->fd);
    p->fd = -1;
    p->ended++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void *serve(void *user)
{
    struct peer *p = user;
    int fd;
    while ((fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct peer_conn c = {
            .peer = p, .fd = fd, .connection_window = 65535, .stream_window = 65535, .initial_window = 65535};
        if (begin(p, fd)) p->script(&c, p->arg);
        end(p);
    }
    return NULL;
}

struct peer *peer_start(const char *path, peer_script *script, const void *arg)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct peer *p = calloc(1, sizeof *p);
    if (!p || strlen(path) >= sizeof address.sun_path) abort();
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    *p = (struct peer){.path = strdup(path), .script = script, .arg = arg, .fd = -1, .reset_code = UINT32_MAX};
    p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    if (bind(p->listener, (struct sockaddr *)&address, sizeof address) || listen(p->listener, 64) ||
        pthread_create(&p->thread, NULL, serve, p))
        abort();
    return p;
}

void peer_stop(struct peer *p)
{
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    if (p->fd >= 0) shutdown(p->fd, SHUT_RDWR);
    pthread_mutex_unlock(&p->lock);
    shutdown(p->listener, SHUT_RDWR);
    pthread_join(p->thread, NULL);
    close(p->listener);
    unlink(p->path);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
    free(p->path);
    free(p);
}

void peer_wait_ended(struct peer *p, size_t n)
{
    pthread_mutex_lock(&p->lock);
    while (p->ended < n) pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

uint32_t peer_reset_code(struct peer *p)
{
    pthread_mutex_lock(&p->lock);
    uint32_t code = p->reset_code;
    pthread_mutex_unlock(&p->lock);
    return code;
}

/* ---- bytes ---- */

bool peer_write(struct peer_conn *c, const void *data, size_t len)
{
    for (const char *at = data; len > 0;) {
        ssize_t n = send(c->fd, at, len, MSG_NOSIGNAL);
        if (n <= 0) return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static bool read_all(struct peer_conn *c, void *data, size_t len)
{
    return len == 0 || recv(c->fd, data, len, MSG_WAITALL) == (ssize_t)len;
}

static uint32_t get32(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void put32(uint8_t *b, uint32_t v)
{
    for (int i = 0; i < 4; i++) b[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* ---- frames from the client ---- */

static void on_settings(struct peer_conn *c, const uint8_t *data, size_t len)
{
    for (size_t i = 0; i + 6 <= len; i += 6) {
        if (data[i] != 0 || data[i + 1] != 4) continue; /* SETTINGS_INITIAL_WINDOW_SIZE */
        int64_t window = get32(data + i + 2);
        c->stream_window += window - c->initial_window;
        c->initial_window = window;
    }
}

static bool on_frame(struct peer_conn *c, uint8_t type, uint8_t flags, uint32_t stream, const uint8_t *data, size_t len)
{
    switch (type) {
    case H2_SETTINGS:
        if (flags & H2_ACK) return true;
        on_settings(c, data, len);
        return peer_frame(c, H2_SETTINGS, H2_ACK, 0, NULL, 0);
    case H2_PING:
        return (flags & H2_ACK) || peer_frame(c, H2_PING, H2_ACK, 0, data, len);
    case H2_RST_STREAM:
        pthread_mutex_lock(&c->peer->lock);
        c->peer->reset_code = get32(data);
        pthread_mutex_unlock(&c->peer->lock);
        return true;
    case H2_HEADERS:
        c->stream = stream;
        c->stream_window = c->initial_window;
        return true;
    case 8: /* WINDOW_UPDATE */
        if (stream)
            c->stream_window += get32(data);
        else
            c->connection_window += get32(data);
        return true;
    default:
        return true;
    }
}

/* *ended: the frame was the last of a request. */
static bool read_frame(struct peer_conn *c, bool *ended)
{
    uint8_t head[FRAME_HEADER], data[MAX_FRAME];
    if (!read_all(c, head, sizeof head)) return false;
    size_t len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    if (len > sizeof data || !read_all(c, data, len)) return false;
    *ended = (head[3] == H2_DATA || head[3] == H2_HEADERS) && (head[4] & H2_END_STREAM);
    return on_frame(c, head[3], head[4], get32(head + 5) & 0x7fffffff, data, len);
}

void peer_drain(struct peer_conn *c)
{
    char rest[4096];
    bool ended;
    while (read_frame(c, &ended)) continue;
    while (recv(c->fd, rest, sizeof rest, 0) > 0) continue;
}

bool peer_settings(struct peer_conn *c)
{
    uint8_t preface[24];
    return peer_frame(c, H2_SETTINGS, 0, 0, NULL, 0) && read_all(c, preface, sizeof preface);
}

bool peer_request(struct peer_conn *c)
{
    bool ended = false;
    while (!ended)
        if (!read_frame(c, &ended)) return false;
    return true;
}

/* ---- frames to the client ---- */

bool peer_frame(struct peer_conn *c, uint8_t type, uint8_t flags, uint32_t stream, const void *data, size_t len)
{
    uint8_t head[FRAME_HEADER] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type, flags};
    put32(head + 5, stream);
    return peer_write(c, head, sizeof head) && peer_write(c, data, len);
}

static bool wait_for_window(struct peer_conn *c)
{
    bool ended;
    while (c->connection_window <= 0 || c->stream_window <= 0)
        if (!read_frame(c, &ended)) return false;
    return true;
}

/* Takes what has come, so that a cancelled stream or a closed connection is noticed. */
static bool take_pending(struct peer_conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    bool ended;
    while (poll(&p, 1, 0) > 0)
        if (!read_frame(c, &ended)) return false;
    return peer_reset_code(c->peer) == UINT32_MAX;
}

bool peer_data(struct peer_conn *c, const void *data, size_t len, bool end_stream)
{
    for (const char *at = data; len > 0;) {
        if (!take_pending(c) || !wait_for_window(c)) return false;
        size_t n = len < MAX_FRAME ? len : MAX_FRAME;
        if ((int64_t)n > c->connection_window) n = (size_t)c->connection_window;
        if ((int64_t)n > c->stream_window) n = (size_t)c->stream_window;
        bool last = n == len && end_stream;
        if (!peer_frame(c, H2_DATA, last ? H2_END_STREAM : 0, c->stream, at, n)) return false;
        c->connection_window -= (int64_t)n;
        c->stream_window -= (int64_t)n;
        at += n;
        len -= n;
    }
    return true;
}

/* A string literal of HPACK without Huffman coding. */
static size_t put_literal(uint8_t *at, const char *s)
{
    size_t len = strlen(s), rest = len, n = 0;
    if (len < 127) {
        at[n++] = (uint8_t)len;
    } else {
        at[n++] = 127;
        for (rest -= 127; rest >= 128; rest >>= 7) at[n++] = (uint8_t)(rest | 128);
        at[n++] = (uint8_t)rest;
    }
    memcpy(at + n, s, len);
    return n + len;
}

bool peer_headers(struct peer_conn *c, bool end_stream, const char *const *fields)
{
    static __thread uint8_t block[MAX_FRAME];
    size_t len = 0;
    for (size_t i = 0; fields[i]; i += 2) {
        block[len++] = 0; /* literal field without indexing, new name */
        len += put_literal(block + len, fields[i]);
        len += put_literal(block + len, fields[i + 1]);
    }
    uint8_t flags = (uint8_t)(H2_END_HEADERS | (end_stream ? H2_END_STREAM : 0));
    return peer_frame(c, H2_HEADERS, flags, c->stream, block, len);
}

/* ---- answers ---- */

bool peer_begin(struct peer_conn *c)
{
    const char *const fields[] = {":status", "200", "content-type", "application/grpc", NULL};
    return peer_headers(c, false, fields);
}

bool peer_message(struct peer_conn *c, const void *data, size_t len)
{
    uint8_t prefix[5] = {0};
    put32(prefix + 1, (uint32_t)len);
    return peer_data(c, prefix, sizeof prefix, false) && peer_data(c, data, len, false);
}

bool peer_finish(struct peer_conn *c, const char *status, const char *text)
{
    const char *const fields[] = {"grpc-status", status, text ? "grpc-message" : NULL, text, NULL};
    return peer_headers(c, true, fields);
}

void peer_good(struct peer_conn *c, const void *arg)
{
    static const char info[] = "\x0a\x09"
                               "CSIPlugin"
                               "\x12\x01"
                               "n";
    (void)arg;
    if (peer_settings(c) && peer_request(c) && peer_begin(c) && peer_message(c, info, sizeof info - 1) &&
        peer_finish(c, "0", NULL))
        peer_drain(c);
}
