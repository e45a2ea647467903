/* SPDX-License-Identifier: Apache-2.0 */
/* Several instances of one driver name: who wins, takes over, stands by, inherits. */
#include <stdio.h>
#include <string.h>

#include "unit/core_rig.h"

/* Another instance of p's name, with an endpoint and a socket of its own. */
static struct rig_plugin *twin(struct rig *r, const struct rig_plugin *p, const char *file)
{
    struct rig_plugin *q = rig_plugin(r, file);
    memcpy(q->name, p->name, sizeof q->name);
    q->node_id = p->node_id;
    q->topology[0] = p->topology[0];
    return q;
}

/* The driver is registered, at p's endpoint, and its entry is there. */
static void assert_active(struct rig *r, const struct rig_plugin *p)
{
    if (!rig_registered(r, p)) fail_msg("%s is not active", p->path);
    assert_non_null(rig_entry(r, "drivers", p->name));
}

/* ---- versions ---- */

static void test_the_lower_version_is_refused(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
    a->versions[0] = "1.1.0";
    rig_up(r, a);
    rig_mark(r);
    rig_up(r, b);
    rig_expect(r, "connect /r/b", "GetInfo /r/b", "event FAILED", "Notify false", "close /r/b");
    const char *said = rig_last(r, "Notify false")->said;
    assert_non_null(strstr(said, a->endpoint));
    assert_non_null(strstr(said, b->endpoint));
    assert_non_null(strstr(said, "1.1"));
    assert_active(r, a);
    assert_string_equal(rig_state(r, b), "standby");
    rig_mark(r);
    rig_advance(r, 3600 * 1000);
    rig_expect(r, NULL); /* standbys make no RPCs */
    rig_free(r);
}

static void test_the_higher_version_takes_over(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
    b->versions[0] = "1.1.0";
    rig_up(r, a);
    rig_mark(r);
    r->always = a->name;
    rig_up(r, b);
    assert_active(r, b);
    rig_expect_requests(r, ""); /* equal values */
    assert_int_equal(rig_count(r, "Notify true /r/b"), 1);
    assert_int_equal(rig_count(r, "Notify"), 1); /* the displaced one is told nothing */
    assert_int_equal(rig_count(r, "event CHANGED a.example.com"), 1);
    assert_int_equal(rig_count(r, "event UNREGISTERED"), 0);
    assert_string_equal(rig_state(r, a), "standby");
    rig_free(r);
}

static void test_versions_decide_before_age(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
    a->versions[0] = "1.10.0";
    b->versions[0] = "1.9.9";
    rig_up(r, a);
    rig_up(r, b);
    assert_active(r, a);
    rig_free(r);
}

/* ---- equal versions ---- */

static void test_the_newest_socket_wins(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b"), *c = twin(r, a, "c");
    rig_up(r, a);
    rig_up(r, b);
    assert_active(r, b);
    rig_up(r, c);
    assert_active(r, c);
    assert_string_equal(rig_state(r, a), "standby");
    assert_string_equal(rig_state(r, b), "standby");
    rig_free(r);
}

static void test_the_first_wins_on_request(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    r->config.first_instance_wins = true;
    rig_start(r);
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b"), *c = twin(r, a, "c");
    rig_up(r, a);
    rig_up(r, b);
    assert_active(r, a);
    assert_int_equal(rig_count(r, "Notify false /r/b"), 1);
    c->versions[0] = "1.0.1";
    rig_up(r, c);
    assert_active(r, c); /* a higher version still does */
    rig_free(r);
}

static void seen(struct rig *r, struct rig_plugin *p, int64_t birth, uint64_t generation)
{
    p->identity = (struct cr_identity){.dev = 1, .ino = ++r->generation, .birth_ns = birth, .generation = generation};
    struct cr_input in = {.kind = CR_IN_SOCKET_SEEN, .path = p->path, .identity = p->identity};
    rig_input(r, &in);
}

