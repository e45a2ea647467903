/* SPDX-License-Identifier: Apache-2.0 */
/* What is written to the Node: labels, and the annotation that maps driver names to node ids. */
#include <string.h>

#include "unit/core_rig.h"

#define PATCH "patch nodes/status | PATCH /api/v1/nodes/n1/status"

static void test_the_patch(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_up(r, rig_plugin(r, "a"));
    const struct rig_line *l = rig_last(r, PATCH);
    assert_non_null(l);
    assert_string_equal(l->request.content_type, "application/strategic-merge-patch+json");
    rig_expect_json(rig_body(r, PATCH), "{'metadata':{'annotations':{'csi.volume.kubernetes.io/nodeid':"
                                        "'{\\u0022a.example.com\\u0022:\\u0022id-a\\u0022}'},"
                                        "'labels':{'a.example.com/zone':'z1'},'resourceVersion':'1'}}");
    rig_free(r);
}

/* ---- labels and the annotation ---- */

static void set_label(struct rig *r, const char *key, const char *value)
{
    json_object_set_new(json_object_get(json_object_get(r->node, "metadata"), "labels"), key, json_string(value));
}

static void assert_collision(const char *existing)
{
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    a->topology[0] = "a/x=1";
    a->topology[1] = "k/zone=mine";
    set_label(r, "k/zone", existing);
    rig_appear(r, a);
    rig_settle(r);
    rig_expect_requests(r, "get nodes, get csinodes");
    const struct rig_line *e = rig_last(r, "event FAILED");
    assert_false(e->retryable);
    assert_non_null(strstr(e->said, "k/zone"));
    assert_non_null(strstr(e->said, "mine"));
    assert_non_null(strstr(e->said, *existing ? existing : "\"\""));
    assert_int_equal(rig_count(r, "Notify false"), 1);
    assert_string_equal(rig_label(r, "k/zone"), existing);
    rig_free(r);
}

static void test_collisions(void **state)
{
    (void)state;
    assert_collision("theirs");
    assert_collision("");
}

static void test_equal_labels_are_not_sent(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    a->topology[0] = "a/x=1";
    a->topology[1] = "b/y=2";
    set_label(r, "a/x", "1");
    rig_up(r, a);
    json_t *body = rig_body(r, PATCH);
    rig_expect_json(json_incref(json_object_get(json_object_get(body, "metadata"), "labels")), "{'b/y':'2'}");
    json_decref(body);
    rig_free(r);
}

static void test_two_drivers_with_one_label_and_two_values(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a"), *b = rig_plugin(r, "b");
    a->topology[0] = "k/zone=1";
    b->topology[0] = "k/zone=2";
    rig_appear(r, a);
    rig_appear(r, b);
    rig_advance(r, 1000);
    assert_true(rig_registered(r, a));
    assert_false(rig_registered(r, b));
    assert_non_null(strstr(rig_last(r, "event FAILED b.example.com")->said, "k/zone"));
    assert_string_equal(rig_label(r, "k/zone"), "1");
    rig_free(r);
}

static void set_ids(struct rig *r, const char *text)
{
    json_t *annotations = json_object_get(json_object_get(r->node, "metadata"), "annotations");
    json_object_set_new(annotations, "csi.volume.kubernetes.io/nodeid", json_string(text));
}

static void test_the_annotation_keeps_other_keys(void **state)
{
    static const char *const empty[] = {"", "null", "{}"};
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    set_ids(r, "{\"z\":\"1\",\"b\":\"vm/7\"}");
    rig_up(r, a);
    assert_string_equal(rig_ids(r), "{\"a.example.com\":\"id-a\",\"b\":\"vm/7\",\"z\":\"1\"}");
    rig_vanish(r, a);
    rig_advance(r, 1000);
    assert_string_equal(rig_ids(r), "{\"b\":\"vm/7\",\"z\":\"1\"}");
    rig_free(r);
    for (size_t k = 0; k < 3; k++) {
        r = rig_started();
        set_ids(r, empty[k]);
        rig_up(r, rig_plugin(r, "a"));
        assert_string_equal(rig_ids(r), "{\"a.example.com\":\"id-a\"}");
        rig_free(r);
    }
}

static void test_a_malformed_annotation_is_not_overwritten(void **state)
{
    static const char *const bad[] = {"[]", "{\"a\":1}", "text", "{\"a\":\"1\""};
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct rig *r = rig_started();
        set_ids(r, bad[k]);
        rig_appear(r, rig_plugin(r, "a"));
        rig_settle(r);
        assert_string_equal(rig_ids(r), bad[k]);
        assert_false(rig_last(r, "event FAILED")->retryable);
        assert_non_null(strstr(rig_last(r, "event FAILED")->said, "csi.volume.kubernetes.io/nodeid"));
        assert_null(r->csinode);
        rig_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_patch),
        cmocka_unit_test(test_collisions),
        cmocka_unit_test(test_equal_labels_are_not_sent),
        cmocka_unit_test(test_two_drivers_with_one_label_and_two_values),
        cmocka_unit_test(test_the_annotation_keeps_other_keys),
        cmocka_unit_test(test_a_malformed_annotation_is_not_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
