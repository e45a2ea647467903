/* SPDX-License-Identifier: Apache-2.0 */
/* A non-blocking connect to a Unix stream socket by its path, of any length to CR_MAX_PATH. Engine thread; private to
 * rpc.c and the engine (probes). */
#ifndef CR_IO_RPC_DIAL_H
#define CR_IO_RPC_DIAL_H

#include "base/messages.h"

/* 0, a connected non-blocking descriptor (CLOEXEC) that the caller owns, and the identity of the file; else an errno:
 * EINVAL for a path that is not absolute, ENAMETOOLONG past CR_MAX_PATH or past CR_MAX_SUN_PATH without /proc,
 * ENOTSOCK for another kind of file, EPERM (with the identity) when the file's owner or the peer's user is not among
 * allowed (NULL: everybody), EAGAIN when the listener's queue is full or the file was replaced meanwhile. */
int cr_rpc_dial(const char *path, const struct cr_uids *allowed, int *out_fd, struct cr_identity *out_identity);

#endif
