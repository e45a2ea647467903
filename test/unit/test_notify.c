/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent tells a service manager: the environment, the datagrams, and a watchdog that wants a live engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/notify.h"
#include "common/log.h"
#include "doubles/host.h"

static int service; /* the service manager's socket */
static char heard[1024];

/* name: a path, or '@' and an abstract name. */
static void listen_at(const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", name);
    if (*name == '@') a.sun_path[0] = '\0';
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + (*name == '/'));
    service = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(service, (struct sockaddr *)&a, len), 0);
    setenv("NOTIFY_SOCKET", name, 1);
}

/* The next datagram; "" when there is none and nobody waits. */
static const char *hear(bool wait)
{
    ssize_t n = recv(service, heard, sizeof heard - 1, wait ? 0 : MSG_DONTWAIT);
    heard[n < 0 ? 0 : n] = '\0';
    return heard;
}

static int set_up(void **state)
{
    log_set(CSIREG_LOG_ERROR, false);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    service = -1;
    return host_setup(state);
}

static int tear_down(void **state)
{
    if (service >= 0) close(service);
    return host_teardown(state);
}

static void test_nobody_asks(void **state)
{
    struct host *h = *state;
    struct notify n;
    host_start(h);
    setenv("WATCHDOG_USEC", "1000000", 1);
    notify_open(&n);
    assert_int_equal(n.fd, -1);
    notify_ready(&n, h->manager);
    notify_news(&n);
    notify_run(&n, h->manager);
    assert_int_equal(notify_timeout(&n), -1);
    notify_stopping(&n);
    notify_close(&n);
}

static void check_life(struct host *h, const char *name)
{
    struct notify n;
    listen_at(name);
    host_start(h);
    notify_open(&n);
    assert_true(n.fd >= 0);
    assert_true(fcntl(n.fd, F_GETFD) & FD_CLOEXEC);
    notify_ready(&n, h->manager);
    assert_string_equal(hear(true), "READY=1\nSTATUS=0 drivers registered, 0 not; API server local-only");
    assert_int_equal(n.watchdog_ms, 0);
    notify_run(&n, h->manager);
    assert_string_equal(hear(false), ""); /* no watchdog is wanted, and nothing is new */
    notify_stopping(&n);
    assert_string_equal(hear(true), "STOPPING=1\nSTATUS=stopping");
    notify_close(&n);
    notify_close(&n);
}

static void test_a_path(void **state)
{
    struct host *h = *state;
    check_life(h, host_path(h, "notify"));
}

static void test_an_abstract_name(void **state)
{
    char name[64];
    snprintf(name, sizeof name, "@csireg-test-notify-%d", (int)getpid());
    check_life(*state, name);
}

static void test_the_status_follows_events(void **state)
{
    struct host *h = *state;
    struct notify n;
    listen_at(host_path(h, "notify"));
    host_watch(h);
    host_driver(h, "reg/a.sock", "a.example.com");
    host_start(h);
    notify_open(&n);
    notify_ready(&n, h->manager);
    hear(true);
    host_expect(h, CSIREG_EVENT_REGISTERED, "a.example.com");
    notify_news(&n);
    assert_in_range(notify_timeout(&n), 0, 1000);
    n.status_ms = 0; /* the pause is over */
    notify_run(&n, h->manager);
    assert_string_equal(hear(true), "STATUS=1 driver registered, 0 not; API server local-only");
    notify_news(&n);
    n.status_ms = 0;
    notify_run(&n, h->manager);
    assert_string_equal(hear(false), ""); /* the same is not said twice */
    assert_in_range(notify_timeout(&n), 2000, 60000);
    notify_close(&n);
}

static void test_what_is_no_watchdog(void **state)
{
    struct host *h = *state;
    struct notify n;
    char pid[16];
    static const char *const strange[] = {"", "soon", "-5", "0", "99999999999999999999", "5x"};
    listen_at(host_path(h, "notify"));
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        setenv("WATCHDOG_USEC", strange[i], 1);
        notify_open(&n);
        assert_int_equal(n.watchdog_ms, 0);
        notify_close(&n);
    }
    setenv("WATCHDOG_USEC", "3000000", 1);
    setenv("WATCHDOG_PID", "1", 1); /* another process's */
    notify_open(&n);
    assert_int_equal(n.watchdog_ms, 0);
    notify_close(&n);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    notify_open(&n);
    assert_int_equal(n.watchdog_ms, 1500);
    notify_close(&n);
}

static void test_sockets_of_no_use(void **state)
{
    struct host *h = *state;
    struct notify n;
    char too_long[200];
    memset(too_long, 'x', sizeof too_long);
    too_long[0] = '/';
    too_long[sizeof too_long - 1] = '\0';
    const char *const names[] = {host_path(h, "nobody"), "relative", "@", "/", "vsock:2:1234", too_long};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv("NOTIFY_SOCKET", names[i], 1);
        notify_open(&n);
        assert_int_equal(n.fd, -1);
        notify_stopping(&n);
        notify_close(&n);
    }
}

/* ---- the watchdog ---- */

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

/* A host whose log blocks has stopped the engine. */
static void log_blocks(void *user, const struct csireg_log_record *record)
{
    (void)user, (void)record;
    pthread_mutex_lock(&held);
    pthread_mutex_unlock(&held);
}

static void test_only_a_live_engine_feeds_the_watchdog(void **state)
{
    struct host *h = *state;
    struct notify n;
    listen_at(host_path(h, "notify"));
    setenv("WATCHDOG_USEC", "20000", 1);
    host_watch(h);
    csireg_options_set_log(h->options, CSIREG_LOG_DEBUG, log_blocks, NULL, NULL);
    pthread_mutex_lock(&held);
    host_start(h);
    notify_open(&n);
    assert_int_equal(n.watchdog_ms, 10);
    notify_ready(&n, h->manager);
    hear(true);
    assert_in_range(notify_timeout(&n), 0, 10);
    host_driver(h, "reg/a.sock", "a.example.com"); /* the engine logs it, and hangs */
    n.alive_ms = 0;
    n.status_ms = INT64_MAX / 2;
    notify_run(&n, h->manager); /* waits a second for an answer */
    assert_string_equal(hear(false), "");
    pthread_mutex_unlock(&held);
    n.alive_ms = 0;
    notify_run(&n, h->manager);
    assert_string_equal(hear(true), "WATCHDOG=1");
    notify_run(&n, h->manager);
    notify_close(&n);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nobody_asks),
        TEST(test_a_path),
        TEST(test_an_abstract_name),
        TEST(test_the_status_follows_events),
        TEST(test_what_is_no_watchdog),
        TEST(test_sockets_of_no_use),
        TEST(test_only_a_live_engine_feeds_the_watchdog),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
