/* SPDX-License-Identifier: Apache-2.0 */
/* How calls and connections end, and what they leave behind: descriptors, threads, signals, memory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "grpc_peer.h"
#include "rpc_rig.h"

static int connect_error(struct rpc_rig *r, const char *path)
{
    struct cr_conn *conn = NULL;
    struct cr_identity identity;
    int error = cr_rpc_connect(r->rpc, path, &conn, &identity);
    cr_rpc_close(conn);
    return error;
}

/* ---- ending calls ---- */

static void silent(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c) && peer_request(c)) peer_drain(c);
}

/* Takes the request before the test goes on, so that cancelling must reach the peer. arg: a pipe. */
static void tell_and_be_silent(struct peer_conn *c, const void *arg)
{
    if (!peer_settings(c) || !peer_request(c)) return;
    if (write(((const int *)arg)[1], "x", 1) == 1) peer_drain(c);
}

static void a_used_up_budget_makes_no_call(void **state)
{
    struct rpc_rig *r = *state;
    struct peer *p = peer_start(r->path, silent, NULL);
    assert_rpc_code(rpc_rig_get_info(r, 0), CR_GRPC_DEADLINE_EXCEEDED);
    assert_rpc_code(rpc_rig_get_info(r, -5), CR_GRPC_DEADLINE_EXCEEDED);
    peer_stop(p);
}

static void cancelling_reaches_the_peer(void **state)
{
    struct rpc_rig *r = *state;
    int heard[2];
    char byte;
    assert_int_equal(pipe2(heard, O_CLOEXEC), 0);
    struct peer *p = peer_start(r->path, tell_and_be_silent, heard);
    struct cr_conn *conn = rpc_rig_connect(r, r->path);
    rpc_rig_start(r, conn, CR_RPC_GET_INFO, LONG_MS, false, NULL);
    assert_int_equal(read(heard[0], &byte, 1), 1);
    cr_rpc_cancel(r->rpc, r->last_id + 1000); /* no such call */
    cr_rpc_cancel(r->rpc, r->last_id);
    assert_rpc_code(rpc_rig_collect(r), CR_GRPC_CANCELLED);
    cr_rpc_cancel(r->rpc, r->last_id); /* over already */
    cr_rpc_close(conn);
    peer_wait_ended(p, 1);
    assert_int_equal(peer_reset_code(p), 8);
    peer_stop(p);
    close(heard[0]);
    close(heard[1]);
}

static void closing_cancels_what_runs(void **state)
{
    struct rpc_rig *r = *state;
    struct peer *p = peer_start(r->path, silent, NULL);
    struct cr_conn *conn = rpc_rig_connect(r, r->path);
    rpc_rig_start(r, conn, CR_RPC_GET_INFO, LONG_MS, false, NULL);
    cr_rpc_close(conn);
    assert_rpc_code(rpc_rig_collect(r), CR_GRPC_CANCELLED);
    peer_wait_ended(p, 1);
    peer_stop(p);
}

static void a_finished_call_may_outlive_its_connection(void **state)
{
    struct rpc_rig *r = *state;
    struct peer *good = peer_start(r->path, peer_good, NULL);
    struct cr_conn *conn = rpc_rig_connect(r, r->path);
    rpc_rig_start(r, conn, CR_RPC_GET_INFO, LONG_MS, false, NULL);
    struct cr_rpc_call *call = rpc_rig_await(r);
    cr_rpc_close(conn);
    assert_string_equal(call->result.plugin.name, "n");
    cr_rpc_call_free(call);
    peer_stop(good);
}

static void a_silent_peer_delays_nobody_else(void **state)
{
    struct rpc_rig *r = *state;
    char other[80];
    snprintf(other, sizeof other, "%s/other", r->directory);
    struct peer *p = peer_start(other, silent, NULL);
    struct cr_conn *slow = rpc_rig_connect(r, other);
    rpc_rig_start(r, slow, CR_RPC_GET_INFO, LONG_MS, false, NULL);
    uint64_t slow_id = r->last_id;
    struct peer *good = peer_start(r->path, peer_good, NULL);
    for (int i = 0; i < 10; i++) assert_rpc_code(rpc_rig_get_info(r, LONG_MS), 0);
    peer_stop(good);
    cr_rpc_cancel(r->rpc, slow_id);
    struct cr_rpc_call *call = rpc_rig_await(r);
    assert_int_equal(call->id, slow_id);
    assert_int_equal(call->result.code, CR_GRPC_CANCELLED);
    cr_rpc_call_free(call);
    cr_rpc_close(slow);
    peer_stop(p);
}

