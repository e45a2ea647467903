/* SPDX-License-Identifier: Apache-2.0 */
#include "common/flags.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/duration.h"

/* ---- durations ---- */

static void expect_duration(const char *text, int64_t expected)
{
    int64_t ms = -1;
    assert_true(duration_parse(text, &ms));
    assert_int_equal(ms, expected);
}

static void test_durations(void **state)
{
    (void)state;
    expect_duration("0", 0);
    expect_duration("0s", 0);
    expect_duration("500ms", 500);
    expect_duration("10s", 10000);
    expect_duration("2m", 120000);
    expect_duration("1h", 3600000);
    expect_duration("1m30s", 90000);
    expect_duration("1h2m3s4ms", 3723004);
    expect_duration("1.5s", 1500);
    expect_duration("0.25m", 15000);
    expect_duration(".5s", 500);
    expect_duration("9223372036854775807ms", INT64_MAX);
}

static void test_bad_durations(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "5",
                                      "-1s",
                                      "s",
                                      "1",
                                      "1x",
                                      "1s ",
                                      " 1s",
                                      "1..5s",
                                      "1.5ms",
                                      "1e3s",
                                      "1s500",
                                      ".s",
                                      "1d",
                                      "+1s",
                                      "9223372036854775808ms",
                                      "2562047788016h",
                                      "0x1s",
                                      "1.0000000000000000001s"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t ms = 42;
        if (duration_parse(bad[i], &ms)) fail_msg("\"%s\" was taken as %lld ms", bad[i], (long long)ms);
        assert_int_equal(ms, 42);
    }
}

