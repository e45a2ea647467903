/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "wire/arena.h"
#include "wire/check.h"
#include "wire/csi.pb-c.h"
#include "wire/registration.pb-c.h"

typedef Pluginregistration__PluginInfo plugin_info;
typedef Csi__V1__NodeGetCapabilitiesResponse node_capabilities;
typedef Csi__V1__NodeGetInfoResponse node_info;
typedef Csi__V1__Topology topology;

#define LEAST_ROOM  4096
#define MOST_GROWTH 128 /* bytes of a decoded message for each of its bytes; the worst ones take half of that */

/* Copies what was unpacked out of the arena; false: no memory, the caller empties the result. */
typedef bool copy_fn(const ProtobufCMessage *message, bool flag, struct cr_rpc_result *out);

static bool copy_plugin_info(const ProtobufCMessage *message, bool flag, struct cr_rpc_result *out)
{
    const plugin_info *in = (const plugin_info *)message;
    (void)flag;
    out->plugin = (struct cr_plugin_info){
        .type = cr_strdup(in->type),
        .name = cr_strdup(in->name),
        .endpoint = cr_strdup(in->endpoint),
        .versions = cr_strv_dup((const char *const *)in->supported_versions, in->n_supported_versions),
        .n_versions = in->n_supported_versions,
    };
    return out->plugin.type && out->plugin.name && out->plugin.endpoint && out->plugin.versions;
}

static bool copy_nothing(const ProtobufCMessage *message, bool flag, struct cr_rpc_result *out)
{
    (void)message;
    (void)flag;
    (void)out;
    return true;
}

static bool copy_capabilities(const ProtobufCMessage *message, bool flag, struct cr_rpc_result *out)
{
    const node_capabilities *in = (const node_capabilities *)message;
    struct cr_node_capabilities *caps = &out->capabilities;
    (void)flag;
    if (in->n_capabilities == 0) return true;
    caps->types = cr_calloc(in->n_capabilities, sizeof *caps->types);
    if (!caps->types) return false;
    for (size_t i = 0; i < in->n_capabilities; i++) {
        const Csi__V1__NodeServiceCapability__RPC *rpc = in->capabilities[i]->rpc;
        if (rpc && rpc->type != 0) caps->types[caps->n_types++] = (int32_t)rpc->type;
    }
    return true;
}

