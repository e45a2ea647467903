/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a registration socket: made anew, retried, gone; what a failed attempt removes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/core_rig.h"

/* ---- recreation ---- */

static void test_recreation_with_equal_values_writes_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    r->always = a->name;
    rig_mark(r);
    rig_up(r, a);
    rig_expect(r, "connect /r/", "GetInfo", "connect /d/", "NodeGetInfo", "close /d/", "Notify true", "close /r/");
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static void test_recreation_replaces_in_place(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    r->always = a->name;
    rig_mark(r);
    a->limit = 20;
    rig_up(r, a);
    rig_expect_requests(r, "update csinodes");
    assert_int_equal(rig_count(r, "event"), 0); /* lookups see no difference */
    rig_free(r);
}

static void test_the_same_file_again_is_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_mark(r);
    struct cr_input in = {.kind = CR_IN_SOCKET_SEEN, .path = a->path, .identity = a->identity};
    rig_input(r, &in);
    rig_advance(r, 1000);
    rig_expect(r, NULL);
    rig_free(r);
}

static void test_each_part_of_the_identity_counts(void **state)
{
    (void)state;
    for (int part = 0; part < 4; part++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a");
        rig_up(r, a);
        rig_mark(r);
        struct cr_input in = {.kind = CR_IN_SOCKET_SEEN, .path = a->path, .identity = a->identity};
        in.identity.dev += part == 0;
        in.identity.ino += part == 1;
        in.identity.birth_ns += part == 2;
        in.identity.generation += part == 3;
        rig_input(r, &in);
        rig_settle(r);
        assert_int_equal(rig_count(r, "GetInfo"), 1);
        rig_free(r);
    }
}

static void test_recreation_under_another_name(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_mark(r);
    memcpy(a->name, "b.example.com", sizeof "b.example.com");
    rig_up(r, a);
    rig_expect_requests(r, "patch nodes/status, update csinodes, patch nodes/status"); /* one update of both names */
    assert_non_null(rig_entry(r, "drivers", "b.example.com"));
    assert_null(rig_entry(r, "drivers", "a.example.com"));
    assert_string_equal(rig_ids(r), "{\"b.example.com\":\"id-a\"}");
    assert_int_equal(rig_count(r, "event UNREGISTERED a.example.com"), 1);
    assert_int_equal(rig_count(r, "event REGISTERED b.example.com"), 1);
    rig_free(r);
}

/* The first attempt of the new socket fails: what the old one had registered goes. */
static void assert_first_failure_unregisters(struct rig_fault f)
{
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_fault(r, f);
    rig_mark(r);
    rig_appear(r, a);
    rig_advance(r, 100);
    if (rig_count(r, "event UNREGISTERED") != 1) fail_msg("stays after: %s", f.match);
    assert_null(rig_entry(r, "drivers", a->name));
    assert_string_equal(rig_ids(r), "");
    rig_advance(r, 135000);
    assert_true(rig_registered(r, a)); /* further attempts follow the backoff */
    rig_free(r);
}

static void test_a_first_failure_after_recreation(void **state)
{
    (void)state;
    assert_first_failure_unregisters((struct rig_fault){.match = "connect /r/", .times = 1, .number = ECONNRESET});
    assert_first_failure_unregisters((struct rig_fault){.match = "connect /r/", .times = 1, .number = EACCES});
    assert_first_failure_unregisters((struct rig_fault){.match = "GetInfo", .times = 1, .number = 14});
    assert_first_failure_unregisters((struct rig_fault){.match = "GetInfo", .times = 1, .number = 12});
    assert_first_failure_unregisters((struct rig_fault){.match = "connect /d/", .times = 1, .number = ECONNREFUSED});
    assert_first_failure_unregisters((struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 4});
}

