/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/csinode.h"
#include "unit/golden.h"

#define MAX_KEYS 16

static json_t *parse(const char *text)
{
    json_error_t e;
    json_t *v = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
    if (!v) fail_msg("%s: %s", text, e.text);
    return v;
}

/* ---- golden: input.json, ops.json (a list of [edit, argument...]), expected.json ---- */

static const char *text_of(const json_t *op, size_t i) { return json_string_value(json_array_get(op, i)); }

static size_t strings_of(const json_t *list, const char *out[MAX_KEYS])
{
    size_t n = json_array_size(list);
    assert_true(n <= MAX_KEYS);
    for (size_t i = 0; i < n; i++) out[i] = json_string_value(json_array_get(list, i));
    return n;
}

static int put_driver(json_t *obj, const json_t *args)
{
    const char *keys[MAX_KEYS];
    const json_t *count = json_object_get(args, "count");
    struct cr_csinode_driver want = {.name = json_string_value(json_object_get(args, "name")),
                                     .node_id = json_string_value(json_object_get(args, "nodeID")),
                                     .topology_keys = keys,
                                     .n_topology_keys = strings_of(json_object_get(args, "topologyKeys"), keys),
                                     .has_count = count != NULL,
                                     .count = (int32_t)json_integer_value(count)};
    int rc = cr_csinode_put_driver(obj, &want);
    if (rc == 0) assert_int_equal(cr_csinode_match_driver(obj, &want), CR_DRIVER_EQUAL);
    return rc;
}

static int edit(json_t **obj, const json_t *op)
{
    const char *plugins[MAX_KEYS], *what = text_of(op, 0);
    if (strcmp(what, "new") == 0) {
        *obj = cr_csinode_new(text_of(op, 1), text_of(op, 2), plugins, strings_of(json_array_get(op, 3), plugins));
        return *obj ? 0 : CSIREG_ERR_NOMEM;
    }
    if (strcmp(what, "put_driver") == 0) return put_driver(*obj, json_array_get(op, 1));
    if (strcmp(what, "put_registration") == 0) return cr_csinode_put_registration(*obj, text_of(op, 1), text_of(op, 2));
    if (strcmp(what, "remove_driver") == 0) return cr_csinode_remove_driver(*obj, text_of(op, 1));
    if (strcmp(what, "remove_registration") == 0) return cr_csinode_remove_registration(*obj, text_of(op, 1));
    if (strcmp(what, "add_owner") == 0) return cr_csinode_add_owner(*obj, text_of(op, 1), text_of(op, 2));
    if (strcmp(what, "set_migrated") == 0)
        return cr_csinode_set_migrated(*obj, plugins, strings_of(json_array_get(op, 1), plugins));
    fail_msg("unknown edit \"%s\"", what);
    return 0;
}

static void run_case(const char *folder)
{
    json_t *obj = golden_json(folder, "input.json"), *ops = golden_json(folder, "ops.json"), *op,
           *expected = golden_json(folder, "expected.json");
    size_t i;
    assert_non_null(ops);
    assert_non_null(expected);
    if (obj) assert_int_equal(cr_csinode_check(obj, "n1", NULL), 0);
    json_array_foreach (ops, i, op) assert_int_equal(edit(&obj, op), 0);
    char *before = json_dumps(obj, JSON_COMPACT), *got = cr_csinode_text(obj);
    char *want = json_dumps(expected, JSON_COMPACT), *after = json_dumps(obj, JSON_COMPACT);
    if (strcmp(got, want) != 0) fail_msg("%s:\n got %s\nwant %s", folder, got, want);
    assert_string_equal(before, after); /* the text is made without touching the object */
    free(before);
    free(after);
    free(want);
    cr_free(got);
    json_decref(obj);
    json_decref(ops);
    json_decref(expected);
}

static void test_golden(void **state)
{
    (void)state;
    golden_run("csinode", run_case);
}

/* ---- comparison ---- */

#define ENTRY(members) "{\"spec\":{\"drivers\":[{\"name\":\"o\",\"nodeID\":\"1\"},{\"name\":\"a\"," members "}]}}"

