/* SPDX-License-Identifier: Apache-2.0 */
/* The refresh of the limit: when it runs, what it writes, what exhausted() answers. And the probe of endpoints. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "csireg/manager.h"
#include "unit/core_rig.h"

#define ADDED(name, version, spec)                                                                                     \
    "{'type':'ADDED','object':{'metadata':{'name':'" name "','resourceVersion':'" version "'},'spec':{" spec "}}}"

/* A driver in the node flow registered now, whose CSIDriver sets a period of 100 s. */
static struct rig *refreshing(struct rig_plugin **out)
{
    struct rig *r = rig_gate_on();
    *out = rig_plugin(r, "a");
    json_object_set_new(r->attach, "a.example.com", json_true());
    json_object_set_new(r->periods, "a.example.com", json_integer(100));
    rig_appear(r, *out);
    rig_settle(r);
    assert_true(rig_registered(r, *out));
    rig_mark(r);
    return r;
}

/* ---- periodic ---- */

static void test_the_period_has_jitter(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    int64_t last = r->now.mono_ms, least = INT64_MAX, most = 0;
    size_t n = 0;
    rig_advance(r, 10000 * 1000);
    for (size_t i = r->mark; i < r->n_lines; i++) {
        if (strncmp(r->lines[i].text, "NodeGetInfo", 11) != 0) continue;
        int64_t pause = r->lines[i].at_ms - last;
        assert_in_range(pause, 80000, 120000);
        if (pause < least) least = pause;
        if (pause > most) most = pause;
        last = r->lines[i].at_ms;
        n++;
    }
    assert_in_range(n, 90, 112);
    assert_true(least < 85000 && most > 115000);
    assert_int_equal(rig_count(r, "NodeGetInfo+flag") + rig_count(r, "NodeGetCapabilities") + rig_count(r, "Notify"),
                     0);
    rig_expect_requests(r, ""); /* equal counts */
    rig_free(r);
}

static void test_a_changed_count_is_written(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    a->limit = 7;
    rig_advance(r, 121000);
    rig_expect_requests(r, "update csinodes");
    rig_expect_json(json_incref(json_object_get(rig_entry(r, "drivers", a->name), "allocatable")), "{'count':7}");
    assert_int_equal(rig_count(r, "event UNREGISTERED") + rig_count(r, "Notify") + rig_count(r, "GetInfo"), 0);
    a->limit = 0;
    rig_advance(r, 121000);
    assert_null(json_object_get(rig_entry(r, "drivers", a->name), "allocatable"));
    rig_free(r);
}

static void test_no_period_no_refresh(void **state)
{
    static const char *const specs[] = {"",
                                        "'nodeAllocatableUpdatePeriodSeconds':null",
                                        "'nodeAllocatableUpdatePeriodSeconds':9",
                                        "'nodeAllocatableUpdatePeriodSeconds':0",
                                        "'nodeAllocatableUpdatePeriodSeconds':-1",
                                        "'nodeAllocatableUpdatePeriodSeconds':'100'"};
    (void)state;
    struct rig *r = rig_started();
    rig_up(r, rig_plugin(r, "a"));
    rig_mark(r);
    for (size_t k = 0; k < sizeof specs / sizeof *specs; k++) {
        char line[256];
        snprintf(line, sizeof line,
                 "{'type':'MODIFIED','object':{'metadata':{'name':'a.example.com','resourceVersion':'1'},'spec':{%s}}}",
                 specs[k]);
        rig_watch_line(r, line);
        rig_advance(r, 3600 * 1000);
        assert_int_equal(rig_count(r, "NodeGetInfo"), 0);
    }
    rig_free(r);
}

static void test_the_controller_flow_has_no_refresh(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    json_object_set_new(r->attach, "a.example.com", json_true());
    json_object_set_new(r->periods, "a.example.com", json_integer(10));
    rig_up(r, rig_capable(r, "a"));
    rig_mark(r);
    rig_advance(r, 3600 * 1000);
    assert_int_equal(rig_count(r, "NodeGetInfo"), 0);
    rig_exhausted(r, "a.example.com", 7);
    rig_advance(r, 5000);
    char want[32];
    snprintf(want, sizeof want, "exhausted 7 %d", CSIREG_EXHAUSTED_DELEGATED);
    assert_non_null(rig_last(r, want));
    assert_int_equal(rig_count(r, "connect") + rig_count(r, "NodeGetInfo"), 0);
    rig_free(r);
}

