/* SPDX-License-Identifier: Apache-2.0 */
/* The queue between engine and host: the descriptor, what merges and what does not, and the bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/bounds.h"
#include "engine/events.h"

static struct cr_events q;

static int set_up(void **state)
{
    (void)state;
    return cr_events_init(&q);
}

static int tear_down(void **state)
{
    (void)state;
    cr_events_fini(&q);
    return 0;
}

static bool readable(void)
{
    struct pollfd p = {q.fd, POLLIN, 0};
    return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

static struct csireg_event *make(enum csireg_event_kind kind, const char *driver, const char *path)
{
    struct csireg_event *e = cr_event_new(kind, driver, path);
    assert_non_null(e);
    return e;
}

static void push(enum csireg_event_kind kind, const char *driver, const char *path)
{
    cr_events_push(&q, make(kind, driver, path));
    assert_int_equal(readable(), q.n > 0);
}

static void push_warning(const char *driver, const char *text)
{
    struct csireg_event *e = make(CSIREG_EVENT_WARNING, driver, NULL);
    e->error = cr_error_new(CSIREG_ERR_REFUSED, "%s", text);
    cr_events_push(&q, e);
}

static void push_plugin(enum csireg_event_kind kind, const char *path, uint64_t token)
{
    struct csireg_event *e = make(kind, "p", path);
    e->token = token;
    cr_events_push(&q, e);
    assert_int_equal(readable(), q.n > 0);
}

/* The next event is of this kind about this driver and socket. */
static void expect(enum csireg_event_kind kind, const char *driver, const char *path)
{
    assert_true(readable());
    struct csireg_event *e = cr_events_pop(&q);
    assert_non_null(e);
    assert_string_equal(csireg_event_kind_name(csireg_event_kind(e)), csireg_event_kind_name(kind));
    assert_string_equal(csireg_event_driver(e), driver);
    assert_string_equal(csireg_event_path(e), path);
    csireg_event_free(e);
}

static void expect_token(enum csireg_event_kind kind, uint64_t token)
{
    struct csireg_event *e = cr_events_pop(&q);
    assert_non_null(e);
    assert_int_equal(csireg_event_kind(e), kind);
    assert_int_equal(csireg_event_token(e), token);
    csireg_event_free(e);
}

static void expect_nothing(void)
{
    assert_false(readable());
    assert_null(cr_events_pop(&q));
}

/* ---- the descriptor ---- */

