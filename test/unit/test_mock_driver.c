/* SPDX-License-Identifier: Apache-2.0 */
/* What csireg-mock-driver makes of its command line, and the bytes that it answers. */
#include "mock-driver/answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "wire/csi.pb-c.h"
#include "wire/registration.pb-c.h"

#define MAX_WORDS 24

/* words: the command line after the program, NULL at the end. */
static int read_words(struct config *c, char *const *words)
{
    char *argv[MAX_WORDS + 2] = {(char *)"csireg-mock-driver"};
    int argc = 1;
    while (words[argc - 1]) {
        assert_true(argc <= MAX_WORDS);
        argv[argc] = words[argc - 1];
        argc++;
    }
    return config_read(c, argc, argv);
}

#define READ(c, ...) read_words((c), (char *[]){__VA_ARGS__, NULL})

static void expect_bytes(const struct bytes *b, const void *expected, size_t len)
{
    assert_int_equal(b->len, len);
    assert_memory_equal(b->data, expected, len);
}

static void test_plugin_info(void **state)
{
    (void)state;
    struct config c;
    struct bytes b;
    assert_int_equal(READ(&c, "--name", "d%d.x.io", "--endpoint", "unix:///s/%d.sock", "--versions", "1.0.0,1.2.0"),
                     -1);
    answer_build(&c, 7, MOCK_GET_INFO, 1, false, &b);
    Pluginregistration__PluginInfo *m = pluginregistration__plugin_info__unpack(NULL, b.len, b.data);
    assert_non_null(m);
    assert_string_equal(m->type, "CSIPlugin");
    assert_string_equal(m->name, "d7.x.io");
    assert_string_equal(m->endpoint, "/s/7.sock");
    assert_int_equal(m->n_supported_versions, 2);
    assert_string_equal(m->supported_versions[1], "1.2.0");
    pluginregistration__plugin_info__free_unpacked(m, NULL);
    bytes_fini(&b);
    config_fini(&c);
}

static void test_shared_socket_reports_no_endpoint(void **state)
{
    (void)state;
    struct config c;
    struct bytes b;
    assert_int_equal(READ(&c, "--registration-socket", "/r.sock", "--versions=", "--plugin-type=", "--name=n"), -1);
    answer_build(&c, 0, MOCK_GET_INFO, 1, false, &b);
    expect_bytes(&b, "\x12\x01n", 3);
    bytes_fini(&b);
    config_fini(&c);
}

static void test_node_info(void **state)
{
    (void)state;
    struct config c;
    struct bytes b;
    assert_int_equal(READ(&c, "--endpoint=/e", "--limit=-2", "--node-id=n1", "--topology=a/b=c", "--topology-count=2"),
                     -1);
    answer_build(&c, 0, MOCK_NODE_GET_INFO, 1, true, &b);
    Csi__V1__NodeGetInfoResponse *m = csi__v1__node_get_info_response__unpack(NULL, b.len, b.data);
    assert_non_null(m);
    assert_string_equal(m->node_id, "n1");
    assert_int_equal(m->max_volumes_per_node, -2);
    assert_int_equal(m->accessible_topology->n_segments, 3);
    assert_string_equal(m->accessible_topology->segments[0]->key, "a/b");
    assert_string_equal(m->accessible_topology->segments[0]->value, "c");
    csi__v1__node_get_info_response__free_unpacked(m, NULL);
    bytes_fini(&b);
    config_fini(&c);
}

static void test_any_bytes(void **state)
{
    (void)state;
    struct config c;
    struct bytes b;
    assert_int_equal(READ(&c, "--endpoint=/e", "--node-id=hex:6e00Ff", "--topology=hex:6b=hex:00"), -1);
    answer_build(&c, 0, MOCK_NODE_GET_INFO, 1, false, &b);
    expect_bytes(&b, "\x0a\x03n\x00\xff\x1a\x08\x0a\x06\x0a\x01k\x12\x01\x00", 15);
    bytes_fini(&b);
    config_fini(&c);
}

static void test_sequences(void **state)
{
    (void)state;
    struct config c;
    assert_int_equal(READ(&c, "--endpoint=/e", "--node-id-sequence=a,b", "--limit-sequence=1,2,3"), -1);
    static const char *const expected[] = {"\x0a\x01"
                                           "a\x10\x01",
                                           "\x0a\x01"
                                           "b\x10\x02",
                                           "\x0a\x01"
                                           "b\x10\x03",
                                           "\x0a\x01"
                                           "b\x10\x03"};
    for (int i = 0; i < 4; i++) {
        struct bytes b;
        answer_build(&c, 0, MOCK_NODE_GET_INFO, i + 1, false, &b);
        expect_bytes(&b, expected[i], 5);
        bytes_fini(&b);
    }
    config_fini(&c);
}

static void test_flag_honoured(void **state)
{
    (void)state;
    struct config c;
    struct bytes b;
    assert_int_equal(READ(&c, "--endpoint=/e", "--node-id=n", "--limit=4", "--honour-flag"), -1);
    answer_build(&c, 0, MOCK_NODE_GET_INFO, 1, true, &b);
    expect_bytes(&b, "\x0a\x01n", 3);
    bytes_fini(&b);
    answer_build(&c, 0, MOCK_NODE_GET_INFO, 2, false, &b);
    expect_bytes(&b, "\x0a\x01n\x10\x04", 5);
    bytes_fini(&b);
    config_fini(&c);
}