static void test_the_period_changes_at_run_time(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    rig_advance(r, 50000);
    rig_watch_line(r, ADDED("a.example.com", "101", "'nodeAllocatableUpdatePeriodSeconds':10"));
    rig_advance(r, 12001);
    assert_int_equal(rig_count(r, "NodeGetInfo"), 1);
    rig_watch_line(r, ADDED("a.example.com", "102", ""));
    rig_advance(r, 3600 * 1000);
    assert_int_equal(rig_count(r, "NodeGetInfo"), 1);
    rig_watch_line(r, ADDED("a.example.com", "103", "'nodeAllocatableUpdatePeriodSeconds':100"));
    rig_advance(r, 121000);
    assert_int_equal(rig_count(r, "NodeGetInfo"), 2);
    rig_free(r);
}

static void test_other_changes_do_not_disturb_the_period(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    for (int k = 0; k < 12; k++) {
        rig_advance(r, 10000);
        rig_watch_line(r, ADDED("a.example.com", "101", "'nodeAllocatableUpdatePeriodSeconds':100,'other':1"));
    }
    rig_advance(r, 1000);
    assert_int_equal(rig_count(r, "NodeGetInfo"), 1);
    rig_free(r);
}

static void test_one_timer_per_driver(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    for (int k = 0; k < 20; k++) rig_up(r, a);
    rig_mark(r);
    rig_advance(r, 1000 * 1000);
    assert_in_range(rig_count(r, "NodeGetInfo"), 8, 13);
    rig_vanish(r, a);
    rig_mark(r);
    rig_advance(r, 1000 * 1000);
    assert_int_equal(rig_count(r, "connect") + rig_count(r, "NodeGetInfo"), 0);
    rig_free(r);
}

static void test_a_renamed_driver_is_refreshed_too(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    json_object_set_new(r->attach, "b.example.com", json_true());
    rig_watch_line(r, ADDED("b.example.com", "101", "'nodeAllocatableUpdatePeriodSeconds':100"));
    memcpy(a->name, "b.example.com", sizeof "b.example.com");
    rig_up(r, a);
    assert_true(rig_registered(r, a));
    rig_mark(r);
    rig_advance(r, 121000);
    assert_int_equal(rig_count(r, "NodeGetInfo"), 1);
    rig_free(r);
}

/* ---- what fails ---- */

static void test_failures_wait_for_the_next_time(void **state)
{
    static const struct rig_fault faults[] = {{.match = "connect /d/", .times = 1, .number = ECONNREFUSED},
                                              {.match = "NodeGetInfo", .times = 1, .number = 14},
                                              {.match = "NodeGetInfo", .times = 1, .number = 12},
                                              {.match = "NodeGetInfo", .times = 1, .number = 13, .refused = true}};
    struct rig_plugin *a;
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct rig *r = refreshing(&a);
        rig_fault(r, faults[k]);
        a->limit = 7;
        rig_advance(r, 121000);
        assert_int_equal(rig_count(r, "connect"), 1);
        rig_expect_requests(r, "");
        assert_true(rig_registered(r, a));
        rig_advance(r, 80000);
        rig_expect_requests(r, "update csinodes");
        rig_free(r);
    }
}

static void test_other_ids_and_keys_are_not_written(void **state)
{
    struct rig_plugin *a;
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct rig *r = refreshing(&a);
        a->limit = 7;
        if (k == 0) a->node_id = "other";
        if (k == 1) a->topology[0] = "other/key=z1";
        if (k == 2) a->topology[1] = "z=1";
        if (k == 3) a->node_id = "";
        rig_advance(r, 121000);
        assert_int_equal(rig_count(r, "NodeGetInfo"), 1);
        rig_expect_requests(r, "");
        assert_int_equal(rig_count(r, "event WARNING"), k < 3);
        assert_true(rig_registered(r, a));
        rig_free(r);
    }
}

