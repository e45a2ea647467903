// SPDX-License-Identifier: Apache-2.0
/* The emulator's faults: rules, the relay's network, the control socket. */
#include <pthread.h>
#include <unistd.h>

#include "test_apiserver_client.h"

#define CREATE_N1 "{\"metadata\":{\"name\":\"n1\"}}"

/* A request in a thread of its own. */
struct background {
    struct client client;
    const char *method, *path, *body;
    pthread_t thread;
};

static void *run(void *arg)
{
    struct background *b = arg;
    send_typed(&b->client, b->method, b->path, NULL, b->body);
    return NULL;
}

static void background_start(struct background *b, struct fixture *f, const char *method, const char *path,
                             const char *body)
{
    *b = (struct background){.method = method, .path = path, .body = body};
    client_init(&b->client, f->server, NODE);
    pthread_create(&b->thread, NULL, run, b);
}

static long background_end(struct background *b)
{
    pthread_join(b->thread, NULL);
    long code = b->client.code;
    client_fini(&b->client);
    return code;
}

static void answers_instead(void **state)
{
    struct fixture *f = *state;
    add_rule(f->server,
             "{\"match\":{\"verb\":\"get\"},\"count\":1,\"action\":{\"status\":503,\"reason\":\"ServiceUnavailable\","
             "\"message\":\"try later\",\"retryAfter\":7}}");
    get(&f->node, NODES "/n1");
    expect_status(&f->node, 503, "ServiceUnavailable", "try later");
    assert_non_null(strstr(f->node.headers.data, "Retry-After: 7"));
    assert_int_equal(json_integer_value(at(f->node.json, "details retryAfterSeconds")), 7);
    add_rule(f->server, "{\"count\":1,\"action\":{\"status\":500,\"message\":\"etcdserver: leader changed\"}}");
    get(&f->node, NODES "/n1");
    expect_status(&f->node, 500, "", "etcdserver: leader changed");
    add_rule(f->server, "{\"count\":1,\"action\":{\"plain429\":true}}");
    assert_int_equal(get(&f->node, NODES "/n1"), 429);
    assert_string_equal(f->node.body.data, "Too many requests, please try again later.\n");
    assert_non_null(strstr(f->node.headers.data, "Retry-After: 1"));
    add_rule(f->server, "{\"count\":1,\"action\":{\"unauthorized\":true}}");
    get(&f->node, NODES "/n1");
    expect_status(&f->node, 401, "Unauthorized", "Unauthorized");
    add_rule(f->server, "{\"count\":1,\"action\":{\"respond\":{\"kind\":\"Lie\"}}}");
    assert_int_equal(get(&f->node, NODES "/n1"), 200);
    expect_json(f->node.json, "{\"kind\":\"Lie\"}");
    add_rule(f->server, "{\"count\":1,\"action\":{\"warning\":\"look \\\"out\\\"\"}}");
    assert_int_equal(get(&f->node, NODES "/n1"), 200);
    assert_non_null(strstr(f->node.headers.data, "Warning: 299 - \"look \\\"out\\\"\""));
    assert_int_equal(count_of(f->server, "get", 503), 1);
}

static void answers_in_many_forms(void **state)
{
    struct fixture *f = *state;
    static const char *const forms[] = {"text", "empty", "html", "garbage", "truncated"};
    char rule[256];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(rule, sizeof rule, "{\"count\":1,\"action\":{\"status\":502,\"body\":\"%s\"}}", forms[i]);
        add_rule(f->server, rule);
        assert_int_equal(get(&f->node, NODES "/n1"), 502);
        assert_null(f->node.json);
        assert_int_equal(f->node.body.len == 0, !strcmp(forms[i], "empty"));
    }
}

