/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer that breaks the rules can do to a call: it ends with the right code, and memory stays bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/bounds.h"
#include "base/rng.h"
#include "grpc_peer.h"
#include "rpc_rig.h"

static struct cr_rpc_result get_info_from(struct rpc_rig *r, peer_script *script, const void *arg, int64_t timeout_ms)
{
    struct peer *p = peer_start(r->path, script, arg);
    struct cr_rpc_result result = rpc_rig_get_info(r, timeout_ms);
    peer_wait_ended(p, 1); /* the connection is closed */
    peer_stop(p);
    return result;
}

static void silent(struct peer_conn *c, const void *arg)
{
    (void)arg;
    peer_drain(c);
}

static void say_and_wait(struct peer_conn *c, const void *arg)
{
    if (peer_write(c, arg, strlen(arg))) peer_drain(c);
}

static void close_at_once(struct peer_conn *c, const void *arg)
{
    (void)c;
    (void)arg;
}

static void close_after_request(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c)) peer_request(c);
}

static void settings_and_silence(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c)) peer_drain(c);
}

static void settings_and_garbage(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c) && peer_request(c) && peer_write(c, "\xff\xff\xff\xff\xff\xff\xff\xff\xff garbage", 17))
        peer_drain(c);
}

static void half_a_frame(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c) && peer_request(c) && peer_write(c, "\x00\x00\x20\x00", 4)) peer_drain(c);
}

static void reset(struct peer_conn *c, const void *arg)
{
    if (peer_settings(c) && peer_request(c) && peer_frame(c, H2_RST_STREAM, 0, c->stream, arg, 4)) peer_drain(c);
}

static void goaway(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c) && peer_request(c) && peer_frame(c, H2_GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8)) peer_drain(c);
}

/* arg: fields of a single HEADERS frame that ends the stream */
static void headers_alone(struct peer_conn *c, const void *arg)
{
    if (peer_settings(c) && peer_request(c) && peer_headers(c, true, arg)) peer_drain(c);
}

/* Whether the bytes, the end or the call comes first is chance; each of these codes is class T. */
#define BROKEN (-1)

static bool is_code(int got, int want)
{
    if (want != BROKEN) return got == want;
    return got == CR_GRPC_UNKNOWN || got == CR_GRPC_INTERNAL || got == CR_GRPC_UNAVAILABLE;
}

static void peers_without_an_answer(void **state)
{
    static const struct {
        const char *name;
        peer_script *script;
        const void *arg;
        int64_t timeout_ms;
        int code;
    } cases[] = {
        {"silence", silent, NULL, SHORT_MS, CR_GRPC_DEADLINE_EXCEEDED},
        {"silence after SETTINGS", settings_and_silence, NULL, SHORT_MS, CR_GRPC_DEADLINE_EXCEEDED},
        {"half a frame", half_a_frame, NULL, SHORT_MS, CR_GRPC_DEADLINE_EXCEEDED},
        {"garbage", say_and_wait, "this is no HTTP/2 at all, is it?", LONG_MS, BROKEN},
        {"HTTP/1.1", say_and_wait, "HTTP/1.1 400 Bad Request\r\n\r\n", LONG_MS, BROKEN},
        {"close at once", close_at_once, NULL, LONG_MS, BROKEN},
        {"close after the request", close_after_request, NULL, LONG_MS, CR_GRPC_UNAVAILABLE},
        {"garbage after SETTINGS", settings_and_garbage, NULL, LONG_MS, CR_GRPC_UNKNOWN},
        {"GOAWAY", goaway, NULL, LONG_MS, CR_GRPC_UNAVAILABLE},
        {"RST_STREAM 0", reset, "\0\0\0\x00", LONG_MS, CR_GRPC_INTERNAL},
        {"RST_STREAM 2", reset, "\0\0\0\x02", LONG_MS, CR_GRPC_INTERNAL},
        {"RST_STREAM 7", reset, "\0\0\0\x07", LONG_MS, CR_GRPC_UNAVAILABLE},
        {"RST_STREAM 8", reset, "\0\0\0\x08", LONG_MS, CR_GRPC_CANCELLED},
        {"RST_STREAM 11", reset, "\0\0\0\x0b", LONG_MS, CR_GRPC_RESOURCE_EXHAUSTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cr_rpc_result result = get_info_from(*state, cases[i].script, cases[i].arg, cases[i].timeout_ms);
        if (!is_code(result.code, cases[i].code)) fail_msg("%s: code %d %s", cases[i].name, result.code, result.text);
        assert_rpc_code(result, result.code);
    }
}

#define GRPC_HEADERS ":status", "200", "content-type", "application/grpc"

static void answers_of_headers_alone(void **state)
{
    static char huge[12 * 1024 + 1];
    memset(huge, 'x', sizeof huge - 1);
    const struct {
        int code;
        const char *fields[9];
    } cases[] = {
        {CR_GRPC_UNKNOWN, {GRPC_HEADERS}}, /* aborts a client that lets gRPC retry */
        {CR_GRPC_UNKNOWN, {GRPC_HEADERS, "grpc-status", "99"}},
        {CR_GRPC_UNKNOWN, {GRPC_HEADERS, "grpc-status", "17"}},
        {16, {GRPC_HEADERS, "grpc-status", "16"}},
        {CR_GRPC_INTERNAL, {GRPC_HEADERS, "grpc-status", "0"}}, /* OK without a message */
        {CR_GRPC_UNAVAILABLE, {":status", "503", "content-type", "text/plain"}},
        {CR_GRPC_UNKNOWN, {":status", "200", "content-type", "text/html"}},
        {CR_GRPC_RESOURCE_EXHAUSTED, {GRPC_HEADERS, "grpc-status", "1", "big", huge}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cr_rpc_result result = get_info_from(*state, headers_alone, cases[i].fields, LONG_MS);
        if (result.code != cases[i].code) fail_msg("case %zu: code %d %s", i, result.code, result.text);
        assert_rpc_code(result, cases[i].code);
    }
}

static void the_text_of_a_peer_is_cleaned_and_cut(void **state)
{
    static char long_text[5001];
    memset(long_text, 'x', sizeof long_text - 1);
    const char *odd[] = {GRPC_HEADERS, "grpc-status", "3", "grpc-message", "a%ff%00%0a\xc3\xa9", NULL};
    const char *long_one[] = {GRPC_HEADERS, "grpc-status", "3", "grpc-message", long_text, NULL};
    struct cr_rpc_result result = get_info_from(*state, headers_alone, odd, LONG_MS);
    assert_string_equal(result.text, "a???\xc3\xa9");
    assert_rpc_code(result, 3);
    result = get_info_from(*state, headers_alone, long_one, LONG_MS);
    assert_int_equal(strlen(result.text), CR_MAX_GRPC_MESSAGE);
    assert_rpc_code(result, 3);
}

#define GOOD                                                                                                           \
    "\x0a\x09"                                                                                                         \
    "CSIPlugin"                                                                                                        \
    "\x12\x01"                                                                                                         \
    "n"

static void no_message(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c) && peer_request(c) && peer_begin(c) && peer_finish(c, "0", NULL)) peer_drain(c);
}

