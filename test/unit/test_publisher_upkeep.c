/* SPDX-License-Identifier: Apache-2.0 */
/* What the publisher does when nobody registers: verification, repair, removals that must wait, the object at start. */
#include <stdlib.h>
#include <string.h>

#include "unit/core_rig.h"

#define VERIFY_MS 300000

static struct rig *verifying(void)
{
    struct rig *r = rig_new();
    r->config.gate = true;
    r->config.verify_interval_ms = VERIFY_MS;
    rig_start(r);
    return r;
}

/* ---- verification ---- */

static void test_verification_reads_and_writes_nothing(void **state)
{
    (void)state;
    struct rig *r = verifying();
    rig_up(r, rig_plugin(r, "a"));
    rig_up(r, rig_capable(r, "b"));
    int64_t last = 0;
    size_t n = 0;
    rig_mark(r);
    rig_advance(r, 3600 * 1000);
    assert_int_equal(rig_count(r, "patch") + rig_count(r, "update") + rig_count(r, "create"), 0);
    for (size_t i = r->mark; i < r->n_lines; i++) {
        if (strncmp(r->lines[i].text, "get nodes", 9) != 0) continue;
        if (n++ > 0) assert_in_range(r->lines[i].at_ms - last, VERIFY_MS * 9 / 10, VERIFY_MS * 11 / 10);
        last = r->lines[i].at_ms;
    }
    assert_in_range(n, 10, 14);
    assert_int_equal(rig_count(r, "get csinodes"), n);
    rig_free(r);
}

static void test_no_verification_without_a_driver(void **state)
{
    (void)state;
    struct rig *r = verifying();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_advance(r, 2 * VERIFY_MS);
    rig_expect_requests(r, "");
    rig_up(r, a);
    rig_vanish(r, a);
    rig_advance(r, 1000);
    rig_mark(r);
    rig_advance(r, 4 * VERIFY_MS);
    rig_expect_requests(r, "");
    rig_free(r);
}

/* Something is changed behind our back; after one interval it is as before, and no plugin was touched. */
static void assert_repaired(void (*spoil)(struct rig *r), const char *requests)
{
    struct rig *r = verifying();
    rig_up(r, rig_plugin(r, "a"));
    rig_up(r, rig_capable(r, "b"));
    json_t *spec = json_deep_copy(json_object_get(r->csinode, "spec"));
    spoil(r);
    rig_mark(r);
    rig_advance(r, VERIFY_MS * 11 / 10);
    rig_expect_requests(r, requests);
    assert_true(json_equal(spec, json_object_get(r->csinode, "spec")));
    assert_string_equal(rig_label(r, "a.example.com/zone"), "z1");
    assert_string_equal(rig_ids(r), "{\"a.example.com\":\"id-a\"}");
    assert_int_equal(rig_count(r, "connect") + rig_count(r, "event"), 0);
    json_decref(spec);
    rig_free(r);
}

static json_t *spec_of(struct rig *r) { return json_object_get(r->csinode, "spec"); }

static void delete_csinode(struct rig *r)
{
    json_decref(r->csinode);
    r->csinode = NULL;
}

static void drop_entry(struct rig *r)
{
    json_array_clear(json_object_get(spec_of(r), "drivers"));
    rig_touch_csinode(r);
}

static void drop_registration(struct rig *r)
{
    json_object_del(spec_of(r), "driverRegistrations");
    rig_touch_csinode(r);
}

static void change_count(struct rig *r)
{
    json_object_set_new(rig_entry(r, "drivers", "a.example.com"), "allocatable", rig_json("{'count':99}"));
    rig_touch_csinode(r);
}

static void change_id(struct rig *r)
{
    json_object_set_new(rig_entry(r, "drivers", "a.example.com"), "nodeID", json_string("other"));
    rig_touch_csinode(r);
}

static void add_registration(struct rig *r)
{
    json_array_append_new(json_object_get(spec_of(r), "driverRegistrations"),
                          rig_json("{'name':'a.example.com','nodeID':'id-a'}"));
    rig_touch_csinode(r);
}

