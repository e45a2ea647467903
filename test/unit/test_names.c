/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "core/names.h"
#include "unit/golden.h"

static char *repeat(char c, size_t n)
{
    char *s = calloc(1, n + 1);
    assert_non_null(s);
    return memset(s, c, n);
}

/* Frees e, which must be a refusal with this part in its message. */
static void assert_refused(int rc, struct csireg_error *e, const char *part)
{
    assert_int_equal(rc, CSIREG_ERR_REFUSED);
    assert_int_equal(csireg_error_code(e), CSIREG_ERR_REFUSED);
    assert_false(csireg_error_retryable(e));
    if (!strstr(csireg_error_message(e), part)) fail_msg("\"%s\" lacks \"%s\"", csireg_error_message(e), part);
    csireg_error_free(e);
}

static const char *const good_drivers[] = {
    "a", "A", "0", "csi.example.com", "CSI.Example.COM", "a-b.c--d", "1.2.3", "ebs.csi.aws.com",
};
static const char *const bad_drivers[] = {
    "-a",  "a-",  ".a",  "a.",       "a..b",  "a.-b", "a-.b",      "a_b",  "a b",           "a/b",
    "a\n", "a:b", "a@b", "\xc3\xa9", "a\xff", "..",   "../../etc", "%s%n", "*.example.com", " a",
};

static void test_driver_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good_drivers / sizeof *good_drivers; i++)
        assert_int_equal(cr_check_driver_name(good_drivers[i], NULL), 0);
    for (size_t i = 0; i < sizeof bad_drivers / sizeof *bad_drivers; i++) {
        struct csireg_error *e = NULL;
        int rc = cr_check_driver_name(bad_drivers[i], &e);
        assert_refused(rc, e, "driver name");
    }
}

static void test_driver_name_length(void **state)
{
    struct csireg_error *e = NULL;
    char *s = repeat('a', 100000);
    (void)state;
    int rc = cr_check_driver_name(s, &e);
    assert_refused(rc, e, "100000 bytes, at most 63");
    s[64] = '\0';
    e = NULL;
    rc = cr_check_driver_name(s, &e);
    assert_refused(rc, e, "64 bytes, at most 63");
    s[63] = '\0';
    assert_int_equal(cr_check_driver_name(s, NULL), 0);
    e = NULL;
    rc = cr_check_driver_name("", &e);
    assert_refused(rc, e, "empty");
    free(s);
}

static void test_messages_are_clean(void **state)
{
    struct csireg_error *e = NULL;
    (void)state;
    assert_int_equal(cr_check_driver_name("bad\n\x1b[31m\xff", &e), CSIREG_ERR_REFUSED);
    assert_non_null(strstr(csireg_error_message(e), "\"bad??[31m?\""));
    csireg_error_free(e);
}

static const struct {
    const char *raw, *registration, *path; /* path NULL: refused */
} endpoints[] = {
    {"", "/reg/a.sock", "/reg/a.sock"},
    {NULL, "/reg/a.sock", "/reg/a.sock"},
    {"/csi/csi.sock", "/reg/a.sock", "/csi/csi.sock"},
    {"/csi/csi.sock", NULL, "/csi/csi.sock"},
    {"unix:/csi/csi.sock", "/r", "/csi/csi.sock"},
    {"unix:///csi/csi.sock", "/r", "/csi/csi.sock"},
    {"unix:////csi", "/r", "//csi"},
    {"/with space/\xc3\xa9", "/r", "/with space/\xc3\xa9"},
    {"/", "/r", "/"},
    {"", NULL, NULL},
    {NULL, NULL, NULL},
    {"csi.sock", "/r", NULL},
    {"./csi.sock", "/r", NULL},
    {"@csi", "/r", NULL},
    {"unix:@csi", "/r", NULL},
    {"unix:csi.sock", "/r", NULL},
    {"unix://csi.sock", "/r", NULL},
    {"unix://host/csi.sock", "/r", NULL},
    {"unix:", "/r", NULL},
    {"unix://", "/r", NULL},
    {"unix-abstract:/csi", "/r", NULL},
    {"UNIX:/csi", "/r", NULL},
    {"tcp://127.0.0.1:1", "/r", NULL},
    {"http://x/", "/r", NULL},
    {"dns:///x", "/r", NULL},
    {"vsock:1:2", "/r", NULL},
    {" /csi", "/r", NULL},
};

static void test_endpoint(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
        struct csireg_error *e = NULL;
        char *path = NULL;
        int rc = cr_check_endpoint(endpoints[i].raw, endpoints[i].registration, &path, &e);
        if (endpoints[i].path) {
            assert_int_equal(rc, 0);
            assert_string_equal(path, endpoints[i].path);
            cr_free(path);
        } else {
            assert_null(path);
            assert_refused(rc, e, "endpoint");
        }
    }
}

static void test_endpoint_length(void **state)
{
    struct csireg_error *e = NULL;
    char *path = NULL, *raw = repeat('x', CR_MAX_PATH + 1);
    (void)state;
    raw[0] = '/';
    int rc = cr_check_endpoint(raw, NULL, &path, &e);
    assert_refused(rc, e, "4096 bytes, at most 4095");
    raw[CR_MAX_PATH] = '\0';
    assert_int_equal(cr_check_endpoint(raw, NULL, &path, NULL), 0);
    assert_string_equal(path, raw);
    cr_free(path);
    free(raw);
}

