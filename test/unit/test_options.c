/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options and the setters that hold values to it; driven by the table itself where a rule is general. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/options.h"
#include "base/mem.h"
#include "csireg/csireg.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct csireg_options *o;

static int set_up(void **state)
{
    (void)state;
    return csireg_options_new(&o);
}

static int tear_down(void **state)
{
    (void)state;
    csireg_options_free(o);
    return 0;
}

/* The error names the option and holds every word of `words` (NULL: none). */
static void assert_refused(int rc, struct csireg_error *error, const char *name, const char *words)
{
    assert_int_equal(rc, CSIREG_ERR_INVALID);
    assert_non_null(error);
    assert_int_equal(csireg_error_code(error), CSIREG_ERR_INVALID);
    assert_non_null(strstr(csireg_error_message(error), name));
    if (words) assert_non_null(strstr(csireg_error_message(error), words));
    csireg_error_free(error);
}

static int set_text(const struct csireg_option_info *row, const char *value, struct csireg_error **error)
{
    return csireg_options_set_string(o, row->option, value, error);
}

/* ---- what the table says ---- */

static const struct {
    const char *name, *value;
    enum csireg_option_type type;
    int64_t number;
} defaults[] = {
    {"node-name", "", CSIREG_TYPE_STRING, 0},
    {"kubeconfig", "", CSIREG_TYPE_STRING, 0},
    {"kubeconfig-context", "", CSIREG_TYPE_STRING, 0},
    {"api-server", "", CSIREG_TYPE_STRING, 0},
    {"api-token", "", CSIREG_TYPE_STRING, 0},
    {"api-token-file", "", CSIREG_TYPE_STRING, 0},
    {"api-ca-file", "", CSIREG_TYPE_STRING, 0},
    {"api-client-certificate-file", "", CSIREG_TYPE_STRING, 0},
    {"api-client-key-file", "", CSIREG_TYPE_STRING, 0},
    {"api-tls-server-name", "", CSIREG_TYPE_STRING, 0},
    {"api-insecure-skip-tls-verify", "false", CSIREG_TYPE_BOOL, 0},
    {"api-proxy", "", CSIREG_TYPE_STRING, 0},
    {"local-only", "false", CSIREG_TYPE_BOOL, 0},
    {"plugins-registry-dir", "", CSIREG_TYPE_STRING, 0},
    {"create-registry", "true", CSIREG_TYPE_BOOL, 1},
    {"require-private-registry", "false", CSIREG_TYPE_BOOL, 0},
    {"controller-get-node-info", "false", CSIREG_TYPE_BOOL, 0},
    {"registration-dropped", "fail", CSIREG_TYPE_STRING, 0},
    {"node-info-from-controller-capability", "0", CSIREG_TYPE_INT, 0},
    {"migrated-plugins", "", CSIREG_TYPE_STRINGS, 0},
    {"create-at-start", "false", CSIREG_TYPE_BOOL, 0},
    {"plugin-types", "", CSIREG_TYPE_STRINGS, 0},
    {"rescan-period", "10s", CSIREG_TYPE_DURATION, 10000},
    {"verify-interval", "300s", CSIREG_TYPE_DURATION, 300000},
    {"gather-window", "50ms", CSIREG_TYPE_DURATION, 50},
    {"connect-timeout", "10s", CSIREG_TYPE_DURATION, 10000},
    {"getinfo-timeout", "5s", CSIREG_TYPE_DURATION, 5000},
    {"node-rpc-timeout", "120s", CSIREG_TYPE_DURATION, 120000},
    {"publish-timeout", "30s", CSIREG_TYPE_DURATION, 30000},
    {"notify-timeout", "5s", CSIREG_TYPE_DURATION, 5000},
    {"request-timeout", "10s", CSIREG_TYPE_DURATION, 10000},
    {"handler-timeout", "120s", CSIREG_TYPE_DURATION, 120000},
    {"same-name", "newest", CSIREG_TYPE_STRING, 0},
    {"annotate-in-controller-flow", "false", CSIREG_TYPE_BOOL, 0},
    {"label-prefixes", "", CSIREG_TYPE_STRINGS, 0},
    {"unregister-grace", "0s", CSIREG_TYPE_DURATION, 0},
    {"endpoint-dead-after", "0s", CSIREG_TYPE_DURATION, 0},
    {"prune-unclaimed-after", "0s", CSIREG_TYPE_DURATION, 0},
    {"allowed-socket-owners", "", CSIREG_TYPE_STRINGS, 0},
};

