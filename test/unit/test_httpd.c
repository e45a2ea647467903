/* SPDX-License-Identifier: Apache-2.0 */
#include "common/httpd.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/alloc.h"

static void handle(void *user, const struct httpd_request *request, struct httpd_response *response)
{
    (void)user;
    if (strcmp(request->path, "/a b") == 0)
        httpd_text(response, 200, request->method);
    else if (strcmp(request->path, "/echo") == 0)
        httpd_text(response, 201, request->body);
}

static struct httpd *start(void)
{
    char *error = NULL;
    struct httpd *httpd = httpd_start("127.0.0.1:0", handle, NULL, &error);
    if (!httpd) fail_msg("%s", error);
    return httpd;
}

static int connect_to(const char *address)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    long port = strtol(strrchr(address, ':') + 1, NULL, 10);
    a.sin_port = htons((uint16_t)port);
    assert_int_not_equal(port, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* The whole answer; the connection is closed by the server. */
static char *exchange(const struct httpd *httpd, const char *head, size_t body_len)
{
    int fd = connect_to(httpd_address(httpd));
    char *body = need_calloc(body_len + 1, 1);
    memset(body, 'b', body_len);
    assert_int_equal(send(fd, head, strlen(head), MSG_NOSIGNAL), strlen(head));
    for (size_t sent = 0; sent < body_len;) {
        ssize_t n = send(fd, body + sent, body_len - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += (size_t)n;
    }
    free(body);
    static char answer[8192];
    size_t got = 0;
    for (ssize_t n; got < sizeof answer - 1 && (n = recv(fd, answer + got, sizeof answer - 1 - got, 0)) > 0;)
        got += (size_t)n;
    answer[got] = '\0';
    close(fd);
    return answer;
}

static void expect_status(const char *answer, const char *status)
{
    assert_memory_equal(answer, status, strlen(status));
}

static void test_requests(void **state)
{
    (void)state;
    struct httpd *httpd = start();
    char *answer = exchange(httpd, "GET /a%20b?q=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 0);
    expect_status(answer, "HTTP/1.1 200 ");
    assert_non_null(strstr(answer, "Content-Type: text/plain; charset=utf-8\r\n"));
    assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\nGET");
    answer = exchange(httpd, "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\n", 3);
    expect_status(answer, "HTTP/1.1 201 ");
    assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\nbbb");
    expect_status(exchange(httpd, "GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 0), "HTTP/1.1 404 ");
    httpd_stop(httpd);
}

static void test_large_body(void **state)
{
    (void)state;
    struct httpd *httpd = start();
    char head[128];
    size_t len = HTTPD_MAX_BODY + 1;
    snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
             len);
    expect_status(exchange(httpd, head, len), "HTTP/1.1 413 ");
    httpd_stop(httpd);
}

static void test_stop_with_an_open_connection(void **state)
{
    (void)state;
    struct httpd *httpd = start();
    int fd = connect_to(httpd_address(httpd));
    httpd_stop(httpd);
    close(fd);
}

static void expect_refusal(const char *address)
{
    char *error = NULL;
    assert_null(httpd_start(address, handle, NULL, &error));
    assert_non_null(strstr(error, address));
    free(error);
}

static void test_addresses(void **state)
{
    (void)state;
    expect_refusal("");
    expect_refusal("8080");
    expect_refusal("127.0.0.1:");
    expect_refusal("127.0.0.1:http");
    expect_refusal("127.0.0.1:65536");
    expect_refusal("127.0.0.1:-1");
    expect_refusal("::1:80");
    assert_false(httpd_is_address("8080"));
    assert_true(httpd_is_address("[::1]:80"));
    struct httpd *httpd = start();
    expect_refusal(httpd_address(httpd));
    httpd_stop(httpd);
    char *error = NULL;
    httpd = httpd_start(":0", handle, NULL, &error);
    assert_non_null(httpd);
    close(connect_to(httpd_address(httpd)));
    httpd_stop(httpd);
}

static void test_unix_socket(void **state)
{
    (void)state;
    char directory[] = "/tmp/csireg-httpd-XXXXXX", address[64];
    assert_non_null(mkdtemp(directory));
    snprintf(address, sizeof address, "unix:%s/h.sock", directory);
    char *error = NULL;
    struct httpd *httpd = httpd_start(address, handle, NULL, &error);
    assert_non_null(httpd);
    assert_string_equal(httpd_address(httpd), address);
    assert_int_equal(access(address + 5, F_OK), 0);
    httpd_stop(httpd);
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_large_body),
        cmocka_unit_test(test_stop_with_an_open_connection),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_unix_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
