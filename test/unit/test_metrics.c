/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted and measured, from the core's counters to the text that the agent serves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/metrics.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "doubles/host.h"
#include "engine/metrics.h"
#include "unit/core_rig.h"
#include "unit/golden.h"
#include "unit/http_rig.h"

#define CALL "/csi.v1.Node/NodeGetInfo"

/* ---- the core's counters ---- */

static struct cr_numbers numbers(const struct rig *r)
{
    struct cr_numbers n;
    cr_core_numbers(r->core, &n);
    return n;
}

static void test_attempts_and_failures(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 2, .number = CR_GRPC_UNAVAILABLE});
    rig_appear(r, a);
    rig_settle(r);
    assert_int_equal(numbers(r).counters.failures[CR_STEP_NODE_GET_INFO][0], 1);
    assert_int_equal(numbers(r).sockets[CR_STATE_BACKOFF], 1);
    rig_advance(r, 10000);
    struct cr_numbers n = numbers(r);
    assert_int_equal(n.counters.attempts, 3);
    assert_int_equal(n.counters.retries, 2);
    assert_int_equal(n.counters.failures[CR_STEP_NODE_GET_INFO][0], 2);
    assert_int_equal(n.counters.failures[CR_STEP_NODE_GET_INFO][1], 0);
    assert_int_equal(n.drivers[CR_DRIVER_REGISTERED][CR_FLOW_IN_NODE], 1);
    assert_int_equal(n.sockets[CR_STATE_REGISTERED], 1);
    assert_string_equal(n.api_state, "ok");
    assert_true(cr_core_knows(r->core, "a.example.com"));
    assert_false(cr_core_knows(r->core, "b.example.com"));
    rig_free(r);
}

static void test_persistent_failures_are_counted_apart(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_fault(r, (struct rig_fault){.match = "GetInfo", .times = -1, .number = CR_GRPC_UNIMPLEMENTED});
    rig_appear(r, rig_plugin(r, "a"));
    rig_settle(r);
    assert_int_equal(numbers(r).counters.failures[CR_STEP_GET_INFO][1], 1);
    rig_free(r);
}

static void test_unknown_steps_are_counted_as_other(void **state)
{
    (void)state;
    struct cr_counters c = {0};
    cr_count_failure(&c, "something new", false);
    assert_int_equal(c.failures[CR_STEP_OTHER][0], 1);
    for (enum cr_step s = 0; s < CR_STEP_COUNT; s++) cr_count_failure(&c, cr_step_name(s), true);
    for (enum cr_step s = 0; s < CR_STEP_COUNT; s++) assert_int_equal(c.failures[s][1], 1);
}

static void test_conflicts_and_retries(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_fault(r, (struct rig_fault){.match = "patch nodes/status", .times = 1, .number = 409, .reason = "Conflict"});
    rig_fault(r, (struct rig_fault){.match = "create csinodes", .times = 1, .number = 409, .reason = "AlreadyExists"});
    rig_fault(r, (struct rig_fault){.match = "update csinodes", .times = 1, .number = 503});
    rig_up(r, rig_plugin(r, "a"));
    rig_advance(r, 5000);
    struct cr_numbers n = numbers(r);
    assert_int_equal(n.counters.node_conflicts, 1);
    assert_int_equal(n.counters.csinode_conflicts, 1);
    assert_true(n.counters.api_retries >= 2);
    assert_int_equal(n.drivers[CR_DRIVER_REGISTERED][CR_FLOW_IN_NODE], 1);
    rig_free(r);
}

static void test_watches_and_flows(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_up(r, rig_capable(r, "c"));
    assert_int_equal(numbers(r).counters.watches, 1);
    assert_int_equal(numbers(r).drivers[CR_DRIVER_REGISTERED][CR_FLOW_IN_CONTROLLER], 1);
    rig_watch_end(r, CR_TRANSPORT_BROKEN, 0);
    rig_advance(r, 5000);
    assert_int_equal(numbers(r).counters.watches, 2);
    assert_true(numbers(r).gate);
    rig_free(r);
}

/* ---- latencies ---- */

static void call(struct cr_latencies *l, const struct cr_core *core, const char *driver, int code, int64_t took_us)
{
    static uint64_t id;
    cr_latencies_begin(l, ++id, driver, CR_RPC_NODE_GET_INFO, 1000);
    cr_latencies_end(l, core, id, code, 1000 + took_us);
}

