/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the host that wait for the engine's answer, by token. Any thread waits; the engine answers, and releases the
 * answers once the snapshot that agrees with them is out. A wait that ran out leaves nothing behind.
 */
#ifndef CR_ENGINE_ANSWERS_H
#define CR_ENGINE_ANSWERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* One waiting call, on the stack of its caller. */
struct cr_waiter {
    struct cr_list node;
    uint64_t token;
    int answer; /* 0: none yet */
    bool released;
};

struct cr_answers {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* below: under the mutex */
    struct cr_list waiters;
    uint64_t last_token;
    bool ended;
};

int cr_answers_init(struct cr_answers *a); /* 0 or an errno; nothing to undo then */
void cr_answers_fini(struct cr_answers *a);

uint64_t cr_answers_expect(struct cr_answers *a, struct cr_waiter *w); /* the token; wait or forget must follow */
void cr_answers_forget(struct cr_answers *a, struct cr_waiter *w);
/* The answer, TIMEOUT, or STATE when the engine ended without one. */
int cr_answers_wait(struct cr_answers *a, struct cr_waiter *w, int64_t timeout_ms);

void cr_answers_put(struct cr_answers *a, uint64_t token, int answer); /* nobody waits any more: nothing */
void cr_answers_release(struct cr_answers *a);
void cr_answers_end(struct cr_answers *a);

#endif
