/* SPDX-License-Identifier: Apache-2.0 */
/* What each answer of the API server means for the drivers whose writes it concerns. */
#include <stdlib.h>
#include <string.h>

#include "unit/core_rig.h"

static const char *api_state(struct rig *r)
{
    static char text[32];
    json_t *status = rig_status(r), *api = json_object_get(status, "api");
    snprintf(text, sizeof text, "%s", json_string_value(json_object_get(api, "state")));
    json_decref(status);
    return text;
}

/* ---- the API is not usable: wait ---- */

static void assert_waits(const char *match, struct rig_fault f)
{
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    f.match = match;
    f.times = -1;
    rig_set_csinode(r, "{'drivers':[]}");
    rig_fault(r, f);
    rig_appear(r, a);
    rig_advance(r, 600 * 1000);
    assert_string_equal(rig_state(r, a), "publishing");
    assert_int_equal(rig_count(r, "Notify") + rig_count(r, "event"), 0);
    assert_string_equal(api_state(r), "waiting");
    rig_no_faults(r);
    rig_advance(r, 135000);
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "Notify true"), 1);
    assert_int_equal(rig_count(r, "GetInfo"), 1); /* the same attempt */
    assert_string_equal(api_state(r), "ok");
    rig_free(r);
}

static void test_an_unusable_api_is_waited_for(void **state)
{
    static const int codes[] = {401, 408, 429, 500, 502, 503, 504};
    static const enum cr_transport transports[] = {CR_TRANSPORT_CONNECT,  CR_TRANSPORT_TLS,   CR_TRANSPORT_TIMEOUT,
                                                   CR_TRANSPORT_BROKEN,   CR_TRANSPORT_NOMEM, CR_TRANSPORT_CREDENTIALS,
                                                   CR_TRANSPORT_CANCELLED};
    static const char *const where[] = {"get nodes", "get csinodes", "patch", "update"};
    (void)state;
    for (size_t k = 0; k < 7; k++) assert_waits(where[k % 4], (struct rig_fault){.number = codes[k]});
    for (size_t k = 0; k < 7; k++) assert_waits(where[k % 4], (struct rig_fault){.transport = transports[k]});
    assert_waits("update", (struct rig_fault){.number = 429, .body = "Too many requests, please try again later."});
}

static void test_the_pauses_of_an_outage(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_hold(r, "get csinodes");
    rig_fault(r, (struct rig_fault){.match = "get nodes", .times = -1, .transport = CR_TRANSPORT_CONNECT});
    rig_appear(r, rig_plugin(r, "a"));
    rig_advance(r, 900000);
    int64_t pause = 500, last = 0;
    size_t n = 0;
    for (size_t i = 0; i < r->n_lines; i++) {
        if (strncmp(r->lines[i].text, "get nodes", 9) != 0) continue;
        if (n++ > 0) {
            assert_in_range(r->lines[i].at_ms - last, pause, pause + pause / 10);
            pause = pause * 2 > 122000 ? 122000 : pause * 2;
        }
        last = r->lines[i].at_ms;
    }
    assert_in_range(n, 13, 16);
    rig_free(r);
}

/* Reads work, writes do not (an admission webhook is down): the pauses grow all the same. */
static void test_failing_writes_pause_although_reads_work(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_fault(r, (struct rig_fault){.match = "patch", .times = -1, .number = 503});
    rig_appear(r, rig_plugin(r, "a"));
    rig_advance(r, 600000);
    assert_in_range(rig_count(r, "patch"), 9, 16);
    rig_free(r);
}

static void test_retry_after_is_a_lower_bound(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "patch", .times = 1, .number = 429, .retry_after_s = 7});
    rig_appear(r, a);
    rig_advance(r, 6999);
    assert_int_equal(rig_count(r, "patch"), 1);
    rig_advance(r, 1);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

/* Node and CSINode are read side by side: what one answer asks for, the other must not undo. */
static void test_retry_after_of_one_read_outlasts_the_other_answer(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "get nodes", .times = 1, .number = 429, .retry_after_s = 7});
    rig_fault(r, (struct rig_fault){.match = "get csinodes", .times = 1, .number = 200, .body = "<html>"});
    rig_appear(r, a);
    rig_settle(r);
    rig_mark(r);
    rig_advance(r, 6999);
    rig_expect_requests(r, "");
    rig_advance(r, 1);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

