/* SPDX-License-Identifier: Apache-2.0 */
/* What counts as a registration socket and what happens to it. Faults and the registry's own fate:
 * test_watcher_faults.c */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bounds.h"
#include "unit/registry_dir.h"

/* ---- first scan and events ---- */

static void sockets_at_start_are_seen_before_scan_done(void **state)
{
    struct registry_dir *r = *state;
    registry_make(r);
    make_socket(r, "a-reg.sock");
    registry_start(r);
    assert_int_equal(cr_watcher_fd(r->watcher), -1);
    assert_true(cr_watcher_deadline(r->watcher) <= r->now.mono_ms);
    registry_run(r);
    assert_string_equal(r->calls, "seen a-reg.sock\nscan_done\n");
    registry_expect(r, "seen a-reg.sock\nscan_done\n");

    struct cr_watcher_status status;
    cr_watcher_status(r->watcher, &status);
    assert_string_equal(status.path, r->path);
    assert_string_equal(status.resolved, r->path);
    assert_int_equal(status.mode, CR_WATCHER_INOTIFY);
    assert_int_equal(status.sockets, 1);
    assert_int_equal(status.last_event_wall_ms, r->now.wall_ms);
    assert_true(status.scan_done);
    assert_null(status.warnings[0]);
    assert_int_equal(cr_watcher_deadline(r->watcher), r->now.mono_ms + 10000);
    assert_int_equal(fcntl(cr_watcher_fd(r->watcher), F_GETFD), FD_CLOEXEC);
}

static void an_event_is_enough(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_socket(r, "a.sock");
    registry_run(r);
    registry_expect(r, "seen a.sock\n");
    remove_file(r, "a.sock");
    registry_run(r);
    registry_expect(r, "gone a.sock\n");
    registry_after(r, 10000);
    registry_expect(r, "");
}

static void nothing_new_means_no_call_and_no_new_status(void **state)
{
    struct registry_dir *r = *state;
    struct cr_watcher_status before, after;
    registry_watch(r);
    make_socket(r, "a.sock");
    registry_run(r);
    registry_expect(r, "seen a.sock\n");
    cr_watcher_status(r->watcher, &before);
    assert_int_equal(chmod(full_path(r, "a.sock"), 0700), 0);
    registry_run(r);
    for (int i = 0; i < 10; i++) registry_after(r, 10000);
    cr_watcher_status(r->watcher, &after);
    registry_expect(r, "");
    assert_int_equal(before.generation, after.generation);
}

static void a_thousand_unrelated_files_are_nobodys_business(void **state)
{
    struct registry_dir *r = *state;
    char name[32];
    registry_watch(r);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "%d-reg.sock", i);
        make_file(r, name);
        if (i % 10 == 0) registry_run(r);
    }
    assert_int_equal(mkfifo(full_path(r, "fifo.sock"), 0600), 0);
    make_link(r, "/dev/null", "device.sock");
    registry_run(r);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "%d-reg.sock", i);
        remove_file(r, name);
    }
    registry_after(r, 10000);
    registry_expect(r, "");
    assert_int_equal(registry_warnings(r), 0);
}

/* ---- bursts, renames, identity ---- */

static void bursts_end_with_what_is_on_disk(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_socket(r, "a.sock");
    remove_file(r, "a.sock");
    registry_run(r);
    registry_expect(r, "");

    make_socket(r, "a.sock");
    remove_file(r, "a.sock");
    make_socket(r, "a.sock");
    registry_run(r);
    registry_expect(r, "seen a.sock\n");

    remove_file(r, "a.sock");
    make_socket(r, "a.sock");
    remove_file(r, "a.sock");
    registry_run(r);
    registry_expect(r, "gone a.sock\n");
}

static void recreation_is_seen_again_with_a_higher_generation(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_socket(r, "a.sock");
    registry_run(r);
    registry_expect(r, "seen a.sock\n");
    uint64_t generation = r->last_identity.generation;
    for (int i = 0; i < 100; i++) {
        remove_file(r, "a.sock");
        make_socket(r, "a.sock");
        registry_run(r);
        registry_expect(r, "seen a.sock\n");
        assert_true(r->last_identity.generation > generation);
        generation = r->last_identity.generation;
    }
    remove_file(r, "a.sock");
    registry_run(r);
    make_socket(r, "a.sock");
    registry_run(r);
    registry_expect(r, "gone a.sock\nseen a.sock\n");
    assert_true(r->last_identity.generation > generation);
}

