/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the watcher's files share. Engine thread only.
 *
 * watcher.c         the registry itself: made, waited for, lost, replaced; when to scan; what the status says
 * watcher_tree.c    directories and sockets below it: hints mark them dirty, a look at the disk decides
 * watcher_notify.c  inotify: turns events into hints; polling when there is none
 * watcher_warn.c    warnings and log lines
 * watcher_set.c     a set ordered by path
 *
 * Invariants: a socket is known exactly when its last report was `seen`; a directory in the tree is reached without
 * following a link below the registry; every entry that needs a look is in a dirty list.
 */
#ifndef CR_IO_WATCHER_INTERNAL_H
#define CR_IO_WATCHER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bounds.h"
#include "base/list.h"
#include "io/watcher.h"

/* ---- a set ordered by path: parents come before what is below them ---- */

/* Items are borrowed. The first member of each is its key, `char *path`. */
struct cr_path_set {
    void **items;
    size_t n, cap;
};

void *cr_path_set_find(const struct cr_path_set *set, const char *path); /* NULL: absent */
bool cr_path_set_add(struct cr_path_set *set, void *item);               /* the key must be absent; false: no memory */
void cr_path_set_remove(struct cr_path_set *set, const char *path);
void cr_path_set_fini(struct cr_path_set *set);

/* ---- what is in the tree ---- */

struct cr_watcher_dir {
    char *path; /* key */
    struct cr_list dirty;
    struct cr_identity identity; /* all 0 until it was opened */
    int wd;                      /* -1: not watched */
    int depth;                   /* 0: the registry */
    bool stale; /* deleted since: what is found at the path is another directory, even with this inode */
};

struct cr_watcher_socket {
    char *path; /* key */
    struct cr_list dirty;
    struct cr_watcher_dir *dir;  /* NULL: its directory left the tree */
    struct cr_identity identity; /* as reported */
    uint64_t generation;         /* raised by each removal seen since */
    bool known;                  /* false: a hint that nobody has looked at */
};

enum cr_watcher_warning {
    CR_WARN_MISSING, /* the registry cannot be watched at all */
    CR_WARN_POLLING,
    CR_WARN_UNSAFE,
    CR_WARN_UNREADABLE,
    CR_WARN_SOCKETS,
    CR_WARN_DIRECTORIES,
    CR_WARN_DEPTH,
    CR_WARN_NAME,
    CR_WARN_COUNT
};

/* The system calls that can be unavailable; tests put their own in. */
struct cr_watcher_inotify {
    int (*init)(int flags);
    int (*add_watch)(int fd, const char *path, uint32_t mask);
};

struct cr_watcher {
    /* given */
    char *path;     /* as given, for the status */
    char *absolute; /* the same from the root */
    bool create, require_private;
    int64_t rescan_period_ms;
    struct cr_watcher_handlers handlers;
    struct cr_watcher_inotify inotify;

    /* the tree */
    struct cr_watcher_dir *root; /* NULL: waiting */
    struct cr_path_set dirs, sockets;
    size_t n_known; /* sockets that were reported; the rest of the set are hints */
    struct cr_list dirty_dirs, dirty_sockets;
    uint64_t removals; /* where generations come from */

    /* when to do what */
    struct cr_time now; /* of the current run */
    int fd;             /* -1: no inotify */
    int64_t next_scan, next_inotify;
    bool scan_due;        /* a full scan is wanted at once */
    bool short_of_memory; /* something was left out: scan again soon */

    /* what the status shows */
    enum cr_watcher_mode mode;
    int64_t last_event_wall_ms;
    bool scan_done;
    uint64_t scans, generation;
    char *warnings[CR_WARN_COUNT];
    const char *warning_list[CR_WARN_COUNT + 1];
    unsigned hit;    /* warnings met since the last full scan began, as bits */
    unsigned logged; /* warnings that were logged once */
};

/* ---- watcher_tree.c ---- */

bool cr_watcher_set_root(struct cr_watcher *w, const char *path); /* false: no memory */
void cr_watcher_drop_tree(struct cr_watcher *w);                  /* every socket counts as removed; reports that */
void cr_watcher_mark_all(struct cr_watcher *w);
/* A directory was heard of. again: look at it even when it is known already. */
void cr_watcher_hint_dir(struct cr_watcher *w, const struct cr_watcher_dir *parent, const char *name, bool again);
void cr_watcher_hint_dir_removed(struct cr_watcher *w, const struct cr_watcher_dir *parent, const char *name);
void cr_watcher_hint_socket(struct cr_watcher *w, struct cr_watcher_dir *dir, const char *name);
void cr_watcher_hint_socket_removed(struct cr_watcher *w, const struct cr_watcher_dir *dir, const char *name);
void cr_watcher_mark_dir(struct cr_watcher *w, struct cr_watcher_dir *dir);
void cr_watcher_look(struct cr_watcher *w);      /* scans the dirty directories, then decides the dirty paths */
void cr_watcher_tree_fini(struct cr_watcher *w); /* reports nothing */

/* ---- watcher_notify.c ---- */

void cr_watcher_notify_open(struct cr_watcher *w);
void cr_watcher_notify_close(struct cr_watcher *w);
void cr_watcher_notify_drain(struct cr_watcher *w);
void cr_watcher_notify_add(struct cr_watcher *w, struct cr_watcher_dir *dir); /* leaves dir->wd at -1 when it cannot */
void cr_watcher_notify_remove(struct cr_watcher *w, struct cr_watcher_dir *dir);

/* ---- watcher_warn.c ---- */

/* Says it in the status, and in the log unless that was done before. */
void cr_watcher_warn(struct cr_watcher *w, enum cr_watcher_warning kind, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void cr_watcher_withdraw(struct cr_watcher *w, enum cr_watcher_warning kind);
void cr_watcher_log(struct cr_watcher *w, enum csireg_log_level level, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- identity.c ---- */

/* One statx: 0 or an errno. The generation is left at 0. */
int cr_file_identity(int dirfd, const char *path, int flags, struct cr_identity *out, unsigned *out_mode);

#endif
