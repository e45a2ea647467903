/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A registry in a temporary directory and a watcher on it, for tests. Nothing sleeps: inotify events are queued before
 * the system call that caused them returns, and the watcher's clock is the fixture's.
 */
#ifndef TEST_REGISTRY_DIR_H
#define TEST_REGISTRY_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "io/watcher.h"

struct registry_dir {
    char top[32];  /* the temporary directory */
    char path[64]; /* <top>/reg, made by the test or the watcher */
    struct cr_watcher_config config;
    struct cr_watcher *watcher;
    struct cr_time now;
    char calls[200000]; /* "seen a.sock\n", "gone a.sock\n", "scan_done\n" since the last expect */
    size_t calls_len;
    int n_seen, n_gone, n_log_warnings;
    char last_log[2048];
    struct cr_identity last_identity;
};

int registry_setup(void **state);    /* a cmocka fixture: top is made, reg is not */
int registry_teardown(void **state); /* frees the watcher, removes everything below top */

void registry_make(struct registry_dir *r);  /* reg, 0750 */
void registry_start(struct registry_dir *r); /* a watcher as config says, not run yet */
void registry_run(struct registry_dir *r);   /* at the current time */
void registry_after(struct registry_dir *r, int64_t ms);
void registry_watch(struct registry_dir *r); /* make, start, run; forgets the calls of the first run */

/* Names are relative to reg; those with a leading slash to top. */
void make_socket(struct registry_dir *r, const char *name);
void make_file(struct registry_dir *r, const char *name);
void make_dir(struct registry_dir *r, const char *name);
void make_link(struct registry_dir *r, const char *target, const char *name);
void move(struct registry_dir *r, const char *from, const char *to);
void remove_file(struct registry_dir *r, const char *name);
void remove_dir(struct registry_dir *r, const char *name);
const char *full_path(struct registry_dir *r, const char *name); /* good until four more calls */

void registry_expect(struct registry_dir *r, const char *calls); /* exactly these since the last time, lines sorted */
enum cr_watcher_mode registry_mode(struct registry_dir *r);
bool registry_warns(struct registry_dir *r, const char *words); /* some warning of the status contains the words */
size_t registry_warnings(struct registry_dir *r);

#endif
