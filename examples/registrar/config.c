/* SPDX-License-Identifier: Apache-2.0 */
#include "registrar/config.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/httpd.h"
#include "common/unix_socket.h"

#define PROBE_NAME   "registration"
#define DEBUG_FROM_V 4 /* --v from which every call is logged */
#define MAX_TIMEOUT  (10 * 60 * 1000)

static const char summary[] =
    "csireg-registrar registers a CSI driver with the kubelet, or with any agent that speaks the kubelet's plugin "
    "registration: it waits for the driver's socket, asks for the driver's name and serves DRIVER-reg.sock.";

static const char examples[] =
    "  As a sidecar of the driver:\n"
    "    csireg-registrar --csi-address=/csi/csi.sock \\\n"
    "      --kubelet-registration-path=/var/lib/kubelet/plugins/a.example.com/csi.sock --http-endpoint=:9809\n"
    "  As its liveness probe (exit 0 once the kubelet has asked for the driver):\n"
    "    csireg-registrar --mode=kubelet-registration-probe \\\n"
    "      --kubelet-registration-path=/var/lib/kubelet/plugins/a.example.com/csi.sock\n";

static void make_rows(struct config *c)
{
    const struct flag rows[] = {
        {.name = "csi-address",
         .type = FLAG_STRING,
         .out = &c->csi_address,
         .default_value = "/run/csi/socket",
         .metavar = "PATH",
         .help = "the driver's socket as seen from here",
         .group = "Registration"},
        {.name = "kubelet-registration-path",
         .type = FLAG_STRING,
         .out = &c->registration_path,
         .metavar = "PATH",
         .help = "the driver's socket as the kubelet sees it",
         .required = true},
        {.name = "plugin-registration-path",
         .type = FLAG_STRING,
         .out = &c->registry,
         .default_value = "/registration",
         .metavar = "DIR",
         .help = "directory of the registration socket"},
        {.name = "timeout",
         .type = FLAG_DURATION,
         .out = &c->timeout_ms,
         .default_value = "5s",
         .minimum = 1,
         .maximum = MAX_TIMEOUT,
         .help = "how long one call may take; calls to the driver are repeated"},
        {.name = "mode",
         .type = FLAG_STRING,
         .out = &c->mode,
         .default_value = "registration",
         .choices = "registration|kubelet-registration-probe",
         .metavar = "MODE",
         .help = "registration, or kubelet-registration-probe to tell by the exit code whether the kubelet has asked"},
        {.name = "http-endpoint",
         .type = FLAG_STRING,
         .out = &c->http_text,
         .metavar = "ADDR:PORT",
         .help =
             "serve /healthz there: 200 when the registration socket answers, 404 without one, 500 when it is silent"},
        {.name = "health-port",
         .type = FLAG_INT,
         .out = &c->health_port,
         .minimum = 0,
         .maximum = 65535,
         .help = "older form of --http-endpoint=:PORT"},
        {.name = "connection-timeout",
         .type = FLAG_DURATION,
         .out = &c->connection_timeout,
         .help = "accepted, without effect: the driver is waited for as long as it takes"},
        {.name = "v",
         .type = FLAG_INT,
         .out = &c->verbosity,
         .minimum = 0,
         .maximum = 10,
         .help = "verbosity; from 4 on like --log-level=debug",
         .group = "Logging"},
        {.name = "logtostderr",
         .type = FLAG_BOOL,
         .out = &c->logtostderr,
         .help = "accepted, without effect: lines always go to standard error"},
    };
    memcpy(c->rows, rows, sizeof rows);
    flags_add(&c->flags, c->rows, sizeof rows / sizeof *rows);
    log_flags_init(&c->log);
    c->log.rows[0].group = NULL;
    flags_add(&c->flags, c->log.rows, 2);
}

static const struct flag *row_of(const struct config *c, const char *name)
{
    const struct flag *row = c->rows;
    while (strcmp(row->name, name) != 0) row++;
    return row;
}

static void warn_of_old_flags(const struct config *c)
{
    static const char *const old[] = {"connection-timeout", "logtostderr"};
    for (size_t i = 0; i < 2; i++)
        if (row_of(c, old[i])->given) log_warning("flag --%s is old and has no effect", old[i]);
}

static void apply_log(const struct config *c)
{
    log_flags_apply(&c->log);
    if (c->verbosity >= DEBUG_FROM_V && !c->log.rows[0].given)
        log_set(CSIREG_LOG_DEBUG, strcmp(c->log.format, "json") == 0);
}

static char *beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return need_printf("%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, name);
}

int config_read(struct config *c, int argc, char **argv)
{
    *c = (struct config){0};
    flags_init(&c->flags, "csireg-registrar", summary, examples);
    make_rows(c);
    int code = flags_run(&c->flags, argc, argv);
    if (code >= 0) return code;
    bool http = c->http_text && *c->http_text;
    if (http && c->health_port)
        return flags_complain(&c->flags, "flags --http-endpoint and --health-port exclude each other");
    if (http && !httpd_is_address(c->http_text))
        return flags_complain(&c->flags, "flag --http-endpoint: \"%s\" is not of the form ADDR:PORT", c->http_text);
    apply_log(c);
    warn_of_old_flags(c);
    c->csi_path = unix_path(c->csi_address);
    c->probe_mode = strcmp(c->mode, "registration") != 0;
    c->probe_file = beside(c->registration_path, PROBE_NAME);
    if (http) c->http_endpoint = need_strdup(c->http_text);
    if (c->health_port) c->http_endpoint = need_printf(":%lld", (long long)c->health_port);
    return -1;
}

void config_fini(struct config *c)
{
    free(c->probe_file);
    free(c->http_endpoint);
    flags_free(&c->flags);
}
