/* SPDX-License-Identifier: Apache-2.0 */
/* The manager through the public API: which call when, what it refuses, the three doors, life, threads, fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doubles/host.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void expect_error(int rc, struct csireg_error **error, int code, const char *words)
{
    expect_code(rc, code);
    assert_non_null(*error);
    expect_code(csireg_error_code(*error), code);
    if (!strstr(csireg_error_message(*error), words))
        fail_msg("\"%s\" is not in \"%s\"", words, csireg_error_message(*error));
    csireg_error_free(*error);
    *error = NULL;
}

/* ---- which call when ---- */

static int call_start(struct csireg_manager *m) { return csireg_manager_start(m, NULL); }
static int call_stop(struct csireg_manager *m) { return csireg_manager_stop(m); }
static int call_fd(struct csireg_manager *m) { return csireg_manager_fd(m) >= 0 ? 0 : csireg_manager_fd(m); }

static int call_next_event(struct csireg_manager *m)
{
    struct csireg_event *event = NULL;
    int rc = csireg_manager_next_event(m, &event);
    csireg_event_free(event);
    return rc > 0 ? 0 : rc;
}

static int call_seen(struct csireg_manager *m) { return csireg_manager_socket_seen(m, "/nowhere", NULL); }
static int call_gone(struct csireg_manager *m) { return csireg_manager_socket_gone(m, "/nowhere", NULL); }
static int call_register(struct csireg_manager *m)
{
    return csireg_manager_driver_register(m, "a", "/a", NULL, 0, NULL);
}
static int call_deregister(struct csireg_manager *m) { return csireg_manager_driver_deregister(m, "a", "/a", NULL); }

/* The answer may be any that is not about the state. */
static int past_the_guard(int rc)
{
    return rc == CSIREG_ERR_STATE || rc == CSIREG_ERR_FORKED || rc == CSIREG_ERR_INVALID ? rc : 0;
}

static int call_lookup(struct csireg_manager *m)
{
    struct csireg_driver *driver = NULL;
    return past_the_guard(csireg_manager_lookup(m, "nobody", &driver));
}

static int call_retry(struct csireg_manager *m) { return csireg_manager_retry(m, NULL, NULL); }
static int call_plugin_result(struct csireg_manager *m) { return csireg_manager_plugin_result(m, 1, 1, NULL, NULL); }

static int call_status(struct csireg_manager *m)
{
    char *text = NULL;
    int rc = csireg_manager_status_json(m, &text);
    free(text);
    return rc;
}

static int call_metrics(struct csireg_manager *m)
{
    struct csireg_metrics *metrics = NULL;
    int rc = csireg_manager_metrics(m, &metrics);
    csireg_metrics_free(metrics);
    return rc;
}

static int call_wait(struct csireg_manager *m) { return past_the_guard(csireg_manager_wait_initial(m, 0)); }

static int call_exhausted(struct csireg_manager *m)
{
    enum csireg_exhausted_result result;
    return past_the_guard(csireg_manager_exhausted(m, "nobody", 0, &result));
}

/* stop is called last in each column; start is legal in the first only and not made there. */
static const struct {
    int (*call)(struct csireg_manager *m);
    const char *name;
    bool fresh, started, stopped, callback;
} calls[] = {
    {call_fd, "fd", true, true, true, true},
    {call_next_event, "next_event", true, true, true, false},
    {call_seen, "socket_seen", false, true, false, false},
    {call_gone, "socket_gone", false, true, false, false},
    {call_register, "driver_register", false, true, false, false},
    {call_deregister, "driver_deregister", false, true, false, false},
    {call_lookup, "lookup", false, true, false, false},
    {call_retry, "retry", false, true, false, false},
    {call_plugin_result, "plugin_result", false, true, false, false},
    {call_status, "status_json", false, true, true, false},
    {call_metrics, "metrics", false, true, true, false},
    {call_wait, "wait_initial", false, true, false, false},
    {call_exhausted, "exhausted", false, true, false, false},
};

static void check_call(struct csireg_manager *m, size_t i, bool legal, const char *when)
{
    int rc = calls[i].call(m);
    if (rc != (legal ? CSIREG_OK : CSIREG_ERR_STATE)) fail_msg("%s %s: %s", calls[i].name, when, csireg_code_name(rc));
}

