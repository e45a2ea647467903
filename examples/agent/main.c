/* SPDX-License-Identifier: Apache-2.0 */
/* csireg-agent: the kubelet's part in CSI registration as a program, on the library's public interface alone. */
#include <csireg/csireg.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "agent/notify.h"
#include "agent/settings.h"
#include "agent/web.h"
#include "common/log.h"
#include "common/stop.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1 };

/* ---- events: the library logs every change itself, so these lines are for whoever debugs the host ---- */

static void log_registered(struct csireg_manager *manager, const struct csireg_event *event, const char *what)
{
    struct csireg_driver *driver = NULL;
    if (csireg_manager_lookup(manager, csireg_event_driver(event), &driver) == CSIREG_OK) {
        log_debug("driver %s %s: %s flow, node id %s, endpoint %s", csireg_driver_name(driver), what,
                  csireg_driver_flow(driver) == CSIREG_FLOW_CONTROLLER ? "controller" : "node",
                  csireg_driver_node_id(driver), csireg_driver_endpoint(driver));
    } else {
        log_debug("driver %s %s", csireg_event_driver(event), what);
    }
    csireg_driver_free(driver);
}

static void log_trouble(const struct csireg_event *event, const char *what)
{
    const char *driver = csireg_event_driver(event), *path = csireg_event_path(event);
    log_debug("%s %s %s: %s", *driver ? "driver" : "socket", *driver ? driver : path, what,
              csireg_error_message(csireg_event_error(event)));
}

/* --plugin-types: this host has no use for such plugins but to show that they arrive. */
static void accept_plugin(struct csireg_manager *manager, const struct csireg_event *event)
{
    log_info("plugin %s of type %s at %s accepted", csireg_event_driver(event), csireg_event_type(event),
             csireg_event_endpoint(event));
    csireg_manager_plugin_result(manager, csireg_event_token(event), 1, "", NULL);
}

/* False after the last event. */
static bool handle_event(struct csireg_manager *manager, const struct csireg_event *event)
{
    switch (csireg_event_kind(event)) {
    case CSIREG_EVENT_REGISTERED:
        log_registered(manager, event, "registered");
        break;
    case CSIREG_EVENT_CHANGED:
        log_registered(manager, event, "changed");
        break;
    case CSIREG_EVENT_UNREGISTERED:
        log_debug("driver %s unregistered", csireg_event_driver(event));
        break;
    case CSIREG_EVENT_FAILED:
        log_trouble(event, "not registered");
        break;
    case CSIREG_EVENT_WARNING:
        log_trouble(event, "warning");
        break;
    case CSIREG_EVENT_PLUGIN:
        accept_plugin(manager, event);
        break;
    case CSIREG_EVENT_PLUGIN_GONE:
        log_info("plugin %s of type %s is gone", csireg_event_driver(event), csireg_event_type(event));
        break;
    case CSIREG_EVENT_STOPPED:
        return false;
    }
    return true;
}

/* Takes what there is. False: the manager has stopped. */
static bool drain(struct csireg_manager *manager)
{
    struct csireg_event *event = NULL;
    bool running = true;
    int rc;
    while ((rc = csireg_manager_next_event(manager, &event)) == 1) {
        running = handle_event(manager, event) && running;
        csireg_event_free(event);
    }
    return running && rc == 0;
}

/* Until a signal; the exit code. */
static int serve(struct csireg_manager *manager, struct notify *notify, int stop_fd)
{
    struct pollfd fds[] = {{.fd = stop_fd, .events = POLLIN}, {.fd = csireg_manager_fd(manager), .events = POLLIN}};
    notify_ready(notify, manager);
    while (fds[0].revents == 0) {
        if (poll(fds, 2, notify_timeout(notify)) < 0 && errno != EINTR) {
            log_error("poll: %s", strerror(errno));
            return EXIT_FAILED;
        }
        if (fds[1].revents && !drain(manager)) {
            log_error("the library stopped by itself");
            return EXIT_FAILED;
        }
        if (fds[1].revents) notify_news(notify);
        notify_run(notify, manager);
    }
    return stop_code();
}

/* ---- life ---- */

static int run(struct csireg_manager *manager, const char *http_endpoint, int stop_fd)
{
    struct csireg_error *error = NULL;
    struct httpd *httpd = NULL;
    struct notify notify;
    int code = EXIT_FAILED;
    notify_open(&notify);
    if (csireg_manager_start(manager, &error) != CSIREG_OK)
        log_error("%s", csireg_error_message(error));
    else if (!*http_endpoint || (httpd = web_start(http_endpoint, manager)) != NULL)
        code = serve(manager, &notify, stop_fd);
    notify_stopping(&notify);
    notify_close(&notify);
    httpd_stop(httpd);
    csireg_manager_stop(manager);
    drain(manager);
    csireg_error_free(error);
    return code;
}

/* What the options say together is checked here: a contradiction is bad usage, an unreadable file a failure. */
static int refuse(const struct settings *settings, int rc, const struct csireg_error *error)
{
    if (rc == CSIREG_ERR_INVALID) return flags_complain(&settings->flags, "%s", csireg_error_message(error));
    log_error("%s", csireg_error_message(error));
    return EXIT_FAILED;
}

static int agent(const struct settings *settings, struct csireg_options *options, int stop_fd)
{
    struct csireg_manager *manager = NULL;
    struct csireg_error *error = NULL;
    int code = settings_options(settings, options);
    if (code >= 0) return code;
    int rc = csireg_manager_new(options, &manager, &error);
    code = rc == CSIREG_OK ? run(manager, settings->http_endpoint, stop_fd) : refuse(settings, rc, error);
    csireg_manager_free(manager);
    csireg_error_free(error);
    return code;
}

int main(int argc, char **argv)
{
    struct settings settings;
    struct csireg_options *options = NULL;
    int stop_fd = stop_open();
    if (stop_fd < 0) {
        log_error("signals cannot be waited for: %s", strerror(errno));
        return EXIT_FAILED;
    }
    int code = settings_parse(&settings, argc, argv);
    if (code < 0) code = csireg_options_new(&options) == CSIREG_OK ? agent(&settings, options, stop_fd) : EXIT_FAILED;
    csireg_options_free(options);
    settings_free(&settings);
    return code;
}
