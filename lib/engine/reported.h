/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registration sockets that the host reported through the second door. Engine thread.
 *
 * A report is a hint: the path is looked at and what is there decides; that a socket is gone is taken at its word. A
 * path gets a generation when it comes and loses it when it goes, so the same inode reported after a removal is another
 * socket, while the same report twice is none. At most CR_MAX_SOCKETS paths.
 */
#ifndef CR_ENGINE_REPORTED_H
#define CR_ENGINE_REPORTED_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/messages.h"

struct cr_reported {
    struct cr_list paths;
    size_t n;
    uint64_t generation; /* of the path that came last */
};

enum cr_report {
    CR_REPORT_SEEN = 1, /* a socket: the identity is filled */
    CR_REPORT_GONE,     /* a reported socket that is no longer there */
    CR_REPORT_IGNORED,  /* no socket and never was one; error_number says why, ENOSPC: too many */
};

void cr_reported_init(struct cr_reported *r);
void cr_reported_fini(struct cr_reported *r);
enum cr_report cr_reported_seen(struct cr_reported *r, const char *path, struct cr_identity *out, int *error_number);
enum cr_report cr_reported_gone(struct cr_reported *r, const char *path); /* GONE, or IGNORED: it was not reported */

#endif
