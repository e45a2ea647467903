// SPDX-License-Identifier: Apache-2.0
/* Between the HTTP library and the pipeline. The library gives every connection a thread, so a request may wait. */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "apiserver/clock.h"
#include "apiserver/server.h"
#include "apiserver/watch.h"
#include "common/alloc.h"

#define MAX_CONNECTIONS   4096u
#define CONNECTION_MEMORY (256u * 1024)  /* headers of one request fit here */
#define STACK_SIZE        (4096u * 1024) /* JSON may be nested 2,048 deep */
#define WATCH_BLOCK       (32u * 1024)

/* The relay names a connection by an address that looks like this. */
static void make_name(struct sockaddr_un *to, uint64_t id)
{
    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(to->sun_path + 1, &id, sizeof id);
}

static uint64_t read_name(struct MHD_Connection *connection)
{
    uint64_t id = 0;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (info && info->client_addr)
        memcpy(&id, (const char *)info->client_addr + offsetof(struct sockaddr_un, sun_path) + 1, sizeof id);
    return id;
}

static void opened(void *user, int inner, uint64_t id)
{
    struct apiserver *s = user;
    struct sockaddr_un name;
    make_name(&name, id);
    pthread_mutex_lock(&s->door);
    if (s->door_open)
        MHD_add_connection(s->api, inner, (struct sockaddr *)&name, sizeof name); /* closes what it cannot take */
    else
        close(inner);
    pthread_mutex_unlock(&s->door);
}

static void gone(void *user)
{
    struct apiserver *s = user;
    pthread_mutex_lock(&s->mu);
    pthread_cond_broadcast(&s->changed);
    as_watch_notify(s, NULL);
    pthread_mutex_unlock(&s->mu);
}

static void connection_changed(void *user, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode what)
{
    struct apiserver *s = user;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = as_relay_conn(s->relay, read_name(connection));
    } else {
        as_conn_unref(*context);
        *context = NULL;
    }
}

static struct as_conn *conn_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* Called with the request line; what it returns is the context of the request. */
static void *request_line(void *user, const char *target, struct MHD_Connection *connection)
{
    (void)user;
    (void)connection;
    return as_request_new("", target);
}

static char *header(struct MHD_Connection *connection, const char *name)
{
    return need_strdup(MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name));
}

static void read_headers(struct as_request *r, struct MHD_Connection *connection, const char *method)
{
    free(r->method);
    r->method = need_strdup(method);
    r->content_type = header(connection, "Content-Type");
    r->accept = header(connection, "Accept");
    r->authorization = header(connection, "Authorization");
    r->user_agent = header(connection, "User-Agent");
    as_request_route(r);
}

static ssize_t read_watch(void *watch, uint64_t position, char *data, size_t max)
{
    (void)position;
    ssize_t n = as_watch_read(watch, data, max);
    return n > 0 ? n : n == 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void free_watch(void *watch) { as_watch_free(watch); }

static struct MHD_Response *make_response(struct as_answer *a)
{
    if (a->watch)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, WATCH_BLOCK, read_watch, a->watch, free_watch);
    struct MHD_Response *response = MHD_create_response_from_buffer(a->len, a->body, MHD_RESPMEM_MUST_FREE);
    if (response) a->body = NULL;
    return response;
}

static void add_warnings(struct MHD_Response *response, const json_t *warnings)
{
    size_t i;
    json_t *text;
    json_array_foreach (warnings, i, text) {
        char *quoted = json_dumps(text, JSON_ENCODE_ANY), *value = need_printf("299 - %s", quoted ? quoted : "\"\"");
        MHD_add_response_header(response, "Warning", value);
        free(value);
        free(quoted);
    }
}

static void add_headers(struct MHD_Response *response, const struct as_answer *a)
{
    char audit_id[AS_UUID_SIZE], *retry = need_printf("%d", a->retry_after);
    as_uuid(audit_id);
    MHD_add_response_header(response, "Audit-Id", audit_id);
    MHD_add_response_header(response, "Cache-Control", "no-cache, private");
    if (a->content_type) MHD_add_response_header(response, "Content-Type", a->content_type);
    if (a->retry_after > 0) MHD_add_response_header(response, "Retry-After", retry);
    add_warnings(response, a->warnings);
    free(retry);
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct as_answer *a)
{
    struct MHD_Response *response = a->dropped ? NULL : make_response(a);
    if (!response) {
        if (a->watch) as_watch_free(a->watch);
        return MHD_NO;
    }
    add_headers(response, a);
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)a->code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **context)
{
    struct apiserver *s = user;
    struct as_request *r = *context;
    (void)url;
    (void)version;
    if (!r) return MHD_NO;
    if (!r->conn) {
        r->conn = conn_of(connection);
        read_headers(r, connection, method);
        return r->conn && !as_serve_headers(s, r) ? MHD_YES : MHD_NO;
    }
    if (*size) {
        as_request_append(r, data, *size);
        *size = 0;
        return MHD_YES;
    }
    struct as_answer a = {0};
    as_serve(s, r, &a);
    enum MHD_Result result = send_answer(connection, &a);
    as_answer_fini(&a);
    return result;
}

static void completed(void *user, struct MHD_Connection *connection, void **context,
                      enum MHD_RequestTerminationCode code)
{
    (void)user;
    (void)connection;
    (void)code;
    as_request_free(*context);
    *context = NULL;
}

bool as_http_start(struct apiserver *s, const char *address, char **out_error)
{
    struct as_relay_handlers handlers = {.opened = opened, .gone = gone, .user = s};
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
                     MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC;
    s->api =
        MHD_start_daemon(flags, 0, NULL, NULL, handle, s, MHD_OPTION_URI_LOG_CALLBACK, request_line, s,
                         MHD_OPTION_NOTIFY_CONNECTION, connection_changed, s, MHD_OPTION_NOTIFY_COMPLETED, completed, s,
                         MHD_OPTION_CONNECTION_LIMIT, MAX_CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)CONNECTION_MEMORY, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_SIZE, MHD_OPTION_END);
    if (!s->api) {
        *out_error = need_strdup("the HTTP library does not start");
        return false;
    }
    pthread_mutex_lock(&s->door); /* the first client waits until the relay is known */
    s->relay = as_relay_start(address, s->plain ? NULL : s->credentials[s->n_credentials - 1], &handlers, out_error);
    s->door_open = s->relay != NULL;
    pthread_mutex_unlock(&s->door);
    return s->door_open;
}
