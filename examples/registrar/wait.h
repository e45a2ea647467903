/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for the driver behind --csi-address. */
#ifndef REGISTRAR_WAIT_H
#define REGISTRAR_WAIT_H

#include "registrar/config.h"

enum wait_result { WAIT_READY, WAIT_STOPPED, WAIT_FAILED };

/*
 * Asks for the driver's name until it comes, then until the driver does not say any more that it is not ready; tells on
 * the log what it waits for. stop_fd ends it. READY: *out_name is the caller's and a proper driver name. FAILED:
 * logged.
 */
enum wait_result wait_for_driver(const struct config *config, int stop_fd, char **out_name);

#endif