static void test_every_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(defaults); i++) {
        const struct csireg_option_info *row = csireg_option_info(i);
        assert_non_null(row);
        assert_int_equal(row->option, (int)i + 1);
        assert_int_equal(row->size, sizeof *row);
        assert_string_equal(row->name, defaults[i].name);
        assert_string_equal(row->default_value, defaults[i].value);
        assert_int_equal(row->type, defaults[i].type);
        assert_true(row->minimum <= row->maximum);
        assert_int_equal(row->help[strlen(row->help) - 1], '.');
    }
    assert_null(csireg_option_info(COUNT(defaults)));
    assert_null(csireg_option_info(SIZE_MAX));
}

static void test_defaults_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(defaults); i++) {
        const struct csireg_option_info *row = csireg_option_info(i);
        size_t n = 1;
        if (row->type == CSIREG_TYPE_STRINGS)
            assert_null(cr_option_strings(o, row->option, &n));
        else if (row->type != CSIREG_TYPE_STRING)
            assert_int_equal(cr_option_int(o, row->option), defaults[i].number);
        else if (*row->default_value)
            assert_string_equal(cr_option_string(o, row->option), row->default_value);
        else
            assert_null(cr_option_string(o, row->option));
    }
}

/* ---- types ---- */

static void test_wrong_setter(void **state)
{
    (void)state;
    static const char *const setters[] = {"", "set_string", "set_int", "set_bool", "set_strings", "set_int"};
    for (size_t i = 0; csireg_option_info(i); i++) {
        const struct csireg_option_info *row = csireg_option_info(i);
        const char *right = setters[row->type], *item = "a";
        for (int setter = 1; setter <= 4; setter++) {
            if (strcmp(setters[setter], right) == 0) continue;
            struct csireg_error *e = NULL;
            int rc = setter == 1   ? csireg_options_set_string(o, row->option, "a", &e)
                     : setter == 2 ? csireg_options_set_int(o, row->option, 1, &e)
                     : setter == 3 ? csireg_options_set_bool(o, row->option, 1, &e)
                                   : csireg_options_set_strings(o, row->option, &item, 1, &e);
            assert_refused(rc, e, row->name, right);
        }
    }
}

static void test_unknown_option_and_null(void **state)
{
    (void)state;
    static const int unknown[] = {0, -1, (int)COUNT(defaults) + 1, 100000};
    for (size_t i = 0; i < COUNT(unknown); i++) {
        struct csireg_error *e = NULL;
        int rc = csireg_options_set_int(o, (enum csireg_option)unknown[i], 1, &e);
        assert_refused(rc, e, "no option", NULL);
    }
    struct csireg_error *e = NULL;
    int rc = csireg_options_set_bool(NULL, CSIREG_OPTION_LOCAL_ONLY, 1, &e);
    assert_refused(rc, e, "options is NULL", NULL);
    assert_int_equal(csireg_options_set_bool(NULL, CSIREG_OPTION_LOCAL_ONLY, 1, NULL), CSIREG_ERR_INVALID);
    assert_int_equal(csireg_options_new(NULL), CSIREG_ERR_INVALID);
    csireg_options_free(NULL);
}

/* ---- bounds ---- */

static void check_number_bounds(const struct csireg_option_info *row)
{
    int64_t outside[] = {row->minimum - 1, row->maximum + 1, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < COUNT(outside); i++) {
        char bound[32];
        struct csireg_error *e = NULL;
        snprintf(bound, sizeof bound, "to %lld", (long long)row->maximum);
        int rc = csireg_options_set_int(o, row->option, outside[i], &e);
        assert_refused(rc, e, row->name, bound);
    }
    assert_int_equal(csireg_options_set_int(o, row->option, row->minimum, NULL), CSIREG_OK);
    assert_int_equal(csireg_options_set_int(o, row->option, row->maximum, NULL), CSIREG_OK);
    assert_int_equal(cr_option_int(o, row->option), row->maximum);
}

