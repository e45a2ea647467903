/* SPDX-License-Identifier: Apache-2.0 */
/* What comes in through the three doors and what the host hears of it, without an API server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "doubles/host.h"

/* ---- the doors ---- */

static void assert_registered(struct host *h, const char *name, const char *endpoint)
{
    struct csireg_driver *d = NULL;
    char id[128];
    expect_code(csireg_manager_lookup(h->manager, name, &d), CSIREG_OK);
    snprintf(id, sizeof id, "id-of-%s", name);
    assert_string_equal(csireg_driver_name(d), name);
    assert_string_equal(csireg_driver_endpoint(d), endpoint);
    assert_string_equal(csireg_driver_version(d), "1.2.0");
    assert_string_equal(csireg_driver_node_id(d), id);
    assert_int_equal(csireg_driver_flow(d), CSIREG_FLOW_NODE);
    csireg_driver_free(d);
}

static void assert_not_registered(struct host *h, const char *name)
{
    struct csireg_driver *d = NULL;
    expect_code(csireg_manager_lookup(h->manager, name, &d), CSIREG_ERR_NOT_REGISTERED);
    assert_null(d);
}

static void test_first_door(void **state)
{
    struct host *h = *state;
    bool ok = false;
    host_watch(h);
    struct fake_driver *a = host_driver(h, "reg/a.sock", "a.example.com");
    host_start(h);
    expect_code(csireg_manager_wait_initial(h->manager, 60000), CSIREG_OK);
    assert_registered(h, "a.example.com", host_path(h, "reg/a.sock"));
    host_expect(h, CSIREG_EVENT_REGISTERED, "a.example.com");
    assert_not_registered(h, "b.example.com");
    fake_driver_wait_called(a, FAKE_NOTIFY, 1);
    assert_string_equal(fake_driver_notified(a, &ok), "");
    assert_true(ok);
    assert_int_equal(fake_driver_calls(a, FAKE_CAPABILITIES), 0); /* the gate is off */

    host_driver(h, "reg/b.sock", "b.example.com");
    host_expect(h, CSIREG_EVENT_REGISTERED, "b.example.com");
    host_driver_stop(h, a);
    host_expect(h, CSIREG_EVENT_UNREGISTERED, "a.example.com");
    assert_not_registered(h, "a.example.com");
    host_stop(h);
    json_t *s = host_status(h);
    assert_string_equal(json_text(json_object_get(s, "registry"), "mode"), "inotify");
    json_decref(s);
}

static void test_not_ready_before_the_initial_scan(void **state)
{
    struct host *h = *state;
    struct csireg_driver *driver = NULL;
    enum csireg_exhausted_result result;
    host_watch(h);
    struct fake_driver *d =
        host_driver_with(h, "reg/a.sock", (struct fake_driver_config){.name = "a", .hangs = {[FAKE_GET_INFO] = true}});
    host_start(h);
    fake_driver_wait_called(d, FAKE_GET_INFO, 1);
    expect_code(csireg_manager_wait_initial(h->manager, 0), CSIREG_ERR_TIMEOUT);
    expect_code(csireg_manager_lookup(h->manager, "a", &driver), CSIREG_ERR_NOT_READY);
    expect_code(csireg_manager_exhausted(h->manager, "a", INT64_MAX, &result), CSIREG_ERR_NOT_READY);
    host_stop(h);
}

static void test_second_door(void **state)
{
    struct host *h = *state;
    struct fake_driver *d = host_driver(h, "a.sock", "a.example.com");
    const char *path = host_path(h, "a.sock");
    host_start(h);
    for (int i = 0; i < 3; i++) expect_code(csireg_manager_socket_seen(h->manager, path, NULL), CSIREG_OK);
    host_expect(h, CSIREG_EVENT_REGISTERED, "a.example.com");
    assert_registered(h, "a.example.com", path);
    fake_driver_wait_called(d, FAKE_NOTIFY, 1);
    expect_code(csireg_manager_socket_gone(h->manager, path, NULL), CSIREG_OK); /* although the file is there */
    host_expect(h, CSIREG_EVENT_UNREGISTERED, "a.example.com");
    assert_not_registered(h, "a.example.com");
    expect_code(csireg_manager_socket_seen(h->manager, path, NULL), CSIREG_OK);
    host_expect(h, CSIREG_EVENT_REGISTERED, "a.example.com");
    assert_int_equal(fake_driver_calls(d, FAKE_GET_INFO), 2);
    host_stop(h);
}

static void test_third_door(void **state)
{
    struct host *h = *state;
    const char *versions[] = {"0.3.0", "1.2.0"}, *old[] = {"0.3.0"};
    struct fake_driver *d = host_driver(h, "a.sock", "a.example.com");
    const char *endpoint = host_path(h, "a.sock");
    host_start(h);
    struct csireg_manager *m = h->manager;
    expect_code(csireg_manager_driver_register(m, "a.example.com", endpoint, versions, 2, NULL), CSIREG_OK);
    host_expect(h, CSIREG_EVENT_REGISTERED, "a.example.com");
    assert_registered(h, "a.example.com", endpoint);
    assert_int_equal(fake_driver_calls(d, FAKE_GET_INFO), 0);
    expect_code(csireg_manager_driver_deregister(m, "a.example.com", endpoint, NULL), CSIREG_OK);
    host_expect(h, CSIREG_EVENT_UNREGISTERED, "a.example.com");
    assert_int_equal(fake_driver_calls(d, FAKE_NOTIFY), 0);
    expect_code(csireg_manager_driver_register(m, "a.example.com", endpoint, old, 1, NULL), CSIREG_OK);
    host_expect(h, CSIREG_EVENT_FAILED, "a.example.com");
    host_stop(h);
}