static void test_buckets(void **state)
{
    (void)state;
    struct cr_latencies l;
    struct rig *r = rig_started();
    cr_latencies_init(&l);
    call(&l, r->core, "a.example.com", 0, 100000); /* a bound belongs to its bucket */
    call(&l, r->core, "a.example.com", 0, 100001);
    call(&l, r->core, "a.example.com", 0, 601000000);
    call(&l, r->core, "a.example.com", CR_GRPC_UNAVAILABLE, 1);
    call(&l, r->core, NULL, 0, 1);
    assert_int_equal(l.n_series, 3);
    const struct cr_latency *s = &l.series[0];
    assert_string_equal(l.drivers[s->driver].name, "a.example.com");
    assert_string_equal(s->method, CALL);
    assert_int_equal(s->count, 3);
    assert_int_equal(s->buckets[0], 1);
    assert_int_equal(s->buckets[1], 2);
    assert_int_equal(s->buckets[CR_LATENCY_BUCKETS - 1], 2);
    assert_true(s->seconds > 601.2 && s->seconds < 601.201);
    assert_int_equal(l.series[1].code, CR_GRPC_UNAVAILABLE);
    assert_string_equal(l.drivers[l.series[2].driver].name, "unknown-driver");
    cr_latencies_end(&l, r->core, 77, 0, 0); /* never begun */
    cr_latencies_fini(&l);
    rig_free(r);
}

static void test_counting_allocates_once(void **state)
{
    (void)state;
    struct cr_latencies l;
    struct rig *r = rig_started();
    cr_latencies_init(&l);
    call(&l, r->core, "a.example.com", 0, 5);
    cr_mem_fail_after(1);
    for (int i = 0; i < 1000; i++) call(&l, r->core, "a.example.com", 0, 5);
    assert_int_equal(cr_mem_count(), 0);
    cr_mem_fail_after(0);
    assert_int_equal(l.series[0].count, 1001);
    cr_latencies_fini(&l);
    rig_free(r);
}

static void test_names_are_bounded(void **state)
{
    (void)state;
    struct cr_latencies l;
    struct rig *r = rig_started();
    char name[64];
    rig_up(r, rig_plugin(r, "a"));
    cr_latencies_init(&l);
    call(&l, r->core, NULL, 0, 1);
    call(&l, r->core, "a.example.com", 0, 1);
    for (int i = 0; i < 3 * CR_MAX_MEASURED_DRIVERS; i++) {
        snprintf(name, sizeof name, "gone-%d.example.com", i);
        call(&l, r->core, name, 0, 1);
        assert_true(l.n_drivers <= CR_MAX_MEASURED_DRIVERS + 1 && l.n_series <= CR_MAX_MEASURED_DRIVERS + 1);
    }
    call(&l, r->core, "a.example.com", 0, 1);
    call(&l, r->core, NULL, 0, 1);
    size_t known = 0, unknown = 0;
    for (size_t i = 0; i < l.n_series; i++) {
        known += strcmp(l.drivers[l.series[i].driver].name, "a.example.com") == 0 ? l.series[i].count : 0;
        unknown += l.series[i].driver == 0 ? l.series[i].count : 0;
    }
    assert_int_equal(known, 2); /* whoever is there keeps its series */
    assert_int_equal(unknown, 2);
    assert_string_equal(l.drivers[l.series[l.n_series - 1].driver].name, name);
    cr_latencies_fini(&l);
    rig_free(r);
}

static struct rig *scarce;

static bool measure_with_little_memory(void)
{
    struct cr_latencies l;
    cr_latencies_init(&l);
    call(&l, scarce->core, "a.example.com", 0, 1);
    call(&l, scarce->core, "b.example.com", 0, 1);
    bool all = l.n_series == 2;
    cr_latencies_fini(&l);
    return all;
}

static void test_without_memory_nothing_is_counted(void **state)
{
    (void)state;
    scarce = rig_started();
    oom_run(measure_with_little_memory);
    rig_free(scarce);
}

/* ---- requests ---- */

static enum tls_after serve_status(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    (void)user;
    int status = 500;
    sscanf(r->head, "GET /%d", &status);
    tls_reply(conn, status, NULL, "{}");
    return TLS_KEEP;
}