static void test_calls_by_phase(void **state)
{
    struct host *h = *state;
    host_new(h);
    for (size_t i = 0; i < COUNT(calls); i++) check_call(h->manager, i, calls[i].fresh, "before start");
    host_start(h);
    expect_code(call_start(h->manager), CSIREG_ERR_STATE);
    for (size_t i = 0; i < COUNT(calls); i++) check_call(h->manager, i, calls[i].started, "when started");
    expect_code(call_stop(h->manager), CSIREG_OK);
    expect_code(call_stop(h->manager), CSIREG_OK);
    expect_code(call_start(h->manager), CSIREG_ERR_STATE);
    for (size_t i = 0; i < COUNT(calls); i++) check_call(h->manager, i, calls[i].stopped, "after stop");
}

static void test_null_manager(void **state)
{
    (void)state;
    struct csireg_error *error = NULL;
    for (size_t i = 0; i < COUNT(calls); i++) expect_code(calls[i].call(NULL), CSIREG_ERR_INVALID);
    expect_code(call_start(NULL), CSIREG_ERR_INVALID);
    expect_code(call_stop(NULL), CSIREG_ERR_INVALID);
    csireg_manager_free(NULL);
    int rc = csireg_manager_start(NULL, &error);
    expect_error(rc, &error, CSIREG_ERR_INVALID, "NULL");
}

static void test_messages_of_state(void **state)
{
    struct host *h = *state;
    struct csireg_error *error = NULL;
    host_new(h);
    int rc = csireg_manager_retry(h->manager, NULL, &error);
    expect_error(rc, &error, CSIREG_ERR_STATE, "retry: the manager is not started yet");
    host_start(h);
    rc = csireg_manager_start(h->manager, &error);
    expect_error(rc, &error, CSIREG_ERR_STATE, "start: the manager is started already");
    csireg_manager_stop(h->manager);
    rc = csireg_manager_socket_seen(h->manager, "/x", &error);
    expect_error(rc, &error, CSIREG_ERR_STATE, "socket_seen: the manager is stopped");
}

/* ---- the log callback ---- */

struct log_probe {
    struct csireg_manager *manager;
    pthread_t thread;
    atomic_int lines, wrong;
    enum csireg_log_level level; /* the least important seen */
};

static void probe(void *user, const struct csireg_log_record *r)
{
    struct log_probe *p = user;
    p->thread = pthread_self();
    if (r->level > p->level) p->level = r->level;
    if (r->size != sizeof *r || !r->module || !r->driver || !r->path || !r->text) p->wrong++;
    for (size_t i = 0; p->lines == 0 && i < COUNT(calls); i++)
        if (calls[i].call(p->manager) != (calls[i].callback ? CSIREG_OK : CSIREG_ERR_STATE)) p->wrong++;
    if (call_start(p->manager) != CSIREG_ERR_STATE || call_stop(p->manager) != CSIREG_ERR_STATE) p->wrong++;
    csireg_manager_free(p->manager); /* does nothing */
    p->lines++;
}

static void test_calls_from_the_log_callback(void **state)
{
    struct host *h = *state;
    struct log_probe p = {.level = 0};
    host_watch(h);
    csireg_options_set_log(h->options, CSIREG_LOG_DEBUG, probe, &p, NULL);
    host_new(h);
    p.manager = h->manager;
    host_driver(h, "reg/a.sock", "a.example.com");
    host_start(h);
    csireg_event_free(host_await(h, CSIREG_EVENT_REGISTERED));
    host_stop(h);
    assert_true(p.lines > 0);
    assert_int_equal(p.wrong, 0);
    assert_false(pthread_equal(p.thread, pthread_self()));
}

static void test_log_level(void **state)
{
    struct host *h = *state;
    struct log_probe p = {.level = 0, .lines = 1};
    host_watch(h);
    csireg_options_set_log(h->options, CSIREG_LOG_INFO, probe, &p, NULL);
    host_new(h);
    p.manager = h->manager;
    host_driver(h, "reg/a.sock", "a.example.com");
    host_start(h);
    csireg_event_free(host_await(h, CSIREG_EVENT_REGISTERED));
    host_stop(h);
    assert_true(p.lines > 1);
    assert_int_equal(p.level, CSIREG_LOG_INFO);
}

