/* SPDX-License-Identifier: Apache-2.0 */
/* The registry missing, lost, replaced, unsafe; events lost; inotify, descriptors or memory not to be had. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/watcher_internal.h"
#include "unit/registry_dir.h"

static unsigned mode_of(struct registry_dir *r, const char *name)
{
    struct stat st;
    assert_int_equal(stat(full_path(r, name), &st), 0);
    return st.st_mode & 07777;
}

/* ---- a registry that is not there ---- */

static void a_missing_registry_is_made_with_its_parents(void **state)
{
    struct registry_dir *r = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/new/er/est", r->path);
    r->config.path = path;
    mode_t before = umask(022);
    registry_start(r);
    registry_run(r);
    umask(before);
    registry_expect(r, "scan_done\n");
    assert_int_equal(registry_mode(r), CR_WATCHER_INOTIFY);
    assert_int_equal(mode_of(r, "new"), 0750);
    assert_int_equal(mode_of(r, "new/er/est"), 0750);
    make_socket(r, "new/er/est/a.sock");
    registry_run(r);
    registry_expect(r, "seen new/er/est/a.sock\n");
}

static void a_missing_registry_is_waited_for(void **state)
{
    struct registry_dir *r = *state;
    struct cr_watcher_status status;
    r->config.create = false;
    registry_start(r);
    for (int i = 0; i < 3; i++) registry_after(r, 1000);
    registry_expect(r, "");
    cr_watcher_status(r->watcher, &status);
    assert_int_equal(status.mode, CR_WATCHER_WAITING);
    assert_string_equal(status.resolved, "");
    assert_false(status.scan_done);
    assert_true(registry_warns(r, "does not exist"));
    assert_int_equal(r->n_log_warnings, 1);
    assert_int_equal(cr_watcher_deadline(r->watcher), r->now.mono_ms + 1000);

    registry_make(r);
    make_socket(r, "a.sock");
    registry_after(r, 1000);
    registry_expect(r, "seen a.sock\nscan_done\n");
    assert_int_equal(registry_mode(r), CR_WATCHER_INOTIFY);
    assert_int_equal(registry_warnings(r), 0);
}

static void a_registry_that_cannot_be_made_is_tried_again(void **state)
{
    struct registry_dir *r = *state;
    make_file(r, "/reg");
    registry_start(r);
    registry_run(r);
    registry_expect(r, "");
    assert_int_equal(registry_mode(r), CR_WATCHER_WAITING);
    assert_true(registry_warns(r, "cannot be made or read (Not a directory)"));
    remove_file(r, "/reg");
    registry_after(r, 1000);
    registry_expect(r, "scan_done\n");
    assert_int_equal(mode_of(r, "."), 0750);
}

/* ---- a registry that goes ---- */

static void a_deleted_registry_is_made_again(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_socket(r, "a.sock");
    registry_run(r);
    registry_expect(r, "seen a.sock\n");
    remove_file(r, "a.sock");
    remove_dir(r, "/reg");
    registry_run(r);
    registry_expect(r, "gone a.sock\n");
    assert_int_equal(registry_mode(r), CR_WATCHER_INOTIFY);
    make_socket(r, "a.sock");
    registry_run(r);
    registry_expect(r, "seen a.sock\n");
}

static void a_deleted_registry_is_waited_for(void **state)
{
    struct registry_dir *r = *state;
    r->config.create = false;
    registry_watch(r);
    make_dir(r, "sub");
    make_socket(r, "sub/a.sock");
    registry_run(r);
    registry_expect(r, "seen sub/a.sock\n");
    move(r, "/reg", "/old");
    registry_run(r);
    registry_expect(r, "gone sub/a.sock\n");
    assert_int_equal(registry_mode(r), CR_WATCHER_WAITING);
    assert_int_equal(cr_watcher_fd(r->watcher), -1);
    move(r, "/old", "/reg");
    registry_after(r, 1000);
    registry_expect(r, "seen sub/a.sock\n"); /* and no second scan_done */
}

