/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protobuf decoders. Input: method and flag, allocation that fails, size of an arena, the message.
 * What is accepted is what protobuf-c reads by itself; it keeps its bounds, and reads the same when it is packed anew.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "base/utf8.h"
#include "fuzz/fuzz.h"
#include "wire/arena.h"
#include "wire/csi.pb-c.h"
#include "wire/registration.pb-c.h"
#include "wire/wire.h"

typedef Pluginregistration__PluginInfo plugin_info;
typedef Csi__V1__NodeGetCapabilitiesResponse node_capabilities;
typedef Csi__V1__NodeGetInfoResponse node_info;

struct asked {
    enum cr_rpc_method method;
    bool flag;
};

static const ProtobufCMessageDescriptor *const answers[] = {
    [CR_RPC_GET_INFO] = &pluginregistration__plugin_info__descriptor,
    [CR_RPC_NOTIFY] = &pluginregistration__registration_status_response__descriptor,
    [CR_RPC_NODE_GET_CAPABILITIES] = &csi__v1__node_get_capabilities_response__descriptor,
    [CR_RPC_NODE_GET_INFO] = &csi__v1__node_get_info_response__descriptor,
};

/* ---- what an answer promises by itself ---- */

static void check_string(const char *s, size_t max)
{
    CHECK(s);
    CHECK(strlen(s) <= max);
    CHECK(cr_utf8_valid(s, strlen(s)));
}

static void check_plugin(const struct cr_plugin_info *p)
{
    check_string(p->type, CR_MAX_PLUGIN_TYPE);
    check_string(p->name, CR_MAX_PLUGIN_NAME);
    check_string(p->endpoint, CR_MAX_PATH);
    CHECK(p->n_versions <= CR_MAX_VERSIONS);
    for (size_t i = 0; i < p->n_versions; i++) check_string(p->versions[i], CR_MAX_VERSION);
    CHECK(!p->versions[p->n_versions]);
}

static void check_info(const struct cr_node_info *info, bool flag)
{
    check_string(info->node_id, CR_MAX_RPC_MESSAGE);
    CHECK(!flag || (info->n_segments == 0 && info->max_volumes == 0));
    CHECK(info->n_segments <= CR_MAX_TOPOLOGY_SEGMENTS);
    for (size_t i = 0; i < info->n_segments; i++) {
        check_string(info->segments[i].key, CR_MAX_RPC_MESSAGE);
        check_string(info->segments[i].value, CR_MAX_RPC_MESSAGE);
        if (i) CHECK(strcmp(info->segments[i - 1].key, info->segments[i].key) < 0);
    }
}

static void check_result(struct asked a, const struct cr_rpc_result *r)
{
    if (r->code != 0) {
        CHECK(r->code == CR_GRPC_INTERNAL);
        if (r->text) fuzz_check_text(r->text, 256);
        CHECK(!r->plugin.type && !r->capabilities.types && !r->node.node_id && !r->node.segments);
        return;
    }
    CHECK(!r->refused && !r->text);
    if (a.method == CR_RPC_GET_INFO) check_plugin(&r->plugin);
    if (a.method == CR_RPC_NODE_GET_INFO) check_info(&r->node, a.flag);
    CHECK(r->capabilities.n_types <= CR_MAX_CAPABILITIES);
}

/* ---- against protobuf-c alone ---- */

static void compare_plugin(const struct cr_plugin_info *p, const plugin_info *m)
{
    CHECK(strcmp(p->type, m->type) == 0 && strcmp(p->name, m->name) == 0 && strcmp(p->endpoint, m->endpoint) == 0);
    CHECK(p->n_versions == m->n_supported_versions);
    for (size_t i = 0; i < p->n_versions; i++) CHECK(strcmp(p->versions[i], m->supported_versions[i]) == 0);
}

static void compare_capabilities(const struct cr_node_capabilities *c, const node_capabilities *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_capabilities; i++) {
        const Csi__V1__NodeServiceCapability__RPC *rpc = m->capabilities[i]->rpc;
        if (!rpc || rpc->type == 0) continue;
        CHECK(n < c->n_types && c->types[n] == (int32_t)rpc->type);
        n++;
    }
    CHECK(n == c->n_types);
}

static const char *last_value(const Csi__V1__Topology *t, const char *key)
{
    const char *value = NULL;
    for (size_t i = 0; i < t->n_segments; i++)
        if (strcmp(t->segments[i]->key, key) == 0) value = t->segments[i]->value;
    return value;
}

static bool has_key(const struct cr_node_info *info, const char *key)
{
    for (size_t i = 0; i < info->n_segments; i++)
        if (strcmp(info->segments[i].key, key) == 0) return true;
    return false;
}

static void compare_info(const struct cr_node_info *info, const node_info *m, bool flag)
{
    const Csi__V1__Topology *t = m->accessible_topology;
    CHECK(strcmp(info->node_id, m->node_id) == 0);
    if (flag) return;
    CHECK(info->max_volumes == m->max_volumes_per_node);
    for (size_t i = 0; t && i < t->n_segments; i++) CHECK(has_key(info, t->segments[i]->key));
    for (size_t i = 0; i < info->n_segments; i++)
        CHECK(strcmp(info->segments[i].value, last_value(t, info->segments[i].key)) == 0);
}

static void compare(struct asked a, const struct cr_rpc_result *r, const ProtobufCMessage *m)
{
    if (a.method == CR_RPC_GET_INFO) compare_plugin(&r->plugin, (const plugin_info *)m);
    if (a.method == CR_RPC_NODE_GET_CAPABILITIES) compare_capabilities(&r->capabilities, (const node_capabilities *)m);
    if (a.method == CR_RPC_NODE_GET_INFO) compare_info(&r->node, (const node_info *)m, a.flag);
}

