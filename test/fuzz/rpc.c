/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile gRPC peer on a real Unix socket. Input: the method; what the peer says before (nothing, SETTINGS, a whole
 * head of an answer) and whether it hangs up after; the bytes that it sends. Each call has exactly one end, by its
 * deadline, and what it brings is checked.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/bounds.h"
#include "base/clock.h"
#include "fuzz/fuzz.h"
#include "io/rpc.h"

#define CALL_MS     400   /* deadline of a call whose peer hangs up, so it ends sooner */
#define SILENT_MS   30    /* of one whose peer stays */
#define PATIENCE_MS 20000 /* past its deadline a call has ended, even on a busy machine */

enum before { RAW, SETTINGS, HEADERS, MESSAGE, BEFORES };

static char directory[] = "/tmp/csireg-fuzz-XXXXXX";
static char path[64];
static int listener;
static struct cr_rpc *rpc;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static struct cr_rpc_call *finished; /* the one call that is out, once it is over */
static uint64_t last_id;

/* ---- the client's side ---- */

static void on_done(void *user, struct cr_rpc_call *call)
{
    (void)user;
    pthread_mutex_lock(&lock);
    CHECK(!finished && call->id == last_id);
    finished = call;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static struct cr_rpc_call *await(void)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += PATIENCE_MS / 1000;
    pthread_mutex_lock(&lock);
    while (!finished) CHECK(pthread_cond_timedwait(&changed, &lock, &end) == 0);
    struct cr_rpc_call *call = finished;
    finished = NULL;
    pthread_mutex_unlock(&lock);
    return call;
}

static bool is_over(void)
{
    pthread_mutex_lock(&lock);
    bool over = finished;
    pthread_mutex_unlock(&lock);
    return over;
}

static void clean_up(void)
{
    cr_rpc_free(rpc);
    unlink(path);
    rmdir(directory);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &monotonic);
    CHECK(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/s", directory);
    memcpy(a.sun_path, path, strlen(path) + 1);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&a, sizeof a) == 0 && listen(listener, 4) == 0);
    CHECK(cr_rpc_new(&rpc, on_done, NULL, NULL) == 0);
    return atexit(clean_up);
}

/* ---- the peer's side ---- */

static void say(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n <= 0) return; /* the other side is gone */
        p += n;
        len -= (size_t)n;
    }
}

static void say_frame(int fd, uint8_t type, uint8_t flags, uint32_t stream, const void *data, size_t len)
{
    const uint8_t head[] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type, flags, 0, 0, 0,
                            (uint8_t)stream};
    say(fd, head, sizeof head);
    if (len) say(fd, data, len);
}

/* Reads until the request's head came: by then stream 1 is open. */
static void await_request(int fd)
{
    static char text[65536];
    size_t len = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (len < sizeof text - 1 && !is_over() && poll(&p, 1, CALL_MS) > 0) {
        ssize_t n = recv(fd, text + len, sizeof text - 1 - len, 0);
        if (n <= 0) return;
        len += (size_t)n;
        if (memmem(text, len, "\x00\x00\x00\x00\x01", 5) && len > 100) return; /* a frame on it */
    }
}

/* ":status: 200" and "content-type: application/grpc", without Huffman and without the dynamic table */
static const char headers[] = "\x88\x0f\x10\x10"
                              "application/grpc";
static const char good_end[] = "\x00\x0bgrpc-status\x01"
                               "0";

static void say_before(int fd, enum before before)
{
    if (before == RAW) return;
    say_frame(fd, 4, 0, 0, NULL, 0);
    await_request(fd);
    if (before == HEADERS || before == MESSAGE) say_frame(fd, 1, 4, 1, headers, sizeof headers - 1);
}

/* The bytes as one message with its prefix, and a good end. */
static void say_message(int fd, struct fuzz_in *in)
{
    uint8_t message[16384] = {fuzz_byte(in)};
    size_t len = in->left < sizeof message - 5 ? in->left : sizeof message - 5;
    message[3] = (uint8_t)(len >> 8);
    message[4] = (uint8_t)len;
    if (len) memcpy(message + 5, in->at, len);
    say_frame(fd, 0, 0, 1, message, len + 5);
    say_frame(fd, 1, 5, 1, good_end, sizeof good_end - 1);
}

static void check_result(const struct cr_rpc_call *call)
{
    const struct cr_rpc_result *r = &call->result;
    CHECK(r->code >= 0 && r->code <= 16);
    if (r->text) fuzz_check_text(r->text, CR_MAX_GRPC_MESSAGE);
    CHECK(!r->refused || r->code == CR_GRPC_INTERNAL);
    CHECK(r->code == 0 || (!r->plugin.type && !r->capabilities.types && !r->node.node_id));
    if (r->code == 0 && call->method == CR_RPC_GET_INFO) CHECK(r->plugin.type && r->plugin.name && r->plugin.versions);
    if (r->code == 0 && call->method == CR_RPC_NODE_GET_INFO) CHECK(r->node.node_id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    struct cr_conn *conn = NULL;
    struct cr_identity identity;
    uint8_t what = fuzz_byte(&in);
    enum cr_rpc_method method = (enum cr_rpc_method)(1 + what % 4);
    enum before before = (enum before)(what >> 2 & 3);
    bool stays = (what >> 4) == 15 && before != MESSAGE;
    CHECK(cr_rpc_connect(rpc, path, &conn, &identity) == 0);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    cr_rpc_start(conn, ++last_id, method, stays ? SILENT_MS : CALL_MS, what & 16, "x");
    say_before(fd, before);
    if (before == MESSAGE)
        say_message(fd, &in);
    else
        say(fd, in.at, in.left);
    if (!stays && before != MESSAGE) shutdown(fd, SHUT_WR);
    struct cr_rpc_call *call = await();
    check_result(call);
    cr_rpc_call_free(call);
    cr_rpc_close(conn);
    close(fd);
    return 0;
}
