/* SPDX-License-Identifier: Apache-2.0 */
#include "common/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/alloc.h"

#define PROBE_MS  1000 /* how long a socket file in the way may take to accept */
#define BACKLOG   128
#define FITS(len) ((len) < sizeof((struct sockaddr_un *)0)->sun_path)

/* Where a path of any length is bound: directly, in its directory, or there under a short name. */
struct place {
    struct sockaddr_un address;
    int directory;       /* -1: bound directly */
    const char *name;    /* last component */
    char short_name[48]; /* "" when the own name fits */
};

static bool fill_address(struct sockaddr_un *address, const char *path)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len == 0 || !FITS(len)) {
        errno = len ? ENAMETOOLONG : EINVAL;
        return false;
    }
    memcpy(address->sun_path, path, len + 1);
    return true;
}

static bool fill_from_directory(struct place *place, const char *name)
{
    char text[PATH_MAX];
    snprintf(text, sizeof text, "/proc/self/fd/%d/%s", place->directory, name);
    return fill_address(&place->address, text);
}

static bool find_place(const char *path, struct place *place)
{
    *place = (struct place){.directory = -1};
    if (FITS(strlen(path))) return fill_address(&place->address, path);
    const char *slash = strrchr(path, '/');
    char *directory = slash ? need_strndup(path, (size_t)(slash - path) + 1) : need_strdup(".");
    place->name = slash ? slash + 1 : path;
    place->directory = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(directory);
    if (place->directory < 0) return false;
    if (fill_from_directory(place, place->name)) return true;
    snprintf(place->short_name, sizeof place->short_name, ".bind-%d-%d", (int)getpid(), place->directory);
    return fill_from_directory(place, place->short_name);
}

static bool bind_at(int fd, struct place *place)
{
    if (bind(fd, (struct sockaddr *)&place->address, sizeof place->address) != 0) return false;
    if (!place->short_name[0]) return true;
    if (renameat(place->directory, place->short_name, place->directory, place->name) == 0) return true;
    int error = errno;
    unlinkat(place->directory, place->short_name, 0);
    errno = error;
    return false;
}

static bool refuse(char **out_error, const char *path, const char *why)
{
    *out_error = need_printf("socket %s: %s", path, why);
    return false;
}

static bool clear_stale(const char *path, char **out_error)
{
    struct stat st;
    if (lstat(path, &st) != 0) return errno == ENOENT || refuse(out_error, path, strerror(errno));
    if (!S_ISSOCK(st.st_mode)) return refuse(out_error, path, "a file that is no socket is in the way");
    int fd = unix_connect(path, PROBE_MS);
    int error = errno;
    if (fd >= 0) close(fd);
    if (fd >= 0 || error == EAGAIN) return refuse(out_error, path, "another process listens there");
    if (error != ECONNREFUSED && error != ENOENT) return refuse(out_error, path, strerror(error));
    if (unlink(path) != 0 && errno != ENOENT) return refuse(out_error, path, strerror(errno));
    return true;
}

static bool bind_new(const char *path, struct unix_listener *l)
{
    struct place place;
    struct stat st;
    bool done = find_place(path, &place) && bind_at(l->fd, &place) && lstat(path, &st) == 0;
    int error = errno;
    if (place.directory >= 0) close(place.directory);
    errno = error;
    if (!done) return false;
    l->path = need_strdup(path);
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    return true;
}

bool unix_bind(const char *path, struct unix_listener *l, char **out_error)
{
    *l = (struct unix_listener){.fd = -1};
    if (!clear_stale(path, out_error)) return false;
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd >= 0 && bind_new(path, l)) return true;
    refuse(out_error, path, strerror(errno));
    unix_close(l);
    return false;
}

bool unix_listen(struct unix_listener *l, char **out_error)
{
    return listen(l->fd, BACKLOG) == 0 || refuse(out_error, l->path, strerror(errno));
}

void unix_close(struct unix_listener *l)
{
    /* The open socket pins the inode: its number cannot belong to another file before the close. */
    struct stat st;
    if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino) unlink(l->path);
    if (l->fd >= 0) close(l->fd);
    free(l->path);
    *l = (struct unix_listener){.fd = -1};
}

static int connect_to(const char *path, int ms)
{
    struct sockaddr_un address;
    if (!fill_address(&address, path)) return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int unix_connect(const char *path, int ms)
{
    if (FITS(strlen(path))) return connect_to(path, ms);
    int file = open(path, O_PATH | O_CLOEXEC);
    if (file < 0) return -1;
    char text[64];
    snprintf(text, sizeof text, "/proc/self/fd/%d", file);
    int fd = connect_to(text, ms);
    int error = errno;
    close(file);
    errno = error;
    return fd;
}

const char *unix_path(const char *endpoint)
{
    if (strncmp(endpoint, "unix:", 5) != 0) return endpoint;
    endpoint += 5;
    return strncmp(endpoint, "//", 2) == 0 ? endpoint + 2 : endpoint;
}