/* Packed anew, the message is accepted again and says the same. */
static void check_packed(struct asked a, const ProtobufCMessage *m)
{
    struct cr_rpc_result again = {0};
    size_t len = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(len + 1);
    CHECK(bytes);
    protobuf_c_message_pack(m, bytes);
    if (len <= CR_MAX_RPC_MESSAGE) {
        cr_wire_decode_answer(a.method, a.flag, bytes, len, &again);
        CHECK(again.code == 0);
        compare(a, &again, m);
    }
    cr_rpc_result_fini(&again);
    free(bytes);
}

static void check_accepted(struct asked a, const struct cr_rpc_result *r, const struct fuzz_in *in)
{
    ProtobufCMessage *m = protobuf_c_message_unpack(answers[a.method], NULL, in->left, in->at);
    if (!m) {
        CHECK(a.flag); /* only where a part is not looked into */
        return;
    }
    compare(a, r, m);
    if (!a.flag) check_packed(a, m);
    protobuf_c_message_free_unpacked(m, NULL);
}

/* ---- a flagged answer: the topology is not looked into (KEP-6011) ---- */

static bool varint(struct fuzz_in *in, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && in->left; shift += 7) {
        uint8_t b = fuzz_byte(in);
        *out |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) return true;
    }
    return false;
}

/* Copies the message without its topology; SIZE_MAX: it is no message, or the topology has another type. */
static size_t strip(struct fuzz_in in, uint8_t *out)
{
    enum { TOPOLOGY = 3 << 3 | 2 };
    size_t len = 0;
    while (in.left) {
        const uint8_t *start = in.at;
        uint64_t tag, n = 0;
        if (!varint(&in, &tag) || (tag >> 3 == 3 && tag != TOPOLOGY)) return SIZE_MAX;
        unsigned type = tag & 7;
        if (type == 0 && !varint(&in, &n)) return SIZE_MAX;
        if (type == 2 && !varint(&in, &n)) return SIZE_MAX;
        size_t skip = type == 0 ? 0 : type == 1 ? 8 : type == 2 ? (size_t)n : type == 5 ? 4 : SIZE_MAX;
        if (skip > in.left) return SIZE_MAX;
        fuzz_bytes(&in, skip);
        if (tag == TOPOLOGY) continue;
        memcpy(out + len, start, (size_t)(in.at - start));
        len += (size_t)(in.at - start);
    }
    return len;
}

static void check_ignored(const struct cr_rpc_result *r, const struct fuzz_in *in)
{
    struct cr_rpc_result bare = {0};
    uint8_t *bytes = malloc(in->left + 1);
    CHECK(bytes);
    size_t len = strip(*in, bytes);
    if (len != SIZE_MAX && in->left <= CR_MAX_RPC_MESSAGE) {
        cr_wire_decode_answer(CR_RPC_NODE_GET_INFO, true, bytes, len, &bare);
        /* it must be a message all the same, of bearable size */
        if (bare.code == 0 && r->code != 0) CHECK(strstr(r->text, "not a protobuf") || strstr(r->text, "memory"));
        if (r->code == 0) CHECK(bare.code == 0 && strcmp(r->node.node_id, bare.node.node_id) == 0);
    }
    cr_rpc_result_fini(&bare);
    free(bytes);
}

/* ---- the parts ---- */

/* However small the arena is, unpacking what protobuf-c can read ends, and stays in it. */
static void unpack_into(size_t size, enum cr_rpc_method method, const struct fuzz_in *in)
{
    struct cr_arena arena;
    CHECK(cr_arena_init(&arena, size));
    protobuf_c_message_unpack(answers[method], &arena.allocator, in->left, in->at);
    CHECK(arena.used <= arena.size);
    cr_arena_fini(&arena);
}

static void check_notification(bool registered, const struct fuzz_in *in)
{
    uint8_t bytes[CR_WIRE_MAX_REQUEST];
    char *text = fuzz_string(in->at, in->left);
    size_t len = cr_wire_encode_request(CR_RPC_NOTIFY, registered, text, bytes);
    Pluginregistration__RegistrationStatus *s = pluginregistration__registration_status__unpack(NULL, len, bytes);
    CHECK(s);
    CHECK(s->plugin_registered == registered);
    fuzz_check_text(s->error, CR_MAX_NOTIFY_ERROR);
    if (strlen(text) <= CR_MAX_NOTIFY_ERROR && fuzz_is_printable_utf8(text)) CHECK(strcmp(s->error, text) == 0);
    pluginregistration__registration_status__free_unpacked(s, NULL);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    uint8_t what = fuzz_byte(&in), fails = fuzz_byte(&in);
    uint16_t arena = fuzz_short(&in);
    struct asked a = {(enum cr_rpc_method)(1 + what % 4), what & 4};
    struct cr_rpc_result r = {0};
    fuzz_short_of_memory(fails);
    cr_wire_decode_answer(a.method, a.flag, in.at, in.left, &r);
    bool was_short = fuzz_memory_was_short();
    check_result(a, &r);
    if (was_short)
        CHECK(r.code != 0 && !(r.refused && r.text));
    else if (r.code == 0)
        check_accepted(a, &r, &in);
    if (!was_short && a.method == CR_RPC_NODE_GET_INFO && a.flag) check_ignored(&r, &in);
    cr_rpc_result_fini(&r);
    unpack_into(arena, a.method, &in);
    check_notification(a.flag, &in);
    return 0;
}
