/* SPDX-License-Identifier: Apache-2.0 */
/* What plugins and drivers say about themselves is checked before anything is done with it. */
#include <stdio.h>
#include <string.h>

#include "unit/core_rig.h"

/* ---- what GetInfo says ---- */

/* The attempt ends at once, for good, with one notification and without a request or a call to the driver. */
static void assert_refused(struct rig *r, struct rig_plugin *p, const char *const *words)
{
    rig_mark(r);
    rig_appear(r, p);
    rig_settle(r);
    rig_expect(r, "connect /r/", "GetInfo", "event FAILED", "Notify false", "close /r/");
    const struct rig_line *e = rig_last(r, "event FAILED");
    assert_false(e->retryable);
    for (; *words; words++)
        if (!strstr(e->said, *words)) fail_msg("%s lacks: %s", e->said, *words);
    rig_advance(r, 121000);
    assert_int_equal(rig_count(r, "GetInfo"), 1); /* straight to the longest pause */
    rig_vanish(r, p);
    rig_settle(r);
}
#define ASSERT_REFUSED(r, p, ...) assert_refused((r), (p), (const char *const[]){__VA_ARGS__, NULL})

static void test_bad_names(void **state)
{
    static const char *const bad[] = {"", "under_score.example.com", "-a", "a..b", "b.", "white space"};
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        snprintf(a->name, sizeof a->name, "%s", bad[k]);
        ASSERT_REFUSED(r, a, "name");
    }
    memset(a->name, 'x', 64);
    ASSERT_REFUSED(r, a, "64", "63");
    a->name[63] = '\0';
    rig_up(r, a);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static void test_upper_case_names_are_names(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    snprintf(a->name, sizeof a->name, "CSI.Example.COM");
    rig_up(r, a);
    assert_true(rig_registered(r, a));
    assert_non_null(rig_entry(r, "drivers", "CSI.Example.COM"));
    rig_free(r);
}

static void test_types_without_a_handler(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    a->type = "DRAPlugin";
    ASSERT_REFUSED(r, a, "DRAPlugin", "CSIPlugin");
    a->type = "csiplugin";
    ASSERT_REFUSED(r, a, "csiplugin");
    a->type = "";
    ASSERT_REFUSED(r, a, "type");
    rig_free(r);
}

static void test_endpoints(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    static const char *const bad[] = {"d/a.sock", "@abstract", "unix-abstract:a", "tcp://127.0.0.1:1", "unix:a.sock"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        a->said_endpoint = bad[k];
        ASSERT_REFUSED(r, a, "a.example.com", bad[k]);
    }
    static const char *const good[] = {"unix:/d/a.sock", "unix:///d/a.sock", "/d/a.sock"};
    for (size_t k = 0; k < 3; k++) {
        a->said_endpoint = good[k];
        rig_mark(r);
        rig_up(r, a);
        assert_int_equal(rig_count(r, "connect /d/a.sock"), 1);
    }
    rig_free(r);
}

static void test_an_empty_endpoint_is_the_registration_socket(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    a->said_endpoint = "";
    rig_up(r, a);
    assert_int_equal(rig_count(r, "connect /r/a-reg.sock"), 2);
    assert_int_equal(rig_count(r, "NodeGetInfo /r/a-reg.sock"), 1);
    rig_free(r);
}

static void test_versions(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    static const char *const bad[] = {"0.3.0", "2.0.0", "garbage", "1", "01.2"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        a->versions[0] = bad[k];
        ASSERT_REFUSED(r, a, "a.example.com", "version");
    }
    a->versions[0] = NULL;
    ASSERT_REFUSED(r, a, "version");
    a->versions[0] = "0.3.0";
    a->versions[1] = "1.2.0";
    a->versions[2] = "2.0.0";
    rig_up(r, a);
    json_t *status = rig_status(r), *d = json_array_get(json_object_get(status, "drivers"), 0);
    assert_string_equal(json_string_value(json_object_get(d, "version")), "1.2.0");
    json_decref(status);
    rig_free(r);
}

/* ---- what NodeGetInfo says ---- */

static void assert_node_info_refused(struct rig *r, struct rig_plugin *p, const char *word)
{
    rig_mark(r);
    rig_appear(r, p);
    rig_settle(r);
    const struct rig_line *e = rig_last(r, "event FAILED");
    assert_non_null(e);
    assert_false(e->retryable);
    assert_non_null(strstr(e->said, "a.example.com"));
    if (!strstr(e->said, word)) fail_msg("%s lacks: %s", e->said, word);
    assert_int_equal(rig_count(r, "Notify false"), 1);
    assert_int_equal(rig_count(r, "patch") + rig_count(r, "create") + rig_count(r, "update"), 0);
}

static void test_node_info_is_checked(void **state)
{
    char id[258];
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    memset(id, 'i', 257);
    id[257] = '\0';
    a->node_id = "";
    assert_node_info_refused(r, a, "node");
    a->node_id = id;
    assert_node_info_refused(r, a, "257");
    a->node_id = "id";
    a->topology[0] = "bad key=v";
    assert_node_info_refused(r, a, "bad key");
    a->topology[0] = "good=bad value";
    assert_node_info_refused(r, a, "bad value");
    id[256] = '\0';
    a->node_id = id;
    a->topology[0] = "good=";
    rig_up(r, a);
    assert_true(rig_registered(r, a));
    rig_free(r);
}

static void test_the_controller_flow_looks_at_the_node_id_alone(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_capable(r, "a");
    a->topology[0] = "bad key=bad value";
    a->limit = -5;
    rig_up(r, a);
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "patch"), 0);
    assert_int_equal(rig_count(r, "event WARNING"), 0);
    assert_null(rig_entry(r, "drivers", "a.example.com"));
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_names),
        cmocka_unit_test(test_upper_case_names_are_names),
        cmocka_unit_test(test_types_without_a_handler),
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_an_empty_endpoint_is_the_registration_socket),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_node_info_is_checked),
        cmocka_unit_test(test_the_controller_flow_looks_at_the_node_id_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