/* One read cannot be answered, the other one can: that is an outage too, and no attempt fails of it. */
static void test_half_an_outage_is_waited_for(void **state)
{
    static const char *const reads[] = {"get nodes", "get csinodes"};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct rig *r = rig_started();
        struct rig_plugin *a = rig_plugin(r, "a");
        rig_fault(r, (struct rig_fault){.match = "get", .times = 14, .transport = CR_TRANSPORT_CONNECT});
        rig_fault(r, (struct rig_fault){.match = reads[k], .times = -1, .transport = CR_TRANSPORT_CONNECT});
        rig_appear(r, a);
        rig_advance(r, 1200000);
        assert_int_equal(rig_count(r, "Notify"), 0);
        assert_in_range(rig_count(r, reads[k]), 12, 26); /* and the pauses grow */
        rig_no_faults(r);
        rig_advance(r, 135000);
        assert_true(rig_registered(r, a));
        rig_free(r);
    }
}

static void test_the_deadline_begins_when_the_api_is_back(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "create", .times = 9, .number = 503});
    rig_fault(r, (struct rig_fault){.match = "create", .times = 3, .number = 409, .reason = "Conflict"});
    rig_appear(r, a);
    rig_advance(r, 400000);
    assert_int_equal(rig_count(r, "create"), 13);
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "event FAILED"), 0);
    rig_free(r);
}

static void test_an_outage_after_registration(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b"), *c = rig_plugin(r, "c");
    rig_up(r, a);
    rig_fault(r, (struct rig_fault){.match = "patch", .times = -1, .transport = CR_TRANSPORT_CONNECT});
    rig_fault(r, (struct rig_fault){.match = "get", .times = -1, .transport = CR_TRANSPORT_CONNECT});
    rig_up(r, b);
    rig_up(r, c);
    rig_advance(r, 45000);
    assert_true(rig_registered(r, a)); /* stays usable */
    rig_no_faults(r);
    rig_mark(r);
    rig_command(r, CR_IN_RETRY, NULL);
    rig_advance(r, 1000);
    assert_int_equal(rig_count(r, "patch"), 1); /* what gathered goes in one batch */
    assert_int_equal(rig_count(r, "update"), 1);
    assert_true(rig_registered(r, b) && rig_registered(r, c));
    rig_free(r);
}

/* ---- the write is refused ---- */

static void assert_refused(const char *match, struct rig_fault f, const char *word)
{
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    f.match = match;
    f.times = -1;
    rig_fault(r, f);
    rig_appear(r, a);
    rig_settle(r);
    const struct rig_line *e = rig_last(r, "event FAILED a.example.com");
    if (!e) fail_msg("%s %d", match, f.number);
    assert_false(e->retryable);
    assert_non_null(strstr(e->said, "a.example.com"));
    assert_non_null(strstr(e->said, word));
    assert_int_equal(rig_count(r, "Notify false"), 1);
    assert_string_equal(api_state(r), "refused");
    rig_mark(r);
    rig_advance(r, 121000);
    assert_int_equal(rig_count(r, "GetInfo"), 0);
    rig_no_faults(r);
    rig_advance(r, 15000);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static void test_refused_writes(void **state)
{
    (void)state;
    struct rig_fault forbidden = {.number = 403, .reason = "Forbidden"};
    assert_refused("create", (struct rig_fault){.number = 400, .reason = "BadRequest"}, "400");
    assert_refused("create", forbidden, "RBAC");
    assert_refused("create", (struct rig_fault){.number = 413, .reason = "RequestEntityTooLarge"}, "413");
    assert_refused("create", (struct rig_fault){.number = 422, .reason = "Invalid"}, "the server's words");
    assert_refused("patch", (struct rig_fault){.number = 422, .reason = "Invalid"}, "422");
    assert_refused("patch", forbidden, "403");
    assert_refused("get nodes", forbidden, "403");
    assert_refused("get csinodes", forbidden, "403");
}

/* A resource that the server does not know is no absent object: nothing is created. */
static void test_an_unknown_resource(void **state)
{
    static const struct rig_fault faults[] = {{.number = 404, .body = "404 page not found"},
                                              {.number = 404, .reason = "NotFound", .kind = ""},
                                              {.number = 404, .reason = "NotFound", .kind = "pods"},
                                              {.number = 405, .reason = "MethodNotAllowed"}};
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        assert_refused("get csinodes", faults[k], k == 3 ? "405" : "404");
        assert_refused("get nodes", faults[k], k == 3 ? "405" : "404");
    }
}