static void test_duration_texts(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {{0, "0"}, {500, "500ms"}, {90000, "1m30s"}, {3600000, "1h"}, {3723004, "1h2m3s4ms"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[DURATION_SIZE];
        duration_format(rows[i].ms, text);
        assert_string_equal(text, rows[i].text);
    }
    char longest[DURATION_SIZE];
    duration_format(INT64_MAX, longest);
    expect_duration(longest, INT64_MAX);
}

/* ---- flags ---- */

struct values {
    const char *name, *format;
    int64_t count, timeout;
    bool local;
    struct flag_list list, pairs;
    struct flag rows[7];
    struct flags flags;
};

static int setup(void **state)
{
    struct values *v = calloc(1, sizeof *v);
    v->rows[0] =
        (struct flag){.name = "name", .type = FLAG_STRING, .out = &v->name, .help = "a name", .group = "First"};
    v->rows[1] = (struct flag){.name = "format",
                               .type = FLAG_STRING,
                               .out = &v->format,
                               .default_value = "text",
                               .choices = "text|json",
                               .help = "a format"};
    v->rows[2] = (struct flag){.name = "count",
                               .type = FLAG_INT,
                               .out = &v->count,
                               .default_value = "3",
                               .minimum = -5,
                               .maximum = 9,
                               .help = "a count",
                               .group = "Second"};
    v->rows[3] = (struct flag){.name = "timeout",
                               .type = FLAG_DURATION,
                               .out = &v->timeout,
                               .default_value = "10s",
                               .minimum = 100,
                               .maximum = 60000,
                               .help = "a time"};
    v->rows[4] = (struct flag){.name = "local", .type = FLAG_BOOL, .out = &v->local, .help = "a switch"};
    v->rows[5] =
        (struct flag){.name = "list", .type = FLAG_STRINGS, .out = &v->list, .default_value = "x,y", .help = "a list"};
    v->rows[6] = (struct flag){.name = "pair", .type = FLAG_REPEATED, .out = &v->pairs, .help = "a pair"};
    flags_init(&v->flags, "program", "Does things.", "  program --name a\n");
    flags_add(&v->flags, v->rows, 7);
    *state = v;
    return 0;
}

static int teardown(void **state)
{
    struct values *v = *state;
    flags_free(&v->flags);
    free(v);
    return 0;
}

/* words: the command line without the program, parts separated by blanks. */
static enum flags_result parse(struct values *v, const char *words)
{
    static char copy[512];
    char *argv[16] = {"program"};
    int argc = 1;
    assert_true(strlen(words) < sizeof copy);
    memcpy(copy, words, strlen(words) + 1);
    for (char *rest = copy, *word; (word = strsep(&rest, " ")) != NULL;)
        if (*word) argv[argc++] = word;
    return flags_parse(&v->flags, argc, argv);
}

static void expect_error(struct values *v, const char *words, const char *text)
{
    assert_int_equal(parse(v, words), FLAGS_ERROR);
    assert_string_equal(v->flags.error, text);
}

static void test_defaults(void **state)
{
    struct values *v = *state;
    assert_int_equal(parse(v, ""), FLAGS_OK);
    assert_null(v->name);
    assert_string_equal(v->format, "text");
    assert_int_equal(v->count, 3);
    assert_int_equal(v->timeout, 10000);
    assert_false(v->local);
    assert_int_equal(v->list.n, 2);
    assert_int_equal(v->pairs.n, 0);
    assert_false(v->rows[2].given);
}

static void test_forms(void **state)
{
    struct values *v = *state;
    assert_int_equal(parse(v, "--name=a -count 4 -timeout=1m --format json -local"), FLAGS_OK);
    assert_string_equal(v->name, "a");
    assert_int_equal(v->count, 4);
    assert_int_equal(v->timeout, 60000);
    assert_string_equal(v->format, "json");
    assert_true(v->local);
    assert_true(v->rows[2].given);
}

static void test_values_that_look_like_flags(void **state)
{
    struct values *v = *state;
    assert_int_equal(parse(v, "--count -5 --name --local --name=a=b"), FLAGS_OK);
    assert_int_equal(v->count, -5);
    assert_string_equal(v->name, "a=b");
    assert_false(v->local);
}

static void test_switches(void **state)
{
    struct values *v = *state;
    assert_int_equal(parse(v, "--local=true"), FLAGS_OK);
    assert_true(v->local);
    assert_int_equal(parse(v, "--local --local=false"), FLAGS_OK);
    assert_false(v->local);
    expect_error(v, "--local=maybe", "flag --local: \"maybe\" is neither true nor false");
    expect_error(v, "--local=", "flag --local: \"\" is neither true nor false");
    expect_error(v, "--local true", "\"true\" is no flag");
}

static void test_lists(void **state)
{
    struct values *v = *state;
    assert_int_equal(parse(v, "--list a,b --list c --pair k=v,w --pair l="), FLAGS_OK);
    assert_int_equal(v->list.n, 3);
    assert_string_equal(v->list.items[0], "a");
    assert_string_equal(v->list.items[2], "c");
    assert_int_equal(v->pairs.n, 2);
    assert_string_equal(v->pairs.items[0], "k=v,w");
    assert_string_equal(v->pairs.items[1], "l=");
    assert_int_equal(parse(v, "--list="), FLAGS_OK);
    assert_int_equal(v->list.n, 0);
}

static void test_errors_name_the_flag(void **state)
{
    struct values *v = *state;
    expect_error(v, "--nome a", "flag --nome is unknown");
    expect_error(v, "--nam a", "flag --nam is unknown");
    expect_error(v, "--ver", "flag --ver is unknown");
    expect_error(v, "-x=1", "flag --x is unknown");
    expect_error(v, "--name", "flag --name has no value");
    expect_error(v, "a --name b", "\"a\" is no flag");
    expect_error(v, "--name b -- c", "\"c\" is no flag");
    expect_error(v, "--count 4x", "flag --count: \"4x\" is no whole number");
    expect_error(v, "--count=", "flag --count: \"\" is no whole number");
    expect_error(v, "--count 99999999999999999999", "flag --count: \"99999999999999999999\" is no whole number");
    expect_error(v, "--count 10", "flag --count: 10 is outside -5 to 9");
    expect_error(v, "--timeout 5", "flag --timeout: \"5\" is no duration like 500ms, 10s or 1m30s");
    expect_error(v, "--timeout 2m", "flag --timeout: 2m is outside 100ms to 1m");
    expect_error(v, "--format yaml", "flag --format: \"yaml\" is not one of text|json");
    expect_error(v, "--format tex", "flag --format: \"tex\" is not one of text|json");
}

static void test_required(void **state)
{
    struct values *v = *state;
    v->rows[0].required = true;
    expect_error(v, "", "flag --name is required");
    expect_error(v, "--name=", "flag --name is required");
    assert_int_equal(parse(v, "--name a"), FLAGS_OK);
}

static void test_help_and_version(void **state)
{
    struct values *v = *state;
    assert_int_equal(parse(v, "--name a --help"), FLAGS_HELP);
    assert_int_equal(parse(v, "-h"), FLAGS_HELP);
    assert_int_equal(parse(v, "-version"), FLAGS_VERSION);
    char *help = flags_help(&v->flags);
    assert_non_null(strstr(help, "Usage: program [flags]\n"));
    assert_non_null(strstr(help, "\nFirst:\n  --name TEXT         a name\n"));
    assert_non_null(strstr(help, "  --format text|json  a format (default text)\n\nSecond:\n"));
    assert_non_null(strstr(help, "  --timeout DURATION  a time (default 10s)\n"));
    assert_non_null(strstr(help, "  --pair TEXT         a pair, may be repeated\n"));
    assert_non_null(strstr(help, "\nExamples:\n  program --name a\n"));
    free(help);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_bad_durations),
        cmocka_unit_test(test_duration_texts),
        cmocka_unit_test_setup_teardown(test_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values_that_look_like_flags, setup, teardown),
        cmocka_unit_test_setup_teardown(test_switches, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors_name_the_flag, setup, teardown),
        cmocka_unit_test_setup_teardown(test_required, setup, teardown),
        cmocka_unit_test_setup_teardown(test_help_and_version, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
