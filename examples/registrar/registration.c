/* SPDX-License-Identifier: Apache-2.0 */
#include "registrar/registration.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/grpc_client.h"
#include "common/stop.h"
#include "wire/registration.pb-c.h"

#define UNIMPLEMENTED    12
#define INVALID_ARGUMENT 3

#define GET_INFO "/pluginregistration.Registration/GetInfo"
#define NOTIFY   "/pluginregistration.Registration/NotifyRegistrationStatus"
#define HEALTH   "/csireg.Registrar/Health" /* ours: a GetInfo of our own would look like one of the kubelet */

#define VERSION "1.0.0" /* of CSI, as node-driver-registrar reports it */

struct registration {
    const struct config *config;
    char *driver, *path;
    struct gserver *server;
    bool refused; /* handling thread */
};

/* ---- probe file ---- */

/* Without the driver's directory mounted here there is nobody to probe either. */
static void touch_probe_file(const struct config *c)
{
    int fd = open(c->probe_file, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || futimens(fd, NULL) != 0)
        log_line(errno == ENOENT ? CSIREG_LOG_DEBUG : CSIREG_LOG_WARNING, "cannot touch the probe file %s: %s",
                 c->probe_file, strerror(errno));
    if (fd >= 0) close(fd);
}

void probe_file_remove(const struct config *c)
{
    if (unlink(c->probe_file) != 0 && errno != ENOENT && errno != ENOTDIR)
        log_warning("cannot remove the probe file %s: %s", c->probe_file, strerror(errno));
}

bool probe_file_exists(const struct config *c) { return access(c->probe_file, F_OK) == 0; }

/* ---- answers ---- */

static void answer_info(const struct registration *r, struct gserver_reply *reply)
{
    char *versions[] = {(char *)VERSION};
    Pluginregistration__PluginInfo info = PLUGINREGISTRATION__PLUGIN_INFO__INIT;
    info.type = (char *)"CSIPlugin";
    info.name = r->driver;
    info.endpoint = (char *)r->config->registration_path;
    info.supported_versions = versions;
    info.n_supported_versions = 1;
    reply->len = pluginregistration__plugin_info__get_packed_size(&info);
    reply->body = need_calloc(reply->len, 1);
    pluginregistration__plugin_info__pack(&info, reply->body);
    log_debug("GetInfo: answered %s at %s", r->driver, r->config->registration_path);
    touch_probe_file(r->config);
}

static void take_status(struct registration *r, const struct gserver_request *request, struct gserver_reply *reply)
{
    Pluginregistration__RegistrationStatus *status =
        pluginregistration__registration_status__unpack(NULL, request->len, request->body);
    if (!status) {
        reply->code = INVALID_ARGUMENT;
        reply->text = "not a RegistrationStatus";
        return;
    }
    if (status->plugin_registered) {
        log_info("driver %s is registered", r->driver);
    } else {
        log_error("driver %s was not registered: %s", r->driver,
                  *status->error ? status->error : "no reason was given");
        r->refused = true;
    }
    pluginregistration__registration_status__free_unpacked(status, NULL);
}

static void answer_health(const struct registration *r, struct gserver_reply *reply)
{
    reply->len = strlen(r->driver);
    reply->body = need_strdup(r->driver);
}

static void handle(void *user, const struct gserver_request *request, struct gserver_reply *reply)
{
    struct registration *r = user;
    if (strcmp(request->method, GET_INFO) == 0) return answer_info(r, reply);
    if (strcmp(request->method, NOTIFY) == 0) return take_status(r, request, reply);
    if (strcmp(request->method, HEALTH) == 0) return answer_health(r, reply);
    reply->code = UNIMPLEMENTED;
    reply->text = "this socket serves pluginregistration.Registration";
}

/* A new try needs a new socket, so a refusal ends the program, after its answer is out. */
static void finished(void *user, const char *method, bool sent)
{
    (void)sent;
    struct registration *r = user;
    if (r->refused && strcmp(method, NOTIFY) == 0) stop_request(1);
}

static const struct gserver_hooks hooks = {.handle = handle, .finished = finished};

/* ---- life ---- */

struct registration *registration_start(const struct config *config, const char *driver, struct gloop *loop)
{
    struct registration *r = NEED_NEW(struct registration);
    r->config = config;
    r->driver = need_strdup(driver);
    r->path = need_printf("%s/%s-reg.sock", config->registry, driver);
    char *error = NULL;
    r->server = gserver_start(loop, &(struct gserver_options){.path = r->path, .hooks = &hooks, .user = r}, &error);
    if (r->server) {
        log_info("driver %s: registration socket %s is served, endpoint %s", driver, r->path,
                 config->registration_path);
        return r;
    }
    log_error("cannot serve the registration %s", error);
    free(error);
    registration_stop(r);
    return NULL;
}

void registration_stop(struct registration *r)
{
    if (!r) return;
    gserver_stop(r->server);
    if (r->server) probe_file_remove(r->config);
    free(r->driver);
    free(r->path);
    free(r);
}

int registration_health(const struct registration *r, char **out_text)
{
    struct stat st;
    if (!r || stat(r->path, &st) != 0 || !S_ISSOCK(st.st_mode)) {
        *out_text = need_printf("no registration socket%s%s", r ? " at " : " yet", r ? r->path : "");
        return 404;
    }
    struct gclient_reply reply;
    gclient_call(r->path, HEALTH, NULL, 0, r->config->timeout_ms, &reply);
    bool ours = reply.code == 0 && reply.len == strlen(r->driver) && memcmp(reply.body, r->driver, reply.len) == 0;
    if (ours)
        *out_text = need_strdup("ok");
    else
        *out_text =
            need_printf("the registration socket %s does not answer: code %d %s", r->path, reply.code, reply.text);
    gclient_reply_fini(&reply);
    return ours ? 200 : 500;
}