/* b wins whatever the order in which both are found. */
static void assert_second_wins(int64_t birth_a, uint64_t gen_a, int64_t birth_b, uint64_t gen_b)
{
    for (int order = 0; order < 3; order++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
        if (order) seen(r, b, birth_b, gen_b);
        if (order == 2) rig_advance(r, 1000);
        seen(r, a, birth_a, gen_a);
        if (!order) seen(r, b, birth_b, gen_b);
        rig_advance(r, 5000);
        assert_active(r, b);
        assert_string_equal(rig_state(r, a), "standby");
        rig_free(r);
    }
}

static void test_the_winner_does_not_depend_on_the_order(void **state)
{
    (void)state;
    assert_second_wins(1, 0, 2, 0);
    assert_second_wins(1, 9, 2, 0);
    assert_second_wins(5, 0, 5, 1);
    assert_second_wins(5, 0, 5, 0); /* by path */
}

/* ---- take-over ---- */

static void test_until_it_is_published_the_old_one_stays(void **state)
{
    static const char *const holds[] = {"connect /d/b", "NodeGetInfo /d/b", "update"};
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
        b->limit = 20;
        rig_up(r, a);
        r->always = a->name;
        rig_hold(r, holds[k]);
        rig_up(r, b);
        rig_advance(r, 5000);
        assert_active(r, a);
        rig_release(r);
        rig_advance(r, 1000);
        assert_active(r, b);
        rig_expect_json(json_incref(json_object_get(rig_entry(r, "drivers", a->name), "allocatable")), "{'count':20}");
        rig_free(r);
    }
}

static void assert_failed_take_over_changes_nothing(struct rig_fault f)
{
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
    b->limit = 20;
    rig_up(r, a);
    r->always = a->name;
    json_t *before = json_deep_copy(json_object_get(r->csinode, "spec"));
    rig_fault(r, f);
    rig_mark(r);
    rig_appear(r, b);
    rig_advance(r, 100);
    assert_int_equal(rig_count(r, "Notify false /r/b"), 1);
    assert_active(r, a);
    assert_int_equal(rig_count(r, "event UNREGISTERED") + rig_count(r, "event CHANGED"), 0);
    assert_true(json_equal(before, json_object_get(r->csinode, "spec")));
    assert_string_equal(rig_state(r, a), "registered");
    rig_advance(r, 300000);
    assert_active(r, b); /* at its next attempt */
    json_decref(before);
    rig_free(r);
}

static void test_a_failed_take_over_changes_nothing(void **state)
{
    (void)state;
    assert_failed_take_over_changes_nothing((struct rig_fault){.match = "connect /d/b", .times = 1, .number = 111});
    assert_failed_take_over_changes_nothing((struct rig_fault){.match = "NodeGetInfo /d/b", .times = 1, .number = 13});
    assert_failed_take_over_changes_nothing((struct rig_fault){.match = "NodeGetInfo /d/b", .times = 1, .number = 12});
    assert_failed_take_over_changes_nothing(
        (struct rig_fault){.match = "update", .times = 1, .number = 422, .reason = "Invalid"});
}

static void test_a_challenger_that_vanishes_changes_nothing(void **state)
{
    static const char *const holds[] = {"GetInfo /r/b", "connect /d/b", "NodeGetInfo /d/b", "update",
                                        "Notify true /r/b"};
    (void)state;
    for (size_t k = 0; k < 5; k++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
        b->limit = 20;
        rig_up(r, a);
        r->always = a->name;
        rig_hold(r, holds[k]);
        rig_appear(r, b);
        rig_advance(r, 100);
        rig_vanish(r, b);
        rig_release(r);
        rig_advance(r, 300000);
        assert_active(r, a);
        rig_expect_json(json_incref(json_object_get(rig_entry(r, "drivers", a->name), "allocatable")), "{'count':10}");
        rig_free(r);
    }
}

static void test_another_node_id_is_replaced(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
    b->node_id = "other";
    rig_up(r, a);
    rig_up(r, b);
    assert_active(r, b);
    assert_string_equal(rig_ids(r), "{\"a.example.com\":\"other\"}");
    rig_free(r);
}

/* ---- the end of an instance ---- */