static void hang_up(struct peer_conn *c, const void *arg)
{
    (void)arg;
    if (peer_settings(c) && peer_request(c)) peer_frame(c, H2_GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
}

static void a_dead_connection_stays_dead(void **state)
{
    struct rpc_rig *r = *state;
    struct peer *p = peer_start(r->path, hang_up, NULL);
    struct cr_conn *conn = rpc_rig_connect(r, r->path);
    for (int i = 0; i < 2; i++) {
        rpc_rig_start(r, conn, CR_RPC_GET_INFO, LONG_MS, false, NULL);
        assert_rpc_code(rpc_rig_collect(r), CR_GRPC_UNAVAILABLE);
    }
    cr_rpc_close(conn);
    peer_stop(p);
}

/* ---- descriptors, threads, memory ---- */

static size_t entries(const char *directory)
{
    size_t n = 0;
    DIR *d = opendir(directory);
    while (d && readdir(d)) n++;
    closedir(d);
    return n;
}

/* gRPC closes a descriptor a moment after the peer saw its end. */
static void assert_settles_at(const char *directory, size_t most)
{
    for (int tries = 0; tries < 10000 && entries(directory) > most; tries++) poll(NULL, 0, 1);
    assert_true(entries(directory) <= most);
}

static void connections_leave_nothing_behind(void **state)
{
    struct rpc_rig *r = *state;
    struct peer *p = peer_start(r->path, silent, NULL);
    assert_rpc_code(rpc_rig_get_info(r, 1), CR_GRPC_DEADLINE_EXCEEDED);
    peer_wait_ended(p, 1);
    size_t fds = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    for (size_t i = 0; i < 200; i++) {
        struct cr_conn *conn = rpc_rig_connect(r, r->path);
        rpc_rig_start(r, conn, CR_RPC_GET_INFO, LONG_MS, false, NULL);
        cr_rpc_close(conn);
        assert_rpc_code(rpc_rig_collect(r), CR_GRPC_CANCELLED);
        peer_wait_ended(p, i + 2);
    }
    assert_settles_at("/proc/self/fd", fds);
    assert_settles_at("/proc/self/task", threads);
    peer_stop(p);
}

/* Open when the program began. */
static bool inherited[256];

static void note_inherited(void)
{
    for (int fd = 0; fd < 256; fd++) inherited[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void every_descriptor_is_closed_on_exec(void **state)
{
    struct rpc_rig *r = *state;
    struct peer *p = peer_start(r->path, silent, NULL);
    struct cr_conn *conn = rpc_rig_connect(r, r->path);
    for (int fd = 0; fd < 256; fd++) {
        int flags = inherited[fd] ? -1 : fcntl(fd, F_GETFD);
        if (flags >= 0 && !(flags & FD_CLOEXEC)) fail_msg("descriptor %d would leak", fd);
    }
    cr_rpc_close(conn);
    peer_stop(p);
}

static void assert_mask(const char *thread)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGUSR1, SIGPIPE, SIGQUIT};
    char path[300], line[256];
    unsigned long long blocked = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "SigBlk:", 7) == 0) blocked = strtoull(line + 7, NULL, 16);
    if (!f) return; /* gone meanwhile */
    fclose(f);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (!(blocked >> (signals[i] - 1) & 1)) fail_msg("thread %s takes signal %d", thread, signals[i]);
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

/* The main thread must find its own mask as it was. */
static void signals_are_blocked_in_our_threads_alone(void **state)
{
    struct rpc_rig *r = *state;
    sigset_t mask;
    char self[16];
    snprintf(self, sizeof self, "%d", (int)getpid());
    struct cr_conn *conn = NULL;
    struct cr_identity identity;
    int fd = listen_at(r->path);
    assert_int_equal(cr_rpc_connect(r->rpc, r->path, &conn, &identity), 0);
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' && strcmp(e->d_name, self) != 0) assert_mask(e->d_name);
    closedir(d);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGTERM));
    cr_rpc_close(conn);
    close(fd);
    unlink(r->path);
}

static void the_module_may_come_and_go(void **state)
{
    struct rpc_rig *r = *state;
    for (int i = 0; i < 20; i++) {
        struct cr_rpc *other = NULL;
        assert_int_equal(cr_rpc_new(&other, NULL, NULL, NULL), 0);
        cr_rpc_free(other);
    }
    struct peer *good = peer_start(r->path, peer_good, NULL);
    assert_rpc_code(rpc_rig_get_info(r, LONG_MS), 0);
    peer_stop(good);
    cr_rpc_free(NULL);
    cr_rpc_close(NULL);
    cr_rpc_call_free(NULL);
}

static void short_memory_ends_calls_and_loses_none(void **state)
{
    struct rpc_rig *r = *state;
    struct peer *p = peer_start(r->path, silent, NULL);
    struct cr_rpc *other = NULL;
    struct csireg_error *error = NULL;
    cr_mem_fail_after(1);
    assert_int_equal(cr_rpc_new(&other, NULL, NULL, &error), CSIREG_ERR_NOMEM);
    assert_int_equal(connect_error(r, r->path), ENOMEM);
    cr_mem_fail_after(0);
    struct cr_conn *conn = rpc_rig_connect(r, r->path);
    for (int i = 0; i < 3; i++) {
        cr_mem_fail_after(1);
        rpc_rig_start(r, conn, CR_RPC_GET_INFO, LONG_MS, false, NULL);
        cr_mem_fail_after(0);
        assert_rpc_code(rpc_rig_collect(r), CR_GRPC_INTERNAL);
    }
    cr_rpc_close(conn);
    peer_stop(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_are_blocked_in_our_threads_alone),
        cmocka_unit_test(a_used_up_budget_makes_no_call),
        cmocka_unit_test(cancelling_reaches_the_peer),
        cmocka_unit_test(closing_cancels_what_runs),
        cmocka_unit_test(a_finished_call_may_outlive_its_connection),
        cmocka_unit_test(a_silent_peer_delays_nobody_else),
        cmocka_unit_test(a_dead_connection_stays_dead),
        cmocka_unit_test(connections_leave_nothing_behind),
        cmocka_unit_test(every_descriptor_is_closed_on_exec),
        cmocka_unit_test(the_module_may_come_and_go),
        cmocka_unit_test(short_memory_ends_calls_and_loses_none),
    };
    note_inherited();
    return cmocka_run_group_tests(tests, rpc_rig_setup, rpc_rig_teardown);
}
