/* SPDX-License-Identifier: Apache-2.0 */
#include "io/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/watcher_internal.h"

#define POLL_PERIOD_MS 1000 /* without inotify, and while the registry is waited for */

/* ---- life ---- */

static char *make_absolute(const char *path)
{
    char directory[PATH_MAX], joined[PATH_MAX];
    if (path[0] == '/' || !getcwd(directory, sizeof directory)) return cr_strdup(path);
    int n = snprintf(joined, sizeof joined, "%s/%s", directory, path);
    return cr_strdup(n < (int)sizeof joined ? joined : path);
}

int cr_watcher_new(struct cr_watcher **out, const struct cr_watcher_config *config,
                   const struct cr_watcher_handlers *handlers, struct csireg_error **error)
{
    if (strlen(config->path) > CR_MAX_PATH)
        return cr_error_put(
            error, cr_error_new(CSIREG_ERR_LIMIT, "the path of the registry is longer than %d bytes", CR_MAX_PATH));
    struct cr_watcher *w = CR_NEW(struct cr_watcher);
    if (!w) return cr_error_put(error, cr_error_oom());
    w->create = config->create;
    w->require_private = config->require_private;
    w->rescan_period_ms = config->rescan_period_ms;
    w->handlers = *handlers;
    w->inotify = (struct cr_watcher_inotify){inotify_init1, inotify_add_watch};
    cr_list_init(&w->dirty_dirs);
    cr_list_init(&w->dirty_sockets);
    w->fd = -1;
    w->mode = CR_WATCHER_WAITING;
    w->scan_due = true;
    w->path = cr_strdup(config->path);
    w->absolute = make_absolute(config->path);
    if (!w->path || !w->absolute) {
        cr_watcher_free(w);
        return cr_error_put(error, cr_error_oom());
    }
    *out = w;
    return 0;
}

void cr_watcher_free(struct cr_watcher *w)
{
    if (!w) return;
    cr_watcher_notify_close(w);
    cr_watcher_tree_fini(w);
    for (size_t i = 0; i < CR_WARN_COUNT; i++) cr_free(w->warnings[i]);
    cr_free(w->path);
    cr_free(w->absolute);
    cr_free(w);
}

/* ---- the registry itself ---- */

/* mkdir -p: 0 or the first errno. */
static int make_registry(const char *absolute)
{
    char path[CR_MAX_PATH + 1];
    int err = 0;
    snprintf(path, sizeof path, "%s", absolute);
    for (char *slash = path; slash && !err;) {
        slash = strchr(slash + 1, '/');
        if (slash) *slash = '\0';
        if (mkdir(path, 0750) && errno != EEXIST) err = errno;
        if (slash) *slash = '/';
    }
    return err;
}

static int resolve(struct cr_watcher *w, char out[PATH_MAX])
{
    if (realpath(w->absolute, out)) return 0;
    if (errno != ENOENT || !w->create) return errno;
    int err = make_registry(w->absolute);
    if (err) return err;
    return realpath(w->absolute, out) ? 0 : errno;
}

/* Whoever can write to the registry can register drivers. False: not to be watched for that. */
static bool safe_enough(struct cr_watcher *w, unsigned mode)
{
    if (!(mode & (S_IWGRP | S_IWOTH))) return true;
    cr_watcher_warn(w, CR_WARN_UNSAFE, w->absolute,
                    "the registry is writable by %s (mode %04o), and whoever can write there can register drivers%s. "
                    "Remedy: chmod 0750 %s",
                    mode & S_IWOTH ? "everybody" : "its group", mode & 07777,
                    w->require_private ? "; it is not watched, as a private one is required" : "", w->absolute);
    return !w->require_private;
}

static void wait_for_registry(struct cr_watcher *w, int err)
{
    if (err == ENOENT && !w->create)
        cr_watcher_warn(w, CR_WARN_MISSING, w->absolute, "the registry does not exist and is waited for: %s",
                        w->absolute);
    else
        cr_watcher_warn(w, CR_WARN_MISSING, w->absolute,
                        "the registry cannot be made or read (%s), it is tried again every second: %s",
                        strerrordesc_np(err), w->absolute);
}