static void test_label_values_are_not_compared(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    a->limit = 7;
    a->topology[0] = "a.example.com/zone=z2";
    rig_advance(r, 121000);
    rig_expect_requests(r, "update csinodes");
    assert_string_equal(rig_label(r, "a.example.com/zone"), "z1");
    rig_free(r);
}

static void test_a_refused_count_is_given_up(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    rig_fault(r, (struct rig_fault){.match = "update", .times = 1, .number = 422, .reason = "Invalid"});
    a->limit = 7;
    rig_advance(r, 121000);
    assert_true(rig_registered(r, a)); /* an old server does not take another count: harmless */
    assert_non_null(rig_entry(r, "drivers", a->name));
    assert_int_equal(rig_count(r, "event UNREGISTERED"), 0);
    rig_free(r);
}

/* ---- exhausted ---- */

static int result(struct rig *r, uint64_t token)
{
    char want[32];
    snprintf(want, sizeof want, "exhausted %d ", (int)token);
    const struct rig_line *l = rig_last(r, want);
    assert_non_null(l);
    assert_int_equal(rig_count(r, want), 1);
    return (int)strtol(l->text + strlen(want), NULL, 10);
}

static void test_exhausted_refreshes_now(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    rig_exhausted(r, a->name, 1);
    rig_settle(r);
    assert_int_equal(result(r, 1), CSIREG_EXHAUSTED_UNCHANGED);
    a->limit = 3;
    rig_advance(r, 5000);
    rig_exhausted(r, a->name, 2);
    rig_hold(r, "update");
    rig_settle(r);
    assert_int_equal(rig_count(r, "exhausted 2"), 0); /* not before it is published */
    rig_release(r);
    rig_settle(r);
    assert_int_equal(result(r, 2), CSIREG_EXHAUSTED_REFRESHED);
    rig_advance(r, 5000);
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 14});
    rig_exhausted(r, a->name, 3);
    rig_settle(r);
    assert_int_equal(result(r, 3), CSIREG_EXHAUSTED_FAILED);
    rig_free(r);
}

static void test_exhausted_answers_for_others(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    struct rig_plugin *b = rig_plugin(r, "b");
    rig_up(r, b);
    rig_exhausted(r, b->name, 1);
    assert_int_equal(result(r, 1), CSIREG_EXHAUSTED_NO_PERIOD);
    rig_exhausted(r, "unknown", 2);
    assert_int_equal(result(r, 2), CSIREG_ERR_NOT_REGISTERED);
    rig_free(r);
    r = rig_new();
    r->config.watches_registry = true;
    rig_start(r);
    rig_exhausted(r, "unknown", 3);
    assert_int_equal(result(r, 3), CSIREG_ERR_NOT_READY);
    rig_free(r);
}

static void test_one_run_at_a_time_and_one_more_after_it(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    int64_t begin = r->now.mono_ms;
    rig_hold(r, "NodeGetInfo");
    rig_exhausted(r, a->name, 1);
    rig_settle(r);
    for (uint64_t k = 2; k < 10; k++) rig_exhausted(r, a->name, k); /* during the run */
    rig_advance(r, 100);
    assert_int_equal(rig_count(r, "NodeGetInfo"), 1);
    rig_release(r);
    rig_settle(r);
    assert_int_equal(result(r, 1), CSIREG_EXHAUSTED_UNCHANGED);
    assert_int_equal(rig_count(r, "exhausted"), 1);
    rig_advance(r, 10000);
    assert_int_equal(rig_count(r, "NodeGetInfo"), 2); /* one for all of them */
    assert_in_range(rig_last(r, "NodeGetInfo")->at_ms - begin, 2000, 2010);
    for (uint64_t k = 2; k < 10; k++) assert_int_equal(result(r, k), CSIREG_EXHAUSTED_UNCHANGED);
    rig_free(r);
}

