/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that breaks the rules of the public interface, as far as they promise an answer. Usage: host ATTACK DIRECTORY.
 * Build: cc -Iinclude -g test/attacks/host.c build/libcsireg.so -Wl,-rpath,build -pthread -o host
 */
#define _GNU_SOURCE
#include <csireg/csireg.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *directory;
static int broken;

#define EXPECT(truth) ((truth) ? (void)0 : (void)(broken = 1, printf("BROKE line %d: %s\n", __LINE__, #truth)))

static struct csireg_options *options(int local)
{
    struct csireg_options *o = NULL;
    EXPECT(csireg_options_new(&o) == 0);
    EXPECT(csireg_options_set_string(o, CSIREG_OPTION_NODE_NAME, "n1", NULL) == 0);
    if (local) EXPECT(csireg_options_set_bool(o, CSIREG_OPTION_LOCAL_ONLY, 1, NULL) == 0);
    return o;
}

static struct csireg_manager *manager(const char *registry)
{
    struct csireg_options *o = options(1);
    struct csireg_manager *m = NULL;
    struct csireg_error *e = NULL;
    if (registry) csireg_options_set_string(o, CSIREG_OPTION_PLUGINS_REGISTRY_DIR, registry, NULL);
    EXPECT(csireg_manager_new(o, &m, &e) == 0);
    csireg_options_free(o);
    csireg_error_free(e);
    return m;
}