static void a_replaced_registry_is_another_one(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_socket(r, "a.sock");
    registry_run(r);
    registry_expect(r, "seen a.sock\n");
    make_dir(r, "/next");
    make_socket(r, "/next/a.sock");
    move(r, "/reg", "/old");
    move(r, "/next", "/reg");
    registry_run(r);
    assert_string_equal(r->calls, "gone a.sock\nseen a.sock\n");
    registry_expect(r, "gone a.sock\nseen a.sock\n");
    make_socket(r, "/old/b.sock");
    make_socket(r, "c.sock");
    registry_run(r);
    registry_expect(r, "seen c.sock\n");
}

/* Nothing tells when a parent moves: the next scan finds out. */
static void a_registry_lost_with_its_parent(void **state)
{
    struct registry_dir *r = *state;
    char path[96];
    snprintf(path, sizeof path, "%s/deep", r->path);
    r->config.path = path;
    registry_start(r);
    registry_run(r);
    make_socket(r, "deep/a.sock");
    registry_run(r);
    registry_expect(r, "scan_done\nseen deep/a.sock\n");
    move(r, "/reg", "/old");
    registry_run(r);
    registry_expect(r, "");
    registry_after(r, 10000);
    registry_expect(r, "gone deep/a.sock\n");
    make_socket(r, "deep/a.sock");
    registry_run(r);
    registry_expect(r, "seen deep/a.sock\n");
}

static void a_link_to_the_registry_is_resolved(void **state)
{
    struct registry_dir *r = *state;
    struct cr_watcher_status status;
    char link[64];
    registry_make(r);
    make_dir(r, "/second");
    make_socket(r, "/second/b.sock");
    make_link(r, "reg", "/link");
    snprintf(link, sizeof link, "%s/./link/", r->top);
    r->config.path = link;
    registry_start(r);
    make_socket(r, "a.sock");
    registry_run(r);
    registry_expect(r, "scan_done\nseen a.sock\n");
    cr_watcher_status(r->watcher, &status);
    assert_string_equal(status.path, link);
    assert_string_equal(status.resolved, r->path);

    remove_file(r, "/link");
    make_link(r, "second", "/link");
    registry_after(r, 10000);
    assert_int_equal(r->n_gone, 1);
    assert_int_equal(r->n_seen, 1);
    cr_watcher_status(r->watcher, &status);
    assert_string_equal(status.resolved, full_path(r, "/second"));
}

/* ---- permissions ---- */

static void a_writable_registry_is_warned_about_once(void **state)
{
    struct registry_dir *r = *state;
    registry_make(r);
    assert_int_equal(chmod(r->path, 0777), 0);
    registry_start(r);
    for (int i = 0; i < 5; i++) registry_after(r, 10000);
    registry_expect(r, "scan_done\n");
    assert_true(registry_warns(r, "writable by everybody (mode 0777)"));
    assert_int_equal(r->n_log_warnings, 1);
    assert_int_equal(chmod(r->path, 0750), 0);
    registry_after(r, 10000);
    assert_int_equal(registry_warnings(r), 0);
}

static void a_private_registry_can_be_required(void **state)
{
    struct registry_dir *r = *state;
    r->config.require_private = true;
    registry_make(r);
    make_socket(r, "a.sock");
    assert_int_equal(chmod(r->path, 0770), 0);
    registry_start(r);
    registry_run(r);
    registry_expect(r, "");
    assert_int_equal(registry_mode(r), CR_WATCHER_WAITING);
    assert_true(registry_warns(r, "writable by its group"));
    assert_int_equal(registry_warnings(r), 1);

    assert_int_equal(chmod(r->path, 0750), 0);
    registry_after(r, 1000);
    registry_expect(r, "scan_done\nseen a.sock\n");
    assert_int_equal(registry_warnings(r), 0);

    assert_int_equal(chmod(r->path, 0752), 0);
    registry_after(r, 10000);
    registry_expect(r, "gone a.sock\n");
    assert_int_equal(registry_mode(r), CR_WATCHER_WAITING);
}

