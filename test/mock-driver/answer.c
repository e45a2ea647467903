/* SPDX-License-Identifier: Apache-2.0 */
#include "mock-driver/answer.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/unix_socket.h"

#define PADDING_FIELD 1000 /* no message has it */

static void put_text(struct bytes *b, unsigned field, const char *text, int64_t number)
{
    char *expanded = config_expand(text, number);
    struct bytes value;
    if (script_bytes(expanded, &value)) put_bytes(b, field, &value);
    bytes_fini(&value);
    free(expanded);
}

static const char *reported_endpoint(const struct config *c)
{
    if (c->report_endpoint) return c->report_endpoint;
    return c->endpoint ? unix_path(c->endpoint) : "";
}

static void build_plugin_info(const struct config *c, int64_t number, struct bytes *out)
{
    put_text(out, 1, c->plugin_type, number);
    put_text(out, 2, c->plugin_name ? c->plugin_name : c->name, number);
    put_text(out, 3, reported_endpoint(c), number);
    for (size_t i = 0; i < c->versions.n; i++) put_text(out, 4, c->versions.items[i], number);
}

static void build_identity(const struct config *c, int64_t number, struct bytes *out)
{
    put_text(out, 1, c->name, number);
    put_text(out, 2, c->vendor_version, number);
}

static void build_probe(const struct config *c, struct bytes *out)
{
    if (strcmp(c->probe, "absent") == 0) return;
    struct bytes ready = {0};
    put_int(&ready, 1, strcmp(c->probe, "ready") == 0);
    put_message(out, 1, &ready);
    bytes_fini(&ready);
}

static void build_capabilities(const struct config *c, struct bytes *out)
{
    for (size_t i = 0; i < c->n_capabilities; i++) {
        struct bytes rpc = {0}, capability = {0};
        put_int(&rpc, 1, c->capabilities[i]);
        put_message(&capability, 1, &rpc);
        put_message(out, 1, &capability);
        bytes_fini(&capability);
        bytes_fini(&rpc);
    }
}

static void put_segment(struct bytes *topology, const struct bytes *key, const struct bytes *value)
{
    struct bytes entry = {0};
    put_bytes(&entry, 1, key);
    put_bytes(&entry, 2, value);
    put_message(topology, 1, &entry);
    bytes_fini(&entry);
}

static void put_made_up_segment(struct bytes *topology, int64_t i)
{
    char *item = need_printf("topology.mock.csi.example.com/key-%lld=value-%lld", (long long)i, (long long)i);
    struct bytes key = {0}, value = {0};
    if (config_segment(item, &key, &value)) put_segment(topology, &key, &value);
    bytes_fini(&key);
    bytes_fini(&value);
    free(item);
}

static void build_topology(const struct config *c, struct bytes *out)
{
    struct bytes topology = {0};
    for (size_t i = 0; i < c->topology.n; i++) {
        struct bytes key = {0}, value = {0};
        if (config_segment(c->topology.items[i], &key, &value)) put_segment(&topology, &key, &value);
        bytes_fini(&key);
        bytes_fini(&value);
    }
    for (int64_t i = 0; i < c->topology_count; i++) put_made_up_segment(&topology, i);
    if (c->topology.n || c->topology_count) put_message(out, 3, &topology);
    bytes_fini(&topology);
}

/* Item call-1 of a sequence of n > 0, the last one for all later calls. */
static size_t step(int64_t call, size_t n) { return (uint64_t)call > n ? n - 1 : (size_t)call - 1; }

static void build_node_info(const struct config *c, int64_t number, int64_t call, bool flagged, struct bytes *out)
{
    put_text(out, 1, c->node_ids.n ? c->node_ids.items[step(call, c->node_ids.n)] : c->node_id, number);
    if (flagged && c->honour_flag) return;
    put_int(out, 2, c->n_limits ? c->limits[step(call, c->n_limits)] : c->limit);
    build_topology(c, out);
}

static void pad(struct bytes *out, int64_t padding)
{
    if (padding == 0) return;
    struct bytes zeros = {need_calloc((size_t)padding, 1), (size_t)padding};
    put_bytes(out, PADDING_FIELD, &zeros);
    bytes_fini(&zeros);
}

void answer_build(const struct config *c, int64_t number, enum mock_method method, int64_t call, bool flagged,
                  struct bytes *out)
{
    const struct script *script = &c->scripts[method];
    *out = (struct bytes){0};
    if (script->raw) return bytes_add(out, script->raw_answer.data, script->raw_answer.len);
    switch (method) {
    case MOCK_GET_INFO:
        build_plugin_info(c, number, out);
        break;
    case MOCK_GET_PLUGIN_INFO:
        build_identity(c, number, out);
        break;
    case MOCK_PROBE:
        build_probe(c, out);
        break;
    case MOCK_NODE_GET_CAPABILITIES:
        build_capabilities(c, out);
        break;
    case MOCK_NODE_GET_INFO:
        build_node_info(c, number, call, flagged, out);
        break;
    default:
        break; /* an empty message */
    }
    pad(out, script->padding);
}
