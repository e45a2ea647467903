/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile API server on a real connection. Input: what is asked, how the answer is cut into writes, and when it is
 * cancelled; a ready head or none; the bytes that the server sends. Each request has exactly one end, in time; the
 * lines of a watch are those that a plain split finds.
 */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bounds.h"
#include "base/clock.h"
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "io/http.h"

#define TOKEN       "SECRET-TOKEN-12345"
#define TIMEOUT_MS  10000 /* of a request */
#define PATIENCE_MS 20000
#define MAX_CONNS   4 /* that one request may open */

struct run {
    uint64_t id;
    unsigned done, conns, n_lines;
    bool watch, cancelled;
    uint8_t cancel_at; /* line after which it is cancelled; 0: never */
    struct cr_api_answer answer;
    char *lines; /* each with a newline */
    size_t lines_len;
    char *sent; /* what the server sends */
    size_t sent_len, at, step;
    int fd;
};

static int listener;
static struct cr_http *http;
static struct run run;

/* ---- the client's side ---- */

static void on_done(void *user, uint64_t id, struct cr_api_answer *answer)
{
    (void)user;
    CHECK(id == run.id);
    CHECK(run.done++ == 0);
    run.answer = *answer;
    *answer = (struct cr_api_answer){0};
}

static void on_line(void *user, uint64_t id, const char *line, size_t len)
{
    (void)user;
    CHECK(id == run.id && run.watch && run.done == 0 && !run.cancelled);
    CHECK(len > 0 && len <= CR_MAX_WATCH_LINE && line[len] == '\0' && !memchr(line, '\n', len));
    CHECK(!memmem(line, len, TOKEN, sizeof TOKEN - 1));
    if (run.lines_len + len + 1 <= run.sent_len + 1) {
        memcpy(run.lines + run.lines_len, line, len);
        run.lines[run.lines_len + len] = '\n';
    }
    run.lines_len += len + 1;
    run.n_lines++;
    if (run.cancel_at == run.n_lines) {
        run.cancelled = true;
        cr_http_cancel(http, id);
    }
}

static void on_changed(void *user) { (void)user; }

static int listen_on_loopback(unsigned *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 16) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&a, &len) == 0);
    *port = ntohs(a.sin_port);
    return fd;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    static struct cr_access *access;
    char server[64];
    unsigned port;
    const struct cr_http_handlers handlers = {on_done, on_line, on_changed, NULL};
    listener = listen_on_loopback(&port);
    snprintf(server, sizeof server, "http://127.0.0.1:%u", port);
    const struct cr_access_explicit explicit = {.server = server, .token = TOKEN};
    CHECK(cr_access_from_explicit(&access, &explicit, NULL) == 0);
    CHECK(cr_http_new(&http, access, &handlers, NULL) == 0);
    return 0;
}

/* ---- the server's side ---- */

static void hang_up(void)
{
    if (run.fd >= 0) close(run.fd);
    run.fd = -1;
}

static void accept_one(void)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    hang_up();
    CHECK(++run.conns <= MAX_CONNS);
    run.fd = fd;
    run.at = 0;
}

/* The next piece; the end of the connection after the last one. */
static void send_some(void)
{
    size_t n = run.sent_len - run.at < run.step ? run.sent_len - run.at : run.step;
    if (run.at == run.sent_len) {
        shutdown(run.fd, SHUT_WR);
        return;
    }
    ssize_t sent = send(run.fd, run.sent + run.at, n, MSG_NOSIGNAL);
    if (sent > 0) run.at += (size_t)sent;
}

static void serve(void)
{
    char request[4096];
    accept_one();
    if (run.fd < 0) return;
    while (recv(run.fd, request, sizeof request, 0) > 0) continue;
    send_some();
}

static void await_end(void)
{
    int64_t end = cr_clock_now().mono_ms + PATIENCE_MS;
    while (!run.done) {
        struct curl_waitfd extra[] = {{.fd = listener, .events = CURL_WAIT_POLLIN}};
        cr_http_perform(http);
        serve();
        if (!run.done) cr_http_poll(http, extra, 1, 1);
        CHECK(cr_clock_now().mono_ms < end);
    }
}

static void ask(struct cr_api_request *r)
{
    cr_http_start(http, ++run.id, r);
    await_end();
}

/* ---- the answer ---- */

