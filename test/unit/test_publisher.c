/* SPDX-License-Identifier: Apache-2.0 */
/* How many requests, when, and what happens when they fail. */
#include <stdlib.h>
#include <string.h>

#include "unit/core_rig.h"

/* ---- the table of requests ---- */

static void set_stale_owner(struct rig *r)
{
    rig_set_csinode(r, "{'drivers':[]}");
    json_object_set_new(json_object_get(r->csinode, "metadata"), "ownerReferences",
                        rig_json("[{'apiVersion':'v1','kind':'Node','name':'n1','uid':'earlier'}]"));
}

static void test_requests_of_the_node_flow(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b");
    rig_set_csinode(r, "{'drivers':[]}");
    rig_up(r, a);
    rig_expect_requests(r, "get nodes, get csinodes, patch nodes/status, update csinodes");
    rig_mark(r);
    rig_up(r, b);
    rig_expect_requests(r, "patch nodes/status, update csinodes");
    rig_mark(r);
    b->node_id = "other";
    rig_up(r, b);
    rig_expect_requests(r, "patch nodes/status, update csinodes, update csinodes");
    rig_mark(r);
    rig_up(r, b);
    rig_expect_requests(r, ""); /* equal values */
    rig_vanish(r, b);
    rig_advance(r, 100);
    rig_expect_requests(r, "update csinodes, patch nodes/status");
    rig_free(r);
}

static void test_requests_of_the_controller_flow(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_capable(r, "a"), *b = rig_capable(r, "b");
    rig_set_csinode(r, "{'drivers':[]}");
    rig_up(r, a);
    rig_expect_requests(r, "get nodes, get csinodes, update csinodes");
    rig_mark(r);
    rig_up(r, b);
    rig_expect_requests(r, "update csinodes");
    rig_mark(r);
    rig_vanish(r, b);
    rig_advance(r, 100);
    rig_expect_requests(r, "update csinodes");
    rig_free(r);
}

static void test_requests_with_a_stale_owner(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    set_stale_owner(r);
    rig_up(r, rig_plugin(r, "a"));
    rig_expect_requests(r, "get nodes, get csinodes, patch nodes/status, delete csinodes, create csinodes");
    rig_free(r);
    r = rig_gate_on();
    set_stale_owner(r);
    rig_up(r, rig_capable(r, "a"));
    rig_expect_requests(r, "get nodes, get csinodes, delete csinodes, create csinodes");
    rig_free(r);
}

static void test_another_writer_costs_a_conflict_and_a_read(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_set_csinode(r, "{'drivers':[]}");
    rig_up(r, rig_capable(r, "a"));
    rig_mark(r);
    rig_touch_csinode(r); /* the controller side's part */
    rig_up(r, rig_capable(r, "b"));
    rig_expect_requests(r, "update csinodes, get csinodes, update csinodes");
    rig_free(r);
}

static void test_quiet_when_registered(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_up(r, rig_plugin(r, "a"));
    rig_up(r, rig_capable(r, "b"));
    rig_mark(r);
    rig_advance(r, 24 * 3600 * 1000);
    rig_expect(r, NULL);
    assert_int_equal(rig_count(r, "") - rig_count(r, "probe"), 0);
    rig_free(r);
}

static void test_the_reads_start_early(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_hold(r, "NodeGetInfo");
    rig_appear(r, rig_plugin(r, "a"));
    rig_settle(r);
    rig_expect_requests(r, "get nodes, get csinodes");
    rig_free(r);
}

static void test_an_old_node_is_read_again_before_a_patch(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_up(r, rig_plugin(r, "a"));
    rig_advance(r, 9500);
    rig_mark(r);
    rig_up(r, rig_plugin(r, "b"));
    rig_expect_requests(r, "get nodes, patch nodes/status, update csinodes");
    rig_mark(r);
    rig_up(r, rig_plugin(r, "c"));
    rig_expect_requests(r, "patch nodes/status, update csinodes");
    rig_free(r);
}

/* ---- gathering ---- */

