/* SPDX-License-Identifier: Apache-2.0 */
/* What concerns the machine as a whole: stopping, the initial scan, limits, late answers, plugins of other types. */
#include <string.h>

#include "base/bounds.h"
#include "unit/core_rig.h"

/* ---- stop ---- */

static void assert_ends(struct rig *r, const char *where)
{
    rig_mark(r);
    rig_command(r, CR_IN_STOP, NULL);
    size_t out = 0;
    for (size_t i = 0; i < r->n_lines; i++) out += r->lines[i].out;
    if (r->stopped != (out == 0)) fail_msg("stop at: %s", where);
    rig_release(r);
    rig_settle(r);
    if (!r->stopped) fail_msg("no end after a stop at: %s", where);
    assert_int_equal(rig_count(r, "Notify") + rig_count(r, "event") + rig_count(r, "GetInfo"), 0);
    rig_expect_requests(r, ""); /* nothing is undone in the cluster */
    for (size_t i = 0; i < r->n_lines; i++) assert_false(r->lines[i].open);
    assert_int_equal(cr_core_deadline(r->core), CR_NEVER);
}

static void test_stop_at_every_step(void **state)
{
    static const char *const holds[] = {"connect /r/", "GetInfo",     "connect /d/",  "list",  "NodeGetCapabilities",
                                        "NodeGetInfo", "get nodes",   "get csinodes", "patch", "create",
                                        "Notify",      "no such line"};
    (void)state;
    for (size_t k = 0; k < sizeof holds / sizeof *holds; k++) {
        struct rig *r = rig_gate_on();
        struct rig_plugin *a = rig_capable(r, "a"), *b = rig_plugin(r, "b");
        rig_hold(r, holds[k]);
        rig_appear(r, a);
        rig_appear(r, b);
        rig_advance(r, 200);
        assert_ends(r, holds[k]);
        rig_free(r);
    }
}

static void test_stop_before_anything(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_command(r, CR_IN_STOP, NULL);
    rig_expect(r, "stopped");
    rig_command(r, CR_IN_STOP, NULL); /* idempotent */
    rig_expect(r, "stopped");
    rig_free(r);
}

static void test_stop_while_waiting(void **state)
{
    (void)state;
    struct rig *r = rig_started(); /* for the next attempt */
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 14});
    rig_appear(r, rig_plugin(r, "a"));
    rig_settle(r);
    assert_ends(r, "backoff");
    rig_free(r);
    r = rig_started(); /* for the API */
    rig_fault(r, (struct rig_fault){.match = "create", .times = -1, .number = 503});
    rig_appear(r, rig_plugin(r, "a"));
    rig_settle(r);
    assert_ends(r, "an outage");
    rig_free(r);
    r = rig_started(); /* with a notification on its way */
    struct rig_plugin *a = rig_plugin(r, "a");
    a->type = "DRAPlugin";
    rig_hold(r, "Notify");
    rig_appear(r, a);
    rig_settle(r);
    assert_string_equal(rig_state(r, a), "rejecting");
    assert_ends(r, "rejecting");
    rig_free(r);
}

static void test_stop_during_a_refresh_and_a_probe(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    json_object_set_new(r->attach, "a.example.com", json_true());
    json_object_set_new(r->periods, "a.example.com", json_integer(10));
    rig_up(r, a);
    rig_hold(r, "NodeGetInfo");
    rig_hold(r, "probe");
    rig_exhausted(r, a->name, 5);
    rig_advance(r, 70000);
    rig_command(r, CR_IN_STOP, NULL);
    assert_int_equal(rig_count(r, "exhausted 5"), 1);
    assert_false(r->stopped);
    rig_release(r);
    rig_settle(r);
    assert_true(r->stopped);
    rig_free(r);
}

static void test_nothing_is_taken_in_after_stop(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b");
    rig_hold(r, "GetInfo");
    rig_appear(r, a);
    rig_settle(r);
    rig_command(r, CR_IN_STOP, NULL);
    rig_mark(r);
    rig_appear(r, b);
    rig_vanish(r, a);
    rig_register(r, b);
    rig_command(r, CR_IN_RETRY, NULL);
    rig_command(r, CR_IN_TICK, NULL);
    rig_command(r, CR_IN_SCAN_DONE, NULL);
    rig_command(r, CR_IN_CREDENTIALS_CHANGED, NULL);
    rig_expect(r, NULL);
    rig_settle(r);
    rig_expect(r, "stopped");
    rig_free(r);
}

static void test_a_connect_that_succeeds_after_stop_is_closed(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_hold(r, "connect");
    rig_appear(r, rig_plugin(r, "a"));
    rig_command(r, CR_IN_STOP, NULL);
    rig_mark(r);
    rig_answer(r, "connect");
    rig_expect(r, "close /r/a-reg.sock", "stopped");
    rig_free(r);
}