static void renames_are_followed(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_socket(r, "a.sock");
    make_socket(r, "b.sock");
    registry_run(r);
    registry_expect(r, "seen a.sock\nseen b.sock\n");

    move(r, "a.sock", "c.sock");
    registry_run(r);
    assert_string_equal(r->calls, "gone a.sock\nseen c.sock\n");
    registry_expect(r, "gone a.sock\nseen c.sock\n");

    move(r, "c.sock", "b.sock"); /* over an existing one */
    registry_run(r);
    registry_expect(r, "gone c.sock\nseen b.sock\n");

    move(r, "b.sock", "/outside.sock");
    registry_run(r);
    registry_expect(r, "gone b.sock\n");

    make_file(r, "d.sock");
    make_socket(r, "e.sock");
    registry_run(r);
    registry_expect(r, "seen e.sock\n");
    move(r, "d.sock", "e.sock"); /* a file in its place */
    registry_run(r);
    registry_expect(r, "gone e.sock\n");
}

static void identity_of_files(void **state)
{
    struct registry_dir *r = *state;
    struct cr_identity a = {.generation = 7}, b;
    registry_make(r);
    make_file(r, "file");
    make_socket(r, "a.sock");
    make_link(r, "a.sock", "link");
    assert_int_equal(cr_socket_identity(full_path(r, "none"), &a), ENOENT);
    assert_int_equal(cr_socket_identity(full_path(r, "file"), &a), ENOTSOCK);
    assert_int_equal(cr_socket_identity(r->path, &a), ENOTSOCK);
    assert_int_equal(a.generation, 7); /* untouched on failure */
    assert_int_equal(cr_socket_identity(full_path(r, "a.sock"), &a), 0);
    assert_int_equal(cr_socket_identity(full_path(r, "link"), &b), 0);
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(a.ino && a.birth_ns > 0 && !a.generation);
}

/* ---- names and links ---- */

static void dot_names_are_ignored_everywhere(void **state)
{
    struct registry_dir *r = *state;
    registry_make(r);
    make_dir(r, ".early");
    make_dir(r, "sub");
    make_socket(r, ".early/a.sock");
    make_socket(r, "sub/.b.sock");
    registry_start(r);
    registry_run(r);
    registry_expect(r, "scan_done\n");
    make_dir(r, ".late");
    make_socket(r, ".late/c.sock");
    make_socket(r, ".d.sock");
    make_dir(r, "sub/.deep");
    make_socket(r, "sub/.deep/e.sock");
    registry_after(r, 10000);
    registry_expect(r, "");
    move(r, ".d.sock", "d.sock"); /* the usual way to put a finished socket in place */
    registry_run(r);
    registry_expect(r, "seen d.sock\n");
}

static void links_count_when_they_lead_to_a_socket(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_socket(r, "/outside.sock");
    make_link(r, "../outside.sock", "a.sock");
    make_link(r, "missing", "dangling.sock");
    make_link(r, "loop.sock", "loop.sock");
    registry_run(r);
    registry_expect(r, "seen a.sock\n");

    make_socket(r, "/other.sock");
    make_link(r, "../other.sock", ".new");
    move(r, ".new", "a.sock");
    registry_run(r);
    registry_expect(r, "seen a.sock\n");

    remove_file(r, "/other.sock"); /* nobody tells: noticed by the next scan */
    make_socket(r, "missing");
    registry_run(r);
    registry_expect(r, "seen missing\n");
    registry_after(r, 10000);
    registry_expect(r, "gone a.sock\nseen dangling.sock\n");
}

static void links_to_directories_are_not_followed(void **state)
{
    struct registry_dir *r = *state;
    registry_make(r);
    make_dir(r, "/elsewhere");
    make_socket(r, "/elsewhere/a.sock");
    make_link(r, "../elsewhere", "early");
    make_link(r, ".", "self");
    registry_start(r);
    registry_run(r);
    registry_expect(r, "scan_done\n");
    make_link(r, "../elsewhere", "late");
    registry_after(r, 10000);
    registry_expect(r, "");
}

static void names_that_are_not_utf8_are_refused(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_file(r, "\xff-file");
    registry_run(r);
    assert_int_equal(registry_warnings(r), 0);
    make_socket(r, "\xff.sock");
    make_socket(r, "\xc3\xa9.sock");
    registry_run(r);
    registry_expect(r, "seen \xc3\xa9.sock\n");
    assert_true(registry_warns(r, "not UTF-8"));
    remove_file(r, "\xff.sock");
    registry_after(r, 10000);
    assert_int_equal(registry_warnings(r), 0);
}

/* ---- directories ---- */

