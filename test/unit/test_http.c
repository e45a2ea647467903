/* SPDX-License-Identifier: Apache-2.0 */
/* The client against a server that behaves, and one that does not: requests, answers, bounds, ends. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "io/http_internal.h"
#include "unit/golden.h"
#include "unit/http_rig.h"

/* ---- plain requests ---- */

/* Answers with what it saw, as the body: request line, headers, body. */
static enum tls_after echo(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    char text[8192];
    (void)user;
    snprintf(text, sizeof text, "%s\n\n%s", r->head, r->body);
    tls_reply(conn, 200, NULL, text);
    return TLS_KEEP;
}

static void test_request_as_sent(void **state)
{
    struct http_rig *rig = *state;
    char host[64];
    http_rig_serve(rig, echo, NULL);
    http_rig_connect(rig);
    struct cr_api_answer *a = http_rig_get(rig, "/apis/storage.k8s.io/v1/csinodes/n1?a=%20b");
    assert_int_equal(a->transport, CR_TRANSPORT_OK);
    assert_int_equal(a->status, 200);
    assert_int_equal(a->body_len, strlen(a->body));
    assert_int_equal(a->retry_after_ms, -1);
    assert_null(a->warning);
    snprintf(host, sizeof host, "Host: 127.0.0.1:%u\r\n", tls_server_port(rig->server));
    assert_ptr_equal(strstr(a->body, "GET /apis/storage.k8s.io/v1/csinodes/n1?a=%20b HTTP/1.1\r\n"), a->body);
    assert_non_null(strstr(a->body, host));
    assert_non_null(strstr(a->body, "Authorization: Bearer " HTTP_RIG_TOKEN "\r\n"));
    assert_non_null(strstr(a->body, "\r\nAccept: application/json"));
    assert_non_null(strstr(a->body, "User-Agent: csireg/"));
    assert_null(strstr(a->body, "Content-Type"));
    assert_null(strstr(a->body, "Expect"));
}

static void test_methods_and_bodies_on_one_handle(void **state)
{
    struct http_rig *rig = *state;
    static const struct {
        enum cr_http_method method;
        const char *name, *body;
    } cases[] = {
        {CR_HTTP_POST, "POST", "{\"a\":1}"}, {CR_HTTP_GET, "GET", NULL},     {CR_HTTP_PUT, "PUT", "{\"b\":22}"},
        {CR_HTTP_DELETE, "DELETE", NULL},    {CR_HTTP_PATCH, "PATCH", "{}"}, {CR_HTTP_DELETE, "DELETE", "{\"c\":3}"},
        {CR_HTTP_GET, "GET", NULL},
    };
    http_rig_serve(rig, echo, NULL);
    http_rig_connect(rig);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t id = http_rig_start(rig, cases[i].method, "/x", cases[i].body, 10000);
        struct cr_api_answer *a = http_rig_wait(rig, id);
        assert_int_equal(a->status, 200);
        assert_int_equal(strncmp(a->body, cases[i].name, strlen(cases[i].name)), 0);
        assert_string_equal(strstr(a->body, "\n\n") + 2, cases[i].body ? cases[i].body : "");
        assert_int_equal(!!strstr(a->body, "Content-Type: application/json"), !!cases[i].body);
    }
    assert_int_equal(tls_server_accepts(rig->server), 1);
}

static void test_one_connection_for_many_requests(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, http_serve_ok, NULL);
    http_rig_connect(rig);
    for (int i = 0; i < 100; i++) assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_int_equal(tls_server_accepts(rig->server), 1);
    assert_int_equal(tls_server_requests(rig->server), 100);
}

static void test_a_request_costs_few_allocations(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, http_serve_ok, NULL);
    http_rig_connect(rig);
    http_rig_get(rig, "/x");
    cr_mem_fail_after(0);
    http_rig_get(rig, "/x");
    assert_in_range(cr_mem_count(), 1, 6);
}

