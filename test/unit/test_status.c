/* SPDX-License-Identifier: Apache-2.0 */
/* The core's part of the status document: why is my driver not registered? */
#include <stdlib.h>
#include <string.h>

#include "unit/core_rig.h"

static json_t *part(struct rig *r, const char *list, size_t k)
{
    json_t *status = rig_status(r), *list_of = json_object_get(status, list);
    json_t *item = json_incref(json_is_array(list_of) ? json_array_get(list_of, k) : list_of);
    json_decref(status);
    return item;
}

static json_t *driver(struct rig *r) { return part(r, "drivers", 0); }

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static void test_nothing_yet(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    json_t *status = rig_status(r);
    json_object_del(json_object_get(status, "api"), "since");
    json_object_del(status, "labelsAdded");
    rig_expect_json(status,
                    "{'gates':{'CSIControllerGetNodeInfo':false},'capabilities':{'NODE_INFO_FROM_CONTROLLER':9},"
                    "'api':{'state':'ok'},'sockets':[],'drivers':[],'unclaimed':[]}");
    rig_free(r);
}

static void test_gates_and_capabilities(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    r->config.gate = r->config.local_only = true;
    r->config.node_info_from_controller = 77;
    rig_start(r);
    rig_expect_json(part(r, "gates", 0), "{'CSIControllerGetNodeInfo':true}");
    rig_expect_json(part(r, "capabilities", 0), "{'NODE_INFO_FROM_CONTROLLER':77}");
    json_t *api = part(r, "api", 0);
    assert_string_equal(text(api, "state"), "local-only");
    json_decref(api);
    rig_free(r);
}

static void test_a_registered_driver(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_up(r, rig_plugin(r, "a"));
    rig_advance(r, 5000);
    rig_expect_json(driver(r), "{'name':'a.example.com','state':'registered','since':'2023-11-14T22:13:20.000Z',"
                               "'endpoint':'/d/a.sock','version':'1.0.0','nodeID':'id-a','flow':'node',"
                               "'publishedSince':'2023-11-14T22:13:20.000Z','completed':true,'pending':[],"
                               "'warnings':[]}");
    rig_expect_json(part(r, "sockets", 0), "{'path':'/r/a-reg.sock','driver':'a.example.com','type':'CSIPlugin',"
                                           "'state':'registered','active':true,'attempts':1,"
                                           "'since':'2023-11-14T22:13:20.000Z'}");
    rig_free(r);
}

static void test_a_driver_that_waits_for_the_controller(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_up(r, rig_capable(r, "a"));
    rig_expect_json(driver(r), "{'name':'a.example.com','state':'registered','since':'2023-11-14T22:13:20.000Z',"
                               "'endpoint':'/d/a.sock','version':'1.0.0','nodeID':'id-a','flow':'controller',"
                               "'publishedSince':'2023-11-14T22:13:20.000Z','completed':false,"
                               "'waitingForControllerSince':'2023-11-14T22:13:20.000Z','pending':[],'warnings':[]}");
    rig_free(r);
}

static void test_a_failing_socket(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = -1, .number = 14, .text = "not now"});
    rig_appear(r, rig_plugin(r, "a"));
    rig_settle(r);
    json_t *s = part(r, "sockets", 0), *e = json_object_get(s, "lastError");
    assert_string_equal(text(s, "state"), "backoff");
    assert_true(json_is_false(json_object_get(s, "active")));
    assert_int_equal(json_integer_value(json_object_get(s, "attempts")), 1);
    assert_memory_equal(text(s, "nextTry"), "2023-11-14T22:13:20.5", 21);
    assert_string_equal(text(e, "code"), "RPC");
    assert_string_equal(text(e, "origin"), "grpc");
    assert_int_equal(json_integer_value(json_object_get(e, "number")), 14);
    assert_string_equal(text(e, "step"), "NodeGetInfo");
    assert_string_equal(text(e, "class"), "transient");
    assert_string_equal(text(e, "time"), "2023-11-14T22:13:20.000Z");
    assert_non_null(strstr(text(e, "message"), "not now"));
    json_decref(s);
    rig_advance(r, 600);
    s = part(r, "sockets", 0);
    assert_int_equal(json_integer_value(json_object_get(s, "attempts")), 2);
    json_decref(s);
    rig_free(r);
}

