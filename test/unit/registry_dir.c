/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/registry_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- what the watcher says ---- */

static const char *relative(const struct registry_dir *r, const char *path)
{
    size_t len = strlen(r->path);
    return strncmp(path, r->path, len) == 0 && path[len] == '/' ? path + len + 1 : path;
}

static void record(struct registry_dir *r, const char *what, const char *path)
{
    int n = snprintf(r->calls + r->calls_len, sizeof r->calls - r->calls_len, "%s%s\n", what, relative(r, path));
    r->calls_len += (size_t)n;
    assert_true(r->calls_len < sizeof r->calls);
}

static void on_seen(void *user, const char *path, const struct cr_identity *identity)
{
    struct registry_dir *r = user;
    r->n_seen++;
    r->last_identity = *identity;
    record(r, "seen ", path);
}

static void on_gone(void *user, const char *path)
{
    struct registry_dir *r = user;
    r->n_gone++;
    record(r, "gone ", path);
}

static void on_scan_done(void *user) { record(user, "scan_done", ""); }

static void on_log(void *user, enum csireg_log_level level, const char *path, const char *text)
{
    struct registry_dir *r = user;
    assert_non_null(path);
    if (level <= CSIREG_LOG_WARNING) r->n_log_warnings++;
    snprintf(r->last_log, sizeof r->last_log, "%s", text);
}

/* ---- life ---- */

int registry_setup(void **state)
{
    struct registry_dir *r = calloc(1, sizeof *r);
    if (!r) return -1;
    snprintf(r->top, sizeof r->top, "/tmp/csireg-watch-XXXXXX");
    if (!mkdtemp(r->top)) {
        free(r);
        return -1;
    }
    snprintf(r->path, sizeof r->path, "%s/reg", r->top);
    r->now = (struct cr_time){.mono_ms = 1000, .wall_ms = 1700000000000};
    r->config = (struct cr_watcher_config){.path = r->path, .create = true, .rescan_period_ms = 10000};
    *state = r;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

int registry_teardown(void **state)
{
    struct registry_dir *r = *state;
    cr_watcher_free(r->watcher);
    int rc = nftw(r->top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(r);
    return rc;
}

void registry_make(struct registry_dir *r) { assert_int_equal(mkdir(r->path, 0750), 0); }

void registry_start(struct registry_dir *r)
{
    const struct cr_watcher_handlers handlers = {on_seen, on_gone, on_scan_done, on_log, r};
    struct csireg_error *error = NULL;
    assert_int_equal(cr_watcher_new(&r->watcher, &r->config, &handlers, &error), 0);
    assert_null(error);
    assert_int_equal(r->calls_len, 0);
}

void registry_run(struct registry_dir *r) { cr_watcher_run(r->watcher, r->now); }

void registry_after(struct registry_dir *r, int64_t ms)
{
    r->now.mono_ms += ms;
    r->now.wall_ms += ms;
    registry_run(r);
}

void registry_watch(struct registry_dir *r)
{
    registry_make(r);
    registry_start(r);
    registry_run(r);
    registry_expect(r, "scan_done\n");
}

/* ---- files ---- */

const char *full_path(struct registry_dir *r, const char *name)
{
    static char paths[4][8192];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s%s%s", name[0] == '/' ? r->top : r->path, name[0] == '/' ? "" : "/", name);
    return path;
}

/* The parent's descriptor, so that a path may be longer than the system allows; *out_name is its last part. */
static int open_parent(const char *path, const char **out_name)
{
    char parent[8192];
    *out_name = strrchr(path, '/') + 1;
    snprintf(parent, sizeof parent, "%.*s", (int)(*out_name - path), path);
    int fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

void make_socket(struct registry_dir *r, const char *name)
{
    int dir = open_parent(full_path(r, name), &name);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", dir, name);
    assert_true(n < (int)sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    close(dir);
}

void make_file(struct registry_dir *r, const char *name)
{
    int fd = open(full_path(r, name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

void make_dir(struct registry_dir *r, const char *name) { assert_int_equal(mkdir(full_path(r, name), 0750), 0); }

void make_link(struct registry_dir *r, const char *target, const char *name)
{
    assert_int_equal(symlink(target, full_path(r, name)), 0);
}

void move(struct registry_dir *r, const char *from, const char *to)
{
    assert_int_equal(rename(full_path(r, from), full_path(r, to)), 0);
}

void remove_file(struct registry_dir *r, const char *name)
{
    int dir = open_parent(full_path(r, name), &name);
    assert_int_equal(unlinkat(dir, name, 0), 0);
    close(dir);
}

void remove_dir(struct registry_dir *r, const char *name) { assert_int_equal(rmdir(full_path(r, name)), 0); }

/* ---- questions ---- */

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void sort_lines(char *text, char *out, size_t size)
{
    char *lines[4096] = {0}, *rest = text;
    size_t n = 0;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) lines[n++] = line;
    qsort(lines, n, sizeof *lines, by_text);
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < n; i++) len += (size_t)snprintf(out + len, size - len, "%s\n", lines[i]);
}

void registry_expect(struct registry_dir *r, const char *calls)
{
    static char copy[sizeof r->calls], got[sizeof r->calls], wanted[sizeof r->calls];
    sort_lines(r->calls, got, sizeof got);
    snprintf(copy, sizeof copy, "%s", calls);
    sort_lines(copy, wanted, sizeof wanted);
    assert_string_equal(got, wanted);
    r->calls[0] = '\0';
    r->calls_len = 0;
    r->n_seen = r->n_gone = 0;
}

enum cr_watcher_mode registry_mode(struct registry_dir *r)
{
    struct cr_watcher_status status;
    cr_watcher_status(r->watcher, &status);
    return status.mode;
}

bool registry_warns(struct registry_dir *r, const char *words)
{
    struct cr_watcher_status status;
    cr_watcher_status(r->watcher, &status);
    for (size_t i = 0; status.warnings[i]; i++)
        if (strstr(status.warnings[i], words)) return true;
    return false;
}

size_t registry_warnings(struct registry_dir *r)
{
    struct cr_watcher_status status;
    size_t n = 0;
    cr_watcher_status(r->watcher, &status);
    while (status.warnings[n]) n++;
    return n;
}
