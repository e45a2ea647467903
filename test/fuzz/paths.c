/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of Unix sockets, in a directory of the run. Input: what stands at the path, which part of it is a directory,
 * the path's bytes. A connection comes about exactly when a listener is there, and then the identity is that of its
 * file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bounds.h"
#include "fuzz/fuzz.h"
#include "io/rpc_dial.h"
#include "io/watcher.h"

enum kind { LISTENING, BOUND, LINK_TO_SOCKET, DANGLING, REGULAR, DIRECTORY, FIFO, NOTHING, KINDS };

#define MAX_DIRECTORIES 20

static char base[] = "/tmp/csireg-fuzz-XXXXXX";

static void remove_base(void) { rmdir(base); }

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    CHECK(mkdtemp(base));
    return atexit(remove_base);
}

/* ---- the place ---- */

struct place {
    char path[2 * CR_MAX_PATH];
    char parts[MAX_DIRECTORIES][NAME_MAX + 1]; /* directories that were made: their names, and where */
    int parents[MAX_DIRECTORIES];
    size_t n;
    int dir, listener; /* descriptors */
    char name[NAME_MAX + 1];
};

/* The next component: no NUL and no slash; neither "" nor "." nor "..". */
static size_t component(struct fuzz_in *in, char out[NAME_MAX + 1], size_t max)
{
    size_t n = fuzz_byte(in);
    if (n > max) n = max;
    if (n > in->left) n = in->left;
    if (n) memcpy(out, fuzz_bytes(in, n), n);
    for (size_t i = 0; i < n; i++)
        if (out[i] == '\0' || out[i] == '/') out[i] = '_';
    if (n == 0 || out[0] == '.') out[0] = 's';
    if (n == 0) n = 1;
    out[n] = '\0';
    return n;
}

static void go_into(struct place *p, const char *name)
{
    if (mkdirat(p->dir, name, 0700) != 0) CHECK(errno == EEXIST);
    int dir = openat(p->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(dir >= 0);
    memcpy(p->parts[p->n], name, strlen(name) + 1);
    p->parents[p->n++] = p->dir;
    p->dir = dir;
    size_t len = strlen(p->path);
    snprintf(p->path + len, sizeof p->path - len, "/%s", name);
}

static void make_place(struct place *p, struct fuzz_in *in, uint8_t depth)
{
    *p = (struct place){.listener = -1};
    snprintf(p->path, sizeof p->path, "%s", base);
    p->dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(p->dir >= 0);
    for (int i = 0; i < depth; i++) {
        component(in, p->name, NAME_MAX);
        go_into(p, p->name);
    }
    component(in, p->name, NAME_MAX - 8);
    size_t len = strlen(p->path);
    snprintf(p->path + len, sizeof p->path - len, "/%s", p->name);
}

static void remove_place(struct place *p)
{
    char other[NAME_MAX + 8];
    snprintf(other, sizeof other, "%s.real", p->name);
    unlinkat(p->dir, other, 0);
    if (unlinkat(p->dir, p->name, 0) != 0) unlinkat(p->dir, p->name, AT_REMOVEDIR);
    close(p->dir);
    if (p->listener >= 0) close(p->listener);
    while (p->n-- > 0) {
        CHECK(unlinkat(p->parents[p->n], p->parts[p->n], AT_REMOVEDIR) == 0);
        close(p->parents[p->n]);
    }
}

static void bind_at(struct place *p, const char *name, bool listens)
{
    char link[64];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(p->listener >= 0);
    snprintf(link, sizeof link, "/proc/self/fd/%d/", p->dir);
    CHECK(strlen(link) + strlen(name) < sizeof a.sun_path);
    snprintf(a.sun_path, sizeof a.sun_path, "%s%s", link, name);
    CHECK(bind(p->listener, (struct sockaddr *)&a, sizeof a) == 0);
    if (listens) CHECK(listen(p->listener, 4) == 0);
}

/* A socket has a short name when it is made, because of the size of an address. */
static void put_socket(struct place *p, const char *name, bool listens)
{
    bind_at(p, "b", listens);
    if (strcmp(name, "b") != 0) CHECK(renameat(p->dir, "b", p->dir, name) == 0);
}

static void put(struct place *p, enum kind kind)
{
    char other[NAME_MAX + 8];
    snprintf(other, sizeof other, "%s.real", p->name);
    switch (kind) {
    case LISTENING:
    case BOUND:
        put_socket(p, p->name, kind == LISTENING);
        break;
    case LINK_TO_SOCKET:
        put_socket(p, other, true);
        CHECK(symlinkat(other, p->dir, p->name) == 0);
        break;
    case DANGLING:
        CHECK(symlinkat("nowhere", p->dir, p->name) == 0);
        break;
    case REGULAR:
        close(openat(p->dir, p->name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        break;
    case DIRECTORY:
        CHECK(mkdirat(p->dir, p->name, 0700) == 0);
        break;
    case FIFO:
        CHECK(mkfifoat(p->dir, p->name, 0600) == 0);
        break;
    case NOTHING:
    case KINDS:
        break;
    }
}

/* ---- the check ---- */

static int lowest_free(void)
{
    int fd = dup(0);
    CHECK(fd >= 0);
    close(fd);
    return fd;
}

static void check_connection(const struct place *p, int fd, const struct cr_identity *identity)
{
    struct stat st;
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    CHECK(fstatat(p->dir, p->name, &st, 0) == 0);
    CHECK(identity->ino == st.st_ino);
    int peer = accept4(p->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(peer >= 0);
    close(peer);
    close(fd);
}

static void check_dial(const struct place *p, enum kind kind, uint8_t who)
{
    const uint32_t us = geteuid(), other = us + 1;
    const struct cr_uids sets[] = {{.n = 0}, {&us, 1}, {&other, 1}};
    struct cr_identity identity = {0};
    int fd = -1, free_before = lowest_free();
    int error = cr_rpc_dial(p->path, who % 4 == 3 ? NULL : &sets[who % 4], &fd, &identity);
    bool there = kind == LISTENING || kind == LINK_TO_SOCKET;
    if (strlen(p->path) > CR_MAX_PATH)
        CHECK(error == ENAMETOOLONG);
    else if (kind == LISTENING && who % 4 == 2)
        CHECK(error == EPERM);
    else if (there && error == 0)
        check_connection(p, fd, &identity);
    else
        CHECK(error > 0 && kind != LISTENING);
    CHECK(lowest_free() == free_before);
}

/* Bytes that are no path of ours: refused, or nothing there. */
static void check_arbitrary(const struct fuzz_in *in)
{
    struct cr_identity identity = {0};
    int fd = -1;
    char *path = fuzz_string(in->at, in->left);
    if (path[0] != '/') CHECK(cr_rpc_dial(path, NULL, &fd, &identity) == EINVAL);
    free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    static struct place p;
    uint8_t what = fuzz_byte(&in), depth = fuzz_byte(&in) % MAX_DIRECTORIES;
    enum kind kind = (enum kind)(what % KINDS);
    check_arbitrary(&in);
    make_place(&p, &in, depth);
    put(&p, kind);
    check_dial(&p, kind, what / KINDS);
    remove_place(&p);
    return 0;
}