static void test_descriptor(void **state)
{
    (void)state;
    assert_true(fcntl(q.fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(q.fd, F_GETFL) & O_NONBLOCK);
    expect_nothing();
    for (int round = 0; round < 3; round++) {
        push(CSIREG_EVENT_REGISTERED, "a", "/a");
        push(CSIREG_EVENT_REGISTERED, "b", "/b");
        expect(CSIREG_EVENT_REGISTERED, "a", "/a");
        expect(CSIREG_EVENT_REGISTERED, "b", "/b");
        expect_nothing();
    }
}

static void test_generations_rise(void **state)
{
    (void)state;
    uint64_t last = 0;
    push(CSIREG_EVENT_REGISTERED, "a", "/a");
    push(CSIREG_EVENT_REGISTERED, "b", "/b");
    push(CSIREG_EVENT_CHANGED, "a", "/a");
    push(CSIREG_EVENT_FAILED, "c", "/c");
    for (int i = 0; i < 3; i++) {
        struct csireg_event *e = cr_events_pop(&q);
        assert_true(csireg_event_generation(e) > last);
        last = csireg_event_generation(e);
        csireg_event_free(e);
    }
    assert_int_equal(last, 4);
}

/* ---- what merges ---- */

static void test_one_record_per_driver(void **state)
{
    (void)state;
    static const struct {
        enum csireg_event_kind first, second, left;
    } cases[] = {
        {CSIREG_EVENT_REGISTERED, CSIREG_EVENT_UNREGISTERED, CSIREG_EVENT_UNREGISTERED},
        {CSIREG_EVENT_UNREGISTERED, CSIREG_EVENT_REGISTERED, CSIREG_EVENT_REGISTERED},
        {CSIREG_EVENT_REGISTERED, CSIREG_EVENT_CHANGED, CSIREG_EVENT_REGISTERED}, /* the host never saw it registered */
        {CSIREG_EVENT_CHANGED, CSIREG_EVENT_CHANGED, CSIREG_EVENT_CHANGED},
        {CSIREG_EVENT_CHANGED, CSIREG_EVENT_UNREGISTERED, CSIREG_EVENT_UNREGISTERED},
        {CSIREG_EVENT_CHANGED, CSIREG_EVENT_REGISTERED, CSIREG_EVENT_REGISTERED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        push(cases[i].first, "a", "/old");
        push(CSIREG_EVENT_REGISTERED, "other", "/o");
        push(cases[i].second, "a", "/new");
        expect(CSIREG_EVENT_REGISTERED, "other", "/o"); /* the newer record has moved behind it */
        expect(cases[i].left, "a", "/new");
        expect_nothing();
    }
}

static void test_one_failure_per_socket(void **state)
{
    (void)state;
    push(CSIREG_EVENT_FAILED, "", "/a");
    push(CSIREG_EVENT_FAILED, "a", "/a"); /* the name is known meanwhile */
    push(CSIREG_EVENT_FAILED, "a", "/b");
    expect(CSIREG_EVENT_FAILED, "a", "/a");
    expect(CSIREG_EVENT_FAILED, "a", "/b");
    expect_nothing();
    push(CSIREG_EVENT_FAILED, "x", NULL); /* third door: the driver is the key */
    push(CSIREG_EVENT_FAILED, "y", NULL);
    push(CSIREG_EVENT_FAILED, "x", NULL);
    expect(CSIREG_EVENT_FAILED, "y", "");
    expect(CSIREG_EVENT_FAILED, "x", "");
    expect_nothing();
}

static void test_success_removes_failure(void **state)
{
    (void)state;
    push(CSIREG_EVENT_FAILED, "a", "/a");
    push(CSIREG_EVENT_FAILED, "a", "/b");
    push(CSIREG_EVENT_REGISTERED, "a", "/a");
    expect(CSIREG_EVENT_FAILED, "a", "/b");
    expect(CSIREG_EVENT_REGISTERED, "a", "/a");
    expect_nothing();
    push(CSIREG_EVENT_UNREGISTERED, "a", "/a"); /* a failure does not hide that the driver went */
    push(CSIREG_EVENT_FAILED, "a", "/a");
    expect(CSIREG_EVENT_UNREGISTERED, "a", "/a");
    expect(CSIREG_EVENT_FAILED, "a", "/a");
    expect_nothing();
}

static void test_equal_warnings_merge(void **state)
{
    (void)state;
    push_warning("a", "limit is negative");
    push_warning("a", "limit is large");
    push_warning("b", "limit is negative");
    push_warning("a", "limit is negative");
    expect(CSIREG_EVENT_WARNING, "a", "");
    expect(CSIREG_EVENT_WARNING, "b", "");
    expect(CSIREG_EVENT_WARNING, "a", "");
    expect_nothing();
}

static void test_plugins_never_merge(void **state)
{
    (void)state;
    push_plugin(CSIREG_EVENT_PLUGIN, "/a", 1);
    push_plugin(CSIREG_EVENT_PLUGIN, "/b", 2);
    expect_token(CSIREG_EVENT_PLUGIN, 1);
    push_plugin(CSIREG_EVENT_PLUGIN_GONE, "/a", 1); /* it was read: the host must hear that it went */
    push_plugin(CSIREG_EVENT_PLUGIN, "/a", 3);
    expect_token(CSIREG_EVENT_PLUGIN, 2);
    expect_token(CSIREG_EVENT_PLUGIN_GONE, 1);
    expect_token(CSIREG_EVENT_PLUGIN, 3);
    expect_nothing();
}

static void test_dead_plugin_requests_leave(void **state)
{
    (void)state;
    push_plugin(CSIREG_EVENT_PLUGIN, "/a", 1);
    push_plugin(CSIREG_EVENT_PLUGIN_GONE, "/a", 1);
    expect_nothing();
    push_plugin(CSIREG_EVENT_PLUGIN, "/a", 2); /* timed out unread; its socket's next attempt asks anew */
    push_plugin(CSIREG_EVENT_PLUGIN, "/a", 3);
    expect_token(CSIREG_EVENT_PLUGIN, 3);
    expect_nothing();
}

static void test_stopped_is_the_last(void **state)
{
    (void)state;
    push(CSIREG_EVENT_REGISTERED, "a", "/a");
    push(CSIREG_EVENT_STOPPED, NULL, NULL);
    push(CSIREG_EVENT_REGISTERED, "b", "/b");
    push(CSIREG_EVENT_STOPPED, NULL, NULL);
    expect(CSIREG_EVENT_REGISTERED, "a", "/a");
    expect(CSIREG_EVENT_STOPPED, "", "");
    expect_nothing();
}

/* ---- a host that never reads ---- */

static void test_warnings_are_bounded(void **state)
{
    (void)state;
    char text[32];
    push(CSIREG_EVENT_FAILED, "a", "/a");
    for (int i = 0; i < CR_MAX_PENDING_WARNINGS + 10; i++) {
        snprintf(text, sizeof text, "warning %d", i);
        push_warning("a", text);
    }
    assert_int_equal(q.n, CR_MAX_PENDING_WARNINGS + 1);
    expect(CSIREG_EVENT_FAILED, "a", "/a");
    struct csireg_event *e = cr_events_pop(&q);
    assert_string_equal(csireg_error_message(csireg_event_error(e)), "warning 10"); /* the oldest gave way */
    csireg_event_free(e);
}

static void test_plugins_are_bounded(void **state)
{
    (void)state;
    char path[32];
    for (uint64_t i = 0; i < CR_MAX_PENDING_PLUGINS + 10; i++) {
        snprintf(path, sizeof path, "/%u", (unsigned)i);
        push_plugin(CSIREG_EVENT_PLUGIN, path, i + 1);
    }
    assert_int_equal(q.n, CR_MAX_PENDING_PLUGINS);
}

static void test_all_is_bounded(void **state)
{
    (void)state;
    char name[32];
    push(CSIREG_EVENT_REGISTERED, "kept", "/kept");
    for (int i = 0; i < CR_MAX_EVENTS + 100; i++) { /* a socket that answers with another name each time */
        snprintf(name, sizeof name, "d%d", i);
        push(CSIREG_EVENT_REGISTERED, name, "/x");
        push(CSIREG_EVENT_UNREGISTERED, name, "/x");
    }
    assert_int_equal(q.n, CR_MAX_EVENTS);
    expect(CSIREG_EVENT_REGISTERED, "kept", "/kept");
    expect(CSIREG_EVENT_UNREGISTERED, "d101", "/x");
}

/* ---- threads ---- */

enum { STORM = 20000 };

static void *storm(void *unused)
{
    char name[16];
    (void)unused;
    for (int i = 0; i < STORM; i++) {
        snprintf(name, sizeof name, "d%d", i % 7);
        cr_events_push(&q, cr_event_new(i % 3 ? CSIREG_EVENT_REGISTERED : CSIREG_EVENT_UNREGISTERED, name, "/x"));
    }
    cr_events_push(&q, cr_event_new(CSIREG_EVENT_STOPPED, NULL, NULL));
    return NULL;
}

/* A reader that only follows the descriptor sees rising generations and the end. */
static void test_reader_and_writer(void **state)
{
    (void)state;
    pthread_t writer;
    bool stopped = false;
    uint64_t last = 0;
    assert_int_equal(pthread_create(&writer, NULL, storm, NULL), 0);
    while (!stopped) {
        struct pollfd p = {q.fd, POLLIN, 0};
        assert_int_equal(poll(&p, 1, -1), 1);
        struct csireg_event *e = cr_events_pop(&q);
        assert_non_null(e);
        assert_true(csireg_event_generation(e) > last);
        last = csireg_event_generation(e);
        stopped = csireg_event_kind(e) == CSIREG_EVENT_STOPPED;
        csireg_event_free(e);
    }
    pthread_join(writer, NULL);
    expect_nothing();
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_descriptor),
        T(test_generations_rise),
        T(test_one_record_per_driver),
        T(test_one_failure_per_socket),
        T(test_success_removes_failure),
        T(test_equal_warnings_merge),
        T(test_plugins_never_merge),
        T(test_dead_plugin_requests_leave),
        T(test_stopped_is_the_last),
        T(test_warnings_are_bounded),
        T(test_plugins_are_bounded),
        T(test_all_is_bounded),
        T(test_reader_and_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