/* ---- lost events ---- */

static void a_queue_that_overflows_causes_a_scan(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    int limit = 16384;
    FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
    if (f && fscanf(f, "%d", &limit) != 1) limit = 16384;
    if (f) fclose(f);
    for (int i = 0; i <= limit; i += 2) {
        make_file(r, "noise");
        remove_file(r, "noise");
    }
    make_socket(r, "late.sock"); /* the event of this one is lost */
    registry_run(r);
    registry_expect(r, "seen late.sock\n");
}

static int add_deaf_watch(int fd, const char *path, uint32_t mask)
{
    return inotify_add_watch(fd, path, IN_DELETE_SELF | (mask & (IN_ONLYDIR | IN_DONT_FOLLOW)));
}

static void an_event_that_never_comes_costs_one_rescan(void **state)
{
    struct registry_dir *r = *state;
    registry_make(r);
    make_dir(r, "sub");
    make_socket(r, "old.sock");
    make_socket(r, "sub/old.sock");
    registry_start(r);
    r->watcher->inotify.add_watch = add_deaf_watch;
    registry_run(r);
    registry_expect(r, "scan_done\nseen old.sock\nseen sub/old.sock\n");
    make_socket(r, "new.sock");
    move(r, "sub", "moved");
    make_dir(r, "sub");
    remove_file(r, "old.sock");
    registry_after(r, 9999);
    registry_expect(r, "");
    registry_after(r, 1);
    registry_expect(r, "gone old.sock\ngone sub/old.sock\nseen moved/old.sock\nseen new.sock\n");
}

/* ---- no inotify ---- */

static int injected_errno;

static int no_init(int flags)
{
    (void)flags;
    errno = injected_errno;
    return -1;
}

static int no_watch_below(int fd, const char *path, uint32_t mask)
{
    if (!injected_errno || !strstr(path, "/sub")) return inotify_add_watch(fd, path, mask);
    errno = injected_errno;
    return -1;
}

static void polls_then_recovers(struct registry_dir *r)
{
    assert_int_equal(registry_mode(r), CR_WATCHER_POLLING);
    assert_int_equal(cr_watcher_fd(r->watcher), -1);
    assert_int_equal(cr_watcher_deadline(r->watcher), r->now.mono_ms + 1000);
    assert_true(registry_warns(r, "fs.inotify.max_user_watches"));
    assert_false(registry_warns(r, "space"));
    assert_int_equal(r->n_log_warnings, 1);

    make_socket(r, "a.sock");
    registry_after(r, 999);
    registry_expect(r, "");
    registry_after(r, 1);
    registry_expect(r, "seen a.sock\n");
    remove_file(r, "a.sock");
    make_socket(r, "a.sock");
    registry_after(r, 1000);
    registry_expect(r, "seen a.sock\n");

    for (int i = 0; i < 57; i++) registry_after(r, 1000);
    r->watcher->inotify = (struct cr_watcher_inotify){inotify_init1, inotify_add_watch};
    assert_int_equal(registry_mode(r), CR_WATCHER_POLLING);
    registry_after(r, 1000);
    assert_int_equal(registry_mode(r), CR_WATCHER_INOTIFY);
    assert_int_equal(registry_warnings(r), 0);
    assert_int_equal(cr_watcher_deadline(r->watcher), r->now.mono_ms + 10000);
    make_socket(r, "sub/b.sock");
    registry_run(r);
    registry_expect(r, "seen sub/b.sock\n");
}

static void without_inotify_the_registry_is_polled(void **state)
{
    struct registry_dir *r = *state;
    const int errors[] = {EMFILE, ENOSYS, ENOSPC};
    for (size_t i = 0; i < 3; i++) {
        injected_errno = errors[i];
        registry_make(r);
        make_dir(r, "sub");
        registry_start(r);
        r->watcher->inotify.init = no_init;
        r->n_log_warnings = 0;
        registry_run(r);
        registry_expect(r, "scan_done\n");
        polls_then_recovers(r);
        cr_watcher_free(r->watcher);
        r->watcher = NULL;
        remove_file(r, "a.sock");
        remove_file(r, "sub/b.sock");
        remove_dir(r, "sub");
        remove_dir(r, "/reg");
    }
}

