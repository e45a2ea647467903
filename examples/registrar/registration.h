/* SPDX-License-Identifier: Apache-2.0 */
/* The registration socket: what the kubelet asks, and what it is told. */
#ifndef REGISTRAR_REGISTRATION_H
#define REGISTRAR_REGISTRATION_H

#include "common/grpc_server.h"
#include "registrar/config.h"

struct registration;

/*
 * Serves <registry>/<driver>-reg.sock; a refusal by the kubelet ends the program with 1 (stop_request). NULL: logged.
 * config and loop are borrowed.
 */
struct registration *registration_start(const struct config *config, const char *driver, struct gloop *loop);
void registration_stop(struct registration *registration); /* socket and probe file are removed; NULL is fine */

/* HTTP status of /healthz by calling the own socket: 200, 404, 500. *out_text: malloc'ed line for people. Any thread.
 */
int registration_health(const struct registration *registration, char **out_text);

/* The file beside the driver's socket that tells the kubelet has asked. Failures are logged. */
void probe_file_remove(const struct config *config);
bool probe_file_exists(const struct config *config);

#endif