static void test_capabilities(void **state)
{
    (void)state;
    struct config c;
    struct bytes b;
    assert_int_equal(READ(&c, "--endpoint=/e", "--capabilities=0,9,-1"), -1);
    answer_build(&c, 0, MOCK_NODE_GET_CAPABILITIES, 1, false, &b);
    Csi__V1__NodeGetCapabilitiesResponse *m = csi__v1__node_get_capabilities_response__unpack(NULL, b.len, b.data);
    assert_non_null(m);
    assert_int_equal(m->n_capabilities, 3);
    assert_int_equal(m->capabilities[0]->rpc->type, 0);
    assert_int_equal(m->capabilities[1]->rpc->type, 9);
    assert_int_equal((int)m->capabilities[2]->rpc->type, -1);
    csi__v1__node_get_capabilities_response__free_unpacked(m, NULL);
    bytes_fini(&b);
    config_fini(&c);
}

static void test_probe(void **state)
{
    (void)state;
    static const struct {
        char *flag;
        const char *bytes;
        size_t len;
    } rows[] = {
        {"--probe=ready", "\x0a\x02\x08\x01", 4}, {"--probe=not-ready", "\x0a\x00", 2}, {"--probe=absent", "", 0}};
    for (size_t i = 0; i < 3; i++) {
        struct config c;
        struct bytes b;
        assert_int_equal(READ(&c, "--endpoint=/e", rows[i].flag), -1);
        answer_build(&c, 0, MOCK_PROBE, 1, false, &b);
        expect_bytes(&b, rows[i].bytes, rows[i].len);
        bytes_fini(&b);
        config_fini(&c);
    }
}

static void test_raw_and_padding(void **state)
{
    (void)state;
    struct config c;
    struct bytes b;
    assert_int_equal(READ(&c, "--endpoint=/e", "--response-hex=NodeGetInfo=ff00",
                          "--response-hex=Probe=", "--padding=GetPluginCapabilities=5000000"),
                     -1);
    answer_build(&c, 0, MOCK_NODE_GET_INFO, 1, false, &b);
    expect_bytes(&b, "\xff\x00", 2);
    bytes_fini(&b);
    answer_build(&c, 0, MOCK_PROBE, 1, false, &b);
    assert_int_equal(b.len, 0);
    bytes_fini(&b);
    answer_build(&c, 0, MOCK_GET_PLUGIN_CAPABILITIES, 1, false, &b);
    assert_true(b.len > 5000000);
    Csi__V1__GetPluginCapabilitiesResponse *m = csi__v1__get_plugin_capabilities_response__unpack(NULL, b.len, b.data);
    assert_non_null(m);
    csi__v1__get_plugin_capabilities_response__free_unpacked(m, NULL);
    bytes_fini(&b);
    config_fini(&c);
}

static void test_scripts(void **state)
{
    (void)state;
    struct config c;
    assert_int_equal(READ(&c, "--endpoint=/e", "--delay=GetInfo=1m30s", "--error=Probe=9:no, not: now",
                          "--hang=NodeGetInfo", "--hang=NodeGetCapabilities=2", "--fail-first=GetPluginInfo=3",
                          "--fail-first=NodeGetCapabilities=4:13:x"),
                     -1);
    assert_int_equal(c.scripts[MOCK_GET_INFO].delay_ms, 90000);
    assert_int_equal(c.scripts[MOCK_PROBE].code, 9);
    assert_string_equal(c.scripts[MOCK_PROBE].text, "no, not: now");
    assert_int_equal(c.scripts[MOCK_NODE_GET_INFO].hang_until, INT64_MAX);
    assert_int_equal(c.scripts[MOCK_NODE_GET_CAPABILITIES].hang_until, 2);
    assert_int_equal(c.scripts[MOCK_NODE_GET_CAPABILITIES].fail_until, 4);
    assert_int_equal(c.scripts[MOCK_NODE_GET_CAPABILITIES].fail_code, 13);
    assert_int_equal(c.scripts[MOCK_GET_PLUGIN_INFO].fail_until, 3);
    assert_int_equal(c.scripts[MOCK_GET_PLUGIN_INFO].fail_code, 14);
    config_fini(&c);
}

static void test_bad_usage(void **state)
{
    (void)state;
    static char *const bad[] = {"--delay=GetInfo=5",
                                "--delay=Get=5s",
                                "--delay=GetInfo",
                                "--error=Probe",
                                "--error=Probe=x",
                                "--error=Probe=1x",
                                "--hang=Probe=x",
                                "--hang=probe",
                                "--fail-first=Probe",
                                "--fail-first=Probe=-1",
                                "--padding=Probe=-1",
                                "--response-hex=Probe=0",
                                "--response-hex=Probe=zz",
                                "--node-id=hex:0",
                                "--topology=a",
                                "--capabilities=x",
                                "--limit-sequence=1,x",
                                "--count=2",
                                "--capabilities=2147483648"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct config c;
        int code = READ(&c, "--endpoint=/e", bad[i]);
        config_fini(&c);
        if (code != FLAGS_BAD_USAGE) fail_msg("%s was taken", bad[i]);
    }
    struct config c;
    assert_int_equal(READ(&c, "--name=a"), FLAGS_BAD_USAGE);
    config_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plugin_info),     cmocka_unit_test(test_shared_socket_reports_no_endpoint),
        cmocka_unit_test(test_node_info),       cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_sequences),       cmocka_unit_test(test_flag_honoured),
        cmocka_unit_test(test_capabilities),    cmocka_unit_test(test_probe),
        cmocka_unit_test(test_raw_and_padding), cmocka_unit_test(test_scripts),
        cmocka_unit_test(test_bad_usage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