static unsigned ended;
static void note_end(void *user, uint64_t id, struct cr_api_answer *answer)
{
    (void)user, (void)id, (void)answer;
    ended++;
}

static void ask(struct cr_http *http, const char *verb, int status)
{
    char path[16];
    struct cr_api_request r = {.method = CR_HTTP_GET, .verb = verb, .resource = "nodes", .timeout_ms = 10000};
    snprintf(path, sizeof path, "/%d", status);
    r.path = cr_strdup(path);
    cr_http_start(http, (uint64_t)status, &r);
    for (unsigned before = ended; ended == before;) {
        cr_http_poll(http, NULL, 0, 100);
        cr_http_perform(http);
    }
}

static void test_strange_codes_are_bounded(void **state)
{
    struct http_rig *rig = *state;
    struct cr_http *http = NULL;
    const struct cr_http_handlers handlers = {.done = note_end};
    http_rig_serve(rig, serve_status, NULL);
    http_rig_connect(rig);
    assert_int_equal(cr_http_new(&http, rig->access, &handlers, NULL), 0);
    for (int i = 0; i < CR_MAX_REQUEST_TALLIES + 10; i++) ask(http, "get", 402 + i);
    ask(http, "list", 700);
    size_t n = 0;
    const struct cr_http_tally *t = cr_http_tallies(http, &n);
    assert_int_equal(n, CR_MAX_REQUEST_TALLIES + 2);
    assert_int_equal(t[0].code, 402);
    assert_int_equal(t[0].n, 1);
    assert_int_equal(t[n - 2].code, 0); /* the other ones */
    assert_int_equal(t[n - 2].n, 10);
    assert_string_equal(t[n - 1].verb, "list");
    cr_http_free(http);
}

/* ---- what the host gets ---- */

static const struct csireg_metric *find(const struct csireg_metrics *m, const char *name, const char *label)
{
    const struct csireg_metric *found;
    for (size_t i = 0; (found = csireg_metrics_get(m, i)) != NULL; i++) {
        bool has = !label;
        for (size_t k = 0; k < found->n_labels; k++) has |= label && strcmp(found->label_values[k], label) == 0;
        if (has && strcmp(found->name, name) == 0) return found;
    }
    return NULL;
}

static double value(const struct csireg_metrics *m, const char *name, const char *label)
{
    const struct csireg_metric *found = find(m, name, label);
    if (!found) fail_msg("there is no %s %s", name, label ? label : "");
    return found->value;
}

static struct csireg_metrics *metrics_of(struct host *h)
{
    struct csireg_metrics *m = NULL;
    expect_code(csireg_manager_metrics(h->manager, &m), CSIREG_OK);
    return m;
}

static void test_a_host_reads_numbers(void **state)
{
    struct host *h = *state;
    host_watch(h);
    host_driver(h, "reg/a.sock", "a.example.com");
    host_start(h);
    host_expect(h, CSIREG_EVENT_REGISTERED, "a.example.com");
    struct csireg_metrics *m = metrics_of(h);
    const struct csireg_metric *op = find(m, "csi_operations_seconds", CALL);
    assert_non_null(op);
    assert_int_equal(op->size, sizeof *op);
    assert_int_equal(op->type, CSIREG_METRIC_HISTOGRAM);
    assert_int_equal(op->n_labels, 4);
    assert_string_equal(op->label_names[0], "driver_name");
    assert_string_equal(op->label_values[0], "a.example.com");
    assert_string_equal(op->label_values[2], "OK");
    assert_string_equal(op->label_values[3], "false");
    assert_int_equal(op->count, 1);
    assert_int_equal(op->n_buckets, CR_LATENCY_BUCKETS);
    assert_true(op->value > 0 && op->bounds[0] > 0.09 && op->buckets[op->n_buckets - 1] == 1);
    assert_true(value(m, "csireg_registration_attempts_total", NULL) > 0.5);
    assert_true(value(m, "csireg_api_state", "local-only") > 0.5);
    assert_true(value(m, "csireg_registry_sockets", NULL) > 0.5);
    host_stop(h);
    host_free(h);
    assert_string_equal(op->label_values[0], "a.example.com"); /* it outlives the manager */
    csireg_metrics_free(m);
}

