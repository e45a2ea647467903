/* SPDX-License-Identifier: Apache-2.0 */
#include "common/httpd.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/unix_socket.h"

#define BACKLOG 64

struct httpd {
    struct MHD_Daemon *daemon;
    httpd_handler *handler;
    void *user;
    char *address;
    struct unix_listener file; /* fd -1 for an address with a port */
};

/* The body of one request as it comes in. */
struct upload {
    char *data;
    size_t len;
    bool too_large;
};

/* ---- requests ---- */

void httpd_text(struct httpd_response *response, int status, const char *text)
{
    response->status = status;
    response->body = need_strdup(text);
    response->body_len = strlen(text);
}

static void receive(struct upload *upload, const char *data, size_t len)
{
    if (len > HTTPD_MAX_BODY - upload->len) upload->too_large = true;
    if (upload->too_large) return;
    upload->data = need_array(upload->data, upload->len + len + 1, 1);
    memcpy(upload->data + upload->len, data, len);
    upload->len += len;
    upload->data[upload->len] = '\0';
}

static enum MHD_Result send_response(struct MHD_Connection *connection, const struct httpd_response *r)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(r->body_len, r->body, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(r->body);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, r->content_type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)r->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *data_len, void **state)
{
    (void)version;
    struct httpd *httpd = user;
    struct upload *upload = *state;
    if (!upload) {
        *state = NEED_NEW(struct upload);
        return MHD_YES;
    }
    if (*data_len) {
        receive(upload, data, *data_len);
        *data_len = 0;
        return MHD_YES;
    }
    struct httpd_request request = {method, url, upload->data ? upload->data : "", upload->len};
    struct httpd_response response = {.status = 404, .content_type = "text/plain; charset=utf-8"};
    if (upload->too_large)
        httpd_text(&response, 413, "the request body is too large\n");
    else
        httpd->handler(httpd->user, &request, &response);
    return send_response(connection, &response);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode how)
{
    (void)user, (void)connection, (void)how;
    struct upload *upload = *state;
    if (upload) free(upload->data);
    free(upload);
}

/* ---- listening ---- */

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= 5 && text[digits] == '\0' && strtol(text, NULL, 10) <= UINT16_MAX;
}

/* "[::1]:80" -> "::1", "80"; ":80" -> NULL, "80". The parts are cut out of text. */
static bool split_address(char *text, const char **host, const char **port)
{
    char *colon = strrchr(text, ':');
    if (!colon || !is_port(colon + 1)) return false;
    *colon = '\0';
    *port = colon + 1;
    size_t len = strlen(text);
    if (text[0] == '[' && len > 2 && text[len - 1] == ']') {
        text[len - 1] = '\0';
        text++;
    } else if (strchr(text, ':')) {
        return false;
    }
    *host = *text ? text : NULL;
    return true;
}

static int listen_on(const struct addrinfo *info)
{
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    const int one = 1, zero = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (info->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static char *bound_address(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0 ||
        getnameinfo((struct sockaddr *)&address, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return need_strdup("?");
    return need_printf(strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

/* The listening descriptor or -1 with *cause set. */
static int listen_host(const char *host, const char *port, const char **cause)
{
    struct addrinfo *list = NULL, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    int error = getaddrinfo(host, port, &hints, &list), fd = -1;
    if (error) {
        *cause = gai_strerror(error);
        return -1;
    }
    for (struct addrinfo *info = list; info && fd < 0; info = info->ai_next) fd = listen_on(info);
    if (fd < 0) *cause = strerror(errno);
    freeaddrinfo(list);
    return fd;
}

/* No host means every address of both families. */
static int listen_tcp(const char *address, const char **cause)
{
    char *text = need_strdup(address);
    const char *host, *port;
    int fd = -1;
    if (!split_address(text, &host, &port)) {
        *cause = "not of the form ADDR:PORT";
    } else {
        if (!host) fd = listen_host("::", port, cause);
        if (fd < 0) fd = listen_host(host ? host : "0.0.0.0", port, cause);
    }
    free(text);
    return fd;
}

bool httpd_is_address(const char *address)
{
    char *text = need_strdup(address);
    const char *host, *port;
    bool good = strncmp(address, "unix:", 5) == 0 || split_address(text, &host, &port);
    free(text);
    return good;
}

static int listen_unix(struct httpd *httpd, const char *path, char **out_error)
{
    if (!unix_bind(path, &httpd->file, out_error) || !unix_listen(&httpd->file, out_error)) return -1;
    return httpd->file.fd;
}

static int listen_any(struct httpd *httpd, const char *address, char **out_error)
{
    if (strncmp(address, "unix:", 5) == 0) {
        httpd->address = need_strdup(address);
        return listen_unix(httpd, unix_path(address), out_error);
    }
    const char *cause = NULL;
    int fd = listen_tcp(address, &cause);
    if (fd < 0)
        *out_error = need_printf("cannot listen on %s: %s", address, cause);
    else
        httpd->address = bound_address(fd);
    return fd;
}

/* The daemon owns fd from here and closes it, on failure too. */
static bool start_daemon(struct httpd *httpd, int fd)
{
    httpd->daemon = MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD, 0, NULL, NULL, on_request, httpd,
                                     MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
                                     MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTPD_MAX_CONNECTIONS,
                                     MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTPD_IDLE_SECONDS, MHD_OPTION_END);
    return httpd->daemon != NULL;
}

struct httpd *httpd_start(const char *address, httpd_handler *handler, void *user, char **out_error)
{
    struct httpd *httpd = NEED_NEW(struct httpd);
    httpd->handler = handler;
    httpd->user = user;
    httpd->file.fd = -1;
    int fd = listen_any(httpd, address, out_error);
    if (fd >= 0) {
        /* The daemon closes its own; the file's stays open until the file is removed (unix_close). */
        if (httpd->file.fd >= 0) fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (start_daemon(httpd, fd)) return httpd;
        *out_error = need_printf("cannot serve HTTP on %s", address);
    }
    httpd_stop(httpd);
    return NULL;
}

const char *httpd_address(const struct httpd *httpd) { return httpd->address; }

void httpd_stop(struct httpd *httpd)
{
    if (!httpd) return;
    if (httpd->daemon) MHD_stop_daemon(httpd->daemon);
    unix_close(&httpd->file);
    free(httpd->address);
    free(httpd);
}