static void picks_its_requests(void **state)
{
    struct fixture *f = *state;
    json_int_t id =
        add_rule(f->server, "{\"match\":{\"verb\":\"create\",\"resource\":\"csinodes\",\"name\":\"n1\",\"user\":"
                            "\"" NODE "\",\"contentType\":\"application/json\",\"watch\":false},\"action\":"
                            "{\"status\":500}}");
    create(&f->admin, CSINODES, CREATE_N1);
    assert_int_equal(f->admin.code, 201);
    assert_int_equal(create(&f->node, CSINODES, CREATE_N1), 500);
    assert_int_equal(patch(&f->node, CSINODE, "{}"), 200);
    json_t *rules = control(f->server, "GET", "/rules", NULL);
    assert_int_equal(json_integer_value(at(rules, "rules 0 hits")), 1);
    assert_int_equal(json_integer_value(at(rules, "rules 0 id")), id);
    json_decref(rules);
    char path[64];
    snprintf(path, sizeof path, "/rules/%d", (int)id);
    json_decref(control(f->server, "DELETE", path, NULL));
    json_decref(control_status(f->server, 404, "DELETE", path, NULL));
    /* Of ten requests after the first two, each third, at most twice. */
    add_rule(f->server, "{\"skip\":2,\"every\":3,\"count\":2,\"action\":{\"status\":500}}");
    char seen[13] = "";
    for (size_t i = 0; i < 12; i++) seen[i] = get(&f->node, NODES "/n1") == 500 ? 'x' : '.';
    assert_string_equal(seen, "....x..x....");
    json_decref(control_status(f->server, 400, "POST", "/rules", "{\"action\":{\"statsu\":500}}"));
    json_decref(control_status(f->server, 400, "POST", "/rules", "{}"));
}

static void delays(void **state)
{
    struct fixture *f = *state;
    add_rule(f->server, "{\"count\":1,\"action\":{\"delayMs\":50,\"status\":500}}");
    get(&f->node, NODES "/n1");
    json_t *log = control(f->server, "GET", "/log", NULL);
    json_int_t spent =
        json_integer_value(at(log, "entries 0 endNs")) - json_integer_value(at(log, "entries 0 startNs"));
    assert_true(spent >= 50000000);
    assert_true(json_integer_value(at(log, "entries 0 rule")) > 0);
    json_decref(log);
}

static void hangs_alone(void **state)
{
    struct fixture *f = *state;
    struct background hung;
    json_int_t id = add_rule(f->server, "{\"match\":{\"verb\":\"create\"},\"action\":{\"hang\":true}}");
    background_start(&hung, f, "POST", CSINODES, CREATE_N1);
    while (get(&f->node, NODES "/n1") == 200) { /* others are served meanwhile */
        json_t *rules = control(f->server, "GET", "/rules", NULL);
        bool hit = json_integer_value(at(rules, "rules 0 hits")) > 0;
        json_decref(rules);
        if (hit) break;
    }
    assert_int_equal(get(&f->admin, CSINODE), 404);
    char path[64];
    snprintf(path, sizeof path, "/rules/%d", (int)id);
    json_decref(control(f->server, "DELETE", path, NULL));
    assert_int_equal(background_end(&hung), 201); /* it goes on where it was */
}

static void notices_who_hung_up(void **state)
{
    struct fixture *f = *state;
    add_rule(f->server, "{\"match\":{\"verb\":\"create\"},\"action\":{\"hang\":true}}");
    struct client c;
    client_init(&c, f->server, NODE);
    char url[256];
    snprintf(url, sizeof url, "https://%s" CSINODES, apiserver_address(f->server));
    set_options(&c, "POST", url);
    struct curl_slist *headers = make_headers(&c, NULL, NULL);
    curl_easy_setopt(c.curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c.curl, CURLOPT_POSTFIELDS, CREATE_N1);
    curl_easy_setopt(c.curl, CURLOPT_TIMEOUT_MS, 500L);
    assert_int_equal(curl_easy_perform(c.curl), CURLE_OPERATION_TIMEDOUT);
    curl_slist_free_all(headers);
    wait_for(f->server, "atLeast=1&verb=create&code=0");
    assert_int_equal(get(&f->admin, CSINODE), 404);
    client_fini(&c);
}

static void stops_with_hung_requests(void **state)
{
    struct apiserver_config config = {0};
    struct fixture *f = fixture_start(&config);
    struct background hung;
    (void)state;
    add_rule(f->server, "{\"match\":{\"verb\":\"create\"},\"action\":{\"hang\":true}}");
    background_start(&hung, f, "POST", CSINODES, CREATE_N1);
    json_t *rules;
    bool hit = false;
    while (!hit) {
        rules = control(f->server, "GET", "/rules", NULL);
        hit = json_integer_value(at(rules, "rules 0 hits")) > 0;
        json_decref(rules);
    }
    tear_down((void **)&f);
    assert_int_equal(background_end(&hung), 0);
}