/* ---- arguments ---- */

static char *filled(size_t n, char first)
{
    static char text[8192];
    memset(text, 'a', n);
    text[0] = first;
    text[n] = '\0';
    return text;
}

static void test_arguments(void **state)
{
    struct host *h = *state;
    struct csireg_error *e = NULL;
    struct csireg_driver *driver = NULL;
    enum csireg_exhausted_result result;
    const char *versions[] = {"1.0.0", "1\xff"}, *many[65];
    for (size_t i = 0; i < COUNT(many); i++) many[i] = "1.0.0";
    host_start(h);
    struct csireg_manager *m = h->manager;

    expect_error(csireg_manager_socket_seen(m, NULL, &e), &e, CSIREG_ERR_INVALID, "path is NULL");
    expect_error(csireg_manager_socket_seen(m, "", &e), &e, CSIREG_ERR_INVALID, "empty");
    expect_error(csireg_manager_socket_seen(m, "a/b", &e), &e, CSIREG_ERR_INVALID, "not absolute");
    expect_error(csireg_manager_socket_gone(m, "@abstract", &e), &e, CSIREG_ERR_INVALID, "not absolute");
    expect_error(csireg_manager_socket_seen(m, "/a\xff", &e), &e, CSIREG_ERR_INVALID, "UTF-8");
    expect_error(csireg_manager_socket_seen(m, filled(4096, '/'), &e), &e, CSIREG_ERR_INVALID, "4095");
    expect_code(csireg_manager_socket_seen(m, filled(4095, '/'), NULL), CSIREG_OK);

    expect_error(csireg_manager_driver_register(m, NULL, "/a", NULL, 0, &e), &e, CSIREG_ERR_INVALID, "name is NULL");
    expect_error(csireg_manager_driver_register(m, filled(254, 'a'), "/a", NULL, 0, &e), &e, CSIREG_ERR_INVALID, "253");
    expect_error(csireg_manager_driver_register(m, "a", NULL, NULL, 0, &e), &e, CSIREG_ERR_INVALID, "endpoint is NULL");
    expect_error(csireg_manager_driver_register(m, "a", "/a", NULL, 1, &e), &e, CSIREG_ERR_INVALID, "versions is NULL");
    expect_error(csireg_manager_driver_register(m, "a", "/a", versions, 2, &e), &e, CSIREG_ERR_INVALID, "UTF-8");
    expect_error(csireg_manager_driver_register(m, "a", "/a", many, 65, &e), &e, CSIREG_ERR_INVALID, "64");
    expect_error(csireg_manager_driver_deregister(m, "a", "", &e), &e, CSIREG_ERR_INVALID, "endpoint is empty");

    expect_error(csireg_manager_retry(m, "", &e), &e, CSIREG_ERR_INVALID, "empty");
    expect_error(csireg_manager_plugin_result(m, 0, 1, NULL, &e), &e, CSIREG_ERR_INVALID, "token");
    expect_code(csireg_manager_plugin_result(m, 1, 0, filled(5000, 'a'), NULL), CSIREG_OK);
    expect_code(csireg_manager_plugin_result(m, 1, 0, "\xff", NULL), CSIREG_OK);

    expect_code(csireg_manager_lookup(m, NULL, &driver), CSIREG_ERR_INVALID);
    expect_code(csireg_manager_lookup(m, "a", NULL), CSIREG_ERR_INVALID);
    expect_code(csireg_manager_status_json(m, NULL), CSIREG_ERR_INVALID);
    expect_code(csireg_manager_next_event(m, NULL), CSIREG_ERR_INVALID);
    expect_code(csireg_manager_wait_initial(m, -1), CSIREG_ERR_INVALID);
    expect_code(csireg_manager_wait_initial(m, INT64_MAX), CSIREG_OK);
    expect_code(csireg_manager_exhausted(m, "a", -1, &result), CSIREG_ERR_INVALID);
    expect_code(csireg_manager_exhausted(m, "a", 0, NULL), CSIREG_ERR_INVALID);
}

/* ---- the way to the API server ---- */

static void set(struct host *h, enum csireg_option option, const char *value)
{
    if (strcmp(value, "true") == 0)
        expect_code(csireg_options_set_bool(h->options, option, 1, NULL), CSIREG_OK);
    else
        expect_code(csireg_options_set_string(h->options, option, value, NULL), CSIREG_OK);
}

