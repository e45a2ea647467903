/* SPDX-License-Identifier: Apache-2.0 */
/* The CSIDriver objects: one list, one watch, and what is done when either of them ends or lies. */
#include <stdlib.h>
#include <string.h>

#include "unit/core_rig.h"

#define PATH "/apis/storage.k8s.io/v1/csidrivers"

/* A rig whose list and watch are open: a node-flow driver is registered. */
static struct rig *opened(void)
{
    struct rig *r = rig_gate_on();
    rig_up(r, rig_plugin(r, "first"));
    rig_mark(r);
    return r;
}

/* The flow in which a capable driver registers now. */
static enum csireg_flow flow_of(struct rig *r, const char *name)
{
    struct rig_plugin *p = rig_capable(r, name);
    rig_up(r, p);
    char plain[64], flagged[64];
    snprintf(plain, sizeof plain, "NodeGetInfo /d/%s.sock", name);
    snprintf(flagged, sizeof flagged, "NodeGetInfo+flag /d/%s.sock", name);
    assert_int_equal(rig_count(r, plain) + rig_count(r, flagged), 1);
    return rig_count(r, plain) ? CSIREG_FLOW_NODE : CSIREG_FLOW_CONTROLLER;
}

/* ---- list and watch ---- */

static void test_one_list_and_one_watch(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_advance(r, 60000);
    rig_expect(r, NULL); /* not before the first driver */
    rig_up(r, rig_plugin(r, "a"));
    rig_up(r, rig_plugin(r, "b"));
    assert_int_equal(rig_count(r, "list"), 1);
    assert_int_equal(rig_count(r, "watch"), 1);
    assert_string_equal(rig_last(r, "list")->text, "list csidrivers | GET " PATH);
    rig_free(r);
}

static void test_the_watch_request(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_up(r, rig_plugin(r, "a"));
    const struct rig_line *l = rig_last(r, "watch csidrivers | GET " PATH "?");
    assert_non_null(l);
    assert_non_null(strstr(l->text, "watch=true"));
    assert_non_null(strstr(l->text, "allowWatchBookmarks=true"));
    assert_non_null(strstr(l->text, "resourceVersion=100"));
    long seconds = strtol(strstr(l->text, "timeoutSeconds=") + strlen("timeoutSeconds="), NULL, 10);
    assert_in_range(seconds, 300, 600);
    assert_int_equal(l->timeout_ms, seconds * 1000 + 10000);
    rig_free(r);
}

static void test_a_watch_that_ends_goes_on_from_the_last_version(void **state)
{
    (void)state;
    struct rig *r = opened();
    rig_watch_line(r, "{'type':'ADDED','object':{'metadata':{'name':'x','resourceVersion':'250'},'spec':{}}}");
    rig_advance(r, 300000);
    rig_mark(r);
    rig_watch_end(r, CR_TRANSPORT_OK, 200);
    rig_settle(r);
    assert_non_null(strstr(rig_last(r, "watch")->text, "resourceVersion=250"));
    assert_int_equal(rig_count(r, "list"), 0);
    rig_watch_line(r, "{'type':'BOOKMARK','object':{'metadata':{'resourceVersion':'300'}}}");
    rig_advance(r, 300000);
    rig_watch_end(r, CR_TRANSPORT_OK, 200);
    rig_settle(r);
    assert_non_null(strstr(rig_last(r, "watch")->text, "resourceVersion=300"));
    rig_free(r);
}

static void test_watches_that_end_at_once_are_not_hammered(void **state)
{
    (void)state;
    struct rig *r = opened();
    rig_watch_end(r, CR_TRANSPORT_OK, 200); /* that one was long */
    rig_settle(r);
    assert_int_equal(rig_count(r, "watch"), 1);
    for (int64_t pause = 500; pause <= 16000; pause *= 2) {
        rig_mark(r);
        rig_watch_end(r, CR_TRANSPORT_OK, 200);
        rig_advance(r, pause - 1);
        assert_int_equal(rig_count(r, "watch"), 0);
        for (int64_t waited = 0; !rig_count(r, "watch") && waited <= pause / 10; waited++) rig_advance(r, 1);
        assert_int_equal(rig_count(r, "watch"), 1);
    }
    rig_free(r);
}