/* Each point where a connection may break, and whether the object is stored then. */
static void cuts(void **state)
{
    static const struct {
        const char *cut;
        bool stored, headers;
    } cases[] = {
        {"{\"at\":\"beforeRead\"}", false, false},
        {"{\"at\":\"afterRead\"}", false, false},
        {"{\"at\":\"afterRead\",\"how\":\"rst\"}", false, false},
        {"{\"at\":\"afterCommit\"}", true, false},
        {"{\"at\":\"afterCommit\",\"how\":\"rst\"}", true, false},
        {"{\"at\":\"header\"}", true, true},
        {"{\"at\":\"bytes\",\"bytes\":10}", true, true},
        {"{\"bytes\":10,\"how\":\"rst\"}", true, false},
    };
    struct fixture *f = *state;
    char rule[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        post(f->server, "/reset", NULL);
        snprintf(rule, sizeof rule, "{\"match\":{\"verb\":\"create\"},\"count\":1,\"action\":{\"cut\":%s}}",
                 cases[i].cut);
        add_rule(f->server, rule);
        assert_int_equal(create(&f->node, CSINODES, CREATE_N1), 0);
        assert_int_not_equal(f->node.result, CURLE_OK);
        if (cases[i].headers) assert_non_null(strstr(f->node.headers.data, "201 Created"));
        if (cases[i].headers) assert_int_equal(f->node.body.len, strstr(cases[i].cut, "bytes") ? 10 : 0);
        json_t *done = control(f->server, "POST", "/do", "{\"path\":\"" CSINODE "\"}");
        assert_int_equal(json_integer_value(at(done, "code")), cases[i].stored ? 200 : 404);
        json_decref(done);
        assert_int_equal(count_of(f->server, "create", 0), 1);
    }
    assert_int_equal(patch(&f->node, CSINODE, "{}"), 200);
}

static void commits_and_says_otherwise(void **state)
{
    struct fixture *f = *state;
    add_rule(f->server, "{\"match\":{\"verb\":\"create\"},\"count\":1,\"action\":{\"commitThenStatus\":500}}");
    assert_int_equal(create(&f->node, CSINODES, CREATE_N1), 500);
    assert_int_equal(get(&f->node, CSINODE), 200);
}

static void lets_another_writer_come_first(void **state)
{
    struct fixture *f = *state;
    create(&f->node, CSINODES, CREATE_N1);
    char *object = strdup(f->node.body.data);
    add_rule(
        f->server,
        "{\"match\":{\"verb\":\"update\"},\"count\":1,\"action\":{\"conflict\":{\"edit\":{\"metadata\":{\"labels\":"
        "{\"other\":\"writer\"}}}}}}");
    put(&f->node, CSINODE, object);
    expect_status(&f->node, 409, "Conflict", NULL);
    get(&f->node, CSINODE);
    assert_string_equal(str(f->node.json, "metadata labels other"), "writer");
    char *fresh = strdup(f->node.body.data);
    assert_int_equal(put(&f->node, CSINODE, fresh), 200);
    add_rule(f->server, "{\"match\":{\"verb\":\"update\"},\"count\":1,\"action\":{\"conflict\":{}}}");
    assert_int_equal(put(&f->node, CSINODE, fresh), 409);
    free(fresh);
    free(object);
}

static void loses_fields(void **state)
{
    struct fixture *f = *state;
    add_rule(f->server, "{\"action\":{\"drop\":[\"/spec/driverRegistrations\",\"/metadata/labels/a~1b\"]}}");
    create(&f->node, CSINODES,
           "{\"metadata\":{\"name\":\"n1\",\"labels\":{\"a/b\":\"c\",\"d\":\"e\"}},\"spec\":{\"driverRegistrations\":"
           "[{\"name\":\"d\",\"nodeID\":\"i\"}]}}");
    assert_int_equal(f->node.code, 201);
    expect_json(at(f->node.json, "spec"), "{\"drivers\":null}");
    expect_json(at(f->node.json, "metadata labels"), "{\"d\":\"e\"}");
}

