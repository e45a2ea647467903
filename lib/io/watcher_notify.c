/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "io/watcher_internal.h"

#define RETRY_PERIOD_MS 60000
#define EVENT_BUFFER    16384
#define MAX_READS       64 /* of one run; a stream of events without end must not keep the engine's thread */

#define WATCHED                                                                                                        \
    (IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW)

/* ---- degrading to polling ---- */

/* ENOSPC has nothing to do with disks here, so its usual text would mislead. */
static const char *reason(int err)
{
    switch (err) {
    case ENOSPC:
        return "the limit of watches is used up";
    case EMFILE:
        return "the limit of inotify instances or of open files is used up";
    case ENOSYS:
        return "this kernel has none";
    default:
        return strerrordesc_np(err);
    }
}

static void degrade(struct cr_watcher *w, int err)
{
    cr_watcher_notify_close(w);
    w->next_inotify = w->now.mono_ms + RETRY_PERIOD_MS;
    cr_watcher_warn(w, CR_WARN_POLLING, w->absolute,
                    "inotify is unavailable: %s; the registry is scanned every second instead. Remedy: raise "
                    "fs.inotify.max_user_watches or fs.inotify.max_user_instances (sysctl)",
                    reason(err));
}

void cr_watcher_notify_open(struct cr_watcher *w)
{
    int fd = w->inotify.init(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0)
        degrade(w, errno);
    else
        w->fd = fd;
}

void cr_watcher_notify_close(struct cr_watcher *w)
{
    if (w->fd < 0) return;
    close(w->fd);
    w->fd = -1;
    for (size_t i = 0; i < w->dirs.n; i++) ((struct cr_watcher_dir *)w->dirs.items[i])->wd = -1;
}

/* ---- watches ---- */

static struct cr_watcher_dir *dir_of(const struct cr_watcher *w, int wd)
{
    for (size_t i = 0; i < w->dirs.n; i++) {
        struct cr_watcher_dir *dir = w->dirs.items[i];
        if (dir->wd == wd) return dir;
    }
    return NULL;
}

static bool path_is_at_fault(int err)
{
    return err == ENOENT || err == ENOTDIR || err == ELOOP || err == EACCES || err == ENAMETOOLONG;
}

void cr_watcher_notify_add(struct cr_watcher *w, struct cr_watcher_dir *dir)
{
    if (w->fd < 0) return;
    int wd = w->inotify.add_watch(w->fd, dir->path, WATCHED);
    if (wd < 0) {
        if (!path_is_at_fault(errno)) degrade(w, errno);
        return;
    }
    struct cr_watcher_dir *before = dir_of(w, wd);
    if (before) before->wd = -1;
    dir->wd = wd;
}

void cr_watcher_notify_remove(struct cr_watcher *w, struct cr_watcher_dir *dir)
{
    if (dir->wd >= 0) inotify_rm_watch(w->fd, dir->wd);
    dir->wd = -1;
}

/* ---- events ---- */

static void about_itself(struct cr_watcher *w, struct cr_watcher_dir *dir, uint32_t mask)
{
    if (mask & (IN_DELETE_SELF | IN_UNMOUNT)) dir->stale = true;
    if (mask & IN_IGNORED) dir->wd = -1;
    cr_watcher_mark_dir(w, dir);
}

static void about_entry(struct cr_watcher *w, struct cr_watcher_dir *dir, uint32_t mask, const char *name)
{
    bool removed = mask & (IN_DELETE | IN_MOVED_FROM);
    if (mask & IN_ISDIR) {
        if (removed)
            cr_watcher_hint_dir_removed(w, dir, name);
        else
            cr_watcher_hint_dir(w, dir, name, true);
    } else if (removed) {
        cr_watcher_hint_socket_removed(w, dir, name);
    } else {
        cr_watcher_hint_socket(w, dir, name);
    }
}

static void handle(struct cr_watcher *w, const struct inotify_event *event)
{
    if (event->mask & IN_Q_OVERFLOW) {
        w->scan_due = true;
        return;
    }
    struct cr_watcher_dir *dir = dir_of(w, event->wd);
    if (!dir) return;
    if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED))
        about_itself(w, dir, event->mask);
    else if (event->len)
        about_entry(w, dir, event->mask, event->name);
}

void cr_watcher_notify_drain(struct cr_watcher *w)
{
    _Alignas(struct inotify_event) char buffer[EVENT_BUFFER];
    const ssize_t nearly_full = EVENT_BUFFER - (ssize_t)sizeof(struct inotify_event) - NAME_MAX - 1;
    for (int i = 0; i < MAX_READS; i++) {
        ssize_t n = read(w->fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) degrade(w, errno);
        if (n <= 0) return;
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const void *)(buffer + at);
            at += (ssize_t)(sizeof *event + event->len);
            handle(w, event);
        }
        if (n < nearly_full) return; /* the queue was empty: no second read to learn that */
    }
}
