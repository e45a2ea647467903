/* SPDX-License-Identifier: Apache-2.0 */
/* Calls to servers as they should be; connects and paths. */
#include "io/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bounds.h"
#include "common/grpc_server.h"
#include "io/watcher.h"
#include "rpc_rig.h"
#include "wire/csi.pb-c.h"
#include "wire/registration.pb-c.h"

/* ---- a server as it should be ---- */

struct seen {
    char authority[32], body[CR_MAX_NOTIFY_ERROR + 16];
    size_t len;
    int64_t timeout_ms;
};

static size_t pack(void **body, const ProtobufCMessage *m)
{
    size_t len = protobuf_c_message_get_packed_size(m);
    *body = malloc(len + 1);
    return protobuf_c_message_pack(m, *body);
}

static void answer_get_info(struct gserver_reply *reply)
{
    char *versions[] = {"1.0.0", "1.1.0"};
    Pluginregistration__PluginInfo m = PLUGINREGISTRATION__PLUGIN_INFO__INIT;
    m.type = "CSIPlugin";
    m.name = "driver.example.com";
    m.endpoint = "/run/d.sock";
    m.supported_versions = versions;
    m.n_supported_versions = 2;
    reply->len = pack(&reply->body, &m.base);
}

static void answer_capabilities(struct gserver_reply *reply)
{
    Csi__V1__NodeServiceCapability__RPC rpc = CSI__V1__NODE_SERVICE_CAPABILITY__RPC__INIT;
    Csi__V1__NodeServiceCapability capability = CSI__V1__NODE_SERVICE_CAPABILITY__INIT, *list[] = {&capability};
    Csi__V1__NodeGetCapabilitiesResponse m = CSI__V1__NODE_GET_CAPABILITIES_RESPONSE__INIT;
    rpc.type = (Csi__V1__NodeServiceCapability__RPC__Type)9;
    capability.rpc = &rpc;
    m.capabilities = list;
    m.n_capabilities = 1;
    reply->len = pack(&reply->body, &m.base);
}

static void answer_node_info(struct gserver_reply *reply)
{
    Csi__V1__Topology__SegmentsEntry entry = CSI__V1__TOPOLOGY__SEGMENTS_ENTRY__INIT, *list[] = {&entry};
    Csi__V1__Topology topology = CSI__V1__TOPOLOGY__INIT;
    Csi__V1__NodeGetInfoResponse m = CSI__V1__NODE_GET_INFO_RESPONSE__INIT;
    entry.key = "example.com/zone";
    entry.value = "z1";
    topology.segments = list;
    topology.n_segments = 1;
    m.node_id = "node-1";
    m.max_volumes_per_node = 39;
    m.accessible_topology = &topology;
    reply->len = pack(&reply->body, &m.base);
}

static void handle(void *user, const struct gserver_request *request, struct gserver_reply *reply)
{
    struct seen *s = user;
    snprintf(s->authority, sizeof s->authority, "%s", request->authority);
    s->len = request->len;
    memcpy(s->body, request->body, request->len);
    s->timeout_ms = request->timeout_ms;
    if (strcmp(request->method, "/pluginregistration.Registration/GetInfo") == 0) {
        answer_get_info(reply);
    } else if (strcmp(request->method, "/csi.v1.Node/NodeGetCapabilities") == 0) {
        answer_capabilities(reply);
    } else if (strcmp(request->method, "/csi.v1.Node/NodeGetInfo") == 0) {
        answer_node_info(reply);
    } else if (strcmp(request->method, "/pluginregistration.Registration/NotifyRegistrationStatus") != 0) {
        reply->code = 12;
    }
}

static void refuse_all(void *user, const struct gserver_request *request, struct gserver_reply *reply)
{
    (void)user;
    (void)request;
    reply->code = 12;
    reply->text = "Method not found!";
}