static void test_a_broken_watch_is_resumed(void **state)
{
    static const enum cr_transport ways[] = {CR_TRANSPORT_BROKEN, CR_TRANSPORT_TIMEOUT, CR_TRANSPORT_CONNECT};
    (void)state;
    for (size_t k = 0; k < 3; k++) {
        struct rig *r = opened();
        rig_watch_end(r, ways[k], 0);
        rig_advance(r, 600);
        assert_int_equal(rig_count(r, "watch"), 1);
        assert_int_equal(rig_count(r, "list"), 0);
        rig_free(r);
    }
}

static void test_an_expired_version_means_a_new_list(void **state)
{
    (void)state;
    struct rig *r = opened();
    rig_watch_line(r, "{'type':'ERROR','object':{'kind':'Status','code':410,'reason':'Expired'}}");
    rig_watch_end(r, CR_TRANSPORT_OK, 200);
    rig_advance(r, 600);
    assert_int_equal(rig_count(r, "list"), 1);
    assert_int_equal(rig_count(r, "watch"), 1);
    rig_mark(r);
    rig_watch_end(r, CR_TRANSPORT_OK, 410);
    rig_advance(r, 2000);
    assert_int_equal(rig_count(r, "list"), 1);
    rig_free(r);
}

static void test_garbage_means_a_new_list(void **state)
{
    static const char *const lines[] = {"{garbage", "", "[]", "{'type':'ADDED'}", "{'object':{}}", "<html>"};
    (void)state;
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
        struct rig *r = opened();
        rig_watch_line(r, lines[k]);
        rig_watch_end(r, CR_TRANSPORT_OK, 200);
        rig_advance(r, 600);
        assert_int_equal(rig_count(r, "list"), 1);
        rig_free(r);
    }
}

/* A version goes into a URL: nothing but what one looks like is taken. */
static void test_strange_versions_are_not_sent(void **state)
{
    static const char *const versions[] = {"1&watch=false", "", "1 2", "%20"};
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct rig *r = rig_gate_on();
        char body[256];
        snprintf(body, sizeof body,
                 "{\"kind\":\"CSIDriverList\",\"metadata\":{\"resourceVersion\":\"%s\"},\"items\":[]}", versions[k]);
        rig_fault(r, (struct rig_fault){.match = "list", .times = 1, .number = 200, .body = body});
        rig_appear(r, rig_plugin(r, "a"));
        rig_settle(r);
        assert_int_equal(rig_count(r, "watch"), 0);
        rig_advance(r, 600);
        assert_int_equal(rig_count(r, "list"), 2);
        rig_free(r);
    }
}

static void test_a_failing_list_is_repeated_with_pauses(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_fault(r, (struct rig_fault){.match = "list", .times = 6, .number = 503});
    rig_appear(r, rig_plugin(r, "a"));
    rig_advance(r, 40000);
    int64_t pause = 500, last = 0;
    size_t n = 0;
    for (size_t i = 0; i < r->n_lines; i++) {
        if (strncmp(r->lines[i].text, "list", 4) != 0) continue;
        if (n++ > 0) {
            assert_in_range(r->lines[i].at_ms - last, pause, pause + pause / 10);
            pause *= 2;
        }
        last = r->lines[i].at_ms;
    }
    assert_int_equal(n, 7);
    assert_int_equal(rig_count(r, "watch"), 1);
    rig_free(r);
}

static void test_retry_after_of_the_list(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_fault(r, (struct rig_fault){.match = "list", .times = 1, .number = 429, .retry_after_s = 9});
    rig_appear(r, rig_plugin(r, "a"));
    rig_advance(r, 8999);
    assert_int_equal(rig_count(r, "list"), 1);
    rig_advance(r, 1);
    assert_int_equal(rig_count(r, "list"), 2);
    rig_free(r);
}

/* ---- what is read from it ---- */

static void test_attach_required_by_default(void **state)
{
    (void)state;
    struct rig *r = opened();
    rig_watch_line(r, "{'type':'ADDED','object':{'metadata':{'name':'b.example.com','resourceVersion':'1'}}}");
    rig_watch_line(r, "{'type':'ADDED','object':{'metadata':{'name':'c.example.com','resourceVersion':'2'},'spec':"
                      "{'attachRequired':null}}}");
    assert_int_equal(flow_of(r, "a"), CSIREG_FLOW_CONTROLLER); /* no object */
    assert_int_equal(flow_of(r, "b"), CSIREG_FLOW_CONTROLLER);
    assert_int_equal(flow_of(r, "c"), CSIREG_FLOW_CONTROLLER);
    rig_free(r);
}