static const struct {
    const char *object;
    enum cr_driver_match match; /* with a, i, {x, y}, 10 */
} matches[] = {
    {"{}", CR_DRIVER_ABSENT},
    {"{\"spec\":null}", CR_DRIVER_ABSENT},
    {"{\"spec\":{\"drivers\":null}}", CR_DRIVER_ABSENT},
    {"{\"spec\":{\"drivers\":[{\"name\":\"A\"},{\"name\":\"a\\u0000\"}]}}", CR_DRIVER_ABSENT},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\",\"y\"],\"allocatable\":{\"count\":10}"), CR_DRIVER_EQUAL},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"y\",\"x\"],\"allocatable\":{\"count\":10},\"z\":1"), CR_DRIVER_EQUAL},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\",\"y\"],\"allocatable\":{\"count\":25}"), CR_DRIVER_COUNT_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\",\"y\"],\"allocatable\":{\"count\":10.0}"),
     CR_DRIVER_COUNT_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\",\"y\"],\"allocatable\":{\"count\":\"10\"}"),
     CR_DRIVER_COUNT_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\",\"y\"],\"allocatable\":{\"count\":4294967306}"),
     CR_DRIVER_COUNT_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\",\"y\"],\"allocatable\":{}"), CR_DRIVER_COUNT_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\",\"y\"],\"allocatable\":null"), CR_DRIVER_COUNT_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\",\"y\"],\"allocatable\":7"), CR_DRIVER_COUNT_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\",\"y\"]"), CR_DRIVER_COUNT_DIFFERS},
    {ENTRY("\"nodeID\":\"j\",\"topologyKeys\":[\"x\",\"y\"],\"allocatable\":{\"count\":10}"),
     CR_DRIVER_IMMUTABLE_DIFFERS},
    {ENTRY("\"topologyKeys\":[\"x\",\"y\"],\"allocatable\":{\"count\":10}"), CR_DRIVER_IMMUTABLE_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\"],\"allocatable\":{\"count\":10}"), CR_DRIVER_IMMUTABLE_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\",\"x\"]"), CR_DRIVER_IMMUTABLE_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\",\"y\",\"y\"]"), CR_DRIVER_IMMUTABLE_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[\"x\",7]"), CR_DRIVER_IMMUTABLE_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":\"x\""), CR_DRIVER_IMMUTABLE_DIFFERS},
    {ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[]"), CR_DRIVER_IMMUTABLE_DIFFERS},
    {ENTRY("\"nodeID\":\"i\""), CR_DRIVER_IMMUTABLE_DIFFERS},
};

static void test_match_driver(void **state)
{
    const char *const keys[] = {"x", "y"};
    struct cr_csinode_driver want = {"a", "i", keys, 2, true, 10};
    (void)state;
    for (size_t i = 0; i < sizeof matches / sizeof *matches; i++) {
        json_t *obj = parse(matches[i].object);
        if (cr_csinode_match_driver(obj, &want) != matches[i].match) fail_msg("%s", matches[i].object);
        json_decref(obj);
    }
}

static void test_match_without_keys_and_count(void **state)
{
    const char *const same[] = {ENTRY("\"nodeID\":\"i\""), ENTRY("\"nodeID\":\"i\",\"topologyKeys\":null"),
                                ENTRY("\"nodeID\":\"i\",\"topologyKeys\":[],\"allocatable\":null"),
                                ENTRY("\"nodeID\":\"i\",\"allocatable\":{\"count\":null}")};
    struct cr_csinode_driver want = {.name = "a", .node_id = "i"};
    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        json_t *obj = parse(same[i]);
        assert_int_equal(cr_csinode_match_driver(obj, &want), CR_DRIVER_EQUAL);
        json_decref(obj);
    }
    json_t *obj = parse(ENTRY("\"nodeID\":\"i\",\"allocatable\":{\"count\":0}"));
    assert_int_equal(cr_csinode_match_driver(obj, &want), CR_DRIVER_COUNT_DIFFERS);
    assert_string_equal(cr_csinode_driver_node_id(obj, "a"), "i");
    assert_null(cr_csinode_driver_node_id(obj, "b"));
    json_decref(obj);
    obj = parse(ENTRY("\"nodeID\":7"));
    assert_string_equal(cr_csinode_driver_node_id(obj, "a"), "");
    json_decref(obj);
}

