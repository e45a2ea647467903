// SPDX-License-Identifier: Apache-2.0
/* HTTP over the control interface's Unix socket; a thread per connection, for /wait blocks. */
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "apiserver/server.h"
#include "base/buf.h"
#include "common/alloc.h"
#include "common/unix_socket.h"

#define MAX_CONTROL_BODY (64u * 1024 * 1024)

struct control_request {
    char *target;
    struct cr_buf body;
    bool seen; /* its headers were handled */
};

static void *request_line(void *user, const char *target, struct MHD_Connection *connection)
{
    (void)user;
    (void)connection;
    struct control_request *r = NEED_NEW(struct control_request);
    r->target = need_strdup(target);
    cr_buf_init(&r->body, MAX_CONTROL_BODY);
    return r;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **context)
{
    struct control_request *r = *context;
    (void)url;
    (void)version;
    if (!r) return MHD_NO;
    if (!r->seen || *size) {
        cr_buf_append(&r->body, data, *size);
        *size = 0;
        r->seen = true;
        return r->body.failed ? MHD_NO : MHD_YES;
    }
    int status;
    char *text = apiserver_control(user, method, r->target, cr_buf_str(&r->body), &status);
    struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static void completed(void *user, struct MHD_Connection *connection, void **context,
                      enum MHD_RequestTerminationCode code)
{
    struct control_request *r = *context;
    (void)user;
    (void)connection;
    (void)code;
    if (!r) return;
    free(r->target);
    cr_buf_free(&r->body);
    free(r);
    *context = NULL;
}

bool as_control_start(struct apiserver *s, const char *path, char **out_error)
{
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC;
    struct unix_listener *listener = NEED_NEW(struct unix_listener);
    s->control_listener = listener;
    listener->fd = -1;
    if (!unix_bind(path, listener, out_error) || !unix_listen(listener, out_error)) return false;
    s->control = MHD_start_daemon(flags, 0, NULL, NULL, handle, s, MHD_OPTION_LISTEN_SOCKET, listener->fd,
                                  MHD_OPTION_URI_LOG_CALLBACK, request_line, s, MHD_OPTION_NOTIFY_COMPLETED, completed,
                                  s, MHD_OPTION_END);
    if (!s->control) *out_error = need_strdup("the HTTP library does not start on the control socket");
    return s->control != NULL;
}

void as_control_stop(struct apiserver *s)
{
    if (s->control) {
        MHD_stop_daemon(s->control);
        s->control_listener->fd = -1; /* the library closed it */
    }
    if (s->control_listener) unix_close(s->control_listener);
    free(s->control_listener);
}
