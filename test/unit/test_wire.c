/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "wire/check.h"
#include "wire/csi.pb-c.h"
#include "wire/registration.pb-c.h"
#include "wire/wire.h"
#include "wire_bytes.h"

/* ---- decoding and what is expected of it ---- */

static struct cr_rpc_result decode_raw(enum cr_rpc_method method, bool flag, const void *data, size_t len)
{
    struct cr_rpc_result r = {0};
    uint8_t *exact = len ? malloc(len) : NULL; /* so that ASan sees a read past the end */
    if (len) memcpy(exact, data, len);
    cr_wire_decode_answer(method, flag, exact, len, &r);
    free(exact);
    return r;
}

static struct cr_rpc_result decode(enum cr_rpc_method method, bool flag, struct cr_buf *b)
{
    struct cr_rpc_result r = decode_raw(method, flag, cr_buf_str(b), b->len);
    cr_buf_free(b);
    return r;
}

static void assert_good(struct cr_rpc_result *r)
{
    if (r->code != 0) fail_msg("code %d: %s", r->code, r->text ? r->text : "");
    assert_false(r->refused);
    cr_rpc_result_fini(r);
}

static void assert_refused(struct cr_rpc_result r, const char *part)
{
    assert_int_equal(r.code, CR_GRPC_INTERNAL);
    assert_true(r.refused);
    if (!r.text || !strstr(r.text, part)) fail_msg("'%s' is not in '%s'", part, r.text ? r.text : "(none)");
    assert_null(r.plugin.name);
    assert_null(r.capabilities.types);
    assert_null(r.node.node_id);
    cr_rpc_result_fini(&r);
}

static void assert_raw_refused(enum cr_rpc_method method, const char *data, size_t len, const char *part)
{
    assert_refused(decode_raw(method, false, data, len), part);
}

/* ---- requests ---- */

static void assert_request(enum cr_rpc_method method, bool flag, const char *error, const char *want, size_t len)
{
    uint8_t out[CR_WIRE_MAX_REQUEST];
    assert_int_equal(cr_wire_encode_request(method, flag, error, out), len);
    assert_memory_equal(out, want, len);
}

static void requests_have_exactly_the_bytes_of_the_contract(void **state)
{
    (void)state;
    assert_request(CR_RPC_GET_INFO, false, NULL, RAW(""));
    assert_request(CR_RPC_NODE_GET_CAPABILITIES, false, NULL, RAW(""));
    assert_request(CR_RPC_NODE_GET_INFO, false, NULL, RAW(""));
    assert_request(CR_RPC_NODE_GET_INFO, true, NULL, RAW("\x08\x01"));
    assert_request(CR_RPC_NOTIFY, true, NULL, RAW("\x08\x01"));
    assert_request(CR_RPC_NOTIFY, false, "bad",
                   RAW("\x12\x03"
                       "bad"));
}

static void notify_text_is_cut_and_cleaned(void **state)
{
    char longest[4096];
    uint8_t out[CR_WIRE_MAX_REQUEST];
    (void)state;
    longest[0] = 'x';
    for (size_t i = 1; i + 2 < sizeof longest; i += 2) memcpy(longest + i, "\xc3\xa9", 3);
    size_t len = cr_wire_encode_request(CR_RPC_NOTIFY, false, longest, out);
    assert_int_equal(len, 3 + 1023); /* one more byte would cut a character */
    assert_true(cr_utf8_valid((const char *)out + 3, 1023));
    assert_request(CR_RPC_NOTIFY, false, "a\xff\nb",
                   RAW("\x12\x04"
                       "a??b"));
}

static void method_names(void **state)
{
    (void)state;
    assert_string_equal(cr_wire_method_name(CR_RPC_GET_INFO), "/pluginregistration.Registration/GetInfo");
    assert_string_equal(cr_wire_method_name(CR_RPC_NOTIFY),
                        "/pluginregistration.Registration/NotifyRegistrationStatus");
    assert_string_equal(cr_wire_method_name(CR_RPC_NODE_GET_CAPABILITIES), "/csi.v1.Node/NodeGetCapabilities");
    assert_string_equal(cr_wire_method_name(CR_RPC_NODE_GET_INFO), "/csi.v1.Node/NodeGetInfo");
}