static void directories_are_watched_to_depth_eight(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    char path[64] = "1";
    for (int depth = 1; depth <= 9; depth++) {
        char name[80];
        make_dir(r, path);
        snprintf(name, sizeof name, "%s/s", path);
        make_socket(r, name);
        registry_run(r);
        char expected[96];
        snprintf(expected, sizeof expected, "seen %s\n", name);
        registry_expect(r, depth <= 8 ? expected : "");
        snprintf(path + strlen(path), sizeof path - strlen(path), "/%d", depth + 1);
    }
    assert_true(registry_warns(r, "deeper than 8"));
    assert_int_equal(r->n_log_warnings, 1);
    for (int i = 0; i < 3; i++) registry_after(r, 10000);
    assert_int_equal(r->n_log_warnings, 1);
}

static void a_new_directory_is_scanned_after_it_is_watched(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_dir(r, "a");
    make_dir(r, "a/b");
    make_socket(r, "a/b/early.sock");
    registry_run(r);
    registry_expect(r, "seen a/b/early.sock\n");
    make_socket(r, "a/b/late.sock");
    registry_run(r);
    registry_expect(r, "seen a/b/late.sock\n");
    remove_file(r, "a/b/early.sock");
    remove_file(r, "a/b/late.sock");
    remove_dir(r, "a/b");
    remove_dir(r, "a");
    registry_run(r);
    registry_expect(r, "gone a/b/early.sock\ngone a/b/late.sock\n");
}

static void moved_directories_take_their_sockets_along(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_dir(r, "a");
    make_dir(r, "a/b");
    make_socket(r, "a/b/s");
    make_socket(r, "a/t");
    registry_run(r);
    registry_expect(r, "seen a/b/s\nseen a/t\n");

    move(r, "a", "c");
    registry_run(r);
    registry_expect(r, "gone a/b/s\ngone a/t\nseen c/b/s\nseen c/t\n");
    make_socket(r, "c/b/u");
    registry_run(r);
    registry_expect(r, "seen c/b/u\n");

    move(r, "c", "/outside");
    registry_run(r);
    registry_expect(r, "gone c/b/s\ngone c/b/u\ngone c/t\n");
    make_socket(r, "/outside/v");
    registry_run(r);
    registry_expect(r, "");

    move(r, "/outside", "b");
    registry_run(r);
    registry_expect(r, "seen b/b/s\nseen b/b/u\nseen b/t\nseen b/v\n");
}

static void a_directory_moved_below_its_own_successor(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_dir(r, "a");
    make_socket(r, "a/s");
    registry_run(r);
    registry_expect(r, "seen a/s\n");
    move(r, "a", "/aside");
    make_dir(r, "a");
    move(r, "/aside", "a/old");
    registry_run(r);
    registry_expect(r, "gone a/s\nseen a/old/s\n");
    make_socket(r, "a/t");
    make_socket(r, "a/old/t");
    registry_run(r);
    registry_expect(r, "seen a/t\nseen a/old/t\n");
}

static void exchanged_directories(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_dir(r, "a");
    make_dir(r, "b");
    make_socket(r, "a/s");
    make_socket(r, "b/t");
    registry_run(r);
    registry_expect(r, "seen a/s\nseen b/t\n");
    assert_int_equal(renameat2(AT_FDCWD, full_path(r, "a"), AT_FDCWD, full_path(r, "b"), RENAME_EXCHANGE), 0);
    registry_run(r);
    registry_expect(r, "gone a/s\ngone b/t\nseen a/t\nseen b/s\n");
    make_socket(r, "a/u");
    make_socket(r, "b/u");
    registry_run(r);
    registry_expect(r, "seen a/u\nseen b/u\n");
}

static void a_link_in_place_of_a_directory_hides_it(void **state)
{
    struct registry_dir *r = *state;
    registry_watch(r);
    make_dir(r, "a");
    make_dir(r, "a/b");
    make_socket(r, "a/b/s");
    registry_run(r);
    registry_expect(r, "seen a/b/s\n");
    move(r, "a", "/outside");
    make_link(r, "../outside", "a"); /* a/b/s still leads to the very same socket */
    registry_run(r);
    registry_expect(r, "gone a/b/s\n");
    registry_after(r, 10000);
    registry_expect(r, "");
}

/* ---- limits ---- */