static void test_number_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; csireg_option_info(i); i++) {
        const struct csireg_option_info *row = csireg_option_info(i);
        if (row->type == CSIREG_TYPE_INT || row->type == CSIREG_TYPE_DURATION) check_number_bounds(row);
    }
}

/* A text of n bytes that every grammar of a string option takes, or refuses for its length alone. */
static char *long_text(size_t n)
{
    char *s = malloc(n + 1);
    memset(s, 'a', n);
    for (size_t i = 63; i + 1 < n; i += 64) s[i] = '.';
    s[n] = '\0';
    return s;
}

static void test_string_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; csireg_option_info(i); i++) {
        const struct csireg_option_info *row = csireg_option_info(i);
        if (row->type != CSIREG_TYPE_STRING) continue;
        char *longest = long_text((size_t)row->maximum), *longer = long_text((size_t)row->maximum + 1);
        char bound[32];
        struct csireg_error *e = NULL;
        snprintf(bound, sizeof bound, "%lld bytes", (long long)row->maximum);
        if (!*row->default_value) /* choices have a grammar */
            assert_int_equal(set_text(row, longest, NULL), CSIREG_OK);
        int rc = set_text(row, longer, &e);
        assert_refused(rc, e, row->name, bound);
        e = NULL;
        rc = set_text(row, "a\xff", &e);
        assert_refused(rc, e, row->name, "UTF-8");
        free(longest);
        free(longer);
    }
}

static void test_empty_and_null_unset(void **state)
{
    (void)state;
    assert_int_equal(csireg_options_set_string(o, CSIREG_OPTION_NODE_NAME, "n1", NULL), CSIREG_OK);
    assert_string_equal(cr_option_string(o, CSIREG_OPTION_NODE_NAME), "n1");
    assert_int_equal(csireg_options_set_string(o, CSIREG_OPTION_NODE_NAME, "", NULL), CSIREG_OK);
    assert_null(cr_option_string(o, CSIREG_OPTION_NODE_NAME));
    assert_int_equal(csireg_options_set_string(o, CSIREG_OPTION_REGISTRATION_DROPPED, "node-flow", NULL), CSIREG_OK);
    assert_int_equal(csireg_options_set_string(o, CSIREG_OPTION_REGISTRATION_DROPPED, NULL, NULL), CSIREG_OK);
    assert_string_equal(cr_option_string(o, CSIREG_OPTION_REGISTRATION_DROPPED), "fail");
}

/* ---- grammars ---- */

