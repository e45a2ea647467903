// SPDX-License-Identifier: Apache-2.0
/* The emulator's watches, read by threads of their own over real TLS. */
#include <pthread.h>

#include "test_apiserver_client.h"

#define WATCH CSINODES "?watch=1"

/* One watch: the lines it got so far and how it ended. */
struct reader {
    struct client client;
    char path[256];
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t news;
    struct text pending;
    json_t *events; /* parsed lines; a line that is no JSON as a string */
    bool ended, paused;
};

static void take_line(struct reader *r, const char *line, size_t len)
{
    json_t *event = json_loadb(line, len, 0, NULL);
    json_array_append_new(r->events, event ? event : json_stringn_nocheck(line, len));
}

static size_t take(char *data, size_t size, size_t n, void *user)
{
    struct reader *r = user;
    pthread_mutex_lock(&r->mu);
    while (r->paused) pthread_cond_wait(&r->news, &r->mu);
    keep(data, size, n, &r->pending);
    for (char *end; r->pending.len && (end = memchr(r->pending.data, '\n', r->pending.len));) {
        size_t used = (size_t)(end - r->pending.data);
        take_line(r, r->pending.data, used);
        r->pending.len -= used + 1;
        memmove(r->pending.data, end + 1, r->pending.len);
    }
    pthread_cond_broadcast(&r->news);
    pthread_mutex_unlock(&r->mu);
    return size * n;
}

static void *run(void *arg)
{
    struct reader *r = arg;
    char url[512];
    struct client *c = &r->client;
    snprintf(url, sizeof url, "https://%s%s", apiserver_address(c->server), r->path);
    set_options(c, "GET", url);
    struct curl_slist *headers = make_headers(c, NULL, NULL);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, r);
    c->result = curl_easy_perform(c->curl);
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &c->code);
    curl_slist_free_all(headers);
    pthread_mutex_lock(&r->mu);
    r->ended = true;
    pthread_cond_broadcast(&r->news);
    pthread_mutex_unlock(&r->mu);
    return NULL;
}

static void reader_start(struct reader *r, struct fixture *f, const char *path)
{
    *r = (struct reader){.events = json_array()};
    snprintf(r->path, sizeof r->path, "%s", path);
    client_init(&r->client, f->server, "admin");
    pthread_mutex_init(&r->mu, NULL);
    pthread_cond_init(&r->news, NULL);
    pthread_create(&r->thread, NULL, run, r);
}

/* Waits until n events came or the watch ended; how many there are. */
static size_t reader_wait(struct reader *r, size_t n)
{
    pthread_mutex_lock(&r->mu);
    while (!r->ended && json_array_size(r->events) < n) pthread_cond_wait(&r->news, &r->mu);
    size_t have = json_array_size(r->events);
    pthread_mutex_unlock(&r->mu);
    return have;
}

static CURLcode reader_end(struct reader *r)
{
    pthread_join(r->thread, NULL);
    return r->client.result;
}

static void reader_free(struct reader *r)
{
    json_decref(r->events);
    text_reset(&r->pending);
    client_fini(&r->client);
    pthread_cond_destroy(&r->news);
    pthread_mutex_destroy(&r->mu);
}

static void expect_event(struct reader *r, size_t i, const char *type, const char *name)
{
    pthread_mutex_lock(&r->mu);
    json_t *event = json_array_get(r->events, i);
    assert_string_equal(str(event, "type"), type);
    assert_string_equal(str(event, "object metadata name"), name);
    pthread_mutex_unlock(&r->mu);
}

static void make(struct fixture *f, const char *name)
{
    char body[256];
    snprintf(body, sizeof body, "{\"metadata\":{\"name\":\"%s\"}}", name);
    assert_int_equal(create(&f->admin, CSINODES, body), 201);
}

static void label(struct fixture *f, const char *name, int value)
{
    char body[256], path[256];
    snprintf(path, sizeof path, CSINODES "/%s", name);
    snprintf(body, sizeof body, "{\"metadata\":{\"labels\":{\"v\":\"%d\"}}}", value);
    assert_int_equal(patch(&f->admin, path, body), 200);
}

static void remove_object(struct fixture *f, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, CSINODES "/%s", name);
    assert_int_equal(delete (&f->admin, path), 200);
}

static void shows_the_present_then_the_changes(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    make(f, "b");
    make(f, "a");
    reader_start(&r, f, WATCH);
    assert_int_equal(reader_wait(&r, 2), 2);
    make(f, "c");
    label(f, "a", 1);
    label(f, "a", 1); /* changes nothing */
    remove_object(f, "b");
    assert_int_equal(reader_wait(&r, 5), 5);
    expect_event(&r, 0, "ADDED", "a");
    expect_event(&r, 1, "ADDED", "b");
    expect_event(&r, 2, "ADDED", "c");
    expect_event(&r, 3, "MODIFIED", "a");
    expect_event(&r, 4, "DELETED", "b");
    assert_string_equal(str(r.events, "3 object kind"), "CSINode");
    /* The deletion has a version of its own. */
    json_t *history = control(f->server, "GET", "/history/csinodes/b", NULL);
    assert_string_equal(str(r.events, "4 object metadata resourceVersion"), str(history, "versions 1 resourceVersion"));
    json_decref(history);
    post(f->server, "/watches/close", "{\"how\":\"rst\"}");
    assert_int_not_equal(reader_end(&r), CURLE_OK);
    reader_free(&r);
}

