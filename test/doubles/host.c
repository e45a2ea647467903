/* SPDX-License-Identifier: Apache-2.0 */
#include "doubles/host.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

int host_setup(void **state)
{
    struct host *h = calloc(1, sizeof *h);
    snprintf(h->dir, sizeof h->dir, "/tmp/csireg-host-XXXXXX");
    if (!mkdtemp(h->dir) || mkdir(host_path(h, "reg"), 0700) || csireg_options_new(&h->options)) return -1;
    csireg_options_set_string(h->options, CSIREG_OPTION_NODE_NAME, "n1", NULL);
    csireg_options_set_bool(h->options, CSIREG_OPTION_LOCAL_ONLY, 1, NULL);
    *state = h;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

int host_teardown(void **state)
{
    struct host *h = *state;
    host_free(h);
    csireg_options_free(h->options);
    for (int i = 0; i < HOST_MAX_DRIVERS; i++) fake_driver_stop(h->drivers[i]);
    gloop_free(h->loop);
    nftw(h->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(h);
    return 0;
}

void host_watch(struct host *h)
{
    assert_int_equal(
        csireg_options_set_string(h->options, CSIREG_OPTION_PLUGINS_REGISTRY_DIR, host_path(h, "reg"), NULL),
        CSIREG_OK);
}

static void check(int rc, struct csireg_error *error)
{
    if (rc != CSIREG_OK) fail_msg("%s", csireg_error_message(error));
}

void host_new(struct host *h)
{
    struct csireg_error *error = NULL;
    check(csireg_manager_new(h->options, &h->manager, &error), error);
}

void host_start(struct host *h)
{
    struct csireg_error *error = NULL;
    if (!h->manager) host_new(h);
    check(csireg_manager_start(h->manager, &error), error);
}

void host_stop(struct host *h)
{
    assert_int_equal(csireg_manager_stop(h->manager), CSIREG_OK);
    csireg_event_free(host_await(h, CSIREG_EVENT_STOPPED));
    assert_false(host_readable(h));
}

void host_free(struct host *h)
{
    csireg_manager_free(h->manager);
    h->manager = NULL;
}

const char *host_path(struct host *h, const char *name)
{
    static char paths[8][128];
    static unsigned n;
    char *path = paths[n++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", h->dir, name);
    return path;
}

static struct gloop *loop(struct host *h)
{
    sigset_t all, old;
    if (h->loop) return h->loop;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    h->loop = gloop_new();
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    assert_non_null(h->loop);
    return h->loop;
}

struct fake_driver *host_driver_with(struct host *h, const char *socket, struct fake_driver_config config)
{
    int i = 0;
    while (h->drivers[i]) assert_true(++i < HOST_MAX_DRIVERS);
    config.path = host_path(h, socket);
    h->drivers[i] = fake_driver_start(loop(h), &config);
    return h->drivers[i];
}

void host_driver_stop(struct host *h, struct fake_driver *d)
{
    for (int i = 0; i < HOST_MAX_DRIVERS; i++)
        if (h->drivers[i] == d) h->drivers[i] = NULL;
    fake_driver_stop(d);
}

struct fake_driver *host_driver(struct host *h, const char *socket, const char *name)
{
    return host_driver_with(h, socket, (struct fake_driver_config){.name = name});
}

struct csireg_event *host_next(struct host *h)
{
    struct pollfd p = {csireg_manager_fd(h->manager), POLLIN, 0};
    struct csireg_event *event = NULL;
    assert_int_equal(poll(&p, 1, -1), 1);
    assert_int_equal(csireg_manager_next_event(h->manager, &event), 1);
    return event;
}

void host_expect(struct host *h, enum csireg_event_kind kind, const char *driver)
{
    struct csireg_event *event = host_next(h);
    if (csireg_event_kind(event) != kind)
        fail_msg("%s instead of %s: %s", csireg_event_kind_name(csireg_event_kind(event)), csireg_event_kind_name(kind),
                 csireg_error_message(csireg_event_error(event)));
    assert_string_equal(csireg_event_driver(event), driver);
    csireg_event_free(event);
}

struct csireg_event *host_await(struct host *h, enum csireg_event_kind kind)
{
    for (;;) {
        struct csireg_event *event = host_next(h);
        if (csireg_event_kind(event) == kind) return event;
        csireg_event_free(event);
    }
}

bool host_readable(struct host *h)
{
    struct pollfd p = {csireg_manager_fd(h->manager), POLLIN, 0};
    return poll(&p, 1, 0) == 1;
}

json_t *host_status(struct host *h)
{
    char *text = NULL;
    json_error_t where;
    expect_code(csireg_manager_status_json(h->manager, &text), CSIREG_OK);
    json_t *root = json_loads(text, 0, &where);
    if (!root) fail_msg("%s: %s", where.text, text);
    free(text);
    return root;
}

const char *json_text(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

void expect_code(int rc, int code)
{
    if (rc != code) fail_msg("%s instead of %s", csireg_code_name(rc), csireg_code_name(code));
}

/* ---- what the process has ---- */

static unsigned count_entries(const char *path, bool (*counts)(int fd))
{
    unsigned n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        int number = e->d_name[0] == '.' ? -1 : (int)strtol(e->d_name, NULL, 10);
        if (number >= 0 && number != dirfd(d) && (!counts || counts(number))) n++;
    }
    closedir(d);
    return n;
}

static bool is_inherited(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    return flags >= 0 && !(flags & FD_CLOEXEC);
}

unsigned count_threads(void) { return count_entries("/proc/self/task", NULL); }
unsigned count_fds(void) { return count_entries("/proc/self/fd", NULL); }
unsigned count_inherited_fds(void) { return count_entries("/proc/self/fd", is_inherited); }
