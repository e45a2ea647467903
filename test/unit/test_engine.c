/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's parts one by one, then the whole: start and stop in every phase, nothing left behind, no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "doubles/host.h"
#include "engine/answers.h"
#include "engine/document.h"
#include "engine/mailbox.h"
#include "engine/reported.h"
#include "engine/snapshot.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- mailbox ---- */

static void count_ring(void *user) { ++*(int *)user; }

static struct cr_command *command(uint64_t token)
{
    struct cr_command *c = CR_NEW(struct cr_command);
    cr_list_init(&c->node);
    c->kind = CR_IN_PLUGIN_RESULT;
    c->token = token;
    return c;
}

static int post(struct cr_mailbox *m, uint64_t token)
{
    struct cr_command *c = command(token);
    int rc = cr_mailbox_command(m, c);
    if (rc != CSIREG_OK) cr_command_free(c);
    return rc;
}

/* Tokens from `first` on, in order, and nothing else. */
static void drain(struct cr_mailbox *m, uint64_t first, size_t n)
{
    struct cr_list commands, calls;
    cr_list_init(&commands);
    cr_list_init(&calls);
    cr_mailbox_drain(m, &commands, &calls);
    for (size_t i = 0; i < n; i++) {
        struct cr_command *c = CR_CONTAINER(cr_list_pop(&commands), struct cr_command, node);
        assert_int_equal(c->token, first + i);
        cr_command_free(c);
    }
    assert_true(cr_list_empty(&commands) && cr_list_empty(&calls));
}

static void test_mailbox_rings_when_it_was_empty(void **state)
{
    (void)state;
    struct cr_mailbox m;
    struct cr_rpc_call call = {.id = 1};
    int rings = 0;
    assert_int_equal(cr_mailbox_init(&m, count_ring, &rings), 0);
    expect_code(post(&m, 1), CSIREG_ERR_STATE);
    cr_mailbox_open(&m);
    for (uint64_t i = 1; i <= 3; i++) expect_code(post(&m, i), CSIREG_OK);
    assert_int_equal(rings, 1);
    drain(&m, 1, 3);
    drain(&m, 0, 0);
    cr_list_init(&call.node);
    cr_mailbox_call(&m, &call);
    expect_code(post(&m, 4), CSIREG_OK);
    assert_int_equal(rings, 2);
    cr_list_remove(&call.node);
    drain(&m, 4, 1);
    cr_mailbox_fini(&m);
}

static void test_mailbox_close_and_bound(void **state)
{
    (void)state;
    struct cr_mailbox m;
    int rings = 0;
    assert_int_equal(cr_mailbox_init(&m, count_ring, &rings), 0);
    cr_mailbox_open(&m);
    for (uint64_t i = 0; i < CR_MAX_COMMANDS; i++) expect_code(post(&m, i), CSIREG_OK);
    expect_code(post(&m, 1), CSIREG_ERR_LIMIT);
    drain(&m, 0, CR_MAX_COMMANDS);
    expect_code(post(&m, 7), CSIREG_OK);
    cr_mailbox_close(&m, command(8));
    expect_code(post(&m, 9), CSIREG_ERR_STATE);
    drain(&m, 7, 2);
    cr_mailbox_fini(&m); /* what was never drained goes with it */
}

/* ---- sockets that the host reports ---- */

static void make_socket(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    close(fd); /* the file stays, and refuses connections */
}

static void make_file(const char *path)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fclose(f);
}

static void test_reported_sockets(void **state)
{
    struct host *h = *state;
    struct cr_reported r;
    struct cr_identity first, again, anew;
    int err = 0;
    const char *path = host_path(h, "s");
    cr_reported_init(&r);

    assert_int_equal(cr_reported_seen(&r, path, &first, &err), CR_REPORT_IGNORED);
    assert_int_equal(err, ENOENT);
    assert_int_equal(cr_reported_gone(&r, path), CR_REPORT_IGNORED);

    make_socket(path);
    assert_int_equal(cr_reported_seen(&r, path, &first, &err), CR_REPORT_SEEN);
    assert_int_equal(cr_reported_seen(&r, path, &again, &err), CR_REPORT_SEEN);
    assert_memory_equal(&first, &again, sizeof first);

    assert_int_equal(cr_reported_gone(&r, path), CR_REPORT_GONE); /* taken at its word */
    assert_int_equal(cr_reported_seen(&r, path, &anew, &err), CR_REPORT_SEEN);
    assert_int_equal(anew.ino, first.ino);
    assert_true(anew.generation > first.generation);

    unlink(path); /* the hint leads to what is there now */
    assert_int_equal(cr_reported_seen(&r, path, &again, &err), CR_REPORT_GONE);
    make_file(path);
    assert_int_equal(cr_reported_seen(&r, path, &again, &err), CR_REPORT_IGNORED);
    assert_int_equal(err, ENOTSOCK);
    assert_int_equal(r.n, 0);
    cr_reported_fini(&r);
}