static json_t *meta_of(struct rig *r) { return json_object_get(r->node, "metadata"); }

static void drop_annotation(struct rig *r)
{
    json_object_clear(json_object_get(meta_of(r), "annotations"));
    rig_touch_node(r);
}

static void drop_label(struct rig *r)
{
    json_object_del(json_object_get(meta_of(r), "labels"), "a.example.com/zone");
    rig_touch_node(r);
}

static void test_verification_repairs_what_is_ours(void **state)
{
    (void)state;
    assert_repaired(delete_csinode, "get nodes, get csinodes, create csinodes");
    assert_repaired(drop_entry, "get nodes, get csinodes, update csinodes");
    assert_repaired(drop_registration, "get nodes, get csinodes, update csinodes");
    assert_repaired(change_count, "get nodes, get csinodes, update csinodes");
    assert_repaired(change_id, "get nodes, get csinodes, update csinodes, update csinodes");
    assert_repaired(add_registration, "get nodes, get csinodes, update csinodes");
    assert_repaired(drop_annotation, "get nodes, get csinodes, patch nodes/status");
    assert_repaired(drop_label, "get nodes, get csinodes, patch nodes/status");
    assert_repaired(rig_new_node, "get nodes, get csinodes, patch nodes/status, delete csinodes, create csinodes");
}

/* The host may ask for a verification although the periodic one is off. */
static void test_verification_on_request(void **state)
{
    (void)state;
    struct rig *r = rig_started(); /* no interval */
    rig_up(r, rig_plugin(r, "a"));
    json_array_clear(json_object_get(json_object_get(r->csinode, "spec"), "drivers"));
    rig_touch_csinode(r);
    rig_mark(r);
    rig_command(r, CR_IN_RETRY, NULL);
    rig_advance(r, 1000);
    rig_expect_requests(r, "get nodes, get csinodes, update csinodes");
    assert_non_null(rig_entry(r, "drivers", "a.example.com"));
    rig_free(r);
}

static void test_a_missing_entry_of_the_controller_side_is_not_ours(void **state)
{
    (void)state;
    struct rig *r = verifying();
    rig_up(r, rig_capable(r, "b"));
    json_object_set_new(spec_of(r), "drivers", rig_json("[{'name':'b.example.com','nodeID':'id-b'}]"));
    rig_touch_csinode(r);
    rig_advance(r, VERIFY_MS * 11 / 10);
    drop_entry(r);
    rig_mark(r);
    rig_advance(r, VERIFY_MS * 11 / 10);
    rig_expect_requests(r, "get nodes, get csinodes");
    rig_free(r);
}

