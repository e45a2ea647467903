/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between publisher.c (decides what to do now) and publish_requests.c (sends it, understands the answer): the calls
 * that cross. Nobody else uses them.
 */
#ifndef CR_CORE_PUBLISH_H
#define CR_CORE_PUBLISH_H

#include "core/internal.h"

/* publish_requests.c */
void cr_publish_send(struct cr_core *core, enum cr_op op, char *body); /* body is taken; NULL for a read */
void cr_publish_forget_node(struct cr_publisher *pub);
void cr_publish_forget_csinode(struct cr_publisher *pub);
void cr_publish_pause(struct cr_core *core, int64_t delay_ms); /* nothing is sent before that */
/* Conflicts, a missing Node, nonsense: the API works, but this try came to nothing. */
void cr_publish_try_again(struct cr_core *core, const struct csireg_error *err);

/* publisher.c */
/* The name cannot be published, or not be removed, as things are. Takes err; dropped: the server keeps no
 * registrations. */
void cr_publish_failed(struct cr_core *core, struct cr_driver *d, struct csireg_error *err, bool dropped);

#endif
