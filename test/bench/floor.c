/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: the round trips of a registration and nothing else. The same libraries (gRPC's C core on connected
 * descriptors, libcurl with a kept TLS connection), the same bytes on the wire, one thread, no answer looked at further
 * than needed. What csireg takes beyond this is csireg's.
 *
 * Commands come as lines on standard input:
 *
 *   go COUNT READS   waits for COUNT sockets to come into the registry, then for each of them, all at once: connect,
 *                    GetInfo, connect, (NodeGetCapabilities,) NodeGetInfo; then, one after the other, the reads and the
 *                    writes; then all notifications. Prints "armed", later "done".
 *                    READS: none (objects are known), wave (one GET), first (nothing is known)
 *   clear            takes the entries out again; prints "clear"
 */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/flags.h"
#include "common/log.h"

#define MAX_DRIVERS 1000
#define NODE_ID     "i-0123456789abcdef0"
#define ZONE        "topology.bench.example.com/zone"
#define PATIENCE_S  30

enum step { GET_INFO, GET_CAPABILITIES, NODE_GET_INFO, NOTIFY, STEPS };

static const struct {
    const char *method, *request;
    size_t len;
} calls[STEPS] = {
    [GET_INFO] = {"/pluginregistration.Registration/GetInfo", "", 0},
    [GET_CAPABILITIES] = {"/csi.v1.Node/NodeGetCapabilities", "", 0},
    [NODE_GET_INFO] = {"/csi.v1.Node/NodeGetInfo", "", 0},
    [NOTIFY] = {"/pluginregistration.Registration/NotifyRegistrationStatus", "\x08\x01", 2},
};

struct driver {
    char name[128];
    enum step step;
    grpc_channel *registration, *service;
    grpc_call *call;
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *answer;
    grpc_status_code status;
    grpc_slice details;
};

static struct {
    const char *registry, *directory, *server, *token, *ca, *node;
    bool controller;
} options;

static struct driver drivers[MAX_DRIVERS];
static size_t n_drivers, n_ready, n_notified;
static grpc_completion_queue *queue;
static int watch;

static void die(const char *what)
{
    log_error("%s: %s", what, strerror(errno));
    exit(1);
}

/* ---- the API server ---- */

static struct {
    CURL *easy;
    struct curl_slist *plain, *json, *patch;
    char *body;
    size_t len;
    char node_uid[64], version[64]; /* of the CSINode; "" without one */
} api;

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    (void)user;
    api.body = need_array(api.body, api.len + n * size + 1, 1);
    memcpy(api.body + api.len, data, n * size);
    api.len += n * size;
    api.body[api.len] = '\0';
    return n * size;
}

static struct curl_slist *headers(const char *content_type)
{
    char line[2048];
    snprintf(line, sizeof line, "Authorization: Bearer %s", options.token);
    struct curl_slist *list = curl_slist_append(NULL, line);
    return content_type ? curl_slist_append(list, content_type) : list;
}

