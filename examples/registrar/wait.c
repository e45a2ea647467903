/* SPDX-License-Identifier: Apache-2.0 */
#include "registrar/wait.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "common/grpc_client.h"
#include "core/names.h"
#include "wire/check.h"
#include "wire/csi.pb-c.h"

#define FIRST_PAUSE_MS 100
#define LAST_PAUSE_MS  1000
#define PROGRESS_S     10 /* between lines that say the same */
#define UNIMPLEMENTED  12

enum step { STEP_DONE, STEP_AGAIN, STEP_FATAL };

static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* One line when the cause changes, and every PROGRESS_S seconds. */
struct progress {
    char *cause;
    time_t since, last;
};

/* Takes the cause. */
static void tell(struct progress *p, const struct config *c, char *cause)
{
    bool changed = !p->cause || strcmp(p->cause, cause) != 0;
    if (changed || now_s() - p->last >= PROGRESS_S) {
        p->last = now_s();
        log_info("waiting for the driver at %s for %lld s: %s", c->csi_path, (long long)(p->last - p->since), cause);
    }
    free(p->cause);
    p->cause = cause;
}

static char *cause_of(const char *call, const struct gclient_reply *reply)
{
    if (reply->error) return need_printf("cannot connect: %s", reply->text);
    return need_printf("%s fails with code %d: %s", call, reply->code, reply->text);
}

static bool decode_name(const struct gclient_reply *reply, char **out_name)
{
    const struct cr_wire_plan plan = {.descriptor = &csi__v1__get_plugin_info_response__descriptor};
    struct csireg_error *error = NULL;
    char why[256];
    if (!cr_wire_check(&plan, NULL, reply->body, reply->len, why, sizeof why)) {
        log_error("GetPluginInfo: the driver's answer is not usable: %s", why);
        return false;
    }
    Csi__V1__GetPluginInfoResponse *m = csi__v1__get_plugin_info_response__unpack(NULL, reply->len, reply->body);
    if (m && cr_check_driver_name(m->name, &error) == 0) *out_name = need_strdup(m->name);
    if (!*out_name) log_error("GetPluginInfo: %s", error ? csireg_error_message(error) : "the answer is not readable");
    csireg_error_free(error);
    csi__v1__get_plugin_info_response__free_unpacked(m, NULL);
    return *out_name != NULL;
}

static enum step ask_name(const struct config *c, struct progress *progress, char **out_name)
{
    struct gclient_reply reply;
    enum step step = STEP_AGAIN;
    gclient_call(c->csi_path, "/csi.v1.Identity/GetPluginInfo", NULL, 0, c->timeout_ms, &reply);
    if (reply.code == 0) {
        step = decode_name(&reply, out_name) ? STEP_DONE : STEP_FATAL;
    } else if (reply.code == UNIMPLEMENTED) {
        log_error("GetPluginInfo: %s serves no csi.v1.Identity; is --csi-address the driver's socket?", c->csi_path);
        step = STEP_FATAL;
    } else {
        tell(progress, c, cause_of("GetPluginInfo", &reply));
    }
    gclient_reply_fini(&reply);
    return step;
}

/* An absent answer counts as ready in CSI. */
static bool says_not_ready(const struct gclient_reply *reply)
{
    Csi__V1__ProbeResponse *m = csi__v1__probe_response__unpack(NULL, reply->len, reply->body);
    bool not_ready = m && m->ready && !m->ready->value;
    csi__v1__probe_response__free_unpacked(m, NULL);
    return not_ready;
}

/* Only a plain "not ready" is waited for: drivers without a working Probe have always been registered. */
static enum step ask_ready(const struct config *c, struct progress *progress, char **out_name)
{
    (void)out_name;
    struct gclient_reply reply;
    enum step step = STEP_DONE;
    gclient_call(c->csi_path, "/csi.v1.Identity/Probe", NULL, 0, c->timeout_ms, &reply);
    if (reply.code == 0 && says_not_ready(&reply)) {
        tell(progress, c, need_strdup("Probe says that it is not ready yet"));
        step = STEP_AGAIN;
    } else if (reply.code != 0 && reply.code != UNIMPLEMENTED) {
        char *cause = cause_of("Probe", &reply);
        log_warning("%s; registering the driver all the same", cause);
        free(cause);
    }
    gclient_reply_fini(&reply);
    return step;
}

static bool pause_for(int stop_fd, int *pause_ms)
{
    struct pollfd p = {.fd = stop_fd, .events = POLLIN};
    int stopped = poll(&p, 1, *pause_ms);
    if (*pause_ms < LAST_PAUSE_MS) *pause_ms = *pause_ms * 2 > LAST_PAUSE_MS ? LAST_PAUSE_MS : *pause_ms * 2;
    return stopped <= 0;
}

enum wait_result wait_for_driver(const struct config *config, int stop_fd, char **out_name)
{
    static enum step (*const steps[])(const struct config *, struct progress *, char **) = {ask_name, ask_ready};
    struct progress progress = {.since = now_s()};
    enum wait_result result = WAIT_READY;
    int pause_ms = FIRST_PAUSE_MS;
    *out_name = NULL;
    for (size_t i = 0; i < 2 && result == WAIT_READY;) {
        enum step step = steps[i](config, &progress, out_name);
        if (step == STEP_DONE) i++;
        if (step == STEP_FATAL) result = WAIT_FAILED;
        if (step == STEP_AGAIN && !pause_for(stop_fd, &pause_ms)) result = WAIT_STOPPED;
    }
    free(progress.cause);
    if (result == WAIT_READY) return result;
    free(*out_name);
    *out_name = NULL;
    return result;
}