/* 0: none, else one whose body is the rest of the connection, in pieces, or of a given length. */
static void make_answer(uint8_t head, const struct fuzz_in *in)
{
    static const char *const heads[] = {"", "HTTP/1.1 200 OK\r\n\r\n",
                                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                                        "HTTP/1.1 409 Conflict\r\n"};
    const char *text = heads[head % 4];
    size_t len = strlen(text);
    run.sent = calloc(len + in->left + 1, 1);
    run.lines = calloc(len + in->left + 2, 1);
    CHECK(run.sent && run.lines);
    memcpy(run.sent, text, len);
    if (in->left) memcpy(run.sent + len, in->at, in->left);
    run.sent_len = len + in->left;
}

/* A token that the server echoes is not shown. */
static void hide_token(char *text, size_t len)
{
    for (char *p; (p = memmem(text, len, TOKEN, sizeof TOKEN - 1));) memset(p, '*', sizeof TOKEN - 1);
}

/* Empty lines are dropped, and the last line counts without a newline too. */
static void check_lines(const struct fuzz_in *in)
{
    size_t n = 0;
    char *want = calloc(in->left + 2, 1);
    CHECK(want);
    for (size_t i = 0; i < in->left; i++)
        if (in->at[i] != '\n' || (n > 0 && want[n - 1] != '\n')) want[n++] = (char)in->at[i];
    if (n > 0 && want[n - 1] != '\n') want[n++] = '\n';
    hide_token(want, n);
    CHECK(n == run.lines_len && memcmp(want, run.lines, n) == 0);
    free(want);
}

static void check_answer(void)
{
    const struct cr_api_answer *a = &run.answer;
    CHECK(a->retry_after_ms >= -1 && a->retry_after_ms <= CR_MAX_RETRY_AFTER_MS);
    CHECK(a->body_len <= CR_MAX_API_BODY && (a->body_len > 0) == (a->body != NULL));
    if (a->transport == CR_TRANSPORT_OK) {
        CHECK(a->status >= 200 && a->status <= 999 && !a->text);
    } else {
        CHECK(a->status == 0 && !a->body && a->retry_after_ms == -1);
        if (a->text) fuzz_check_text(a->text, CR_MAX_ERROR_TEXT);
        CHECK(!a->text || !strstr(a->text, TOKEN));
    }
    if (a->warning) fuzz_check_text(a->warning, CR_MAX_API_HEADER);
    if (a->warning) CHECK(!strstr(a->warning, TOKEN));
    if (a->body && a->status >= 300) CHECK(!memmem(a->body, a->body_len, TOKEN, sizeof TOKEN - 1));
    if (run.cancelled) CHECK(a->transport == CR_TRANSPORT_CANCELLED);
}

/* A good answer before, for what libcurl may keep of it. */
static void warm_up(void)
{
    static const char good[] = "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 0\r\n\r\n";
    struct cr_api_request r = {.method = CR_HTTP_GET, .verb = "get", .resource = "nodes", .timeout_ms = TIMEOUT_MS};
    run = (struct run){.id = run.id, .fd = -1, .step = SIZE_MAX, .sent = (char *)good, .sent_len = sizeof good - 1};
    r.path = cr_strdup("/x");
    ask(&r);
    CHECK(run.answer.status == 200);
    hang_up();
    cr_api_answer_fini(&run.answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    uint8_t how = fuzz_byte(&in), step = fuzz_byte(&in), head = fuzz_byte(&in);
    struct cr_api_request r = {.method = CR_HTTP_GET, .verb = "get", .resource = "nodes", .timeout_ms = TIMEOUT_MS};
    if (how & 0x80) warm_up();
    run = (struct run){.id = run.id, .fd = -1, .watch = how & 1, .cancel_at = how >> 1 & 7, .step = 1 + step * 16u};
    if (step == 255) run.step = SIZE_MAX;
    if (run.sent_len / run.step > 1000) run.step = 1000;
    r.path = cr_strdup("/x");
    r.watch = run.watch;
    if (!run.watch && (how & 2)) {
        r.method = CR_HTTP_PUT;
        r.body = cr_strdup("{}");
        r.content_type = "application/json";
    }
    make_answer(head, &in);
    ask(&r);
    check_answer();
    bool whole = run.watch && head % 4 == 1 && run.answer.transport == CR_TRANSPORT_OK;
    if (whole) check_lines(&in);
    if (head % 4 == 1 && !run.cancelled) CHECK(run.answer.transport == CR_TRANSPORT_OK);
    hang_up();
    cr_api_answer_fini(&run.answer);
    free(run.sent);
    free(run.lines);
    return 0;
}
