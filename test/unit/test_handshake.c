/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of an attempt: their order in both flows, what each answer leads to, retries, the one notification. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/core_rig.h"

#define GET_NODE    "get nodes | GET /api/v1/nodes/n1"
#define GET_CSINODE "get csinodes | GET /apis/storage.k8s.io/v1/csinodes/n1"

/* ---- order ---- */

static void test_order_in_the_node_flow(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_expect(r, "connect /r/a-reg.sock", "GetInfo /r/a-reg.sock", "list csidrivers", "connect /d/a.sock", GET_NODE,
               GET_CSINODE, "watch csidrivers", "NodeGetInfo /d/a.sock", "close /d/a.sock", "patch nodes/status",
               "create csinodes", "event REGISTERED a.example.com [/r/a-reg.sock]", "Notify true /r/a-reg.sock",
               "close /r/a-reg.sock");
    assert_string_equal(rig_state(r, a), "registered");
    rig_free(r);
}

static void test_order_with_the_gate_and_no_capability(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_plugin(r, "a");
    a->capabilities[0] = 7;
    a->capabilities[1] = 8;
    a->capabilities[2] = -1;
    rig_up(r, a);
    rig_expect(r, "connect /r/a-reg.sock", "GetInfo /r/a-reg.sock", "list csidrivers", "connect /d/a.sock", GET_NODE,
               GET_CSINODE, "watch csidrivers", "NodeGetCapabilities /d/a.sock", "NodeGetInfo /d/a.sock",
               "close /d/a.sock", "patch nodes/status", "create csinodes", "event REGISTERED", "Notify true",
               "close /r/a-reg.sock");
    rig_free(r);
}

static void test_order_in_the_controller_flow(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_up(r, rig_capable(r, "a"));
    rig_expect(r, "connect /r/a-reg.sock", "GetInfo /r/a-reg.sock", "list csidrivers", "connect /d/a.sock", GET_NODE,
               GET_CSINODE, "watch csidrivers", "NodeGetCapabilities /d/a.sock", "NodeGetInfo+flag /d/a.sock",
               "close /d/a.sock", "create csinodes", "event REGISTERED", "Notify true", "close /r/a-reg.sock");
    rig_expect_json(json_incref(rig_entry(r, "driverRegistrations", "a.example.com")),
                    "{'name':'a.example.com','nodeID':'id-a'}");
    assert_null(rig_entry(r, "drivers", "a.example.com"));
    assert_string_equal(rig_ids(r), "");
    rig_free(r);
}

static void test_the_configured_number_is_the_capability(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    r->config.gate = true;
    r->config.node_info_from_controller = 42;
    rig_start(r);
    struct rig_plugin *a = rig_capable(r, "a"), *b = rig_plugin(r, "b");
    b->capabilities[0] = 42;
    b->capabilities[1] = 42;
    rig_up(r, a);
    rig_up(r, b);
    assert_int_equal(rig_count(r, "NodeGetInfo /d/a.sock"), 1);
    assert_int_equal(rig_count(r, "NodeGetInfo+flag /d/b.sock"), 1);
    rig_free(r);
}

static void test_attach_not_required_means_node_flow(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    json_object_set_new(r->attach, "a.example.com", json_false());
    json_object_set_new(r->attach, "b.example.com", json_true());
    rig_up(r, rig_capable(r, "a"));
    rig_up(r, rig_capable(r, "b"));
    assert_int_equal(rig_count(r, "NodeGetInfo /d/a.sock"), 1);
    assert_int_equal(rig_count(r, "NodeGetInfo+flag /d/b.sock"), 1);
    assert_non_null(rig_entry(r, "drivers", "a.example.com"));
    rig_free(r);
}

