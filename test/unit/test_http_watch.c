/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: lines however they are cut, bounds, ends, and that a watch is apart from everything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bounds.h"
#include "unit/http_rig.h"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

static void chunk(struct tls_conn *conn, const char *data, size_t len)
{
    char size[32];
    if (len == 0) return;
    snprintf(size, sizeof size, "%zx\r\n", len);
    tls_puts(conn, size);
    tls_send(conn, data, len);
    tls_puts(conn, "\r\n");
}

static void chunk_text(struct tls_conn *conn, const char *text) { chunk(conn, text, strlen(text)); }

#define EVENTS "{\"type\":\"ADDED\"}\n{\"type\":\"MODIFIED\",\"n\":2}\n{\"a\":3}\n"

/* /N: the events in two chunks, cut after N bytes; /each: a chunk and a TLS record for each byte. */
static enum tls_after cut_events(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    size_t at = (size_t)strtoul(strchr(r->head, '/') + 1, NULL, 10);
    (void)user;
    tls_puts(conn, HEAD);
    if (strstr(r->head, "/each")) {
        for (size_t i = 0; i < strlen(EVENTS); i++) chunk(conn, &EVENTS[i], 1);
    } else {
        chunk(conn, EVENTS, at);
        chunk_text(conn, &EVENTS[at]);
    }
    tls_puts(conn, "0\r\n\r\n");
    return TLS_KEEP;
}

static void assert_events(struct http_rig *rig, const char *path)
{
    rig->lines[0] = '\0';
    struct cr_api_answer *a = http_rig_wait(rig, http_rig_watch(rig, path, 10000));
    assert_int_equal(a->transport, CR_TRANSPORT_OK);
    assert_int_equal(a->status, 200);
    assert_null(a->body);
    assert_string_equal(rig->lines, EVENTS);
}

static void test_lines_cut_anywhere(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, cut_events, NULL);
    http_rig_connect(rig);
    assert_events(rig, "/each");
    for (size_t i = 0; i <= strlen(EVENTS); i++) {
        char path[32];
        snprintf(path, sizeof path, "/%zu", i);
        assert_events(rig, path);
    }
    assert_int_equal(tls_server_accepts(rig->server), strlen(EVENTS) + 2); /* each watch has its own connection */
}

static enum tls_after endings(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    (void)user;
    if (strstr(r->head, "/410")) {
        tls_reply(conn, 410, "Retry-After: 3\r\n", "{\"kind\":\"Status\",\n\"code\":410}");
        return TLS_KEEP;
    }
    tls_puts(conn, HEAD);
    chunk_text(conn, "{\"a\":1}\n\n\n");
    if (strstr(r->head, "/open")) chunk_text(conn, "{\"b\":2}");
    if (strstr(r->head, "/empty")) chunk_text(conn, "\n");
    if (strstr(r->head, "/broken")) {
        chunk_text(conn, "{\"half");
        return TLS_CUT;
    }
    if (strstr(r->head, "/closed")) return TLS_CLOSE;
    tls_puts(conn, "0\r\n\r\n");
    return TLS_KEEP;
}

static void test_ends(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, endings, NULL);
    http_rig_connect(rig);
    assert_int_equal(http_rig_wait(rig, http_rig_watch(rig, "/open", 10000))->transport, CR_TRANSPORT_OK);
    assert_string_equal(rig->lines, "{\"a\":1}\n{\"b\":2}\n");
    http_rig_wait(rig, http_rig_watch(rig, "/empty", 10000));
    assert_int_equal(rig->n_lines, 3);
    assert_http_failed(http_rig_wait(rig, http_rig_watch(rig, "/broken", 10000)), CR_TRANSPORT_BROKEN, "not complete");
    assert_http_failed(http_rig_wait(rig, http_rig_watch(rig, "/closed", 10000)), CR_TRANSPORT_BROKEN, "not complete");
    assert_int_equal(rig->n_lines, 5); /* never half a line */
}

static void test_other_status_has_a_body(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, endings, NULL);
    http_rig_connect(rig);
    struct cr_api_answer *a = http_rig_wait(rig, http_rig_watch(rig, "/410", 10000));
    assert_int_equal(a->status, 410);
    assert_string_equal(a->body, "{\"kind\":\"Status\",\n\"code\":410}");
    assert_int_equal(a->retry_after_ms, 3000);
    assert_int_equal(rig->n_lines, 0);
}

