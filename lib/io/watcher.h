/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches a registry tree for sockets: inotify events are hints, stat decides, a rescan heals what was lost.
 * Engine thread only. Rules: spec "Discovery" (which files count, events and scans, identity).
 */
#ifndef CR_IO_WATCHER_H
#define CR_IO_WATCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/messages.h"
#include "csireg/log.h"

struct cr_watcher;

struct cr_watcher_config {
    const char *path; /* the registry as given; every path that is reported starts with what it resolves to */
    bool create;      /* make it (0750, with parents) when missing; else wait for it */
    bool require_private;
    int64_t rescan_period_ms;
};

struct cr_watcher_handlers {
    void (*seen)(void *user, const char *path, const struct cr_identity *identity); /* new, or another identity */
    void (*gone)(void *user, const char *path);
    void (*scan_done)(void *user); /* once: the first scan is over */
    void (*log)(void *user, enum csireg_log_level level, const char *path, const char *text);
    void *user;
};

enum cr_watcher_mode { CR_WATCHER_WAITING = 1, CR_WATCHER_INOTIFY, CR_WATCHER_POLLING };

struct cr_watcher_status {
    const char *path, *resolved; /* resolved: "" while waiting */
    enum cr_watcher_mode mode;
    size_t sockets;
    int64_t last_event_wall_ms; /* when a socket came, changed or went; 0: none did yet */
    bool scan_done;
    uint64_t scans;              /* of the whole registry, so far; no change of the generation */
    const char *const *warnings; /* NULL-terminated; valid until the next run */
    uint64_t generation;         /* rises when any of this changes */
};

/* Never fails because of the registry's state; only for lack of memory or a path past CR_MAX_PATH. A relative path
 * starts at the working directory of now. No handler is called. */
int cr_watcher_new(struct cr_watcher **out, const struct cr_watcher_config *config,
                   const struct cr_watcher_handlers *handlers, struct csireg_error **error);
void cr_watcher_free(struct cr_watcher *watcher); /* calls no handler */

int cr_watcher_fd(const struct cr_watcher *watcher);           /* -1 while there is none; may change after each run */
int64_t cr_watcher_deadline(const struct cr_watcher *watcher); /* monotonic ms when run wants to be called anyway */
/* Drains events, scans what is due, calls handlers; they must not call back into the watcher. */
void cr_watcher_run(struct cr_watcher *watcher, struct cr_time now);
void cr_watcher_status(const struct cr_watcher *watcher, struct cr_watcher_status *out);

/* Looks at one path (stat follows links): 0 and the identity of a socket, else an errno (ENOTSOCK for other files).
 * The generation is left at 0. */
int cr_socket_identity(const char *path, struct cr_identity *out);

#endif