static void test_a_standby_inherits(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
    rig_up(r, a);
    rig_up(r, b);
    rig_mark(r);
    r->always = a->name;
    rig_vanish(r, b);
    rig_settle(r); /* at once */
    assert_active(r, a);
    assert_int_equal(rig_count(r, "GetInfo /r/a"), 1);
    assert_int_equal(rig_count(r, "Notify true /r/a"), 1);
    rig_expect_requests(r, "");
    rig_advance(r, 1000);
    assert_active(r, a);
    rig_free(r);
}

static void test_the_best_standby_inherits(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b"), *c = twin(r, a, "c");
    rig_up(r, a);
    rig_up(r, b);
    rig_up(r, c);
    rig_vanish(r, c);
    rig_advance(r, 1000);
    assert_active(r, b);
    assert_string_equal(rig_state(r, a), "standby");
    rig_free(r);
}

static void test_an_heir_that_fails_ends_the_registration(void **state)
{
    static const char *const faults[] = {"connect /r/a", "GetInfo /r/a", "NodeGetInfo /d/a"};
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
        rig_up(r, a);
        rig_up(r, b);
        rig_fault(r, (struct rig_fault){.match = faults[k], .times = 1, .number = k == 0 ? 104 : 13});
        rig_mark(r);
        rig_vanish(r, b);
        rig_advance(r, 100);
        assert_int_equal(rig_count(r, "event UNREGISTERED"), 1);
        assert_null(rig_entry(r, "drivers", a->name));
        rig_advance(r, 1000);
        assert_active(r, a); /* the next attempt */
        rig_free(r);
    }
}

static void test_a_standby_that_vanishes_has_no_effect(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
    rig_up(r, a);
    rig_up(r, b);
    rig_mark(r);
    rig_vanish(r, a);
    rig_advance(r, 1000);
    rig_expect(r, NULL);
    assert_active(r, b);
    rig_free(r);
}

static void test_the_old_one_goes_while_the_new_one_comes(void **state)
{
    static const char *const holds[] = {"connect /d/b", "NodeGetInfo /d/b", "update"};
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
        b->limit = 20;
        rig_up(r, a);
        r->always = a->name;
        rig_hold(r, holds[k]);
        rig_appear(r, b);
        rig_advance(r, 100);
        rig_vanish(r, a);
        rig_advance(r, 1000);
        rig_release(r);
        rig_advance(r, 1000);
        assert_active(r, b);
        rig_free(r);
    }
}

static void test_all_go(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
    rig_up(r, a);
    rig_up(r, b);
    rig_vanish(r, a);
    rig_vanish(r, b);
    rig_advance(r, 1000);
    assert_null(rig_entry(r, "drivers", a->name));
    rig_mark(r);
    rig_advance(r, 300000);
    rig_expect(r, NULL);
    rig_free(r);
}

static void test_the_name_is_free_when_its_attempt_fails(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
    b->serving = false; /* the newer one cannot work */
    rig_appear(r, a);
    rig_appear(r, b);
    rig_advance(r, 5000);
    assert_active(r, a);
    rig_free(r);
}

/* The active instance comes back with a lower version: the standby is the better one now. */
static void test_a_standby_is_considered_again(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b");
    memcpy(b->name, a->name, sizeof b->name);
    b->topology[0] = a->topology[0];
    a->versions[0] = b->versions[0] = "1.1.0";
    rig_up(r, b);
    rig_up(r, a);
    assert_string_equal(rig_state(r, b), "standby");
    a->versions[0] = "1.0.0";
    rig_up(r, a);
    rig_advance(r, 600000);
    assert_true(rig_registered(r, b)); /* as after a restart of the agent, whatever the order */
    rig_free(r);
}

/* The owner of a name comes back under another one: who stood by for the old name may try. */
static void test_a_renamed_owner_leaves_its_name_to_the_standby(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b");
    memcpy(a->name, b->name, sizeof a->name);
    rig_up(r, a);
    rig_up(r, b);
    assert_string_equal(rig_state(r, a), "standby");
    snprintf(b->name, sizeof b->name, "c.example.com");
    rig_up(r, b);
    rig_advance(r, 60000);
    assert_true(rig_registered(r, a) && rig_registered(r, b));
    rig_free(r);
}