static void test_the_states_of_a_driver(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "Notify", .times = 1, .number = 14});
    rig_hold(r, "create");
    rig_appear(r, a);
    rig_settle(r);
    json_t *d = driver(r);
    assert_string_equal(text(d, "state"), "registering");
    assert_string_equal(text(d, "nodeID"), "id-a");
    assert_int_equal(json_array_size(json_object_get(d, "pending")), 1);
    assert_null(json_object_get(d, "flow")); /* not before it is registered */
    json_decref(d);
    rig_release(r);
    rig_settle(r);
    d = driver(r);
    assert_string_equal(text(d, "state"), "unconfirmed");
    json_decref(d);
    rig_hold(r, "update");
    rig_vanish(r, a);
    rig_advance(r, 100);
    d = driver(r);
    assert_string_equal(text(d, "state"), "removing");
    assert_int_equal(json_array_size(json_object_get(d, "pending")), 1);
    json_decref(d);
    rig_free(r);
}

static void test_warnings_are_shown_while_they_hold(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    a->limit = -1;
    rig_up(r, a);
    json_t *d = driver(r);
    assert_int_equal(json_array_size(json_object_get(d, "warnings")), 1);
    json_decref(d);
    a->limit = 5;
    rig_up(r, a);
    d = driver(r);
    assert_int_equal(json_array_size(json_object_get(d, "warnings")), 0);
    json_decref(d);
    rig_free(r);
}

static void test_the_api(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_fault(r, (struct rig_fault){.match = "get", .times = -1, .number = 503, .reason = "ServiceUnavailable"});
    rig_appear(r, rig_plugin(r, "a"));
    rig_settle(r);
    rig_advance(r, 60000);
    json_t *api = part(r, "api", 0), *e = json_object_get(api, "lastError");
    assert_string_equal(text(api, "state"), "waiting");
    assert_string_equal(text(api, "since"), "2023-11-14T22:13:20.000Z"); /* of the state, not of the last try */
    assert_string_equal(text(e, "code"), "API");
    assert_string_equal(text(e, "origin"), "http");
    assert_int_equal(json_integer_value(json_object_get(e, "number")), 503);
    assert_string_equal(text(e, "class"), "transient");
    assert_non_null(strstr(text(e, "message"), "ServiceUnavailable"));
    assert_string_not_equal(text(e, "time"), "");
    json_decref(api);
    rig_no_faults(r);
    rig_advance(r, 130000);
    api = part(r, "api", 0);
    assert_string_equal(text(api, "state"), "ok");
    json_decref(api);
    rig_free(r);
}

static void test_a_handed_over_driver_has_no_path(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_register(r, rig_plugin(r, "a"));
    rig_advance(r, 1000);
    json_t *s = part(r, "sockets", 0);
    assert_null(json_object_get(s, "path"));
    assert_string_equal(text(s, "driver"), "a.example.com");
    assert_true(json_is_true(json_object_get(s, "active")));
    json_decref(s);
    rig_free(r);
}

/* Documents share parts: an old one must not change when the core does. */
static void test_old_documents_stay_as_they_are(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b");
    json_t *docs[8], *copies[8];
    size_t n = 0;
    a->limit = -1;
    for (; n < 8; n++) {
        docs[n] = rig_status(r);
        copies[n] = json_deep_copy(docs[n]);
        if (n == 0) rig_appear(r, a);
        if (n == 1) rig_settle(r);
        if (n == 2) rig_appear(r, b);
        if (n == 3) rig_advance(r, 1000);
        if (n == 4) rig_appear(r, a);
        if (n == 5) rig_vanish(r, b);
        if (n == 6) rig_advance(r, 1000);
    }
    for (size_t k = 0; k < n; k++) {
        assert_true(json_equal(docs[k], copies[k]));
        json_decref(docs[k]);
        json_decref(copies[k]);
    }
    rig_free(r);
}

static void test_the_labels_that_were_added(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b");
    json_object_set_new(json_object_get(json_object_get(r->node, "metadata"), "labels"), "b.example.com/zone",
                        json_string("z1"));
    rig_up(r, a);
    rig_up(r, b);
    rig_expect_json(part(r, "labelsAdded", 0), "{'a.example.com/zone':'z1'}");
    rig_vanish(r, a);
    rig_advance(r, 1000);
    rig_expect_json(part(r, "labelsAdded", 0), "{'a.example.com/zone':'z1'}"); /* labels stay */
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_yet),
        cmocka_unit_test(test_gates_and_capabilities),
        cmocka_unit_test(test_a_registered_driver),
        cmocka_unit_test(test_a_driver_that_waits_for_the_controller),
        cmocka_unit_test(test_a_failing_socket),
        cmocka_unit_test(test_the_states_of_a_driver),
        cmocka_unit_test(test_warnings_are_shown_while_they_hold),
        cmocka_unit_test(test_the_api),
        cmocka_unit_test(test_a_handed_over_driver_has_no_path),
        cmocka_unit_test(test_old_documents_stay_as_they_are),
        cmocka_unit_test(test_the_labels_that_were_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