static void answer_at_length(void *user, const struct gserver_request *request, struct gserver_reply *reply)
{
    (void)request;
    reply->len = *(const size_t *)user;
    reply->body = calloc(reply->len, 1);
    size_t content = reply->len - 4; /* one unknown field of that length */
    memcpy(reply->body,
           (uint8_t[]){0x7a, (uint8_t)(content | 0x80), (uint8_t)(content >> 7 | 0x80), (uint8_t)(content >> 14)}, 4);
}

struct honest {
    struct gloop *loop;
    struct gserver *server;
    struct gserver_hooks hooks;
};

static void honest_start(struct honest *h, const char *path,
                         void (*handler)(void *, const struct gserver_request *, struct gserver_reply *), void *user)
{
    char *error = NULL;
    h->hooks = (struct gserver_hooks){.handle = handler};
    h->loop = gloop_new();
    h->server =
        gserver_start(h->loop, &(struct gserver_options){.path = path, .hooks = &h->hooks, .user = user}, &error);
    if (!h->server) fail_msg("%s", error);
}

static void honest_stop(struct honest *h)
{
    gserver_stop(h->server);
    gloop_free(h->loop);
}

static void assert_seen(const struct seen *s, const char *body, size_t len)
{
    assert_string_equal(s->authority, "localhost");
    assert_int_equal(s->len, len);
    assert_memory_equal(s->body, body, len);
    assert_true(s->timeout_ms > 0 && s->timeout_ms <= 2 * LONG_MS); /* gRPC rounds it up */
}

static void a_server_answers_the_registration(void **state)
{
    struct rpc_rig *r = *state;
    struct seen seen;
    struct honest h;
    honest_start(&h, r->path, handle, &seen);
    struct cr_rpc_result info = rpc_rig_get_info(r, LONG_MS);
    assert_seen(&seen, "", 0);
    assert_string_equal(info.plugin.type, "CSIPlugin");
    assert_string_equal(info.plugin.name, "driver.example.com");
    assert_string_equal(info.plugin.endpoint, "/run/d.sock");
    assert_int_equal(info.plugin.n_versions, 2);
    assert_rpc_code(info, 0);
    assert_rpc_code(rpc_rig_ask(r, r->path, CR_RPC_NOTIFY, LONG_MS, true, NULL), 0);
    assert_seen(&seen, "\x08\x01", 2);
    assert_rpc_code(rpc_rig_ask(r, r->path, CR_RPC_NOTIFY, LONG_MS, false, "no"), 0);
    assert_seen(&seen, "\x12\x02no", 4);
    honest_stop(&h);
}

static void a_server_answers_the_node_calls(void **state)
{
    struct rpc_rig *r = *state;
    struct seen seen;
    struct honest h;
    honest_start(&h, r->path, handle, &seen);
    struct cr_rpc_result caps = rpc_rig_ask(r, r->path, CR_RPC_NODE_GET_CAPABILITIES, LONG_MS, false, NULL);
    assert_seen(&seen, "", 0);
    assert_int_equal(caps.capabilities.n_types, 1);
    assert_int_equal(caps.capabilities.types[0], 9);
    assert_rpc_code(caps, 0);
    struct cr_rpc_result plain = rpc_rig_ask(r, r->path, CR_RPC_NODE_GET_INFO, LONG_MS, false, NULL);
    assert_seen(&seen, "", 0);
    assert_string_equal(plain.node.node_id, "node-1");
    assert_true(plain.node.max_volumes == 39);
    assert_string_equal(plain.node.segments[0].key, "example.com/zone");
    assert_rpc_code(plain, 0);
    struct cr_rpc_result flagged = rpc_rig_ask(r, r->path, CR_RPC_NODE_GET_INFO, LONG_MS, true, NULL);
    assert_seen(&seen, "\x08\x01", 2);
    assert_string_equal(flagged.node.node_id, "node-1");
    assert_int_equal(flagged.node.n_segments, 0);
    assert_rpc_code(flagged, 0);
    honest_stop(&h);
}

