/* SPDX-License-Identifier: Apache-2.0 */
/* What lookups and events tell of a driver. */
#include <string.h>

#include "unit/core_rig.h"

static size_t registered(struct rig *r)
{
    struct csireg_driver **all = cr_core_drivers(r->core);
    size_t n = 0;
    while (all[n]) n++;
    cr_driver_array_free(all);
    return n;
}

static void assert_view(struct rig *r, const char *endpoint, const char *version, const char *id, enum csireg_flow flow)
{
    struct csireg_driver **all = cr_core_drivers(r->core);
    assert_non_null(all[0]);
    assert_null(all[1]);
    assert_string_equal(all[0]->endpoint, endpoint);
    assert_string_equal(all[0]->version, version);
    assert_string_equal(all[0]->node_id, id);
    assert_int_equal(all[0]->flow, flow);
    cr_driver_array_free(all);
}

static void test_a_lookup_finds_what_is_registered(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_capable(r, "b");
    a->versions[0] = "v1.2.3-rc1";
    assert_int_equal(registered(r), 0);
    rig_up(r, a);
    assert_view(r, "/d/a.sock", "1.2.3", "id-a", CSIREG_FLOW_NODE);
    rig_up(r, b);
    assert_int_equal(registered(r), 2);
    rig_vanish(r, a);
    assert_view(r, "/d/b.sock", "1.0.0", "id-b", CSIREG_FLOW_CONTROLLER);
    rig_vanish(r, b);
    assert_int_equal(registered(r), 0);
    rig_free(r);
}

static void test_copies_are_independent(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_up(r, rig_plugin(r, "a"));
    struct csireg_driver **all = cr_core_drivers(r->core), *copy = cr_driver_copy(all[0]);
    cr_driver_array_free(all);
    rig_free(r);
    assert_string_equal(copy->name, "a.example.com");
    csireg_driver_free(copy);
    csireg_driver_free(NULL);
    cr_driver_array_free(NULL);
}

static void test_one_event_per_change(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    assert_int_equal(rig_count(r, "event"), 1);
    rig_mark(r);
    rig_up(r, a); /* as before */
    assert_int_equal(rig_count(r, "event"), 0);
    a->node_id = "other";
    rig_up(r, a);
    assert_int_equal(rig_count(r, "event CHANGED"), 1);
    assert_view(r, "/d/a.sock", "1.0.0", "other", CSIREG_FLOW_NODE);
    a->versions[0] = "1.1.0";
    rig_up(r, a);
    assert_int_equal(rig_count(r, "event CHANGED"), 2);
    a->capabilities[0] = 9;
    rig_up(r, a);
    assert_int_equal(rig_count(r, "event CHANGED"), 3);
    assert_view(r, "/d/a.sock", "1.1.0", "other", CSIREG_FLOW_CONTROLLER);
    rig_vanish(r, a);
    rig_advance(r, 1000);
    assert_int_equal(rig_count(r, "event UNREGISTERED"), 1);
    assert_int_equal(rig_count(r, "event"), 4);
    rig_free(r);
}

static void test_the_same_failure_is_told_once(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 4, .number = 14, .text = "no"});
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 14, .text = "still no"});
    rig_appear(r, a);
    rig_advance(r, 60000);
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "event FAILED"), 2);
    assert_int_equal(rig_count(r, "Notify false"), 5);
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 14, .text = "still no"});
    rig_appear(r, a);
    rig_settle(r);
    assert_int_equal(rig_count(r, "event FAILED"), 3); /* news again after a success */
    rig_free(r);
}

/* Whatever lookups would answer otherwise raises the generation. */
static void test_generations_rise(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    uint64_t before = cr_core_generation(r->core);
    rig_up(r, a);
    assert_true(cr_core_generation(r->core) > before);
    before = cr_core_generation(r->core);
    rig_up(r, a);
    assert_true(cr_core_generation(r->core) > before);
    before = cr_core_generation(r->core);
    rig_vanish(r, a);
    assert_true(cr_core_generation(r->core) > before);
    before = cr_core_generation(r->core);
    rig_advance(r, 1000);
    assert_true(cr_core_generation(r->core) > before); /* removed */
    before = cr_core_generation(r->core);
    rig_advance(r, 1000);
    assert_int_equal(cr_core_generation(r->core), before);
    rig_free(r);
}

static void test_quiet_generations_stay(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_up(r, rig_plugin(r, "a"));
    uint64_t before = cr_core_generation(r->core);
    rig_advance(r, 3600 * 1000);
    assert_int_equal(cr_core_generation(r->core), before);
    rig_free(r);
}

static void test_names_are_compared_by_exact_bytes(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b");
    memcpy(b->name, "A.example.com", sizeof "A.example.com");
    rig_up(r, a);
    rig_up(r, b);
    assert_int_equal(registered(r), 2);
    assert_non_null(rig_entry(r, "drivers", "a.example.com"));
    assert_non_null(rig_entry(r, "drivers", "A.example.com"));
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lookup_finds_what_is_registered),
        cmocka_unit_test(test_copies_are_independent),
        cmocka_unit_test(test_one_event_per_change),
        cmocka_unit_test(test_the_same_failure_is_told_once),
        cmocka_unit_test(test_generations_rise),
        cmocka_unit_test(test_quiet_generations_stay),
        cmocka_unit_test(test_names_are_compared_by_exact_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