static void test_a_refusal_meets_only_its_cause(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    (void)state;
    struct rig *r = rig_started();
    rig_set_csinode(r, "{'drivers':[{'name':'x','nodeID':'xi'}]}");
    for (size_t k = 0; k < 4; k++) rig_appear(r, rig_plugin(r, names[k]));
    rig_hold(r, "update");
    rig_advance(r, 100);
    for (int guard = 0; guard < 20 && rig_last(r, "update")->out; guard++) {
        json_t *body = rig_body(r, "update"), *drivers = json_object_get(json_object_get(body, "spec"), "drivers");
        bool has_b = false;
        for (size_t k = 0; k < json_array_size(drivers); k++)
            has_b |=
                strcmp(json_string_value(json_object_get(json_array_get(drivers, k), "name")), "b.example.com") == 0;
        json_decref(body);
        rig_no_faults(r);
        if (has_b) rig_fault(r, (struct rig_fault){.match = "update", .times = 1, .number = 422, .reason = "Invalid"});
        rig_answer(r, "update");
        rig_advance(r, 2000);
    }
    for (size_t k = 0; k < 4; k++) assert_int_equal(rig_registered(r, &r->plugins[k]), k != 1);
    assert_int_equal(rig_count(r, "event FAILED"), 1);
    assert_non_null(rig_last(r, "event FAILED b.example.com"));
    assert_int_equal(rig_count(r, "Notify true"), 3);
    assert_null(rig_entry(r, "drivers", "b.example.com"));
    assert_non_null(rig_entry(r, "drivers", "x"));
    rig_free(r);
}

static void test_a_refused_patch_meets_only_its_cause(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b");
    rig_appear(r, a);
    rig_appear(r, b);
    rig_hold(r, "patch");
    rig_advance(r, 100);
    for (int guard = 0; guard < 10 && rig_last(r, "patch")->out; guard++) {
        bool has_b = strstr(rig_last(r, "patch")->request.body, "b.example.com/zone");
        rig_no_faults(r);
        if (has_b) rig_fault(r, (struct rig_fault){.match = "patch", .times = 1, .number = 403, .reason = "Forbidden"});
        rig_answer(r, "patch");
        rig_advance(r, 2000);
    }
    assert_true(rig_registered(r, a));
    assert_false(rig_registered(r, b));
    assert_null(rig_label(r, "b.example.com/zone"));
    assert_null(rig_entry(r, "drivers", "b.example.com"));
    assert_string_equal(rig_ids(r), "{\"a.example.com\":\"id-a\"}");
    rig_free(r);
}

static void test_a_refused_write_removes_what_was_there(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    a->limit = 20;
    rig_fault(r, (struct rig_fault){.match = "update", .times = 1, .number = 422, .reason = "Invalid"});
    rig_up(r, a);
    assert_int_equal(rig_count(r, "Notify false"), 1);
    assert_int_equal(rig_count(r, "event UNREGISTERED"), 1);
    assert_null(rig_entry(r, "drivers", "a.example.com"));
    assert_string_equal(rig_ids(r), "");
    rig_free(r);
}

/* ---- confirmation ---- */

static void test_the_server_drops_registrations(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_capable(r, "a");
    r->keeps_registrations = false;
    rig_set_csinode(r, "{'drivers':[{'name':'a.example.com','nodeID':'id-a'}]}");
    rig_appear(r, a);
    rig_advance(r, 100);
    const struct rig_line *e = rig_last(r, "event FAILED");
    assert_non_null(e);
    assert_false(e->retryable);
    assert_non_null(strstr(e->said, "CSIControllerGetNodeInfo"));
    assert_non_null(strstr(e->said, "registration-dropped=node-flow"));
    assert_non_null(strstr(rig_last(r, "Notify false")->said, "CSIControllerGetNodeInfo"));
    assert_null(rig_entry(r, "drivers", "a.example.com")); /* no entry is left behind */
    rig_free(r);
}

static void test_fall_back_to_the_node_flow(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    r->config.gate = r->config.fallback_to_node_flow = true;
    rig_start(r);
    struct rig_plugin *a = rig_capable(r, "a");
    r->keeps_registrations = false;
    rig_up(r, a);
    rig_expect(r, "connect /r/", "GetInfo", "list", "connect /d/", "get nodes", "get csinodes", "watch",
               "NodeGetCapabilities", "NodeGetInfo+flag /d/a.sock", "close /d/", "create", "connect /d/",
               "NodeGetInfo /d/a.sock", "close /d/", "patch", "update", "event REGISTERED", "Notify true", "close /r/");
    assert_non_null(rig_entry(r, "drivers", "a.example.com"));
    rig_free(r);
}