static void one_connection_carries_one_call_after_another(void **state)
{
    struct rpc_rig *r = *state;
    struct seen seen;
    struct honest h;
    honest_start(&h, r->path, handle, &seen);
    struct cr_conn *conn = rpc_rig_connect(r, r->path);
    for (int method = CR_RPC_GET_INFO; method <= CR_RPC_NODE_GET_INFO; method++) {
        rpc_rig_start(r, conn, (enum cr_rpc_method)method, LONG_MS, false, NULL);
        assert_rpc_code(rpc_rig_collect(r), 0);
    }
    cr_rpc_close(conn);
    honest_stop(&h);
}

static void an_unserved_method_is_unimplemented(void **state)
{
    struct rpc_rig *r = *state;
    struct honest h;
    honest_start(&h, r->path, refuse_all, NULL);
    struct cr_rpc_result result = rpc_rig_get_info(r, LONG_MS);
    assert_string_equal(result.text, "Method not found!");
    assert_rpc_code(result, CR_GRPC_UNIMPLEMENTED);
    honest_stop(&h);
}

static void a_message_may_be_as_long_as_its_bound(void **state)
{
    struct rpc_rig *r = *state;
    size_t len;
    struct honest h;
    honest_start(&h, r->path, answer_at_length, &len);
    struct cr_conn *conn = rpc_rig_connect(r, r->path);
    for (int i = 0; i < 20; i++) {
        len = i % 2 ? CR_MAX_RPC_MESSAGE + 1 : CR_MAX_RPC_MESSAGE;
        rpc_rig_start(r, conn, CR_RPC_NOTIFY, LONG_MS, true, NULL);
        assert_rpc_code(rpc_rig_collect(r), i % 2 ? CR_GRPC_RESOURCE_EXHAUSTED : 0);
    }
    cr_rpc_close(conn);
    honest_stop(&h);
}

/* ---- connecting ---- */

static int connect_error(struct rpc_rig *r, const char *path)
{
    struct cr_conn *conn = NULL;
    struct cr_identity identity;
    int error = cr_rpc_connect(r->rpc, path, &conn, &identity);
    cr_rpc_close(conn);
    return error;
}

static void bind_socket(int type, const char *path, int *out_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    *out_fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*out_fd, (struct sockaddr *)&address, sizeof address), 0);
}

