/* SPDX-License-Identifier: Apache-2.0 */
#include "race/rig.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"

#define COUNT(a)    (sizeof(a) / sizeof *(a))
#define TICK_MS     2
#define PATIENCE_MS 60000 /* for what must come; then the test says what there is instead */

/* ---- the server ---- */

struct apiserver *rig_server(void)
{
    static const char *const nodes[] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"};
    struct apiserver *api = NULL;
    char *error = NULL;
    const struct apiserver_config config = {.nodes = nodes, .n_nodes = COUNT(nodes), .gate_node_info = "on"};
    if (apiserver_start(&config, &api, &error)) fail_msg("%s", error);
    return api;
}

static json_t *ask(struct rig *r, const char *method, const char *path, const char *body)
{
    int status = 0;
    char *text = apiserver_control(r->api, method, path, body, &status);
    json_t *answer = json_loads(text, 0, NULL);
    if (status != 200) fail_msg("%s %s: %s", method, path, text);
    free(text);
    return answer;
}

long rig_rule(struct rig *r, const char *rule)
{
    json_t *answer = ask(r, "POST", "/rules", rule);
    long id = (long)json_integer_value(json_object_get(answer, "id"));
    json_decref(answer);
    return id;
}

void rig_unrule(struct rig *r, long id)
{
    char path[40];
    snprintf(path, sizeof path, "/rules/%ld", id);
    json_decref(ask(r, "DELETE", path, NULL));
}

static long hits(struct rig *r, long id)
{
    json_t *answer = ask(r, "GET", "/rules", NULL), *rule;
    long found = 0;
    size_t i;
    json_array_foreach (json_object_get(answer, "rules"), i, rule) {
        if (json_integer_value(json_object_get(rule, "id")) == id)
            found = (long)json_integer_value(json_object_get(rule, "hits"));
    }
    json_decref(answer);
    return found;
}

/* There is no event for what is waited for; the descriptor wakes us when the manager has news. */
static void tick(struct rig *r, int64_t since_ms, const char *what)
{
    struct pollfd p = {csireg_manager_fd(r->host->manager), POLLIN, 0};
    char *text = NULL;
    poll(&p, 1, TICK_MS);
    if (cr_clock_now().mono_ms - since_ms < PATIENCE_MS) return;
    csireg_manager_status_json(r->host->manager, &text);
    fail_msg("waited in vain for %s: %s", what, text ? text : "");
}

void rig_wait_hit(struct rig *r, long id)
{
    int64_t since_ms = cr_clock_now().mono_ms;
    while (hits(r, id) == 0) tick(r, since_ms, "a request");
}

static bool has_state(struct rig *r, const char *state)
{
    json_t *status = host_status(r->host), *row;
    bool found = false;
    size_t i;
    json_array_foreach (json_object_get(status, "sockets"), i, row) found |= !strcmp(json_text(row, "state"), state);
    json_decref(status);
    return found;
}

void rig_wait_state(struct rig *r, const char *state)
{
    int64_t since_ms = cr_clock_now().mono_ms;
    while (!has_state(r, state)) tick(r, since_ms, state);
}

/* ---- hosts ---- */

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

void rig_init(struct rig *r, struct apiserver *api, int node)
{
    static const char *const types[] = {"Other"};
    char user[32], *kubeconfig;
    void *state = NULL;
    memset(r, 0, sizeof *r);
    assert_int_equal(host_setup(&state), 0);
    r->api = api;
    r->host = state;
    snprintf(user, sizeof user, "system:node:n%d", node);
    kubeconfig = apiserver_kubeconfig(api, user);
    write_file(host_path(r->host, "kubeconfig"), kubeconfig);
    free(kubeconfig);
    struct csireg_options *o = r->host->options;
    csireg_options_set_bool(o, CSIREG_OPTION_LOCAL_ONLY, 0, NULL);
    csireg_options_set_string(o, CSIREG_OPTION_NODE_NAME, user + strlen("system:node:"), NULL);
    csireg_options_set_string(o, CSIREG_OPTION_KUBECONFIG, host_path(r->host, "kubeconfig"), NULL);
    csireg_options_set_bool(o, CSIREG_OPTION_CONTROLLER_GET_NODE_INFO, 1, NULL);
    csireg_options_set_strings(o, CSIREG_OPTION_PLUGIN_TYPES, types, COUNT(types), NULL);
    host_watch(r->host);
    for (size_t i = 0; i < COUNT(r->paths) - 1; i++) {
        char name[8];
        snprintf(name, sizeof name, "s%zu", i);
        r->paths[i] = strdup(host_path(r->host, name));
    }
}