static void test_put_refuses_immutable_changes(void **state)
{
    struct cr_csinode_driver want = {.name = "a", .node_id = "other"};
    json_t *obj = parse(ENTRY("\"nodeID\":\"i\"")), *before = json_deep_copy(obj);
    (void)state;
    assert_int_equal(cr_csinode_put_driver(obj, &want), CSIREG_ERR_INVALID);
    assert_true(json_equal(obj, before));
    json_decref(obj);
    json_decref(before);
}

static void test_match_registration(void **state)
{
    json_t *obj = parse("{\"spec\":{\"driverRegistrations\":[{\"name\":\"b\"},{\"name\":\"a\",\"nodeID\":\"i\"}]}}");
    json_t *none = parse("{\"spec\":{\"drivers\":[{\"name\":\"a\",\"nodeID\":\"i\"}]}}");
    (void)state;
    assert_int_equal(cr_csinode_match_registration(obj, "a", "i"), CR_REGISTRATION_EQUAL);
    assert_int_equal(cr_csinode_match_registration(obj, "a", "j"), CR_REGISTRATION_DIFFERS);
    assert_int_equal(cr_csinode_match_registration(obj, "b", "i"), CR_REGISTRATION_DIFFERS);
    assert_int_equal(cr_csinode_match_registration(obj, "c", "i"), CR_REGISTRATION_ABSENT);
    assert_int_equal(cr_csinode_match_registration(none, "a", "i"), CR_REGISTRATION_ABSENT);
    json_decref(obj);
    json_decref(none);
}

/* ---- owner ---- */

#define OWNERS(list) "{\"metadata\":{\"ownerReferences\":" list "}}"
#define REF(kind, version, name, uid)                                                                                  \
    "{\"kind\":\"" kind "\",\"apiVersion\":\"" version "\",\"name\":\"" name "\",\"uid\":\"" uid "\"}"

static const struct {
    const char *object;
    enum cr_owner owner;
} owners[] = {
    {"{}", CR_OWNER_MISSING},
    {OWNERS("null"), CR_OWNER_MISSING},
    {OWNERS("[]"), CR_OWNER_MISSING},
    {OWNERS("[" REF("Pod", "v1", "n1", "u") "]"), CR_OWNER_MISSING},
    {OWNERS("[" REF("Node", "example.com/v1", "n1", "u") "]"), CR_OWNER_MISSING},
    {OWNERS("[" REF("Node", "v1", "n1", "u") "]"), CR_OWNER_OK},
    {OWNERS("[" REF("Node", "v1", "n1", "old") "]"), CR_OWNER_STALE},
    {OWNERS("[" REF("Node", "v1", "n2", "u") "]"), CR_OWNER_STALE},
    {OWNERS("[" REF("Pod", "v1", "p", "q") "," REF("Node", "v1", "n1", "old") "]"), CR_OWNER_STALE},
    {OWNERS("[" REF("Node", "v1", "n1", "old") "," REF("Node", "v1", "n1", "u") "]"), CR_OWNER_OK},
    {OWNERS("[{\"kind\":\"Node\",\"apiVersion\":\"v1\"}]"), CR_OWNER_STALE},
};

static void test_owner(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        json_t *obj = parse(owners[i].object);
        if (cr_csinode_owner(obj, "n1", "u") != owners[i].owner) fail_msg("%s", owners[i].object);
        json_decref(obj);
    }
    json_t *made = cr_csinode_new("n1", "u", NULL, 0);
    assert_int_equal(cr_csinode_owner(made, "n1", "u"), CR_OWNER_OK);
    json_decref(made);
}

/* ---- check ---- */

#define META "\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"resourceVersion\":\"1\"}"