/* ---- GetInfo and protobuf in general ---- */

static void plugin_info_is_read(void **state)
{
    struct cr_buf b = wire_start();
    (void)state;
    wire_text(&b, 4, "1.0.0");
    wire_text(&b, 1, "CSIPlugin");
    wire_text(&b, 2, "a.example.com");
    wire_text(&b, 3, "/run/\xc3\xa9 a.sock");
    wire_text(&b, 4, "v1.1");
    struct cr_rpc_result r = decode(CR_RPC_GET_INFO, false, &b);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.plugin.type, "CSIPlugin");
    assert_string_equal(r.plugin.name, "a.example.com");
    assert_string_equal(r.plugin.endpoint, "/run/\xc3\xa9 a.sock");
    assert_int_equal(r.plugin.n_versions, 2);
    assert_string_equal(r.plugin.versions[0], "1.0.0");
    assert_string_equal(r.plugin.versions[1], "v1.1");
    assert_null(r.plugin.versions[2]);
    cr_rpc_result_fini(&r);
}

static void generated_code_and_decoder_agree(void **state)
{
    char *versions[] = {"1.0.0", "1.2.0"};
    uint8_t packed[256];
    Pluginregistration__PluginInfo info = PLUGINREGISTRATION__PLUGIN_INFO__INIT;
    (void)state;
    info.type = "CSIPlugin";
    info.name = "b.example.com";
    info.supported_versions = versions;
    info.n_supported_versions = 2;
    size_t len = pluginregistration__plugin_info__pack(&info, packed);
    struct cr_rpc_result r = decode_raw(CR_RPC_GET_INFO, false, packed, len);
    assert_string_equal(r.plugin.name, "b.example.com");
    assert_string_equal(r.plugin.versions[1], "1.2.0");
    assert_good(&r);
}

static void empty_messages_are_valid(void **state)
{
    (void)state;
    struct cr_rpc_result r = decode_raw(CR_RPC_GET_INFO, false, NULL, 0);
    assert_string_equal(r.plugin.type, "");
    assert_string_equal(r.plugin.endpoint, "");
    assert_int_equal(r.plugin.n_versions, 0);
    assert_non_null(r.plugin.versions);
    assert_good(&r);
    r = decode_raw(CR_RPC_NOTIFY, false, NULL, 0);
    assert_good(&r);
    r = decode_raw(CR_RPC_NODE_GET_CAPABILITIES, false, NULL, 0);
    assert_int_equal(r.capabilities.n_types, 0);
    assert_good(&r);
    r = decode_raw(CR_RPC_NODE_GET_INFO, true, NULL, 0);
    assert_string_equal(r.node.node_id, "");
    assert_good(&r);
}

static void unknown_fields_of_every_type_are_skipped(void **state)
{
    struct cr_buf b = wire_start();
    (void)state;
    wire_number(&b, 100, UINT64_MAX);
    wire_text(&b, 101, "\xff not text");
    cr_buf_append(&b, RAW("\xb1\x06"
                          "8 bytes!")); /* field 102, fixed64 */
    cr_buf_append(&b, RAW("\xbd\x06"
                          "4by!")); /* field 103, fixed32 */
    wire_text(&b, 2, "n");
    wire_bytes(&b, (1u << 29) - 1, "", 0);
    struct cr_rpc_result r = decode(CR_RPC_GET_INFO, false, &b);
    assert_string_equal(r.plugin.name, "n");
    assert_good(&r);
}

static void the_last_of_repeated_singular_fields_wins(void **state)
{
    struct cr_buf b = wire_start();
    (void)state;
    wire_text(&b, 2, "first");
    wire_text(&b, 2, "second");
    struct cr_rpc_result r = decode(CR_RPC_GET_INFO, false, &b);
    assert_string_equal(r.plugin.name, "second");
    assert_good(&r);
}