static void test_the_queue_is_that_of_now(void **state)
{
    struct host *h = *state;
    host_watch(h);
    host_driver(h, "reg/a.sock", "a.example.com");
    host_start(h);
    struct pollfd news = {csireg_manager_fd(h->manager), POLLIN, 0};
    assert_int_equal(poll(&news, 1, -1), 1);
    struct csireg_metrics *m = metrics_of(h);
    assert_true(value(m, "csireg_event_queue_length", NULL) > 0.5);
    csireg_metrics_free(m);
    csireg_event_free(host_await(h, CSIREG_EVENT_REGISTERED));
    m = metrics_of(h);
    assert_true(value(m, "csireg_event_queue_length", NULL) < 0.5);
    csireg_metrics_free(m);
}

static void test_wrong_calls(void **state)
{
    struct host *h = *state;
    struct csireg_metrics *m = NULL;
    host_new(h);
    expect_code(csireg_manager_metrics(NULL, &m), CSIREG_ERR_INVALID);
    expect_code(csireg_manager_metrics(h->manager, NULL), CSIREG_ERR_INVALID);
    expect_code(csireg_manager_metrics(h->manager, &m), CSIREG_ERR_STATE);
    csireg_manager_stop(h->manager);
    expect_code(csireg_manager_metrics(h->manager, &m), CSIREG_ERR_STATE); /* it never ran */
    assert_null(m);
    assert_null(csireg_metrics_get(NULL, 0));
    csireg_metrics_free(NULL);
}

static struct host *scarce_host;

static bool read_with_little_memory(void)
{
    struct csireg_metrics *m = NULL;
    int rc = csireg_manager_metrics(scarce_host->manager, &m);
    assert_true(rc == CSIREG_OK || rc == CSIREG_ERR_NOMEM);
    csireg_metrics_free(m);
    return rc == CSIREG_OK;
}

static void test_reading_without_memory(void **state)
{
    scarce_host = *state;
    host_start(scarce_host);
    csireg_manager_stop(scarce_host->manager); /* so that nobody else allocates */
    oom_run(read_with_little_memory);
}

/* ---- the text ---- */

static void test_text(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b"}, *const values[] = {"x\"y\\z\nend", ""};
    static const double bounds[] = {.1, 2.5};
    static const uint64_t buckets[] = {1, 2};
    struct csireg_metric m = {
        sizeof m, CSIREG_METRIC_HISTOGRAM, "t", "One \\ two\n\"three\".", 2, names, values, 1.25, 3, 2, bounds,
        buckets};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    metrics_write(out, &m, true);
    m.type = CSIREG_METRIC_GAUGE;
    m.n_labels = 0;
    m.value = 0.1;
    metrics_write(out, &m, false);
    m.value = 12345678901;
    metrics_write(out, &m, false);
    fclose(out);
    assert_string_equal(text, "# HELP t One \\\\ two\\n\"three\".\n# TYPE t histogram\n"
                              "t_bucket{a=\"x\\\"y\\\\z\\nend\",b=\"\",le=\"0.1\"} 1\n"
                              "t_bucket{a=\"x\\\"y\\\\z\\nend\",b=\"\",le=\"2.5\"} 2\n"
                              "t_bucket{a=\"x\\\"y\\\\z\\nend\",b=\"\",le=\"+Inf\"} 3\n"
                              "t_sum{a=\"x\\\"y\\\\z\\nend\",b=\"\"} 1.25\n"
                              "t_count{a=\"x\\\"y\\\\z\\nend\",b=\"\"} 3\nt 0.1\nt 12345678901\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attempts_and_failures),
        cmocka_unit_test(test_persistent_failures_are_counted_apart),
        cmocka_unit_test(test_unknown_steps_are_counted_as_other),
        cmocka_unit_test(test_conflicts_and_retries),
        cmocka_unit_test(test_watches_and_flows),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_counting_allocates_once),
        cmocka_unit_test(test_names_are_bounded),
        cmocka_unit_test(test_without_memory_nothing_is_counted),
        cmocka_unit_test_setup_teardown(test_strange_codes_are_bounded, http_rig_setup, http_rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_host_reads_numbers, host_setup, host_teardown),
        cmocka_unit_test_setup_teardown(test_the_queue_is_that_of_now, host_setup, host_teardown),
        cmocka_unit_test_setup_teardown(test_wrong_calls, host_setup, host_teardown),
        cmocka_unit_test_setup_teardown(test_reading_without_memory, host_setup, host_teardown),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