static void test_reported_sockets_are_bounded(void **state)
{
    struct host *h = *state;
    struct cr_reported r;
    struct cr_identity identity;
    int err = 0;
    char link_to[160];
    make_socket(host_path(h, "s"));
    cr_reported_init(&r);
    for (int i = 0; i <= CR_MAX_SOCKETS; i++) {
        snprintf(link_to, sizeof link_to, "%s/reg/%d", h->dir, i);
        assert_int_equal(symlink(host_path(h, "s"), link_to), 0);
        enum cr_report expected = i < CR_MAX_SOCKETS ? CR_REPORT_SEEN : CR_REPORT_IGNORED;
        assert_int_equal(cr_reported_seen(&r, link_to, &identity, &err), expected);
    }
    assert_int_equal(err, ENOSPC);
    assert_int_equal(r.n, CR_MAX_SOCKETS);
    cr_reported_fini(&r);
}

/* ---- snapshots ---- */

static struct cr_snapshot *snapshot(const char *name, bool initial_done)
{
    struct csireg_driver **drivers = cr_calloc(2, sizeof *drivers);
    drivers[0] = CR_NEW(struct csireg_driver);
    drivers[0]->name = cr_strdup(name);
    return cr_snapshot_new(drivers, json_pack("{s:s}", "name", name), initial_done);
}

static void test_snapshots_outlive_their_place(void **state)
{
    (void)state;
    struct cr_board b;
    assert_int_equal(cr_board_init(&b), 0);
    assert_null(cr_board_get(&b));
    cr_board_publish(&b, snapshot("a", false));
    struct cr_snapshot *a = cr_board_get(&b);
    cr_board_publish(&b, snapshot("b", true));
    struct cr_snapshot *second = cr_board_get(&b);
    cr_board_fini(&b);
    assert_non_null(cr_snapshot_driver(a, "a"));
    assert_null(cr_snapshot_driver(a, "b"));
    assert_non_null(cr_snapshot_driver(second, "b"));
    char *text = cr_snapshot_text(second);
    assert_string_equal(text, "{\"name\":\"b\"}");
    free(text);
    cr_snapshot_unref(a);
    cr_snapshot_unref(second);
    cr_snapshot_unref(NULL);
}

static void test_a_snapshot_needs_both_parts(void **state)
{
    (void)state;
    struct csireg_driver **drivers = cr_calloc(1, sizeof *drivers);
    assert_null(cr_snapshot_new(NULL, json_object(), true));
    assert_null(cr_snapshot_new(drivers, NULL, true)); /* both were taken: nothing leaks */
}

static void *publish_later(void *board)
{
    cr_board_publish(board, snapshot("a", false));
    cr_board_publish(board, snapshot("a", true));
    return NULL;
}

static void test_wait_for_the_initial_scan(void **state)
{
    (void)state;
    struct cr_board b;
    pthread_t t;
    assert_int_equal(cr_board_init(&b), 0);
    expect_code(cr_board_wait_initial(&b, 0), CSIREG_ERR_TIMEOUT);
    cr_board_publish(&b, snapshot("a", false));
    expect_code(cr_board_wait_initial(&b, 1), CSIREG_ERR_TIMEOUT);
    assert_int_equal(pthread_create(&t, NULL, publish_later, &b), 0);
    expect_code(cr_board_wait_initial(&b, INT64_MAX), CSIREG_OK);
    pthread_join(t, NULL);
    cr_board_end(&b);
    expect_code(cr_board_wait_initial(&b, INT64_MAX), CSIREG_ERR_STATE);
    cr_board_fini(&b);
}

/* ---- answers to waiting calls ---- */