static void test_freeing_at_any_step(void **state)
{
    static const char *const holds[] = {"connect /r/", "GetInfo", "connect /d/", "NodeGetInfo",
                                        "get",         "create",  "Notify"};
    (void)state;
    for (size_t k = 0; k < 7; k++) {
        struct rig *r = rig_started();
        rig_hold(r, holds[k]);
        rig_appear(r, rig_plugin(r, "a"));
        rig_settle(r);
        rig_free(r); /* the sanitizer looks for what is left */
    }
}

/* ---- the initial scan ---- */

static void test_initial_done(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    r->config.watches_registry = true;
    rig_start(r);
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b"), *c = rig_plugin(r, "c"),
                      *d = rig_plugin(r, "d");
    assert_false(cr_core_initial_done(r->core));
    rig_hold(r, "GetInfo");
    rig_appear(r, a);
    rig_appear(r, b);
    rig_appear(r, c);
    rig_command(r, CR_IN_SCAN_DONE, NULL);
    rig_appear(r, d); /* does not belong to it */
    rig_settle(r);
    assert_false(cr_core_initial_done(r->core));
    rig_answer(r, "GetInfo /r/a");
    rig_advance(r, 100);
    assert_true(rig_registered(r, a));
    rig_fault(r, (struct rig_fault){.match = "GetInfo /r/b", .times = 1, .number = 14});
    rig_answer(r, "GetInfo /r/b"); /* a failed try is one */
    assert_false(cr_core_initial_done(r->core));
    rig_vanish(r, c);
    assert_true(cr_core_initial_done(r->core));
    rig_free(r);
    r = rig_started(); /* without the first door there is nothing to wait for */
    assert_true(cr_core_initial_done(r->core));
    rig_free(r);
}

/* ---- limits ---- */

static void test_no_more_sockets_than_the_bound(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_hold(r, "connect");
    for (int k = 0; k < CR_MAX_SOCKETS + 5; k++) {
        char path[32];
        snprintf(path, sizeof path, "/r/%d.sock", k);
        struct cr_input in = {.kind = CR_IN_SOCKET_SEEN, .path = path, .identity = {.ino = (uint64_t)k + 1}};
        rig_input(r, &in);
    }
    assert_int_equal(rig_count(r, "connect"), CR_MAX_SOCKETS);
    assert_non_null(strstr(r->last_log, "1024"));
    struct cr_input gone = {.kind = CR_IN_SOCKET_GONE, .path = "/r/0.sock"};
    rig_input(r, &gone);
    struct cr_input in = {.kind = CR_IN_SOCKET_SEEN, .path = "/r/1028.sock", .identity = {.ino = 2000}};
    rig_input(r, &in);
    assert_int_equal(rig_count(r, "connect"), CR_MAX_SOCKETS + 1);
    rig_free(r);
}

/* ---- time and late answers ---- */

static void test_a_tick_that_comes_early_does_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 14});
    rig_appear(r, rig_plugin(r, "a"));
    rig_settle(r);
    rig_mark(r);
    for (int k = 0; k < 50; k++) {
        r->now.mono_ms += 9;
        rig_command(r, CR_IN_TICK, NULL);
    }
    rig_expect(r, NULL);
    assert_in_range(cr_core_deadline(r->core), 1500, 1550);
    rig_free(r);
}

static void test_no_deadline_without_work(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    assert_int_equal(cr_core_deadline(r->core), CR_NEVER);
    rig_free(r);
}

static void test_steps_of_the_wall_clock_change_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 14});
    rig_appear(r, a);
    rig_settle(r);
    r->now.wall_ms -= 86400000;
    rig_advance(r, 600);
    assert_true(rig_registered(r, a));
    r->now.wall_ms += 10 * (int64_t)86400000;
    rig_mark(r);
    rig_advance(r, 10000);
    rig_expect(r, NULL);
    rig_free(r);
}

static void test_answers_that_nobody_waits_for(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_hold(r, "connect");
    rig_appear(r, a);
    rig_vanish(r, a);
    rig_answer(r, "connect"); /* succeeds, but too late */
    rig_expect(r, "connect /r/a-reg.sock", "close /r/a-reg.sock");
    rig_release(r);
    rig_hold(r, "NodeGetInfo");
    rig_appear(r, a);
    rig_advance(r, 10);
    rig_appear(r, a); /* the old call is cancelled, its answer comes after the new attempt began */
    rig_settle(r);
    rig_release(r);
    rig_advance(r, 1000);
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "Notify"), 1);
    rig_free(r);
}

static void test_the_same_seed_gives_the_same_run(void **state)
{
    (void)state;
    int64_t at[2];
    for (int k = 0; k < 2; k++) {
        struct rig *r = rig_started();
        rig_fault(r, (struct rig_fault){.match = "GetInfo", .times = -1, .number = 14});
        rig_appear(r, rig_plugin(r, "a"));
        rig_advance(r, 100000);
        at[k] = rig_last(r, "GetInfo")->at_ms;
        rig_free(r);
    }
    assert_int_equal(at[0], at[1]);
}

/* ---- plugins of other types ---- */