/* An errno, or 0 and the mode of a directory that can be listed. */
static int open_registry(const char *resolved, unsigned *out_mode)
{
    struct cr_identity identity;
    int fd = open(resolved, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int err = fd < 0 ? errno : cr_file_identity(fd, "", AT_EMPTY_PATH, &identity, out_mode);
    if (fd >= 0) close(fd);
    return err;
}

/* From waiting to watching, if the registry is there or can be made. */
static void arm(struct cr_watcher *w)
{
    char resolved[PATH_MAX];
    unsigned mode = 0;
    int err = resolve(w, resolved);
    if (!err) err = open_registry(resolved, &mode);
    if (err) {
        wait_for_registry(w, err);
        return;
    }
    if (!safe_enough(w, mode)) return;
    if (!cr_watcher_set_root(w, resolved)) return;
    w->generation++;
    cr_watcher_log(w, CSIREG_LOG_INFO, resolved, "watching the registry %s%s%s", resolved,
                   strcmp(resolved, w->path) == 0 ? "" : ", given as ", strcmp(resolved, w->path) == 0 ? "" : w->path);
    cr_watcher_notify_open(w);
}

static void lose(struct cr_watcher *w, const char *what)
{
    cr_watcher_log(w, CSIREG_LOG_WARNING, w->absolute, "the registry %s %s: its %zu sockets count as removed",
                   w->absolute, what, w->n_known);
    cr_watcher_notify_close(w);
    cr_watcher_drop_tree(w);
    w->generation++;
}

/* Is the directory that is watched still what the registry's path leads to, and fit to be watched? */
static void check_registry(struct cr_watcher *w)
{
    struct cr_identity now, *watched = &w->root->identity;
    unsigned mode;
    int err = cr_file_identity(AT_FDCWD, w->absolute, 0, &now, &mode);
    if (err == ENOENT || err == ENOTDIR || err == ELOOP)
        lose(w, "was removed");
    else if (err)
        return; /* tells nothing about the directory; what is watched stays watched */
    else if (w->root->stale || now.dev != watched->dev || now.ino != watched->ino || now.birth_ns != watched->birth_ns)
        lose(w, "was replaced");
    else if (!safe_enough(w, mode))
        lose(w, "is not private any more");
}

/* ---- running ---- */

static bool polling(const struct cr_watcher *w) { return w->root && w->fd < 0; }

static void full_scan(struct cr_watcher *w)
{
    w->scan_due = w->short_of_memory = false;
    w->scans++;
    w->hit = 0;
    if (w->root) check_registry(w);
    if (!w->root)
        arm(w);
    else if (polling(w) && w->now.mono_ms >= w->next_inotify)
        cr_watcher_notify_open(w);
    cr_watcher_mark_all(w);
    cr_watcher_look(w);
    for (unsigned kind = 0; kind < CR_WARN_COUNT; kind++)
        if (kind != CR_WARN_POLLING && !(w->hit & 1u << kind)) cr_watcher_withdraw(w, kind);
}

static void update_mode(struct cr_watcher *w)
{
    enum cr_watcher_mode mode = !w->root ? CR_WATCHER_WAITING : polling(w) ? CR_WATCHER_POLLING : CR_WATCHER_INOTIFY;
    if (mode == CR_WATCHER_INOTIFY && w->mode == CR_WATCHER_POLLING)
        cr_watcher_log(w, CSIREG_LOG_INFO, w->root->path, "inotify is available again, polling ends");
    if (mode != CR_WATCHER_POLLING) cr_watcher_withdraw(w, CR_WARN_POLLING);
    if (mode != w->mode) w->generation++;
    w->mode = mode;
}

static int64_t scan_period(const struct cr_watcher *w)
{
    bool soon = w->mode != CR_WATCHER_INOTIFY || w->short_of_memory;
    return soon && w->rescan_period_ms > POLL_PERIOD_MS ? POLL_PERIOD_MS : w->rescan_period_ms;
}

void cr_watcher_run(struct cr_watcher *w, struct cr_time now)
{
    w->now = now;
    if (w->fd >= 0) cr_watcher_notify_drain(w);
    bool scan = w->scan_due || now.mono_ms >= w->next_scan;
    if (scan)
        full_scan(w);
    else
        cr_watcher_look(w);
    update_mode(w);
    if (scan) w->next_scan = now.mono_ms + scan_period(w);
    if (w->root && !w->scan_done) {
        w->scan_done = true;
        w->generation++;
        w->handlers.scan_done(w->handlers.user);
    }
}

/* ---- questions ---- */

int cr_watcher_fd(const struct cr_watcher *w) { return w->fd; }

int64_t cr_watcher_deadline(const struct cr_watcher *w) { return w->scan_due ? 0 : w->next_scan; }

void cr_watcher_status(const struct cr_watcher *w, struct cr_watcher_status *out)
{
    *out = (struct cr_watcher_status){
        .path = w->path,
        .resolved = w->root ? w->root->path : "",
        .mode = w->mode,
        .sockets = w->n_known,
        .last_event_wall_ms = w->last_event_wall_ms,
        .scan_done = w->scan_done,
        .scans = w->scans,
        .warnings = w->warning_list,
        .generation = w->generation,
    };
}
