/* SPDX-License-Identifier: Apache-2.0 */
#include "common/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/csireg-socket-XXXXXX";

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

static const char *path_of(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void open_listener(const char *path, struct unix_listener *l)
{
    char *error = NULL;
    if (!unix_bind(path, l, &error) || !unix_listen(l, &error)) fail_msg("%s", error);
}

static void expect_refusal(const char *path, const char *why)
{
    struct unix_listener l;
    char *error = NULL;
    assert_false(unix_bind(path, &l, &error));
    assert_int_equal(l.fd, -1);
    assert_non_null(strstr(error, path));
    assert_non_null(strstr(error, why));
    free(error);
}

static void expect_connect(const char *path, int expected_errno)
{
    int fd = unix_connect(path, 1000);
    int error = fd < 0 ? errno : 0;
    assert_int_equal(error, expected_errno);
    if (fd >= 0) close(fd);
}

static void serve_and_leave(const char *path)
{
    struct unix_listener l;
    open_listener(path, &l);
    expect_connect(path, 0);
    unix_close(&l);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_short_path(void **state)
{
    (void)state;
    serve_and_leave(path_of("a b%41,c.sock"));
}

static void test_long_name(void **state)
{
    (void)state;
    char name[201];
    memset(name, 'n', 200);
    name[200] = '\0';
    serve_and_leave(path_of(name));
}

static void test_long_directories(void **state)
{
    (void)state;
    char first[256], second[512], path[600];
    snprintf(first, sizeof first, "%s/%0180d", directory, 1);
    snprintf(second, sizeof second, "%s/%0180d", first, 2);
    snprintf(path, sizeof path, "%s/d.sock", second);
    assert_int_equal(mkdir(first, 0700), 0);
    assert_int_equal(mkdir(second, 0700), 0);
    assert_true(strlen(path) > 390);
    serve_and_leave(path);
    rmdir(second);
    rmdir(first);
}

static void test_stale_file_is_replaced(void **state)
{
    (void)state;
    const char *path = path_of("stale.sock");
    struct unix_listener l;
    open_listener(path, &l);
    close(l.fd); /* as after a crash: the file stays */
    free(l.path);
    expect_connect(path, ECONNREFUSED);
    serve_and_leave(path);
}

static void test_live_socket_is_left_alone(void **state)
{
    (void)state;
    const char *path = path_of("live.sock");
    struct unix_listener l;
    open_listener(path, &l);
    expect_refusal(path, "another process listens there");
    expect_connect(path, 0);
    unix_close(&l);
}

static void test_other_files_are_left_alone(void **state)
{
    (void)state;
    const char *path = path_of("regular");
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    expect_refusal(path, "no socket");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(path, "no socket");
    assert_int_equal(unlink(path), 0);
    expect_refusal(path_of("missing/x.sock"), "No such file");
}

static void test_a_successors_file_is_kept(void **state)
{
    (void)state;
    const char *path = path_of("next.sock");
    struct unix_listener first, second;
    open_listener(path, &first);
    assert_int_equal(unlink(path), 0);
    open_listener(path, &second);
    unix_close(&first);
    expect_connect(path, 0);
    unix_close(&second);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_bound_but_not_listening(void **state)
{
    (void)state;
    const char *path = path_of("bound.sock");
    struct unix_listener l;
    char *error = NULL;
    assert_true(unix_bind(path, &l, &error));
    expect_connect(path, ECONNREFUSED);
    assert_true(unix_listen(&l, &error));
    expect_connect(path, 0);
    unix_close(&l);
}

static void test_schemes(void **state)
{
    (void)state;
    assert_string_equal(unix_path("/a/b"), "/a/b");
    assert_string_equal(unix_path("unix:/a/b"), "/a/b");
    assert_string_equal(unix_path("unix:///a/b"), "/a/b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_path),
        cmocka_unit_test(test_long_name),
        cmocka_unit_test(test_long_directories),
        cmocka_unit_test(test_stale_file_is_replaced),
        cmocka_unit_test(test_live_socket_is_left_alone),
        cmocka_unit_test(test_other_files_are_left_alone),
        cmocka_unit_test(test_a_successors_file_is_kept),
        cmocka_unit_test(test_bound_but_not_listening),
        cmocka_unit_test(test_schemes),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