static void test_local_only_asks_nobody_but_the_driver(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    r->config.gate = r->config.local_only = r->config.create_at_start = true;
    r->config.verify_interval_ms = 1000;
    rig_start(r);
    struct rig_plugin *a = rig_capable(r, "a");
    rig_up(r, a);
    rig_expect(r, "connect /r/a-reg.sock", "GetInfo /r/a-reg.sock", "connect /d/a.sock", "NodeGetInfo /d/a.sock",
               "close /d/a.sock", "event REGISTERED", "Notify true", "close /r/a-reg.sock");
    assert_true(rig_registered(r, a));
    rig_mark(r);
    rig_advance(r, 100000);
    rig_vanish(r, a);
    rig_advance(r, 1000);
    rig_expect(r, "event UNREGISTERED a.example.com");
    rig_free(r);
}

static void test_third_door_connects_to_the_driver_alone(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_register(r, a);
    rig_register(r, a); /* idempotent */
    rig_advance(r, 1000);
    rig_expect(r, "list csidrivers", "connect /d/a.sock", GET_NODE, GET_CSINODE, "watch", "NodeGetInfo /d/a.sock",
               "close /d/a.sock", "patch", "create", "event REGISTERED a.example.com");
    rig_mark(r);
    rig_register(r, a);
    rig_advance(r, 1000);
    rig_expect(r, NULL);
    rig_deregister(r, a);
    rig_expect(r, "event UNREGISTERED a.example.com");
    rig_free(r);
}

/* ---- deadlines ---- */

static void test_deadlines(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_hold(r, "NodeGetCapabilities");
    rig_appear(r, a);
    rig_settle(r);
    assert_int_equal(rig_last(r, "GetInfo")->timeout_ms, 5000);
    assert_int_equal(rig_last(r, "NodeGetCapabilities")->timeout_ms, 120000);
    rig_advance(r, 50000);
    rig_release(r);
    rig_advance(r, 1000);
    assert_int_equal(rig_last(r, "NodeGetInfo")->timeout_ms, 70000); /* both RPCs share one deadline */
    assert_int_equal(rig_last(r, "Notify")->timeout_ms, 5000);
    assert_int_equal(rig_last(r, "create")->timeout_ms, 10000);
    rig_free(r);
}

/* ---- connecting to the registration socket ---- */

static void test_connect_is_retried_inside_its_window(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    int64_t begin = r->now.mono_ms, pause = 10, last = begin;
    size_t tries = 0;
    a->listening = false;
    rig_appear(r, a);
    rig_advance(r, 9999);
    for (size_t i = 0; i < r->n_lines; i++) {
        if (strncmp(r->lines[i].text, "connect", 7) != 0) continue;
        if (tries++ > 0) {
            int64_t waited = r->lines[i].at_ms - last;
            assert_in_range(waited, pause, pause + pause / 10 + 1);
            pause = pause * 2 > 1000 ? 1000 : pause * 2;
        }
        last = r->lines[i].at_ms;
    }
    assert_true(tries > 12);
    assert_int_equal(rig_count(r, "event FAILED a.example.com"), 0);
    assert_int_equal(rig_count(r, "event FAILED"), 1); /* no room for one more try before the deadline */
    assert_true(rig_last(r, "event FAILED")->at_ms - begin > 8900);
    assert_int_equal(rig_count(r, "Notify"), 0);
    rig_free(r);
}

static void test_connect_comes_through_when_somebody_listens(void **state)
{
    static const int numbers[] = {ENOENT, ECONNREFUSED, EAGAIN};
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a");
        rig_fault(r, (struct rig_fault){.match = "connect /r/", .times = 3, .number = numbers[k]});
        rig_up(r, a);
        assert_int_equal(rig_count(r, "connect /r/"), 4);
        assert_int_equal(rig_count(r, "event FAILED"), 0);
        assert_true(rig_registered(r, a));
        rig_free(r);
    }
}

