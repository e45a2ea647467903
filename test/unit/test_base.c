/* SPDX-License-Identifier: Apache-2.0 */
/* lib/base: list, buffer, UTF-8, memory, errors, clock, messages. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bounds.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/messages.h"
#include "base/rng.h"
#include "base/utf8.h"

/* ---- list ---- */

struct item {
    int value;
    struct cr_list node;
};

static void a_list_is_first_in_first_out(void **state)
{
    struct item items[3] = {{.value = 1}, {.value = 2}, {.value = 3}};
    struct cr_list head;
    int next = 1;
    (void)state;
    cr_list_init(&head);
    assert_null(cr_list_pop(&head));
    for (int i = 0; i < 3; i++) cr_list_append(&head, &items[i].node);
    CR_LIST_FOREACH (it, &head) assert_int_equal(CR_CONTAINER(it, struct item, node)->value, next++);
    for (int i = 0; i < 3; i++) assert_ptr_equal(cr_list_pop(&head), &items[i].node);
    assert_true(cr_list_empty(&head));
}

static void a_node_may_leave_from_the_middle_and_twice(void **state)
{
    struct item items[3] = {{.value = 1}, {.value = 2}, {.value = 3}};
    struct cr_list head;
    (void)state;
    cr_list_init(&head);
    for (int i = 0; i < 3; i++) cr_list_append(&head, &items[i].node);
    cr_list_remove(&items[1].node);
    cr_list_remove(&items[1].node);
    assert_ptr_equal(head.next, &items[0].node);
    assert_ptr_equal(items[0].node.next, &items[2].node);
    CR_LIST_FOREACH_SAFE (it, &head) cr_list_remove(it);
    assert_true(cr_list_empty(&head));
}

/* ---- buffer ---- */

static void a_buffer_grows_to_its_maximum_and_not_past_it(void **state)
{
    struct cr_buf b;
    (void)state;
    cr_buf_init(&b, 200);
    assert_string_equal(cr_buf_str(&b), "");
    for (int i = 0; i < 20; i++) assert_true(cr_buf_puts(&b, "0123456789"));
    assert_int_equal(b.len, 200);
    assert_true(cr_buf_append(&b, NULL, 0));
    assert_false(cr_buf_puts(&b, "x"));
    assert_true(b.failed);
    assert_int_equal(b.len, 200);
    assert_null(cr_buf_take(&b));
    assert_null(b.data);
    assert_false(b.failed);
}

static void a_buffer_prints_and_is_taken(void **state)
{
    struct cr_buf b;
    (void)state;
    cr_buf_init(&b, 16);
    assert_true(cr_buf_printf(&b, "%s-%d", "node", 7));
    assert_string_equal(cr_buf_str(&b), "node-7");
    assert_false(cr_buf_printf(&b, "%s", "far too long for it"));
    assert_string_equal(cr_buf_str(&b), "node-7");
    cr_buf_reset(&b);
    assert_false(b.failed);
    assert_true(cr_buf_append(&b, "a\0b", 3));
    assert_int_equal(b.len, 3);
    char *taken = cr_buf_take(&b);
    assert_memory_equal(taken, "a\0b", 4);
    cr_free(taken);
    taken = cr_buf_take(&b);
    assert_string_equal(taken, "");
    cr_free(taken);
}

static void a_buffer_survives_short_memory(void **state)
{
    struct cr_buf b;
    (void)state;
    cr_buf_init(&b, 1000);
    assert_true(cr_buf_puts(&b, "kept"));
    cr_mem_fail_after(1);
    for (int i = 0; i < 100 && !b.failed; i++) cr_buf_puts(&b, "0123456789");
    cr_mem_fail_after(0);
    assert_true(b.failed);
    assert_memory_equal(cr_buf_str(&b), "kept0123", 8);
    cr_buf_free(&b);
}

/* ---- UTF-8 ---- */