/* The answer shows another value than was written. */
static void assert_not_kept(const char *answer)
{
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    char body[1024];
    json_t *object;
    snprintf(body, sizeof body,
             "{'kind':'CSINode','metadata':{'name':'n1','uid':'u','resourceVersion':'9','ownerReferences':"
             "[{'kind':'Node','name':'n1','uid':'node-1'}]},'spec':%s}",
             answer);
    object = rig_json(body);
    char *text = json_dumps(object, JSON_COMPACT);
    rig_fault(r, (struct rig_fault){.match = "create", .times = 1, .number = 201, .body = text});
    rig_appear(r, a);
    rig_settle(r);
    const struct rig_line *e = rig_last(r, "event FAILED");
    if (!e) fail_msg("taken for a confirmation: %s", answer);
    assert_false(e->retryable);
    assert_int_equal(rig_count(r, "Notify false"), 1);
    assert_int_equal(rig_count(r, "Notify true") + rig_count(r, "event REGISTERED"), 0);
    free(text);
    json_decref(object);
    rig_free(r);
}

static void test_the_answer_must_show_the_entry(void **state)
{
    (void)state;
    assert_not_kept("{'drivers':[]}");
    assert_not_kept("{'drivers':null}");
    assert_not_kept("{}");
    assert_not_kept("{'drivers':[{'name':'a.example.com','nodeID':'other','topologyKeys':['a.example.com/zone'],"
                    "'allocatable':{'count':10}}]}");
    assert_not_kept("{'drivers':[{'name':'a.example.com','nodeID':'id-a','topologyKeys':['a.example.com/zone'],"
                    "'allocatable':{'count':11}}]}");
    assert_not_kept("{'drivers':[{'name':'a.example.com','nodeID':'id-a','topologyKeys':null,"
                    "'allocatable':{'count':10}}]}");
}

static void test_null_lists_are_empty_lists(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    a->topology[0] = NULL;
    rig_set_csinode(r, "{'drivers':[{'name':'a.example.com','nodeID':'id-a','topologyKeys':null,"
                       "'allocatable':{'count':10}}],'driverRegistrations':null}");
    rig_up(r, a);
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "update"), 0);
    rig_free(r);
}

/* A server that takes every write and shows none is not written to for ever. */
static void test_a_server_that_forgets(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    json_t *node = json_deep_copy(r->node);
    char *text = json_dumps(node, JSON_COMPACT);
    rig_fault(r, (struct rig_fault){.match = "patch", .times = -1, .number = 200, .body = text});
    rig_appear(r, rig_plugin(r, "a"));
    rig_advance(r, 20000);
    assert_in_range(rig_count(r, "patch"), 1, 10);
    assert_int_equal(rig_count(r, "Notify false"), 1);
    free(text);
    json_decref(node);
    rig_free(r);
}

/* ---- what the message says ---- */

static void test_messages_name_object_step_cause_and_remedy(void **state)
{
    static char long_message[9000];
    (void)state;
    struct rig *r = rig_started();
    memset(long_message, 'w', sizeof long_message - 1);
    json_t *status = json_pack("{s:s,s:s,s:s,s:s,s:i}", "kind", "Status", "status", "Failure", "reason", "Forbidden",
                               "message", long_message, "code", 403);
    char *text = json_dumps(status, JSON_COMPACT);
    rig_fault(r, (struct rig_fault){.match = "patch", .times = -1, .number = 403, .body = text});
    rig_appear(r, rig_plugin(r, "a"));
    rig_settle(r);
    const char *said = rig_last(r, "Notify false")->said;
    assert_true(strlen(said) <= 1024);
    assert_non_null(strstr(said, "a.example.com: publication failed"));
    assert_non_null(strstr(said, "403 Forbidden: www"));
    free(text);
    json_decref(status);
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_unusable_api_is_waited_for),
        cmocka_unit_test(test_the_pauses_of_an_outage),
        cmocka_unit_test(test_retry_after_is_a_lower_bound),
        cmocka_unit_test(test_the_deadline_begins_when_the_api_is_back),
        cmocka_unit_test(test_an_outage_after_registration),
        cmocka_unit_test(test_refused_writes),
        cmocka_unit_test(test_an_unknown_resource),
        cmocka_unit_test(test_a_refusal_meets_only_its_cause),
        cmocka_unit_test(test_a_refused_patch_meets_only_its_cause),
        cmocka_unit_test(test_a_refused_write_removes_what_was_there),
        cmocka_unit_test(test_the_server_drops_registrations),
        cmocka_unit_test(test_fall_back_to_the_node_flow),
        cmocka_unit_test(test_the_answer_must_show_the_entry),
        cmocka_unit_test(test_null_lists_are_empty_lists),
        cmocka_unit_test(test_a_server_that_forgets),
        cmocka_unit_test(test_messages_name_object_step_cause_and_remedy),
        cmocka_unit_test(test_failing_writes_pause_although_reads_work),
        cmocka_unit_test(test_retry_after_of_one_read_outlasts_the_other_answer),
        cmocka_unit_test(test_half_an_outage_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
