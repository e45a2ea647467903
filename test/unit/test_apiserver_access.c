// SPDX-License-Identifier: Apache-2.0
/* The emulated API server: who may do what on which path, what it remembers of it, and how it starts. */
#include "test_apiserver_client.h"

static void says_who_may(void **state)
{
    struct fixture *f = *state;
    struct client nobody;
    get(&f->node, CSINODES "/n2");
    expect_status(
        &f->node, 403, "Forbidden",
        "csinodes.storage.k8s.io \"n2\" is forbidden: User \"system:node:n1\" cannot get resource \"csinodes\" in "
        "API group \"storage.k8s.io\" at the cluster scope: node: can only access CSINode with the same name as "
        "the requesting node");
    get(&f->node, CSINODES);
    expect_status(
        &f->node, 403, "Forbidden",
        "csinodes.storage.k8s.io is forbidden: User \"system:node:n1\" cannot list resource \"csinodes\" in API "
        "group \"storage.k8s.io\" at the cluster scope: node: can only get, create, update, patch, or delete a "
        "CSINode");
    create(&f->node, CSINODES, "{\"metadata\":{\"name\":\"n2\"}}");
    expect_status(
        &f->node, 403, "Forbidden",
        "csinodes.storage.k8s.io \"n2\" is forbidden: can only access CSINode with the same name as the requesting "
        "node");
    patch(&f->node, CSINODE "/status", "{}");
    assert_non_null(strstr(str(f->node.json, "message"), "CSINode status access requires CSIVolumeHealth feature"));
    get(&f->node, NODES);
    assert_non_null(strstr(str(f->node.json, "message"), "node 'n1' cannot read all nodes, only its own Node object"));
    assert_int_equal(get(&f->node, NODES "?fieldSelector=metadata.name%3Dn1"), 200);
    assert_int_equal(get(&f->node, NODES "/n2"), 403);
    assert_int_equal(delete (&f->node, NODES "/n1"), 403);
    client_init(&nobody, f->server, NULL);
    get(&nobody, NODES "/n1");
    expect_status(
        &nobody, 403, "Forbidden",
        "nodes \"n1\" is forbidden: User \"system:anonymous\" cannot get resource \"nodes\" in API group \"\" at the "
        "cluster scope");
    post(f->server, "/auth", "{\"anonymous\":false}");
    get(&nobody, NODES "/n1");
    expect_status(&nobody, 401, "Unauthorized", "Unauthorized");
    assert_int_equal(get(&nobody, "/healthz"), 200);
    client_fini(&nobody);
}

static void restricts_nodes(void **state)
{
    struct fixture *f = *state;
    patch(&f->node, NODES "/n2", "{}");
    expect_status(&f->node, 403, "Forbidden",
                  "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\"");
    patch(&f->admin, NODES "/n1", "{\"metadata\":{\"labels\":{\"x.k8s.io/kept\":\"1\"}}}");
    patch(&f->node, NODES "/n1",
          "{\"metadata\":{\"labels\":{\"b.kubernetes.io/y\":\"1\",\"a.node-restriction.kubernetes.io/x\":\"1\","
          "\"topology.kubernetes.io/zone\":\"z\",\"sub.node.kubernetes.io/ok\":\"1\",\"own.example/x\":\"1\"}}}");
    expect_status(&f->node, 403, "Forbidden",
                  "nodes \"n1\" is forbidden: is not allowed to modify labels: a.node-restriction.kubernetes.io/x, "
                  "b.kubernetes.io/y");
    patch(&f->node, NODES "/n1", "{\"metadata\":{\"labels\":{\"x.k8s.io/kept\":null}}}");
    expect_status(&f->node, 403, "Forbidden", NULL);
    assert_int_equal(
        patch(&f->node, NODES "/n1",
              "{\"metadata\":{\"labels\":{\"topology.kubernetes.io/zone\":\"z\",\"own.example/x\":\"1\"}}}"),
        200);
    patch(&f->node, NODES "/n1", "{\"spec\":{\"taints\":[{\"key\":\"a\"}]}}");
    expect_status(&f->node, 403, "Forbidden", NULL);
    delete (&f->admin, NODES "/n1");
    create(&f->node, NODES, "{\"metadata\":{\"name\":\"n1\",\"labels\":{\"k8s.io/a\":\"b\"}}}");
    expect_status(&f->node, 403, "Forbidden",
                  "nodes \"n1\" is forbidden: node \"n1\" is not allowed to set the following labels: k8s.io/a");
    assert_int_equal(create(&f->node, NODES, "{\"metadata\":{\"name\":\"n1\"}}"), 201);
}