void rig_fini(struct rig *r)
{
    void *state = r->host;
    for (size_t i = 0; i < COUNT(r->paths); i++) free((void *)r->paths[i]);
    host_teardown(&state);
}

/* ---- storms: a call takes the storm, a path and its driver's name ---- */

typedef int storm_call(struct storm *s, const char *path, const char *name);

static int seen(struct storm *s, const char *path, const char *name)
{
    (void)name;
    return csireg_manager_socket_seen(s->manager, path, NULL);
}

static int gone(struct storm *s, const char *path, const char *name)
{
    (void)name;
    return csireg_manager_socket_gone(s->manager, path, NULL);
}

static int enter(struct storm *s, const char *path, const char *name)
{
    static const char *const versions[] = {"1.0.0"};
    return csireg_manager_driver_register(s->manager, name, path, versions, 1, NULL);
}

static int leave(struct storm *s, const char *path, const char *name)
{
    return csireg_manager_driver_deregister(s->manager, name, path, NULL);
}

static int lookup(struct storm *s, const char *path, const char *name)
{
    struct csireg_driver *driver = NULL;
    int rc = csireg_manager_lookup(s->manager, name, &driver);
    (void)path;
    csireg_driver_free(driver);
    return rc;
}

static int status(struct storm *s, const char *path, const char *name)
{
    char *text = NULL;
    int rc = csireg_manager_status_json(s->manager, &text);
    (void)path;
    (void)name;
    free(text);
    return rc;
}

static int metrics(struct storm *s, const char *path, const char *name)
{
    struct csireg_metrics *m = NULL;
    int rc = csireg_manager_metrics(s->manager, &m);
    (void)path;
    (void)name;
    csireg_metrics_free(m);
    return rc;
}

static int retry(struct storm *s, const char *path, const char *name)
{
    (void)path;
    return csireg_manager_retry(s->manager, s->calls % 2 ? name : NULL, NULL);
}

static int wait_initial(struct storm *s, const char *path, const char *name)
{
    (void)path;
    (void)name;
    return csireg_manager_wait_initial(s->manager, 1);
}

static int exhausted(struct storm *s, const char *path, const char *name)
{
    enum csireg_exhausted_result result;
    (void)path;
    return csireg_manager_exhausted(s->manager, name, 1, &result);
}

static int next_event(struct storm *s, const char *path, const char *name)
{
    struct csireg_event *event = NULL;
    int rc = csireg_manager_next_event(s->manager, &event);
    (void)path;
    (void)name;
    if (rc == 1 && csireg_event_kind(event) == CSIREG_EVENT_PLUGIN)
        csireg_manager_plugin_result(s->manager, csireg_event_token(event), (int)(s->calls % 2), "not today", NULL);
    csireg_event_free(event);
    return rc;
}

static bool may_be(int rc)
{
    return rc >= 0 || rc == CSIREG_ERR_STATE || rc == CSIREG_ERR_NOT_REGISTERED || rc == CSIREG_ERR_NOT_READY ||
           rc == CSIREG_ERR_TIMEOUT || rc == CSIREG_ERR_LIMIT;
}

static void *blow(void *arg)
{
    static storm_call *const calls[] = {seen,  gone,         enter,     leave,      lookup, status, metrics,
                                        retry, wait_initial, exhausted, next_event, lookup, status};
    struct storm *s = arg;
    struct cr_rng rng = {s->seed};
    while (!atomic_load(s->end)) {
        const char *path = s->paths[cr_rng_below(&rng, 4)], *name = strrchr(path, '/') + 1;
        int rc = calls[cr_rng_below(&rng, COUNT(calls))](s, path, name);
        if (!may_be(rc)) s->wrong = rc;
        s->calls++;
        poll(NULL, 0, (int)cr_rng_below(&rng, 2)); /* a storm, not a flood: others need the processor too */
    }
    return NULL;
}

void rig_storm(struct rig *r, unsigned seed)
{
    atomic_store(&r->end, false);
    for (unsigned i = 0; i < STORM_THREADS; i++) {
        struct storm *s = &r->storms[i];
        *s = (struct storm){.manager = r->host->manager, .paths = r->paths, .seed = seed * 31 + i, .end = &r->end};
        assert_int_equal(pthread_create(&s->thread, NULL, blow, s), 0);
    }
}

void rig_calm(struct rig *r)
{
    atomic_store(&r->end, true);
    for (unsigned i = 0; i < STORM_THREADS; i++) pthread_join(r->storms[i].thread, NULL);
    for (unsigned i = 0; i < STORM_THREADS; i++)
        if (r->storms[i].wrong) fail_msg("a call gave %s", csireg_code_name(r->storms[i].wrong));
}