static void test_counts(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, http_serve_ok, NULL);
    http_rig_connect(rig);
    http_rig_get(rig, "/x");
    http_rig_get(rig, "/x");
    http_rig_wait(rig, http_rig_start(rig, CR_HTTP_PUT, "/x", "{}", 10000));
    json_t *counts = cr_http_request_counts(rig->http);
    assert_int_equal(json_object_size(counts), 2);
    assert_int_equal(json_integer_value(json_object_get(counts, "get csinodes")), 2);
    assert_int_equal(json_integer_value(json_object_get(counts, "update csinodes")), 1);
    json_decref(counts);
}

static enum tls_after by_path(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    (void)user;
    if (strstr(r->head, "/seconds")) tls_reply(conn, 429, "Retry-After: 7\r\n", "slow down");
    if (strstr(r->head, "/date")) tls_reply(conn, 503, "retry-after: Wed, 21 Oct 2099 07:28:00 GMT\r\n", "");
    if (strstr(r->head, "/past")) tls_reply(conn, 503, "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", "");
    if (strstr(r->head, "/warn"))
        tls_reply(conn, 200, "Warning: 299 - \"unknown field \\\"spec.x\\\"\"\r\nWarning: 299 - \"two\"\r\n", "{}");
    return TLS_KEEP;
}

static void test_headers_of_interest(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, by_path, NULL);
    http_rig_connect(rig);
    struct cr_api_answer *a = http_rig_get(rig, "/seconds");
    assert_int_equal(a->status, 429);
    assert_int_equal(a->retry_after_ms, 7000);
    assert_string_equal(a->body, "slow down");
    a = http_rig_get(rig, "/date");
    assert_int_equal(a->status, 503);
    assert_int_equal(a->retry_after_ms, CR_MAX_RETRY_AFTER_MS);
    assert_null(a->body);
    assert_int_equal(a->body_len, 0);
    assert_int_equal(http_rig_get(rig, "/past")->retry_after_ms, 0);
    a = http_rig_get(rig, "/warn");
    assert_string_equal(a->warning, "unknown field \"spec.x\"");
}

static void test_retry_after_values(void **state)
{
    (void)state;
    assert_int_equal(cr_http_retry_after("0", 0), 0);
    assert_int_equal(cr_http_retry_after("1 ", 0), 1000);
    assert_int_equal(cr_http_retry_after("599", 0), 599000);
    assert_int_equal(cr_http_retry_after("601", 0), CR_MAX_RETRY_AFTER_MS);
    assert_int_equal(cr_http_retry_after("99999999999999999999999999", 0), CR_MAX_RETRY_AFTER_MS);
    assert_int_equal(cr_http_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 1500), 58500);
    assert_int_equal(cr_http_retry_after("Thu, 01 Jan 655351994 00:01:00 GMT", 0), CR_MAX_RETRY_AFTER_MS);
    assert_int_equal(cr_http_retry_after("", 0), -1);
    assert_int_equal(cr_http_retry_after("-1", 0), -1);
    assert_int_equal(cr_http_retry_after("soon", 0), -1);
    assert_int_equal(cr_http_retry_after("12 parsecs", 0), -1);
}