static void test_the_watch_tells_of_changes(void **state)
{
    (void)state;
    struct rig *r = opened();
    rig_watch_line(r, "{'type':'ADDED','object':{'metadata':{'name':'a.example.com','resourceVersion':'1'},'spec':"
                      "{'attachRequired':false}}}");
    rig_watch_line(r, "{'type':'ADDED','object':{'metadata':{'name':'b.example.com','resourceVersion':'2'},'spec':"
                      "{'attachRequired':false}}}");
    rig_watch_line(r, "{'type':'MODIFIED','object':{'metadata':{'name':'b.example.com','resourceVersion':'3'},'spec':"
                      "{'attachRequired':true}}}");
    rig_watch_line(r, "{'type':'ADDED','object':{'metadata':{'name':'c.example.com','resourceVersion':'4'},'spec':"
                      "{'attachRequired':false}}}");
    rig_watch_line(r, "{'type':'DELETED','object':{'metadata':{'name':'c.example.com','resourceVersion':'5'}}}");
    assert_int_equal(flow_of(r, "a"), CSIREG_FLOW_NODE);
    assert_int_equal(flow_of(r, "b"), CSIREG_FLOW_CONTROLLER);
    assert_int_equal(flow_of(r, "c"), CSIREG_FLOW_CONTROLLER);
    rig_free(r);
}

static void test_a_new_list_replaces_the_old_one(void **state)
{
    (void)state;
    struct rig *r = opened();
    rig_watch_line(r, "{'type':'ADDED','object':{'metadata':{'name':'a.example.com','resourceVersion':'1'},'spec':"
                      "{'attachRequired':false}}}");
    json_object_set_new(r->attach, "b.example.com", json_false());
    rig_watch_line(r, "{'type':'ERROR','object':{'code':410}}");
    rig_watch_end(r, CR_TRANSPORT_OK, 200);
    rig_advance(r, 600);
    assert_int_equal(flow_of(r, "a"), CSIREG_FLOW_CONTROLLER); /* gone meanwhile */
    assert_int_equal(flow_of(r, "b"), CSIREG_FLOW_NODE);
    rig_free(r);
}

/* While it cannot be read, nothing is taken for absent. */
static void test_an_unsynchronised_cache_is_never_read_as_absent(void **state)
{
    static const struct rig_fault faults[] = {{.number = 503},
                                              {.transport = CR_TRANSPORT_CONNECT},
                                              {.number = 200, .body = "<html>"},
                                              {.number = 200, .body = "{\"kind\":\"CSIDriverList\",\"items\":{}}"},
                                              {.number = 200, .body = "{\"kind\":\"PodList\",\"items\":[]}"}};
    (void)state;
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
        struct rig *r = rig_gate_on();
        struct rig_plugin *a = rig_capable(r, "a");
        struct rig_fault f = faults[k];
        f.match = "list";
        f.times = 4;
        rig_fault(r, f);
        json_object_set_new(r->attach, "a.example.com", json_false());
        rig_appear(r, a);
        rig_advance(r, 5000);
        assert_int_equal(rig_count(r, "NodeGetInfo"), 0);
        rig_advance(r, 10000);
        assert_int_equal(rig_count(r, "NodeGetInfo /d/a.sock"), 1);
        assert_true(rig_registered(r, a));
        rig_free(r);
    }
}

/* What was read stays valid while the watch is down. */
static void test_a_lost_watch_does_not_stop_registrations(void **state)
{
    (void)state;
    struct rig *r = opened();
    rig_watch_line(r, "{'type':'ADDED','object':{'metadata':{'name':'a.example.com','resourceVersion':'1'},'spec':"
                      "{'attachRequired':false}}}");
    rig_fault(r, (struct rig_fault){.match = "list", .times = -1, .number = 503});
    rig_watch_line(r, "{garbage");
    rig_watch_end(r, CR_TRANSPORT_BROKEN, 0);
    rig_advance(r, 60000);
    assert_int_equal(flow_of(r, "a"), CSIREG_FLOW_NODE);
    rig_free(r);
}

/* ---- the flow is decided again ---- */

