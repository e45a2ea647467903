/* SPDX-License-Identifier: Apache-2.0 */
#include "common/grpc_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"
#include "common/grpc_client.h"

#define LONG_MS 20000 /* never reached when things go right */

struct fixture {
    char directory[32], path[64];
    struct gloop *loop;
    struct gserver *server;
    int heard;                 /* eventfd: a hook was called */
    char last[64];             /* what the hook said; read after heard */
    _Atomic(char *) authority; /* of the last call */
};

static void say(struct fixture *f, const char *text)
{
    snprintf(f->last, sizeof f->last, "%s", text);
    eventfd_write(f->heard, 1);
}

static void expect_hook(struct fixture *f, const char *text)
{
    struct pollfd p = {.fd = f->heard, .events = POLLIN};
    assert_int_equal(poll(&p, 1, LONG_MS), 1);
    eventfd_t count;
    eventfd_read(f->heard, &count);
    assert_string_equal(f->last, text);
}

static void handle(void *user, const struct gserver_request *request, struct gserver_reply *reply)
{
    struct fixture *f = user;
    free(f->authority);
    f->authority = need_strdup(request->authority);
    if (strcmp(request->method, "/t.T/Echo") == 0) {
        reply->body = need_calloc(request->len, 1);
        memcpy(reply->body, request->body, request->len);
        reply->len = request->len;
    } else if (strcmp(request->method, "/t.T/Huge") == 0) {
        reply->len = 5 * 1024 * 1024;
        reply->body = need_calloc(reply->len, 1);
    } else if (strcmp(request->method, "/t.T/Late") == 0) {
        reply->delay_ms = LONG_MS;
    } else if (strcmp(request->method, "/t.T/Soon") == 0) {
        reply->delay_ms = 20;
    } else if (strcmp(request->method, "/t.T/Hang") == 0) {
        say(f, "hanging");
        reply->hang = true;
    } else {
        reply->code = 12;
        reply->text = "no such method";
    }
}

static void finished(void *user, const char *method, bool sent)
{
    if (strcmp(method, "/t.T/Late") == 0) say(user, sent ? "sent" : "given up");
}

static void listening(void *user, const char *error) { say(user, error ? error : "listening"); }

static const struct gserver_hooks hooks = {.handle = handle, .finished = finished, .listening = listening};

static struct gserver *start(struct fixture *f, int64_t listen_after_ms, bool bind_early)
{
    struct gserver_options options = {
        .path = f->path, .hooks = &hooks, .user = f, .listen_after_ms = listen_after_ms, .bind_early = bind_early};
    char *error = NULL;
    struct gserver *server = gserver_start(f->loop, &options, &error);
    if (!server) fail_msg("%s", error);
    return server;
}

static int setup(void **state)
{
    struct fixture *f = NEED_NEW(struct fixture);
    snprintf(f->directory, sizeof f->directory, "/tmp/csireg-grpc-XXXXXX");
    if (!mkdtemp(f->directory)) return -1;
    snprintf(f->path, sizeof f->path, "%s/s.sock", f->directory);
    f->heard = eventfd(0, EFD_CLOEXEC);
    f->loop = gloop_new();
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    gserver_stop(f->server);
    gloop_free(f->loop);
    int removed = rmdir(f->directory); /* fails when a socket file was left behind */
    close(f->heard);
    free(f->authority);
    free(f);
    return removed;
}

static void expect_call(struct fixture *f, const char *method, int64_t timeout_ms, int code, const char *text)
{
    struct gclient_reply reply;
    gclient_call(f->path, method, "\x08\x01", 2, timeout_ms, &reply);
    assert_int_equal(reply.code, code);
    if (text) assert_string_equal(reply.text, text);
    gclient_reply_fini(&reply);
}

static void test_echo(void **state)
{
    struct fixture *f = *state;
    f->server = start(f, 0, false);
    struct gclient_reply reply;
    gclient_call(f->path, "/t.T/Echo", "\x08\x01", 2, LONG_MS, &reply);
    assert_int_equal(reply.code, 0);
    assert_int_equal(reply.len, 2);
    assert_memory_equal(reply.body, "\x08\x01", 2);
    gclient_reply_fini(&reply);
    assert_string_equal(f->authority, "localhost");
    gclient_call(f->path, "/t.T/Echo", NULL, 0, LONG_MS, &reply);
    assert_int_equal(reply.code, 0);
    assert_int_equal(reply.len, 0);
    assert_non_null(reply.body);
    gclient_reply_fini(&reply);
}