static void test_node_id(void **state)
{
    struct csireg_error *e = NULL;
    char *id = repeat('i', 257);
    (void)state;
    int rc = cr_check_node_id(id, &e);
    assert_refused(rc, e, "257 bytes, at most 256");
    id[256] = '\0';
    assert_int_equal(cr_check_node_id(id, NULL), 0);
    memcpy(id + 254, "\xc3\xa9", 2); /* bytes count, not characters */
    assert_int_equal(cr_check_node_id(id, NULL), 0);
    e = NULL;
    rc = cr_check_node_id("", &e);
    assert_refused(rc, e, "empty");
    assert_int_equal(cr_check_node_id("vm/7 any text", NULL), 0);
    free(id);
}

#define L63 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"
#define L253                                                                                                           \
    L63 "." L63 "." L63 "."                                                                                            \
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghi"

static const struct {
    const char *text;
    bool qualified, value, subdomain;
} grammar[] = {
    {"", false, true, false},
    {"a", true, true, true},
    {"A", true, true, false},
    {"a_b.c-d", true, true, false},
    {"-a", false, false, false},
    {"a-", false, false, false},
    {"a.", false, false, false},
    {"_a", false, false, false},
    {"a b", false, false, false},
    {"a..b", true, true, false},
    {"a/b", true, false, false},
    {"example.com/zone", true, false, false},
    {"topology.kubernetes.io/zone", true, false, false},
    {"Example.com/zone", false, false, false}, /* a prefix is lower case */
    {"/b", false, false, false},
    {"a/", false, false, false},
    {"a/b/c", false, false, false},
    {"a_b/c", false, false, false},
    {"example..com/c", false, false, false},
    {"example.com/A_b.C", true, false, false},
    {L63, true, true, true},
    {L63 "x", false, false, true},
    {"p/" L63, true, false, false},
    {"p/" L63 "x", false, false, false},
    {L253, false, false, true},
    {L253 "x", false, false, false},
    {L253 "/a", true, false, false},
    {L253 "x/a", false, false, false},
    {"\xc3\xa9", false, false, false},
    {"a\n", false, false, false},
};

static void test_grammar(void **state)
{
    (void)state;
    assert_int_equal(strlen(L253), 253);
    for (size_t i = 0; i < sizeof grammar / sizeof *grammar; i++) {
        const char *s = grammar[i].text;
        if (cr_is_qualified_name(s) != grammar[i].qualified || cr_is_label_value(s) != grammar[i].value ||
            cr_is_dns1123_subdomain(s) != grammar[i].subdomain)
            fail_msg("\"%s\" is judged wrongly", s);
    }
}

static void test_topology(void **state)
{
    struct cr_pair good[] = {{"a/x", ""}, {"b", "Z_1.0"}}, bad_key[] = {{"a/x", "1"}, {"a b", "1"}},
                   bad_value[] = {{"a/x", "no spaces"}}, many[CR_MAX_TOPOLOGY_SEGMENTS + 1];
    struct csireg_error *e = NULL;
    (void)state;
    assert_int_equal(cr_check_topology(NULL, 0, NULL), 0);
    assert_int_equal(cr_check_topology(good, 2, NULL), 0);
    int rc = cr_check_topology(bad_key, 2, &e);
    assert_refused(rc, e, "\"a b\"");
    e = NULL;
    rc = cr_check_topology(bad_value, 1, &e);
    assert_refused(rc, e, "topology key \"a/x\": \"no spaces\"");
    for (size_t i = 0; i <= CR_MAX_TOPOLOGY_SEGMENTS; i++) many[i] = good[0];
    assert_int_equal(cr_check_topology(many, CR_MAX_TOPOLOGY_SEGMENTS, NULL), 0);
    e = NULL;
    rc = cr_check_topology(many, CR_MAX_TOPOLOGY_SEGMENTS + 1, &e);
    assert_refused(rc, e, "129 segments, at most 128");
}

static bool check_under_pressure(void)
{
    struct csireg_error *e = NULL;
    char *path = NULL;
    int refused = cr_check_driver_name("a b", &e), rc = cr_check_endpoint("unix:/a", NULL, &path, NULL);
    assert_true(refused == CSIREG_ERR_REFUSED || refused == CSIREG_ERR_NOMEM);
    assert_int_equal(csireg_error_code(e), refused);
    assert_true(rc == 0 || rc == CSIREG_ERR_NOMEM);
    assert_int_equal(rc == 0, path != NULL);
    cr_free(path);
    csireg_error_free(e);
    return refused == CSIREG_ERR_REFUSED && rc == 0;
}

static void test_oom(void **state)
{
    (void)state;
    oom_run(check_under_pressure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_driver_name),
        cmocka_unit_test(test_driver_name_length),
        cmocka_unit_test(test_messages_are_clean),
        cmocka_unit_test(test_endpoint),
        cmocka_unit_test(test_endpoint_length),
        cmocka_unit_test(test_node_id),
        cmocka_unit_test(test_grammar),
        cmocka_unit_test(test_topology),
        cmocka_unit_test(test_oom),
    };
    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
