/* SPDX-License-Identifier: Apache-2.0 */
#include "mock-driver/driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/log.h"
#include "common/stop.h"
#include "common/unix_socket.h"
#include "mock-driver/answer.h"
#include "mock-driver/record.h"
#include "wire/csi.pb-c.h"
#include "wire/registration.pb-c.h"

#define UNIMPLEMENTED 12
#define MAX_KEPT      256 /* connections that a peer which is not gRPC keeps open */

/* One socket of a driver; also what its hooks get. */
struct endpoint {
    struct driver *driver;
    const char *role; /* "registration" or "service" */
    char *path;
    bool serves[MOCK_NODE + 1];
    enum peer peer;
    int kept[MAX_KEPT];
    size_t n_kept;
    struct gserver *server; /* NULL: no such socket */
};

struct driver {
    const struct config *config;
    int64_t number;
    char *name;
    struct endpoint registration, service;
    /* handling thread only */
    int64_t calls[MOCK_METHODS];
    bool refused; /* was told plugin_registered = false */
};

/* ---- calls ---- */

/* The number of a method that the socket serves, or MOCK_METHODS. */
static enum mock_method find_method(const struct endpoint *e, const char *path)
{
    enum mock_method m = 0;
    while (m < MOCK_METHODS && (strcmp(mock_methods[m].path, path) != 0 || !e->serves[mock_methods[m].service])) m++;
    return m;
}

static void note_notification(struct driver *d, const Pluginregistration__RegistrationStatus *status)
{
    json_t *record = record_new("notified", d->name);
    json_object_set_new(record, "registered", json_boolean(status->plugin_registered));
    record_text(record, "error", status->error);
    record_write(record);
    if (!status->plugin_registered) d->refused = true;
}

static json_t *decode_notification(struct driver *d, const struct gserver_request *request)
{
    Pluginregistration__RegistrationStatus *status =
        pluginregistration__registration_status__unpack(NULL, request->len, request->body);
    if (!status) return NULL;
    json_t *fields = json_object();
    json_object_set_new(fields, "plugin_registered", json_boolean(status->plugin_registered));
    record_text(fields, "error", status->error);
    note_notification(d, status);
    pluginregistration__registration_status__free_unpacked(status, NULL);
    return fields;
}

static json_t *decode_node_info(const struct gserver_request *request, bool *flagged)
{
    Csi__V1__NodeGetInfoRequest *message = csi__v1__node_get_info_request__unpack(NULL, request->len, request->body);
    if (!message) return NULL;
    *flagged = message->controller_get_node_info;
    json_t *fields = json_object();
    json_object_set_new(fields, "controller_get_node_info", json_boolean(*flagged));
    csi__v1__node_get_info_request__free_unpacked(message, NULL);
    return fields;
}

static void decide(const struct script *s, int64_t call, struct gserver_reply *reply)
{
    reply->delay_ms = s->delay_ms;
    if (call <= s->hang_until) {
        reply->hang = true;
    } else if (call <= s->fail_until) {
        reply->code = s->fail_code;
        reply->text = s->fail_text;
    } else if (s->code) {
        reply->code = s->code;
        reply->text = s->text;
    }
}

static json_t *new_call_record(const struct endpoint *e, const char *method, const struct gserver_request *request)
{
    json_t *record = record_new("call", e->driver->name);
    json_object_set_new(record, "socket", json_string(e->role));
    record_text(record, "method", method);
    record_text(record, "authority", request->authority);
    record_text(record, "connection", request->peer);
    record_hex(record, "request", request->body, request->len);
    if (request->timeout_ms >= 0) json_object_set_new(record, "timeoutMs", json_integer(request->timeout_ms));
    return record;
}

static void write_call(json_t *record, int64_t call, const struct gserver_reply *reply)
{
    if (call) json_object_set_new(record, "call", json_integer(call));
    if (reply->hang)
        json_object_set_new(record, "hang", json_true());
    else
        json_object_set_new(record, "code", json_integer(reply->code));
    if (reply->delay_ms) json_object_set_new(record, "delayMs", json_integer(reply->delay_ms));
    record_write(record);
}

static void answer(struct driver *d, enum mock_method m, bool flagged, struct gserver_reply *reply)
{
    decide(&d->config->scripts[m], d->calls[m], reply);
    if (reply->code || reply->hang) return;
    struct bytes body;
    answer_build(d->config, d->number, m, d->calls[m], flagged, &body);
    reply->body = body.data;
    reply->len = body.len;
}