static void test_warning_values(void **state)
{
    (void)state;
    static const struct {
        const char *value, *text;
    } cases[] = {{"299 - \"a\"", "a"},      {"299 - \"a\\\\b\"", "a\\b"},
                 {"299 - \"open", "open"},  {"299 - x", NULL},
                 {"299 - \"\"", NULL},      {"", NULL},
                 {"299 - \"a\tb\"", "a?b"}, {"\"\\", "\\"},
                 {"299 - \"\xff\"", "?"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = cr_http_warning_text(cases[i].value);
        if (cases[i].text) assert_string_equal(text, cases[i].text);
        if (!cases[i].text) assert_null(text);
        cr_free(text);
    }
}

static void test_prefix_path(void **state)
{
    struct http_rig *rig = *state;
    char server[128];
    http_rig_serve(rig, echo, NULL);
    http_rig_write(rig, "ca.pem", pki_pem(rig->ca));
    snprintf(server, sizeof server, "https://localhost:%u/k8s/c1//", tls_server_port(rig->server));
    http_rig_connect_explicit(rig,
                              (struct cr_access_explicit){.server = server, .ca_file = http_rig_path(rig, "ca.pem")});
    struct cr_api_answer *a = http_rig_get(rig, "/api/v1/nodes/..");
    assert_int_equal(strncmp(a->body, "GET /k8s/c1/api/v1/nodes/.. HTTP/1.1", 36), 0);
    assert_null(strstr(a->body, "Authorization"));
}

/* ---- answers that are none ---- */

static enum tls_after misbehave(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    (void)user;
    if (strstr(r->head, "/short")) tls_puts(conn, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"half\":");
    if (strstr(r->head, "/chunk"))
        tls_puts(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"half\":\r\n");
    if (strstr(r->head, "/garbage")) tls_puts(conn, "\x16\x03\x01 this is not HTTP at all\r\n\r\n");
    if (strstr(r->head, "/nine")) tls_puts(conn, "<html>old</html>");
    if (strstr(r->head, "/head")) tls_puts(conn, "HTTP/1.1 200 OK\r\nContent-Le");
    if (strstr(r->head, "/interim")) tls_puts(conn, "HTTP/1.1 100 Continue\r\n\r\n");
    if (strstr(r->head, "/twohead")) tls_puts(conn, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConte");
    if (strstr(r->head, "/switch")) tls_puts(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n");
    if (strstr(r->head, "/size")) tls_puts(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n{}");
    if (strstr(r->head, "/cut")) return TLS_CUT;
    if (strstr(r->head, "/reset")) return TLS_RESET;
    return TLS_CLOSE;
}

static void test_broken_answers(void **state)
{
    struct http_rig *rig = *state;
    static const char *const paths[] = {"/short", "/chunk", "/garbage", "/nine",    "/head",   "/size",
                                        "/cut",   "/reset", "/close",   "/interim", "/switch", "/twohead"};
    http_rig_serve(rig, misbehave, NULL);
    http_rig_connect(rig);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct cr_api_answer *a = http_rig_get(rig, paths[i]);
        if (a->transport == CR_TRANSPORT_OK) fail_msg("%s is an answer: %d", paths[i], a->status);
        assert_http_failed(a, CR_TRANSPORT_BROKEN, "not complete or not HTTP");
        assert_http_text(a->text, rig->access->server);
        assert_int_not_equal(a->number, 0);
    }
}

static void send_many(struct tls_conn *conn, const char *text, size_t n)
{
    for (size_t i = 0; i < n && tls_puts(conn, text); i++) continue;
}

static enum tls_after overflow(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    static char kilobyte[1025];
    (void)user;
    memset(kilobyte, 'x', 1024);
    if (strstr(r->head, "/body")) {
        tls_puts(conn, "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n");
        send_many(conn, kilobyte, 99999999 / 1024);
    } else if (strstr(r->head, "/headers")) {
        tls_puts(conn, "HTTP/1.1 200 OK\r\n");
        send_many(conn, "X-Filler: 0123456789012345678901234567890123456789\r\n", 100000);
    } else if (strstr(r->head, "/line")) {
        tls_puts(conn, "HTTP/1.1 200 OK\r\nX-Long: ");
        send_many(conn, kilobyte, 100000);
    } else {
        tls_puts(conn, "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n");
        send_many(conn, kilobyte, 8192);
        return TLS_KEEP;
    }
    return TLS_CUT;
}

static void test_bounds(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, overflow, NULL);
    http_rig_connect(rig);
    assert_http_failed(http_rig_get(rig, "/body"), CR_TRANSPORT_TOO_LARGE, "larger than it may be");
    assert_http_failed(http_rig_get(rig, "/headers"), CR_TRANSPORT_TOO_LARGE, "larger than it may be");
    assert_http_failed(http_rig_get(rig, "/line"), CR_TRANSPORT_TOO_LARGE, "larger than it may be");
    struct cr_api_answer *a = http_rig_get(rig, "/most");
    assert_int_equal(a->transport, CR_TRANSPORT_OK);
    assert_int_equal(a->body_len, CR_MAX_API_BODY);
}

static enum tls_after fold(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    if (strstr(r->head, "/ok")) return http_serve_ok(user, conn, r);
    tls_puts(conn, "HTTP/1.1 200 OK\r\n folded\r\nContent-Length: 0\r\n\r\n");
    return TLS_KEEP;
}

/* libcurl would continue the last header of the answer before, whose memory is not its own any more. */
static void test_folded_line_continues_no_other_answer(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, fold, NULL);
    http_rig_connect(rig);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(http_rig_get(rig, "/ok")->status, 200);
        assert_http_failed(http_rig_get(rig, "/folded"), CR_TRANSPORT_BROKEN, "not complete or not HTTP");
    }
}