/* A new connection each time: what the network does to it. */
static CURLcode fresh_get(struct fixture *f, long timeout_ms)
{
    struct client c;
    char url[256];
    client_init(&c, f->server, NODE);
    snprintf(url, sizeof url, "https://%s" NODES "/n1", apiserver_address(f->server));
    set_options(&c, "GET", url);
    curl_easy_setopt(c.curl, CURLOPT_TIMEOUT_MS, timeout_ms);
    CURLcode result = curl_easy_perform(c.curl);
    client_fini(&c);
    return result;
}

static void breaks_the_network(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(fresh_get(f, 60000), CURLE_OK);
    post(f->server, "/net", "{\"refuse\":true}");
    assert_int_equal(fresh_get(f, 60000), CURLE_COULDNT_CONNECT);
    post(f->server, "/net", "{\"refuse\":false}");
    assert_int_equal(fresh_get(f, 60000), CURLE_OK);
    post(f->server, "/net", "{\"blackhole\":true}");
    assert_int_equal(fresh_get(f, 300), CURLE_OPERATION_TIMEDOUT);
    post(f->server, "/net", "{\"blackhole\":false}");
    assert_int_equal(fresh_get(f, 60000), CURLE_OK);
    post(f->server, "/net", "{\"tlsFail\":true}");
    assert_int_equal(fresh_get(f, 60000), CURLE_SSL_CONNECT_ERROR);
    post(f->server, "/net", "{\"tlsFail\":false,\"acceptDelayMs\":50}");
    assert_int_equal(fresh_get(f, 60000), CURLE_OK);
    post(f->server, "/net", "{\"acceptDelayMs\":0,\"resetAll\":true}");
    json_decref(control_status(f->server, 400, "POST", "/net", "{\"refuze\":true}"));
}

static void resets_connections(void **state)
{
    struct fixture *f = *state;
    struct background hung;
    add_rule(f->server, "{\"match\":{\"verb\":\"create\"},\"action\":{\"hang\":true}}");
    background_start(&hung, f, "POST", CSINODES, CREATE_N1);
    json_int_t in_flight = 0;
    while (!in_flight) {
        json_t *counts = control(f->server, "GET", "/counts", NULL);
        in_flight = json_integer_value(at(counts, "inFlight"));
        json_decref(counts);
    }
    post(f->server, "/net", "{\"resetAll\":true}");
    assert_int_equal(background_end(&hung), 0);
    wait_for(f->server, "atLeast=1&verb=create&code=0");
}

static void shows_other_certificates(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"expired", "wrongName", "untrusted"};
    char body[64];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(body, sizeof body, "{\"serverCert\":\"%s\"}", bad[i]);
        post(f->server, "/net", body);
        assert_int_equal(fresh_get(f, 60000), CURLE_PEER_FAILED_VERIFICATION);
    }
    post(f->server, "/net", "{\"serverCert\":\"good\"}");
    assert_int_equal(fresh_get(f, 60000), CURLE_OK);
}

static void waits_on_request(void **state)
{
    struct fixture *f = *state;
    json_decref(control_status(f->server, 408, "GET", "/wait?atLeast=1&verb=create&timeoutMs=10", NULL));
    json_decref(control_status(f->server, 400, "GET", "/wait?timeoutMs=10", NULL));
    struct background made;
    background_start(
        &made, f, "POST", CSINODES,
        "{\"metadata\":{\"name\":\"n1\",\"labels\":{\"a.b/c\":\"7\"}},\"spec\":{\"drivers\":[{\"name\":\"d\","
        "\"nodeID\":\"i\",\"allocatable\":{\"count\":7}}]}}");
    wait_for(f->server, "resource=csinodes&name=n1&pointer=/metadata/labels/a.b~1c&equals=7");
    wait_for(f->server, "resource=csinodes&name=n1&pointer=/spec/drivers/0/allocatable/count&equals=7");
    wait_for(f->server, "resource=csinodes&name=n1&pointer=/spec/driverRegistrations&absent=true");
    wait_for(f->server, "atLeast=1&verb=create&resource=csinodes&user=" NODE "&code=201");
    wait_for(f->server, "idleMs=20");
    assert_int_equal(background_end(&made), 201);
    delete (&f->node, CSINODE);
    wait_for(f->server, "resource=csinodes&name=n1&absent=true");
}

/* ---- the control socket and the files ---- */