static void test_configurations_that_cannot_be(void **state)
{
    struct host *h = *state;
    static const struct {
        enum csireg_option first;
        const char *value;
        enum csireg_option second;
        const char *other;
        int code;
        const char *words;
    } cases[] = {
        {CSIREG_OPTION_KUBECONFIG, "/k", CSIREG_OPTION_API_SERVER, "https://a", CSIREG_ERR_INVALID, "api-server"},
        {CSIREG_OPTION_KUBECONFIG, "/k", CSIREG_OPTION_API_TOKEN, "t", CSIREG_ERR_INVALID,
         "api-token needs api-server"},
        {CSIREG_OPTION_KUBECONFIG, "/k", CSIREG_OPTION_API_INSECURE_SKIP_TLS_VERIFY, "true", CSIREG_ERR_INVALID,
         "api-insecure-skip-tls-verify needs"},
        {CSIREG_OPTION_API_CA_FILE, "/c", 0, NULL, CSIREG_ERR_INVALID, "api-ca-file needs"},
        {CSIREG_OPTION_KUBECONFIG_CONTEXT, "c", 0, NULL, CSIREG_ERR_INVALID, "kubeconfig-context needs kubeconfig"},
        {CSIREG_OPTION_KUBECONFIG, "/nonexistent/kubeconfig", 0, NULL, CSIREG_ERR_CONFIG, "/nonexistent/kubeconfig"},
        {CSIREG_OPTION_API_SERVER, "ftp://a", 0, NULL, CSIREG_ERR_CONFIG, "API server"},
        {CSIREG_OPTION_API_SERVER, "https://a", CSIREG_OPTION_API_PROXY, "gopher://p", CSIREG_ERR_CONFIG, "proxy"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct csireg_options *old = h->options;
        struct csireg_error *e = NULL;
        assert_int_equal(csireg_options_new(&h->options), 0);
        set(h, CSIREG_OPTION_NODE_NAME, "n1");
        set(h, cases[i].first, cases[i].value);
        if (cases[i].other) set(h, cases[i].second, cases[i].other);
        int rc = csireg_manager_new(h->options, &h->manager, &e);
        expect_error(rc, &e, cases[i].code, cases[i].words);
        assert_null(h->manager);
        csireg_options_free(h->options);
        h->options = old;
    }
}

static void test_node_name_is_required(void **state)
{
    struct host *h = *state;
    struct csireg_error *e = NULL;
    set(h, CSIREG_OPTION_NODE_NAME, "");
    int rc = csireg_manager_new(h->options, &h->manager, &e);
    expect_error(rc, &e, CSIREG_ERR_INVALID, "node-name is required");
    expect_code(csireg_manager_new(NULL, &h->manager, NULL), CSIREG_ERR_INVALID);
    expect_code(csireg_manager_new(h->options, NULL, NULL), CSIREG_ERR_INVALID);
}

static void test_no_api_server_at_all(void **state)
{
    struct host *h = *state;
    struct csireg_error *e = NULL;
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBERNETES_SERVICE_PORT");
    csireg_options_set_bool(h->options, CSIREG_OPTION_LOCAL_ONLY, 0, NULL);
    int rc = csireg_manager_new(h->options, &h->manager, &e);
    expect_error(rc, &e, CSIREG_ERR_CONFIG, "KUBERNETES_SERVICE_HOST");
}

static void test_unverified_server_is_told_loudly(void **state)
{
    struct host *h = *state;
    csireg_options_set_bool(h->options, CSIREG_OPTION_LOCAL_ONLY, 0, NULL);
    set(h, CSIREG_OPTION_API_SERVER, "https://127.0.0.1:1");
    set(h, CSIREG_OPTION_API_TOKEN, "secret-token");
    set(h, CSIREG_OPTION_API_INSECURE_SKIP_TLS_VERIFY, "true");
    host_start(h);
    struct csireg_event *e = host_await(h, CSIREG_EVENT_WARNING);
    json_t *s = host_status(h), *warnings = json_object_get(json_object_get(s, "api"), "warnings");
    assert_string_equal(json_string_value(json_array_get(warnings, 0)), csireg_error_message(csireg_event_error(e)));
    assert_string_equal(json_text(json_object_get(s, "api"), "source"), "explicit");
    char *text = json_dumps(s, 0);
    assert_null(strstr(text, "secret-token"));
    free(text);
    json_decref(s);
    csireg_event_free(e);
    host_stop(h);
}

/* ---- status ---- */

static void test_status_of_an_idle_manager(void **state)
{
    struct host *h = *state;
    host_start(h);
    json_t *s = host_status(h);
    assert_int_equal(json_integer_value(json_object_get(s, "version")), 1);
    assert_string_equal(json_text(s, "library"), csireg_version());
    assert_string_equal(json_text(json_object_get(s, "node"), "name"), "n1");
    assert_true(json_is_false(json_object_get(json_object_get(s, "gates"), "CSIControllerGetNodeInfo")));
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(s, "capabilities"), "NODE_INFO_FROM_CONTROLLER")), 9);
    assert_string_equal(json_text(json_object_get(s, "registry"), "mode"), "none");
    assert_string_equal(json_text(json_object_get(s, "api"), "source"), "none");
    assert_string_equal(json_text(json_object_get(s, "api"), "state"), "local-only");
    assert_int_equal(json_object_size(json_object_get(json_object_get(s, "api"), "requests")), 0);
    assert_int_equal(json_array_size(json_object_get(s, "sockets")), 0);
    assert_int_equal(json_array_size(json_object_get(s, "drivers")), 0);
    assert_int_equal(json_array_size(json_object_get(s, "unclaimed")), 0);
    json_decref(s);
}

