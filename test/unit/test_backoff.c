/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/backoff.h"

static void expect(struct cr_backoff *b, int64_t first, int64_t cap, struct cr_rng *rng, int64_t base)
{
    int64_t pause = cr_backoff_next(b, first, cap, rng);
    assert_in_range(pause, base, base + base / 10);
}

static void test_doubles_up_to_the_cap(void **state)
{
    static const int64_t curve[] = {500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 122000, 122000, 122000};
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct cr_backoff b = {0};
        struct cr_rng rng = {seed};
        for (size_t i = 0; i < sizeof curve / sizeof *curve; i++)
            expect(&b, CR_BACKOFF_FIRST_MS, CR_BACKOFF_CAP_MS, &rng, curve[i]);
    }
}

static void test_conflict_curve(void **state)
{
    static const int64_t curve[] = {10, 20, 40, 80, 160, 320, 640, 1000, 1000};
    struct cr_backoff b = {0};
    struct cr_rng rng = {1};
    (void)state;
    for (size_t i = 0; i < sizeof curve / sizeof *curve; i++)
        expect(&b, CR_CONFLICT_FIRST_MS, CR_CONFLICT_CAP_MS, &rng, curve[i]);
}

static void test_reset_starts_again(void **state)
{
    struct cr_backoff b = {0};
    struct cr_rng rng = {1};
    (void)state;
    for (int i = 0; i < 5; i++) cr_backoff_next(&b, 10, 1000, &rng);
    cr_backoff_reset(&b);
    assert_int_equal(b.failures, 0);
    expect(&b, 10, 1000, &rng, 10);
}

static void test_never_overflows(void **state)
{
    struct cr_backoff b = {0};
    struct cr_rng rng = {1};
    (void)state;
    for (int i = 0; i < 100000; i++) cr_backoff_next(&b, 1, INT64_MAX / 4, &rng);
    assert_in_range(b.failures, 1, 64);
    b.failures = UINT32_MAX; /* whoever wrote it */
    expect(&b, 500, 122000, &rng, 122000);
}

static void test_jitter_uses_its_range(void **state)
{
    struct cr_rng rng = {7};
    int64_t lowest = INT64_MAX, highest = 0;
    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct cr_backoff b = {0};
        int64_t pause = cr_backoff_next(&b, 500, 122000, &rng);
        lowest = pause < lowest ? pause : lowest;
        highest = pause > highest ? pause : highest;
    }
    assert_int_equal(lowest, 500);
    assert_int_equal(highest, 550);
}

static void test_first_equals_cap(void **state)
{
    struct cr_backoff b = {0};
    struct cr_rng rng = {1};
    (void)state;
    expect(&b, 7, 7, &rng, 7);
    expect(&b, 7, 7, &rng, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doubles_up_to_the_cap), cmocka_unit_test(test_conflict_curve),
        cmocka_unit_test(test_reset_starts_again),    cmocka_unit_test(test_never_overflows),
        cmocka_unit_test(test_jitter_uses_its_range), cmocka_unit_test(test_first_equals_cap),
    };
    return cmocka_run_group_tests_name("backoff", tests, NULL, NULL);
}
