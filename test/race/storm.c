/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managers of one process under threads that call whatever may be called: stopped in every state, hundreds one after
 * the other, several at once, with plugins and sockets that come and go. Made to run under a race detector; it also
 * counts threads and descriptors afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/rng.h"
#include "race/rig.h"

#define COUNT(a)     (sizeof(a) / sizeof *(a))
#define NAME         "a.example.com"
#define MANAGERS     6
#define ALL_REQUESTS "{\"match\":{\"resource\":\"nodes\",\"verb\":\"get\"},\"action\":{\"hang\":true}}"

static struct apiserver *api;
static unsigned rounds = 3; /* RACE_ROUNDS; one round is about 100 managers */

static int begin(void **state)
{
    (void)state;
    if (getenv("RACE_ROUNDS")) rounds = (unsigned)strtoul(getenv("RACE_ROUNDS"), NULL, 10);
    api = rig_server();
    return 0;
}

static int end(void **state)
{
    (void)state;
    apiserver_stop(api);
    return 0;
}

static void *stop_it(void *manager)
{
    csireg_manager_stop(manager);
    return NULL;
}

/* From two threads at once, while the storm goes on. */
static void stop_in_storm(struct rig *r)
{
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, stop_it, r->host->manager), 0);
    expect_code(csireg_manager_stop(r->host->manager), CSIREG_OK);
    pthread_join(other, NULL);
    rig_calm(r);
    host_free(r->host);
}

/* ---- stop in every state ---- */

/* Every state that lasts; the two others (new, connecting-endpoint) are over in the step that begins them. */
struct moment {
    const char *state; /* of the socket when stop comes */
    const char *rule;  /* of the API server; NULL: none */
    struct fake_driver_config driver;
};

static const struct moment moments[] = {
    {"connecting", NULL, {0}}, /* bound, never listening */
    {"get-info", NULL, {.hangs = {[FAKE_GET_INFO] = true}}},
    {"handler", NULL, {.type = "Other"}},
    {"node-get-capabilities", NULL, {.hangs = {[FAKE_CAPABILITIES] = true}}},
    {"reading-csidriver",
     "{\"match\":{\"resource\":\"csidrivers\"},\"action\":{\"hang\":true}}",
     {.info_from_controller = true}},
    {"node-get-info", NULL, {.hangs = {[FAKE_NODE_INFO] = true}}},
    {"publishing", ALL_REQUESTS, {0}},
    {"publishing", "{\"match\":{\"resource\":\"csinodes\",\"verb\":\"get\"},\"action\":{\"hang\":true}}", {0}},
    {"publishing", "{\"match\":{\"verb\":\"patch\"},\"action\":{\"hang\":true}}", {0}},
    {"publishing", "{\"match\":{\"verb\":\"create\"},\"action\":{\"hang\":true}}", {.info_from_controller = true}},
    {"publishing", "{\"match\":{\"resource\":\"nodes\"},\"action\":{\"status\":503}}", {0}},
    {"notifying", NULL, {.hangs = {[FAKE_NOTIFY] = true}}},
    {"registered", NULL, {0}},
    {"registered", NULL, {.info_from_controller = true}},
    {"rejecting", NULL, {.type = "Nobody's", .hangs = {[FAKE_NOTIFY] = true}}},
    {"backoff", NULL, {.type = "Nobody's"}},
    {"unconfirmed", NULL, {.hangs = {[FAKE_NOTIFY] = true}}},
    {"standby", NULL, {0}},
};

