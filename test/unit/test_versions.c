/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/versions.h"
#include "unit/golden.h"

#define MAX_64 "18446744073709551615"

static const struct {
    const char *offered[4], *chosen; /* chosen NULL: refused */
} choices[] = {
    {{"1.0.0"}, "1.0.0"},
    {{"0.3.0", "1.2.0"}, "1.2.0"},
    {{"1.5.0", "2.0.0"}, "1.5.0"},
    {{"garbage", "1.0.0"}, "1.0.0"},
    {{"v1.3-rc1"}, "1.3"},
    {{"0.3.0"}, NULL},
    {{"2.0.0"}, NULL},
    {{NULL}, NULL},
    {{"garbage"}, NULL},
    {{"1"}, NULL},
    {{"garbage", "1"}, NULL},
    {{"01.2"}, NULL},
    {{"1.2.0", "1.10.0", "1.9.9"}, "1.10.0"}, /* by number, not by text */
    {{"1.2", "1.2.0"}, "1.2"},                /* equal: the first */
    {{"1.2", "1.2.0.1"}, "1.2.0.1"},
    {{"1.9", "0.99", "2.1"}, "1.9"},
    {{"0.9", "2.0"}, NULL},
    {{" \t\n\v\f\rv1.4 "}, "1.4"},
    {{"v 1.4"}, NULL},
    {{"vv1.4"}, NULL},
    {{"V1.4"}, NULL},
    {{"-1.4"}, NULL},
    {{"+1.4"}, NULL},
    {{""}, NULL},
    {{"v"}, NULL},
    {{"."}, NULL},
    {{"1."}, NULL},
    {{"1..2"}, NULL},
    {{".1.2"}, NULL},
    {{"1.2."}, "1.2"},
    {{"1.2..3"}, "1.2"},
    {{"1.2.x.3"}, "1.2"},
    {{"1.2+meta.7"}, "1.2"},
    {{"1.2 beta"}, "1.2"},
    {{"1.02.003"}, "1.2.3"},
    {{"1.0x10"}, "1.0"},
    {{"00.1", "1.1"}, "1.1"},
    {{"0.0"}, NULL},
    {{"1." MAX_64}, "1." MAX_64},
    {{"1.18446744073709551616"}, NULL},
    {{"1.2.18446744073709551616"}, NULL},
    {{"99999999999999999999999.0", "1.0"}, "1.0"},
    {{"\xff\xfe", "1.0"}, "1.0"},
};

static void test_choose(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        size_t n = 0;
        char *chosen = NULL;
        struct csireg_error *e = NULL;
        while (n < 4 && choices[i].offered[n]) n++;
        int rc = cr_version_choose(choices[i].offered, n, &chosen, &e);
        if (choices[i].chosen) {
            assert_int_equal(rc, 0);
            assert_null(e);
            assert_string_equal(chosen, choices[i].chosen);
        } else {
            assert_int_equal(rc, CSIREG_ERR_REFUSED);
            assert_null(chosen);
            assert_false(csireg_error_retryable(e));
        }
        cr_free(chosen);
        csireg_error_free(e);
    }
}

static void test_refusal_shows_what_was_offered(void **state)
{
    (void)state;
    const char *const offered[] = {"0.3.0", "2.0.0\n", "a", "b", "c", "d", "e", "f", "not shown"};
    char *chosen = NULL;
    struct csireg_error *e = NULL;
    assert_int_equal(cr_version_choose(offered, 9, &chosen, &e), CSIREG_ERR_REFUSED);
    assert_non_null(strstr(csireg_error_message(e), "\"0.3.0\", \"2.0.0?\""));
    assert_null(strstr(csireg_error_message(e), "not shown"));
    csireg_error_free(e);
    assert_int_equal(cr_version_choose(NULL, 0, &chosen, NULL), CSIREG_ERR_REFUSED);
}

static const struct {
    const char *a, *b;
    int sign;
} orders[] = {
    {"1.0", "1.0", 0},     {"1.0", "1.0.0.0", 0}, {"1.0", "v1.0-x", 0},    {"1.9", "1.10", -1},
    {"1.0.0.1", "1.0", 1}, {"2.0", "1.9.9", 1},   {"1.02", "1.2", 0},      {"junk", "0.0", -1},
    {"junk", "1", 0},      {"1.0", "01.0", 1},    {"1." MAX_64, "1.0", 1}, {"1." MAX_64, "1." MAX_64, 0},
};

static int sign(int x) { return (x > 0) - (x < 0); }

static void test_compare(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        assert_int_equal(sign(cr_version_compare(orders[i].a, orders[i].b)), orders[i].sign);
        assert_int_equal(sign(cr_version_compare(orders[i].b, orders[i].a)), -orders[i].sign);
    }
}

static bool choose_under_pressure(void)
{
    const char *const good[] = {"1.1", "1.2"}, *const bad[] = {"7.0"};
    char *chosen = NULL;
    struct csireg_error *e = NULL;
    int refused = cr_version_choose(bad, 1, &chosen, &e);
    csireg_error_free(e);
    e = NULL;
    int rc = cr_version_choose(good, 2, &chosen, &e);
    assert_true(refused == CSIREG_ERR_REFUSED || refused == CSIREG_ERR_NOMEM);
    if (rc == 0) assert_string_equal(chosen, "1.2");
    if (rc) assert_int_equal(rc, CSIREG_ERR_NOMEM);
    cr_free(chosen);
    csireg_error_free(e);
    return rc == 0;
}

static void test_oom(void **state)
{
    (void)state;
    oom_run(choose_under_pressure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choose),
        cmocka_unit_test(test_refusal_shows_what_was_offered),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_oom),
    };
    return cmocka_run_group_tests_name("versions", tests, NULL, NULL);
}