static void paths_that_lead_nowhere(void **state)
{
    struct rpc_rig *r = *state;
    char too_long[CR_MAX_PATH + 2];
    memset(too_long, '/', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    assert_int_equal(connect_error(r, r->path), ENOENT);
    assert_int_equal(connect_error(r, r->directory), ENOTSOCK);
    assert_int_equal(connect_error(r, "@abstract"), EINVAL);
    assert_int_equal(connect_error(r, "relative"), EINVAL);
    assert_int_equal(connect_error(r, ""), EINVAL);
    assert_int_equal(connect_error(r, too_long), ENAMETOOLONG);
    assert_int_equal(mkfifo(r->path, 0600), 0);
    assert_int_equal(connect_error(r, r->path), ENOTSOCK); /* and does not hang */
    unlink(r->path);
    close(open(r->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(connect_error(r, r->path), ENOTSOCK);
    unlink(r->path);
}

static void sockets_that_do_not_take_us(void **state)
{
    struct rpc_rig *r = *state;
    int fd;
    bind_socket(SOCK_DGRAM, r->path, &fd);
    assert_int_equal(connect_error(r, r->path), EPROTOTYPE);
    close(fd);
    unlink(r->path);
    bind_socket(SOCK_STREAM, r->path, &fd);
    assert_int_equal(connect_error(r, r->path), ECONNREFUSED); /* nobody listens */
    assert_int_equal(listen(fd, 1), 0);
    struct cr_conn *waiting[8] = {NULL};
    struct cr_identity identity;
    int error = 0;
    for (size_t i = 0; i < 8 && error == 0; i++) error = cr_rpc_connect(r->rpc, r->path, &waiting[i], &identity);
    assert_int_equal(error, EAGAIN); /* the queue is full */
    for (size_t i = 0; i < 8; i++) cr_rpc_close(waiting[i]);
    close(fd);
    unlink(r->path);
}

static void the_identity_is_that_of_the_file(void **state)
{
    struct rpc_rig *r = *state;
    struct seen seen;
    struct honest h;
    struct cr_conn *conn;
    struct cr_identity from_connect = {0}, from_path = {0};
    honest_start(&h, r->path, handle, &seen);
    assert_int_equal(cr_rpc_connect(r->rpc, r->path, &conn, &from_connect), 0);
    assert_int_equal(cr_socket_identity(r->path, &from_path), 0);
    assert_int_equal(from_connect.dev, from_path.dev);
    assert_int_equal(from_connect.ino, from_path.ino);
    assert_true(from_connect.birth_ns == from_path.birth_ns);
    cr_rpc_close(conn);
    honest_stop(&h);
}

static void assert_works_at(struct rpc_rig *r, const char *path)
{
    struct seen seen = {0};
    struct honest h;
    honest_start(&h, path, handle, &seen);
    assert_rpc_code(rpc_rig_ask(r, path, CR_RPC_GET_INFO, LONG_MS, false, NULL), 0);
    assert_string_equal(seen.authority, "localhost");
    honest_stop(&h);
}

static void any_byte_in_a_path_means_itself(void **state)
{
    static const char *const names[] = {"a b",      "pct%41x",  "q?m", "h#t",       "com,ma", "col:on",     "e=f&g;h",
                                        "\xc3\xa9", "\xff\xfe", "@at", "new\nline", "unix:x", "back\\slash"};
    struct rpc_rig *r = *state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[80];
        snprintf(path, sizeof path, "%s/%s", r->directory, names[i]);
        assert_works_at(r, path);
    }
}

/* Adds directories of 100 bytes until only a name is missing, then a name, so that path has len bytes. */
static void make_path(char *path, const char *directory, size_t len)
{
    size_t at = strlen(directory);
    memcpy(path, directory, at);
    for (; len - at > 201; at += 100) {
        path[at] = '/';
        memset(path + at + 1, 'd', 99);
        path[at + 100] = '\0';
        assert_int_equal(mkdir(path, 0700), 0);
    }
    path[at] = '/';
    memset(path + at + 1, 'n', len - at - 1);
    path[len] = '\0';
}

static void remove_directories(char *path, const char *directory)
{
    for (char *slash; (slash = strrchr(path, '/')) && strlen(directory) < (size_t)(slash - path); rmdir(path))
        *slash = 0;
}

static void paths_of_any_length_work(void **state)
{
    static const size_t lengths[] = {107, 108, 200, 400, 1000, 4000};
    struct rpc_rig *r = *state;
    static char path[CR_MAX_PATH + 1];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        make_path(path, r->directory, lengths[i]);
        assert_works_at(r, path);
        assert_int_equal(connect_error(r, path), ENOENT);
        remove_directories(path, r->directory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_answers_the_registration),
        cmocka_unit_test(a_server_answers_the_node_calls),
        cmocka_unit_test(one_connection_carries_one_call_after_another),
        cmocka_unit_test(an_unserved_method_is_unimplemented),
        cmocka_unit_test(a_message_may_be_as_long_as_its_bound),
        cmocka_unit_test(paths_that_lead_nowhere),
        cmocka_unit_test(sockets_that_do_not_take_us),
        cmocka_unit_test(the_identity_is_that_of_the_file),
        cmocka_unit_test(any_byte_in_a_path_means_itself),
        cmocka_unit_test(paths_of_any_length_work),
    };
    return cmocka_run_group_tests(tests, rpc_rig_setup, rpc_rig_teardown);
}
