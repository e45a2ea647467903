/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random changes to a registry: after each run, without any rescan, what the watcher reported is what is on the disk.
 * A failing seed prints itself; test_watcher_random SEED runs that one alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/rng.h"
#include "io/watcher_internal.h"
#include "unit/registry_dir.h"

#define SEEDS 200
#define STEPS 60

static uint64_t only_seed;

/* A path of one to three of few names, so that changes collide often. */
static void random_path(struct cr_rng *rng, char out[32])
{
    static const char *const names[] = {"a", "b", "c", ".d"};
    size_t parts = 1 + cr_rng_below(rng, 3), len = 0;
    for (size_t i = 0; i < parts; i++)
        len += (size_t)snprintf(out + len, 32 - len, "%s%s", i ? "/" : "", names[cr_rng_below(rng, 4)]);
}

static void bind_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)!bind(fd, (const struct sockaddr *)&address, sizeof address);
    close(fd);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* Whether it works does not matter. */
static void change(struct registry_dir *r, struct cr_rng *rng)
{
    char a[32], b[32];
    random_path(rng, a);
    random_path(rng, b);
    const char *from = full_path(r, a), *to = full_path(r, b);
    switch (cr_rng_below(rng, 10)) {
    case 0:
    case 1:
    case 2:
        bind_at(from);
        break;
    case 3:
    case 4:
        mkdir(from, 0750);
        break;
    case 5:
        unlink(from);
        break;
    case 6:
        rename(from, to);
        break;
    case 7:
        renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE);
        break;
    case 8:
        (void)!symlink(r->path, from);
        break;
    case 9:
        nftw(from, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        break;
    }
}

static struct registry_dir *walked;
static size_t found;

static int check_known(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)type, (void)ftw;
    if (!S_ISSOCK(st->st_mode) || strstr(path + strlen(walked->path), "/.")) return 0;
    const struct cr_watcher_socket *s = cr_path_set_find(&walked->watcher->sockets, path);
    if (!s || !s->known || s->identity.ino != st->st_ino) {
        print_error("on the disk and not reported: %s\n", path);
        return 1;
    }
    found++;
    return 0;
}

static void agrees_with_the_disk(struct registry_dir *r)
{
    struct cr_watcher_status status;
    walked = r;
    found = 0;
    assert_int_equal(nftw(r->path, check_known, 8, FTW_PHYS), 0);
    cr_watcher_status(r->watcher, &status);
    assert_int_equal(status.sockets, found);
    assert_int_equal(r->watcher->sockets.n, found); /* no hint is left */
    assert_true(cr_list_empty(&r->watcher->dirty_dirs) && cr_list_empty(&r->watcher->dirty_sockets));
}

static void one_seed(struct registry_dir *r, uint64_t seed)
{
    struct cr_rng rng = {seed};
    registry_make(r);
    registry_start(r);
    for (int i = 0; i < STEPS; i++) {
        for (uint64_t n = cr_rng_below(&rng, 8); n; n--) change(r, &rng);
        registry_run(r);
        agrees_with_the_disk(r);
        r->calls_len = 0;
    }
    size_t watches = 0;
    for (size_t i = 0; i < r->watcher->dirs.n; i++)
        if (((struct cr_watcher_dir *)r->watcher->dirs.items[i])->wd >= 0) watches++;
    assert_int_equal(watches, r->watcher->dirs.n);
    cr_watcher_free(r->watcher);
    r->watcher = NULL;
    nftw(r->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void reports_what_is_on_the_disk(void **state)
{
    for (uint64_t seed = only_seed ? only_seed : 1; seed <= (only_seed ? only_seed : SEEDS); seed++) {
        ((struct registry_dir *)*state)->now.mono_ms = (int64_t)seed;
        one_seed(*state, seed);
    }
}

static int report_and_clean(void **state)
{
    struct registry_dir *r = *state;
    if (r->watcher) print_error("failing seed: %lld\n", (long long)r->now.mono_ms);
    return registry_teardown(state);
}

int main(int argc, char **argv)
{
    if (argc > 1) only_seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reports_what_is_on_the_disk, registry_setup, report_and_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
