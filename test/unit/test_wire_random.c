/* SPDX-License-Identifier: Apache-2.0 */
/* Mutated messages: whatever came, an answer is whole, sorted, valid text and within its bounds, or it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "wire/wire.h"
#include "wire_bytes.h"

#define ROUNDS 20000

static void assert_text(const char *s, size_t max)
{
    assert_non_null(s);
    assert_true(strlen(s) <= max);
    assert_true(cr_utf8_valid(s, strlen(s)));
}

static void assert_plugin(const struct cr_plugin_info *p)
{
    assert_text(p->type, CR_MAX_PLUGIN_TYPE);
    assert_text(p->name, CR_MAX_PLUGIN_NAME);
    assert_text(p->endpoint, CR_MAX_PATH);
    assert_true(p->n_versions <= CR_MAX_VERSIONS);
    for (size_t i = 0; i < p->n_versions; i++) assert_text(p->versions[i], CR_MAX_VERSION);
    assert_null(p->versions[p->n_versions]);
}

static void assert_node(const struct cr_node_info *n, bool flag)
{
    assert_text(n->node_id, CR_MAX_RPC_MESSAGE);
    assert_true(n->n_segments <= (flag ? 0 : CR_MAX_TOPOLOGY_SEGMENTS));
    for (size_t i = 0; i < n->n_segments; i++) {
        assert_text(n->segments[i].key, CR_MAX_RPC_MESSAGE);
        assert_text(n->segments[i].value, CR_MAX_RPC_MESSAGE);
        if (i) assert_true(strcmp(n->segments[i - 1].key, n->segments[i].key) < 0);
    }
}

static void assert_accepted(enum cr_rpc_method method, bool flag, const struct cr_rpc_result *r)
{
    assert_null(r->text);
    if (method == CR_RPC_GET_INFO) assert_plugin(&r->plugin);
    if (method == CR_RPC_NODE_GET_INFO) assert_node(&r->node, flag);
    assert_true(r->capabilities.n_types <= CR_MAX_CAPABILITIES);
    for (size_t i = 0; i < r->capabilities.n_types; i++) assert_int_not_equal(r->capabilities.types[i], 0);
}

/* True: accepted. The bytes lie in a block of exactly their size, so that a sanitizer sees a read past it. */
static bool try_one(enum cr_rpc_method method, bool flag, const struct cr_buf *b)
{
    struct cr_rpc_result r = {0};
    uint8_t *exact = malloc(b->len + 1);
    memcpy(exact + 1, cr_buf_str(b), b->len);
    cr_wire_decode_answer(method, flag, exact + 1, b->len, &r);
    free(exact);
    bool accepted = r.code == 0;
    if (accepted) {
        assert_accepted(method, flag, &r);
    } else {
        assert_int_equal(r.code, CR_GRPC_INTERNAL);
        assert_true(r.refused);
        assert_text(r.text, CR_MAX_GRPC_MESSAGE);
    }
    cr_rpc_result_fini(&r);
    return accepted;
}

/* Every field of the four answers has a number up to 4, so that one message serves all of them. */
static struct cr_buf well_formed(struct cr_rng *rng)
{
    static const char *const words[] = {"", "a", "CSIPlugin", "1.0.0", "\xc3\xa9", "topology.example.com/zone"};
    struct cr_buf b = wire_start();
    for (uint64_t n = cr_rng_below(rng, 6); n > 0; n--) {
        struct cr_buf inner = wire_start(), entry = wire_start();
        wire_text(&entry, 1, words[cr_rng_below(rng, 6)]);
        wire_text(&entry, 2, words[cr_rng_below(rng, 6)]);
        wire_message(&inner, 1, &entry);
        unsigned field = (unsigned)cr_rng_below(rng, 5) + 1;
        if (cr_rng_below(rng, 3) == 0) {
            wire_message(&b, field, &inner);
            continue;
        }
        cr_buf_free(&inner);
        if (cr_rng_below(rng, 3) == 0)
            wire_number(&b, field, cr_rng_next(rng) >> cr_rng_below(rng, 64));
        else
            wire_text(&b, field, words[cr_rng_below(rng, 6)]);
    }
    return b;
}

static void mutate(struct cr_rng *rng, struct cr_buf *b)
{
    for (uint64_t n = cr_rng_below(rng, 4); n > 0 && b->len > 0; n--) {
        size_t at = (size_t)cr_rng_below(rng, b->len);
        switch (cr_rng_below(rng, 3)) {
        case 0:
            b->data[at] = (char)cr_rng_next(rng);
            break;
        case 1:
            b->data[at] = (char)(b->data[at] ^ 1 << cr_rng_below(rng, 8));
            break;
        default:
            b->len = at;
        }
    }
}

static void mutated_messages_are_whole_or_refused(void **state)
{
    size_t accepted = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct cr_rng rng = {.state = seed};
        struct cr_buf b = well_formed(&rng);
        mutate(&rng, &b);
        enum cr_rpc_method method = (enum cr_rpc_method)(CR_RPC_GET_INFO + (int)cr_rng_below(&rng, 4));
        accepted += try_one(method, cr_rng_below(&rng, 2), &b);
        cr_buf_free(&b);
    }
    assert_true(accepted > ROUNDS / 10 && accepted < ROUNDS); /* both ways were taken */
}

static void random_bytes_are_whole_or_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct cr_rng rng = {.state = seed};
        struct cr_buf b = wire_start();
        for (uint64_t n = cr_rng_below(&rng, 64); n > 0; n--) {
            char byte = (char)(cr_rng_below(&rng, 2) ? cr_rng_next(&rng) : 0x0a);
            cr_buf_append(&b, &byte, 1);
        }
        try_one((enum cr_rpc_method)(CR_RPC_GET_INFO + (int)cr_rng_below(&rng, 4)), cr_rng_below(&rng, 2), &b);
        cr_buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutated_messages_are_whole_or_refused),
        cmocka_unit_test(random_bytes_are_whole_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
