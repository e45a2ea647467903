/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/node.h"
#include "unit/golden.h"

#define MAX_SEGMENTS 8

/* ---- golden: node.json, change.json, and expected.json (the patch) or error.txt (each line is in the message) ---- */

static size_t segments_of(json_t *object, struct cr_pair out[MAX_SEGMENTS])
{
    size_t n = 0;
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        assert_true(n < MAX_SEGMENTS);
        out[n].key = (char *)key;
        out[n++].value = (char *)json_string_value(value);
    }
    return n;
}

/* Puts or removes the driver's id; true if that changed the map. */
static bool change_ids(json_t *ids, const json_t *change)
{
    const char *driver = json_string_value(json_object_get(change, "driver"));
    json_t *id = json_object_get(change, "nodeID");
    if (json_is_null(id)) return json_object_del(ids, driver) == 0;
    if (json_equal(json_object_get(ids, driver), id)) return false;
    assert_int_equal(json_object_set(ids, driver, id), 0);
    return true;
}

static char *plan(const json_t *object, const json_t *change, struct csireg_error **err)
{
    struct cr_node node = {0};
    struct cr_pair segments[MAX_SEGMENTS];
    json_t *labels = json_object_get(change, "segments"), *ids = NULL;
    size_t n = segments_of(labels, segments);
    char *patch = NULL;
    if (cr_node_load(&node, object, "n1", err) == 0 && cr_node_check_labels(&node, segments, n, err) == 0 &&
        cr_node_ids_load(&node, &ids, err) == 0) {
        bool changed = change_ids(ids, change);
        patch = cr_node_patch(&node, labels, changed, ids);
        assert_non_null(patch);
    }
    json_decref(ids);
    cr_node_fini(&node);
    return patch;
}

static void assert_lines_in(const char *folder, char *lines, const struct csireg_error *e)
{
    char *rest = lines, *line;
    assert_int_equal(csireg_error_code(e), CSIREG_ERR_REFUSED);
    assert_false(csireg_error_retryable(e));
    while ((line = strsep(&rest, "\n")) && *line)
        if (!strstr(csireg_error_message(e), line))
            fail_msg("%s: \"%s\" lacks %s", folder, csireg_error_message(e), line);
}

static void run_case(const char *folder)
{
    json_t *object = golden_json(folder, "node.json"), *change = golden_json(folder, "change.json"),
           *expected = golden_json(folder, "expected.json");
    char *error = golden_read(folder, "error.txt"), *want = expected ? json_dumps(expected, JSON_COMPACT) : NULL;
    struct csireg_error *e = NULL;
    assert_int_equal(want != NULL, error == NULL);
    char *got = plan(object, change, &e);
    if (error) assert_null(got);
    if (error) assert_lines_in(folder, error, e);
    if (want && (!got || strcmp(got, want) != 0))
        fail_msg("%s:\n got %s%s\nwant %s", folder, got ? got : "", csireg_error_message(e), want);
    free(want);
    free(error);
    cr_free(got);
    csireg_error_free(e);
    json_decref(object);
    json_decref(change);
    json_decref(expected);
}

static void test_golden(void **state)
{
    (void)state;
    golden_run("node", run_case);
}

static json_t *sample(const char *uid, const char *annotation)
{
    return json_pack("{s:s,s:{s:s,s:s,s:s,s:{s:s},s:{s:s}}}", "kind", "Node", "metadata", "name", "n1", "uid", uid,
                     "resourceVersion", "7", "labels", "zone", "z1", "annotations", CR_NODE_ID_ANNOTATION, annotation);
}

static void test_load_replaces_and_outlives_the_object(void **state)
{
    struct cr_node n = {0};
    json_t *first = sample("u1", "{}"), *second = sample("u2", "{}"), *broken = json_object();
    (void)state;
    assert_int_equal(cr_node_load(&n, first, "n1", NULL), 0);
    assert_int_equal(cr_node_load(&n, second, "n1", NULL), 0);
    assert_int_equal(cr_node_load(&n, broken, "n1", NULL), CSIREG_ERR_REFUSED);
    json_decref(first);
    json_decref(second);
    json_decref(broken);
    assert_string_equal(n.uid, "u2");
    assert_string_equal(n.resource_version, "7");
    assert_string_equal(json_string_value(json_object_get(n.labels, "zone")), "z1");
    cr_node_fini(&n);
    cr_node_fini(&n);
    assert_null(n.labels);
}