static int count_dir(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static void arguments(void)
{
    struct csireg_error *e = NULL;
    struct csireg_manager *m = NULL;
    struct csireg_driver *d = NULL;
    char *text = NULL;
    enum csireg_exhausted_result r;
    EXPECT(csireg_options_new(NULL) == CSIREG_ERR_INVALID);
    EXPECT(csireg_manager_new(NULL, &m, &e) == CSIREG_ERR_INVALID);
    csireg_error_free(e), e = NULL;
    struct csireg_options *o = options(1);
    EXPECT(csireg_manager_new(o, NULL, NULL) == CSIREG_ERR_INVALID);
    for (int i = -3; i < 60; i++) {
        enum csireg_option k = (enum csireg_option)i;
        const char *bad[] = {NULL, "\xff", ""};
        csireg_options_set_string(o, k, "\xff\xfe", NULL);
        csireg_options_set_int(o, k, INT64_MIN, NULL);
        csireg_options_set_int(o, k, INT64_MAX, NULL);
        csireg_options_set_strings(o, k, NULL, SIZE_MAX, NULL);
        csireg_options_set_strings(o, k, NULL, 3, NULL);
        csireg_options_set_strings(o, k, bad, 3, NULL);
        EXPECT(csireg_options_set_string(NULL, k, "x", NULL) == CSIREG_ERR_INVALID);
    }
    csireg_options_free(o);
    EXPECT(csireg_option_info(SIZE_MAX) == NULL);
    EXPECT(csireg_manager_start(NULL, NULL) == CSIREG_ERR_INVALID && csireg_manager_stop(NULL) == CSIREG_ERR_INVALID);
    EXPECT(csireg_manager_fd(NULL) < 0 && csireg_manager_next_event(NULL, NULL) == CSIREG_ERR_INVALID);
    csireg_manager_free(NULL), csireg_event_free(NULL), csireg_driver_free(NULL), csireg_metrics_free(NULL);
    EXPECT(csireg_metrics_get(NULL, 0) == NULL && strcmp(csireg_error_message(NULL), "") == 0);
    m = manager(NULL);
    EXPECT(csireg_manager_lookup(m, "a", &d) == CSIREG_ERR_STATE);
    EXPECT(csireg_manager_status_json(m, &text) == CSIREG_ERR_STATE);
    EXPECT(csireg_manager_socket_seen(m, "/x", NULL) == CSIREG_ERR_STATE);
    EXPECT(csireg_manager_start(m, NULL) == 0);
    EXPECT(csireg_manager_start(m, NULL) == CSIREG_ERR_STATE);
    char *longer = malloc(5001);
    memset(longer, '/', 5000), longer[5000] = 0;
    const char *paths[] = {NULL, "", "relative", longer};
    for (int i = 0; i < 4; i++) {
        EXPECT(csireg_manager_socket_seen(m, paths[i], NULL) == CSIREG_ERR_INVALID);
        EXPECT(csireg_manager_socket_gone(m, paths[i], NULL) == CSIREG_ERR_INVALID);
    }
    const char *versions[65] = {"1.0.0"};
    EXPECT(csireg_manager_driver_register(m, NULL, "/x", versions, 1, NULL) == CSIREG_ERR_INVALID);
    EXPECT(csireg_manager_driver_register(m, "a", NULL, versions, 1, NULL) == CSIREG_ERR_INVALID);
    EXPECT(csireg_manager_driver_register(m, "a", "/x", NULL, 1, NULL) == CSIREG_ERR_INVALID);
    EXPECT(csireg_manager_driver_register(m, "a", "/x", versions, SIZE_MAX, NULL) == CSIREG_ERR_INVALID);
    EXPECT(csireg_manager_driver_register(m, "a", "/x", versions, 2, NULL) == CSIREG_ERR_INVALID);
    EXPECT(csireg_manager_driver_register(m, "\xff", "/x", versions, 1, NULL) == CSIREG_ERR_INVALID);
    EXPECT(csireg_manager_lookup(m, NULL, &d) == CSIREG_ERR_INVALID && csireg_manager_lookup(m, "a", NULL) != 0);
    EXPECT(csireg_manager_lookup(m, longer, &d) == CSIREG_ERR_NOT_REGISTERED);
    EXPECT(csireg_manager_wait_initial(m, -1) == CSIREG_ERR_INVALID && csireg_manager_wait_initial(m, INT64_MAX) == 0);
    EXPECT(csireg_manager_retry(m, longer, NULL) == CSIREG_ERR_INVALID && csireg_manager_retry(m, NULL, NULL) == 0);
    EXPECT(csireg_manager_plugin_result(m, 0, 1, NULL, NULL) == CSIREG_ERR_INVALID);
    EXPECT(csireg_manager_plugin_result(m, UINT64_MAX, 0, longer, NULL) == 0);
    EXPECT(csireg_manager_exhausted(m, "a", -5, &r) == CSIREG_ERR_INVALID);
    EXPECT(csireg_manager_exhausted(m, "a", INT64_MAX, &r) == CSIREG_ERR_NOT_REGISTERED);
    EXPECT(csireg_manager_status_json(m, NULL) == CSIREG_ERR_INVALID);
    EXPECT(csireg_manager_metrics(m, NULL) == CSIREG_ERR_INVALID);
    free(longer);
    EXPECT(csireg_manager_stop(m) == 0 && csireg_manager_stop(m) == 0);
    EXPECT(csireg_manager_start(m, NULL) == CSIREG_ERR_STATE);
    EXPECT(csireg_manager_status_json(m, &text) == 0);
    free(text);
    csireg_manager_free(m);
}

static void unread_events(void)
{
    struct csireg_manager *m = manager(NULL);
    const char *v[] = {"1.0.0"};
    int limit = 0, ok = 0;
    EXPECT(csireg_manager_start(m, NULL) == 0);
    for (int i = 0; i < 300000; i++) {
        char name[40];
        snprintf(name, sizeof name, "d%d.example.com", i);
        int rc = csireg_manager_driver_register(m, name, "/nowhere/x", v, 1, NULL);
        limit += rc == CSIREG_ERR_LIMIT, ok += rc == 0;
        EXPECT(rc == 0 || rc == CSIREG_ERR_LIMIT);
        if (i % 2) csireg_manager_driver_deregister(m, name, "/nowhere/x", NULL);
    }
    char *text = NULL;
    EXPECT(csireg_manager_status_json(m, &text) == 0);
    printf("ok %d limit %d status %zu bytes\n", ok, limit, strlen(text));
    free(text);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    csireg_manager_stop(m);
    clock_gettime(CLOCK_MONOTONIC, &b);
    struct csireg_event *e;
    int n = 0;
    enum csireg_event_kind last = 0;
    uint64_t generation = 0;
    while (csireg_manager_next_event(m, &e) == 1) {
        n++, last = csireg_event_kind(e);
        EXPECT(csireg_event_generation(e) > generation);
        generation = csireg_event_generation(e);
        csireg_event_free(e);
    }
    printf("%d events, stop %.2f s\n", n, (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
    EXPECT(n <= 4097 && last == CSIREG_EVENT_STOPPED);
    struct pollfd p = {csireg_manager_fd(m), POLLIN, 0};
    EXPECT(poll(&p, 1, 0) == 0);
    csireg_manager_free(m);
}

static struct csireg_manager *from_log;
static atomic_int lines, refused;
static void log_calls(void *user, const struct csireg_log_record *r)
{
    (void)user, (void)r;
    struct csireg_event *e;
    char *text = NULL;
    lines++;
    if (!from_log) return;
    refused += csireg_manager_stop(from_log) == CSIREG_ERR_STATE;
    refused += csireg_manager_next_event(from_log, &e) == CSIREG_ERR_STATE;
    refused += csireg_manager_status_json(from_log, &text) == CSIREG_ERR_STATE;
    refused += csireg_manager_wait_initial(from_log, 1000) == CSIREG_ERR_STATE;
    refused += csireg_manager_retry(from_log, NULL, NULL) == CSIREG_ERR_STATE;
    csireg_manager_free(from_log);
}

static void log_callback(void)
{
    struct csireg_options *o = options(1);
    EXPECT(csireg_options_set_log(o, CSIREG_LOG_DEBUG, log_calls, NULL, NULL) == 0);
    EXPECT(csireg_options_set_log(o, (enum csireg_log_level)99, log_calls, NULL, NULL) == CSIREG_ERR_INVALID);
    csireg_options_set_string(o, CSIREG_OPTION_PLUGINS_REGISTRY_DIR, directory, NULL);
    EXPECT(csireg_manager_new(o, &from_log, NULL) == 0);
    csireg_options_free(o);
    EXPECT(csireg_manager_start(from_log, NULL) == 0);
    EXPECT(csireg_manager_wait_initial(from_log, 30000) == 0);
    csireg_manager_stop(from_log);
    printf("%d lines, %d refused calls\n", lines, refused);
    EXPECT(refused == 5 * lines);
    csireg_manager_free(from_log);
}

static void forks(void)
{
    struct csireg_manager *m = manager(directory);
    EXPECT(csireg_manager_start(m, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            struct csireg_event *e;
            char *text;
            int ok = csireg_manager_stop(m) == CSIREG_ERR_FORKED && csireg_manager_fd(m) == CSIREG_ERR_FORKED &&
                     csireg_manager_next_event(m, &e) == CSIREG_ERR_FORKED &&
                     csireg_manager_status_json(m, &text) == CSIREG_ERR_FORKED &&
                     csireg_manager_retry(m, NULL, NULL) == CSIREG_ERR_FORKED &&
                     csireg_manager_wait_initial(m, 5) == CSIREG_ERR_FORKED;
            csireg_manager_free(m);
            _exit(ok ? 0 : 9);
        }
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT(status == 0);
    }
    EXPECT(csireg_manager_wait_initial(m, 20000) == 0);
    csireg_manager_free(m);
}

static void many_managers(void)
{
    struct csireg_manager *m[40];
    int fds = count_dir("/proc/self/fd"), threads = count_dir("/proc/self/task");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++) m[i] = manager(directory), EXPECT(csireg_manager_start(m[i], NULL) == 0);
        for (int i = 0; i < 40; i++) EXPECT(csireg_manager_wait_initial(m[i], 60000) == 0);
        for (int i = 0; i < 40; i++) csireg_manager_free(m[i]);
        printf("fds %d -> %d, threads %d -> %d\n", fds, count_dir("/proc/self/fd"), threads,
               count_dir("/proc/self/task"));
    }
    for (int i = 0; i < 300; i++) {
        struct csireg_manager *one = manager(directory);
        if (i % 3) csireg_manager_start(one, NULL);
        csireg_manager_free(one);
    }
    EXPECT(count_dir("/proc/self/fd") <= fds + 6);
}

static struct csireg_manager *shared;
static atomic_int over;
static void *storm(void *arg)
{
    unsigned seed = (unsigned)(size_t)arg;
    const char *v[] = {"1.0.0", "garbage"};
    char name[64];
    while (!over) {
        struct csireg_driver *d = NULL;
        struct csireg_event *e = NULL;
        struct csireg_metrics *x = NULL;
        enum csireg_exhausted_result r;
        char *text = NULL;
        snprintf(name, sizeof name, "d%d.example.com", rand_r(&seed) % 20);
        switch (rand_r(&seed) % 10) {
        case 0:
            csireg_manager_driver_register(shared, name, "/nowhere", v, 2, NULL);
            break;
        case 1:
            csireg_manager_driver_deregister(shared, name, "/nowhere", NULL);
            break;
        case 2:
            csireg_manager_lookup(shared, name, &d), csireg_driver_free(d);
            break;
        case 3:
            csireg_manager_status_json(shared, &text), free(text);
            break;
        case 4:
            csireg_manager_next_event(shared, &e), csireg_event_free(e);
            break;
        case 5:
            csireg_manager_metrics(shared, &x), csireg_metrics_free(x);
            break;
        case 6:
            csireg_manager_exhausted(shared, name, 3, &r);
            break;
        case 7:
            csireg_manager_retry(shared, rand_r(&seed) % 2 ? name : NULL, NULL);
            break;
        case 8:
            csireg_manager_socket_seen(shared, "/etc/passwd", NULL);
            break;
        default:
            csireg_manager_wait_initial(shared, 1);
            break;
        }
    }
    csireg_manager_stop(shared);
    return NULL;
}

static void threads(void)
{
    for (int round = 0; round < 6; round++) {
        pthread_t t[12];
        shared = manager(directory);
        over = 0;
        for (int i = 0; i < 12; i++) pthread_create(&t[i], NULL, storm, (void *)(size_t)(i + 1));
        csireg_manager_start(shared, NULL);
        poll(NULL, 0, 1000);
        if (round % 2) csireg_manager_stop(shared);
        over = 1;
        for (int i = 0; i < 12; i++) pthread_join(t[i], NULL);
        csireg_manager_free(shared);
    }
}

static void signals_and_umask(void)
{
    signal(SIGPIPE, SIG_DFL);
    mode_t mask = umask(0137);
    for (int fd = 3; fd < 200; fd++) { /* what the caller left open is not the library's */
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
    struct csireg_manager *m = manager(directory);
    EXPECT(csireg_manager_start(m, NULL) == 0);
    EXPECT(csireg_manager_wait_initial(m, 30000) == 0);
    struct sigaction now;
    sigaction(SIGPIPE, NULL, &now);
    EXPECT(now.sa_handler == SIG_DFL);
    for (int fd = 3; fd < 200; fd++) {
        int flags = fcntl(fd, F_GETFD);
        EXPECT(flags < 0 || (flags & FD_CLOEXEC));
    }
    kill(getpid(), SIGWINCH);
    csireg_manager_free(m);
    EXPECT(umask(mask) == 0137);
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"arguments", arguments},
               {"unread_events", unread_events},
               {"log_callback", log_callback},
               {"forks", forks},
               {"many_managers", many_managers},
               {"threads", threads},
               {"signals_and_umask", signals_and_umask}};
    directory = argv[2];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(argv[1], all[i].name) == 0 || strcmp(argv[1], "all") == 0) {
            printf("%s\n", all[i].name), fflush(stdout);
            all[i].run();
        }
    puts(broken ? "BROKE" : "held");
    return broken;
}
