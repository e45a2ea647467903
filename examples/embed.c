/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest host. Usage: embed NODE KUBECONFIG REGISTRY; SIGINT or SIGTERM ends it. */
#define _POSIX_C_SOURCE 200809L
#include <csireg/csireg.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>

static int configure(struct csireg_options *o, char **argv, struct csireg_error **error)
{
    int rc = csireg_options_set_string(o, CSIREG_OPTION_NODE_NAME, argv[1], error);
    if (rc == 0) rc = csireg_options_set_string(o, CSIREG_OPTION_KUBECONFIG, argv[2], error);
    if (rc == 0) rc = csireg_options_set_string(o, CSIREG_OPTION_PLUGINS_REGISTRY_DIR, argv[3], error);
    return rc;
}

static void print_events(struct csireg_manager *manager)
{
    struct csireg_event *event;
    while (csireg_manager_next_event(manager, &event) == 1) {
        printf("%s %s %s\n", csireg_event_kind_name(csireg_event_kind(event)), csireg_event_driver(event),
               csireg_error_message(csireg_event_error(event)));
        fflush(stdout);
        csireg_event_free(event);
    }
}

int main(int argc, char **argv)
{
    struct csireg_options *options = NULL;
    struct csireg_manager *manager = NULL;
    struct csireg_error *error = NULL;
    sigset_t signals;

    if (argc != 4) return fprintf(stderr, "usage: %s NODE KUBECONFIG REGISTRY\n", argv[0]), 2;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);

    int rc = csireg_options_new(&options);
    if (rc == 0) rc = configure(options, argv, &error);
    if (rc == 0) rc = csireg_manager_new(options, &manager, &error);
    if (rc == 0) rc = csireg_manager_start(manager, &error);
    if (rc != 0) fprintf(stderr, "%s: %s\n", csireg_code_name(rc), csireg_error_message(error));

    struct pollfd fds[] = {{signalfd(-1, &signals, SFD_CLOEXEC), POLLIN, 0}, {csireg_manager_fd(manager), POLLIN, 0}};
    while (rc == 0 && fds[0].revents == 0 && poll(fds, 2, -1) > 0) print_events(manager);

    csireg_manager_stop(manager);
    print_events(manager);
    csireg_manager_free(manager);
    csireg_options_free(options);
    csireg_error_free(error);
    return rc != 0;
}