/* ---- life ---- */

static void test_stop_without_start(void **state)
{
    struct host *h = *state;
    char *text = NULL;
    host_new(h);
    host_stop(h);
    expect_code(csireg_manager_start(h->manager, NULL), CSIREG_ERR_STATE);
    expect_code(csireg_manager_status_json(h->manager, &text), CSIREG_ERR_STATE);
}

static void test_free_in_any_phase(void **state)
{
    struct host *h = *state;
    host_new(h);
    host_free(h);
    host_start(h);
    host_free(h);
    host_start(h);
    host_stop(h);
    host_free(h);
}

static void *stop_it(void *manager) { return csireg_manager_stop(manager) == CSIREG_OK ? NULL : manager; }

static void *wait_for_it(void *manager)
{
    return csireg_manager_wait_initial(manager, INT64_MAX) == CSIREG_ERR_STATE ? NULL : manager;
}

static void test_stop_from_many_threads_ends_waits(void **state)
{
    struct host *h = *state;
    pthread_t threads[6];
    void *failed = NULL;
    host_watch(h);
    struct fake_driver *d =
        host_driver_with(h, "reg/a.sock", (struct fake_driver_config){.name = "a", .hangs = {[FAKE_GET_INFO] = true}});
    host_start(h);
    fake_driver_wait_called(d, FAKE_GET_INFO, 1);
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < 3 ? wait_for_it : stop_it, h->manager), 0);
    for (size_t i = 0; i < COUNT(threads); i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    host_stop(h);
}

static void test_unread_events_survive_stop(void **state)
{
    struct host *h = *state;
    host_watch(h);
    struct fake_driver *d = host_driver(h, "reg/a.sock", "a.example.com");
    host_start(h);
    fake_driver_wait_called(d, FAKE_NOTIFY, 1);
    expect_code(csireg_manager_stop(h->manager), CSIREG_OK);
    host_expect(h, CSIREG_EVENT_REGISTERED, "a.example.com");
    host_expect(h, CSIREG_EVENT_STOPPED, "");
    assert_false(host_readable(h));
}

/* ---- fork ---- */

/* "" when every call fails as it should, else the one that does not. */
static const char *wrong_call_in_child(struct csireg_manager *m)
{
    struct csireg_error *e = NULL;
    for (size_t i = 0; i < COUNT(calls); i++)
        if (calls[i].call(m) != CSIREG_ERR_FORKED) return calls[i].name;
    if (call_start(m) != CSIREG_ERR_FORKED) return "start";
    if (call_stop(m) != CSIREG_ERR_FORKED) return "stop";
    if (csireg_manager_retry(m, NULL, &e) != CSIREG_ERR_FORKED || !e) return "an error object";
    csireg_error_free(e);
    csireg_manager_free(m); /* does nothing; the parent's registration goes on */
    return "";
}