static void uses_the_rule_table(void **state)
{
    struct fixture *f = *state;
    struct client c;
    post(f->server, "/auth", "{\"add\":[{\"token\":\"t1\",\"user\":\"u1\",\"groups\":[\"g\"]}]}");
    client_init(&c, f->server, NULL);
    c.token = strdup("t1");
    assert_int_equal(get(&c, NODES), 403);
    post(f->server, "/rules-rbac",
         "[{\"groups\":[\"g\"],\"role\":\"viewer\"},{\"users\":[\"u1\"],\"resources\":[\"nodes\"],"
         "\"verbs\":[\"patch\"],\"resourceNames\":[\"n1\"]}]");
    assert_int_equal(get(&c, NODES), 200);
    assert_int_equal(patch(&c, NODES "/n1", "{\"metadata\":{\"labels\":{\"k8s.io/a\":\"b\"}}}"), 200);
    assert_int_equal(patch(&c, NODES "/n2", "{}"), 403);
    post(f->server, "/auth", "{\"expire\":[\"t1\"]}");
    assert_int_equal(get(&c, NODES), 401);
    post(f->server, "/auth", "{\"revoke\":[\"t1\"]}");
    assert_int_equal(get(&c, NODES), 401);
    client_fini(&c);
}

/* One request with a client certificate on the client's kept connection. */
static long get_with_certificate(struct client *c, const char *certificate, const char *key)
{
    char url[256];
    struct curl_blob cert = {(void *)certificate, strlen(certificate), CURL_BLOB_COPY};
    struct curl_blob secret = {(void *)key, strlen(key), CURL_BLOB_COPY};
    snprintf(url, sizeof url, "https://%s" NODES "/n1", apiserver_address(c->server));
    text_reset(&c->body);
    text_reset(&c->headers);
    set_options(c, "GET", url);
    curl_easy_setopt(c->curl, CURLOPT_SSLCERT_BLOB, &cert);
    curl_easy_setopt(c->curl, CURLOPT_SSLKEY_BLOB, &secret);
    assert_int_equal(curl_easy_perform(c->curl), CURLE_OK);
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &c->code);
    return c->code;
}

static void takes_client_certificates(void **state)
{
    struct fixture *f = *state;
    struct client c;
    json_t *made = control(f->server, "POST", "/auth",
                           "{\"issue\":{\"user\":\"system:node:n1\",\"groups\":[\"x\",\"system:nodes\"]}}");
    json_t *expired = control(f->server, "POST", "/auth",
                              "{\"issue\":{\"user\":\"root\",\"groups\":[\"system:masters\"],\"validSeconds\":-10}}");
    client_init(&c, f->server, NULL);
    assert_int_equal(get_with_certificate(&c, str(made, "cert"), str(made, "key")), 200);
    /* Another authority: the connection that is already there is looked at again. */
    post(f->server, "/auth", "{\"clientCA\":\"new\"}");
    assert_int_equal(get_with_certificate(&c, str(made, "cert"), str(made, "key")), 401);
    json_t *counts = control(f->server, "GET", "/counts", NULL);
    assert_int_equal(json_integer_value(at(counts, "connections handshakes")), 1);
    assert_int_equal(json_integer_value(at(counts, "reused")), 1);
    client_fini(&c);
    client_init(&c, f->server, NULL);
    assert_int_equal(get_with_certificate(&c, str(expired, "cert"), str(expired, "key")), 401);
    client_fini(&c);
    json_decref(counts);
    json_decref(made);
    json_decref(expired);
}

static void several_in_one_process(void **state)
{
    struct fixture *f = *state, *other;
    struct apiserver_config config = {.plain_http = true};
    other = fixture_start(&config);
    assert_int_equal(get(&other->admin, NODES "/n1"), 404);
    assert_int_equal(get(&f->admin, NODES "/n1"), 200);
    tear_down((void **)&other);
}