static enum tls_after redirect(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    char header[128];
    (void)r;
    snprintf(header, sizeof header, "Location: https://127.0.0.1:%u/x\r\n", *(const unsigned *)user);
    tls_reply(conn, 302, header, "");
    return TLS_KEEP;
}

static void test_redirect_is_not_followed(void **state)
{
    struct http_rig *rig = *state;
    const struct tls_server_config config = {.pair = &rig->pair, .handler = http_serve_ok};
    struct tls_server *elsewhere = tls_server_start(&config);
    unsigned port = tls_server_port(elsewhere);
    http_rig_serve(rig, redirect, &port);
    http_rig_connect(rig);
    assert_int_equal(http_rig_get(rig, "/x")->status, 302);
    assert_int_equal(tls_server_accepts(elsewhere), 0);
    tls_server_stop(elsewhere);
}

/* ---- time and cancelling ---- */

static enum tls_after say_nothing(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    (void)user;
    if (strstr(r->head, "/ok")) return http_serve_ok(NULL, conn, r);
    if (strstr(r->head, "/half")) tls_puts(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    tls_wait_closed(conn);
    return TLS_CUT;
}

static void test_silence_ends_at_the_deadline(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, say_nothing, NULL);
    http_rig_connect(rig);
    assert_int_equal(http_rig_get(rig, "/ok")->status, 200);
    assert_http_failed(http_rig_wait(rig, http_rig_start(rig, CR_HTTP_GET, "/x", NULL, 500)), CR_TRANSPORT_TIMEOUT,
                       "no answer in time");
    assert_http_failed(http_rig_wait(rig, http_rig_start(rig, CR_HTTP_PUT, "/half", "{}", 500)), CR_TRANSPORT_TIMEOUT,
                       "no answer in time");
    assert_int_equal(http_rig_get(rig, "/ok")->status, 200);
    assert_int_equal(tls_server_accepts(rig->server), 3); /* a connection that fell silent is not used again */
}

static void test_silence_before_tls(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve_config(rig, (struct tls_server_config){.greeting = ""});
    http_rig_connect(rig);
    assert_http_failed(http_rig_wait(rig, http_rig_start(rig, CR_HTTP_GET, "/x", NULL, 50)), CR_TRANSPORT_TIMEOUT,
                       "TLS handshake");
}

static void test_no_time_left(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, http_serve_ok, NULL);
    http_rig_connect(rig);
    uint64_t id = http_rig_start(rig, CR_HTTP_GET, "/x", NULL, 0);
    assert_int_equal(rig->done[id], 0); /* never from inside the start */
    assert_http_failed(http_rig_wait(rig, id), CR_TRANSPORT_TIMEOUT, "no time");
    assert_int_equal(tls_server_accepts(rig->server), 0);
}

static void test_refused(void **state)
{
    struct http_rig *rig = *state;
    http_rig_connect(rig); /* port 1 */
    struct cr_api_answer *a = http_rig_get(rig, "/x");
    assert_http_failed(a, CR_TRANSPORT_CONNECT, "https://127.0.0.1:1: cannot connect");
    assert_int_equal(a->number, ECONNREFUSED);
}