static void test_drivers_that_come_together_share_the_writes(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    (void)state;
    struct rig *r = rig_started();
    rig_hold(r, "NodeGetInfo");
    for (size_t k = 0; k < 10; k++) rig_appear(r, rig_plugin(r, names[k]));
    rig_settle(r);
    for (size_t k = 0; k < 10; k++) {
        rig_answer(r, "NodeGetInfo");
        rig_advance(r, 4);
    }
    rig_advance(r, 100);
    rig_expect_requests(r, "get nodes, get csinodes, patch nodes/status, create csinodes");
    assert_int_equal(json_array_size(json_object_get(json_object_get(r->csinode, "spec"), "drivers")), 10);
    rig_mark(r);
    for (size_t k = 0; k < 10; k++) {
        rig_vanish(r, &r->plugins[k]);
        rig_advance(r, 4);
    }
    rig_advance(r, 100);
    rig_expect_requests(r, "update csinodes, patch nodes/status");
    rig_free(r);
}

static void test_a_lone_driver_is_never_held(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_appear(r, a);
    rig_settle(r);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

/* Another attempt began `ago` before the first one's answers are in: the write is held for held_ms. */
static void assert_held(int64_t window, int64_t ago, int64_t held_ms)
{
    struct rig *r = rig_new();
    r->config.gather_window_ms = window;
    rig_start(r);
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b");
    rig_hold(r, "NodeGetInfo");
    rig_appear(r, b);
    rig_advance(r, ago);
    rig_appear(r, a);
    rig_settle(r);
    int64_t due = r->now.mono_ms;
    rig_answer(r, "NodeGetInfo /d/a");
    rig_advance(r, 500);
    assert_int_equal(rig_last(r, "patch")->at_ms - due, held_ms);
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "patch"), 1);
    rig_free(r);
}

static void test_how_long_a_write_is_held(void **state)
{
    (void)state;
    assert_held(50, 0, 50);  /* the other one began just now */
    assert_held(50, 20, 30); /* 20 ms ago */
    assert_held(50, 60, 0);  /* too long ago to be waited for */
    assert_held(0, 0, 0);    /* switched off */
    assert_held(200, 0, 200);
}

static void test_many_that_come_in_turn_hold_no_longer_than_the_window(void **state)
{
    static const char *const names[] = {"b", "c", "d", "e", "f", "g"};
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_hold(r, "NodeGetInfo");
    rig_appear(r, a);
    rig_settle(r);
    rig_appear(r, rig_plugin(r, "z"));
    rig_settle(r);
    int64_t due = r->now.mono_ms;
    rig_answer(r, "NodeGetInfo /d/a");
    for (size_t k = 0; k < 6; k++) {
        rig_advance(r, 20);
        rig_appear(r, rig_plugin(r, names[k]));
        rig_settle(r);
    }
    assert_int_equal(rig_last(r, "patch")->at_ms - due, 50);
    rig_free(r);
}

static void test_what_comes_during_a_write_shares_the_next(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_hold(r, "patch");
    rig_up(r, rig_plugin(r, "a"));
    rig_up(r, rig_plugin(r, "b"));
    rig_up(r, rig_plugin(r, "c"));
    assert_int_equal(rig_count(r, "patch"), 1);
    rig_release(r);
    rig_advance(r, 1000);
    rig_expect_requests(r, "get nodes, get csinodes, patch nodes/status, patch nodes/status, create csinodes");
    rig_free(r);
}

static void test_how_long_a_removal_is_held(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *all[12];
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    for (size_t k = 0; k < 12; k++) rig_up(r, all[k] = rig_plugin(r, names[k]));
    rig_mark(r);
    int64_t begin = r->now.mono_ms;
    rig_vanish(r, all[0]);
    rig_advance(r, 20);
    assert_int_equal(rig_last(r, "update")->at_ms - begin, 5); /* quiet for 5 ms */
    rig_advance(r, 1000);
    rig_mark(r);
    begin = r->now.mono_ms;
    for (size_t k = 1; k < 12; k++) { /* never quiet: 50 ms at most */
        rig_vanish(r, all[k]);
        rig_advance(r, 4);
        if (k * 4 < 50) assert_null(rig_last(r, "update"));
    }
    rig_vanish(r, all[11]);
    rig_advance(r, 100);
    rig_expect_requests(r, "update csinodes, patch nodes/status");
    rig_free(r);
}

