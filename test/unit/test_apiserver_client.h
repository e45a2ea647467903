/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the emulator's tests share: a server in this process, requests to it over real TLS with libcurl, and control
 * requests by function call. Texts and trees belong to the reply and go with the next request of the same client.
 */
#ifndef TEST_APISERVER_CLIENT_H
#define TEST_APISERVER_CLIENT_H

#include <curl/curl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "apiserver/apiserver.h"

#define NODE      "system:node:n1"
#define CSINODES  "/apis/storage.k8s.io/v1/csinodes"
#define CSINODE   CSINODES "/n1"
#define DRIVERS   "/apis/storage.k8s.io/v1/csidrivers"
#define NODES     "/api/v1/nodes"
#define MERGE     "application/merge-patch+json"
#define STRATEGIC "application/strategic-merge-patch+json"

struct text {
    char *data;
    size_t len;
};

struct client {
    struct apiserver *server;
    CURL *curl;
    char *token; /* NULL: none is sent */
    struct text body, headers;
    json_t *json; /* of the last body, or NULL */
    CURLcode result;
    long code;
};

static inline size_t keep(char *data, size_t size, size_t n, void *user)
{
    struct text *t = user;
    char *grown = reallocarray(t->data, t->len + size * n + 1, 1);
    if (!grown) return 0;
    t->data = grown;
    memcpy(t->data + t->len, data, size * n);
    t->len += size * n;
    t->data[t->len] = '\0';
    return size * n;
}

static inline void text_reset(struct text *t)
{
    free(t->data);
    *t = (struct text){0};
}

/* ---- control ---- */

/* One control request; its answer as a tree, the caller's. */
static inline json_t *control_status(struct apiserver *s, int wanted, const char *method, const char *path,
                                     const char *body)
{
    int status = 0;
    char *text = apiserver_control(s, method, path, body, &status);
    if (status != wanted) print_error("%s %s: %d %s\n", method, path, status, text);
    assert_int_equal(status, wanted);
    json_t *answer = json_loads(text, JSON_DECODE_ANY, NULL);
    free(text);
    return answer;
}

static inline json_t *control(struct apiserver *s, const char *method, const char *path, const char *body)
{
    return control_status(s, 200, method, path, body);
}

static inline void post(struct apiserver *s, const char *path, const char *body)
{
    json_decref(control(s, "POST", path, body));
}

static inline json_int_t add_rule(struct apiserver *s, const char *rule)
{
    json_t *answer = control(s, "POST", "/rules", rule);
    json_int_t id = json_integer_value(json_object_get(answer, "id"));
    json_decref(answer);
    return id;
}

static inline void wait_for(struct apiserver *s, const char *what)
{
    char path[512];
    snprintf(path, sizeof path, "/wait?timeoutMs=30000&%s", what);
    json_decref(control(s, "GET", path, NULL));
}

static inline json_int_t count_of(struct apiserver *s, const char *verb, int code)
{
    size_t i;
    json_t *row, *counts = control(s, "GET", "/counts", NULL);
    json_int_t sum = 0;
    json_array_foreach (json_object_get(counts, "requests"), i, row) {
        if (!strcmp(json_string_value(json_object_get(row, "verb")), verb) &&
            json_integer_value(json_object_get(row, "code")) == code)
            sum += json_integer_value(json_object_get(row, "count"));
    }
    json_decref(counts);
    return sum;
}

/* ---- requests ---- */

static inline void client_init(struct client *c, struct apiserver *s, const char *user)
{
    *c = (struct client){.server = s, .curl = curl_easy_init()};
    if (!user) return;
    char *kubeconfig = apiserver_kubeconfig(s, user), *at = strstr(kubeconfig, "token: ") + 7;
    c->token = strndup(at, strcspn(at, "\n"));
    free(kubeconfig);
}

static inline void client_fini(struct client *c)
{
    curl_easy_cleanup(c->curl);
    free(c->token);
    text_reset(&c->body);
    text_reset(&c->headers);
    json_decref(c->json);
}

static inline void set_options(struct client *c, const char *method, const char *url)
{
    const char *ca = apiserver_ca(c->server);
    curl_easy_reset(c->curl);
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(c->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT, 60L);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, keep);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &c->body);
    curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, keep);
    curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, &c->headers);
    if (!ca) return;
    struct curl_blob blob = {(void *)ca, strlen(ca), CURL_BLOB_COPY};
    curl_easy_setopt(c->curl, CURLOPT_CAINFO_BLOB, &blob);
}