static void assert_connect_fails(const char *where, int number, bool retryable, const char *hint, size_t notifications)
{
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = where, .times = 1, .number = number});
    rig_appear(r, a);
    rig_settle(r);
    const struct rig_line *e = rig_last(r, "event FAILED");
    assert_non_null(e);
    assert_int_equal(e->retryable, retryable);
    if (!strstr(e->said, hint)) fail_msg("%s lacks: %s", e->said, hint);
    assert_non_null(strstr(e->said, where + strlen("connect ")));
    assert_int_equal(rig_count(r, "Notify"), notifications);
    rig_advance(r, retryable ? 1000 : 121000);
    assert_int_equal(rig_registered(r, a), retryable);
    rig_advance(r, 20000);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static void test_connect_errors(void **state)
{
    (void)state;
    assert_connect_fails("connect /r/a-reg.sock", ECONNRESET, true, "Connection reset", 0);
    assert_connect_fails("connect /r/a-reg.sock", ETIMEDOUT, true, "timed out", 0);
    assert_connect_fails("connect /r/a-reg.sock", EACCES, false, "mode", 0);
    assert_connect_fails("connect /r/a-reg.sock", EPERM, false, "security module", 0);
    assert_connect_fails("connect /r/a-reg.sock", ENOTSOCK, false, "not a stream socket", 0);
    assert_connect_fails("connect /r/a-reg.sock", EPROTOTYPE, false, "not a stream socket", 0);
    assert_connect_fails("connect /r/a-reg.sock", ENAMETOOLONG, false, "4095", 0);
    assert_connect_fails("connect /d/a.sock", ENOENT, true, "as seen on the host", 1);
    assert_connect_fails("connect /d/a.sock", ECONNREFUSED, true, "nobody listens", 1);
    assert_connect_fails("connect /d/a.sock", EAGAIN, true, "a.example.com", 1);
    assert_connect_fails("connect /d/a.sock", EACCES, false, "mode", 1);
}

/* ---- what each code of each RPC means ---- */

static void assert_rpc_fails(const char *rpc, int code, bool refused, bool retryable, size_t notifications)
{
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = rpc, .times = 1, .number = code, .refused = refused, .text = "why"});
    rig_appear(r, a);
    rig_settle(r);
    const struct rig_line *e = rig_last(r, "event FAILED");
    if (!e || e->retryable != retryable) fail_msg("%s with code %d", rpc, code);
    assert_non_null(strstr(e->said, rpc));
    assert_non_null(strstr(e->said, "why"));
    assert_int_equal(rig_count(r, "Notify false"), notifications);
    assert_int_equal(rig_count(r, "Notify"), notifications);
    assert_int_equal(rig_count(r, "create") + rig_count(r, "patch"), 0);
    rig_advance(r, retryable ? 1000 : 121000);
    assert_int_equal(rig_registered(r, a), retryable);
    rig_free(r);
}

static void test_codes_of_get_info(void **state)
{
    (void)state;
    for (int code = 1; code <= 16; code++) assert_rpc_fails("GetInfo", code, false, code != 12, 0);
    assert_rpc_fails("GetInfo", 13, true, false, 0);
}

static void test_codes_of_node_get_info(void **state)
{
    (void)state;
    for (int code = 1; code <= 16; code++) assert_rpc_fails("NodeGetInfo", code, false, code != 12, 1);
    assert_rpc_fails("NodeGetInfo", 13, true, false, 1);
}

static void test_codes_of_node_get_capabilities(void **state)
{
    (void)state;
    for (int code = 1; code <= 16; code++)
        if (code != 12) assert_rpc_fails("NodeGetCapabilities", code, false, true, 1);
    assert_rpc_fails("NodeGetCapabilities", 13, true, false, 1);
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "NodeGetCapabilities", .times = 1, .number = 12});
    rig_up(r, a);
    assert_int_equal(rig_count(r, "NodeGetInfo /d/a.sock"), 1); /* an old driver has none */
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static void test_hints_of_unimplemented(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b");
    rig_fault(r, (struct rig_fault){.match = "GetInfo /r/a", .times = 1, .number = 12});
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo /d/b", .times = 1, .number = 12});
    rig_up(r, a);
    assert_non_null(strstr(rig_last(r, "event FAILED")->said, "service socket"));
    rig_up(r, b);
    assert_non_null(strstr(rig_last(r, "event FAILED")->said, "must serve NodeGetInfo"));
    rig_free(r);
}