static void test_answers_wait_for_their_release(void **state)
{
    (void)state;
    struct cr_answers a;
    struct cr_waiter first, second;
    assert_int_equal(cr_answers_init(&a), 0);
    uint64_t token = cr_answers_expect(&a, &first), other = cr_answers_expect(&a, &second);
    assert_true(token != other);
    cr_answers_put(&a, token, CSIREG_EXHAUSTED_REFRESHED);
    expect_code(cr_answers_wait(&a, &first, 0), CSIREG_ERR_TIMEOUT); /* its snapshot is not out */
    cr_answers_put(&a, token, CSIREG_EXHAUSTED_REFRESHED);           /* nobody's any more */
    cr_answers_put(&a, other, CSIREG_EXHAUSTED_FAILED);
    cr_answers_release(&a);
    assert_int_equal(cr_answers_wait(&a, &second, INT64_MAX), CSIREG_EXHAUSTED_FAILED);
    cr_answers_expect(&a, &first);
    cr_answers_end(&a);
    expect_code(cr_answers_wait(&a, &first, INT64_MAX), CSIREG_ERR_STATE);
    cr_answers_fini(&a);
}

/* ---- the document ---- */

static char *document(struct cr_document d)
{
    json_t *all = cr_document_build(&d);
    assert_non_null(all);
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

static void test_document(void **state)
{
    (void)state;
    char server[] = "https://10.0.0.1:6443", warning[] = "no verification";
    const char *const warnings[] = {"writable by all", NULL};
    struct cr_access access = {.source = CR_ACCESS_EXPLICIT, .server = server, .warning = warning};
    struct cr_watcher_status w = {.path = "/r\xff", /* a path is bytes */
                                  .resolved = "/real",
                                  .mode = CR_WATCHER_POLLING,
                                  .sockets = 2,
                                  .last_event_wall_ms = 1000,
                                  .scan_done = true,
                                  .warnings = warnings};
    json_t *core = json_pack("{s:{s:b}, s:{s:s, s:s}, s:[], s:[], s:[s], s:{s:i}}", "gates", "G", 1, "api", "state",
                             "ok", "since", "now", "sockets", "drivers", "unclaimed", "u", "capabilities", "C", 9);
    char *text = document((struct cr_document){core, json_pack("{s:i}", "get nodes", 3), "n1", &access, &w});
    assert_string_equal(
        text, "{\"version\":1,\"library\":\"" CSIREG_VERSION "\",\"node\":{\"name\":\"n1\"},\"gates\":{\"G\":true},"
              "\"capabilities\":{\"C\":9},\"registry\":{\"path\":\"/r?\",\"resolved\":\"/real\",\"mode\":\"polling\","
              "\"sockets\":2,\"lastEvent\":\"1970-01-01T00:00:01.000Z\",\"initialScanDone\":true,"
              "\"warnings\":[\"writable by all\"]},\"api\":{\"server\":\"https://10.0.0.1:6443\","
              "\"source\":\"explicit\",\"state\":\"ok\",\"since\":\"now\",\"requests\":{\"get nodes\":3},"
              "\"warnings\":[\"no verification\"]},\"sockets\":[],\"drivers\":[],\"unclaimed\":[\"u\"]}");
    free(text);
}

static void test_document_without_edges(void **state)
{
    (void)state;
    char *text = document((struct cr_document){json_object(), json_object(), "n1", NULL, NULL});
    assert_string_equal(text, "{\"version\":1,\"library\":\"" CSIREG_VERSION "\",\"node\":{\"name\":\"n1\"},"
                              "\"registry\":{\"mode\":\"none\"},\"api\":{\"source\":\"none\",\"requests\":{}}}");
    free(text);
    struct cr_document no_core = {NULL, json_object(), "n1", NULL, NULL};
    struct cr_document no_requests = {json_object(), NULL, "n1", NULL, NULL};
    assert_null(cr_document_build(&no_core));
    assert_null(cr_document_build(&no_requests));
}

/* ---- start and stop ---- */

/* gRPC's threads end a little after grpc_shutdown; what stays for good are two descriptors of its own. */
static void warm_up(struct host *h)
{
    host_start(h);
    host_stop(h);
    host_free(h);
}

static void test_start_and_stop_leave_nothing(void **state)
{
    struct host *h = *state;
    host_watch(h);
    warm_up(h);
    unsigned threads = count_threads(), fds = count_fds();
    for (int i = 0; i < 200; i++) warm_up(h);
    assert_int_equal(count_threads(), threads);
    assert_int_equal(count_fds(), fds);
}

static void test_registrations_leave_nothing(void **state)
{
    struct host *h = *state;
    unsigned fds = 0;
    host_watch(h);
    struct fake_driver *d = host_driver(h, "reg/a.sock", "a.example.com");
    for (int i = 0; i < 20; i++) {
        host_start(h);
        csireg_event_free(host_await(h, CSIREG_EVENT_REGISTERED));
        host_stop(h);
        host_free(h);
        if (i == 2) fds = count_fds();
    }
    fake_driver_wait_called(d, FAKE_GET_INFO, 20);
    host_driver_stop(h, d);
    assert_true(count_fds() <= fds);
}

/* A line of /proc/self/task/<tid>/<file> after its label; false: there is none. */
static bool task_line(const char *tid, const char *file, const char *label, char out[64])
{
    char path[64], line[256];
    bool found = false;
    snprintf(path, sizeof path, "/proc/self/task/%.16s/%s", tid, file);
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f)) found = strncmp(line, label, strlen(label)) == 0;
    if (found) snprintf(out, 64, "%.63s", line + strlen(label));
    if (f) fclose(f);
    return found;
}