/* Where key is or belongs in the sorted segments. */
static size_t place_of(const struct cr_node_info *info, const char *key, bool *found)
{
    size_t low = 0, high = info->n_segments;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(info->segments[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < info->n_segments && strcmp(info->segments[low].key, key) == 0;
    return low;
}

/* There is room for one more. A key that is there already takes the new value. */
static bool put_segment(struct cr_node_info *info, const char *key, const char *value)
{
    bool found;
    size_t at = place_of(info, key, &found);
    struct cr_pair *pair = &info->segments[at];
    struct cr_pair new = {.key = found ? NULL : cr_strdup(key), .value = cr_strdup(value)};
    if (!new.value || (!found && !new.key)) {
        cr_free(new.key);
        cr_free(new.value);
        return false;
    }
    if (found) {
        cr_free(pair->value);
        pair->value = new.value;
        return true;
    }
    memmove(pair + 1, pair, (info->n_segments - at) * sizeof *pair);
    *pair = new;
    info->n_segments++;
    return true;
}

static bool copy_topology(const topology *in, struct cr_node_info *info)
{
    if (!in || in->n_segments == 0) return true;
    info->segments = cr_calloc(in->n_segments, sizeof *info->segments);
    if (!info->segments) return false;
    for (size_t i = 0; i < in->n_segments; i++)
        if (!put_segment(info, in->segments[i]->key, in->segments[i]->value)) return false;
    return true;
}

static bool copy_node_info(const ProtobufCMessage *message, bool flag, struct cr_rpc_result *out)
{
    const node_info *in = (const node_info *)message;
    out->node.node_id = cr_strdup(in->node_id);
    if (!out->node.node_id) return false;
    if (flag) return true;
    out->node.max_volumes = in->max_volumes_per_node;
    return copy_topology(in->accessible_topology, &out->node);
}

static const struct method {
    const char *name;
    struct cr_wire_plan answer;
    const char *ignored_with_flag; /* field of the answer */
    copy_fn *copy;
} methods[] = {
    [CR_RPC_GET_INFO] = {.name = "/pluginregistration.Registration/GetInfo",
                         .answer = {.descriptor = &pluginregistration__plugin_info__descriptor,
                                    .rules = {{.field = "type", .max_bytes = CR_MAX_PLUGIN_TYPE},
                                              {.field = "name", .max_bytes = CR_MAX_PLUGIN_NAME},
                                              {.field = "endpoint", .max_bytes = CR_MAX_PATH},
                                              {.field = "supported_versions",
                                               .max_bytes = CR_MAX_VERSION,
                                               .max_items = CR_MAX_VERSIONS}}},
                         .copy = copy_plugin_info},
    [CR_RPC_NOTIFY] = {.name = "/pluginregistration.Registration/NotifyRegistrationStatus",
                       .answer = {.descriptor = &pluginregistration__registration_status_response__descriptor},
                       .copy = copy_nothing},
    [CR_RPC_NODE_GET_CAPABILITIES] = {.name = "/csi.v1.Node/NodeGetCapabilities",
                                      .answer = {.descriptor = &csi__v1__node_get_capabilities_response__descriptor,
                                                 .rules = {{.field = "capabilities",
                                                            .max_items = CR_MAX_CAPABILITIES}}},
                                      .copy = copy_capabilities},
    [CR_RPC_NODE_GET_INFO] = {.name = "/csi.v1.Node/NodeGetInfo",
                              .answer = {.descriptor = &csi__v1__node_get_info_response__descriptor,
                                         .rules = {{.field = "segments", .max_items = CR_MAX_TOPOLOGY_SEGMENTS}}},
                              .ignored_with_flag = "accessible_topology",
                              .copy = copy_node_info},
};

const char *cr_wire_method_name(enum cr_rpc_method method) { return methods[method].name; }

static size_t encode_notify(bool registered, const char *text, uint8_t *out)
{
    char error[CR_MAX_NOTIFY_ERROR + 1] = "";
    Pluginregistration__RegistrationStatus status = PLUGINREGISTRATION__REGISTRATION_STATUS__INIT;
    size_t len = text ? strlen(text) : 0;
    if (len > CR_MAX_NOTIFY_ERROR) len = cr_utf8_cut(text, CR_MAX_NOTIFY_ERROR);
    if (len) memcpy(error, text, len);
    cr_utf8_sanitise(error, len);
    status.plugin_registered = registered;
    status.error = error;
    return pluginregistration__registration_status__pack(&status, out);
}

static size_t encode_node_get_info(bool flag, uint8_t *out)
{
    Csi__V1__NodeGetInfoRequest request = CSI__V1__NODE_GET_INFO_REQUEST__INIT;
    request.controller_get_node_info = flag;
    return csi__v1__node_get_info_request__pack(&request, out);
}

size_t cr_wire_encode_request(enum cr_rpc_method method, bool flag, const char *text, uint8_t out[CR_WIRE_MAX_REQUEST])
{
    switch (method) {
    case CR_RPC_NOTIFY:
        return encode_notify(flag, text, out);
    case CR_RPC_NODE_GET_INFO:
        return encode_node_get_info(flag, out);
    case CR_RPC_GET_INFO:
    case CR_RPC_NODE_GET_CAPABILITIES:
        break;
    }
    return 0;
}

static void fail(struct cr_rpc_result *out, bool refused, const char *why)
{
    char text[256];
    cr_rpc_result_fini(out);
    snprintf(text, sizeof text, refused ? "answer refused: %s" : "%s", why);
    out->code = CR_GRPC_INTERNAL;
    out->refused = refused;
    out->text = cr_strdup(text);
}

/* What decoding may take: the bound, or less for a short message, none of which grows that much. A block of the bound's
 * size would be mapped and unmapped for every answer. */
static size_t room_for(size_t len)
{
    const size_t bound = CR_DECODE_FACTOR * CR_MAX_RPC_MESSAGE, enough = LEAST_ROOM + MOST_GROWTH * len;
    return enough < bound ? enough : bound;
}

static void unpack(const struct method *m, bool flag, const uint8_t *data, size_t len, struct cr_rpc_result *out)
{
    struct cr_arena arena;
    if (!cr_arena_init(&arena, room_for(len))) {
        fail(out, false, "out of memory");
        return;
    }
    const ProtobufCMessage *message = protobuf_c_message_unpack(m->answer.descriptor, &arena.allocator, len, data);
    if (!message)
        fail(out, true, arena.exhausted ? "decoding it takes too much memory" : "not a protobuf message");
    else if (!m->copy(message, flag, out))
        fail(out, false, "out of memory");
    cr_arena_fini(&arena);
}

void cr_wire_decode_answer(enum cr_rpc_method method, bool flag, const uint8_t *data, size_t len,
                           struct cr_rpc_result *out)
{
    const struct method *m = &methods[method];
    char why[192];
    if (len > CR_MAX_RPC_MESSAGE) {
        snprintf(why, sizeof why, "it has %zu bytes, more than %d", len, CR_MAX_RPC_MESSAGE);
        fail(out, true, why);
    } else if (!cr_wire_check(&m->answer, flag ? m->ignored_with_flag : NULL, data, len, why, sizeof why)) {
        fail(out, true, why);
    } else {
        unpack(m, flag, data, len, out);
    }
}