static void test_cancel(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, say_nothing, NULL);
    http_rig_connect(rig);
    uint64_t queued = http_rig_start(rig, CR_HTTP_GET, "/x", NULL, 10000);
    cr_http_cancel(rig->http, queued);
    cr_http_cancel(rig->http, 77); /* nobody */
    assert_http_failed(http_rig_wait(rig, queued), CR_TRANSPORT_CANCELLED, NULL);
    assert_int_equal(tls_server_accepts(rig->server), 0);
    uint64_t a = http_rig_start(rig, CR_HTTP_GET, "/x", NULL, 10000),
             b = http_rig_start(rig, CR_HTTP_GET, "/ok", NULL, 10000);
    while (tls_server_requests(rig->server) < 2) http_rig_step(rig);
    cr_http_cancel(rig->http, a);
    cr_http_cancel(rig->http, a);
    assert_http_failed(http_rig_wait(rig, a), CR_TRANSPORT_CANCELLED, NULL);
    assert_int_equal(http_rig_wait(rig, b)->status, 200);
    for (int i = 0; i < 3; i++) http_rig_step(rig);
    assert_int_equal(rig->done[a] + rig->done[b] + rig->done[queued], 3); /* each exactly once */
}

static void test_free_ends_silently(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, say_nothing, NULL);
    http_rig_connect(rig);
    uint64_t running = http_rig_start(rig, CR_HTTP_GET, "/x", NULL, 10000);
    while (tls_server_requests(rig->server) < 1) http_rig_step(rig);
    uint64_t queued = http_rig_start(rig, CR_HTTP_GET, "/x", NULL, 10000);
    cr_http_free(rig->http);
    rig->http = NULL;
    assert_int_equal(rig->done[running] + rig->done[queued], 0);
}

static void start_another(struct http_rig *rig, uint64_t id)
{
    if (id < 20) http_rig_start(rig, CR_HTTP_GET, "/x", NULL, 10000);
}

static void test_start_from_done(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, http_serve_ok, NULL);
    http_rig_connect(rig);
    rig->on_done = start_another;
    start_another(rig, 1);
    http_rig_wait(rig, 20);
    assert_int_equal(tls_server_requests(rig->server), 20);
    assert_int_equal(tls_server_accepts(rig->server), 1);
}

/* ---- the loop ---- */

static void test_wakeup_and_extra_descriptors(void **state)
{
    struct http_rig *rig = *state;
    int ends[2];
    const struct cr_http_handlers none = {0};
    assert_int_equal(cr_http_new(&rig->http, NULL, &none, NULL), 0);
    cr_http_wakeup(rig->http);
    cr_http_poll(rig->http, NULL, 0, -1); /* returns because of the wakeup */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    struct curl_waitfd extra = {.fd = ends[0], .events = CURL_WAIT_POLLIN};
    cr_http_poll(rig->http, &extra, 1, -1);
    assert_true(extra.revents & CURL_WAIT_POLLIN);
    close(ends[0]);
    close(ends[1]);
    cr_http_perform(rig->http);
}

static void test_without_api_server(void **state)
{
    struct http_rig *rig = *state;
    http_rig_connect(rig);
    cr_http_free(rig->http);
    const struct cr_http_handlers handlers = {NULL, NULL, NULL, NULL};
    assert_int_equal(cr_http_new(&rig->http, NULL, &handlers, NULL), 0);
    cr_http_poll(rig->http, NULL, 0, 0);
    json_t *counts = cr_http_request_counts(rig->http);
    assert_int_equal(json_object_size(counts), 0);
    json_decref(counts);
}

/* Descriptors of this process without CLOEXEC, as a bit set. */
static unsigned long long inheritable(void)
{
    unsigned long long set = 0;
    for (int fd = 0; fd < 64; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0 && !(flags & FD_CLOEXEC)) set |= 1ull << fd;
    }
    return set;
}

static void test_every_descriptor_is_cloexec(void **state)
{
    struct http_rig *rig = *state;
    unsigned long long before = inheritable();
    http_rig_serve(rig, say_nothing, NULL);
    http_rig_connect(rig);
    assert_int_equal(inheritable(), before);
    http_rig_get(rig, "/ok");
    http_rig_watch(rig, "/w", 10000);
    while (tls_server_requests(rig->server) < 2) http_rig_step(rig);
    assert_int_equal(inheritable(), before);
}