static void resumes_after_a_version(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    char path[256];
    make(f, "a");
    snprintf(path, sizeof path, WATCH "&timeoutSeconds=1&resourceVersion=%s",
             str(f->admin.json, "metadata resourceVersion"));
    label(f, "a", 1);
    label(f, "a", 2);
    remove_object(f, "a");
    reader_start(&r, f, path);
    assert_int_equal(reader_end(&r), CURLE_OK); /* the clean end after timeoutSeconds */
    assert_int_equal(json_array_size(r.events), 3);
    expect_event(&r, 0, "MODIFIED", "a");
    expect_event(&r, 1, "MODIFIED", "a");
    expect_event(&r, 2, "DELETED", "a");
    reader_free(&r);
}

static void follows_a_selector(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    reader_start(&r, f, WATCH "&fieldSelector=metadata.name%3Db");
    wait_for(f->server, "openWatches=1&resource=csinodes");
    make(f, "a");
    make(f, "b");
    label(f, "a", 1);
    label(f, "b", 1);
    remove_object(f, "b");
    assert_int_equal(reader_wait(&r, 3), 3);
    expect_event(&r, 0, "ADDED", "b");
    expect_event(&r, 1, "MODIFIED", "b");
    expect_event(&r, 2, "DELETED", "b");
    post(f->server, "/watches/close", "{}");
    reader_end(&r);
    reader_free(&r);
}

static void expect_expired(struct reader *r, size_t i, const char *message)
{
    assert_string_equal(str(json_array_get(r->events, i), "type"), "ERROR");
    json_t *status = at(json_array_get(r->events, i), "object");
    assert_string_equal(str(status, "kind"), "Status");
    assert_int_equal(json_integer_value(at(status, "code")), 410);
    assert_string_equal(str(status, "reason"), "Expired");
    if (message) assert_string_equal(str(status, "message"), message);
}

static void says_what_is_too_old(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    char message[128];
    make(f, "a");
    post(f->server, "/compact", "{\"resource\":\"csinodes\"}");
    label(f, "a", 1);
    snprintf(message, sizeof message, "too old resource version: 1 (%s)",
             str(f->admin.json, "metadata resourceVersion"));
    reader_start(&r, f, WATCH "&resourceVersion=1");
    assert_int_equal(reader_end(&r), CURLE_OK);
    assert_int_equal(r.client.code, 200);
    expect_expired(&r, 0, message);
    assert_int_equal(json_array_size(r.events), 1);
    reader_free(&r);
    /* In the middle of a watch too. */
    reader_start(&r, f, WATCH);
    reader_wait(&r, 1);
    post(f->server, "/watches/expire", "{}");
    assert_int_equal(reader_end(&r), CURLE_OK);
    expect_expired(&r, 1, NULL);
    reader_free(&r);
    /* And when everything goes away. */
    reader_start(&r, f, WATCH);
    reader_wait(&r, 1);
    post(f->server, "/reset", NULL);
    assert_int_equal(reader_end(&r), CURLE_OK);
    expect_expired(&r, 1, NULL);
    reader_free(&r);
    get(&f->admin, WATCH "&resourceVersion=x");
    expect_status(&f->admin, 500, "", NULL);
    get(&f->admin, WATCH "&sendInitialEvents=true");
    expect_status(&f->admin, 422, "Invalid", NULL);
    assert_string_equal(str(f->admin.json, "details kind"), "ListOptions");
    expect_cause(&f->admin, 0, "FieldValueForbidden", "sendInitialEvents", NULL);
}

static void waits_for_the_future(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    reader_start(&r, f, WATCH "&resourceVersion=5");
    wait_for(f->server, "openWatches=1");
    make(f, "a"); /* 4 */
    label(f, "a", 1);
    label(f, "a", 2); /* 6 */
    assert_int_equal(reader_wait(&r, 1), 1);
    assert_string_equal(str(r.events, "0 object metadata resourceVersion"), "6");
    post(f->server, "/watches/close", "{}");
    reader_end(&r);
    reader_free(&r);
}

static void sends_bookmarks(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    /* The one before the deadline, then the clean end. */
    reader_start(&r, f, WATCH "&resourceVersion=3&allowWatchBookmarks=true&timeoutSeconds=3");
    assert_int_equal(reader_end(&r), CURLE_OK);
    assert_int_equal(json_array_size(r.events), 1);
    expect_json(
        json_array_get(r.events, 0),
        "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"CSINode\",\"apiVersion\":\"storage.k8s.io/v1\",\"metadata\":"
        "{\"resourceVersion\":\"3\",\"creationTimestamp\":null}}}");
    reader_free(&r);
    reader_start(&r, f, WATCH "&allowWatchBookmarks=true");
    wait_for(f->server, "openWatches=1");
    post(f->server, "/watches/bookmark", "{\"match\":{\"resource\":\"csinodes\"}}");
    assert_int_equal(reader_wait(&r, 1), 1);
    assert_string_equal(str(r.events, "0 type"), "BOOKMARK");
    post(f->server, "/watches/close", "{}");
    reader_end(&r);
    reader_free(&r);
}