static int bind_only(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* What managers before left at the server: it would save requests. */
static void forget(struct rig *r)
{
    static const char *const requests[] = {
        "{\"method\":\"DELETE\",\"path\":\"/apis/storage.k8s.io/v1/csinodes/n0\"}",
        "{\"method\":\"PATCH\",\"path\":\"/api/v1/nodes/n0\",\"body\":{\"metadata\":{\"annotations\":null}}}"};
    for (size_t i = 0; i < COUNT(requests); i++) {
        int status;
        free(apiserver_control(r->api, "POST", "/do", requests[i], &status));
    }
}

static bool is(const struct moment *m, const char *state) { return !strcmp(m->state, state); }

/* What there is before the manager starts; -1 or a descriptor to close. */
static int prepare(struct rig *r, const struct moment *m)
{
    struct fake_driver_config driver = m->driver;
    driver.name = NAME;
    if (is(m, "connecting")) return bind_only(host_path(r->host, "reg/a"));
    if (is(m, "unconfirmed")) csireg_options_set_int(r->host->options, CSIREG_OPTION_NOTIFY_TIMEOUT, 10, NULL);
    host_driver_with(r->host, "reg/a", driver);
    if (is(m, "standby")) host_driver_with(r->host, "reg/b", driver);
    return -1;
}

static void stop_at(const struct moment *m, unsigned seed, bool stormy)
{
    struct rig r;
    rig_init(&r, api, 0);
    forget(&r);
    long rule = m->rule ? rig_rule(&r, m->rule) : 0;
    int bound = prepare(&r, m);
    host_start(r.host);
    if (stormy) rig_storm(&r, seed);
    rig_wait_state(&r, m->state);
    if (rule) rig_wait_hit(&r, rule);
    if (!stormy) rig_storm(&r, seed);
    stop_in_storm(&r);
    if (rule) rig_unrule(&r, rule);
    if (bound >= 0) close(bound);
    rig_fini(&r);
}

static void test_stop_in_every_state(void **state)
{
    (void)state;
    for (unsigned round = 0; round < rounds; round++)
        for (size_t i = 0; i < COUNT(moments); i++) stop_at(&moments[i], round, round % 2 != 0);
}

/* ---- while a driver is being taken out of the cluster ---- */

static void test_stop_during_a_removal(void **state)
{
    (void)state;
    static const char *const rules[] = {"{\"match\":{\"verb\":\"update\"},\"action\":{\"hang\":true}}",
                                        "{\"match\":{\"verb\":\"patch\"},\"action\":{\"hang\":true}}"};
    for (unsigned i = 0; i < 2 * rounds; i++) {
        struct rig r;
        rig_init(&r, api, 0);
        struct fake_driver *d = host_driver(r.host, "reg/a", NAME);
        host_start(r.host);
        csireg_event_free(host_await(r.host, CSIREG_EVENT_REGISTERED));
        long rule = rig_rule(&r, rules[i % 2]);
        host_driver_stop(r.host, d);
        rig_wait_hit(&r, rule);
        rig_storm(&r, i);
        stop_in_storm(&r);
        rig_unrule(&r, rule);
        rig_fini(&r);
    }
}

/* ---- hundreds, each stopped at a moment of its own ---- */

static void at_some_moment(struct rig *r, struct fake_driver *d, uint64_t which)
{
    if (which < FAKE_METHODS && which != FAKE_CAPABILITIES) fake_driver_wait_called(d, (enum fake_method)which, 1);
    if (which == FAKE_METHODS) rig_wait_state(r, "registered"); /* its event may be the storm's */
    if (which == FAKE_METHODS + 1) expect_code(csireg_manager_wait_initial(r->host->manager, INT64_MAX), CSIREG_OK);
}

static void test_hundreds_one_after_the_other(void **state)
{
    (void)state;
    struct cr_rng rng = {1};
    struct rig r;
    rig_init(&r, api, 0);
    struct fake_driver *d = host_driver(r.host, "reg/a", NAME);
    unsigned fds = 0;
    for (unsigned i = 0; i < 100 * rounds; i++) {
        if (i == 10) fds = count_fds(); /* what is made once has been made */
        if (i % 50 == 49) {
            host_driver_stop(r.host, d);
            d = host_driver(r.host, "reg/a", NAME);
        }
        host_start(r.host);
        if (i % 2) rig_storm(&r, i);
        at_some_moment(&r, d, i % 50 < 1 ? cr_rng_below(&rng, FAKE_METHODS + 3) : FAKE_METHODS + cr_rng_below(&rng, 3));
        expect_code(csireg_manager_stop(r.host->manager), CSIREG_OK);
        if (i % 2) rig_calm(&r);
        host_free(r.host);
    }
    assert_in_range(count_fds(), 0, fds + 3);
    rig_fini(&r);
}

/* ---- several at once ---- */

/* Sockets of both doors come and go under the storm. */
static void churn(struct rig *rigs, unsigned n, struct cr_rng *rng)
{
    struct fake_driver *there[MANAGERS][3] = {{0}};
    static const char *const sockets[] = {"reg/a", "reg/b", "s0"}, *const names[] = {"a.example.com", "b.example.com",
                                                                                     "s0"};
    for (unsigned i = 0; i < n; i++) {
        uint64_t m = cr_rng_below(rng, MANAGERS), k = cr_rng_below(rng, 3);
        struct rig *r = &rigs[m];
        if (there[m][k]) {
            host_driver_stop(r->host, there[m][k]);
            there[m][k] = NULL;
        } else {
            there[m][k] = host_driver_with(
                r->host, sockets[k],
                (struct fake_driver_config){.name = names[k], .info_from_controller = cr_rng_below(rng, 2) != 0});
        }
        poll(NULL, 0, (int)cr_rng_below(rng, 20));
    }
}

static void test_several_at_once(void **state)
{
    (void)state;
    struct rig rigs[MANAGERS];
    struct cr_rng rng = {7};
    for (unsigned round = 0; round < rounds; round++) {
        for (int i = 0; i < MANAGERS; i++) {
            rig_init(&rigs[i], api, i);
            host_start(rigs[i].host);
            rig_storm(&rigs[i], round * MANAGERS + (unsigned)i);
        }
        churn(rigs, 60, &rng);
        for (int i = 0; i < MANAGERS; i++) stop_in_storm(&rigs[i]);
        for (int i = 0; i < MANAGERS; i++) rig_fini(&rigs[i]);
    }
}

/* ---- and after all that ---- */

static void test_nothing_is_left(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, api, 0);
    unsigned threads = count_threads();
    host_driver(r.host, "reg/a", NAME);
    for (int i = 0; i < 10; i++) {
        host_start(r.host);
        csireg_event_free(host_await(r.host, CSIREG_EVENT_REGISTERED));
        host_stop(r.host);
        host_free(r.host);
    }
    rig_fini(&r);
    while (count_threads() > threads) poll(NULL, 0, 5); /* gRPC's and the server's own end after their last user */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_in_every_state),
        cmocka_unit_test(test_stop_during_a_removal),
        cmocka_unit_test(test_hundreds_one_after_the_other),
        cmocka_unit_test(test_several_at_once),
        cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
