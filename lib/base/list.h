/* SPDX-License-Identifier: Apache-2.0 */
/* An intrusive, circular, doubly linked list. A node not in a list points to itself. Owned by whoever owns the head. */
#ifndef CR_BASE_LIST_H
#define CR_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct cr_list {
    struct cr_list *prev, *next;
};

static inline void cr_list_init(struct cr_list *l) { l->prev = l->next = l; }
static inline bool cr_list_empty(const struct cr_list *l) { return l->next == l; }

static inline void cr_list_append(struct cr_list *head, struct cr_list *n)
{
    n->prev = head->prev;
    n->next = head;
    head->prev->next = n;
    head->prev = n;
}

/* Harmless when the node is in no list. */
static inline void cr_list_remove(struct cr_list *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    cr_list_init(n);
}

static inline struct cr_list *cr_list_pop(struct cr_list *head)
{
    struct cr_list *n = head->next;
    if (n == head) return NULL;
    cr_list_remove(n);
    return n;
}

#define CR_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define CR_LIST_FOREACH(it, head)       for (struct cr_list *it = (head)->next; it != (head); it = it->next)
/* The body may remove and free the current node. */
#define CR_LIST_FOREACH_SAFE(it, head)                                                                                 \
    for (struct cr_list *it = (head)->next, *it##_next = it->next; it != (head); it = it##_next, it##_next = it->next)

#endif