static void cut_message(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c) && peer_request(c) && peer_begin(c) && peer_data(c, "\0\0\0\0\x0e" GOOD, 10, false) &&
        peer_finish(c, "0", NULL))
        peer_drain(c);
}

static void no_trailers(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c) && peer_request(c) && peer_begin(c) && peer_message(c, GOOD, sizeof GOOD - 1) &&
        peer_frame(c, H2_DATA, H2_END_STREAM, c->stream, NULL, 0))
        peer_drain(c);
}

static void message_and_error(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c) && peer_request(c) && peer_begin(c) && peer_message(c, GOOD, sizeof GOOD - 1) &&
        peer_finish(c, "5", "not here"))
        peer_drain(c);
}

static void two_messages(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c) && peer_request(c) && peer_begin(c) && peer_message(c, GOOD, sizeof GOOD - 1) &&
        peer_message(c, GOOD, sizeof GOOD - 1) && peer_finish(c, "0", NULL))
        peer_drain(c);
}

static void odd_messages(void **state)
{
    assert_rpc_code(get_info_from(*state, peer_good, NULL, LONG_MS), 0);
    struct cr_rpc_result result = get_info_from(*state, no_message, NULL, LONG_MS);
    assert_string_equal(result.text, "no response message");
    assert_rpc_code(result, CR_GRPC_INTERNAL);
    assert_rpc_code(get_info_from(*state, cut_message, NULL, LONG_MS), CR_GRPC_INTERNAL);
    result = get_info_from(*state, no_trailers, NULL, LONG_MS);
    assert_null(result.plugin.name); /* a body came, but the status decides */
    assert_rpc_code(result, CR_GRPC_UNKNOWN);
    result = get_info_from(*state, message_and_error, NULL, LONG_MS);
    assert_null(result.plugin.name);
    assert_string_equal(result.text, "not here");
    assert_rpc_code(result, 5);
    assert_rpc_code(get_info_from(*state, two_messages, NULL, SHORT_MS), CR_GRPC_DEADLINE_EXCEEDED);
}

static void empty_message(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c) && peer_request(c) && peer_begin(c) && peer_message(c, "", 0) && peer_finish(c, "0", NULL))
        peer_drain(c);
}

static void an_empty_message_is_a_message(void **state)
{
    struct cr_rpc_result result = get_info_from(*state, empty_message, NULL, LONG_MS);
    assert_string_equal(result.plugin.type, "");
    assert_rpc_code(result, 0);
}

static void bad_text(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c) && peer_request(c) && peer_begin(c) &&
        peer_message(c,
                     "\x12\x03"
                     "a\0b",
                     5) &&
        peer_finish(c, "0", NULL))
        peer_drain(c);
}

static void a_refused_message_says_why(void **state)
{
    struct cr_rpc_result result = get_info_from(*state, bad_text, NULL, LONG_MS);
    assert_int_equal(result.code, CR_GRPC_INTERNAL);
    assert_true(result.refused);
    assert_string_equal(result.text, "answer refused: field name has a NUL byte");
    cr_rpc_result_fini(&result);
}

