/* SPDX-License-Identifier: Apache-2.0 */
/* csireg-registrar: registers a CSI driver with the kubelet, in node-driver-registrar's place. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/httpd.h"
#include "common/stop.h"
#include "registrar/registration.h"
#include "registrar/wait.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1 };

/* NULL until the socket is served; the HTTP thread is stopped before it is freed. */
static _Atomic(struct registration *) serving;

static void on_http(void *user, const struct httpd_request *request, struct httpd_response *response)
{
    (void)user;
    if (strcmp(request->path, "/healthz") != 0) return httpd_text(response, 404, "see /healthz\n");
    char *text;
    int status = registration_health(atomic_load(&serving), &text);
    if (status != 200) log_debug("/healthz: %d %s", status, text);
    char *body = need_printf("%s\n", text);
    httpd_text(response, status, body);
    free(body);
    free(text);
}

/* False: it should be served and cannot be. */
static bool start_http(const struct config *config, struct httpd **out)
{
    char *error = NULL;
    if (!config->http_endpoint) return true;
    *out = httpd_start(config->http_endpoint, on_http, NULL, &error);
    if (*out)
        log_info("/healthz is served on %s", httpd_address(*out));
    else
        log_error("%s", error);
    free(error);
    return *out != NULL;
}

static int serve(const struct config *config, struct gloop *loop, const char *driver)
{
    struct registration *registration = registration_start(config, driver, loop);
    if (!registration) return EXIT_FAILED;
    atomic_store(&serving, registration);
    return stop_wait();
}

static int run(const struct config *config, int stop_fd)
{
    struct httpd *httpd = NULL;
    char *driver = NULL;
    int code = EXIT_FAILED;
    struct gloop *loop = gloop_new();
    probe_file_remove(config);
    if (start_http(config, &httpd)) {
        enum wait_result result = wait_for_driver(config, stop_fd, &driver);
        if (result == WAIT_READY) code = serve(config, loop, driver);
        if (result == WAIT_STOPPED) code = stop_code();
    }
    httpd_stop(httpd);
    registration_stop(atomic_load(&serving));
    free(driver);
    gloop_free(loop);
    log_info("stopped");
    return code;
}

static int probe(const struct config *config)
{
    if (probe_file_exists(config)) return EXIT_OK;
    log_error("the kubelet has not asked for the driver: there is no file %s", config->probe_file);
    return EXIT_FAILED;
}

static int start(const struct config *config)
{
    if (config->probe_mode) return probe(config);
    int stop_fd = stop_open();
    if (stop_fd >= 0) return run(config, stop_fd);
    log_error("cannot watch for signals: %s", strerror(errno));
    return EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct config config;
    int code = config_read(&config, argc, argv);
    if (code < 0) code = start(&config);
    config_fini(&config);
    return code;
}
