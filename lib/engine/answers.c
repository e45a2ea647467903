/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/answers.h"

#include <errno.h>

#include "csireg/error.h"
#include "engine/timed.h"

#define WAITER(l) CR_CONTAINER(l, struct cr_waiter, node)

int cr_answers_init(struct cr_answers *a)
{
    *a = (struct cr_answers){.last_token = 0};
    cr_list_init(&a->waiters);
    int rc = pthread_mutex_init(&a->mutex, NULL);
    if (rc != 0) return rc;
    rc = cr_timed_init(&a->changed);
    if (rc != 0) pthread_mutex_destroy(&a->mutex);
    return rc;
}

void cr_answers_fini(struct cr_answers *a)
{
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->mutex);
}

uint64_t cr_answers_expect(struct cr_answers *a, struct cr_waiter *w)
{
    pthread_mutex_lock(&a->mutex);
    *w = (struct cr_waiter){.token = ++a->last_token};
    cr_list_append(&a->waiters, &w->node);
    pthread_mutex_unlock(&a->mutex);
    return w->token;
}

void cr_answers_forget(struct cr_answers *a, struct cr_waiter *w)
{
    pthread_mutex_lock(&a->mutex);
    cr_list_remove(&w->node);
    pthread_mutex_unlock(&a->mutex);
}

int cr_answers_wait(struct cr_answers *a, struct cr_waiter *w, int64_t timeout_ms)
{
    struct timespec until = cr_timed_in(timeout_ms);
    int waited = 0;
    pthread_mutex_lock(&a->mutex);
    while (!w->released && !a->ended && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&a->changed, &a->mutex, &until);
    int answer = w->released ? w->answer : a->ended ? CSIREG_ERR_STATE : CSIREG_ERR_TIMEOUT;
    cr_list_remove(&w->node);
    pthread_mutex_unlock(&a->mutex);
    return answer;
}

void cr_answers_put(struct cr_answers *a, uint64_t token, int answer)
{
    pthread_mutex_lock(&a->mutex);
    CR_LIST_FOREACH (it, &a->waiters)
        if (WAITER(it)->token == token) WAITER(it)->answer = answer;
    pthread_mutex_unlock(&a->mutex);
}

void cr_answers_release(struct cr_answers *a)
{
    pthread_mutex_lock(&a->mutex);
    CR_LIST_FOREACH (it, &a->waiters) WAITER(it)->released = WAITER(it)->answer != 0;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->mutex);
}

void cr_answers_end(struct cr_answers *a)
{
    pthread_mutex_lock(&a->mutex);
    a->ended = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->mutex);
}
