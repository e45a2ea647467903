/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/mailbox.h"

#include "base/bounds.h"
#include "base/mem.h"

void cr_command_free(struct cr_command *c)
{
    if (!c) return;
    cr_free(c->path);
    cr_free(c->name);
    cr_free(c->endpoint);
    cr_free(c->text);
    cr_strv_free(c->versions);
    cr_free(c);
}

int cr_mailbox_init(struct cr_mailbox *m, void (*ring)(void *user), void *user)
{
    *m = (struct cr_mailbox){.ring = ring, .user = user};
    cr_list_init(&m->commands);
    cr_list_init(&m->calls);
    return pthread_mutex_init(&m->mutex, NULL);
}

void cr_mailbox_fini(struct cr_mailbox *m)
{
    CR_LIST_FOREACH_SAFE (it, &m->commands) cr_command_free(CR_CONTAINER(it, struct cr_command, node));
    pthread_mutex_destroy(&m->mutex);
}

void cr_mailbox_open(struct cr_mailbox *m)
{
    pthread_mutex_lock(&m->mutex);
    m->open = true;
    pthread_mutex_unlock(&m->mutex);
}

/* True: it was empty, so the bell is to be rung. */
static bool append(struct cr_mailbox *m, struct cr_list *list, struct cr_list *node)
{
    bool was_empty = cr_list_empty(&m->commands) && cr_list_empty(&m->calls);
    cr_list_append(list, node);
    return was_empty;
}

/* Rings under the mutex: once the mailbox is closed and drained, no host can be about to ring a bell that goes away. */
static void append_command(struct cr_mailbox *m, struct cr_command *c)
{
    if (append(m, &m->commands, &c->node)) m->ring(m->user);
}

void cr_mailbox_close(struct cr_mailbox *m, struct cr_command *last)
{
    pthread_mutex_lock(&m->mutex);
    m->open = false;
    append_command(m, last);
    pthread_mutex_unlock(&m->mutex);
}

int cr_mailbox_command(struct cr_mailbox *m, struct cr_command *c)
{
    pthread_mutex_lock(&m->mutex);
    int rc = !m->open ? CSIREG_ERR_STATE : m->n_commands >= CR_MAX_COMMANDS ? CSIREG_ERR_LIMIT : CSIREG_OK;
    if (rc == CSIREG_OK) {
        m->n_commands++;
        append_command(m, c);
    }
    pthread_mutex_unlock(&m->mutex);
    return rc;
}

/* The pump outlives no bell, so it rings when the engine, once awake, finds the mutex free. */
void cr_mailbox_call(struct cr_mailbox *m, struct cr_rpc_call *call)
{
    pthread_mutex_lock(&m->mutex);
    bool was_empty = append(m, &m->calls, &call->node);
    pthread_mutex_unlock(&m->mutex);
    if (was_empty) m->ring(m->user);
}

static void move(struct cr_list *from, struct cr_list *to)
{
    for (struct cr_list *n = cr_list_pop(from); n; n = cr_list_pop(from)) cr_list_append(to, n);
}

void cr_mailbox_drain(struct cr_mailbox *m, struct cr_list *commands, struct cr_list *calls)
{
    pthread_mutex_lock(&m->mutex);
    move(&m->commands, commands);
    move(&m->calls, calls);
    m->n_commands = 0;
    pthread_mutex_unlock(&m->mutex);
}