static void says_what_is_wrong_with_its_configuration(void **state)
{
    static const struct {
        struct apiserver_config config;
        const char *text;
    } cases[] = {
        {{.listen = "nowhere"}, "cannot listen on nowhere"},
        {{.tokens = "/nonexistent/x"}, "cannot read /nonexistent/x"},
        {{.gate_node_info = "maybe"}, "a gate is on or off"},
        {{.tls_cert = "/dev/null"}, "cannot be used"},
        {{.control = "/nonexistent/x"}, "/nonexistent/x"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct apiserver *s = NULL;
        char *error = NULL;
        assert_int_equal(apiserver_start(&cases[i].config, &s, &error), -1);
        assert_non_null(strstr(error, cases[i].text));
        free(error);
    }
}

static void knows_its_paths(void **state)
{
    struct fixture *f = *state;
    get(&f->admin, "/apis/storage.k8s.io/v1/foo");
    expect_status(&f->admin, 404, "NotFound", "the server could not find the requested resource");
    assert_int_equal(get(&f->admin, "/apis/nothing/v1/foo"), 404);
    assert_string_equal(f->admin.body.data, "404 page not found\n");
    assert_non_null(strstr(f->admin.headers.data, "text/plain"));
    send_typed(&f->admin, "DELETE", CSINODES, NULL, NULL);
    expect_status(&f->admin, 405, "MethodNotAllowed",
                  "the server does not allow this method on the requested resource");
    create(&f->admin, CSINODE, "{}");
    assert_int_equal(f->admin.code, 405);
    get(&f->admin, "/version");
    assert_string_equal(str(f->admin.json, "gitVersion"), "v1.37.2");
    get(&f->node, "/apis/storage.k8s.io/v1/foo");
    expect_status(&f->node, 403, "Forbidden", NULL);
}

static void remembers_everything(void **state)
{
    struct fixture *f = *state;
    create(&f->node, CSINODES, "{\"metadata\":{\"name\":\"n1\"}}");
    patch(&f->node, CSINODE, "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
    delete (&f->node, CSINODE);
    json_t *history = control(f->server, "GET", "/history/csinodes/n1", NULL);
    assert_int_equal(json_array_size(at(history, "versions")), 3);
    assert_string_equal(str(history, "versions 0 verb"), "create");
    assert_string_equal(str(history, "versions 1 object metadata labels a"), "b");
    assert_string_equal(str(history, "versions 1 user"), NODE);
    assert_true(json_is_true(at(history, "versions 2 deleted")));
    json_decref(history);
    json_t *log = control(f->server, "GET", "/log?from=1", NULL);
    assert_int_equal(json_array_size(at(log, "entries")), 2);
    assert_string_equal(str(log, "entries 0 method"), "PATCH");
    assert_string_equal(str(log, "entries 0 contentType"), MERGE);
    assert_string_equal(str(log, "entries 0 body"), "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
    assert_string_equal(str(log, "entries 0 bodySha256"),
                        "c2996a26b2291adb3e828b7357476b80cf04a862c9633d0bc5f255df9410516c");
    json_decref(log);
    assert_int_equal(count_of(f->server, "patch", 200), 1);
    json_t *done = control(f->server, "POST", "/do", "{\"method\":\"GET\",\"path\":\"" NODES "\"}");
    assert_int_equal(json_integer_value(at(done, "code")), 200);
    assert_int_equal(count_of(f->server, "list", 200), 0);
    json_decref(done);
    json_t *dump = control(f->server, "GET", "/dump", NULL);
    assert_int_equal(json_array_size(at(dump, "items")), 2);
    json_decref(dump);
    post(f->server, "/reset", NULL);
    assert_int_equal(get(&f->admin, NODES "/n1"), 404);
    assert_int_equal(count_of(f->server, "patch", 200), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(says_who_may),           TEST(restricts_nodes),
        TEST(uses_the_rule_table),    TEST(takes_client_certificates),
        TEST(several_in_one_process), cmocka_unit_test(says_what_is_wrong_with_its_configuration),
        TEST(knows_its_paths),        TEST(remembers_everything),
    };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}