/* ---- foreign plugins ---- */

static uint64_t await_plugin(struct host *h)
{
    const char *const *versions = NULL;
    struct csireg_event *e = host_await(h, CSIREG_EVENT_PLUGIN);
    uint64_t token = csireg_event_token(e);
    assert_string_equal(csireg_event_driver(e), "dev.example.com");
    assert_string_equal(csireg_event_type(e), "DevicePlugin");
    assert_int_equal(csireg_event_versions(e, &versions), 1);
    assert_string_equal(versions[0], "1.2.0");
    assert_true(token != 0);
    csireg_event_free(e);
    return token;
}

static struct fake_driver *start_plugin(struct host *h)
{
    const char *types[] = {"DevicePlugin"};
    csireg_options_set_strings(h->options, CSIREG_OPTION_PLUGIN_TYPES, types, 1, NULL);
    host_watch(h);
    struct fake_driver_config config = {.name = "dev.example.com", .type = "DevicePlugin"};
    struct fake_driver *d = host_driver_with(h, "reg/d.sock", config);
    host_start(h);
    return d;
}

static void test_plugin_taken(void **state)
{
    struct host *h = *state;
    bool ok = false;
    struct fake_driver *d = start_plugin(h);
    uint64_t token = await_plugin(h);
    expect_code(csireg_manager_plugin_result(h->manager, token, 1, NULL, NULL), CSIREG_OK);
    fake_driver_wait_called(d, FAKE_NOTIFY, 1);
    fake_driver_notified(d, &ok);
    assert_true(ok);
    assert_int_equal(fake_driver_calls(d, FAKE_NODE_INFO), 0);
    host_driver_stop(h, d);
    struct csireg_event *gone = host_await(h, CSIREG_EVENT_PLUGIN_GONE);
    assert_int_equal(csireg_event_token(gone), token);
    csireg_event_free(gone);
    host_stop(h);
}

static void test_plugin_refused(void **state)
{
    struct host *h = *state;
    bool ok = true;
    struct fake_driver *d = start_plugin(h);
    uint64_t token = await_plugin(h);
    expect_code(csireg_manager_plugin_result(h->manager, token + 1, 1, NULL, NULL), CSIREG_OK); /* nobody's */
    expect_code(csireg_manager_plugin_result(h->manager, token, 0, "no room for it", NULL), CSIREG_OK);
    fake_driver_wait_called(d, FAKE_NOTIFY, 1);
    assert_non_null(strstr(fake_driver_notified(d, &ok), "no room for it"));
    assert_false(ok);
    host_stop(h);
}

/* ---- a driver that the host says is exhausted ---- */

static int exhausted(struct host *h, const char *name, int64_t ms)
{
    enum csireg_exhausted_result result = 0;
    int rc = csireg_manager_exhausted(h->manager, name, ms, &result);
    return rc == CSIREG_OK ? (int)result : rc;
}

static void test_exhausted(void **state)
{
    struct host *h = *state;
    host_watch(h);
    host_driver(h, "reg/a.sock", "a.example.com");
    host_start(h);
    expect_code(csireg_manager_wait_initial(h->manager, INT64_MAX), CSIREG_OK);
    assert_int_equal(exhausted(h, "a.example.com", INT64_MAX), CSIREG_EXHAUSTED_NO_PERIOD);
    assert_int_equal(exhausted(h, "b.example.com", INT64_MAX), CSIREG_ERR_NOT_REGISTERED);
    host_stop(h);
}

/* ---- a driver that takes no connections any more ---- */

static void test_dead_endpoint(void **state)
{
    struct host *h = *state;
    const char *versions[] = {"1.0.0"};
    expect_code(csireg_options_set_int(h->options, CSIREG_OPTION_ENDPOINT_DEAD_AFTER, 100, NULL), CSIREG_OK);
    struct fake_driver *d = host_driver(h, "a.sock", "a.example.com");
    host_start(h);
    expect_code(csireg_manager_driver_register(h->manager, "a.example.com", host_path(h, "a.sock"), versions, 1, NULL),
                CSIREG_OK);
    host_expect(h, CSIREG_EVENT_REGISTERED, "a.example.com");
    host_driver_stop(h, d); /* the host does not say so */
    csireg_event_free(host_await(h, CSIREG_EVENT_UNREGISTERED));
    assert_not_registered(h, "a.example.com");
    host_driver(h, "a.sock", "a.example.com");
    csireg_event_free(host_await(h, CSIREG_EVENT_REGISTERED));
    host_stop(h);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, host_setup, host_teardown)
    const struct CMUnitTest tests[] = {
        T(test_first_door),   T(test_not_ready_before_the_initial_scan),
        T(test_second_door),  T(test_third_door),
        T(test_plugin_taken), T(test_plugin_refused),
        T(test_exhausted),    T(test_dead_endpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