static inline struct curl_slist *make_headers(const struct client *c, const char *type, const char *extra)
{
    char line[4096];
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    snprintf(line, sizeof line, "Content-Type: %s", type ? type : "application/json");
    list = curl_slist_append(list, line);
    if (extra) list = curl_slist_append(list, extra);
    snprintf(line, sizeof line, "Authorization: Bearer %s", c->token ? c->token : "");
    return c->token ? curl_slist_append(list, line) : list;
}

/* Sends one request; the HTTP status, 0 when no complete answer came (c->result says why). */
static inline long send_with(struct client *c, const char *method, const char *path, const char *type, const char *body,
                             const char *extra)
{
    char url[4096];
    snprintf(url, sizeof url, "%s://%s%s", apiserver_ca(c->server) ? "https" : "http", apiserver_address(c->server),
             path);
    text_reset(&c->body);
    text_reset(&c->headers);
    json_decref(c->json);
    set_options(c, method, url);
    struct curl_slist *headers = make_headers(c, type, extra);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
    if (body) curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body));
    if (body) curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, body);
    c->result = curl_easy_perform(c->curl);
    c->code = 0;
    if (c->result == CURLE_OK) curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &c->code);
    curl_slist_free_all(headers);
    c->json = c->body.data ? json_loadb(c->body.data, c->body.len, JSON_DECODE_ANY, NULL) : NULL;
    return c->code;
}

static inline long send_typed(struct client *c, const char *method, const char *path, const char *type,
                              const char *body)
{
    return send_with(c, method, path, type, body, NULL);
}

static inline long get(struct client *c, const char *path) { return send_typed(c, "GET", path, NULL, NULL); }
static inline long create(struct client *c, const char *path, const char *body)
{
    return send_typed(c, "POST", path, NULL, body);
}
static inline long put(struct client *c, const char *path, const char *body)
{
    return send_typed(c, "PUT", path, NULL, body);
}
static inline long patch(struct client *c, const char *path, const char *body)
{
    return send_typed(c, "PATCH", path, MERGE, body);
}
static inline long delete (struct client *c, const char *path) { return send_typed(c, "DELETE", path, NULL, NULL); }

/* ---- what came ---- */

/* The value at a path of keys separated by blanks; numbers index lists. NULL: absent. */
static inline json_t *at(json_t *root, const char *path)
{
    char copy[256], *save = NULL;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *key = strtok_r(copy, " ", &save); key && root; key = strtok_r(NULL, " ", &save))
        root = json_is_array(root) ? json_array_get(root, (size_t)strtoul(key, NULL, 10)) : json_object_get(root, key);
    return root;
}

static inline const char *str(json_t *root, const char *path)
{
    const char *s = json_string_value(at(root, path));
    return s ? s : "";
}

static inline void expect_status(struct client *c, long code, const char *reason, const char *message)
{
    if (c->code != code) print_error("%s\n", c->body.data ? c->body.data : curl_easy_strerror(c->result));
    assert_int_equal(c->code, code);
    assert_string_equal(str(c->json, "kind"), "Status");
    assert_int_equal(json_integer_value(at(c->json, "code")), code);
    assert_string_equal(str(c->json, "reason"), reason);
    if (message) assert_string_equal(str(c->json, "message"), message);
}

static inline void expect_cause(struct client *c, size_t i, const char *reason, const char *field, const char *message)
{
    json_t *cause = json_array_get(at(c->json, "details causes"), i);
    assert_non_null(cause);
    assert_string_equal(str(cause, "reason"), reason);
    assert_string_equal(str(cause, "field"), field);
    if (message) assert_string_equal(str(cause, "message"), message);
}

static inline void expect_json(json_t *found, const char *wanted)
{
    json_t *w = json_loads(wanted, JSON_DECODE_ANY, NULL);
    assert_non_null(w);
    char *text = json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT);
    if (!json_equal(found, w)) print_error("found %s\nwanted %s\n", text ? text : "nothing", wanted);
    assert_true(json_equal(found, w));
    free(text);
    json_decref(w);
}

/* ---- a server for one test ---- */

struct fixture {
    struct apiserver *server;
    struct client admin, node; /* a master, and the identity of node n1 */
};

static inline struct fixture *fixture_start(const struct apiserver_config *config)
{
    char *error = NULL;
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    if (apiserver_start(config, &f->server, &error) != 0) fail_msg("%s", error);
    client_init(&f->admin, f->server, "admin");
    client_init(&f->node, f->server, NODE);
    return f;
}

static inline int set_up(void **state)
{
    static const char *const nodes[] = {"n1", "n2"};
    struct apiserver_config config = {.nodes = nodes, .n_nodes = 2, .gate_node_info = "on"};
    *state = fixture_start(&config);
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;
    client_fini(&f->admin);
    client_fini(&f->node);
    apiserver_stop(f->server);
    free(f);
    return 0;
}

#endif