/* ---- conflicts and other things that pass ---- */

static void test_a_conflict_means_read_and_plan_again(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_set_csinode(r, "{'drivers':[]}");
    rig_fault(r, (struct rig_fault){.match = "update", .times = 1, .before = rig_touch_csinode});
    rig_fault(r, (struct rig_fault){.match = "patch", .times = 1, .before = rig_touch_node});
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_expect_requests(r, "get nodes, get csinodes, patch nodes/status, get nodes, patch nodes/status, "
                           "update csinodes, get csinodes, update csinodes");
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "event FAILED"), 0);
    assert_true(json_is_integer(json_object_get(json_object_get(r->csinode, "metadata"), "touched")));
    rig_free(r);
}

static void collide(struct rig *r)
{
    json_object_set_new(json_object_get(json_object_get(r->node, "metadata"), "labels"), "a.example.com/zone",
                        json_string("theirs"));
    rig_touch_node(r);
}

static void test_after_a_conflict_collisions_are_looked_for_again(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_fault(r, (struct rig_fault){.match = "patch", .times = 1, .before = collide});
    rig_up(r, rig_plugin(r, "a"));
    assert_string_equal(rig_label(r, "a.example.com/zone"), "theirs");
    assert_non_null(strstr(rig_last(r, "event FAILED")->said, "theirs"));
    assert_null(r->csinode);
    rig_free(r);
}

static void test_conflicts_to_the_end(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_set_csinode(r, "{'drivers':[]}");
    rig_up(r, a);
    a->limit = 20;
    rig_fault(r, (struct rig_fault){.match = "update", .times = -1, .before = rig_touch_csinode});
    rig_mark(r);
    int64_t begin = r->now.mono_ms, pause = 10, last = 0;
    rig_appear(r, a);
    rig_advance(r, 31000);
    for (size_t i = r->mark; i < r->n_lines; i++) {
        const struct rig_line *l = &r->lines[i];
        if (strncmp(l->text, "get csinodes", 12) != 0) continue;
        if (last) assert_in_range(l->at_ms - last, pause / 2, pause + pause / 10 + 1);
        pause = pause >= 500 ? 1000 : pause * 2;
        last = l->at_ms;
    }
    const struct rig_line *e = rig_last(r, "event FAILED");
    assert_non_null(e);
    assert_true(e->retryable);
    assert_in_range(e->at_ms - begin, 29900, 30100);
    assert_non_null(strstr(e->said, "409"));
    assert_non_null(strstr(e->said, "Conflict"));
    assert_non_null(strstr(e->said, "tries"));
    assert_non_null(rig_entry(r, "drivers", "a.example.com")); /* nothing is removed */
    assert_int_equal(rig_count(r, "Notify false"), 1);
    rig_free(r);
}

static void create_it(struct rig *r) { rig_set_csinode(r, "{'drivers':[{'name':'x','nodeID':'xi'}]}"); }

static void test_somebody_else_creates_it_first(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "create", .times = 1, .before = create_it});
    rig_up(r, a);
    rig_expect_requests(r,
                        "get nodes, get csinodes, patch nodes/status, create csinodes, get csinodes, update csinodes");
    assert_non_null(rig_entry(r, "drivers", "x"));
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static void test_a_missing_node(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    json_t *node = r->node;
    r->node = NULL;
    rig_appear(r, a);
    rig_advance(r, 29000);
    assert_int_equal(rig_count(r, "event FAILED"), 0);
    rig_advance(r, 2000);
    const struct rig_line *e = rig_last(r, "event FAILED");
    assert_true(e->retryable);
    assert_non_null(strstr(e->said, "Node \"n1\" not found"));
    assert_int_equal(rig_count(r, "create"), 0);
    r->node = node;
    rig_advance(r, 3000);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

/* ---- answers that got lost or say nothing ---- */

static void assert_lost(const char *match, struct rig_fault f, const char *requests)
{
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_set_csinode(r, "{'drivers':[]}");
    f.match = match;
    f.times = 1;
    rig_fault(r, f);
    rig_up(r, a);
    rig_advance(r, 1000);
    rig_expect_requests(r, requests);
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "Notify true"), 1);
    assert_int_equal(rig_count(r, "event FAILED"), 0);
    rig_free(r);
}

