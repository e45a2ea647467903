/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers to measure with: they answer at once, remember when they listened and when they were notified, and print
 * nothing while that is measured. Commands come as lines on standard input, each is answered by one line:
 *
 *   appear FIRST COUNT   the registration sockets of these drivers come together  ->  listening NS   (the first of
 * them) await COUNT MS       COUNT of those that appeared were notified, or MS passed ->  notified TRUE FALSE NS   (the
 * last) vanish FIRST COUNT   the registration sockets go                              ->  gone calls ->  calls GET_INFO
 * GET_CAPABILITIES NODE_GET_INFO TRUE FALSE
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. Service sockets are there from the start. The end of input ends it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "common/flags.h"
#include "common/grpc_server.h"
#include "common/log.h"
#include "common/stop.h"
#include "wire/csi.pb-c.h"
#include "wire/registration.pb-c.h"

#define MAX_DRIVERS   1000
#define CAPABILITY    9 /* NODE_INFO_FROM_CONTROLLER */
#define UNIMPLEMENTED 12

struct driver {
    char *name, *service_path, *registration_path;
    struct gserver *service, *registration; /* registration: NULL while it is away */
    bool told;                              /* notified since it appeared */
};

static struct {
    const char *directory, *registry;
    int64_t count;
    bool controller, refused;
} options;

static struct driver drivers[MAX_DRIVERS];
static struct gloop *loop;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed; /* on the monotonic clock */
static struct {
    int64_t listening, told_true, told_false; /* of those that appeared last */
    int64_t first_listening_ns, last_told_ns;
    int64_t get_info, get_capabilities, node_get_info, all_true, all_false;
    bool failed;
} seen;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- answers ---- */

static void pack(const ProtobufCMessage *message, struct gserver_reply *reply)
{
    reply->len = protobuf_c_message_get_packed_size(message);
    reply->body = need_calloc(reply->len + 1, 1);
    protobuf_c_message_pack(message, reply->body);
}

static void answer_info(struct driver *d, struct gserver_reply *reply)
{
    char good[] = "1.0.0", bad[] = "9.0.0", *versions[] = {options.refused ? bad : good}, type[] = "CSIPlugin";
    Pluginregistration__PluginInfo info = PLUGINREGISTRATION__PLUGIN_INFO__INIT;
    info.type = type;
    info.name = d->name;
    info.endpoint = d->service_path;
    info.n_supported_versions = 1;
    info.supported_versions = versions;
    pack(&info.base, reply);
}

static void answer_capabilities(struct gserver_reply *reply)
{
    Csi__V1__NodeServiceCapability__RPC rpc = CSI__V1__NODE_SERVICE_CAPABILITY__RPC__INIT;
    Csi__V1__NodeServiceCapability one = CSI__V1__NODE_SERVICE_CAPABILITY__INIT, *all[] = {&one};
    Csi__V1__NodeGetCapabilitiesResponse response = CSI__V1__NODE_GET_CAPABILITIES_RESPONSE__INIT;
    rpc.type = (Csi__V1__NodeServiceCapability__RPC__Type)CAPABILITY;
    one.rpc = &rpc;
    response.n_capabilities = options.controller ? 1 : 0;
    response.capabilities = all;
    pack(&response.base, reply);
}

static void answer_node_info(struct gserver_reply *reply)
{
    char id[] = "i-0123456789abcdef0", key[] = "topology.bench.example.com/zone", value[] = "z1";
    Csi__V1__Topology__SegmentsEntry segment = CSI__V1__TOPOLOGY__SEGMENTS_ENTRY__INIT, *segments[] = {&segment};
    Csi__V1__Topology topology = CSI__V1__TOPOLOGY__INIT;
    Csi__V1__NodeGetInfoResponse response = CSI__V1__NODE_GET_INFO_RESPONSE__INIT;
    segment.key = key;
    segment.value = value;
    topology.n_segments = 1;
    topology.segments = segments;
    response.node_id = id;
    response.max_volumes_per_node = 25;
    response.accessible_topology = &topology;
    pack(&response.base, reply);
}