static const struct {
    const char *object, *fault; /* fault NULL: fine */
} checks[] = {
    {"{\"kind\":\"CSINode\"," META ",\"spec\":{\"drivers\":[],\"driverRegistrations\":[{}]}}", NULL},
    {"{\"kind\":\"CSINode\"," META ",\"spec\":{\"drivers\":null,\"driverRegistrations\":null}}", NULL},
    {"{\"kind\":\"CSINode\"," META ",\"spec\":null}", NULL},
    {"{\"kind\":\"CSINode\"," META "}", NULL},
    {"{\"kind\":\"CSINode\"," META ",\"spec\":{\"drivers\":[{\"name\":1,\"topologyKeys\":2}]}}", NULL},
    {"{\"kind\":\"Node\"," META "}", "kind"},
    {"{" META "}", "kind"},
    {"[]", "kind"},
    {"null", "kind"},
    {"{\"kind\":\"CSINode\"}", "name"},
    {"{\"kind\":\"CSINode\",\"metadata\":[]}", "name"},
    {"{\"kind\":\"CSINode\",\"metadata\":{\"name\":\"n2\",\"uid\":\"u\",\"resourceVersion\":\"1\"}}", "name"},
    {"{\"kind\":\"CSINode\",\"metadata\":{\"name\":\"n1\\u0000\",\"uid\":\"u\",\"resourceVersion\":\"1\"}}", "name"},
    {"{\"kind\":\"CSINode\",\"metadata\":{\"name\":\"n1\",\"resourceVersion\":\"1\"}}", "metadata.uid"},
    {"{\"kind\":\"CSINode\",\"metadata\":{\"name\":\"n1\",\"uid\":\"\",\"resourceVersion\":\"1\"}}", "metadata.uid"},
    {"{\"kind\":\"CSINode\",\"metadata\":{\"name\":\"n1\",\"uid\":\"u\"}}", "metadata.resourceVersion"},
    {"{\"kind\":\"CSINode\",\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"resourceVersion\":1}}",
     "metadata.resourceVersion"},
    {"{\"kind\":\"CSINode\",\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"resourceVersion\":\"1\",\"annotations\":[]}}",
     "metadata.annotations"},
    {"{\"kind\":\"CSINode\",\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"resourceVersion\":\"1\","
     "\"ownerReferences\":{}}}",
     "metadata.ownerReferences"},
    {"{\"kind\":\"CSINode\",\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"resourceVersion\":\"1\","
     "\"ownerReferences\":[\"x\"]}}",
     "metadata.ownerReferences"},
    {"{\"kind\":\"CSINode\"," META ",\"spec\":[]}", "spec is"},
    {"{\"kind\":\"CSINode\"," META ",\"spec\":{\"drivers\":{}}}", "spec.drivers"},
    {"{\"kind\":\"CSINode\"," META ",\"spec\":{\"drivers\":[{},null]}}", "spec.drivers"},
    {"{\"kind\":\"CSINode\"," META ",\"spec\":{\"drivers\":[\"a\"]}}", "spec.drivers"},
    {"{\"kind\":\"CSINode\"," META ",\"spec\":{\"driverRegistrations\":\"a\"}}", "spec.driverRegistrations"},
    {"{\"kind\":\"CSINode\"," META ",\"spec\":{\"driverRegistrations\":[[]]}}", "spec.driverRegistrations"},
};

static void test_check(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        struct csireg_error *e = NULL;
        json_t *obj = parse(checks[i].object);
        int rc = cr_csinode_check(obj, "n1", &e);
        if (rc != (checks[i].fault ? CSIREG_ERR_REFUSED : 0)) fail_msg("%s", checks[i].object);
        if (rc && !strstr(csireg_error_message(e), checks[i].fault)) fail_msg("%s", csireg_error_message(e));
        assert_false(csireg_error_retryable(e));
        csireg_error_free(e);
        json_decref(obj);
    }
}

static void test_uid_and_version(void **state)
{
    json_t *obj = parse("{" META "}"), *made = cr_csinode_new("n1", "u", NULL, 0);
    (void)state;
    assert_string_equal(cr_csinode_uid(obj), "u");
    assert_string_equal(cr_csinode_resource_version(obj), "1");
    assert_null(cr_csinode_uid(made));
    assert_null(cr_csinode_resource_version(made));
    json_decref(obj);
    json_decref(made);
}