static void api_open(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
    api.easy = curl_easy_init();
    api.plain = headers(NULL);
    api.json = headers("Content-Type: application/json");
    api.patch = headers("Content-Type: application/strategic-merge-patch+json");
    curl_easy_setopt(api.easy, CURLOPT_CAINFO, options.ca);
    curl_easy_setopt(api.easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(api.easy, CURLOPT_PROXY, "");
    curl_easy_setopt(api.easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(api.easy, CURLOPT_WRITEFUNCTION, on_body);
}

static void api_close(void)
{
    curl_easy_cleanup(api.easy);
    curl_slist_free_all(api.plain);
    curl_slist_free_all(api.json);
    curl_slist_free_all(api.patch);
    free(api.body);
    curl_global_cleanup();
}

/* The HTTP status; 2xx and 404 are fine. */
static long request(const char *method, const char *path, const char *body, struct curl_slist *list)
{
    long status = 0;
    char *url = need_printf("%s%s", options.server, path);
    api.len = 0;
    curl_easy_setopt(api.easy, CURLOPT_URL, url);
    curl_easy_setopt(api.easy, CURLOPT_HTTPHEADER, list);
    if (body)
        curl_easy_setopt(api.easy, CURLOPT_POSTFIELDS, body);
    else
        curl_easy_setopt(api.easy, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(api.easy, CURLOPT_CUSTOMREQUEST, method);
    CURLcode code = curl_easy_perform(api.easy);
    curl_easy_getinfo(api.easy, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || (status / 100 != 2 && status != 404)) {
        log_error("%s %s: %s, %ld: %s", method, url, curl_easy_strerror(code), status, api.len ? api.body : "");
        exit(1);
    }
    free(url);
    return status;
}

/* The text of a field of the answer, found as "key":"text" where it comes first. */
static void field(const char *key, char *out, size_t size)
{
    char pattern[64];
    int n = snprintf(pattern, sizeof pattern, "\"%s\":\"", key);
    const char *at = api.len ? strstr(api.body, pattern) : NULL;
    if (!at) die("an answer without what was looked for");
    snprintf(out, size, "%.*s", (int)strcspn(at + n, "\""), at + n);
}

static void node_path(char *out, size_t size, const char *suffix)
{
    snprintf(out, size, "/api/v1/nodes/%s%s", options.node, suffix);
}

static void get_node(void)
{
    char path[512];
    node_path(path, sizeof path, "");
    if (request("GET", path, NULL, api.plain) != 200) die("there is no Node");
    field("uid", api.node_uid, sizeof api.node_uid);
}

static void get_csinode(void)
{
    char path[512];
    snprintf(path, sizeof path, "/apis/storage.k8s.io/v1/csinodes/%s", options.node);
    api.version[0] = '\0';
    if (request("GET", path, NULL, api.plain) == 200) field("resourceVersion", api.version, sizeof api.version);
}

static void patch_node(size_t count)
{
    char path[512], *body = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&body, &len);
    fprintf(out, "{\"metadata\":{\"annotations\":{\"csi.volume.kubernetes.io/nodeid\":%s", count ? "\"{" : "null");
    for (size_t i = 0; i < count; i++) fprintf(out, "%s\\\"%s\\\":\\\"" NODE_ID "\\\"", i ? "," : "", drivers[i].name);
    fprintf(out, "%s},\"labels\":{\"" ZONE "\":\"z1\"}}}", count ? "}\"" : "");
    fclose(out);
    node_path(path, sizeof path, "/status");
    request("PATCH", path, body, api.patch);
    free(body);
}

static void put_entry(FILE *out, const char *name)
{
    fprintf(out, "{\"name\":\"%s\",\"nodeID\":\"" NODE_ID "\"", name);
    if (!options.controller) fprintf(out, ",\"topologyKeys\":[\"" ZONE "\"],\"allocatable\":{\"count\":25}");
    fputc('}', out);
}

static void put_csinode(size_t count)
{
    char path[512], *body = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&body, &len);
    fprintf(out,
            "{\"apiVersion\":\"storage.k8s.io/v1\",\"kind\":\"CSINode\",\"metadata\":{\"name\":\"%s\","
            "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"%s\",\"uid\":\"%s\"}]",
            options.node, options.node, api.node_uid);
    if (api.version[0]) fprintf(out, ",\"resourceVersion\":\"%s\"", api.version);
    fprintf(out, "},\"spec\":{\"drivers\":[%s", options.controller ? "],\"driverRegistrations\":[" : "");
    for (size_t i = 0; i < count; i++) {
        if (i) fputc(',', out);
        put_entry(out, drivers[i].name);
    }
    fprintf(out, "]}}");
    fclose(out);
    snprintf(path, sizeof path, "/apis/storage.k8s.io/v1/csinodes%s%s", api.version[0] ? "/" : "",
             api.version[0] ? options.node : "");
    request(api.version[0] ? "PUT" : "POST", path, body, api.json);
    field("resourceVersion", api.version, sizeof api.version);
    free(body);
}

/* ---- the drivers ---- */

static int dial(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    while (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        if (errno != ECONNREFUSED) die(path);
        sched_yield(); /* bound, and not yet listening */
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static grpc_channel *open_channel(const char *path)
{
    char authority[] = "localhost", key[] = GRPC_ARG_DEFAULT_AUTHORITY, retries[] = GRPC_ARG_ENABLE_RETRIES;
    grpc_arg list[] = {{.type = GRPC_ARG_STRING, .key = key, .value.string = authority},
                       {.type = GRPC_ARG_INTEGER, .key = retries, .value.integer = 0}};
    grpc_channel_args args = {sizeof list / sizeof *list, list};
    grpc_channel_credentials *none = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create_from_fd("localhost", dial(path), none, &args);
    grpc_channel_credentials_release(none);
    return channel;
}

static void start_call(struct driver *d, grpc_channel *channel, enum step step)
{
    bool flagged = step == NODE_GET_INFO && options.controller;
    grpc_slice text = flagged ? grpc_slice_from_static_buffer("\x08\x01", 2)
                              : grpc_slice_from_static_buffer(calls[step].request, calls[step].len);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&text, 1);
    gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(PATIENCE_S, GPR_TIMESPAN));
    d->step = step;
    d->answer = NULL;
    grpc_metadata_array_init(&d->initial);
    grpc_metadata_array_init(&d->trailing);
    d->call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
                                       grpc_slice_from_static_string(calls[step].method), NULL, deadline, NULL);
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &d->initial},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &d->answer},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {&d->trailing, &d->status, &d->details, NULL}},
    };
    if (grpc_call_start_batch(d->call, ops, sizeof ops / sizeof *ops, d, NULL) != GRPC_CALL_OK) die("a call");
    grpc_byte_buffer_destroy(message);
}

static void end_call(struct driver *d)
{
    if (d->status != GRPC_STATUS_OK || !d->answer) die(calls[d->step].method);
    grpc_byte_buffer_destroy(d->answer);
    grpc_metadata_array_destroy(&d->initial);
    grpc_metadata_array_destroy(&d->trailing);
    grpc_slice_unref(d->details);
    grpc_call_unref(d->call);
}