static void test_a_label_that_somebody_changed_is_left(void **state)
{
    (void)state;
    struct rig *r = verifying();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    json_object_set_new(json_object_get(meta_of(r), "labels"), "a.example.com/zone", json_string("theirs"));
    rig_touch_node(r);
    rig_mark(r);
    rig_advance(r, VERIFY_MS * 3);
    assert_int_equal(rig_count(r, "patch") + rig_count(r, "update"), 0);
    assert_string_equal(rig_label(r, "a.example.com/zone"), "theirs");
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static bool completed(struct rig *r)
{
    json_t *status = rig_status(r), *d = json_array_get(json_object_get(status, "drivers"), 0);
    bool is = json_is_true(json_object_get(d, "completed"));
    assert_int_equal(json_object_get(d, "waitingForControllerSince") != NULL, !is);
    json_decref(status);
    return is;
}

static void test_completion_is_seen_where_the_object_is_read(void **state)
{
    (void)state;
    struct rig *r = verifying();
    rig_up(r, rig_capable(r, "b"));
    assert_false(completed(r));
    json_object_set_new(spec_of(r), "drivers", rig_json("[{'name':'b.example.com','nodeID':'id-b'}]"));
    rig_touch_csinode(r);
    assert_false(completed(r));
    rig_advance(r, VERIFY_MS * 11 / 10);
    assert_true(completed(r));
    drop_entry(r);
    rig_advance(r, VERIFY_MS * 11 / 10);
    assert_false(completed(r));
    rig_free(r);
}

/* ---- the object behind the next write ---- */

static void test_a_deleted_csinode_is_found_by_the_next_write(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_up(r, rig_plugin(r, "a"));
    delete_csinode(r);
    rig_mark(r);
    rig_up(r, rig_plugin(r, "b"));
    assert_non_null(rig_entry(r, "drivers", "a.example.com"));
    assert_non_null(rig_entry(r, "drivers", "b.example.com"));
    rig_expect_requests(r, "patch nodes/status, update csinodes, get nodes, create csinodes");
    rig_free(r);
}

static void recreate_both(struct rig *r)
{
    rig_new_node(r);
    delete_csinode(r);
}

static void test_the_uid_is_read_afresh_when_the_object_went(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_up(r, rig_capable(r, "a"));
    recreate_both(r);
    rig_up(r, rig_capable(r, "b"));
    const json_t *owner =
        json_array_get(json_object_get(json_object_get(r->csinode, "metadata"), "ownerReferences"), 0);
    assert_true(json_equal(json_object_get(owner, "uid"), json_object_get(meta_of(r), "uid")));
    assert_non_null(rig_entry(r, "driverRegistrations", "a.example.com"));
    assert_non_null(rig_entry(r, "driverRegistrations", "b.example.com"));
    rig_free(r);
}

/* ---- at the start ---- */

static void test_create_at_start(void **state)
{
    static const char *const plugins[] = {"kubernetes.io/cinder"};
    (void)state;
    struct rig *r = rig_new();
    r->config.create_at_start = true;
    r->config.migrated_plugins = plugins;
    r->config.n_migrated_plugins = 1;
    rig_start(r);
    rig_advance(r, 0);
    rig_expect_requests(r, "get nodes, get csinodes, create csinodes");
    json_t *body = rig_body(r, "create");
    rig_expect_json(json_incref(json_object_get(body, "spec")), "{'drivers':[]}");
    assert_non_null(json_object_get(json_object_get(body, "metadata"), "annotations"));
    json_decref(body);
    rig_advance(r, 3600 * 1000);
    rig_expect_requests(r, "get nodes, get csinodes, create csinodes");
    rig_free(r);
}

static void test_create_at_start_finds_it(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    r->config.create_at_start = true;
    rig_start(r);
    rig_set_csinode(r, "{'drivers':[]}");
    rig_advance(r, 3600 * 1000);
    rig_expect_requests(r, "get nodes, get csinodes");
    rig_free(r);
}

static void test_nothing_is_read_before_a_driver_comes(void **state)
{
    (void)state;
    struct rig *r = verifying();
    rig_command(r, CR_IN_SCAN_DONE, NULL);
    rig_advance(r, 3600 * 1000);
    rig_expect(r, NULL);
    rig_free(r);
}

/* ---- removals ---- */

static void test_a_removal_outlasts_an_outage(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_fault(r, (struct rig_fault){.match = "update", .times = -1, .transport = CR_TRANSPORT_CONNECT});
    rig_fault(r, (struct rig_fault){.match = "get csinodes", .times = -1, .transport = CR_TRANSPORT_CONNECT});
    rig_mark(r);
    rig_vanish(r, a);
    assert_false(rig_registered(r, a));
    assert_int_equal(rig_count(r, "event UNREGISTERED"), 1);
    rig_advance(r, 900000);
    assert_non_null(rig_entry(r, "drivers", "a.example.com"));
    assert_in_range(rig_count(r, "get csinodes") + rig_count(r, "update"), 12, 18); /* backoff */
    rig_no_faults(r);
    rig_advance(r, 135000);
    assert_null(rig_entry(r, "drivers", "a.example.com"));
    assert_string_equal(rig_ids(r), "");
    assert_int_equal(rig_count(r, "connect") + rig_count(r, "Notify"), 0);
    rig_free(r);
}

static void test_a_refused_removal_is_tried_again_at_the_cap(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_fault(r, (struct rig_fault){.match = "update", .times = 3, .number = 403, .reason = "Forbidden"});
    rig_mark(r);
    rig_vanish(r, a);
    rig_advance(r, 121000);
    assert_int_equal(rig_count(r, "update"), 1);
    json_t *status = rig_status(r), *d = json_array_get(json_object_get(status, "drivers"), 0);
    assert_string_equal(json_string_value(json_object_get(d, "state")), "removing");
    assert_non_null(strstr(json_string_value(json_array_get(json_object_get(d, "warnings"), 0)), "403"));
    json_decref(status);
    rig_advance(r, 400000);
    assert_int_equal(rig_count(r, "update"), 4);
    assert_null(rig_entry(r, "drivers", "a.example.com"));
    status = rig_status(r);
    assert_int_equal(json_array_size(json_object_get(status, "drivers")), 0);
    json_decref(status);
    rig_free(r);
}

static void test_a_failing_node_does_not_undo_a_removal(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_fault(r, (struct rig_fault){.match = "patch", .times = 2, .number = 422, .reason = "Invalid"});
    rig_vanish(r, a);
    rig_advance(r, 1000);
    assert_null(rig_entry(r, "drivers", "a.example.com"));
    assert_string_not_equal(rig_ids(r), "");
    rig_advance(r, 300000);
    assert_string_equal(rig_ids(r), ""); /* tried again */
    rig_free(r);
}

static void test_a_name_that_comes_back_cancels_its_removal(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_fault(r, (struct rig_fault){.match = "update", .times = 1, .number = 503, .retry_after_s = 60});
    rig_vanish(r, a);
    rig_advance(r, 1000);
    rig_appear(r, a);
    rig_advance(r, 61000);
    assert_true(rig_registered(r, a));
    assert_non_null(rig_entry(r, "drivers", "a.example.com"));
    assert_int_equal(rig_count(r, "update"), 1);
    rig_advance(r, 300000);
    assert_non_null(rig_entry(r, "drivers", "a.example.com"));
    rig_free(r);
}

static void test_removal_without_a_csinode(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    delete_csinode(r);
    rig_mark(r);
    rig_vanish(r, a);
    rig_advance(r, 60000);
    assert_int_equal(rig_count(r, "create"), 0);
    assert_null(r->csinode);
    assert_string_equal(rig_ids(r), "");
    rig_free(r);
}

static void test_removal_without_a_node(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    json_decref(r->node);
    r->node = NULL;
    rig_mark(r);
    rig_vanish(r, a);
    rig_advance(r, 60000);
    assert_null(rig_entry(r, "drivers", "a.example.com"));
    assert_in_range(rig_count(r, "patch"), 0, 2);
    json_t *status = rig_status(r);
    assert_int_equal(json_array_size(json_object_get(status, "drivers")), 0);
    json_decref(status);
    rig_free(r);
}

/* ---- the grace ---- */

static struct rig *with_grace(int64_t ms)
{
    struct rig *r = rig_new();
    r->config.unregister_grace_ms = ms;
    rig_start(r);
    return r;
}

static void test_back_within_the_grace_is_no_request(void **state)
{
    (void)state;
    struct rig *r = with_grace(10000);
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_mark(r);
    rig_vanish(r, a);
    assert_false(rig_registered(r, a)); /* lookups and the host know at once */
    assert_int_equal(rig_count(r, "event UNREGISTERED"), 1);
    rig_advance(r, 9000);
    rig_appear(r, a);
    rig_advance(r, 60000);
    rig_expect_requests(r, "");
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static void test_after_the_grace_the_entries_go(void **state)
{
    (void)state;
    struct rig *r = with_grace(10000);
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_mark(r);
    int64_t begin = r->now.mono_ms;
    rig_vanish(r, a);
    rig_advance(r, 60000);
    rig_expect_requests(r, "update csinodes, get nodes, patch nodes/status"); /* the Node is old by then */
    assert_in_range(rig_last(r, "update")->at_ms - begin, 10000, 10060);
    rig_free(r);
}

static void test_removals_of_failed_attempts_wait_too(void **state)
{
    (void)state;
    struct rig *r = with_grace(10000);
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 13});
    rig_mark(r);
    rig_appear(r, a);
    rig_advance(r, 60000);
    rig_expect_requests(r, "");
    assert_true(rig_registered(r, a));
    rig_free(r);
}