/* ---- memory ---- */

static long status_kb(const char *name)
{
    char line[128];
    long kb = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0) kb = strtol(line + strlen(name), NULL, 10);
    if (f) fclose(f);
    return kb;
}

static void forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) skip();
    fputs("5", f);
    fclose(f);
}

/* arg: size of the one message that is promised and sent */
static void flood(struct peer_conn *c, const void *arg)
{
    static const char chunk[16384];
    size_t size = *(const size_t *)arg;
    const uint8_t prefix[5] = {0, (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size};
    if (!peer_settings(c) || !peer_request(c) || !peer_begin(c) || !peer_data(c, prefix, sizeof prefix, false)) return;
    while (size > 0 && peer_data(c, chunk, size < sizeof chunk ? size : sizeof chunk, false))
        size -= size < sizeof chunk ? size : sizeof chunk;
    if (size == 0) peer_finish(c, "0", NULL);
    peer_drain(c);
}

static void huge_answers_cost_little_memory(void **state)
{
    static const size_t sizes[] = {CR_MAX_RPC_MESSAGE + 1, 5 << 20, 50 << 20};
    for (size_t i = 0; i < 3; i++) {
        forget_peak();
        long before = status_kb("VmRSS:");
        struct cr_rpc_result result = get_info_from(*state, flood, &sizes[i], LONG_MS);
        assert_true(status_kb("VmHWM:") - before < 8 * 1024);
        assert_non_null(strstr(result.text, "65536"));
        assert_rpc_code(result, CR_GRPC_RESOURCE_EXHAUSTED);
    }
}

struct bomb {
    uint8_t data[128 * 1024];
    size_t len;
};

static void make_bomb(struct bomb *b)
{
    static uint8_t zeros[1 << 16];
    z_stream z = {.next_out = b->data + 5, .avail_out = sizeof b->data - 5};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    for (int i = 0; i < 60 * 16; i++) {
        z.next_in = zeros;
        z.avail_in = sizeof zeros;
        assert_int_equal(deflate(&z, Z_NO_FLUSH), Z_OK);
    }
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = z.total_out;
    memcpy(b->data, (uint8_t[]){1, 0, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n}, 5);
    b->len = n + 5;
    deflateEnd(&z);
}

static void send_bomb(struct peer_conn *c, const void *arg)
{
    const struct bomb *b = arg;
    const char *const fields[] = {GRPC_HEADERS, "grpc-encoding", "gzip", NULL};
    if (peer_settings(c) && peer_request(c) && peer_headers(c, false, fields) && peer_data(c, b->data, b->len, false) &&
        peer_finish(c, "0", NULL))
        peer_drain(c);
}

static void compressed_answers_are_not_inflated(void **state)
{
    static struct bomb bomb;
    make_bomb(&bomb);
    forget_peak();
    long before = status_kb("VmRSS:");
    struct cr_rpc_result result = get_info_from(*state, send_bomb, &bomb, LONG_MS);
    assert_true(status_kb("VmHWM:") - before < 8 * 1024);
    assert_rpc_code(result, CR_GRPC_UNIMPLEMENTED);
}

/* Whatever comes after a correct start, the call ends and nothing breaks. */
static void random_frames(struct peer_conn *c, const void *arg)
{
    struct cr_rng rng = {.state = *(const uint64_t *)arg};
    uint8_t payload[64];
    if (!peer_settings(c) || !peer_request(c)) return;
    if (cr_rng_below(&rng, 2)) peer_begin(c);
    for (int i = 0; i < 20; i++) {
        size_t len = cr_rng_below(&rng, sizeof payload);
        for (size_t k = 0; k < len; k++) payload[k] = (uint8_t)cr_rng_below(&rng, 256);
        uint8_t type = (uint8_t)cr_rng_below(&rng, 11), flags = (uint8_t)cr_rng_below(&rng, 256);
        uint32_t stream = cr_rng_below(&rng, 3) ? c->stream : (uint32_t)cr_rng_below(&rng, 4);
        if (!peer_frame(c, type, flags, stream, payload, len)) break;
    }
}

static void random_frames_end_in_an_error(void **state)
{
    struct rpc_rig *r = *state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct cr_rpc_result result = get_info_from(r, random_frames, &seed, LONG_MS);
        if (result.code == 0) fail_msg("seed %lu was taken for an answer", (unsigned long)seed);
        cr_rpc_result_fini(&result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_without_an_answer),
        cmocka_unit_test(answers_of_headers_alone),
        cmocka_unit_test(the_text_of_a_peer_is_cleaned_and_cut),
        cmocka_unit_test(odd_messages),
        cmocka_unit_test(an_empty_message_is_a_message),
        cmocka_unit_test(a_refused_message_says_why),
        cmocka_unit_test(huge_answers_cost_little_memory),
        cmocka_unit_test(compressed_answers_are_not_inflated),
        cmocka_unit_test(random_frames_end_in_an_error),
    };
    return cmocka_run_group_tests(tests, rpc_rig_setup, rpc_rig_teardown);
}
