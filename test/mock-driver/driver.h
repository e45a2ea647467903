/* SPDX-License-Identifier: Apache-2.0 */
/* One mock driver: its sockets, and the calls that come to them. Handlers run on the loop's threads. */
#ifndef MOCK_DRIVER_H
#define MOCK_DRIVER_H

#include "common/grpc_server.h"
#include "mock-driver/config.h"

struct driver;

/* NULL when a socket could not be opened; the cause is logged. config and loop are borrowed. */
struct driver *driver_start(const struct config *config, int64_t number, struct gloop *loop);
void driver_stop(struct driver *driver); /* NULL is fine */

#endif