static void malformed_messages_are_refused(void **state)
{
    static const struct {
        const char *data;
        size_t len;
    } cases[] = {
        {RAW("\x12")}, /* a tag and no more */
        {RAW("\x12\x05"
             "abc")},                                                  /* string cut short */
        {RAW("\x12\xff\xff\xff\xff\x0f")},                             /* length 4 GiB */
        {RAW("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")},         /* length 2^64 - 1 */
        {RAW("\x02\x01x")},                                            /* field number 0 */
        {RAW("\x13\x14")},                                             /* group */
        {RAW("\xa3\x06\xa4\x06")},                                     /* unknown group */
        {RAW("\x16")},                                                 /* wire type 6 */
        {RAW("\x17")},                                                 /* wire type 7 */
        {RAW("\xa0\x06\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")}, /* unknown varint of 11 bytes */
        {RAW("\xa0\x06\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02")},     /* more than 64 bits */
        {RAW("\x92\x80\x80\x80\x10\x01x")},                            /* field number past 2^29 - 1 */
        {RAW("\xa1\x06"
             "7 bytes")},
        {RAW("\xa5\x06"
             "3by")},
        {RAW("HTTP/1.1 400 Bad Request\r\n")},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_raw_refused(CR_RPC_GET_INFO, cases[i].data, cases[i].len, "not a protobuf message");
    assert_raw_refused(CR_RPC_NOTIFY, RAW("\x02"), "not a protobuf message");
}

static void a_cut_message_is_whole_or_refused(void **state)
{
    struct cr_buf b = wire_start();
    size_t accepted = 0;
    (void)state;
    wire_text(&b, 1, "CSIPlugin");
    wire_text(&b, 2, "name");
    wire_text(&b, 4, "1.0.0");
    for (size_t len = 0; len <= b.len; len++) {
        struct cr_rpc_result r = decode_raw(CR_RPC_GET_INFO, false, cr_buf_str(&b), len);
        accepted += r.code == 0;
        assert_true(r.code == 0 || r.refused);
        cr_rpc_result_fini(&r);
    }
    assert_int_equal(accepted, 4); /* at the borders of the fields only */
    cr_buf_free(&b);
}

static void wrong_wire_types_are_refused(void **state)
{
    (void)state;
    assert_raw_refused(CR_RPC_GET_INFO, RAW("\x10\x01"), "field name has the wrong wire type");
    assert_raw_refused(CR_RPC_GET_INFO, RAW("\x25xxxx"), "field supported_versions has the wrong wire type");
    assert_raw_refused(CR_RPC_NODE_GET_CAPABILITIES, RAW("\x08\x09"), "field capabilities");
    assert_raw_refused(CR_RPC_NODE_GET_CAPABILITIES, RAW("\x0a\x04\x0a\x02\x0a\x00"), "field type");
    assert_raw_refused(CR_RPC_NODE_GET_INFO, RAW("\x12\x01\x05"), "field max_volumes_per_node");
    assert_raw_refused(CR_RPC_NODE_GET_INFO, RAW("\x1a\x02\x08\x01"), "field segments");
}

/* protobuf-c takes a bool as length-delimited. */
static void a_bool_as_bytes_is_refused(void **state)
{
    static const struct cr_wire_plan plan = {.descriptor = &csi__v1__probe_response__descriptor};
    char why[128] = "";
    (void)state;
    assert_true(cr_wire_check(&plan, NULL, (const uint8_t *)"\x0a\x02\x08\x01", 4, why, sizeof why));
    assert_false(cr_wire_check(&plan, NULL, (const uint8_t *)"\x0a\x03\x0a\x01\x01", 5, why, sizeof why));
    assert_string_equal(why, "field value has the wrong wire type");
}

static void bad_text_is_refused_in_used_fields(void **state)
{
    static const char *const bad[] = {
        "\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\x80"};
    static const char *const names[] = {"type", "name", "endpoint", "supported_versions"};
    (void)state;
    for (unsigned field = 1; field <= 4; field++) {
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            struct cr_buf b = wire_start();
            wire_text(&b, field, bad[i]);
            assert_refused(decode(CR_RPC_GET_INFO, false, &b), "is not valid UTF-8");
        }
        struct cr_buf b = wire_start();
        wire_bytes(&b, field, "a\0b", 3);
        struct cr_rpc_result r = decode(CR_RPC_GET_INFO, false, &b);
        assert_non_null(strstr(r.text, names[field - 1]));
        assert_refused(r, "has a NUL byte");
    }
}