static void test_names(void **state)
{
    json_t *obj = parse("{\"spec\":{\"drivers\":[{\"name\":\"b\"},{\"name\":\"a\"},{},{\"name\":\"b\"},{\"name\":1}],"
                        "\"driverRegistrations\":[{\"name\":\"c\"},{\"name\":\"a\"}]}}");
    json_t *names = cr_csinode_names(obj), *expected = parse("[\"b\",\"a\",\"c\"]"), *none = parse("{}");
    json_t *nothing = cr_csinode_names(none);
    (void)state;
    assert_true(json_equal(names, expected));
    assert_int_equal(json_array_size(nothing), 0);
    json_decref(obj);
    json_decref(names);
    json_decref(expected);
    json_decref(none);
    json_decref(nothing);
}

/* ---- the limit ---- */

static const struct {
    int64_t limit;
    bool has_count, warns;
    int32_t count;
} limits[] = {
    {0, false, false, 0},
    {1, true, false, 1},
    {23, true, false, 23},
    {INT32_MAX, true, false, INT32_MAX},
    {(int64_t)INT32_MAX + 1, true, true, INT32_MAX},
    {INT64_MAX, true, true, INT32_MAX},
    {-1, false, true, 0},
    {INT64_MIN, false, true, 0},
};

static void test_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        bool has_count = !limits[i].has_count;
        int32_t count = -7;
        char *warning = NULL;
        assert_int_equal(cr_csinode_count_from_limit(limits[i].limit, &has_count, &count, &warning), 0);
        assert_int_equal(has_count, limits[i].has_count);
        if (has_count) assert_int_equal(count, limits[i].count);
        assert_int_equal(warning != NULL, limits[i].warns);
        cr_free(warning);
    }
    char *warning = NULL;
    bool has_count;
    int32_t count;
    cr_csinode_count_from_limit(-5, &has_count, &count, &warning);
    assert_non_null(strstr(warning, "-5"));
    cr_free(warning);
}

/* ---- short of memory ---- */

static bool edit_all(json_t *obj)
{
    const char *const keys[] = {"x", "y"}, *const plugins[] = {"b", "a"};
    struct cr_csinode_driver added = {"n", "i", keys, 2, true, 10}, edited = {"a", "i", NULL, 0, true, 3},
                             cleared = {.name = "a", .node_id = "i"};
    return cr_csinode_put_driver(obj, &added) == 0 && cr_csinode_put_driver(obj, &edited) == 0 &&
           cr_csinode_put_driver(obj, &cleared) == 0 && cr_csinode_put_registration(obj, "n", "i") == 0 &&
           cr_csinode_put_registration(obj, "n", "j") == 0 && cr_csinode_add_owner(obj, "n1", "u") == 0 &&
           cr_csinode_set_migrated(obj, plugins, 2) == 0 && cr_csinode_remove_driver(obj, "n") == 0 &&
           cr_csinode_remove_registration(obj, "n") == 0;
}

static bool edit_under_pressure(void)
{
    const char *const plugins[] = {"b", "a"};
    json_t *obj = json_loads("{\"metadata\":{},\"spec\":{\"drivers\":[{\"name\":\"a\",\"nodeID\":\"i\"}]}}", 0, NULL);
    bool ok = obj && edit_all(obj);
    json_t *made = ok ? cr_csinode_new("n1", "u", plugins, 2) : NULL, *names = made ? cr_csinode_names(obj) : NULL;
    char *text = names ? cr_csinode_text(obj) : NULL, *warning = NULL;
    bool has_count;
    int32_t count;
    int rc = cr_csinode_count_from_limit(-1, &has_count, &count, &warning);
    if (text) assert_non_null(strstr(text, "\"spec\":{\"drivers\":[{\"name\":\"a\",\"nodeID\":\"i\"}]}"));
    assert_int_equal(rc, warning ? 0 : CSIREG_ERR_NOMEM);
    ok = text && warning;
    json_decref(obj);
    json_decref(made);
    json_decref(names);
    cr_free(text);
    cr_free(warning);
    return ok;
}

static void test_oom(void **state)
{
    (void)state;
    oom_run(edit_under_pressure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_match_driver),
        cmocka_unit_test(test_match_without_keys_and_count),
        cmocka_unit_test(test_put_refuses_immutable_changes),
        cmocka_unit_test(test_match_registration),
        cmocka_unit_test(test_owner),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_uid_and_version),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_oom),
    };
    return cmocka_run_group_tests_name("csinode", tests, NULL, NULL);
}