/* An owner that was made anew is judged by its new version, not by the one that it had. */
static void test_an_owner_made_anew_is_judged_anew(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b");
    memcpy(b->name, a->name, sizeof b->name);
    b->topology[0] = a->topology[0];
    rig_up(r, a);
    b->versions[0] = "1.1.0";
    rig_hold(r, "NodeGetInfo /d/b");
    rig_appear(r, b);
    rig_settle(r);
    rig_hold(r, "GetInfo /r/a");
    a->versions[0] = "1.2.0";
    rig_appear(r, a);
    rig_settle(r);
    rig_answer(r, "NodeGetInfo /d/b"); /* takes over while the other one was asked for its version */
    rig_advance(r, 100);
    rig_release(r);
    rig_advance(r, 60000);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

/* An instance that comes back under another name loses its old one to another instance meanwhile; when its attempt fails
 * the old name is not its own any more. */
static void test_a_lost_name_is_not_given_up(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
    rig_up(r, a);
    rig_hold(r, "NodeGetInfo /d/a");
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo /d/a", .times = 1, .number = 13});
    memcpy(a->name, "c.example.com", sizeof "c.example.com");
    rig_appear(r, a);
    rig_settle(r);
    rig_appear(r, b);
    rig_advance(r, 100);
    assert_true(rig_registered(r, b));
    rig_mark(r);
    rig_answer(r, "NodeGetInfo /d/a");
    rig_settle(r);
    assert_true(rig_registered(r, b));
    assert_int_equal(rig_count(r, "event UNREGISTERED a.example.com"), 0);
    rig_release(r);
    rig_advance(r, 10000);
    assert_true(rig_registered(r, a) && rig_registered(r, b));
    rig_free(r);
}

/* ---- doors ---- */

static void test_a_handed_over_driver_competes_too(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
    rig_up(r, a);
    b->versions[0] = "1.2.0";
    rig_register(r, b);
    rig_advance(r, 1000);
    assert_active(r, b);
    rig_deregister(r, b);
    rig_advance(r, 1000);
    assert_active(r, a);
    rig_free(r);
}

static void test_deregistering_another_endpoint_has_no_effect(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = twin(r, a, "b");
    rig_up(r, a);
    rig_mark(r);
    rig_deregister(r, b);
    rig_deregister(r, a); /* it came by its socket */
    rig_advance(r, 1000);
    rig_expect(r, NULL);
    assert_active(r, a);
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_lower_version_is_refused),
        cmocka_unit_test(test_the_higher_version_takes_over),
        cmocka_unit_test(test_versions_decide_before_age),
        cmocka_unit_test(test_the_newest_socket_wins),
        cmocka_unit_test(test_the_first_wins_on_request),
        cmocka_unit_test(test_the_winner_does_not_depend_on_the_order),
        cmocka_unit_test(test_until_it_is_published_the_old_one_stays),
        cmocka_unit_test(test_a_failed_take_over_changes_nothing),
        cmocka_unit_test(test_a_challenger_that_vanishes_changes_nothing),
        cmocka_unit_test(test_another_node_id_is_replaced),
        cmocka_unit_test(test_a_standby_inherits),
        cmocka_unit_test(test_the_best_standby_inherits),
        cmocka_unit_test(test_an_heir_that_fails_ends_the_registration),
        cmocka_unit_test(test_a_standby_that_vanishes_has_no_effect),
        cmocka_unit_test(test_the_old_one_goes_while_the_new_one_comes),
        cmocka_unit_test(test_all_go),
        cmocka_unit_test(test_the_name_is_free_when_its_attempt_fails),
        cmocka_unit_test(test_a_handed_over_driver_competes_too),
        cmocka_unit_test(test_deregistering_another_endpoint_has_no_effect),
        cmocka_unit_test(test_a_standby_is_considered_again),
        cmocka_unit_test(test_a_renamed_owner_leaves_its_name_to_the_standby),
        cmocka_unit_test(test_an_owner_made_anew_is_judged_anew),
        cmocka_unit_test(test_a_lost_name_is_not_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
