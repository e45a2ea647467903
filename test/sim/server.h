/* SPDX-License-Identifier: Apache-2.0 */
/* What the two halves of the simulated API server share: server.c has the objects and their rules, traffic.c carries
 * requests, answers and watch events, and does what others do to the objects. */
#ifndef SIM_SERVER_H
#define SIM_SERVER_H

#include "sim/sim.h"

struct reply {
    int status;
    const char *reason;
    json_t *body; /* owned */
};

struct reply server_status(int code, const char *reason, const char *kind);
struct reply server_execute(struct sim *s, const struct cr_api_request *r);
void server_stamp(struct sim *s, json_t *object); /* a new resourceVersion */
void server_new_node(struct sim *s);
json_t *server_list(const json_t *csinode, const char *list);   /* borrowed */
const char *server_meta(const json_t *object, const char *key); /* NULL when absent */

#endif