static void test_a_recreated_socket_that_nobody_serves(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    a->listening = false;
    rig_appear(r, a);
    rig_advance(r, 5000);
    assert_true(rig_registered(r, a)); /* its connect window is still open */
    a->listening = true;
    rig_advance(r, 1100);
    rig_expect_json(json_incref(rig_entry(r, "drivers", a->name)),
                    "{'name':'a.example.com','nodeID':'id-a','topologyKeys':['a.example.com/zone'],"
                    "'allocatable':{'count':10}}");
    assert_int_equal(rig_count(r, "event UNREGISTERED"), 0);
    assert_string_equal(rig_state(r, a), "registered");
    rig_free(r);
}

static void test_bad_checks_after_recreation_unregister(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    a->versions[0] = "0.3.0";
    rig_appear(r, a);
    rig_advance(r, 100);
    assert_int_equal(rig_count(r, "event UNREGISTERED"), 1);
    assert_null(rig_entry(r, "drivers", a->name));
    rig_free(r);
}

static void test_an_unusable_api_does_not_unregister_after_recreation(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    r->always = a->name;
    a->limit = 20;
    rig_fault(r, (struct rig_fault){.match = "update", .times = 5, .number = 503});
    rig_appear(r, a);
    rig_advance(r, 20000);
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "event UNREGISTERED") + rig_count(r, "Notify false"), 0);
    assert_int_equal(rig_count(r, "Notify true"), 2);
    rig_free(r);
}

static void test_recreation_cancels_the_running_attempt(void **state)
{
    static const char *const holds[] = {"connect /r/", "GetInfo", "connect /d/", "NodeGetInfo",
                                        "get nodes",   "create",  "Notify"};
    (void)state;
    for (size_t k = 0; k < 7; k++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a");
        rig_hold(r, holds[k]);
        rig_appear(r, a);
        rig_advance(r, 100);
        rig_appear(r, a);
        assert_int_equal(rig_count(r, "connect /r/"), 2); /* at once */
        rig_release(r);
        rig_advance(r, 2000);
        assert_true(rig_registered(r, a));
        assert_in_range(rig_count(r, "Notify true"), 1, 2);
        for (size_t i = 0; i < r->n_lines; i++) assert_false(r->lines[i].open);
        rig_free(r);
    }
}

/* The socket is made anew twice in quick succession, each time under another name: the first name is still owned by the
 * instance while an attempt under the second one runs. */
static void assert_renamed_twice(const char *second, const char *third)
{
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_hold(r, "Notify");
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 14});
    snprintf(a->name, sizeof a->name, "%s", second);
    rig_appear(r, a);
    rig_settle(r);
    assert_string_equal(rig_state(r, a), "rejecting");
    snprintf(a->name, sizeof a->name, "%s", third);
    rig_appear(r, a);
    rig_release(r);
    rig_advance(r, 1000);
    assert_true(rig_registered(r, a));
    json_t *spec = json_object_get(r->csinode, "spec");
    assert_int_equal(json_array_size(json_object_get(spec, "drivers")), 1);
    assert_non_null(rig_entry(r, "drivers", third));
    rig_vanish(r, a);
    rig_advance(r, 1000);
    assert_int_equal(json_array_size(json_object_get(json_object_get(r->csinode, "spec"), "drivers")), 0);
    assert_string_equal(rig_ids(r), "");
    rig_free(r);
}

static void test_renamed_twice(void **state)
{
    (void)state;
    assert_renamed_twice("b.example.com", "c.example.com");
    assert_renamed_twice("b.example.com", "a.example.com");
}

/* The second name is published, its notification on its way, when the socket is made anew and refused. */
static void test_renamed_and_made_anew_during_the_notification(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_hold(r, "Notify");
    snprintf(a->name, sizeof a->name, "b.example.com");
    rig_appear(r, a);
    rig_settle(r);
    assert_string_equal(rig_state(r, a), "notifying");
    a->versions[0] = "0.3.0";
    rig_appear(r, a);
    rig_release(r);
    rig_advance(r, 1000);
    assert_false(rig_registered(r, a));
    assert_int_equal(rig_count(r, "event UNREGISTERED"), 2);
    assert_int_equal(json_array_size(json_object_get(json_object_get(r->csinode, "spec"), "drivers")), 0);
    rig_exhausted(r, "b.example.com", 1);
    rig_free(r);
}