struct files {
    char directory[64], control[96], load[96], tokens[96], log[96];
};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_files(struct files *p)
{
    snprintf(p->directory, sizeof p->directory, "/tmp/csireg-apiserver-XXXXXX");
    assert_non_null(mkdtemp(p->directory));
    snprintf(p->control, sizeof p->control, "%s/control", p->directory);
    snprintf(p->load, sizeof p->load, "%s/load", p->directory);
    snprintf(p->tokens, sizeof p->tokens, "%s/tokens", p->directory);
    snprintf(p->log, sizeof p->log, "%s/log", p->directory);
    write_file(p->load,
               "{\"kind\":\"CSINode\",\"metadata\":{\"name\":\"n7\"}}\n"
               "{\"kind\":\"CSIDriver\",\"apiVersion\":\"storage.k8s.io/v1\",\"metadata\":{\"name\":\"d\"}}\n");
    write_file(p->tokens, "[{\"token\":\"secret\",\"user\":\"root\",\"groups\":[\"system:masters\"]}]");
}

static void remove_files(const struct files *p)
{
    unlink(p->load);
    unlink(p->tokens);
    unlink(p->log);
    assert_int_equal(rmdir(p->directory), 0); /* the socket is gone already */
}

static void serves_its_control_socket(void **state)
{
    struct files p = {.directory = ""};
    struct text body = {0};
    (void)state;
    make_files(&p);
    struct apiserver_config config = {.control = p.control, .load = p.load, .tokens = p.tokens, .log = p.log};
    struct fixture *f = fixture_start(&config);
    free(f->admin.token);
    f->admin.token = strdup("secret");
    assert_int_equal(get(&f->admin, CSINODES "/n7"), 200);
    assert_int_equal(get(&f->admin, DRIVERS "/d"), 200);
    CURL *curl = curl_easy_init();
    curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, p.control);
    curl_easy_setopt(curl, CURLOPT_URL, "http://control/do");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "{\"path\":\"" CSINODES "/n7\"}");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
    assert_int_equal(curl_easy_perform(curl), CURLE_OK);
    json_t *answer = json_loads(body.data, 0, NULL);
    assert_string_equal(str(answer, "body metadata name"), "n7");
    json_decref(answer);
    text_reset(&body);
    curl_easy_cleanup(curl);
    tear_down((void **)&f);
    remove_files(&p);
}

static void loads_objects(void **state)
{
    static const struct {
        const char *text, *error; /* NULL: n7 is there */
    } cases[] = {
        {"{\"kind\":\"List\",\"items\":[{\"kind\":\"CSINode\",\"metadata\":{\"name\":\"n7\"}}]}", NULL},
        {"{\n \"kind\": \"CSINode\",\n \"metadata\": {\"name\": \"n7\"}\n}\n", NULL},
        {"{\"kind\":\"Pod\"}", "objects of kind \"Pod\" are not served"},
        {"{\"kind\":\"CSINode\"}", "cannot create a CSINode"},
        {"{\"kind\":", "near"},
    };
    struct files p = {.directory = ""};
    (void)state;
    make_files(&p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct apiserver_config config = {.load = p.load, .plain_http = true};
        struct apiserver *s = NULL;
        char *error = NULL;
        write_file(p.load, cases[i].text);
        assert_int_equal(apiserver_start(&config, &s, &error), cases[i].error ? -1 : 0);
        if (cases[i].error)
            assert_non_null(strstr(error, cases[i].error));
        else
            wait_for(s, "resource=csinodes&name=n7");
        apiserver_stop(s);
        free(error);
    }
    remove_files(&p);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(answers_instead),
        TEST(answers_in_many_forms),
        TEST(picks_its_requests),
        TEST(delays),
        TEST(hangs_alone),
        TEST(notices_who_hung_up),
        cmocka_unit_test(stops_with_hung_requests),
        TEST(cuts),
        TEST(commits_and_says_otherwise),
        TEST(lets_another_writer_come_first),
        TEST(loses_fields),
        TEST(breaks_the_network),
        TEST(resets_connections),
        TEST(shows_other_certificates),
        TEST(waits_on_request),
        cmocka_unit_test(serves_its_control_socket),
        cmocka_unit_test(loads_objects),
    };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}
