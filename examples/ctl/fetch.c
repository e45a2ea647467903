/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/unix_socket.h"

struct text {
    char *data;
    size_t len;
    bool too_long;
};

static size_t take(char *data, size_t size, size_t n, void *user)
{
    struct text *t = user;
    size_t len = size * n;
    t->too_long = len > CTL_MAX_STATUS - t->len;
    if (t->too_long) return 0;
    t->data = need_array(t->data, t->len + len + 1, 1);
    memcpy(t->data + t->len, data, len);
    t->len += len;
    t->data[t->len] = '\0';
    return len;
}

/* Takes the text. */
static json_t *parse(struct text *t, const char *from, char **out_error)
{
    json_error_t e;
    json_t *status = t->data ? json_loadb(t->data, t->len, 0, &e) : NULL;
    if (!json_is_object(status) || !json_object_get(status, "version")) {
        *out_error = need_printf("what %s gives is no status document of csireg", from);
        json_decref(status);
        status = NULL;
    }
    free(t->data);
    return status;
}

/* ---- HTTP ---- */

static char *url_of(const char *endpoint)
{
    if (strncmp(endpoint, "unix:", 5) == 0) return need_strdup("http://localhost/status");
    const char *scheme = strstr(endpoint, "://");
    if (!scheme) return need_printf("http://%s%s/status", *endpoint == ':' ? "localhost" : "", endpoint);
    return need_printf("%s%s", endpoint, strchr(scheme + 3, '/') ? "" : "/status");
}

static void set_up(CURL *curl, const char *endpoint, int64_t timeout_ms, struct text *body)
{
    char *url = url_of(endpoint);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    if (strncmp(endpoint, "unix:", 5) == 0) curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, unix_path(endpoint));
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
    free(url);
}

static char *failure(const char *endpoint, CURLcode code, long http, const struct text *body)
{
    if (body->too_long) return need_printf("the status at %s is longer than %d bytes", endpoint, CTL_MAX_STATUS);
    if (code == CURLE_OK) return need_printf("%s answered HTTP %ld, not with a status document", endpoint, http);
    return need_printf("cannot read the status from %s: %s. Does csireg-agent run, with --http-endpoint=%s?", endpoint,
                       curl_easy_strerror(code), endpoint);
}

json_t *fetch_http(const char *endpoint, int64_t timeout_ms, char **out_error)
{
    struct text body = {NULL, 0, false};
    long http = 0;
    CURL *curl = curl_easy_init();
    if (!curl) {
        *out_error = need_strdup("libcurl cannot be used");
        return NULL;
    }
    set_up(curl, endpoint, timeout_ms, &body);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http);
    curl_easy_cleanup(curl);
    if (code == CURLE_OK && http == 200) return parse(&body, endpoint, out_error);
    *out_error = failure(endpoint, code, http, &body);
    free(body.data);
    return NULL;
}

/* ---- files ---- */

static void slurp(FILE *in, struct text *t)
{
    char part[16384];
    for (size_t n; !t->too_long && (n = fread(part, 1, sizeof part, in)) > 0;) take(part, 1, n, t);
}

json_t *fetch_file(const char *path, char **out_error)
{
    struct text t = {NULL, 0, false};
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *in = is_stdin ? stdin : fopen(path, "re");
    if (!in) {
        *out_error = need_printf("cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    slurp(in, &t);
    int failed = ferror(in);
    if (!is_stdin) fclose(in);
    if (!failed && !t.too_long) return parse(&t, is_stdin ? "standard input" : path, out_error);
    *out_error =
        failed ? need_printf("cannot read %s", path) : need_printf("%s is longer than %d bytes", path, CTL_MAX_STATUS);
    free(t.data);
    return NULL;
}
