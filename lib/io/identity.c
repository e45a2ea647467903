/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "io/watcher.h"
#include "io/watcher_internal.h"

static int64_t nanoseconds(const struct statx_timestamp *t) { return t->tv_sec * 1000000000 + t->tv_nsec; }

int cr_file_identity(int dirfd, const char *path, int flags, struct cr_identity *out, unsigned *out_mode)
{
    struct statx sx;
    if (statx(dirfd, path, flags | AT_NO_AUTOMOUNT,
              STATX_TYPE | STATX_MODE | STATX_INO | STATX_UID | STATX_CTIME | STATX_BTIME, &sx))
        return errno;
    *out = (struct cr_identity){
        .dev = makedev(sx.stx_dev_major, sx.stx_dev_minor),
        .ino = sx.stx_ino,
        .uid = sx.stx_uid,
        .birth_ns = nanoseconds(sx.stx_mask & STATX_BTIME ? &sx.stx_btime : &sx.stx_ctime),
    };
    *out_mode = sx.stx_mode;
    return 0;
}

int cr_socket_identity(const char *path, struct cr_identity *out)
{
    struct cr_identity identity;
    unsigned mode;
    int err = cr_file_identity(AT_FDCWD, path, 0, &identity, &mode);
    if (err) return err;
    if (!S_ISSOCK(mode)) return ENOTSOCK;
    *out = identity;
    return 0;
}