static void test_grammars(void **state)
{
    (void)state;
    static const struct {
        enum csireg_option option;
        const char *name, *value, *words;
    } cases[] = {
        {CSIREG_OPTION_NODE_NAME, "node-name", "Node", "DNS-1123"},
        {CSIREG_OPTION_NODE_NAME, "node-name", "a_b", "a_b"},
        {CSIREG_OPTION_NODE_NAME, "node-name", "-a", "DNS-1123"},
        {CSIREG_OPTION_REGISTRATION_DROPPED, "registration-dropped", "ignore", "fail or node-flow"},
        {CSIREG_OPTION_SAME_NAME, "same-name", "oldest", "newest or first"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct csireg_error *e = NULL;
        int rc = csireg_options_set_string(o, cases[i].option, cases[i].value, &e);
        assert_refused(rc, e, cases[i].name, cases[i].words);
    }
}

static void test_capability_numbers(void **state)
{
    (void)state;
    static const char *const meanings[] = {"STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS",         "EXPAND_VOLUME",
                                           "reserves 4",           "SINGLE_NODE_MULTI_WRITER", "VOLUME_MOUNT_GROUP",
                                           "GET_VOLUME_HEALTH",    "GET_STORAGE_HEALTH"};
    for (int n = 1; n <= 8; n++) {
        struct csireg_error *e = NULL;
        int rc = csireg_options_set_int(o, CSIREG_OPTION_NODE_INFO_FROM_CONTROLLER_CAPABILITY, n, &e);
        assert_refused(rc, e, "node-info-from-controller-capability", meanings[n - 1]);
    }
    assert_int_equal(csireg_options_set_int(o, CSIREG_OPTION_NODE_INFO_FROM_CONTROLLER_CAPABILITY, 9, NULL), CSIREG_OK);
}

static void test_verify_interval_is_off_or_sane(void **state)
{
    (void)state;
    struct csireg_error *e = NULL;
    int rc = csireg_options_set_int(o, CSIREG_OPTION_VERIFY_INTERVAL, 1, &e);
    assert_refused(rc, e, "verify-interval", "off");
    assert_int_equal(csireg_options_set_int(o, CSIREG_OPTION_VERIFY_INTERVAL, 0, NULL), CSIREG_OK);
}

static void test_lists(void **state)
{
    (void)state;
    const char *const good[] = {"kubernetes.io/aws-ebs", "kubernetes.io/cinder"};
    const char *const users[] = {"0", "65534"}, *const nobody[] = {"nobody"};
    const char *const comma[] = {"a,b"}, *const hole[] = {"a", NULL}, *const ours[] = {"CSIPlugin"};
    const char *many[65];
    struct csireg_error *e = NULL;
    for (size_t i = 0; i < COUNT(many); i++) many[i] = "a";

    assert_int_equal(csireg_options_set_strings(o, CSIREG_OPTION_MIGRATED_PLUGINS, good, 2, NULL), CSIREG_OK);
    size_t n = 0;
    assert_string_equal(cr_option_strings(o, CSIREG_OPTION_MIGRATED_PLUGINS, &n)[1], good[1]);
    assert_int_equal(n, 2);
    assert_int_equal(csireg_options_set_strings(o, CSIREG_OPTION_PLUGIN_TYPES, many, 64, NULL), CSIREG_OK);

    int rc = csireg_options_set_strings(o, CSIREG_OPTION_PLUGIN_TYPES, many, 65, &e);
    assert_refused(rc, e, "plugin-types", "64");
    rc = csireg_options_set_strings(o, CSIREG_OPTION_MIGRATED_PLUGINS, comma, 1, (e = NULL, &e));
    assert_refused(rc, e, "migrated-plugins", "qualified");
    rc = csireg_options_set_strings(o, CSIREG_OPTION_PLUGIN_TYPES, hole, 2, (e = NULL, &e));
    assert_refused(rc, e, "plugin-types", "item 1");
    rc = csireg_options_set_strings(o, CSIREG_OPTION_PLUGIN_TYPES, NULL, 1, (e = NULL, &e));
    assert_refused(rc, e, "plugin-types", "NULL");
    rc = csireg_options_set_strings(o, CSIREG_OPTION_PLUGIN_TYPES, ours, 1, (e = NULL, &e));
    assert_refused(rc, e, "plugin-types", "CSIPlugin");
    rc = csireg_options_set_strings(o, CSIREG_OPTION_ALLOWED_SOCKET_OWNERS, nobody, 1, (e = NULL, &e));
    assert_refused(rc, e, "allowed-socket-owners", "nobody");
    assert_int_equal(csireg_options_set_strings(o, CSIREG_OPTION_ALLOWED_SOCKET_OWNERS, users, 2, NULL), CSIREG_OK);
    assert_int_equal(csireg_options_set_strings(o, CSIREG_OPTION_PLUGIN_TYPES, NULL, 0, NULL), CSIREG_OK);
    cr_option_strings(o, CSIREG_OPTION_PLUGIN_TYPES, &n);
    assert_int_equal(n, 0);
}

static void test_a_secret_is_never_quoted(void **state)
{
    (void)state;
    struct csireg_error *e = NULL;
    assert_int_equal(csireg_options_set_string(o, CSIREG_OPTION_API_TOKEN, "hunter2\xff", &e), CSIREG_ERR_INVALID);
    assert_null(strstr(csireg_error_message(e), "hunter2"));
    csireg_error_free(e);
}

static void test_the_first_error_stays(void **state)
{
    (void)state;
    struct csireg_error *e = NULL;
    csireg_options_set_string(o, CSIREG_OPTION_NODE_NAME, "A", &e);
    csireg_options_set_int(o, CSIREG_OPTION_RESCAN_PERIOD, -1, &e);
    assert_refused(CSIREG_ERR_INVALID, e, "node-name", NULL);
}

/* ---- log, copies, memory ---- */

static void ignore(void *user, const struct csireg_log_record *record)
{
    (void)user;
    (void)record;
}

static void test_log(void **state)
{
    (void)state;
    struct csireg_error *e = NULL;
    assert_null(o->log);
    assert_int_equal(csireg_options_set_log(o, CSIREG_LOG_DEBUG, ignore, o, NULL), CSIREG_OK);
    int rc = csireg_options_set_log(o, (enum csireg_log_level)5, ignore, NULL, &e);
    assert_refused(rc, e, "log level", NULL);
    assert_ptr_equal(o->log, ignore);
    assert_int_equal(csireg_options_set_log(o, CSIREG_LOG_ERROR, NULL, NULL, NULL), CSIREG_OK);
}

static void fill(struct csireg_options *options)
{
    const char *types[] = {"DevicePlugin", "DRAPlugin"};
    csireg_options_set_string(options, CSIREG_OPTION_NODE_NAME, "n1", NULL);
    csireg_options_set_int(options, CSIREG_OPTION_GATHER_WINDOW, 0, NULL);
    csireg_options_set_bool(options, CSIREG_OPTION_LOCAL_ONLY, 7, NULL);
    csireg_options_set_strings(options, CSIREG_OPTION_PLUGIN_TYPES, types, 2, NULL);
}

static void test_a_copy_is_independent(void **state)
{
    (void)state;
    size_t n = 0;
    fill(o);
    struct csireg_options *copy = cr_options_copy(o);
    assert_int_equal(csireg_options_set_string(o, CSIREG_OPTION_NODE_NAME, "n2", NULL), CSIREG_OK);
    assert_string_equal(cr_option_string(copy, CSIREG_OPTION_NODE_NAME), "n1");
    assert_int_equal(cr_option_int(copy, CSIREG_OPTION_GATHER_WINDOW), 0);
    assert_true(cr_option_bool(copy, CSIREG_OPTION_LOCAL_ONLY));
    assert_string_equal(cr_option_strings(copy, CSIREG_OPTION_PLUGIN_TYPES, &n)[1], "DRAPlugin");
    csireg_options_free(copy);
}

/* Each allocation fails in its turn: a clean code, the old values intact, nothing leaked. */
static void test_no_memory(void **state)
{
    (void)state;
    const char *types[] = {"DevicePlugin", "DRAPlugin"};
    fill(o);
    for (unsigned long i = 1; i <= 4; i++) {
        struct csireg_error *e = NULL;
        cr_mem_fail_after(i);
        int rc = csireg_options_set_strings(o, CSIREG_OPTION_PLUGIN_TYPES, types, 1, &e);
        cr_mem_fail_after(0);
        size_t n = 0;
        cr_option_strings(o, CSIREG_OPTION_PLUGIN_TYPES, &n);
        assert_int_equal(n, rc == CSIREG_OK ? 1 : 2);
        assert_true(rc == CSIREG_OK || (rc == CSIREG_ERR_NOMEM && csireg_error_code(e) == CSIREG_ERR_NOMEM));
        csireg_error_free(e);
        fill(o);
        cr_mem_fail_after(i);
        struct csireg_options *other = NULL;
        assert_true(csireg_options_new(&other) == CSIREG_OK || !other);
        struct csireg_options *copy = cr_options_copy(o);
        cr_mem_fail_after(0);
        csireg_options_free(other);
        csireg_options_free(copy);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_every_row),
        T(test_defaults_hold),
        T(test_wrong_setter),
        T(test_unknown_option_and_null),
        T(test_number_bounds),
        T(test_string_bounds),
        T(test_empty_and_null_unset),
        T(test_grammars),
        T(test_capability_numbers),
        T(test_verify_interval_is_off_or_sane),
        T(test_lists),
        T(test_a_secret_is_never_quoted),
        T(test_the_first_error_stays),
        T(test_log),
        T(test_a_copy_is_independent),
        T(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