static void the_longest_text_passes_and_one_more_byte_does_not(void **state)
{
    static const struct {
        unsigned field;
        size_t max;
        const char *refusal;
    } cases[] = {{1, 64, "field type has 65 bytes, more than 64"},
                 {2, 253, "field name has 254 bytes, more than 253"},
                 {3, 4095, "field endpoint has 4096 bytes, more than 4095"},
                 {4, 64, "field supported_versions has 65 bytes, more than 64"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cr_buf b = wire_start();
        wire_fill(&b, cases[i].field, cases[i].max);
        struct cr_rpc_result r = decode(CR_RPC_GET_INFO, false, &b);
        assert_good(&r);
        b = wire_start();
        wire_fill(&b, cases[i].field, cases[i].max + 1);
        assert_refused(decode(CR_RPC_GET_INFO, false, &b), cases[i].refusal);
    }
}

static struct cr_rpc_result with_versions(size_t n)
{
    struct cr_buf b = wire_start();
    for (size_t i = 0; i < n; i++) wire_text(&b, 4, "1.0");
    return decode(CR_RPC_GET_INFO, false, &b);
}

static void sixty_four_versions_pass(void **state)
{
    (void)state;
    struct cr_rpc_result r = with_versions(64);
    assert_int_equal(r.plugin.n_versions, 64);
    assert_good(&r);
    assert_refused(with_versions(65), "field supported_versions has more than 64 items");
}

static void an_oversized_message_is_refused(void **state)
{
    struct cr_buf b = wire_start();
    (void)state;
    wire_fill(&b, 100, CR_MAX_RPC_MESSAGE);
    assert_refused(decode(CR_RPC_GET_INFO, false, &b), "more than 65536");
}

/* ---- NodeGetCapabilities ---- */

static void capability(struct cr_buf *b, uint64_t type)
{
    struct cr_buf rpc = wire_start(), entry = wire_start();
    wire_number(&rpc, 1, type);
    wire_message(&entry, 1, &rpc);
    wire_message(b, 1, &entry);
}

static void capabilities_keep_what_was_received(void **state)
{
    static const int32_t want[] = {1, 9, -1, 9, 2147483647, 7};
    struct cr_buf b = wire_start(), other = wire_start();
    (void)state;
    capability(&b, 1);
    capability(&b, 9);
    capability(&b, UINT64_MAX);              /* -1 as ten bytes */
    capability(&b, 0);                       /* UNKNOWN is left out */
    wire_bytes(&b, 1, "", 0);                /* no rpc */
    wire_text(&other, 2, "some other kind"); /* another member of the oneof */
    wire_message(&b, 1, &other);
    wire_bytes(&b, 1, RAW("\x0a\x00")); /* rpc without a type */
    capability(&b, 9);
    capability(&b, 2147483647);
    wire_bytes(&b, 1, RAW("\x0a\x02\x08\x01\x0a\x02\x08\x07")); /* rpc given twice */
    struct cr_rpc_result r = decode(CR_RPC_NODE_GET_CAPABILITIES, false, &b);
    assert_int_equal(r.code, 0);
    assert_int_equal(r.capabilities.n_types, sizeof want / sizeof *want);
    assert_memory_equal(r.capabilities.types, want, sizeof want);
    cr_rpc_result_fini(&r);
}

static struct cr_rpc_result with_capabilities(size_t n)
{
    struct cr_buf b = wire_start();
    for (size_t i = 0; i < n; i++) capability(&b, 9);
    return decode(CR_RPC_NODE_GET_CAPABILITIES, false, &b);
}

static void a_thousand_and_twenty_four_capabilities_pass(void **state)
{
    (void)state;
    struct cr_rpc_result r = with_capabilities(1024);
    assert_int_equal(r.capabilities.n_types, 1024);
    assert_good(&r);
    assert_refused(with_capabilities(1025), "field capabilities has more than 1024 items");
}

/* ---- NodeGetInfo ---- */

static void segment(struct cr_buf *topology, const char *key, const char *value)
{
    struct cr_buf entry = wire_start();
    if (key) wire_text(&entry, 1, key);
    if (value) wire_text(&entry, 2, value);
    wire_message(topology, 1, &entry);
}

static void assert_segment(const struct cr_rpc_result *r, size_t i, const char *key, const char *value)
{
    assert_true(i < r->node.n_segments);
    assert_string_equal(r->node.segments[i].key, key);
    assert_string_equal(r->node.segments[i].value, value);
}

static void topology_is_sorted_and_the_last_value_wins(void **state)
{
    struct cr_buf b = wire_start(), first = wire_start(), second = wire_start();
    (void)state;
    wire_text(&b, 1, "node-1");
    segment(&first, "zone", "z1");
    segment(&first, "Zone", "upper");
    segment(&first, "\xc3\xa9", "after ASCII");
    segment(&first, "zone", "z2");
    wire_message(&b, 3, &first);
    segment(&second, NULL, "value alone");
    segment(&second, "key alone", NULL);
    segment(&second, "Zone", "merged");
    wire_message(&b, 3, &second);
    struct cr_rpc_result r = decode(CR_RPC_NODE_GET_INFO, false, &b);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.node.node_id, "node-1");
    assert_int_equal(r.node.n_segments, 5);
    assert_segment(&r, 0, "", "value alone");
    assert_segment(&r, 1, "Zone", "merged");
    assert_segment(&r, 2, "key alone", "");
    assert_segment(&r, 3, "zone", "z2");
    assert_segment(&r, 4, "\xc3\xa9", "after ASCII");
    cr_rpc_result_fini(&r);
}

