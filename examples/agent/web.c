/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/web.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/metrics.h"
#include "agent/page.h"
#include "common/log.h"

static void take(struct httpd_response *response, const char *content_type, char *body)
{
    response->status = 200;
    response->content_type = content_type;
    response->body = body;
    response->body_len = strlen(body);
}

static void serve_healthz(struct csireg_manager *manager, struct httpd_response *response)
{
    (void)manager;
    httpd_text(response, 200, "ok\n");
}

static void serve_readyz(struct csireg_manager *manager, struct httpd_response *response)
{
    if (csireg_manager_wait_initial(manager, 0) == CSIREG_OK)
        httpd_text(response, 200, "ok\n");
    else
        httpd_text(response, 503, "the sockets found at the start were not all tried yet\n");
}

static void serve_status(struct csireg_manager *manager, struct httpd_response *response)
{
    char *status = NULL;
    int rc = csireg_manager_status_json(manager, &status);
    if (rc == CSIREG_OK)
        take(response, "application/json", status);
    else
        httpd_text(response, 500, csireg_code_name((enum csireg_code)rc));
}

static void serve_metrics(struct csireg_manager *manager, struct httpd_response *response)
{
    struct csireg_metrics *metrics = NULL;
    int rc = csireg_manager_metrics(manager, &metrics);
    char *text = rc == CSIREG_OK ? metrics_text(metrics) : NULL;
    csireg_metrics_free(metrics);
    if (text)
        take(response, METRICS_CONTENT_TYPE, text);
    else
        httpd_text(response, 500, csireg_code_name(rc ? (enum csireg_code)rc : CSIREG_ERR_NOMEM));
}

static void serve_page(struct csireg_manager *manager, struct httpd_response *response)
{
    char *status = NULL, *page = NULL;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int rc = csireg_manager_status_json(manager, &status);
    if (rc == CSIREG_OK) page = page_html(status, now);
    free(status);
    if (page)
        take(response, "text/html; charset=utf-8", page);
    else
        httpd_text(response, 500, csireg_code_name(rc ? (enum csireg_code)rc : CSIREG_ERR_NOMEM));
}

static const struct {
    const char *path;
    void (*serve)(struct csireg_manager *manager, struct httpd_response *response);
} routes[] = {{"/healthz", serve_healthz},
              {"/readyz", serve_readyz},
              {"/status", serve_status},
              {"/metrics", serve_metrics},
              {"/", serve_page}};

static void handle(void *user, const struct httpd_request *request, struct httpd_response *response)
{
    if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0) {
        httpd_text(response, 405, "only GET\n");
        return;
    }
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(request->path, routes[i].path) == 0) {
            routes[i].serve(user, response);
            return;
        }
    }
    httpd_text(response, 404, "there are /, /status, /metrics, /healthz and /readyz\n");
}

struct httpd *web_start(const char *address, struct csireg_manager *manager)
{
    char *error = NULL;
    struct httpd *httpd = httpd_start(address, handle, manager, &error);
    if (httpd) {
        printf("http %s\n", httpd_address(httpd));
        fflush(stdout);
    } else {
        log_error("%s", error);
    }
    free(error);
    return httpd;
}
