/* SPDX-License-Identifier: Apache-2.0 */
#include "io/rpc_dial.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bounds.h"
#include "io/watcher.h"

#define REFUSED_TRIES 4

/* The file is there before its owner listens. Often that is a matter of microseconds: it has just made the file, and
 * waits for the processor that we are on. */
static int connect_to(int fd, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int error = ECONNREFUSED;
    memcpy(address.sun_path, name, strlen(name) + 1);
    for (int i = 0; i < REFUSED_TRIES && error == ECONNREFUSED; i++) {
        if (i > 0) sched_yield();
        error = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
    }
    return error;
}

/* The path does not fit an address, but the name of an open descriptor does. */
static int connect_by_descriptor(int fd, const char *path)
{
    char name[32];
    int file = open(path, O_PATH | O_CLOEXEC);
    if (file < 0) return errno;
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    int error = connect_to(fd, name);
    if (error == ENOENT && access("/proc/self/fd", F_OK) != 0) error = ENAMETOOLONG;
    close(file);
    return error;
}

static bool same_file(const struct cr_identity *a, const struct cr_identity *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->birth_ns == b->birth_ns;
}

/* The file is looked at before and after, so that the identity is that of the peer and not of one it replaced. */
static int connect_and_identify(int fd, const char *path, const struct cr_uids *allowed, struct cr_identity *out)
{
    struct cr_identity before, after;
    int error = cr_socket_identity(path, &before);
    if (error) return error;
    *out = before;
    if (allowed && !cr_uids_have(allowed, before.uid)) return EPERM;
    error = strlen(path) <= CR_MAX_SUN_PATH ? connect_to(fd, path) : connect_by_descriptor(fd, path);
    if (error) return error;
    error = cr_socket_identity(path, &after);
    if (error) return error;
    if (!same_file(&before, &after)) return EAGAIN;
    *out = after;
    return 0;
}

/* Before the first byte is sent. */
static int check_peer(int fd, const struct cr_uids *allowed)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (!allowed || allowed->n == 0) return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return errno;
    return cr_uids_have(allowed, peer.uid) ? 0 : EPERM;
}

int cr_rpc_dial(const char *path, const struct cr_uids *allowed, int *out_fd, struct cr_identity *out_identity)
{
    if (path[0] != '/') return EINVAL;
    if (strlen(path) > CR_MAX_PATH) return ENAMETOOLONG;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno;
    int error = connect_and_identify(fd, path, allowed, out_identity);
    if (!error) error = check_peer(fd, allowed);
    if (error)
        close(fd);
    else
        *out_fd = fd;
    return error;
}
