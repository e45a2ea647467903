/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/connections.h"

#include "base/mem.h"

#define MAX_CLOSED 64 /* that wait for a quiet moment; while plugins come and go without pause there is none */

struct entry {
    struct cr_list node;
    uint64_t id;
    struct cr_conn *conn;
};

#define ENTRY(l) CR_CONTAINER(l, struct entry, node)

void cr_connections_init(struct cr_connections *c)
{
    for (int i = 0; i < CR_CONNECTION_BUCKETS; i++) cr_list_init(&c->buckets[i]);
    cr_list_init(&c->closed);
    c->n_closed = 0;
}

static struct entry *find(const struct cr_connections *c, uint64_t id)
{
    CR_LIST_FOREACH (it, &c->buckets[id % CR_CONNECTION_BUCKETS])
        if (ENTRY(it)->id == id) return ENTRY(it);
    return NULL;
}

static void close_entry(struct cr_connections *c, struct entry *e)
{
    cr_list_remove(&e->node);
    cr_list_append(&c->closed, &e->node);
    c->n_closed++;
}

size_t cr_connections_closed(const struct cr_connections *c) { return c->n_closed; }

void cr_connections_end_one(struct cr_connections *c)
{
    struct cr_list *n = cr_list_pop(&c->closed);
    if (!n) return;
    c->n_closed--;
    cr_rpc_close(ENTRY(n)->conn);
    cr_free(ENTRY(n));
}

void cr_connections_close_all(struct cr_connections *c)
{
    for (int i = 0; i < CR_CONNECTION_BUCKETS; i++)
        CR_LIST_FOREACH_SAFE (it, &c->buckets[i]) close_entry(c, ENTRY(it));
    while (c->n_closed > 0) cr_connections_end_one(c);
}

bool cr_connections_add(struct cr_connections *c, uint64_t id, struct cr_conn *conn)
{
    struct entry *e = CR_NEW(struct entry);
    if (!e) return false;
    e->id = id;
    e->conn = conn;
    cr_list_append(&c->buckets[id % CR_CONNECTION_BUCKETS], &e->node);
    return true;
}

struct cr_conn *cr_connections_get(const struct cr_connections *c, uint64_t id)
{
    struct entry *e = find(c, id);
    return e ? e->conn : NULL;
}

void cr_connections_close(struct cr_connections *c, uint64_t id)
{
    struct entry *e = find(c, id);
    if (!e) return;
    close_entry(c, e);
    if (c->n_closed > MAX_CLOSED) cr_connections_end_one(c);
}