static void test_no_fall_back_between_flows(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_capable(r, "a"), *b = rig_capable(r, "b");
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo+flag /d/a", .times = 1, .number = 3});
    b->node_id = "";
    rig_appear(r, a);
    rig_appear(r, b);
    rig_settle(r);
    assert_int_equal(rig_count(r, "NodeGetInfo+flag"), 2);
    assert_int_equal(rig_count(r, "NodeGetInfo /d"), 0);
    assert_int_equal(rig_count(r, "Notify false"), 2);
    assert_int_equal(rig_count(r, "create") + rig_count(r, "update"), 0);
    rig_free(r);
}

/* ---- the CSIDriver objects ---- */

static void test_a_capable_driver_waits_for_the_csidrivers(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_capable(r, "a"), *b = rig_plugin(r, "b");
    rig_hold(r, "list csidrivers");
    rig_appear(r, a);
    rig_appear(r, b);
    rig_advance(r, 1000);
    assert_string_equal(rig_state(r, a), "reading-csidriver");
    assert_true(rig_registered(r, b)); /* who lacks the capability does not wait */
    rig_answer(r, "list csidrivers");
    rig_advance(r, 1000);
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "NodeGetInfo+flag /d/a.sock"), 1);
    rig_free(r);
}

static void test_unread_csidrivers_fail_the_attempt(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_capable(r, "a");
    rig_hold(r, "list csidrivers");
    rig_appear(r, a);
    rig_advance(r, 119999);
    assert_int_equal(rig_count(r, "Notify"), 0);
    rig_advance(r, 2);
    const struct rig_line *e = rig_last(r, "event FAILED a.example.com");
    assert_non_null(e);
    assert_true(e->retryable);
    assert_non_null(strstr(e->said, "attachRequired"));
    assert_int_equal(rig_count(r, "NodeGetInfo"), 0);
    assert_int_equal(rig_count(r, "Notify false"), 1);
    rig_free(r);
}

static void test_refused_csidrivers_fail_the_attempt(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_capable(r, "a");
    rig_fault(r, (struct rig_fault){.match = "list csidrivers", .times = 1, .number = 403, .reason = "Forbidden"});
    rig_appear(r, a);
    rig_settle(r);
    const struct rig_line *e = rig_last(r, "event FAILED a.example.com");
    assert_non_null(e);
    assert_true(e->retryable);
    assert_non_null(strstr(e->said, "403"));
    assert_int_equal(rig_count(r, "NodeGetInfo"), 0);
    rig_free(r);
}

/* ---- the one notification ---- */

static void test_published_before_told(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_hold(r, "create");
    rig_appear(r, a);
    rig_advance(r, 1000);
    assert_false(rig_registered(r, a));
    assert_int_equal(rig_count(r, "Notify") + rig_count(r, "event"), 0);
    rig_answer(r, "create");
    rig_settle(r);
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "Notify true"), 1);
    rig_free(r);
}

static void test_a_vanished_socket_ends_its_attempt_untold(void **state)
{
    static const char *const holds[] = {"connect /r/",     "GetInfo",     "connect /d/", "NodeGetCapabilities",
                                        "list csidrivers", "NodeGetInfo", "get nodes",   "create"};
    (void)state;
    for (size_t k = 0; k < sizeof holds / sizeof *holds; k++) {
        struct rig *r = rig_gate_on();
        struct rig_plugin *a = rig_capable(r, "a");
        rig_hold(r, holds[k]);
        rig_appear(r, a);
        rig_advance(r, 200);
        rig_vanish(r, a);
        rig_release(r);
        rig_advance(r, 200000);
        if (rig_count(r, "Notify") || *rig_state(r, a)) fail_msg("vanished at: %s", holds[k]);
        for (size_t i = 0; i < r->n_lines; i++) assert_false(r->lines[i].open);
        assert_null(rig_entry(r, "driverRegistrations", "a.example.com"));
        rig_free(r);
    }
}