static struct rig *with_handler(struct rig_plugin **out)
{
    static const char *const types[] = {"DevicePlugin", "DRAPlugin"};
    struct rig *r = rig_new();
    r->config.plugin_types = types;
    r->config.n_plugin_types = 2;
    rig_start(r);
    *out = rig_plugin(r, "a");
    (*out)->type = "DRAPlugin";
    (*out)->versions[0] = "v1.DRAPlugin";
    rig_appear(r, *out);
    rig_settle(r);
    return r;
}

static void test_a_handler_takes_a_plugin(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = with_handler(&a);
    rig_expect(r, "connect /r/", "GetInfo", "event PLUGIN a.example.com [/r/a-reg.sock]");
    assert_string_equal(rig_state(r, a), "handler");
    uint64_t token = rig_last(r, "event PLUGIN")->token;
    assert_int_not_equal(token, 0);
    rig_plugin_result(r, token + 1, true, NULL); /* somebody else's */
    assert_int_equal(rig_count(r, "Notify"), 0);
    rig_plugin_result(r, token, true, NULL);
    rig_settle(r);
    assert_int_equal(rig_count(r, "Notify true"), 1);
    assert_string_equal(rig_state(r, a), "registered");
    rig_expect_requests(r, "");
    rig_mark(r);
    rig_vanish(r, a);
    rig_expect(r, "event PLUGIN_GONE a.example.com [/r/a-reg.sock]");
    assert_int_equal(rig_last(r, "event PLUGIN_GONE")->token, token);
    rig_free(r);
}

static void test_a_handler_refuses_a_plugin(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = with_handler(&a);
    uint64_t token = rig_last(r, "event PLUGIN")->token;
    rig_plugin_result(r, token, false, "no room for it");
    rig_settle(r);
    assert_non_null(strstr(rig_last(r, "Notify false")->said, "no room for it"));
    assert_non_null(strstr(rig_last(r, "Notify false")->said, "DRAPlugin"));
    rig_plugin_result(r, token, true, NULL); /* too late */
    rig_advance(r, 600);
    assert_int_equal(rig_count(r, "event PLUGIN a"), 2); /* asked again after the pause */
    assert_int_not_equal(rig_last(r, "event PLUGIN a")->token, token);
    rig_free(r);
}

static void test_a_handler_that_does_not_answer(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = with_handler(&a);
    rig_advance(r, 119999);
    assert_int_equal(rig_count(r, "Notify"), 0);
    rig_advance(r, 1);
    assert_int_equal(rig_count(r, "Notify false"), 1);
    assert_non_null(strstr(rig_last(r, "Notify false")->said, "in time"));
    rig_free(r);
}

static void test_a_plugin_that_goes_before_the_answer(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = with_handler(&a);
    uint64_t token = rig_last(r, "event PLUGIN")->token;
    rig_mark(r);
    rig_vanish(r, a);
    assert_int_equal(rig_last(r, "event PLUGIN_GONE")->token, token);
    rig_plugin_result(r, token, true, NULL);
    rig_advance(r, 1000);
    assert_int_equal(rig_count(r, "Notify"), 0);
    rig_free(r);
}

static void test_a_foreign_plugin_made_anew(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = with_handler(&a);
    uint64_t token = rig_last(r, "event PLUGIN")->token;
    rig_plugin_result(r, token, true, NULL);
    rig_settle(r);
    rig_mark(r);
    rig_up(r, a);
    assert_int_equal(rig_last(r, "event PLUGIN_GONE")->token, token);
    assert_int_not_equal(rig_last(r, "event PLUGIN a")->token, token);
    rig_free(r);
}

static void test_types_are_compared_exactly(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = with_handler(&a);
    struct rig_plugin *b = rig_plugin(r, "b");
    b->type = "draplugin";
    rig_up(r, b);
    assert_int_equal(rig_count(r, "event PLUGIN b"), 0);
    assert_int_equal(rig_count(r, "Notify false /r/b"), 1);
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_at_every_step),
        cmocka_unit_test(test_stop_before_anything),
        cmocka_unit_test(test_stop_while_waiting),
        cmocka_unit_test(test_stop_during_a_refresh_and_a_probe),
        cmocka_unit_test(test_nothing_is_taken_in_after_stop),
        cmocka_unit_test(test_a_connect_that_succeeds_after_stop_is_closed),
        cmocka_unit_test(test_freeing_at_any_step),
        cmocka_unit_test(test_initial_done),
        cmocka_unit_test(test_no_more_sockets_than_the_bound),
        cmocka_unit_test(test_a_tick_that_comes_early_does_nothing),
        cmocka_unit_test(test_no_deadline_without_work),
        cmocka_unit_test(test_steps_of_the_wall_clock_change_nothing),
        cmocka_unit_test(test_answers_that_nobody_waits_for),
        cmocka_unit_test(test_the_same_seed_gives_the_same_run),
        cmocka_unit_test(test_a_handler_takes_a_plugin),
        cmocka_unit_test(test_a_handler_refuses_a_plugin),
        cmocka_unit_test(test_a_handler_that_does_not_answer),
        cmocka_unit_test(test_a_plugin_that_goes_before_the_answer),
        cmocka_unit_test(test_a_foreign_plugin_made_anew),
        cmocka_unit_test(test_types_are_compared_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
