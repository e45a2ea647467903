/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/http_rig.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "base/clock.h"
#include "base/mem.h"

#define PATIENCE_MS 60000 /* of a test that waits for something that never comes */

/* ---- files ---- */

const char *http_rig_path(struct http_rig *rig, const char *name)
{
    static char paths[4][512];
    static unsigned n;
    char *path = paths[n++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", rig->dir, name);
    return path;
}

void http_rig_write(struct http_rig *rig, const char *name, const char *text)
{
    const char *path = http_rig_path(rig, name), *fresh = http_rig_path(rig, "fresh");
    FILE *f = fopen(fresh, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(fresh, path), 0);
}

static void remove_files(struct http_rig *rig)
{
    DIR *dir = opendir(rig->dir);
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (d->d_name[0] != '.') unlink(http_rig_path(rig, d->d_name));
    if (dir) closedir(dir);
    rmdir(rig->dir);
}

/* ---- life ---- */

int http_rig_setup(void **state)
{
    static const char *const names[] = {"127.0.0.1", "::1", "localhost", NULL};
    struct http_rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    snprintf(rig->dir, sizeof rig->dir, "/tmp/csireg-http-XXXXXX");
    assert_non_null(mkdtemp(rig->dir));
    rig->ca = pki_new("test CA");
    rig->pair = pki_issue(rig->ca, PKI_SERVER, "server", names);
    *state = rig;
    return 0;
}

int http_rig_teardown(void **state)
{
    struct http_rig *rig = *state;
    cr_http_free(rig->http);
    cr_access_free(rig->access);
    tls_server_stop(rig->server);
    for (size_t i = 0; i < HTTP_RIG_ANSWERS; i++) cr_api_answer_fini(&rig->answers[i]);
    pki_pair_free(&rig->pair);
    pki_free(rig->ca);
    remove_files(rig);
    free(rig);
    return 0;
}

void http_rig_serve_config(struct http_rig *rig, struct tls_server_config config)
{
    if (!config.pair) config.pair = &rig->pair;
    rig->server = tls_server_start(&config);
}

void http_rig_serve(struct http_rig *rig, tls_handler *handler, void *user)
{
    http_rig_serve_config(rig, (struct tls_server_config){.handler = handler, .user = user});
}

/* ---- the client ---- */

static void on_done(void *user, uint64_t id, struct cr_api_answer *answer)
{
    struct http_rig *rig = user;
    rig->done[id]++;
    cr_api_answer_fini(&rig->answers[id]);
    rig->answers[id] = *answer;
    *answer = (struct cr_api_answer){0};
    if (rig->on_done) rig->on_done(rig, id);
}

static void on_line(void *user, uint64_t id, const char *line, size_t len)
{
    struct http_rig *rig = user;
    size_t used = strlen(rig->lines);
    assert_int_equal(line[len], '\0');
    if (len + 1 < sizeof rig->lines - used) snprintf(rig->lines + used, sizeof rig->lines - used, "%s\n", line);
    if (len > rig->longest_line) rig->longest_line = len;
    rig->n_lines++;
    if (rig->on_line) rig->on_line(rig, id);
}

static void on_changed(void *user) { ((struct http_rig *)user)->changed++; }

void http_rig_connect_explicit(struct http_rig *rig, struct cr_access_explicit x)
{
    char server[128];
    struct csireg_error *error = NULL;
    const struct cr_http_handlers handlers = {on_done, on_line, on_changed, rig};
    snprintf(server, sizeof server, "https://127.0.0.1:%u", rig->server ? tls_server_port(rig->server) : 1);
    if (!x.server) x.server = server;
    if (cr_access_from_explicit(&rig->access, &x, &error) != 0) fail_msg("%s", csireg_error_message(error));
    assert_int_equal(cr_http_new(&rig->http, rig->access, &handlers, &error), 0);
}

void http_rig_connect(struct http_rig *rig)
{
    http_rig_write(rig, "ca.pem", pki_pem(rig->ca));
    http_rig_write(rig, "token", HTTP_RIG_TOKEN "\n");
    http_rig_connect_explicit(rig, (struct cr_access_explicit){.token_file = http_rig_path(rig, "token"),
                                                               .ca_file = http_rig_path(rig, "ca.pem")});
}

static uint64_t start(struct http_rig *rig, struct cr_api_request *r, const char *path, const char *body)
{
    uint64_t id = ++rig->last_id;
    assert_true(id < HTTP_RIG_ANSWERS);
    r->resource = "csinodes";
    r->path = cr_strdup(path);
    r->body = cr_strdup(body);
    if (body) r->content_type = "application/json";
    cr_http_start(rig->http, id, r);
    assert_null(r->path);
    return id;
}

uint64_t http_rig_start(struct http_rig *rig, enum cr_http_method method, const char *path, const char *body,
                        int64_t timeout_ms)
{
    static const char *const verbs[] = {"", "get", "create", "update", "patch", "delete"};
    struct cr_api_request r = {.method = method, .verb = verbs[method], .timeout_ms = timeout_ms};
    return start(rig, &r, path, body);
}

uint64_t http_rig_watch(struct http_rig *rig, const char *path, int64_t timeout_ms)
{
    struct cr_api_request r = {.method = CR_HTTP_GET, .verb = "watch", .timeout_ms = timeout_ms, .watch = true};
    return start(rig, &r, path, NULL);
}

void http_rig_step(struct http_rig *rig)
{
    cr_http_poll(rig->http, NULL, 0, 100);
    cr_http_perform(rig->http);
}

struct cr_api_answer *http_rig_wait(struct http_rig *rig, uint64_t id)
{
    int64_t end = cr_clock_now().mono_ms + PATIENCE_MS;
    while (!rig->done[id]) {
        if (cr_clock_now().mono_ms > end) fail_msg("request %u does not end", (unsigned)id);
        http_rig_step(rig);
    }
    return &rig->answers[id];
}

struct cr_api_answer *http_rig_get(struct http_rig *rig, const char *path)
{
    return http_rig_wait(rig, http_rig_start(rig, CR_HTTP_GET, path, NULL, 10000));
}

/* ---- judging ---- */

void assert_http_text(const char *text, const char *part)
{
    assert_non_null(text);
    if (!strstr(text, part)) fail_msg("\"%s\" lacks \"%s\"", text, part);
    if (strstr(text, "SECRET") || strstr(text, "PRIVATE KEY")) fail_msg("\"%s\" shows a secret", text);
}

void assert_http_failed(const struct cr_api_answer *a, enum cr_transport transport, const char *part)
{
    if (a->transport != transport) fail_msg("transport %d, not %d: %s", a->transport, transport, a->text);
    assert_int_equal(a->status, 0);
    assert_int_equal(a->retry_after_ms, -1);
    assert_null(a->body);
    if (part) assert_http_text(a->text, part);
}

/* ---- handlers ---- */

bool request_has_line(const struct tls_request *r, const char *line)
{
    size_t n = strlen(line);
    for (const char *p = r->head; p; p = strstr(p, "\r\n") ? strstr(p, "\r\n") + 2 : NULL)
        if (strncmp(p, line, n) == 0 && (p[n] == '\r' || p[n] == '\0')) return true;
    return false;
}

enum tls_after http_serve_ok(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    (void)user, (void)r;
    tls_reply(conn, 200, NULL, "{\"ok\":true}");
    return TLS_KEEP;
}

enum tls_after http_serve_token(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    char line[256];
    snprintf(line, sizeof line, "Authorization: Bearer %s", (const char *)user);
    if (request_has_line(r, line)) return http_serve_ok(user, conn, r);
    tls_reply(conn, 401, NULL, "{\"kind\":\"Status\",\"code\":401}");
    return TLS_KEEP;
}
