/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void done(void *user, struct cr_rpc_call *call)
{
    struct rpc_rig *r = user;
    pthread_mutex_lock(&r->lock);
    cr_list_append(&r->finished, &call->node);
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

struct cr_rpc_call *rpc_rig_await(struct rpc_rig *r)
{
    pthread_mutex_lock(&r->lock);
    while (cr_list_empty(&r->finished)) pthread_cond_wait(&r->changed, &r->lock);
    struct cr_rpc_call *call = CR_CONTAINER(cr_list_pop(&r->finished), struct cr_rpc_call, node);
    pthread_mutex_unlock(&r->lock);
    return call;
}

int rpc_rig_setup(void **state)
{
    struct rpc_rig *r = calloc(1, sizeof *r);
    snprintf(r->directory, sizeof r->directory, "/tmp/csireg-rpc-XXXXXX");
    assert_non_null(mkdtemp(r->directory));
    snprintf(r->path, sizeof r->path, "%s/s", r->directory);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    cr_list_init(&r->finished);
    *state = r;
    return cr_rpc_new(&r->rpc, done, r, NULL);
}

int rpc_rig_teardown(void **state)
{
    struct rpc_rig *r = *state;
    cr_rpc_free(r->rpc);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
    unlink(r->path);
    rmdir(r->directory);
    free(r);
    return 0;
}

struct cr_conn *rpc_rig_connect(struct rpc_rig *r, const char *path)
{
    struct cr_conn *conn = NULL;
    struct cr_identity identity;
    int error = cr_rpc_connect(r->rpc, path, &conn, &identity);
    if (error) fail_msg("connect: %s", strerror(error));
    return conn;
}

/* Waits for the one call that is out; the result is the caller's. */
struct cr_rpc_result rpc_rig_collect(struct rpc_rig *r)
{
    struct cr_rpc_call *call = rpc_rig_await(r);
    struct cr_rpc_result result = call->result;
    assert_int_equal(call->id, r->last_id);
    call->result = (struct cr_rpc_result){0};
    cr_rpc_call_free(call);
    return result;
}

void rpc_rig_start(struct rpc_rig *r, struct cr_conn *conn, enum cr_rpc_method method, int64_t timeout_ms, bool flag,
                   const char *text)
{
    cr_rpc_start(conn, ++r->last_id, method, timeout_ms, flag, text);
}

struct cr_rpc_result rpc_rig_ask(struct rpc_rig *r, const char *path, enum cr_rpc_method method, int64_t timeout_ms,
                                 bool flag, const char *text)
{
    struct cr_conn *conn = rpc_rig_connect(r, path);
    rpc_rig_start(r, conn, method, timeout_ms, flag, text);
    struct cr_rpc_result result = rpc_rig_collect(r);
    cr_rpc_close(conn);
    return result;
}

struct cr_rpc_result rpc_rig_get_info(struct rpc_rig *r, int64_t timeout_ms)
{
    return rpc_rig_ask(r, r->path, CR_RPC_GET_INFO, timeout_ms, false, NULL);
}

void assert_rpc_code(struct cr_rpc_result result, int code)
{
    if (result.code != code) fail_msg("code %d: %s", result.code, result.text ? result.text : "");
    assert_false(result.refused);
    cr_rpc_result_fini(&result);
}
