/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The open connections by the id of the effect that made them. Engine thread. At most two an instance: the core's
 * bound. To end a connection takes longer than to start a call or a request, so a closed one is unknown at once and
 * ended when there is time: after what has been begun is on its way.
 */
#ifndef CR_ENGINE_CONNECTIONS_H
#define CR_ENGINE_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "io/rpc.h"

#define CR_CONNECTION_BUCKETS 64

struct cr_connections {
    struct cr_list buckets[CR_CONNECTION_BUCKETS];
    struct cr_list closed; /* to be ended */
    size_t n_closed;
};

void cr_connections_init(struct cr_connections *c);
void cr_connections_close_all(struct cr_connections *c);

bool cr_connections_add(struct cr_connections *c, uint64_t id, struct cr_conn *conn); /* false: no memory, not taken */
struct cr_conn *cr_connections_get(const struct cr_connections *c, uint64_t id);      /* borrowed; NULL: none */
void cr_connections_close(struct cr_connections *c, uint64_t id);                     /* unknown id: nothing */
void cr_connections_end_one(struct cr_connections *c);                                /* of those closed */
size_t cr_connections_closed(const struct cr_connections *c);                         /* how many wait for their end */

#endif
