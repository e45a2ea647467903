/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host to measure, on the public interface alone: any number of managers in one process, each with a node of its own
 * (n0, n1, ...) and as many of the drivers d0, d1, ... in turn, whose sockets it reports itself (the second door).
 *
 * Commands come as lines on standard input, each is answered by one line:
 *
 *   register       reports every socket, returns when every driver is registered  ->  registered COUNT
 *   rounds COUNT   the drivers are refused after GetInfo: reports them anew until that happened COUNT times  ->  rounds
 * COUNT
 */
#include <csireg/csireg.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/flags.h"
#include "common/log.h"
#include "common/stop.h"

static struct {
    const char *registry, *kubeconfig;
    int64_t managers, drivers, gather_ms;
} options;

static struct csireg_manager **managers;
static struct pollfd *fds;
static int64_t registered, rounds;

static void need(int rc, struct csireg_error **error)
{
    if (rc == CSIREG_OK) return;
    log_error("%s", error ? csireg_error_message(*error) : "the library refused");
    exit(1);
}

/* ---- managers ---- */

static struct csireg_manager *start_manager(int64_t number)
{
    struct csireg_options *o = NULL;
    struct csireg_manager *m = NULL;
    struct csireg_error *error = NULL;
    char *node = need_printf("n%lld", (long long)number);
    char *kubeconfig = need_printf("%s/n%lld", options.kubeconfig, (long long)number);
    need(csireg_options_new(&o), NULL);
    need(csireg_options_set_log(o, CSIREG_LOG_ERROR, log_csireg, NULL, &error), &error);
    need(csireg_options_set_string(o, CSIREG_OPTION_NODE_NAME, node, &error), &error);
    if (options.kubeconfig && *options.kubeconfig)
        need(csireg_options_set_string(o, CSIREG_OPTION_KUBECONFIG, kubeconfig, &error), &error);
    else
        need(csireg_options_set_bool(o, CSIREG_OPTION_LOCAL_ONLY, 1, &error), &error);
    need(csireg_options_set_int(o, CSIREG_OPTION_GATHER_WINDOW, options.gather_ms, &error), &error);
    need(csireg_manager_new(o, &m, &error), &error);
    need(csireg_manager_start(m, &error), &error);
    csireg_options_free(o);
    free(kubeconfig);
    free(node);
    return m;
}

static void start_all(void)
{
    managers = need_calloc((size_t)options.managers, sizeof(struct csireg_manager *));
    fds = need_calloc((size_t)options.managers, sizeof *fds);
    for (int64_t i = 0; i < options.managers; i++) {
        managers[i] = start_manager(i);
        fds[i] = (struct pollfd){.fd = csireg_manager_fd(managers[i]), .events = POLLIN};
    }
}

static void stop_all(void)
{
    for (int64_t i = 0; i < options.managers; i++) csireg_manager_stop(managers[i]);
    for (int64_t i = 0; i < options.managers; i++) csireg_manager_free(managers[i]);
    free(managers);
    free(fds);
}

/* ---- events ---- */

static void again(struct csireg_manager *m, const char *path)
{
    rounds++;
    need(csireg_manager_socket_gone(m, path, NULL), NULL);
    need(csireg_manager_socket_seen(m, path, NULL), NULL);
}

static void take_events(struct csireg_manager *m)
{
    struct csireg_event *event = NULL;
    while (csireg_manager_next_event(m, &event) == 1) {
        if (csireg_event_kind(event) == CSIREG_EVENT_REGISTERED) registered++;
        if (csireg_event_kind(event) == CSIREG_EVENT_FAILED) again(m, csireg_event_path(event));
        csireg_event_free(event);
    }
}

static void wait_until(const int64_t *reached, int64_t count)
{
    while (*reached < count) {
        if (poll(fds, (nfds_t)options.managers, -1) < 0 && errno != EINTR) exit(1);
        for (int64_t i = 0; i < options.managers; i++)
            if (fds[i].revents) take_events(managers[i]);
    }
}

/* ---- commands ---- */

static void report_sockets(void)
{
    for (int64_t i = 0; i < options.managers * options.drivers; i++) {
        char *path = need_printf("%s/d%lld.bench.example.com-reg.sock", options.registry, (long long)i);
        need(csireg_manager_socket_seen(managers[i / options.drivers], path, NULL), NULL);
        free(path);
    }
}

static void run_command(const char *line)
{
    static bool reported;
    long long count;
    if (!reported) report_sockets();
    reported = true;
    if (strcmp(line, "register\n") == 0) {
        wait_until(&registered, options.managers * options.drivers);
        printf("registered %lld\n", (long long)registered);
    } else if (sscanf(line, "rounds %lld", &count) == 1) {
        wait_until(&rounds, rounds + count);
        printf("rounds %lld\n", (long long)rounds);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char line[128];
    struct flag rows[] = {
        {.name = "registry",
         .type = FLAG_STRING,
         .out = &options.registry,
         .required = true,
         .help = "where the registration sockets are"},
        {.name = "kubeconfig",
         .type = FLAG_STRING,
         .out = &options.kubeconfig,
         .default_value = "",
         .help = "directory with one file for each node; without it, local only"},
        {.name = "managers",
         .type = FLAG_INT,
         .out = &options.managers,
         .default_value = "1",
         .minimum = 1,
         .maximum = 1000,
         .help = "number of managers"},
        {.name = "gather-window",
         .type = FLAG_DURATION,
         .out = &options.gather_ms,
         .default_value = "50ms",
         .help = "option of the managers"},
        {.name = "drivers",
         .type = FLAG_INT,
         .out = &options.drivers,
         .default_value = "1",
         .minimum = 1,
         .maximum = 1000,
         .help = "of each manager"},
    };
    struct flags flags;
    flags_init(&flags, "host", "A host to measure.", "");
    flags_add(&flags, rows, sizeof rows / sizeof *rows);
    int code = flags_run(&flags, argc, argv);
    if (code < 0 && stop_open() < 0) code = 1;
    if (code < 0) {
        start_all();
        printf("ready\n");
        fflush(stdout);
        while (fgets(line, sizeof line, stdin)) run_command(line);
        stop_all();
        code = 0;
    }
    flags_free(&flags);
    return code;
}
