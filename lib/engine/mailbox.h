/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other threads hand to the engine: commands of the host and finished RPC calls. Any thread posts, the engine
 * drains; one mutex. The bell is rung only by the post that finds the mailbox empty, so a storm of posts costs one
 * wake-up.
 */
#ifndef CR_ENGINE_MAILBOX_H
#define CR_ENGINE_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "core/core.h"
#include "io/rpc.h"

/* A call of the host as the core's input it becomes. All strings are its own. */
struct cr_command {
    struct cr_list node;
    enum cr_input_kind kind;
    char *path, *name, *endpoint, *text;
    char **versions; /* NULL-terminated */
    size_t n_versions;
    uint64_t token;
    bool ok;
};

void cr_command_free(struct cr_command *c);

struct cr_mailbox {
    void (*ring)(void *user); /* constant after init */
    void *user;
    pthread_mutex_t mutex;
    /* below: under the mutex */
    struct cr_list commands, calls;
    size_t n_commands;
    bool open;
};

int cr_mailbox_init(struct cr_mailbox *m, void (*ring)(void *user),
                    void *user);            /* 0 or an errno; commands are refused */
void cr_mailbox_fini(struct cr_mailbox *m); /* frees commands that nobody drained */

void cr_mailbox_open(struct cr_mailbox *m);
/* The last command: none is accepted after it. */
void cr_mailbox_close(struct cr_mailbox *m, struct cr_command *last);

/* Takes the command on 0; LIMIT past CR_MAX_COMMANDS, STATE when not open. */
int cr_mailbox_command(struct cr_mailbox *m, struct cr_command *c);
/* Always; takes the call. The caller must have ended before the bell goes. */
void cr_mailbox_call(struct cr_mailbox *m, struct cr_rpc_call *call);

/* Moves all that is there to the heads of two initialised, empty lists, now the caller's. Does not wait. */
void cr_mailbox_drain(struct cr_mailbox *m, struct cr_list *commands, struct cr_list *calls);

#endif