static void test_a_lost_notification_undoes_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "Notify", .times = 2, .number = 14, .text = "gone"});
    rig_appear(r, a);
    rig_settle(r);
    assert_string_equal(rig_state(r, a), "unconfirmed");
    assert_true(rig_registered(r, a));
    assert_non_null(strstr(rig_last(r, "event WARNING")->said, "registered, but")); /* it did not fail */
    rig_mark(r);
    rig_advance(r, 600);
    assert_int_equal(rig_count(r, "NodeGetInfo"), 1); /* the whole attempt again */
    assert_string_equal(rig_state(r, a), "unconfirmed");
    rig_advance(r, 1200);
    assert_string_equal(rig_state(r, a), "registered");
    rig_expect_requests(r, ""); /* which writes nothing */
    assert_int_equal(rig_count(r, "event UNREGISTERED"), 0);
    rig_free(r);
}

static void test_any_failure_of_the_notification_is_retried(void **state)
{
    (void)state;
    for (int code = 1; code <= 16; code++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a");
        rig_fault(r, (struct rig_fault){.match = "Notify", .times = 1, .number = code, .refused = code == 13});
        rig_up(r, a);
        assert_string_equal(rig_state(r, a), "registered");
        assert_int_equal(rig_count(r, "Notify true"), 2);
        assert_true(rig_last(r, "event WARNING")->retryable);
        rig_free(r);
    }
}

/* Of a long reason the beginning is sent, whole characters, at most 1,024 bytes. */
static void test_reasons_are_cut(void **state)
{
    static char text[3001];
    (void)state;
    for (size_t shift = 0; shift < 3; shift++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a");
        memset(text, 'x', shift);
        for (size_t k = shift; k + 3 < sizeof text; k += 3) memcpy(text + k, "\xe2\x82\xac", 4);
        rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 2, .text = text});
        rig_appear(r, a);
        rig_settle(r);
        const char *said = rig_last(r, "Notify false")->said;
        assert_in_range(strlen(said), 1022, 1024);
        json_t *valid = json_string(said); /* NULL when it is no UTF-8 */
        assert_non_null(valid);
        json_decref(valid);
        assert_non_null(strstr(said, "NodeGetInfo on /d/a.sock"));
        rig_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_in_the_node_flow),
        cmocka_unit_test(test_order_with_the_gate_and_no_capability),
        cmocka_unit_test(test_order_in_the_controller_flow),
        cmocka_unit_test(test_the_configured_number_is_the_capability),
        cmocka_unit_test(test_attach_not_required_means_node_flow),
        cmocka_unit_test(test_local_only_asks_nobody_but_the_driver),
        cmocka_unit_test(test_third_door_connects_to_the_driver_alone),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_connect_is_retried_inside_its_window),
        cmocka_unit_test(test_connect_comes_through_when_somebody_listens),
        cmocka_unit_test(test_connect_errors),
        cmocka_unit_test(test_codes_of_get_info),
        cmocka_unit_test(test_codes_of_node_get_info),
        cmocka_unit_test(test_codes_of_node_get_capabilities),
        cmocka_unit_test(test_hints_of_unimplemented),
        cmocka_unit_test(test_no_fall_back_between_flows),
        cmocka_unit_test(test_a_capable_driver_waits_for_the_csidrivers),
        cmocka_unit_test(test_unread_csidrivers_fail_the_attempt),
        cmocka_unit_test(test_refused_csidrivers_fail_the_attempt),
        cmocka_unit_test(test_published_before_told),
        cmocka_unit_test(test_a_vanished_socket_ends_its_attempt_untold),
        cmocka_unit_test(test_a_lost_notification_undoes_nothing),
        cmocka_unit_test(test_any_failure_of_the_notification_is_retried),
        cmocka_unit_test(test_reasons_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