/* The child is killed rather than exiting: leak checkers look at it otherwise, and most of it is the parent's. */
static void run_child(struct csireg_manager *m, int out)
{
    const char *wrong = wrong_call_in_child(m);
    ssize_t n = write(out, wrong, strlen(wrong) + 1);
    kill(getpid(), SIGKILL);
    _exit((int)n);
}

static void test_child_process(void **state)
{
    struct host *h = *state;
    int pipe_ends[2];
    char said[64] = "nothing";
    host_watch(h);
    host_driver(h, "reg/a.sock", "a.example.com");
    host_start(h);
    host_expect(h, CSIREG_EVENT_REGISTERED, "a.example.com");
    assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) run_child(h->manager, pipe_ends[1]);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(read(pipe_ends[0], said, sizeof said - 1) > 0);
    assert_string_equal(said, "");
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    host_driver(h, "reg/b.sock", "b.example.com");
    host_expect(h, CSIREG_EVENT_REGISTERED, "b.example.com");
    host_stop(h);
}

static void test_exec_inherits_nothing(void **state)
{
    struct host *h = *state;
    host_watch(h);
    struct fake_driver *d =
        host_driver_with(h, "reg/a.sock", (struct fake_driver_config){.name = "a", .hangs = {[FAKE_NODE_INFO] = true}});
    unsigned before = count_inherited_fds();
    host_start(h);
    fake_driver_wait_called(d, FAKE_NODE_INFO, 1);
    assert_int_equal(count_inherited_fds(), before);
    host_stop(h);
}

/* ---- a storm ---- */

enum { STORM_THREADS = 4, STORM_ROUNDS = 300 };

static void storm_round(struct csireg_manager *m, const char *path, int i)
{
    struct csireg_driver *driver = NULL;
    struct csireg_event *event = NULL;
    char *text = NULL;
    if (i % 3 == 0) csireg_manager_socket_gone(m, path, NULL);
    csireg_manager_socket_seen(m, path, NULL);
    csireg_manager_driver_register(m, "third.example.com", path, NULL, 0, NULL);
    csireg_manager_driver_deregister(m, "third.example.com", path, NULL);
    csireg_manager_retry(m, NULL, NULL);
    if (csireg_manager_lookup(m, "a.example.com", &driver) == CSIREG_OK) csireg_driver_free(driver);
    if (i % 16 == 0 && csireg_manager_status_json(m, &text) == CSIREG_OK) free(text);
    if (csireg_manager_next_event(m, &event) == 1) csireg_event_free(event);
}

struct storm {
    struct csireg_manager *manager;
    const char *path;
};

static void *storm(void *arg)
{
    struct storm *s = arg;
    for (int i = 0; i < STORM_ROUNDS; i++) storm_round(s->manager, s->path, i);
    return NULL;
}

/* All calls at once from several threads, and stop in the middle of it. */
static void test_storm(void **state)
{
    struct host *h = *state;
    pthread_t threads[STORM_THREADS];
    host_driver(h, "a.sock", "a.example.com");
    host_start(h);
    struct storm s = {h->manager, host_path(h, "a.sock")};
    for (int i = 0; i < STORM_THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, storm, &s), 0);
    storm(&s);
    expect_code(csireg_manager_stop(h->manager), CSIREG_OK);
    for (int i = 0; i < STORM_THREADS; i++) pthread_join(threads[i], NULL);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, host_setup, host_teardown)
    const struct CMUnitTest tests[] = {
        T(test_calls_by_phase),
        T(test_null_manager),
        T(test_messages_of_state),
        T(test_calls_from_the_log_callback),
        T(test_log_level),
        T(test_arguments),
        T(test_configurations_that_cannot_be),
        T(test_node_name_is_required),
        T(test_no_api_server_at_all),
        T(test_unverified_server_is_told_loudly),
        T(test_status_of_an_idle_manager),
        T(test_stop_without_start),
        T(test_free_in_any_phase),
        T(test_stop_from_many_threads_ends_waits),
        T(test_unread_events_survive_stop),
        T(test_child_process),
        T(test_exec_inherits_nothing),
        T(test_storm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
