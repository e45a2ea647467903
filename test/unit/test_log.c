/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

static int saved, captured;
static off_t seen; /* bytes of captured */

static int redirect(void **state)
{
    (void)state;
    char name[] = "/tmp/csireg-log-XXXXXX";
    captured = mkostemp(name, O_CLOEXEC);
    unlink(name);
    seen = 0;
    saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    return dup2(captured, STDERR_FILENO) == STDERR_FILENO ? 0 : -1;
}

static int restore(void **state)
{
    (void)state;
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(captured);
    return 0;
}

/* What was written since the last time. */
static const char *written(void)
{
    static char text[4096];
    ssize_t n = pread(captured, text, sizeof text - 1, seen);
    assert_true(n >= 0);
    seen += n;
    text[n] = '\0';
    return text;
}

/* The line after "2026-12-01T15:04:05.678Z ". */
static const char *without_time(const char *line)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ ";
    for (size_t i = 0; form[i]; i++)
        assert_true(form[i] == 'd' ? line[i] >= '0' && line[i] <= '9' : line[i] == form[i]);
    return line + strlen(form);
}

static void test_text(void **state)
{
    (void)state;
    log_set(CSIREG_LOG_INFO, false);
    log_info("hello %d", 1);
    assert_string_equal(without_time(written()), "info    hello 1\n");
    log_warning("two\nlines \xff \xc3\xa4");
    assert_string_equal(without_time(written()), "warning two?lines ? ??\n");
    log_warning("\xc3\xa4");
    assert_string_equal(without_time(written()), "warning \xc3\xa4\n");
}

static void test_level(void **state)
{
    (void)state;
    log_set(CSIREG_LOG_WARNING, false);
    log_info("no");
    log_debug("no");
    assert_string_equal(written(), "");
    log_error("yes");
    assert_string_equal(without_time(written()), "error   yes\n");
}

static void test_record(void **state)
{
    (void)state;
    log_set(CSIREG_LOG_DEBUG, false);
    struct csireg_log_record record = {sizeof record, CSIREG_LOG_DEBUG, "api", "d.example.com", "/r/d.sock", "text"};
    log_csireg(NULL, &record);
    assert_string_equal(without_time(written()), "debug   api: text driver=d.example.com path=/r/d.sock\n");
}

static void expect_member(const json_t *line, const char *key, const char *value)
{
    const char *found = json_string_value(json_object_get(line, key));
    assert_non_null(found);
    assert_string_equal(found, value);
}

static void test_json(void **state)
{
    (void)state;
    log_set(CSIREG_LOG_INFO, true);
    struct csireg_log_record record = {sizeof record, CSIREG_LOG_ERROR, "api", "", "/r/\xff.sock", "a \"b\"\nc \x01"};
    log_csireg(NULL, &record);
    const char *text = written();
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    json_t *line = json_loads(text, 0, NULL);
    assert_non_null(line);
    expect_member(line, "level", "error");
    expect_member(line, "module", "api");
    expect_member(line, "path", "/r/?.sock");
    expect_member(line, "message", "a \"b\"\nc \x01");
    assert_non_null(json_object_get(line, "time"));
    assert_null(json_object_get(line, "driver"));
    json_decref(line);
}

static void test_flags(void **state)
{
    (void)state;
    struct log_flags lf;
    struct flags flags;
    log_flags_init(&lf);
    flags_init(&flags, "p", "s", NULL);
    flags_add(&flags, lf.rows, 2);
    char *argv[] = {"p", "--log-level=debug", "--log-format", "json", NULL};
    assert_int_equal(flags_parse(&flags, 4, argv), FLAGS_OK);
    log_flags_apply(&lf);
    assert_int_equal(log_level(), CSIREG_LOG_DEBUG);
    log_debug("x");
    assert_int_equal(written()[0], '{');
    flags_free(&flags);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text, redirect, restore),
        cmocka_unit_test_setup_teardown(test_level, redirect, restore),
        cmocka_unit_test_setup_teardown(test_record, redirect, restore),
        cmocka_unit_test_setup_teardown(test_json, redirect, restore),
        cmocka_unit_test_setup_teardown(test_flags, redirect, restore),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
