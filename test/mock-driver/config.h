/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line makes of a mock driver: its answers and its faults. Read-only once the drivers run. */
#ifndef MOCK_CONFIG_H
#define MOCK_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/flags.h"
#include "common/log.h"
#include "mock-driver/script.h"

/* How a socket treats whoever connects. */
enum peer { PEER_GRPC, PEER_SILENT, PEER_GARBAGE, PEER_HTTP1, PEER_CLOSE };

/* All texts but paths may be "hex:..." for any bytes, and "%d" in them is the driver's number. */
struct config {
    int64_t count, first;
    const char *name, *endpoint, *registration_socket; /* paths: NULL or "" for none */
    const char *plugin_name, *report_endpoint;         /* NULL: name, and the endpoint's path */
    const char *plugin_type, *vendor_version, *node_id, *probe;
    struct flag_list versions, topology, node_ids;
    int64_t topology_count, limit;
    int64_t *limits, *capabilities; /* owned */
    size_t n_limits, n_capabilities;
    bool honour_flag, no_node_service, no_registration_service, exit_on_false, bind_early;
    int64_t listen_after, service_after; /* milliseconds */
    enum peer registration_peer, service_peer;
    struct script scripts[MOCK_METHODS];
    const char *calls; /* file; NULL or "": standard output */

    /* the command line as read */
    struct flag_list limit_texts, capability_texts, delays, errors, failures, hangs, paddings, raws;
    const char *registration_peer_text, *service_peer_text;
    struct flag rows[36];
    struct log_flags log;
    struct flags flags;
};

int config_read(struct config *c, int argc, char **argv); /* -1: go on; else the exit code. config_fini in each case */
void config_fini(struct config *c);

/* "KEY=VALUE", both as script_bytes takes them; false: not of this form. */
bool config_segment(const char *item, struct bytes *key, struct bytes *value);

char *config_expand(const char *text, int64_t number); /* the first "%d" replaced; the caller's to free */

#endif