static void note_notification(struct driver *d, const struct gserver_request *request)
{
    int64_t now = now_ns();
    Pluginregistration__RegistrationStatus *status =
        pluginregistration__registration_status__unpack(NULL, request->len, request->body);
    bool good = status && status->plugin_registered;
    if (status) pluginregistration__registration_status__free_unpacked(status, NULL);
    pthread_mutex_lock(&lock);
    good ? seen.all_true++ : seen.all_false++;
    if (!d->told) good ? seen.told_true++ : seen.told_false++;
    d->told = true;
    seen.last_told_ns = now;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void handle(void *user, const struct gserver_request *request, struct gserver_reply *reply)
{
    struct driver *d = user;
    const char *slash = strrchr(request->method, '/'), *method = slash ? slash + 1 : request->method;
    if (strcmp(method, "GetInfo") == 0) {
        seen.get_info++;
        answer_info(d, reply);
    } else if (strcmp(method, "NodeGetCapabilities") == 0) {
        seen.get_capabilities++;
        answer_capabilities(reply);
    } else if (strcmp(method, "NodeGetInfo") == 0) {
        seen.node_get_info++;
        answer_node_info(reply);
    } else if (strcmp(method, "NotifyRegistrationStatus") == 0) {
        note_notification(d, request);
    } else {
        reply->code = UNIMPLEMENTED;
    }
}

/* ---- sockets ---- */

static void listening(void *user, const char *error)
{
    int64_t now = now_ns();
    (void)user;
    if (error) log_error("%s", error);
    pthread_mutex_lock(&lock);
    seen.failed |= error != NULL;
    if (seen.listening++ == 0) seen.first_listening_ns = now;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static const struct gserver_hooks hooks = {.handle = handle, .listening = listening};

static struct gserver *serve(struct driver *d, const char *path, int64_t listen_after_ms)
{
    struct gserver_options how = {.path = path, .hooks = &hooks, .user = d, .listen_after_ms = listen_after_ms};
    char *error = NULL;
    struct gserver *server = gserver_start(loop, &how, &error);
    if (!server) log_error("%s", error);
    free(error);
    return server;
}

/* ---- commands ---- */

/* Everything that takes time is done before the sockets come, all in the same millisecond. */
static bool appear(int64_t first, int64_t count)
{
    int64_t due_ns = now_ns() + (2 + count) * 1000000;
    pthread_mutex_lock(&lock);
    seen.listening = seen.told_true = seen.told_false = 0;
    for (int64_t i = first; i < first + count; i++) drivers[i].told = false;
    pthread_mutex_unlock(&lock);
    for (int64_t i = first; i < first + count; i++) {
        int64_t left = (due_ns - now_ns()) / 1000000;
        drivers[i].registration = serve(&drivers[i], drivers[i].registration_path, left > 0 ? left : 1);
        if (!drivers[i].registration) return false;
    }
    pthread_mutex_lock(&lock);
    while (seen.listening < count) pthread_cond_wait(&changed, &lock);
    bool good = !seen.failed;
    printf("listening %lld\n", (long long)seen.first_listening_ns);
    pthread_mutex_unlock(&lock);
    return good;
}

static void await_notified(int64_t count, int64_t milliseconds)
{
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += milliseconds / 1000;
    pthread_mutex_lock(&lock);
    while (seen.told_true + seen.told_false < count && pthread_cond_timedwait(&changed, &lock, &limit) == 0) continue;
    printf("notified %lld %lld %lld\n", (long long)seen.told_true, (long long)seen.told_false,
           (long long)seen.last_told_ns);
    pthread_mutex_unlock(&lock);
}

static void vanish(int64_t first, int64_t count)
{
    for (int64_t i = first; i < first + count; i++) {
        gserver_stop(drivers[i].registration);
        drivers[i].registration = NULL;
    }
    printf("gone\n");
}

static void print_calls(void)
{
    printf("calls %lld %lld %lld %lld %lld\n", (long long)seen.get_info, (long long)seen.get_capabilities,
           (long long)seen.node_get_info, (long long)seen.all_true, (long long)seen.all_false);
}

static bool in_range(long long first, long long count)
{
    return first >= 0 && count >= 0 && first + count <= options.count;
}

static bool run_command(const char *line)
{
    long long a, b;
    bool good = true;
    if (sscanf(line, "appear %lld %lld", &a, &b) == 2 && in_range(a, b))
        good = appear(a, b);
    else if (sscanf(line, "await %lld %lld", &a, &b) == 2)
        await_notified(a, b);
    else if (sscanf(line, "vanish %lld %lld", &a, &b) == 2 && in_range(a, b))
        vanish(a, b);
    else if (strcmp(line, "calls\n") == 0)
        print_calls();
    else
        good = false;
    fflush(stdout);
    if (!good) log_error("failed: %s", line);
    return good;
}

/* ---- life ---- */

static bool start_driver(struct driver *d, int64_t number)
{
    d->name = need_printf("d%lld.bench.example.com", (long long)number);
    d->service_path = need_printf("%s/s%lld", options.directory, (long long)number);
    d->registration_path = need_printf("%s/%s-reg.sock", options.registry, d->name);
    d->service = serve(d, d->service_path, 0);
    return d->service != NULL;
}

static void stop_driver(struct driver *d)
{
    gserver_stop(d->registration);
    gserver_stop(d->service);
    free(d->name);
    free(d->service_path);
    free(d->registration_path);
}

static int serve_all(void)
{
    char line[128];
    bool good = true;
    loop = gloop_new();
    for (int64_t i = 0; good && i < options.count; i++) good = start_driver(&drivers[i], i);
    if (good) printf("ready\n");
    fflush(stdout);
    while (good && fgets(line, sizeof line, stdin)) good = run_command(line);
    for (int64_t i = 0; i < options.count; i++) stop_driver(&drivers[i]);
    gloop_free(loop);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct flag rows[] = {
        {.name = "directory",
         .type = FLAG_STRING,
         .out = &options.directory,
         .required = true,
         .help = "of the service sockets"},
        {.name = "registry",
         .type = FLAG_STRING,
         .out = &options.registry,
         .required = true,
         .help = "of the registration sockets"},
        {.name = "count",
         .type = FLAG_INT,
         .out = &options.count,
         .default_value = "1",
         .minimum = 1,
         .maximum = MAX_DRIVERS,
         .help = "number of drivers"},
        {.name = "controller",
         .type = FLAG_BOOL,
         .out = &options.controller,
         .help = "report the capability NODE_INFO_FROM_CONTROLLER"},
        {.name = "refused",
         .type = FLAG_BOOL,
         .out = &options.refused,
         .help = "report a version that nobody supports"},
    };
    struct flags flags;
    flags_init(&flags, "drivers", "Drivers to measure with.", "");
    flags_add(&flags, rows, sizeof rows / sizeof *rows);
    int code = flags_run(&flags, argc, argv);
    if (code < 0 && stop_open() < 0) code = 1;
    if (code < 0) {
        pthread_condattr_t monotonic;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&changed, &monotonic);
        code = serve_all();
    }
    flags_free(&flags);
    return code;
}