static void one_watch_too_many_means_polling_for_all(void **state)
{
    struct registry_dir *r = *state;
    injected_errno = ENOSPC;
    registry_make(r);
    make_dir(r, "sub");
    registry_start(r);
    r->watcher->inotify.add_watch = no_watch_below;
    registry_run(r);
    registry_expect(r, "scan_done\n");
    polls_then_recovers(r);
}

static void inotify_runs_out_later(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    r->watcher->inotify.add_watch = no_watch_below;
    injected_errno = ENOSPC;
    make_dir(r, "sub");
    registry_run(r);
    assert_int_equal(registry_mode(r), CR_WATCHER_POLLING);
    registry_after(r, 0);
    for (int i = 0; i < 180; i++) registry_after(r, 1000); /* three vain attempts */
    assert_int_equal(registry_mode(r), CR_WATCHER_POLLING);
    assert_int_equal(r->n_log_warnings, 1);
    injected_errno = 0;
    for (int i = 0; i < 60; i++) registry_after(r, 1000);
    assert_int_equal(registry_mode(r), CR_WATCHER_INOTIFY);
}

/* The kernel's own refusals, not injected ones. */
static void descriptors_used_up(void **state)
{
    struct registry_dir *r = *state;
    struct rlimit limit, none;
    registry_watch(r);
    make_dir(r, "sub");
    make_socket(r, "a.sock");
    make_socket(r, "sub/b.sock");
    registry_run(r);
    registry_expect(r, "seen a.sock\nseen sub/b.sock\n");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    registry_after(r, 10000);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    registry_expect(r, ""); /* nothing was learned, so nothing is gone */
    assert_true(registry_warns(r, "cannot be read (Too many open files)"));
    registry_after(r, 10000);
    registry_expect(r, "");
    assert_int_equal(registry_warnings(r), 0);
}

/* ---- memory ---- */

static void short_memory_is_survived_and_made_good(void **state)
{
    struct registry_dir *r = *state;
    const struct cr_watcher_handlers none = {0};
    struct cr_watcher *watcher = NULL;
    registry_make(r);
    make_dir(r, "sub");
    make_socket(r, "a.sock");
    make_socket(r, "sub/b.sock");
    for (unsigned long n = 1; n <= 3; n++) {
        struct csireg_error *error = NULL;
        cr_mem_fail_after(n);
        assert_int_equal(cr_watcher_new(&watcher, &r->config, &none, &error), CSIREG_ERR_NOMEM);
        cr_mem_fail_after(0);
        csireg_error_free(error);
    }
    for (unsigned long n = 1; n <= 16; n++) {
        registry_start(r);
        cr_mem_fail_after(n);
        registry_run(r);
        cr_mem_fail_after(0);
        registry_after(r, 1000);
        registry_expect(r, "scan_done\nseen a.sock\nseen sub/b.sock\n");
        cr_watcher_free(r->watcher);
        r->watcher = NULL;
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, registry_setup, registry_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_missing_registry_is_made_with_its_parents),
        T(a_missing_registry_is_waited_for),
        T(a_registry_that_cannot_be_made_is_tried_again),
        T(a_deleted_registry_is_made_again),
        T(a_deleted_registry_is_waited_for),
        T(a_replaced_registry_is_another_one),
        T(a_registry_lost_with_its_parent),
        T(a_link_to_the_registry_is_resolved),
        T(a_writable_registry_is_warned_about_once),
        T(a_private_registry_can_be_required),
        T(a_queue_that_overflows_causes_a_scan),
        T(an_event_that_never_comes_costs_one_rescan),
        T(without_inotify_the_registry_is_polled),
        T(one_watch_too_many_means_polling_for_all),
        T(inotify_runs_out_later),
        T(descriptors_used_up),
        T(short_memory_is_survived_and_made_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