/* While its first name is being written the socket is made anew, under a name that another instance has: what was written
 * under the first one must go. */
static void test_remains_of_an_attempt_go_when_the_next_name_is_taken(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *x = rig_plugin(r, "x"), *a = rig_plugin(r, "a");
    x->versions[0] = "1.1.0";
    rig_up(r, x);
    rig_hold(r, "update");
    rig_appear(r, a);
    rig_settle(r);
    assert_string_equal(rig_state(r, a), "publishing");
    memcpy(a->name, x->name, sizeof a->name);
    rig_appear(r, a);
    rig_settle(r);
    rig_release(r);
    rig_advance(r, 600000);
    assert_string_equal(rig_state(r, a), "standby");
    assert_string_equal(rig_ids(r), "{\"x.example.com\":\"id-x\"}");
    assert_int_equal(json_array_size(json_object_get(json_object_get(r->csinode, "spec"), "drivers")), 1);
    rig_free(r);
}

/* ---- retries ---- */

static int64_t started_at(struct rig *r, size_t nth)
{
    for (size_t i = 0; i < r->n_lines; i++)
        if (strncmp(r->lines[i].text, "GetInfo", 7) == 0 && nth-- == 0) return r->lines[i].at_ms;
    return -1;
}

static void test_the_pauses_between_attempts(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_fault(r, (struct rig_fault){.match = "GetInfo", .times = -1, .number = 14});
    rig_appear(r, rig_plugin(r, "a"));
    rig_advance(r, 1000000);
    int64_t pause = 500;
    for (size_t k = 1; started_at(r, k) >= 0; k++) {
        assert_in_range(started_at(r, k) - started_at(r, k - 1), pause, pause + pause / 10);
        pause = pause * 2 > 122000 ? 122000 : pause * 2;
    }
    assert_int_equal(pause, 122000);
    assert_int_equal(rig_count(r, "event FAILED"), 1); /* one per change, not one per attempt */
    rig_free(r);
}

static void test_a_persistent_failure_waits_the_longest_pause(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_fault(r, (struct rig_fault){.match = "GetInfo", .times = -1, .number = 12});
    rig_appear(r, rig_plugin(r, "a"));
    rig_advance(r, 600000);
    for (size_t k = 1; k < 4; k++) assert_in_range(started_at(r, k) - started_at(r, k - 1), 122000, 134200);
    rig_free(r);
}

static void test_success_resets_the_pause(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "GetInfo", .times = 5, .number = 14});
    rig_appear(r, a);
    rig_advance(r, 20000);
    assert_true(rig_registered(r, a));
    rig_fault(r, (struct rig_fault){.match = "GetInfo", .times = 1, .number = 14});
    rig_appear(r, a);
    rig_advance(r, 560);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static struct rig *waiting(struct rig_plugin **out)
{
    struct rig *r = rig_started();
    *out = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 8, .number = 14});
    rig_appear(r, *out);
    rig_advance(r, 70000);
    assert_int_equal(rig_count(r, "Notify false"), 8);
    rig_mark(r);
    return r;
}

static void test_what_ends_a_pause(void **state)
{
    struct rig_plugin *a;
    (void)state;
    const char *names[] = {NULL, "a.example.com", "/r/a-reg.sock"};
    for (size_t k = 0; k < 3; k++) {
        struct rig *r = waiting(&a);
        rig_command(r, CR_IN_RETRY, "b.example.com"); /* somebody else */
        rig_settle(r);
        assert_int_equal(rig_count(r, "GetInfo"), 0);
        rig_command(r, CR_IN_RETRY, names[k]);
        rig_settle(r);
        assert_true(rig_registered(r, a));
        rig_free(r);
    }
    struct rig *r = waiting(&a);
    rig_appear(r, a); /* made anew */
    rig_settle(r);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static void test_a_retry_resets_the_backoff(void **state)
{
    struct rig_plugin *a;
    (void)state;
    struct rig *r = waiting(&a);
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 14});
    rig_command(r, CR_IN_RETRY, NULL);
    rig_settle(r);
    assert_int_equal(rig_count(r, "Notify false"), 1);
    rig_advance(r, 560);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static void assert_new_credentials_help(int status, const char *reason, bool helps)
{
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "create", .times = 1, .number = status, .reason = reason});
    rig_appear(r, a);
    rig_settle(r);
    assert_int_equal(rig_count(r, "Notify false"), 1);
    rig_mark(r);
    rig_command(r, CR_IN_CREDENTIALS_CHANGED, NULL);
    rig_settle(r);
    assert_int_equal(rig_count(r, "GetInfo"), helps);
    assert_int_equal(rig_registered(r, a), helps);
    rig_free(r);
}

