/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream Unix sockets in files, for paths of any length: what does not fit sockaddr_un is bound through a directory
 * descriptor or a short name that is renamed, and connected to through an O_PATH descriptor. Any thread.
 */
#ifndef COMMON_UNIX_SOCKET_H
#define COMMON_UNIX_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

struct unix_listener {
    int fd; /* bound, CLOEXEC, non-blocking; -1: none */
    char *path;
    dev_t dev; /* identity of the file made */
    ino_t ino;
};

/*
 * Binds path; listening is unix_listen's. A socket file in the way is replaced when nobody answers there, anything else
 * is refused. False: *out_error (malloc'ed) names path and cause, and *l holds nothing.
 */
bool unix_bind(const char *path, struct unix_listener *l, char **out_error);
bool unix_listen(struct unix_listener *l, char **out_error);

/* Closes, and removes the file if it is still the one made. An empty listener is fine. */
void unix_close(struct unix_listener *l);

/* A connected descriptor (blocking, CLOEXEC), or -1 and errno; a full backlog is waited for at most ms. */
int unix_connect(const char *path, int ms);

/* "unix:/a" and "unix:///a" without their scheme, anything else as it is. Borrowed from the argument. */
const char *unix_path(const char *endpoint);

#endif