static void the_limit_is_read_in_full(void **state)
{
    static const int64_t limits[] = {0, 1, -1, 2147483648, INT64_MAX, INT64_MIN};
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct cr_buf b = wire_start();
        wire_number(&b, 2, (uint64_t)limits[i]);
        struct cr_rpc_result r = decode(CR_RPC_NODE_GET_INFO, false, &b);
        assert_true(r.node.max_volumes == limits[i]);
        assert_good(&r);
    }
}

static struct cr_rpc_result with_segments(size_t n, bool flag)
{
    struct cr_buf b = wire_start(), topology = wire_start();
    for (size_t i = 0; i < n; i++) {
        char key[16];
        snprintf(key, sizeof key, "%zu", i);
        segment(&topology, key, "");
    }
    wire_text(&b, 1, "id");
    wire_message(&b, 3, &topology);
    return decode(CR_RPC_NODE_GET_INFO, flag, &b);
}

static void a_hundred_and_twenty_eight_segments_pass(void **state)
{
    (void)state;
    struct cr_rpc_result r = with_segments(128, false);
    assert_int_equal(r.node.n_segments, 128);
    assert_good(&r);
    assert_refused(with_segments(129, false), "field segments has more than 128 items");
    assert_refused(with_segments(5000, false), "field segments has more than 128 items");
}

static void bad_text_in_topology_is_refused(void **state)
{
    static const char *const wire[] = {"\x0a\x01\xff", "\x12\x01\xff", "\x0a\x01\x00", "\x12\x01\x00"};
    (void)state;
    for (size_t i = 0; i < sizeof wire / sizeof *wire; i++) {
        struct cr_buf b = wire_start(), topology = wire_start();
        wire_bytes(&topology, 1, wire[i], 3);
        wire_message(&b, 3, &topology);
        assert_refused(decode(CR_RPC_NODE_GET_INFO, false, &b), i % 2 ? "field value" : "field key");
    }
}

static void a_flagged_answer_is_read_for_its_node_id_alone(void **state)
{
    struct cr_buf b = wire_start(), topology = wire_start();
    (void)state;
    wire_text(&b, 1, "id");
    wire_number(&b, 2, 39);
    segment(&topology, "\xff", "a\tb");
    wire_message(&b, 3, &topology);
    struct cr_rpc_result r = decode(CR_RPC_NODE_GET_INFO, true, &b);
    assert_string_equal(r.node.node_id, "id");
    assert_int_equal(r.node.max_volumes, 0);
    assert_int_equal(r.node.n_segments, 0);
    assert_null(r.node.segments);
    assert_good(&r);
    r = with_segments(2000, true);
    assert_good(&r);
    assert_refused(decode_raw(CR_RPC_NODE_GET_INFO, true, RAW("\x0a\x01\xff")), "field node_id");
    assert_refused(decode_raw(CR_RPC_NODE_GET_INFO, true, RAW("\x1a\x02\x0a\x05")), "not a protobuf message");
}

