/* SPDX-License-Identifier: Apache-2.0 */
/* Troubles that operators of kubelets reported, as runs of the core. test/behaviours.tsv has all of them. */
#include <stdio.h>

#include "unit/core_rig.h"

#define UNAVAILABLE 14

/* A retry begins at the beginning: what the plugin says by then counts, not what it said first. */
static void test_a_retry_takes_new_values(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = UNAVAILABLE});
    rig_appear(r, a);
    rig_settle(r);
    assert_non_null(rig_last(r, "Notify false"));
    snprintf(a->name, sizeof a->name, "b.example.com");
    snprintf(a->endpoint, sizeof a->endpoint, "/d/elsewhere.sock");
    a->versions[0] = "1.7.0";
    rig_mark(r);
    rig_advance(r, 2000);
    assert_non_null(rig_last(r, "NodeGetInfo /d/elsewhere.sock"));
    assert_non_null(rig_last(r, "Notify true"));
    json_t *status = rig_status(r);
    json_t *driver = json_array_get(json_object_get(status, "drivers"), 0);
    assert_int_equal(json_array_size(json_object_get(status, "drivers")), 1);
    assert_string_equal(json_string_value(json_object_get(driver, "name")), "b.example.com");
    assert_string_equal(json_string_value(json_object_get(driver, "endpoint")), "/d/elsewhere.sock");
    assert_string_equal(json_string_value(json_object_get(driver, "version")), "1.7.0");
    assert_null(rig_entry(r, "drivers", "a.example.com"));
    json_decref(status);
    rig_free(r);
}

/* However long it takes, a driver that comes good is registered, and nobody had to restart anything. */
static void test_ten_minutes_of_failures(void **state)
{
    (void)state;
    static const char *const steps[] = {"GetInfo", "NodeGetInfo", "get nodes"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a");
        rig_fault(r, (struct rig_fault){.match = steps[i], .times = -1, .number = i < 2 ? UNAVAILABLE : 503});
        rig_appear(r, a);
        rig_advance(r, 600000);
        assert_false(rig_registered(r, a));
        rig_no_faults(r);
        rig_advance(r, 135000);
        assert_true(rig_registered(r, a));
        assert_non_null(rig_last(r, "Notify true"));
        rig_free(r);
    }
}

/* endpoint-dead-after: back in time, and it never happened. */
static void test_an_endpoint_back_in_time_costs_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    r->config.endpoint_dead_after_ms = 20000;
    rig_start(r);
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_mark(r);
    a->serving = false;
    rig_advance(r, 19000);
    a->serving = true;
    rig_advance(r, 100000);
    assert_true(rig_registered(r, a));
    rig_expect_requests(r, "");
    assert_int_equal(rig_count(r, "event") + rig_count(r, "GetInfo") + rig_count(r, "Notify"), 0);
    rig_free(r);
}

/* The wrong label is put right by hand: the driver registers at its next try, without a restart of anything. */
static void test_a_corrected_label_heals(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    json_t *labels = rig_json("{'a.example.com/zone':'elsewhere'}");
    json_object_set_new(json_object_get(r->node, "metadata"), "labels", labels);
    rig_up(r, a);
    assert_false(rig_registered(r, a));
    assert_string_equal(rig_label(r, "a.example.com/zone"), "elsewhere");
    json_object_set_new(json_object_get(json_object_get(r->node, "metadata"), "labels"), "a.example.com/zone",
                        json_string("z1"));
    rig_touch_node(r);
    rig_advance(r, 135000);
    assert_true(rig_registered(r, a));
    assert_non_null(rig_last(r, "Notify true"));
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_retry_takes_new_values),
        cmocka_unit_test(test_ten_minutes_of_failures),
        cmocka_unit_test(test_an_endpoint_back_in_time_costs_nothing),
        cmocka_unit_test(test_a_corrected_label_heals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