static void test_nobody_waits_for_a_driver_that_goes(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    rig_hold(r, "NodeGetInfo");
    rig_exhausted(r, a->name, 1);
    rig_settle(r);
    rig_exhausted(r, a->name, 2);
    rig_vanish(r, a);
    assert_int_equal(result(r, 1), CSIREG_ERR_NOT_REGISTERED);
    assert_int_equal(result(r, 2), CSIREG_ERR_NOT_REGISTERED);
    rig_free(r);
}

static void test_nobody_waits_for_a_registration_that_ended(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = refreshing(&a);
    rig_hold(r, "NodeGetInfo");
    rig_exhausted(r, a->name, 1);
    rig_settle(r);
    rig_fault(r, (struct rig_fault){.match = "GetInfo", .times = 1, .number = 14});
    rig_appear(r, a); /* made anew, and its first attempt fails */
    rig_settle(r);
    assert_int_equal(rig_count(r, "event UNREGISTERED"), 1);
    assert_int_equal(result(r, 1), CSIREG_ERR_NOT_REGISTERED);
    rig_free(r);
}

/* ---- the probe ---- */

static json_t *driver_status(struct rig *r, const char *key)
{
    json_t *status = rig_status(r), *d = json_array_get(json_object_get(status, "drivers"), 0);
    json_t *value = json_object_get(d, key) ? json_incref(json_object_get(d, key)) : json_null();
    json_decref(status);
    return value;
}

static void test_status_tells_since_when_an_endpoint_is_dead(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_mark(r);
    rig_advance(r, 61000);
    assert_true(json_is_null(driver_status(r, "unreachableSince")));
    a->serving = false;
    rig_advance(r, 61000);
    json_t *since = driver_status(r, "unreachableSince");
    assert_true(json_is_string(since));
    rig_advance(r, 3600 * 1000);
    json_t *later = driver_status(r, "unreachableSince");
    assert_true(json_equal(since, later));
    assert_true(rig_registered(r, a)); /* the entry stays */
    rig_expect_requests(r, "");
    a->serving = true;
    rig_advance(r, 61000);
    assert_true(json_is_null(driver_status(r, "unreachableSince")));
    assert_int_equal(rig_count(r, "connect"), 0);
    json_decref(later);
    json_decref(since);
    rig_free(r);
}

static void test_an_endpoint_that_stays_dead_ends_the_registration(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    r->config.endpoint_dead_after_ms = 20000;
    rig_start(r);
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_advance(r, 100000);
    a->serving = false;
    int64_t begin = r->now.mono_ms;
    rig_mark(r);
    rig_advance(r, 100000);
    const struct rig_line *l = rig_last(r, "event UNREGISTERED a.example.com");
    assert_non_null(l);
    assert_in_range(l->at_ms - begin, 20000, 30000);
    assert_null(rig_entry(r, "drivers", a->name));
    assert_non_null(strstr(rig_last(r, "event FAILED")->said, a->endpoint));
    a->serving = true;
    rig_advance(r, 135000);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_period_has_jitter),
        cmocka_unit_test(test_a_changed_count_is_written),
        cmocka_unit_test(test_no_period_no_refresh),
        cmocka_unit_test(test_the_controller_flow_has_no_refresh),
        cmocka_unit_test(test_the_period_changes_at_run_time),
        cmocka_unit_test(test_other_changes_do_not_disturb_the_period),
        cmocka_unit_test(test_one_timer_per_driver),
        cmocka_unit_test(test_a_renamed_driver_is_refreshed_too),
        cmocka_unit_test(test_failures_wait_for_the_next_time),
        cmocka_unit_test(test_other_ids_and_keys_are_not_written),
        cmocka_unit_test(test_label_values_are_not_compared),
        cmocka_unit_test(test_a_refused_count_is_given_up),
        cmocka_unit_test(test_exhausted_refreshes_now),
        cmocka_unit_test(test_exhausted_answers_for_others),
        cmocka_unit_test(test_one_run_at_a_time_and_one_more_after_it),
        cmocka_unit_test(test_nobody_waits_for_a_driver_that_goes),
        cmocka_unit_test(test_nobody_waits_for_a_registration_that_ended),
        cmocka_unit_test(test_status_tells_since_when_an_endpoint_is_dead),
        cmocka_unit_test(test_an_endpoint_that_stays_dead_ends_the_registration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