static void utf8_is_told_from_other_bytes(void **state)
{
    static const char *const good[] = {"",
                                       "a",
                                       "\x7f",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf",
                                      "\xe2\x82",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xf8\x88\x80\x80\x80",
                                      "\xff",
                                      "a\xc3z"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(cr_utf8_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(cr_utf8_valid(bad[i], strlen(bad[i])));
    assert_false(cr_utf8_valid("a\0b", 3));
}

static void a_cut_never_splits_a_character(void **state)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"; /* of 1, 2, 3, 4 and 1 bytes */
    static const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    (void)state;
    for (size_t max = 0; max < sizeof want / sizeof *want; max++) assert_int_equal(cr_utf8_cut(text, max), want[max]);
}

static void a_cut_drops_a_broken_tail(void **state)
{
    (void)state;
    assert_int_equal(cr_utf8_cut("ab\xe2\x82", 4), 2);
    assert_int_equal(cr_utf8_cut("\x80\x80\x80\x80\x80\x80", 6) < 6, 1);
    assert_int_equal(cr_utf8_cut("a\xff", 2), 1);
}

static void sanitising_leaves_printable_text(void **state)
{
    char text[] = "a\0\n\x1f\x7f\xc3\xa9\xff\xe2\x82z";
    (void)state;
    cr_utf8_sanitise(text, sizeof text - 1);
    assert_string_equal(text, "a????\xc3\xa9???z");
}

/* Whatever the bytes: what sanitising leaves is valid, and what a cut leaves of valid text is valid. */
static void sanitised_and_cut_text_is_valid(void **state)
{
    struct cr_rng rng = {.state = 1};
    (void)state;
    for (int round = 0; round < 2000; round++) {
        char text[24];
        for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(cr_rng_below(&rng, 2) ? cr_rng_next(&rng) : 0xe2);
        cr_utf8_sanitise(text, sizeof text);
        assert_true(cr_utf8_valid(text, sizeof text));
        size_t max = (size_t)cr_rng_below(&rng, sizeof text), cut = cr_utf8_cut(text, max);
        assert_true(cut <= max && max - cut < 4);
        assert_true(cr_utf8_valid(text, cut));
    }
}

/* ---- memory ---- */

static void sizes_that_overflow_are_refused(void **state)
{
    const size_t volatile huge = SIZE_MAX / 2;
    (void)state;
    assert_null(cr_calloc(huge, 4));
    assert_null(cr_realloc_array(NULL, huge, 4));
}

static void copies_of_strings(void **state)
{
    const char *const list[] = {"a", "bc"};
    (void)state;
    assert_null(cr_strdup(NULL));
    assert_null(cr_strndup(NULL, 3));
    char *cut = cr_strndup("abcdef", 3), *whole = cr_strndup("ab", 10);
    assert_string_equal(cut, "abc");
    assert_string_equal(whole, "ab");
    cr_free(cut);
    cr_free(whole);
    char **copy = cr_strv_dup(list, 2);
    assert_string_equal(copy[1], "bc");
    assert_null(copy[2]);
    cr_strv_free(copy);
    cr_strv_free(NULL);
}

static void the_nth_allocation_fails_and_all_after_it(void **state)
{
    const char *const list[] = {"a", "bc"};
    (void)state;
    cr_mem_fail_after(2);
    char *first = cr_strdup("x");
    assert_non_null(first);
    assert_null(cr_strdup("y"));
    assert_null(cr_calloc(1, 1));
    assert_int_equal(cr_mem_count(), 3);
    for (unsigned long n = 1; n <= 3; n++) {
        cr_mem_fail_after(n);
        assert_null(cr_strv_dup(list, 2));
    }
    cr_mem_fail_after(0);
    cr_free(first);
}

/* ---- errors ---- */

static void an_error_says_what_it_was_given(void **state)
{
    struct csireg_error *e = cr_error_new(CSIREG_ERR_RPC, "step %d failed", 3);
    (void)state;
    cr_error_set_origin(e, CSIREG_ORIGIN_GRPC, 14);
    cr_error_set_retryable(e, true);
    cr_error_set_step(e, "GetInfo");
    cr_error_set_driver(e, "a.example.com");
    cr_error_prefix(e, "socket %s", "/x");
    struct csireg_error *copy = cr_error_copy(e);
    csireg_error_free(e);
    assert_int_equal(csireg_error_code(copy), CSIREG_ERR_RPC);
    assert_int_equal(csireg_error_origin(copy), CSIREG_ORIGIN_GRPC);
    assert_int_equal(csireg_error_number(copy), 14);
    assert_true(csireg_error_retryable(copy));
    assert_string_equal(csireg_error_step(copy), "GetInfo");
    assert_string_equal(csireg_error_driver(copy), "a.example.com");
    assert_string_equal(csireg_error_message(copy), "socket /x: step 3 failed");
    csireg_error_free(copy);
}

static void no_error_reads_as_ok(void **state)
{
    (void)state;
    assert_int_equal(csireg_error_code(NULL), CSIREG_OK);
    assert_int_equal(csireg_error_origin(NULL), CSIREG_ORIGIN_NONE);
    assert_int_equal(csireg_error_number(NULL), 0);
    assert_false(csireg_error_retryable(NULL));
    assert_string_equal(csireg_error_message(NULL), "");
    assert_string_equal(csireg_error_step(NULL), "");
    assert_string_equal(csireg_error_driver(NULL), "");
    assert_null(cr_error_copy(NULL));
    csireg_error_free(NULL);
}

static void an_errno_is_told_in_words_and_number(void **state)
{
    struct csireg_error *e = cr_error_os(ENOENT, "open %s", "/x");
    (void)state;
    assert_int_equal(csireg_error_code(e), CSIREG_ERR_SYSTEM);
    assert_int_equal(csireg_error_origin(e), CSIREG_ORIGIN_OS);
    assert_int_equal(csireg_error_number(e), ENOENT);
    assert_string_equal(csireg_error_message(e), "open /x: No such file or directory");
    csireg_error_free(e);
}

static void long_messages_are_cut_at_a_character(void **state)
{
    char text[3 * CR_MAX_ERROR_TEXT];
    (void)state;
    for (size_t i = 0; i + 1 < sizeof text; i += 2) memcpy(text + i, "\xc3\xa9", 2);
    text[sizeof text - 1] = text[sizeof text - 2] = '\0';
    struct csireg_error *e = cr_error_new(CSIREG_ERR_API, "x%s", text);
    assert_int_equal(strlen(csireg_error_message(e)), CR_MAX_ERROR_TEXT - 1);
    assert_true(cr_utf8_valid(csireg_error_message(e), CR_MAX_ERROR_TEXT - 1));
    cr_error_prefix(e, "%s", text);
    assert_true(strlen(csireg_error_message(e)) <= CR_MAX_ERROR_TEXT);
    assert_true(cr_utf8_valid(csireg_error_message(e), strlen(csireg_error_message(e))));
    csireg_error_free(e);
}

static void the_out_of_memory_error_needs_no_memory(void **state)
{
    (void)state;
    for (unsigned long n = 1; n <= 2; n++) {
        cr_mem_fail_after(n);
        struct csireg_error *e = cr_error_new(CSIREG_ERR_API, "text");
        cr_mem_fail_after(0);
        assert_ptr_equal(e, cr_error_oom());
        cr_error_set_origin(e, CSIREG_ORIGIN_OS, 1);
        cr_error_set_retryable(e, false);
        cr_error_set_step(e, "step");
        cr_error_set_driver(e, "driver");
        cr_error_prefix(e, "context");
        assert_ptr_equal(cr_error_copy(e), e);
        assert_int_equal(csireg_error_code(e), CSIREG_ERR_NOMEM);
        assert_int_equal(csireg_error_number(e), 0);
        assert_true(csireg_error_retryable(e));
        assert_string_equal(csireg_error_message(e), "out of memory");
        assert_string_equal(csireg_error_step(e), "");
        csireg_error_free(e);
    }
}

static void a_detail_that_finds_no_memory_leaves_the_old_one(void **state)
{
    struct csireg_error *e = cr_error_new(CSIREG_ERR_API, "text");
    (void)state;
    cr_error_set_step(e, "old");
    cr_mem_fail_after(1);
    cr_error_set_step(e, "new");
    cr_error_prefix(e, "context");
    cr_mem_fail_after(0);
    assert_string_equal(csireg_error_step(e), "old");
    assert_string_equal(csireg_error_message(e), "text");
    csireg_error_free(e);
}

static void the_first_error_wins(void **state)
{
    struct csireg_error *out = NULL;
    (void)state;
    assert_int_equal(cr_error_put(&out, cr_error_new(CSIREG_ERR_API, "first")), CSIREG_ERR_API);
    assert_int_equal(cr_error_put(&out, cr_error_new(CSIREG_ERR_RPC, "second")), CSIREG_ERR_RPC);
    assert_int_equal(cr_error_put(NULL, cr_error_new(CSIREG_ERR_RPC, "third")), CSIREG_ERR_RPC);
    assert_string_equal(csireg_error_message(out), "first");
    csireg_error_free(out);
}

static void every_code_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(csireg_code_name(CSIREG_OK), "OK");
    assert_string_equal(csireg_code_name(CSIREG_ERR_INVALID), "INVALID");
    assert_string_equal(csireg_code_name(CSIREG_ERR_NOT_REGISTERED), "NOT_REGISTERED");
    assert_string_equal(csireg_code_name(CSIREG_ERR_LIMIT), "LIMIT");
    assert_string_equal(csireg_code_name((enum csireg_code)1), "UNKNOWN");
    assert_string_equal(csireg_code_name((enum csireg_code) - 99), "UNKNOWN");
}