/* ---- unclaimed entries ---- */

static const char *unclaimed(struct rig *r)
{
    static char text[256];
    json_t *status = rig_status(r);
    char *all = json_dumps(json_object_get(status, "unclaimed"), JSON_COMPACT);
    snprintf(text, sizeof text, "%s", all);
    free(all);
    json_decref(status);
    return text;
}

static void test_unclaimed_entries_are_shown_and_left(void **state)
{
    (void)state;
    struct rig *r = verifying();
    rig_set_csinode(r, "{'drivers':[{'name':'x','nodeID':'xi'}],'driverRegistrations':[{'name':'y','nodeID':'yi'}]}");
    rig_up(r, rig_plugin(r, "a"));
    rig_command(r, CR_IN_SCAN_DONE, NULL);
    rig_advance(r, 3600 * 1000);
    assert_string_equal(unclaimed(r), "[\"x\",\"y\"]");
    assert_non_null(rig_entry(r, "drivers", "x"));
    assert_non_null(rig_entry(r, "driverRegistrations", "y"));
    rig_free(r);
}

static void test_pruning(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    r->config.prune_unclaimed_after_ms = 60000;
    r->config.watches_registry = true;
    rig_start(r);
    rig_set_csinode(r, "{'drivers':[{'name':'x','nodeID':'xi'}],'driverRegistrations':[{'name':'y','nodeID':'yi'}]}");
    json_object_set_new(json_object_get(meta_of(r), "annotations"), "csi.volume.kubernetes.io/nodeid",
                        json_string("{\"x\":\"xi\",\"z\":\"zi\"}"));
    rig_advance(r, 100000); /* not before the initial scan */
    rig_up(r, rig_plugin(r, "a"));
    rig_command(r, CR_IN_SCAN_DONE, NULL);
    rig_mark(r);
    rig_advance(r, 59999);
    rig_expect_requests(r, "");
    rig_advance(r, 1000);
    assert_int_equal(rig_count(r, "update"), 1);
    assert_null(rig_entry(r, "drivers", "x"));
    assert_null(rig_entry(r, "driverRegistrations", "y"));
    assert_string_equal(rig_ids(r), "{\"a.example.com\":\"id-a\"}");
    assert_non_null(rig_entry(r, "drivers", "a.example.com"));
    assert_string_equal(unclaimed(r), "[]");
    rig_mark(r);
    rig_advance(r, 600000);
    rig_expect_requests(r, "");
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verification_reads_and_writes_nothing),
        cmocka_unit_test(test_no_verification_without_a_driver),
        cmocka_unit_test(test_verification_repairs_what_is_ours),
        cmocka_unit_test(test_a_missing_entry_of_the_controller_side_is_not_ours),
        cmocka_unit_test(test_a_label_that_somebody_changed_is_left),
        cmocka_unit_test(test_completion_is_seen_where_the_object_is_read),
        cmocka_unit_test(test_a_deleted_csinode_is_found_by_the_next_write),
        cmocka_unit_test(test_the_uid_is_read_afresh_when_the_object_went),
        cmocka_unit_test(test_create_at_start),
        cmocka_unit_test(test_create_at_start_finds_it),
        cmocka_unit_test(test_nothing_is_read_before_a_driver_comes),
        cmocka_unit_test(test_a_removal_outlasts_an_outage),
        cmocka_unit_test(test_a_refused_removal_is_tried_again_at_the_cap),
        cmocka_unit_test(test_a_failing_node_does_not_undo_a_removal),
        cmocka_unit_test(test_a_name_that_comes_back_cancels_its_removal),
        cmocka_unit_test(test_removal_without_a_csinode),
        cmocka_unit_test(test_removal_without_a_node),
        cmocka_unit_test(test_back_within_the_grace_is_no_request),
        cmocka_unit_test(test_after_the_grace_the_entries_go),
        cmocka_unit_test(test_removals_of_failed_attempts_wait_too),
        cmocka_unit_test(test_unclaimed_entries_are_shown_and_left),
        cmocka_unit_test(test_pruning),
        cmocka_unit_test(test_verification_on_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