static void more_sockets_than_allowed(void **state)
{
    struct registry_dir *r = *state;
    char name[32];
    registry_watch(r);
    for (int i = 0; i < CR_MAX_SOCKETS + 10; i++) {
        snprintf(name, sizeof name, "%04d", i);
        make_socket(r, name);
    }
    registry_run(r);
    assert_int_equal(r->n_seen, CR_MAX_SOCKETS);
    assert_true(registry_warns(r, "more than 1024 sockets"));
    for (int i = 0; i < 3; i++) registry_after(r, 10000);
    assert_int_equal(r->n_seen, CR_MAX_SOCKETS);
    assert_int_equal(r->n_log_warnings, 1);

    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "%04d", i);
        remove_file(r, name);
    }
    registry_after(r, 10000);
    assert_int_equal(r->n_gone, 10);
    assert_int_equal(r->n_seen, CR_MAX_SOCKETS + 10);
    assert_int_equal(registry_warnings(r), 0);
}

static void more_directories_than_allowed(void **state)
{
    struct registry_dir *r = *state;
    char name[32];
    registry_make(r);
    for (int i = 0; i < CR_MAX_DIRECTORIES + 10; i++) {
        snprintf(name, sizeof name, "%04d", i);
        make_dir(r, name);
        snprintf(name, sizeof name, "%04d/s", i);
        make_socket(r, name);
    }
    registry_start(r);
    registry_run(r);
    assert_int_equal(r->n_seen, CR_MAX_DIRECTORIES - 1); /* the registry is one of them */
    assert_true(registry_warns(r, "more than 1024 directories"));
    for (int i = 0; i < 3; i++) registry_after(r, 10000);
    assert_int_equal(r->n_log_warnings, 1);
}

static void a_flood_of_links_is_looked_at_in_portions(void **state)
{
    struct registry_dir *r = *state;
    char name[32];
    registry_make(r);
    for (int i = 0; i < CR_MAX_HINTS + 500; i++) {
        snprintf(name, sizeof name, "%d", i);
        make_link(r, i % 100 ? "nowhere" : "real", name);
    }
    make_socket(r, "real");
    registry_start(r);
    registry_run(r);
    assert_int_equal(r->n_seen, 1 + (CR_MAX_HINTS + 500 + 99) / 100);
}

static void a_path_longer_than_the_limit(void **state)
{
    struct registry_dir *r = *state;
    char path[CR_MAX_PATH + 2], name[2 * CR_MAX_PATH];
    size_t len = (size_t)snprintf(path, sizeof path, "%s", r->path);
    while (len < 4060) len += (size_t)snprintf(path + len, sizeof path - len, "/%0*d", len < 3900 ? 99 : 20, 0);
    r->config.path = path;
    registry_start(r);
    registry_run(r);
    registry_expect(r, "scan_done\n");

    snprintf(name, sizeof name, "%s/%0*d", path + strlen(r->path) + 1, (int)(CR_MAX_PATH - len - 1), 0);
    make_socket(r, name);
    registry_run(r);
    assert_int_equal(r->n_seen, 1); /* the longest possible */
    assert_int_equal(registry_warnings(r), 0);
    snprintf(name + strlen(name), 2, "0");
    make_socket(r, name);
    registry_run(r);
    assert_int_equal(r->n_seen, 1);
    assert_true(registry_warns(r, "longer than 4095"));
    remove_file(r, name);

    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    struct cr_watcher *watcher = NULL;
    struct csireg_error *error = NULL;
    assert_int_equal(cr_watcher_new(&watcher, &r->config, &(struct cr_watcher_handlers){0}, &error), CSIREG_ERR_LIMIT);
    assert_null(watcher);
    csireg_error_free(error);
}

#define T(f) cmocka_unit_test_setup_teardown(f, registry_setup, registry_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(sockets_at_start_are_seen_before_scan_done),
        T(an_event_is_enough),
        T(nothing_new_means_no_call_and_no_new_status),
        T(a_thousand_unrelated_files_are_nobodys_business),
        T(bursts_end_with_what_is_on_disk),
        T(recreation_is_seen_again_with_a_higher_generation),
        T(renames_are_followed),
        T(identity_of_files),
        T(dot_names_are_ignored_everywhere),
        T(links_count_when_they_lead_to_a_socket),
        T(links_to_directories_are_not_followed),
        T(names_that_are_not_utf8_are_refused),
        T(directories_are_watched_to_depth_eight),
        T(a_new_directory_is_scanned_after_it_is_watched),
        T(moved_directories_take_their_sockets_along),
        T(a_directory_moved_below_its_own_successor),
        T(exchanged_directories),
        T(a_link_in_place_of_a_directory_hides_it),
        T(more_sockets_than_allowed),
        T(more_directories_than_allowed),
        T(a_flood_of_links_is_looked_at_in_portions),
        T(a_path_longer_than_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