/* ---- clock ---- */

static void times_are_written_as_rfc_3339(void **state)
{
    char out[CR_RFC3339_SIZE];
    (void)state;
    cr_clock_rfc3339(0, out);
    assert_string_equal(out, "1970-01-01T00:00:00.000Z");
    cr_clock_rfc3339(1709210096007, out); /* a leap day */
    assert_string_equal(out, "2024-02-29T12:34:56.007Z");
    cr_clock_rfc3339(253402300799999, out);
    assert_string_equal(out, "9999-12-31T23:59:59.999Z");
}

static void the_clock_does_not_run_backwards(void **state)
{
    struct cr_time a = cr_clock_now(), b = cr_clock_now();
    (void)state;
    assert_true(a.mono_ms > 0 && b.mono_ms >= a.mono_ms);
    assert_true(a.wall_ms > 1700000000000);
}

/* ---- messages ---- */

static void emptying_a_result_frees_it_and_may_be_repeated(void **state)
{
    const char *const versions[] = {"1.0.0"};
    struct cr_rpc_result r = {.code = 5, .refused = true, .text = cr_strdup("why")};
    (void)state;
    r.plugin = (struct cr_plugin_info){.type = cr_strdup("t"), .versions = cr_strv_dup(versions, 1), .n_versions = 1};
    r.capabilities = (struct cr_node_capabilities){.types = cr_calloc(2, sizeof(int32_t)), .n_types = 2};
    r.node = (struct cr_node_info){.node_id = cr_strdup("n"), .segments = cr_calloc(1, sizeof(struct cr_pair))};
    r.node.segments[0] = (struct cr_pair){.key = cr_strdup("k"), .value = cr_strdup("v")};
    r.node.n_segments = 1;
    for (int i = 0; i < 2; i++) {
        cr_rpc_result_fini(&r);
        assert_int_equal(r.code, 0);
        assert_false(r.refused);
        assert_null(r.text);
        assert_null(r.plugin.versions);
        assert_int_equal(r.capabilities.n_types, 0);
        assert_int_equal(r.node.n_segments, 0);
    }
}