/* /N: a line of N bytes after a short one, in many chunks. */
static enum tls_after long_line(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    static char block[4096];
    size_t left = (size_t)strtoul(strchr(r->head, '/') + 1, NULL, 10);
    (void)user;
    memset(block, 'x', sizeof block);
    tls_puts(conn, HEAD);
    chunk_text(conn, "short\n");
    for (; left > sizeof block; left -= sizeof block) chunk(conn, block, sizeof block);
    chunk(conn, block, left);
    chunk_text(conn, "\nshort\n");
    tls_puts(conn, "0\r\n\r\n");
    return TLS_CLOSE;
}

static void test_line_bound(void **state)
{
    struct http_rig *rig = *state;
    char path[32];
    http_rig_serve(rig, long_line, NULL);
    http_rig_connect(rig);
    snprintf(path, sizeof path, "/%d", CR_MAX_WATCH_LINE);
    assert_int_equal(http_rig_wait(rig, http_rig_watch(rig, path, 10000))->transport, CR_TRANSPORT_OK);
    assert_int_equal(rig->longest_line, CR_MAX_WATCH_LINE);
    assert_int_equal(rig->n_lines, 3);
    snprintf(path, sizeof path, "/%d", CR_MAX_WATCH_LINE + 1);
    assert_http_failed(http_rig_wait(rig, http_rig_watch(rig, path, 10000)), CR_TRANSPORT_TOO_LARGE, "larger");
    assert_int_equal(rig->n_lines, 4);
}

/* A watch that stays open after two events; everything else is answered. */
static enum tls_after stay_open(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    if (!strstr(r->head, "/watch")) return http_serve_ok(user, conn, r);
    tls_puts(conn, HEAD);
    chunk_text(conn, "{\"n\":1}\n{\"n\":2}\n");
    tls_wait_closed(conn);
    return TLS_CUT;
}

static void test_watch_is_apart_from_requests(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, stay_open, NULL);
    http_rig_connect(rig);
    http_rig_get(rig, "/x");
    uint64_t id = http_rig_watch(rig, "/watch", 60000);
    while (rig->n_lines < 2) http_rig_step(rig);
    for (int i = 0; i < 5; i++) assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_int_equal(tls_server_accepts(rig->server), 2);
    http_rig_write(rig, "token", "SECRET-two"); /* a rotation ends no watch */
    assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_int_equal(tls_server_accepts(rig->server), 3);
    assert_int_equal(rig->done[id], 0);
    cr_http_cancel(rig->http, id);
    assert_http_failed(http_rig_wait(rig, id), CR_TRANSPORT_CANCELLED, NULL);
    assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_int_equal(tls_server_accepts(rig->server), 3);
}

static void test_watch_deadline(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, stay_open, NULL);
    http_rig_connect(rig);
    assert_http_failed(http_rig_wait(rig, http_rig_watch(rig, "/watch", 200)), CR_TRANSPORT_TIMEOUT,
                       "no answer in time");
}

static void cancel_it(struct http_rig *rig, uint64_t id) { cr_http_cancel(rig->http, id); }

static void test_cancel_from_a_line(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, stay_open, NULL);
    http_rig_connect(rig);
    rig->on_line = cancel_it;
    assert_http_failed(http_rig_wait(rig, http_rig_watch(rig, "/watch", 60000)), CR_TRANSPORT_CANCELLED, NULL);
    assert_int_equal(rig->n_lines, 1); /* none after the cancel */
}

static void ask_something(struct http_rig *rig, uint64_t id)
{
    (void)id;
    http_rig_start(rig, CR_HTTP_GET, "/x", NULL, 10000);
}

static void test_start_from_a_line(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, stay_open, NULL);
    http_rig_connect(rig);
    rig->on_line = ask_something;
    uint64_t watch = http_rig_watch(rig, "/watch", 60000);
    assert_int_equal(http_rig_wait(rig, watch + 1)->status, 200);
    assert_int_equal(http_rig_wait(rig, watch + 2)->status, 200);
    assert_int_equal(rig->done[watch], 0);
}

#define RIG(test) cmocka_unit_test_setup_teardown(test, http_rig_setup, http_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG(test_lines_cut_anywhere),           RIG(test_ends),
        RIG(test_other_status_has_a_body),      RIG(test_line_bound),
        RIG(test_watch_is_apart_from_requests), RIG(test_watch_deadline),
        RIG(test_cancel_from_a_line),           RIG(test_start_from_a_line),
    };
    return cmocka_run_group_tests_name("http watch", tests, NULL, NULL);
}
