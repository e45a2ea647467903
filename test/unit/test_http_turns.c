/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that come together: they take turns on one connection, and none waits long for another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "io/http_internal.h"
#include "unit/http_rig.h"

static enum tls_after serve_slow_and_fast(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    (void)user;
    if (strncmp(r->head, "GET /slow", 9) != 0) {
        tls_reply(conn, 200, NULL, "{}");
        return TLS_KEEP;
    }
    tls_wait_closed(conn);
    return TLS_CLOSE;
}

static void test_turns_on_one_connection(void **state)
{
    struct http_rig *rig = *state;
    uint64_t ids[8];
    http_rig_serve(rig, serve_slow_and_fast, NULL);
    http_rig_connect(rig);
    for (size_t i = 0; i < 8; i++) ids[i] = http_rig_start(rig, CR_HTTP_GET, "/fast", NULL, 10000);
    for (size_t i = 0; i < 8; i++) assert_int_equal(http_rig_wait(rig, ids[i])->status, 200);
    assert_int_equal(tls_server_accepts(rig->server), 1);
}

static void test_a_slow_answer_holds_nobody_up(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, serve_slow_and_fast, NULL);
    http_rig_connect(rig);
    uint64_t slow = http_rig_start(rig, CR_HTTP_GET, "/slow", NULL, 60000);
    assert_int_equal(http_rig_get(rig, "/fast")->status, 200);
    assert_int_equal(rig->done[slow], 0);
    assert_int_equal(tls_server_accepts(rig->server), 2);
    uint64_t next = http_rig_start(rig, CR_HTTP_GET, "/fast", NULL, 10000);
    http_rig_step(rig);
    assert_true(cr_list_empty(&rig->http->starting)); /* there is a free connection now */
    assert_int_equal(http_rig_wait(rig, next)->status, 200);
    assert_int_equal(tls_server_accepts(rig->server), 2);
}

static void test_a_watch_goes_last_and_holds_nobody_up(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, serve_slow_and_fast, NULL);
    http_rig_connect(rig);
    uint64_t watch = http_rig_watch(rig, "/slow", 60000);
    uint64_t plain = http_rig_start(rig, CR_HTTP_GET, "/fast", NULL, 10000);
    http_rig_step(rig);
    assert_false(cr_list_empty(&rig->http->starting)); /* the watch */
    assert_int_equal(http_rig_wait(rig, plain)->status, 200);
    while (!cr_list_empty(&rig->http->starting)) http_rig_step(rig);
    plain = http_rig_start(rig, CR_HTTP_GET, "/fast", NULL, 10000);
    http_rig_step(rig);
    assert_true(cr_list_empty(&rig->http->starting));
    assert_int_equal(http_rig_wait(rig, plain)->status, 200);
    assert_int_equal(rig->done[watch], 0);
}

static void test_one_that_waits_for_its_turn_can_be_cancelled(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, serve_slow_and_fast, NULL);
    http_rig_connect(rig);
    uint64_t slow = http_rig_start(rig, CR_HTTP_GET, "/slow", NULL, 60000);
    uint64_t waiting = http_rig_start(rig, CR_HTTP_GET, "/fast", NULL, 10000);
    http_rig_step(rig);
    cr_http_cancel(rig->http, waiting);
    assert_int_equal(http_rig_wait(rig, waiting)->transport, CR_TRANSPORT_CANCELLED);
    assert_int_equal(rig->done[slow], 0);
    assert_in_range(tls_server_accepts(rig->server), 0, 1);
}

#define RIG(test) cmocka_unit_test_setup_teardown(test, http_rig_setup, http_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG(test_turns_on_one_connection),
        RIG(test_a_slow_answer_holds_nobody_up),
        RIG(test_a_watch_goes_last_and_holds_nobody_up),
        RIG(test_one_that_waits_for_its_turn_can_be_cancelled),
    };
    return cmocka_run_group_tests_name("http turns", tests, NULL, NULL);
}
