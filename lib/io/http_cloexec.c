/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl 7.88 makes the socket pair behind curl_multi_wakeup without CLOEXEC and has no call that names it. It is
 * found by what it does: of all stream sockets without the flag, the two whose queues fill when the bell is rung and
 * empty when the bell was heard.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/http_internal.h"

struct found {
    int *fds;
    size_t n, cap;
};

static bool is_candidate(int fd)
{
    int domain = 0, type = 0;
    socklen_t size = sizeof domain;
    int flags = fcntl(fd, F_GETFD);
    if (flags < 0 || (flags & FD_CLOEXEC)) return false;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX) return false;
    size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

/* Bytes on the way into or out of a stream socket; -1: unknown. */
static int queued(int fd)
{
    int in = 0, out = 0;
    if (ioctl(fd, FIONREAD, &in) != 0 || ioctl(fd, SIOCOUTQ, &out) != 0) return -1;
    return in + out;
}

static void keep_quiet_ones(struct found *f, bool quiet)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->n; i++) {
        int bytes = queued(f->fds[i]);
        if (bytes >= 0 && (bytes == 0) == quiet) f->fds[kept++] = f->fds[i];
    }
    f->n = kept;
}

static void add(struct found *f, int fd)
{
    if (f->n == f->cap) {
        int *fds = cr_realloc_array(f->fds, 2 * f->cap + 16, sizeof *fds);
        if (!fds) return;
        f->fds = fds;
        f->cap = 2 * f->cap + 16;
    }
    f->fds[f->n++] = fd;
}

static void list_candidates(struct found *f)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) return;
    for (struct dirent *d; (d = readdir(dir));) {
        char *end;
        long fd = strtol(d->d_name, &end, 10);
        if (end != d->d_name && *end == '\0' && is_candidate((int)fd)) add(f, (int)fd);
    }
    closedir(dir);
}

void cr_http_set_cloexec(CURLM *multi)
{
    struct found f = {0};
    list_candidates(&f);
    keep_quiet_ones(&f, true);
    curl_multi_wakeup(multi);
    keep_quiet_ones(&f, false);
    curl_multi_poll(multi, NULL, 0, 0, NULL);
    keep_quiet_ones(&f, true);
    for (size_t i = 0; i < f.n; i++) fcntl(f.fds[i], F_SETFD, FD_CLOEXEC);
    cr_free(f.fds);
}
