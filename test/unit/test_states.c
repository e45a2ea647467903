/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/states.h"

static void test_every_state_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int a = 0; a < CR_STATE_COUNT; a++) {
        const char *name = cr_state_name((enum cr_state)a);
        assert_non_null(name);
        assert_true(*name);
        for (int b = 0; b < a; b++) assert_string_not_equal(name, cr_state_name((enum cr_state)b));
    }
}

/* Marks what can be reached from a state, at any number of steps. */
static unsigned reach(enum cr_state from, unsigned seen)
{
    seen |= 1u << from;
    for (int to = 0; to < CR_STATE_COUNT; to++)
        if (!(seen >> to & 1u) && cr_state_may_follow(from, (enum cr_state)to)) seen |= reach((enum cr_state)to, seen);
    return seen;
}

static void test_every_state_leads_to_every_other(void **state)
{
    (void)state;
    for (int from = 0; from < CR_STATE_COUNT; from++)
        assert_int_equal(reach((enum cr_state)from, 0), (1u << CR_STATE_COUNT) - 1);
}

static void test_every_state_may_start_over(void **state)
{
    (void)state;
    for (int from = 0; from < CR_STATE_COUNT; from++)
        assert_true(cr_state_may_follow((enum cr_state)from, CR_STATE_NEW));
}

/* What must never happen, whatever else the table allows. */
static void test_forbidden_steps(void **state)
{
    static const enum cr_state forbidden[][2] = {
        {CR_STATE_GET_INFO, CR_STATE_PUBLISHING}, /* checks and node RPCs come first */
        {CR_STATE_GET_INFO, CR_STATE_NOTIFYING},  /* nobody is told before it is published */
        {CR_STATE_ENDPOINT, CR_STATE_NOTIFYING},
        {CR_STATE_NODE_INFO, CR_STATE_NOTIFYING},
        {CR_STATE_CAPABILITIES, CR_STATE_PUBLISHING}, /* no publication without NodeGetInfo */
        {CR_STATE_CSIDRIVER, CR_STATE_PUBLISHING},
        {CR_STATE_CONNECTING, CR_STATE_NOTIFYING}, /* no GetInfo answer, no notification */
        {CR_STATE_NOTIFYING, CR_STATE_REJECTING},  /* one notification */
        {CR_STATE_REJECTING, CR_STATE_NOTIFYING},
        {CR_STATE_STANDBY, CR_STATE_GET_INFO}, /* standbys make no RPCs */
        {CR_STATE_BACKOFF, CR_STATE_GET_INFO}, /* a retry begins with the connect */
    };
    (void)state;
    for (size_t k = 0; k < sizeof forbidden / sizeof *forbidden; k++)
        if (cr_state_may_follow(forbidden[k][0], forbidden[k][1]))
            fail_msg("%s -> %s", cr_state_name(forbidden[k][0]), cr_state_name(forbidden[k][1]));
}

static void test_the_way_of_a_registration(void **state)
{
    static const enum cr_state way[] = {
        CR_STATE_NEW,       CR_STATE_CONNECTING, CR_STATE_GET_INFO,   CR_STATE_ENDPOINT,  CR_STATE_CAPABILITIES,
        CR_STATE_CSIDRIVER, CR_STATE_NODE_INFO,  CR_STATE_PUBLISHING, CR_STATE_NOTIFYING, CR_STATE_REGISTERED};
    (void)state;
    for (size_t k = 0; k + 1 < sizeof way / sizeof *way; k++) assert_true(cr_state_may_follow(way[k], way[k + 1]));
    assert_true(cr_state_may_follow(CR_STATE_ENDPOINT, CR_STATE_NODE_INFO)); /* gate off */
    assert_true(cr_state_may_follow(CR_STATE_CAPABILITIES, CR_STATE_NODE_INFO));
    assert_true(cr_state_may_follow(CR_STATE_PUBLISHING, CR_STATE_ENDPOINT)); /* registration-dropped=node-flow */
    assert_true(cr_state_may_follow(CR_STATE_HANDLER, CR_STATE_NOTIFYING));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_state_has_a_name_of_its_own),
        cmocka_unit_test(test_every_state_leads_to_every_other),
        cmocka_unit_test(test_every_state_may_start_over),
        cmocka_unit_test(test_forbidden_steps),
        cmocka_unit_test(test_the_way_of_a_registration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