static void test_changed_credentials(void **state)
{
    (void)state;
    assert_new_credentials_help(403, "Forbidden", true);
    assert_new_credentials_help(422, "Invalid", false);
    struct rig *r = rig_started(); /* 401 is waited for in the attempt itself */
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "get nodes", .times = -1, .number = 401, .reason = "Unauthorized"});
    rig_appear(r, a);
    rig_advance(r, 60000);
    rig_no_faults(r);
    assert_false(rig_registered(r, a));
    rig_command(r, CR_IN_CREDENTIALS_CHANGED, NULL);
    rig_settle(r);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static void test_one_slow_plugin_delays_no_other(void **state)
{
    static const char *const names[] = {"b", "c", "d", "e"};
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_hold(r, "GetInfo /r/a");
    rig_hold(r, "NodeGetInfo /d/b");
    rig_appear(r, a);
    for (size_t k = 0; k < 4; k++) rig_appear(r, rig_plugin(r, names[k]));
    rig_advance(r, 50);
    for (size_t k = 2; k < 5; k++) assert_true(rig_registered(r, &r->plugins[k]));
    rig_free(r);
}

/* ---- what a failed attempt removes ---- */

/* A registered driver's plugin is retried (its last notification was lost) and fails; entries go or stay. */
static void assert_after_failure(struct rig_fault f, bool goes)
{
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "Notify", .times = 1, .number = 14});
    rig_appear(r, a);
    rig_settle(r);
    assert_true(rig_registered(r, a));
    rig_fault(r, f);
    rig_mark(r);
    rig_advance(r, 600);
    if (rig_registered(r, a) == goes) fail_msg("%s %d", f.match, f.number);
    rig_advance(r, 100);
    assert_int_equal(rig_entry(r, "drivers", a->name) == NULL, goes);
    rig_free(r);
}

static void test_what_a_failed_attempt_removes(void **state)
{
    (void)state;
    assert_after_failure((struct rig_fault){.match = "connect /r/", .times = 1, .number = ECONNRESET}, false);
    assert_after_failure((struct rig_fault){.match = "GetInfo", .times = 1, .number = 14}, false);
    assert_after_failure((struct rig_fault){.match = "GetInfo", .times = 1, .number = 12}, false);
    assert_after_failure((struct rig_fault){.match = "connect /d/", .times = 1, .number = ECONNRESET}, true);
    assert_after_failure((struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 14}, true);
    assert_after_failure((struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 13, .refused = true}, true);
}

static void test_entries_of_an_earlier_life_go_when_the_first_attempt_fails(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_set_csinode(r, "{'drivers':[{'name':'a.example.com','nodeID':'id-a'},{'name':'x','nodeID':'xi'}],"
                       "'driverRegistrations':[{'name':'a.example.com','nodeID':'id-a'}]}");
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 1, .number = 14});
    rig_appear(r, a);
    rig_advance(r, 100);
    rig_expect_json(json_incref(json_object_get(r->csinode, "spec")), "{'drivers':[{'name':'x','nodeID':'xi'}]}");
    rig_expect_requests(r, "get nodes, get csinodes, update csinodes");
    rig_free(r);
}

/* An attempt that had written to the Node fails; the socket is made anew under another name: what was written under the
 * first one must go. */