static void obeys_the_tests_hooks(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    make(f, "a");
    reader_start(&r, f, WATCH);
    reader_wait(&r, 1);
    post(f->server, "/watches/swallow", "{\"count\":1}");
    label(f, "a", 1); /* lost */
    post(f->server, "/watches/duplicate", "{\"count\":1}");
    label(f, "a", 2); /* twice */
    assert_int_equal(reader_wait(&r, 3), 3);
    assert_string_equal(str(r.events, "1 object metadata labels v"), "2");
    assert_string_equal(str(r.events, "2 object metadata labels v"), "2");
    post(f->server, "/watches/stall", "{}");
    label(f, "a", 3);
    post(f->server, "/watches/garbage", "{}");
    assert_int_equal(reader_wait(&r, 4), 4); /* the garbage passes the event that is stalled */
    assert_true(json_is_string(at(r.events, "3")));
    post(f->server, "/watches/stall", "{\"release\":true}");
    assert_int_equal(reader_wait(&r, 5), 5);
    post(f->server, "/watches/delay", "{\"ms\":50}");
    label(f, "a", 4);
    assert_int_equal(reader_wait(&r, 6), 6);
    assert_string_equal(str(r.events, "5 object metadata labels v"), "4");
    json_decref(control_status(f->server, 404, "POST", "/watches/nonsense", "{}"));
    post(f->server, "/watches/close", "{\"how\":\"midFrame\"}");
    assert_int_not_equal(reader_end(&r), CURLE_OK);
    assert_true(r.pending.len > 0);
    reader_free(&r);
    reader_start(&r, f, WATCH);
    reader_wait(&r, 1);
    post(f->server, "/watches/error", "{\"status\":{\"kind\":\"Status\",\"code\":500}}");
    assert_int_equal(reader_end(&r), CURLE_OK);
    assert_int_equal(json_integer_value(at(r.events, "1 object code")), 500);
    reader_free(&r);
}

/* Nobody waits for a reader that does not read; it loses its connection. */
static void drops_who_does_not_read(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    char *body = malloc(70000);
    make(f, "a");
    reader_start(&r, f, WATCH);
    reader_wait(&r, 1);
    pthread_mutex_lock(&r.mu);
    r.paused = true;
    pthread_mutex_unlock(&r.mu);
    int i = 0;
    for (bool open = true; open && i < 2000; i++) {
        int n = snprintf(body, 70000, "{\"metadata\":{\"annotations\":{\"a\":\"%d", i);
        memset(body + n, 'x', 60000);
        snprintf(body + n + 60000, 100, "\"}}}");
        assert_int_equal(patch(&f->admin, CSINODES "/a", body), 200);
        json_t *counts = control(f->server, "GET", "/counts", NULL);
        open = json_integer_value(at(counts, "watches open")) > 0;
        json_decref(counts);
    }
    assert_in_range(i, 100, 1999);
    pthread_mutex_lock(&r.mu);
    r.paused = false;
    pthread_cond_broadcast(&r.news);
    pthread_mutex_unlock(&r.mu);
    assert_int_not_equal(reader_end(&r), CURLE_OK);
    reader_free(&r);
    free(body);
}

static void ends_cleanly_with_the_server(void **state)
{
    struct apiserver_config config = {0};
    struct fixture *f = fixture_start(&config);
    struct reader r;
    (void)state;
    reader_start(&r, f, WATCH);
    wait_for(f->server, "openWatches=1");
    tear_down((void **)&f);
    assert_int_equal(reader_end(&r), CURLE_OK);
    reader_free(&r);
}

static void counts_watches(void **state)
{
    struct fixture *f = *state;
    struct reader r;
    make(f, "a");
    reader_start(&r, f, WATCH);
    reader_wait(&r, 1);
    json_t *counts = control(f->server, "GET", "/counts", NULL);
    assert_int_equal(json_integer_value(at(counts, "watches open")), 1);
    assert_int_equal(json_integer_value(at(counts, "watches events ADDED")), 1);
    assert_int_equal(count_of(f->server, "watch", 200), 1);
    json_decref(counts);
    wait_for(f->server, "idleMs=50"); /* an open watch is no activity */
    post(f->server, "/watches/close", "{}");
    reader_end(&r);
    reader_free(&r);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(shows_the_present_then_the_changes),
        TEST(resumes_after_a_version),
        TEST(follows_a_selector),
        TEST(says_what_is_too_old),
        TEST(waits_for_the_future),
        TEST(sends_bookmarks),
        TEST(obeys_the_tests_hooks),
        TEST(drops_who_does_not_read),
        TEST(counts_watches),
        cmocka_unit_test(ends_cleanly_with_the_server),
    };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}