static void emptying_requests_and_answers(void **state)
{
    struct cr_api_request request = {.verb = "get", .path = cr_strdup("/x"), .body = cr_strdup("{}")};
    struct cr_api_answer answer = {.text = cr_strdup("a"), .warning = cr_strdup("b"), .body = cr_strdup("c")};
    (void)state;
    for (int i = 0; i < 2; i++) {
        cr_api_request_fini(&request);
        cr_api_answer_fini(&answer);
        assert_null(request.path);
        assert_null(request.verb);
        assert_null(answer.body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_first_in_first_out),
        cmocka_unit_test(a_node_may_leave_from_the_middle_and_twice),
        cmocka_unit_test(a_buffer_grows_to_its_maximum_and_not_past_it),
        cmocka_unit_test(a_buffer_prints_and_is_taken),
        cmocka_unit_test(a_buffer_survives_short_memory),
        cmocka_unit_test(utf8_is_told_from_other_bytes),
        cmocka_unit_test(a_cut_never_splits_a_character),
        cmocka_unit_test(a_cut_drops_a_broken_tail),
        cmocka_unit_test(sanitising_leaves_printable_text),
        cmocka_unit_test(sanitised_and_cut_text_is_valid),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(copies_of_strings),
        cmocka_unit_test(the_nth_allocation_fails_and_all_after_it),
        cmocka_unit_test(an_error_says_what_it_was_given),
        cmocka_unit_test(no_error_reads_as_ok),
        cmocka_unit_test(an_errno_is_told_in_words_and_number),
        cmocka_unit_test(long_messages_are_cut_at_a_character),
        cmocka_unit_test(the_out_of_memory_error_needs_no_memory),
        cmocka_unit_test(a_detail_that_finds_no_memory_leaves_the_old_one),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(every_code_has_its_name),
        cmocka_unit_test(times_are_written_as_rfc_3339),
        cmocka_unit_test(the_clock_does_not_run_backwards),
        cmocka_unit_test(emptying_a_result_frees_it_and_may_be_repeated),
        cmocka_unit_test(emptying_requests_and_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