static void handle(void *user, const struct gserver_request *request, struct gserver_reply *reply)
{
    struct endpoint *e = user;
    struct driver *d = e->driver;
    enum mock_method m = find_method(e, request->method);
    if (m == MOCK_METHODS) {
        reply->code = UNIMPLEMENTED;
        reply->text = "unknown method";
        write_call(new_call_record(e, request->method, request), 0, reply);
        return;
    }
    d->calls[m]++;
    bool flagged = false;
    json_t *record = new_call_record(e, mock_methods[m].name, request);
    json_t *fields = m == MOCK_NOTIFY          ? decode_notification(d, request)
                     : m == MOCK_NODE_GET_INFO ? decode_node_info(request, &flagged)
                                               : json_object();
    json_object_set_new(record, "fields", fields ? fields : json_null());
    answer(d, m, flagged, reply);
    write_call(record, d->calls[m], reply);
}

static void finished(void *user, const char *method, bool sent)
{
    struct endpoint *e = user;
    if (!sent) {
        json_t *record = record_new("abandoned", e->driver->name);
        record_text(record, "method", method);
        record_write(record);
    }
    if (e->driver->refused && e->driver->config->exit_on_false && strcmp(method, mock_methods[MOCK_NOTIFY].path) == 0)
        stop_request(1);
}

/* ---- sockets ---- */

static void keep_open(struct endpoint *e, int fd)
{
    if (e->n_kept == MAX_KEPT)
        close(fd);
    else
        e->kept[e->n_kept++] = fd;
}

static bool accepted(void *user, int fd)
{
    static const char garbage[] = "\x16\x03\x01 this is neither HTTP/2 nor anything else \xff\xfe";
    static const char http1[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    struct endpoint *e = user;
    json_t *record = record_new("connected", e->driver->name);
    json_object_set_new(record, "socket", json_string(e->role));
    record_write(record);
    if (e->peer == PEER_GRPC) return false;
    ssize_t sent = 0;
    if (e->peer == PEER_GARBAGE) sent = send(fd, garbage, sizeof garbage, MSG_NOSIGNAL);
    if (e->peer == PEER_HTTP1) sent = send(fd, http1, strlen(http1), MSG_NOSIGNAL);
    if (e->peer == PEER_CLOSE || sent < 0)
        close(fd);
    else
        keep_open(e, fd);
    return true;
}

static void listening(void *user, const char *error)
{
    struct endpoint *e = user;
    json_t *record = record_new(error ? "error" : "listening", e->driver->name);
    json_object_set_new(record, "socket", json_string(e->role));
    record_text(record, "path", e->path);
    if (error) record_text(record, "error", error);
    record_write(record);
}

static const struct gserver_hooks hooks = {
    .handle = handle, .finished = finished, .accepted = accepted, .listening = listening};

static bool open_endpoint(struct endpoint *e, struct gloop *loop, const char *path, int64_t listen_after)
{
    if (!path || !*path) return true;
    e->path = config_expand(unix_path(path), e->driver->number);
    struct gserver_options options = {.path = e->path,
                                      .hooks = &hooks,
                                      .user = e,
                                      .listen_after_ms = listen_after,
                                      .bind_early = e->driver->config->bind_early};
    char *error = NULL;
    e->server = gserver_start(loop, &options, &error);
    if (!e->server) log_error("driver %s: %s", e->driver->name, error);
    if (e->server && listen_after == 0) listening(e, NULL);
    free(error);
    return e->server != NULL;
}

static void close_endpoint(struct endpoint *e)
{
    gserver_stop(e->server);
    for (size_t i = 0; i < e->n_kept; i++) close(e->kept[i]);
    free(e->path);
}

struct driver *driver_start(const struct config *config, int64_t number, struct gloop *loop)
{
    struct driver *d = NEED_NEW(struct driver);
    bool own_service = config->endpoint && *config->endpoint;
    d->config = config;
    d->number = number;
    d->name = config_expand(config->name, number);
    d->service = (struct endpoint){.driver = d,
                                   .role = "service",
                                   .serves = {[MOCK_IDENTITY] = true, [MOCK_NODE] = !config->no_node_service},
                                   .peer = config->service_peer};
    d->registration = (struct endpoint){.driver = d,
                                        .role = "registration",
                                        .serves = {[MOCK_REGISTRATION] = !config->no_registration_service,
                                                   [MOCK_IDENTITY] = !own_service,
                                                   [MOCK_NODE] = !own_service && !config->no_node_service},
                                        .peer = config->registration_peer};
    if (open_endpoint(&d->service, loop, config->endpoint, config->service_after) &&
        open_endpoint(&d->registration, loop, config->registration_socket, config->listen_after))
        return d;
    driver_stop(d);
    return NULL;
}

void driver_stop(struct driver *d)
{
    if (!d) return;
    close_endpoint(&d->registration);
    close_endpoint(&d->service);
    free(d->name);
    free(d);
}
