/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of csireg-registrar. Read-only after config_read. */
#ifndef REGISTRAR_CONFIG_H
#define REGISTRAR_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/flags.h"
#include "common/log.h"

struct config {
    const char *csi_path;          /* the driver's socket, without a scheme */
    const char *registration_path; /* the same socket as the kubelet sees it */
    const char *registry;          /* directory of our own socket */
    char *probe_file;              /* owned; tells that the kubelet has asked */
    char *http_endpoint;           /* owned; NULL: none */
    int64_t timeout_ms;
    bool probe_mode;

    /* the command line as read */
    const char *csi_address, *http_text, *mode;
    int64_t health_port, connection_timeout, verbosity;
    bool logtostderr;
    struct flag rows[11];
    struct log_flags log;
    struct flags flags;
};

int config_read(struct config *c, int argc, char **argv); /* -1: go on; else the exit code. config_fini in each case */
void config_fini(struct config *c);

#endif