static void begin(const char *file)
{
    struct driver *d = &drivers[n_drivers++];
    char *path = need_printf("%s/%s", options.registry, file);
    snprintf(d->name, sizeof d->name, "%.*s", (int)(strlen(file) - strlen("-reg.sock")), file);
    d->registration = open_channel(path);
    start_call(d, d->registration, GET_INFO);
    free(path);
}

static void advance(struct driver *d)
{
    end_call(d);
    if (d->step == GET_INFO) {
        char *path = need_printf("%s/s%d", options.directory, (int)strtol(d->name + 1, NULL, 10));
        d->service = open_channel(path);
        start_call(d, d->service, options.controller ? GET_CAPABILITIES : NODE_GET_INFO);
        free(path);
    } else if (d->step == GET_CAPABILITIES) {
        start_call(d, d->service, NODE_GET_INFO);
    } else if (d->step == NODE_GET_INFO) {
        n_ready++;
    } else {
        n_notified++;
    }
}

static void until(const size_t *reached, size_t count)
{
    while (*reached < count) {
        grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        advance(event.tag);
    }
}

/* ---- a round ---- */

static void see_sockets(size_t count)
{
    char buffer[16384] __attribute__((aligned(8)));
    while (n_drivers < count) {
        ssize_t n = read(watch, buffer, sizeof buffer);
        if (n <= 0) die("inotify");
        for (char *at = buffer; at < buffer + n;) {
            const struct inotify_event *event = (const struct inotify_event *)at;
            if (event->len) begin(event->name);
            at += sizeof *event + event->len;
        }
    }
}

static void publish(const char *reads)
{
    if (strcmp(reads, "first") == 0) {
        if (options.controller) request("GET", "/apis/storage.k8s.io/v1/csidrivers?limit=500", NULL, api.plain);
        get_node();
        get_csinode();
    } else if (strcmp(reads, "wave") == 0) {
        get_csinode();
    }
    if (!options.controller) patch_node(n_drivers);
    put_csinode(n_drivers);
}

static void close_channels(void)
{
    for (size_t i = 0; i < n_drivers; i++) {
        grpc_channel_destroy(drivers[i].service);
        grpc_channel_destroy(drivers[i].registration);
    }
}

static void go(size_t count, const char *reads)
{
    n_drivers = n_ready = n_notified = 0;
    watch = inotify_init1(IN_CLOEXEC);
    if (inotify_add_watch(watch, options.registry, IN_CREATE) < 0) die("inotify");
    puts("armed");
    fflush(stdout);
    see_sockets(count);
    until(&n_ready, count);
    publish(reads);
    for (size_t i = 0; i < count; i++) start_call(&drivers[i], drivers[i].registration, NOTIFY);
    until(&n_notified, count);
    close_channels();
    close(watch);
    puts("done");
}

static void clear(void)
{
    put_csinode(0);
    if (!options.controller) patch_node(0);
    puts("clear");
}

static void run_commands(void)
{
    char line[128], reads[16];
    unsigned count;
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "go %u %15s", &count, reads) == 2 && count <= MAX_DRIVERS)
            go(count, reads);
        else if (strcmp(line, "clear\n") == 0)
            clear();
        else
            die(line);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    struct flag rows[] = {
        {.name = "registry",
         .type = FLAG_STRING,
         .out = &options.registry,
         .required = true,
         .help = "where registration sockets come"},
        {.name = "directory",
         .type = FLAG_STRING,
         .out = &options.directory,
         .required = true,
         .help = "where service sockets are"},
        {.name = "server",
         .type = FLAG_STRING,
         .out = &options.server,
         .required = true,
         .help = "URL of the API server"},
        {.name = "token", .type = FLAG_STRING, .out = &options.token, .required = true, .help = "bearer token"},
        {.name = "ca", .type = FLAG_STRING, .out = &options.ca, .required = true, .help = "file"},
        {.name = "node", .type = FLAG_STRING, .out = &options.node, .required = true, .help = "name of the Node"},
        {.name = "controller", .type = FLAG_BOOL, .out = &options.controller, .help = "the controller flow"},
    };
    struct flags flags;
    flags_init(&flags, "floor", "The round trips of a registration and nothing else.", "");
    flags_add(&flags, rows, sizeof rows / sizeof *rows);
    int code = flags_run(&flags, argc, argv);
    if (code < 0) {
        api_open();
        grpc_init();
        queue = grpc_completion_queue_create_for_next(NULL);
        puts("ready");
        fflush(stdout);
        run_commands();
        grpc_completion_queue_shutdown(queue);
        while (grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type != GRPC_QUEUE_SHUTDOWN)
            continue;
        grpc_completion_queue_destroy(queue);
        grpc_shutdown();
        api_close();
        code = 0;
    }
    flags_free(&flags);
    return code;
}