#define FIRST "get nodes, get csinodes, patch nodes/status, "

static void test_a_lost_answer_is_looked_up(void **state)
{
    (void)state;
    struct rig_fault lost = {.transport = CR_TRANSPORT_BROKEN, .commit = true};
    struct rig_fault late = {.transport = CR_TRANSPORT_TIMEOUT, .commit = true};
    struct rig_fault error = {.number = 500, .commit = true};
    assert_lost("update", lost, FIRST "update csinodes, get csinodes");
    assert_lost("update", late, FIRST "update csinodes, get csinodes");
    assert_lost("update", error, FIRST "update csinodes, get csinodes");
    assert_lost("patch", lost, FIRST "get nodes, update csinodes");
}

static void test_nonsense_with_2xx_counts_as_not_done(void **state)
{
#define OF(name, more) "{\"kind\":\"CSINode\",\"metadata\":{\"name\":\"" name "\"" more "}"
#define UID            ",\"uid\":\"u\",\"resourceVersion\":\"1\""
    static const char *const bodies[] = {"<html>log in</html>",
                                         "",
                                         "{\"kind\":\"CSINode\",\"meta",
                                         "{\"kind\":\"Pod\"}",
                                         "[]",
                                         "null",
                                         OF("other", UID) ",\"spec\":{}}",
                                         OF("n1", "") ",\"spec\":{\"drivers\":[]}}",
                                         OF("n1", UID) ",\"spec\":{\"drivers\":{}}}"};
    (void)state;
    for (size_t k = 0; k < sizeof bodies / sizeof *bodies; k++) {
        struct rig_fault done = {.number = 200, .body = bodies[k], .commit = true};
        struct rig_fault undone = {.number = 200, .body = bodies[k]};
        assert_lost("update", done, FIRST "update csinodes, get csinodes");
        assert_lost("update", undone, FIRST "update csinodes, get csinodes, update csinodes");
        assert_lost("get csinodes", undone,
                    "get nodes, get csinodes, get csinodes, patch nodes/status, update csinodes");
    }
}

static void test_nonsense_to_the_end_fails_the_attempt(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "create", .times = -1, .number = 200, .body = "<html>log in</html>"});
    rig_appear(r, a);
    rig_advance(r, 29000);
    assert_int_equal(rig_count(r, "Notify"), 0);
    rig_advance(r, 1500);
    const struct rig_line *e = rig_last(r, "event FAILED");
    assert_non_null(e);
    assert_true(e->retryable);
    assert_non_null(strstr(e->said, "200"));
    assert_int_equal(rig_count(r, "Notify false"), 1);
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_of_the_node_flow),
        cmocka_unit_test(test_requests_of_the_controller_flow),
        cmocka_unit_test(test_requests_with_a_stale_owner),
        cmocka_unit_test(test_another_writer_costs_a_conflict_and_a_read),
        cmocka_unit_test(test_quiet_when_registered),
        cmocka_unit_test(test_the_reads_start_early),
        cmocka_unit_test(test_an_old_node_is_read_again_before_a_patch),
        cmocka_unit_test(test_drivers_that_come_together_share_the_writes),
        cmocka_unit_test(test_a_lone_driver_is_never_held),
        cmocka_unit_test(test_how_long_a_write_is_held),
        cmocka_unit_test(test_many_that_come_in_turn_hold_no_longer_than_the_window),
        cmocka_unit_test(test_what_comes_during_a_write_shares_the_next),
        cmocka_unit_test(test_how_long_a_removal_is_held),
        cmocka_unit_test(test_a_conflict_means_read_and_plan_again),
        cmocka_unit_test(test_after_a_conflict_collisions_are_looked_for_again),
        cmocka_unit_test(test_conflicts_to_the_end),
        cmocka_unit_test(test_somebody_else_creates_it_first),
        cmocka_unit_test(test_a_missing_node),
        cmocka_unit_test(test_a_lost_answer_is_looked_up),
        cmocka_unit_test(test_nonsense_with_2xx_counts_as_not_done),
        cmocka_unit_test(test_nonsense_to_the_end_fails_the_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
