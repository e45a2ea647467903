/* SPDX-License-Identifier: Apache-2.0 */
#include "doubles/fake_driver.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/csi.pb-c.h"
#include "wire/registration.pb-c.h"

struct fake_driver {
    struct fake_driver_config config;
    char *path, *name, *type;
    struct gserver *server;
    pthread_mutex_t mutex;
    pthread_cond_t called;
    unsigned calls[FAKE_METHODS]; /* from here on under the mutex */
    bool registered;
    char reason[1100];
};

static const char *const names[FAKE_METHODS] = {"/pluginregistration.Registration/GetInfo",
                                                "/pluginregistration.Registration/NotifyRegistrationStatus",
                                                "/csi.v1.Node/NodeGetCapabilities", "/csi.v1.Node/NodeGetInfo"};

static void pack(struct gserver_reply *reply, const ProtobufCMessage *m)
{
    reply->body = malloc(protobuf_c_message_get_packed_size(m) + 1);
    reply->len = protobuf_c_message_pack(m, reply->body);
}

static void get_info(const struct fake_driver *d, struct gserver_reply *reply)
{
    char version[] = "1.2.0", *versions[] = {version};
    Pluginregistration__PluginInfo m = PLUGINREGISTRATION__PLUGIN_INFO__INIT;
    m.type = d->type;
    m.name = d->name;
    m.supported_versions = versions;
    m.n_supported_versions = 1;
    pack(reply, &m.base);
}

static void node_info(const struct fake_driver *d, struct gserver_reply *reply)
{
    char id[300];
    Csi__V1__NodeGetInfoResponse m = CSI__V1__NODE_GET_INFO_RESPONSE__INIT;
    snprintf(id, sizeof id, "id-of-%s", d->name);
    m.node_id = id;
    m.max_volumes_per_node = 7;
    pack(reply, &m.base);
}

static void capabilities(const struct fake_driver *d, struct gserver_reply *reply)
{
    Csi__V1__NodeServiceCapability__RPC rpc = CSI__V1__NODE_SERVICE_CAPABILITY__RPC__INIT;
    Csi__V1__NodeServiceCapability capability = CSI__V1__NODE_SERVICE_CAPABILITY__INIT, *list[] = {&capability};
    Csi__V1__NodeGetCapabilitiesResponse m = CSI__V1__NODE_GET_CAPABILITIES_RESPONSE__INIT;
    rpc.type = (Csi__V1__NodeServiceCapability__RPC__Type)9;
    capability.rpc = &rpc;
    m.capabilities = list;
    m.n_capabilities = d->config.info_from_controller ? 1 : 0;
    pack(reply, &m.base);
}

static void notify(struct fake_driver *d, const struct gserver_request *request)
{
    Pluginregistration__RegistrationStatus *m =
        pluginregistration__registration_status__unpack(NULL, request->len, request->body);
    if (!m) return;
    d->registered = m->plugin_registered;
    snprintf(d->reason, sizeof d->reason, "%s", m->error);
    pluginregistration__registration_status__free_unpacked(m, NULL);
}

static void answer(struct fake_driver *d, enum fake_method method, const struct gserver_request *request,
                   struct gserver_reply *reply)
{
    reply->hang = d->config.hangs[method];
    if (reply->hang) return;
    if (method == FAKE_GET_INFO) get_info(d, reply);
    if (method == FAKE_NOTIFY) notify(d, request);
    if (method == FAKE_CAPABILITIES) capabilities(d, reply);
    if (method == FAKE_NODE_INFO) node_info(d, reply);
}

static void handle(void *user, const struct gserver_request *request, struct gserver_reply *reply)
{
    struct fake_driver *d = user;
    for (enum fake_method method = 0; method < FAKE_METHODS; method++) {
        if (strcmp(request->method, names[method]) != 0) continue;
        pthread_mutex_lock(&d->mutex);
        answer(d, method, request, reply);
        d->calls[method]++;
        pthread_cond_broadcast(&d->called);
        pthread_mutex_unlock(&d->mutex);
        return;
    }
    reply->code = 12;
}

struct fake_driver *fake_driver_start(struct gloop *loop, const struct fake_driver_config *config)
{
    static const struct gserver_hooks hooks = {.handle = handle};
    struct fake_driver *d = calloc(1, sizeof *d);
    char *error = NULL;
    d->config = *config;
    d->path = strdup(config->path);
    d->name = strdup(config->name);
    d->type = strdup(config->type ? config->type : "CSIPlugin");
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->called, NULL);
    d->server = gserver_start(loop, &(struct gserver_options){.path = d->path, .hooks = &hooks, .user = d}, &error);
    if (!d->server) fail_msg("%s", error);
    return d;
}

void fake_driver_stop(struct fake_driver *d)
{
    if (!d) return;
    gserver_stop(d->server);
    pthread_cond_destroy(&d->called);
    pthread_mutex_destroy(&d->mutex);
    free(d->path);
    free(d->name);
    free(d->type);
    free(d);
}

void fake_driver_wait_called(struct fake_driver *d, enum fake_method method, unsigned times)
{
    pthread_mutex_lock(&d->mutex);
    while (d->calls[method] < times) pthread_cond_wait(&d->called, &d->mutex);
    pthread_mutex_unlock(&d->mutex);
}

unsigned fake_driver_calls(struct fake_driver *d, enum fake_method method)
{
    pthread_mutex_lock(&d->mutex);
    unsigned n = d->calls[method];
    pthread_mutex_unlock(&d->mutex);
    return n;
}

const char *fake_driver_notified(struct fake_driver *d, bool *registered)
{
    pthread_mutex_lock(&d->mutex);
    *registered = d->registered;
    pthread_mutex_unlock(&d->mutex);
    return d->reason;
}