static void test_remains_of_a_name_that_was_never_registered(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "create", .times = -1, .number = 409, .reason = "Conflict"});
    rig_appear(r, a);
    rig_advance(r, 30200);
    assert_int_equal(rig_count(r, "Notify false"), 1);
    assert_string_equal(rig_ids(r), "{\"a.example.com\":\"id-a\"}");
    rig_no_faults(r);
    memcpy(a->name, "b.example.com", sizeof "b.example.com");
    rig_up(r, a);
    rig_advance(r, 600000);
    assert_true(rig_registered(r, a));
    assert_string_equal(rig_ids(r), "{\"b.example.com\":\"id-a\"}");
    rig_free(r);
}

/* ---- unregistration ---- */

static void test_unregistration_connects_to_nobody(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_mark(r);
    rig_vanish(r, a);
    assert_false(rig_registered(r, a));
    rig_expect(r, "event UNREGISTERED a.example.com"); /* at once */
    rig_advance(r, 600000);
    assert_int_equal(rig_count(r, "connect") + rig_count(r, "probe") + rig_count(r, "Notify"), 0);
    assert_null(rig_entry(r, "drivers", a->name));
    rig_vanish(r, a); /* again: nothing is known of it */
    rig_free(r);
}

static void test_gone_and_back_is_two_registrations(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_vanish(r, a);
    rig_advance(r, 1000);
    assert_null(rig_entry(r, "drivers", a->name));
    rig_up(r, a);
    assert_non_null(rig_entry(r, "drivers", a->name));
    assert_int_equal(rig_count(r, "event REGISTERED"), 2);
    rig_free(r);
}

static void test_a_burst_ends_as_the_disk_is(void **state)
{
    (void)state;
    for (int last = 0; last < 2; last++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a");
        for (int k = 0; k < 20; k++) {
            rig_appear(r, a);
            if (k % 3 == 0) rig_settle(r);
            if (k % 2 == last) rig_vanish(r, a);
            if (k % 5 == 0) rig_advance(r, 7);
        }
        rig_advance(r, 5000);
        assert_int_equal(rig_registered(r, a), last == 0);
        assert_int_equal(rig_entry(r, "drivers", a->name) != NULL, last == 0);
        rig_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recreation_with_equal_values_writes_nothing),
        cmocka_unit_test(test_recreation_replaces_in_place),
        cmocka_unit_test(test_the_same_file_again_is_nothing),
        cmocka_unit_test(test_each_part_of_the_identity_counts),
        cmocka_unit_test(test_recreation_under_another_name),
        cmocka_unit_test(test_a_first_failure_after_recreation),
        cmocka_unit_test(test_a_recreated_socket_that_nobody_serves),
        cmocka_unit_test(test_bad_checks_after_recreation_unregister),
        cmocka_unit_test(test_an_unusable_api_does_not_unregister_after_recreation),
        cmocka_unit_test(test_recreation_cancels_the_running_attempt),
        cmocka_unit_test(test_the_pauses_between_attempts),
        cmocka_unit_test(test_a_persistent_failure_waits_the_longest_pause),
        cmocka_unit_test(test_success_resets_the_pause),
        cmocka_unit_test(test_what_ends_a_pause),
        cmocka_unit_test(test_a_retry_resets_the_backoff),
        cmocka_unit_test(test_changed_credentials),
        cmocka_unit_test(test_one_slow_plugin_delays_no_other),
        cmocka_unit_test(test_what_a_failed_attempt_removes),
        cmocka_unit_test(test_entries_of_an_earlier_life_go_when_the_first_attempt_fails),
        cmocka_unit_test(test_unregistration_connects_to_nobody),
        cmocka_unit_test(test_gone_and_back_is_two_registrations),
        cmocka_unit_test(test_a_burst_ends_as_the_disk_is),
        cmocka_unit_test(test_remains_of_a_name_that_was_never_registered),
        cmocka_unit_test(test_renamed_twice),
        cmocka_unit_test(test_renamed_and_made_anew_during_the_notification),
        cmocka_unit_test(test_remains_of_an_attempt_go_when_the_next_name_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
