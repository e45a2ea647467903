/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin on one Unix socket, which is registration socket and service socket at once: what a manager under test needs
 * to register something. Its methods count their calls and can be told to hang. Any thread.
 */
#ifndef DOUBLES_FAKE_DRIVER_H
#define DOUBLES_FAKE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/grpc_server.h"

enum fake_method { FAKE_GET_INFO, FAKE_NOTIFY, FAKE_CAPABILITIES, FAKE_NODE_INFO, FAKE_METHODS };

struct fake_driver;

struct fake_driver_config {
    const char *path, *name;
    const char *type;          /* NULL: CSIPlugin */
    bool hangs[FAKE_METHODS];  /* these are never answered */
    bool info_from_controller; /* has the capability 9 */
};

struct fake_driver *fake_driver_start(struct gloop *loop, const struct fake_driver_config *config); /* fails the test */
void fake_driver_stop(struct fake_driver *d); /* its socket goes; NULL is fine */

/* Wait until the method was called that often since the start. */
void fake_driver_wait_called(struct fake_driver *d, enum fake_method method, unsigned times);
unsigned fake_driver_calls(struct fake_driver *d, enum fake_method method);
/* What the last notification said: the error text, "" when registered; valid until the next one. */
const char *fake_driver_notified(struct fake_driver *d, bool *registered);

#endif