static void test_errors(void **state)
{
    struct fixture *f = *state;
    expect_call(f, "/t.T/Echo", LONG_MS, 14, strerror(ENOENT));
    f->server = start(f, 0, false);
    expect_call(f, "/t.T/None", LONG_MS, 12, "no such method");
    expect_call(f, "/t.T/Huge", LONG_MS, 8, NULL);
    expect_call(f, "/t.T/Soon", LONG_MS, 0, "");
    expect_call(f, "/t.T/Soon", 0, 4, NULL);
}

static void *call_late(void *arg)
{
    struct gclient_reply reply;
    gclient_call(((struct fixture *)arg)->path, "/t.T/Late", NULL, 0, LONG_MS, &reply);
    gclient_reply_fini(&reply);
    return NULL;
}

static void test_a_late_reply_delays_nobody(void **state)
{
    struct fixture *f = *state;
    f->server = start(f, 0, false);
    pthread_t thread;
    pthread_create(&thread, NULL, call_late, f);
    expect_call(f, "/t.T/Soon", LONG_MS, 0, "");
    gserver_stop(f->server); /* ends the late call too, if it has come by now */
    f->server = NULL;
    pthread_join(thread, NULL);
}

static void test_the_callers_deadline(void **state)
{
    struct fixture *f = *state;
    f->server = start(f, 0, false);
    expect_call(f, "/t.T/Late", 100, 4, NULL);
    expect_hook(f, "given up");
}

static void *call_hang(void *arg)
{
    struct gclient_reply reply;
    gclient_call(((struct fixture *)arg)->path, "/t.T/Hang", NULL, 0, LONG_MS, &reply);
    bool gone = reply.code != 0 && reply.code != 4;
    gclient_reply_fini(&reply);
    return gone ? arg : NULL;
}

static void test_stop_ends_a_hanging_call(void **state)
{
    struct fixture *f = *state;
    f->server = start(f, 0, false);
    pthread_t thread;
    pthread_create(&thread, NULL, call_hang, f);
    expect_hook(f, "hanging");
    gserver_stop(f->server);
    f->server = NULL;
    void *gone;
    pthread_join(thread, &gone);
    assert_non_null(gone);
}

static void test_listening_later(void **state)
{
    struct fixture *f = *state;
    f->server = start(f, LONG_MS, false);
    expect_call(f, "/t.T/Echo", LONG_MS, 14, strerror(ENOENT));
    gserver_stop(f->server);
    f->server = start(f, LONG_MS, true);
    expect_call(f, "/t.T/Echo", LONG_MS, 14, strerror(ECONNREFUSED));
    gserver_stop(f->server);
    f->server = start(f, 1, false);
    expect_hook(f, "listening");
    expect_call(f, "/t.T/Echo", LONG_MS, 0, "");
}

static void test_several_servers_on_one_loop(void **state)
{
    struct fixture *f = *state;
    struct fixture other = *f;
    snprintf(other.path, sizeof other.path, "%s/t.sock", f->directory);
    f->server = start(f, 0, false);
    other.server = start(&other, 0, false);
    other.authority = NULL;
    expect_call(f, "/t.T/Echo", LONG_MS, 0, "");
    assert_null(other.authority);
    expect_call(&other, "/t.T/Echo", LONG_MS, 0, "");
    assert_non_null(other.authority);
    gserver_stop(other.server);
    free(other.authority);
    expect_call(f, "/t.T/Echo", LONG_MS, 0, "");
    char *error = NULL;
    struct gserver_options options = {.path = f->path, .hooks = &hooks, .user = f};
    assert_null(gserver_start(f->loop, &options, &error));
    assert_non_null(strstr(error, "another process listens there"));
    free(error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_echo, setup, teardown),
        cmocka_unit_test_setup_teardown(test_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_late_reply_delays_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_callers_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_ends_a_hanging_call, setup, teardown),
        cmocka_unit_test_setup_teardown(test_listening_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_several_servers_on_one_loop, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