static void test_proxy_variables_are_ignored(void **state)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    struct http_rig *rig = *state;
    http_rig_serve(rig, http_serve_ok, NULL);
    http_rig_connect(rig);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) setenv(names[i], "http://127.0.0.1:9", 1);
    assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

static enum tls_after tunnel_refused(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    bool *seen = user;
    *seen = strncmp(r->head, "CONNECT 127.0.0.1:", 18) == 0 && !strstr(r->head, "SECRET");
    tls_reply(conn, 403, NULL, "no");
    return TLS_CLOSE;
}

static void test_proxy_when_asked_for(void **state)
{
    struct http_rig *rig = *state;
    char proxy[64];
    bool seen = false;
    const struct tls_server_config config = {.handler = tunnel_refused, .user = &seen};
    struct tls_server *other = tls_server_start(&config);
    http_rig_serve(rig, http_serve_ok, NULL);
    http_rig_connect(rig);
    cr_http_free(rig->http);
    rig->http = NULL;
    cr_access_free(rig->access);
    snprintf(proxy, sizeof proxy, "http://127.0.0.1:%u", tls_server_port(other));
    http_rig_connect(rig);
    assert_int_equal(cr_access_set_proxy(rig->access, proxy, NULL), 0);
    assert_http_failed(http_rig_get(rig, "/x"), CR_TRANSPORT_BROKEN, NULL);
    assert_int_equal(tls_server_accepts(rig->server), 0);
    tls_server_stop(other);
    assert_true(seen);
}

/* ---- short of memory ---- */

struct ending {
    int times;
    enum cr_transport transport;
};

static void note_ending(void *user, uint64_t id, struct cr_api_answer *answer)
{
    struct ending *end = user;
    assert_int_equal(id, 7);
    end->times++;
    end->transport = answer->transport;
}

static struct cr_access *scarce_access;

static bool ask_once(void)
{
    struct ending end = {0};
    struct cr_http *http = NULL;
    const struct cr_http_handlers handlers = {.done = note_ending, .user = &end};
    int rc = cr_http_new(&http, scarce_access, &handlers, NULL);
    assert_true(rc == 0 || rc == CSIREG_ERR_NOMEM);
    if (rc != 0) return false;
    struct cr_api_request r = {.method = CR_HTTP_PUT,
                               .verb = "update",
                               .resource = "nodes",
                               .content_type = "application/json",
                               .timeout_ms = 10000};
    r.path = strdup("/x");
    r.body = strdup("{}");
    cr_http_start(http, 7, &r);
    while (end.times == 0) {
        cr_http_poll(http, NULL, 0, 100);
        cr_http_perform(http);
    }
    cr_http_free(http);
    assert_int_equal(end.times, 1);
    return end.transport == CR_TRANSPORT_OK;
}

static void test_no_memory(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, http_serve_ok, NULL);
    http_rig_connect(rig);
    scarce_access = rig->access;
    oom_run(ask_once);
}

#define RIG(test) cmocka_unit_test_setup_teardown(test, http_rig_setup, http_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG(test_request_as_sent),
        RIG(test_methods_and_bodies_on_one_handle),
        RIG(test_one_connection_for_many_requests),
        RIG(test_a_request_costs_few_allocations),
        RIG(test_counts),
        RIG(test_headers_of_interest),
        cmocka_unit_test(test_retry_after_values),
        cmocka_unit_test(test_warning_values),
        RIG(test_prefix_path),
        RIG(test_broken_answers),
        RIG(test_bounds),
        RIG(test_folded_line_continues_no_other_answer),
        RIG(test_redirect_is_not_followed),
        RIG(test_silence_ends_at_the_deadline),
        RIG(test_silence_before_tls),
        RIG(test_no_time_left),
        RIG(test_refused),
        RIG(test_cancel),
        RIG(test_free_ends_silently),
        RIG(test_start_from_done),
        RIG(test_wakeup_and_extra_descriptors),
        RIG(test_without_api_server),
        RIG(test_every_descriptor_is_cloexec),
        RIG(test_proxy_variables_are_ignored),
        RIG(test_proxy_when_asked_for),
        RIG(test_no_memory),
    };
    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