static void test_the_object_comes_after_the_driver(void **state)
{
    (void)state;
    struct rig *r = opened();
    struct rig_plugin *a = rig_capable(r, "a");
    rig_up(r, a);
    assert_non_null(rig_entry(r, "driverRegistrations", "a.example.com"));
    rig_mark(r);
    rig_watch_line(r, "{'type':'ADDED','object':{'metadata':{'name':'a.example.com','resourceVersion':'1'},'spec':"
                      "{'attachRequired':false}}}");
    rig_advance(r, 1000);
    assert_int_equal(rig_count(r, "connect /r/") + rig_count(r, "Notify"), 0);
    assert_int_equal(rig_count(r, "NodeGetCapabilities"), 1);
    assert_int_equal(rig_count(r, "NodeGetInfo /d/a.sock"), 1);
    rig_expect_requests(r, "patch nodes/status, update csinodes");
    assert_non_null(rig_entry(r, "drivers", "a.example.com"));
    assert_null(rig_entry(r, "driverRegistrations", "a.example.com"));
    assert_int_equal(rig_count(r, "event CHANGED a.example.com"), 1);
    rig_mark(r);
    rig_watch_line(r, "{'type':'DELETED','object':{'metadata':{'name':'a.example.com','resourceVersion':'2'}}}");
    rig_advance(r, 1000);
    assert_non_null(rig_entry(r, "driverRegistrations", "a.example.com"));
    assert_non_null(rig_entry(r, "drivers", "a.example.com")); /* the same id: preserved */
    assert_int_equal(rig_count(r, "NodeGetInfo+flag"), 1);
    rig_free(r);
}

static void test_deciding_again_needs_the_capability_and_a_change(void **state)
{
    (void)state;
    struct rig *r = opened();
    rig_up(r, rig_capable(r, "a"));
    rig_up(r, rig_plugin(r, "b"));
    rig_mark(r);
    rig_watch_line(r, "{'type':'ADDED','object':{'metadata':{'name':'a.example.com','resourceVersion':'1'},'spec':"
                      "{'attachRequired':true}}}");
    rig_watch_line(r, "{'type':'ADDED','object':{'metadata':{'name':'b.example.com','resourceVersion':'2'},'spec':"
                      "{'attachRequired':false}}}");
    rig_watch_line(r, "{'type':'MODIFIED','object':{'metadata':{'name':'b.example.com','resourceVersion':'3'},'spec':"
                      "{'attachRequired':true}}}");
    rig_advance(r, 1000);
    rig_expect(r, NULL);
    rig_free(r);
}

static void test_a_failed_decision_keeps_everything_and_is_retried(void **state)
{
    (void)state;
    struct rig *r = opened();
    struct rig_plugin *a = rig_capable(r, "a");
    rig_up(r, a);
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo /d/a", .times = 2, .number = 13});
    rig_mark(r);
    rig_watch_line(r, "{'type':'ADDED','object':{'metadata':{'name':'a.example.com','resourceVersion':'1'},'spec':"
                      "{'attachRequired':false}}}");
    rig_settle(r);
    assert_true(rig_registered(r, a));
    assert_non_null(rig_entry(r, "driverRegistrations", "a.example.com"));
    assert_int_equal(rig_count(r, "event UNREGISTERED") + rig_count(r, "Notify"), 0);
    rig_advance(r, 3000);
    assert_int_equal(rig_count(r, "NodeGetInfo /d/a"), 3);
    assert_non_null(rig_entry(r, "drivers", "a.example.com"));
    assert_int_equal(rig_count(r, "Notify"), 0);
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_list_and_one_watch),
        cmocka_unit_test(test_the_watch_request),
        cmocka_unit_test(test_a_watch_that_ends_goes_on_from_the_last_version),
        cmocka_unit_test(test_watches_that_end_at_once_are_not_hammered),
        cmocka_unit_test(test_a_broken_watch_is_resumed),
        cmocka_unit_test(test_an_expired_version_means_a_new_list),
        cmocka_unit_test(test_garbage_means_a_new_list),
        cmocka_unit_test(test_strange_versions_are_not_sent),
        cmocka_unit_test(test_a_failing_list_is_repeated_with_pauses),
        cmocka_unit_test(test_retry_after_of_the_list),
        cmocka_unit_test(test_attach_required_by_default),
        cmocka_unit_test(test_the_watch_tells_of_changes),
        cmocka_unit_test(test_a_new_list_replaces_the_old_one),
        cmocka_unit_test(test_an_unsynchronised_cache_is_never_read_as_absent),
        cmocka_unit_test(test_a_lost_watch_does_not_stop_registrations),
        cmocka_unit_test(test_the_object_comes_after_the_driver),
        cmocka_unit_test(test_deciding_again_needs_the_capability_and_a_change),
        cmocka_unit_test(test_a_failed_decision_keeps_everything_and_is_retried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