/* ---- memory ---- */

/* 2 bytes of an unknown field cost far more than 16 times as much when protobuf-c keeps them. */
static void a_message_that_would_swell_is_refused(void **state)
{
    struct cr_buf b = wire_start();
    (void)state;
    while (b.len + 2 <= CR_MAX_RPC_MESSAGE) wire_bytes(&b, 15, "", 0);
    cr_mem_fail_after(0);
    struct cr_rpc_result r = decode(CR_RPC_GET_INFO, false, &b);
    assert_true(cr_mem_count() < 8);
    assert_refused(r, "too much memory");
}

static struct cr_rpc_result decode_anything(enum cr_rpc_method method)
{
    struct cr_rpc_result r = {0};
    static const char plugin[] = "\x0a\x01t\x12\x01n\x1a\x01/\x22\x01v\x22\x01w";
    static const char caps[] = "\x0a\x04\x0a\x02\x08\x09";
    static const char node[] = "\x0a\x01i\x1a\x15\x0a\x06\x0a\x01k\x12\x01v\x0a\x06\x0a\x01j\x12\x01v\x0a\x03\x0a\x01k";
    const char *data[] = {NULL, plugin, "", caps, node};
    const size_t len[] = {0, sizeof plugin - 1, 0, sizeof caps - 1, sizeof node - 1};
    cr_wire_decode_answer(method, false, (const uint8_t *)data[method], len[method], &r);
    return r;
}

static void short_memory_is_an_error_but_no_refusal(void **state)
{
    (void)state;
    for (int method = CR_RPC_GET_INFO; method <= CR_RPC_NODE_GET_INFO; method++) {
        bool failed = true;
        for (unsigned long n = 1; failed; n++) {
            cr_mem_fail_after(n);
            struct cr_rpc_result r = decode_anything((enum cr_rpc_method)method);
            cr_mem_fail_after(0);
            failed = r.code != 0;
            assert_false(r.refused);
            if (failed) assert_int_equal(r.code, CR_GRPC_INTERNAL);
            cr_rpc_result_fini(&r);
            assert_true(n < 50);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_have_exactly_the_bytes_of_the_contract),
        cmocka_unit_test(notify_text_is_cut_and_cleaned),
        cmocka_unit_test(method_names),
        cmocka_unit_test(plugin_info_is_read),
        cmocka_unit_test(generated_code_and_decoder_agree),
        cmocka_unit_test(empty_messages_are_valid),
        cmocka_unit_test(unknown_fields_of_every_type_are_skipped),
        cmocka_unit_test(the_last_of_repeated_singular_fields_wins),
        cmocka_unit_test(malformed_messages_are_refused),
        cmocka_unit_test(a_cut_message_is_whole_or_refused),
        cmocka_unit_test(wrong_wire_types_are_refused),
        cmocka_unit_test(a_bool_as_bytes_is_refused),
        cmocka_unit_test(bad_text_is_refused_in_used_fields),
        cmocka_unit_test(the_longest_text_passes_and_one_more_byte_does_not),
        cmocka_unit_test(sixty_four_versions_pass),
        cmocka_unit_test(an_oversized_message_is_refused),
        cmocka_unit_test(capabilities_keep_what_was_received),
        cmocka_unit_test(a_thousand_and_twenty_four_capabilities_pass),
        cmocka_unit_test(topology_is_sorted_and_the_last_value_wins),
        cmocka_unit_test(the_limit_is_read_in_full),
        cmocka_unit_test(a_hundred_and_twenty_eight_segments_pass),
        cmocka_unit_test(bad_text_in_topology_is_refused),
        cmocka_unit_test(a_flagged_answer_is_read_for_its_node_id_alone),
        cmocka_unit_test(a_message_that_would_swell_is_refused),
        cmocka_unit_test(short_memory_is_an_error_but_no_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