static bool blocks_all_signals(const char *tid)
{
    char mask[64];
    if (!task_line(tid, "status", "SigBlk:", mask)) return false;
    unsigned long long blocked = strtoull(mask, NULL, 16);
    for (int s = 1; s < 32; s++)
        if (s != SIGKILL && s != SIGSTOP && !(blocked >> (s - 1) & 1)) return false;
    return true;
}

static void test_signals_are_blocked(void **state)
{
    struct host *h = *state;
    sigset_t before, after;
    char rest[64];
    int ours = 0;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    host_start(h);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < 32; s++) assert_int_equal(sigismember(&before, s), sigismember(&after, s));
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; (e = readdir(tasks));) {
        if (!task_line(e->d_name, "comm", "csireg-", rest)) continue;
        assert_true(blocks_all_signals(e->d_name));
        ours++;
    }
    closedir(tasks);
    assert_int_equal(ours, 2); /* engine and pump */
    host_stop(h);
}

/* ---- stop in every phase ---- */

static void test_stop_while_a_method_hangs(void **state)
{
    struct host *h = *state;
    csireg_options_set_bool(h->options, CSIREG_OPTION_CONTROLLER_GET_NODE_INFO, 1, NULL);
    host_watch(h);
    for (int method = 0; method < FAKE_METHODS; method++) {
        struct fake_driver_config config = {.name = "a.example.com"};
        if (method == FAKE_CAPABILITIES) continue; /* not asked in local-only mode */
        config.hangs[method] = true;
        struct fake_driver *d = host_driver_with(h, "reg/a.sock", config);
        host_start(h);
        fake_driver_wait_called(d, (enum fake_method)method, 1);
        host_stop(h);
        host_free(h);
        host_driver_stop(h, d);
    }
}

static void test_stop_while_nobody_listens(void **state)
{
    struct host *h = *state;
    host_watch(h);
    make_socket(host_path(h, "reg/dead.sock"));
    host_start(h); /* connecting again and again, within connect-timeout */
    host_stop(h);
}

/* A TCP listener whose kernel takes connections and that never says a word. */
static int mute_server(char url[64])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    snprintf(url, 64, "http://127.0.0.1:%d", ntohs(a.sin_port));
    return fd;
}

static void use_server(struct host *h, const char *url)
{
    csireg_options_set_bool(h->options, CSIREG_OPTION_LOCAL_ONLY, 0, NULL);
    expect_code(csireg_options_set_string(h->options, CSIREG_OPTION_API_SERVER, url, NULL), CSIREG_OK);
    expect_code(csireg_options_set_string(h->options, CSIREG_OPTION_API_TOKEN, "t", NULL), CSIREG_OK);
}

static void test_stop_while_the_api_server_hangs(void **state)
{
    struct host *h = *state;
    char url[64];
    int server = mute_server(url);
    use_server(h, url);
    host_watch(h);
    host_driver(h, "reg/a.sock", "a.example.com");
    host_start(h);
    int connection = accept4(server, NULL, NULL, SOCK_CLOEXEC); /* the first request is on its way */
    assert_true(connection >= 0);
    host_stop(h);
    close(connection);
    close(server);
}

