/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz target of the core has around it: an API server with one Node, one CSINode and some CSIDrivers, where
 * others write too, and what plugins say of themselves. The server checks what the core writes: labels are only added,
 * entries of others stay as they are.
 */
#ifndef TEST_FUZZ_CORE_WORLD_H
#define TEST_FUZZ_CORE_WORLD_H

#include <jansson.h>

#include "core/core.h"
#include "wire/wire.h"

#define WORLD_PLUGINS 4
#define WORLD_FOREIGN "foreign.example.com" /* a driver that is never ours */

struct world {
    json_t *node, *csinode; /* NULL: absent */
    unsigned version;       /* of the last write */
    bool keeps_registrations;
    bool attach; /* a.example.com: attachRequired */
    bool trusts; /* the core may write what it likes: it was lied to, or told to prune */
    struct cr_identity identities[WORLD_PLUGINS];
    uint64_t last_inode;
};

struct world *world_new(bool gate, uint8_t state, bool prunes);
void world_free(struct world *w);

void world_answer(struct world *w, const struct cr_api_request *r, struct cr_api_answer *out); /* executes it */
void world_commit(struct world *w, const struct cr_api_request *r); /* executes it, and the answer is lost */
void world_change(struct world *w, uint8_t how);                    /* somebody else writes */
char *world_watch_event(struct world *w, uint8_t how);              /* a line; free() it */

void world_plugin_info(struct cr_plugin_info *out, const char *name, const char *endpoint, bool foreign_type);
void world_capabilities(struct cr_node_capabilities *out);
void world_node_info(struct cr_node_info *out, int how, bool flag);

#endif
