/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's command line: what it takes, what it refuses, and that every option of the library is a flag. */
#include "agent/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_WORDS 8

/* The exit code of parsing and of setting the library's options, -1 when both are fine. */
static int result(struct settings *s, const char *const *words)
{
    char *argv[MAX_WORDS + 2] = {"csireg-agent"};
    int argc = 1;
    for (; *words; words++) argv[argc++] = (char *)*words;
    int code = settings_parse(s, argc, argv);
    if (code >= 0) return code;
    struct csireg_options *options = NULL;
    assert_int_equal(csireg_options_new(&options), 0);
    code = settings_options(s, options);
    csireg_options_free(options);
    return code;
}

static void check_result(int expected, const char *const *words)
{
    struct settings s;
    assert_int_equal(result(&s, words), expected);
    settings_free(&s);
}

#define RESULT(code, ...) check_result(code, (const char *const[]){__VA_ARGS__, NULL})

static void good_words_are_taken(void **state)
{
    (void)state;
    RESULT(-1, "--node-name=n1");
    RESULT(-1, "-node-name", "n1", "-local-only", "--rescan-period=1m30s", "--migrated-plugins=kubernetes.io/aws-ebs");
    RESULT(-1, "--node-name=n1", "--http-endpoint=127.0.0.1:0", "--log-level=debug", "--create-registry=false");
}

static void bad_words_are_bad_usage(void **state)
{
    (void)state;
    RESULT(FLAGS_BAD_USAGE, "--local-only");
    RESULT(FLAGS_BAD_USAGE, "--node-name=Not_A_Name");
    RESULT(FLAGS_BAD_USAGE, "--node-name=n1", "--rescan-period=1ms");
    RESULT(FLAGS_BAD_USAGE, "--node-name=n1", "--registration-dropped=perhaps");
    RESULT(FLAGS_BAD_USAGE, "--node-name=n1", "--node-info-from-controller-capability=7");
    RESULT(FLAGS_BAD_USAGE, "--node-name=n1", "--controller-get-node-info");
    RESULT(FLAGS_BAD_USAGE, "--node-name=n1", "word");
}

static void gates_are_as_with_a_kubelet(void **state)
{
    (void)state;
    struct settings s;
    assert_int_equal(result(&s, (const char *const[]){"--node-name=n1", NULL}), -1);
    assert_false(s.controller_get_node_info);
    settings_free(&s);
    assert_int_equal(
        result(&s, (const char *const[]){"--node-name=n1", "--feature-gates=CSIControllerGetNodeInfo=true", NULL}), -1);
    assert_true(s.controller_get_node_info);
    settings_free(&s);
    RESULT(FLAGS_BAD_USAGE, "--node-name=n1", "--feature-gates=CSIControllerGetNodeInfo");
    RESULT(FLAGS_BAD_USAGE, "--node-name=n1", "--feature-gates=CSIControllerGetNodeInfo=yes");
    RESULT(FLAGS_BAD_USAGE, "--node-name=n1", "--feature-gates=CSIControllerGetNodeInfo=true,Other=true");
}

static void every_option_is_a_flag(void **state)
{
    (void)state;
    struct settings s;
    assert_int_equal(result(&s, (const char *const[]){"--node-name=n1", NULL}), -1);
    char *help = flags_help(&s.flags);
    for (size_t i = 0; csireg_option_info(i); i++) {
        char flag[64];
        snprintf(flag, sizeof flag, "  --%s", csireg_option_info(i)->name);
        bool is_gate = csireg_option_info(i)->option == CSIREG_OPTION_CONTROLLER_GET_NODE_INFO;
        if (!strstr(help, flag) != is_gate) fail_msg("%s%s", flag, is_gate ? " is a flag" : " is no flag");
    }
    free(help);
    settings_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_words_are_taken),
        cmocka_unit_test(bad_words_are_bad_usage),
        cmocka_unit_test(gates_are_as_with_a_kubelet),
        cmocka_unit_test(every_option_is_a_flag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