static void test_stop_while_there_is_no_api_server(void **state)
{
    struct host *h = *state;
    char url[64];
    close(mute_server(url));
    use_server(h, url);
    host_watch(h);
    struct fake_driver *d = host_driver(h, "reg/a.sock", "a.example.com");
    host_start(h);
    fake_driver_wait_called(d, FAKE_NODE_INFO, 1);
    host_stop(h);
    assert_int_equal(fake_driver_calls(d, FAKE_NOTIFY), 0);
}

/* ---- odd files ---- */

static void test_odd_reports_are_harmless(void **state)
{
    struct host *h = *state;
    const char *file = host_path(h, "file"), *fifo = host_path(h, "fifo"), *missing = host_path(h, "missing");
    make_file(file);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    host_driver(h, "a.sock", "a.example.com");
    host_start(h);
    const char *odd[] = {file, fifo, missing, h->dir, "/", "/dev/null"};
    for (size_t i = 0; i < COUNT(odd); i++)
        expect_code(csireg_manager_socket_seen(h->manager, odd[i], NULL), CSIREG_OK);
    expect_code(csireg_manager_socket_seen(h->manager, host_path(h, "a.sock"), NULL), CSIREG_OK);
    host_expect(h, CSIREG_EVENT_REGISTERED, "a.example.com"); /* and nothing before it */
    host_stop(h);
}

/* ---- no memory ---- */

static void forget(struct csireg_manager **m, struct csireg_error *error)
{
    csireg_error_free(error);
    csireg_manager_free(*m);
    *m = NULL;
}

/* Fails allocation after allocation of new and start: NOMEM and nothing left, until they succeed. */
static void test_no_memory_at_start(void **state)
{
    struct host *h = *state;
    host_watch(h);
    warm_up(h);
    unsigned fds = count_fds();
    int rc = CSIREG_ERR_NOMEM;
    for (unsigned long n = 1; rc != CSIREG_OK; n++) {
        struct csireg_error *error = NULL;
        cr_mem_fail_after(n);
        rc = csireg_manager_new(h->options, &h->manager, &error);
        if (rc == CSIREG_OK) rc = csireg_manager_start(h->manager, &error);
        cr_mem_fail_after(0);
        if (rc != CSIREG_OK) expect_code(rc, CSIREG_ERR_NOMEM);
        forget(&h->manager, error);
        assert_true(n < 1000);
    }
    assert_int_equal(count_fds(), fds);
}

/* A start that failed can be made again. */
static void test_start_again_after_failure(void **state)
{
    struct host *h = *state;
    host_new(h);
    cr_mem_fail_after(1);
    int rc = csireg_manager_start(h->manager, NULL);
    cr_mem_fail_after(0);
    expect_code(rc, CSIREG_ERR_NOMEM);
    host_start(h);
    host_stop(h);
}

/* Memory is short from some moment of a registration on and comes back: the manager still stops, nothing is lost for
 * good. */
static void test_no_memory_while_running(void **state)
{
    struct host *h = *state;
    host_watch(h);
    host_driver(h, "reg/a.sock", "a.example.com");
    for (unsigned long n = 1; n < 200; n += 7) {
        host_start(h);
        cr_mem_fail_after(n);
        csireg_manager_retry(h->manager, NULL, NULL);
        csireg_manager_wait_initial(h->manager, 2);
        cr_mem_fail_after(0);
        csireg_manager_retry(h->manager, NULL, NULL);
        host_stop(h);
        host_free(h);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, host_setup, host_teardown)
    const struct CMUnitTest tests[] = {
        T(test_mailbox_rings_when_it_was_empty),
        T(test_mailbox_close_and_bound),
        T(test_reported_sockets),
        T(test_reported_sockets_are_bounded),
        T(test_snapshots_outlive_their_place),
        T(test_a_snapshot_needs_both_parts),
        T(test_wait_for_the_initial_scan),
        T(test_answers_wait_for_their_release),
        T(test_document),
        T(test_document_without_edges),
        T(test_start_and_stop_leave_nothing),
        T(test_registrations_leave_nothing),
        T(test_signals_are_blocked),
        T(test_stop_while_a_method_hangs),
        T(test_stop_while_nobody_listens),
        T(test_stop_while_the_api_server_hangs),
        T(test_stop_while_there_is_no_api_server),
        T(test_odd_reports_are_harmless),
        T(test_no_memory_at_start),
        T(test_start_again_after_failure),
        T(test_no_memory_while_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