static void test_ids_map_is_a_copy(void **state)
{
    struct cr_node n = {0};
    json_t *object = sample("u", "{\"a\":\"1\"}"), *ids = NULL, *again = NULL;
    (void)state;
    assert_int_equal(cr_node_load(&n, object, "n1", NULL), 0);
    assert_int_equal(cr_node_ids_load(&n, &ids, NULL), 0);
    json_object_clear(ids);
    assert_int_equal(cr_node_ids_load(&n, &again, NULL), 0);
    assert_int_equal(json_object_size(again), 1);
    json_decref(ids);
    json_decref(again);
    json_decref(object);
    cr_node_fini(&n);
}

static void test_ids_text(void **state)
{
    json_t *none = json_object(), *two = json_pack("{s:s,s:s}", "b", "vm/7", "a.example.com", "i-1");
    char *text = (char *)"untouched";
    (void)state;
    assert_int_equal(cr_node_ids_text(none, &text), 0);
    assert_null(text);
    assert_int_equal(cr_node_ids_text(two, &text), 0);
    assert_string_equal(text, "{\"a.example.com\":\"i-1\",\"b\":\"vm/7\"}");
    cr_free(text);
    json_decref(none);
    json_decref(two);
}

static void test_many_collisions_name_the_first(void **state)
{
    struct cr_node n = {0};
    struct cr_pair segments[] = {{"free", "1"}, {"zone", "other"}, {"zone2", "x"}};
    struct csireg_error *e = NULL;
    json_t *object = sample("u", "");
    (void)state;
    assert_int_equal(cr_node_load(&n, object, "n1", NULL), 0);
    assert_int_equal(cr_node_check_labels(&n, segments, 3, &e), CSIREG_ERR_REFUSED);
    assert_non_null(strstr(csireg_error_message(e), "label zone: the driver reports \"other\""));
    csireg_error_free(e);
    json_decref(object);
    cr_node_fini(&n);
}

/* ---- short of memory ---- */

static bool plan_under_pressure(void)
{
    struct cr_node n = {0};
    struct csireg_error *e = NULL;
    json_t *object = sample("u", "{\"a\":\"1\"}"),
           *bare = json_pack("{s:s,s:{s:s,s:s,s:s}}", "kind", "Node", "metadata", "name", "n1", "uid", "u",
                             "resourceVersion", "7");
    json_t *labels = json_pack("{s:s,s:s}", "zone", "z1", "rack", "r1"), *ids = NULL;
    int rc = object && bare && labels ? cr_node_load(&n, bare, "n1", &e) : CSIREG_ERR_NOMEM;
    if (rc == 0) rc = cr_node_load(&n, object, "n1", &e);
    if (rc == 0) rc = cr_node_ids_load(&n, &ids, &e);
    char *patch = rc == 0 ? cr_node_patch(&n, labels, true, ids) : NULL;
    if (rc) assert_int_equal(rc, CSIREG_ERR_NOMEM);
    if (patch)
        assert_string_equal(patch,
                            "{\"metadata\":{\"annotations\":{\"" CR_NODE_ID_ANNOTATION
                            "\":\"{\\\"a\\\":\\\"1\\\"}\"},\"labels\":{\"rack\":\"r1\"},\"resourceVersion\":\"7\"}}");
    bool ok = patch != NULL;
    cr_free(patch);
    csireg_error_free(e);
    json_decref(object);
    json_decref(bare);
    json_decref(labels);
    json_decref(ids);
    cr_node_fini(&n);
    return ok;
}

static void test_oom(void **state)
{
    (void)state;
    oom_run(plan_under_pressure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_load_replaces_and_outlives_the_object),
        cmocka_unit_test(test_ids_map_is_a_copy),
        cmocka_unit_test(test_ids_text),
        cmocka_unit_test(test_many_collisions_name_the_first),
        cmocka_unit_test(test_oom),
    };
    return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
