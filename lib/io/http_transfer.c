/* SPDX-License-Identifier: Apache-2.0 */
/* One request on one libcurl handle: its options, what comes back, its end. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bounds.h"
#include "base/clock.h"
#include "base/mem.h"
#include "csireg/version.h"
#include "io/http_internal.h"

#define CONNECT_TIMEOUT_MS 5000
#define KEEPALIVE_IDLE_S   30
#define KEEPALIVE_PROBE_S  15

/* ---- life ---- */

struct cr_http_transfer *cr_http_transfer_new(struct cr_http *http)
{
    struct cr_http_transfer *t = CR_NEW(struct cr_http_transfer);
    if (!t) return NULL;
    t->http = http;
    cr_list_init(&t->node);
    cr_buf_init(&t->body, CR_MAX_API_BODY);
    cr_buf_init(&t->line, CR_MAX_WATCH_LINE);
    t->answer.retry_after_ms = -1;
    return t;
}

void cr_http_transfer_free(struct cr_http_transfer *t)
{
    curl_easy_cleanup(t->easy);
    cr_http_identity_unref(t->identity);
    cr_api_request_fini(&t->request);
    cr_api_answer_fini(&t->answer);
    cr_buf_free(&t->body);
    cr_buf_free(&t->line);
    cr_free(t);
}

/* ---- what comes back ---- */

static size_t stop(struct cr_http_transfer *t, enum cr_transport why)
{
    t->abort = why;
    return 0; /* not what libcurl offered, so it ends the transfer */
}

static size_t keep(struct cr_http_transfer *t, struct cr_buf *b, const char *data, size_t len)
{
    if (cr_buf_append(b, data, len)) return len;
    return stop(t, len > b->max - b->len ? CR_TRANSPORT_TOO_LARGE : CR_TRANSPORT_NOMEM);
}

static void deliver_line(struct cr_http_transfer *t)
{
    if (t->line.len > 0) cr_http_hide_token(t, t->line.data, t->line.len);
    if (t->line.len > 0) t->http->handlers.watch_line(t->http->handlers.user, t->id, t->line.data, t->line.len);
    cr_buf_reset(&t->line);
}

/* Returns len, or something else to end the transfer. */
static size_t split_lines(struct cr_http_transfer *t, const char *data, size_t len)
{
    for (size_t used = 0; used < len;) {
        const char *end = memchr(data + used, '\n', len - used);
        size_t n = end ? (size_t)(end - data) - used : len - used;
        if (n > 0 && keep(t, &t->line, data + used, n) == 0) return 0;
        if (end) deliver_line(t);
        if (t->cancelled) return stop(t, CR_TRANSPORT_CANCELLED);
        used += n + (end != NULL);
    }
    return len;
}

static long status_of(const struct cr_http_transfer *t)
{
    long status = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    struct cr_http_transfer *t = user;
    if (t->cancelled) return stop(t, CR_TRANSPORT_CANCELLED);
    if (t->request.watch && status_of(t) == 200) return split_lines(t, data, size * n);
    return keep(t, &t->body, data, size * n);
}

/* The value of the header `name`, trimmed into out; false: another header. */
static bool header_value(const char *data, size_t len, const char *name, char out[CR_MAX_API_HEADER + 1])
{
    size_t n = strlen(name);
    if (len <= n || strncasecmp(data, name, n) != 0 || data[n] != ':') return false;
    const char *start = data + n + 1, *end = data + len;
    while (start < end && (*start == ' ' || *start == '\t')) start++;
    while (end > start && memchr(" \t\r\n", end[-1], 4)) end--;
    size_t kept = (size_t)(end - start) < CR_MAX_API_HEADER ? (size_t)(end - start) : CR_MAX_API_HEADER;
    memcpy(out, start, kept);
    out[kept] = '\0';
    return true;
}

static void keep_warning(struct cr_http_transfer *t, const char *value)
{
    char *text = cr_http_warning_text(value);
    if (text) cr_http_hide_token(t, text, strlen(text));
    t->answer.warning = text;
}

static size_t on_header(char *data, size_t size, size_t n, void *user)
{
    struct cr_http_transfer *t = user;
    char value[CR_MAX_API_HEADER + 1];
    size_t len = size * n;
    t->header_bytes += len;
    if (t->header_bytes > CR_MAX_API_HEADERS) return stop(t, CR_TRANSPORT_TOO_LARGE);
    if (data[0] == '\r' || data[0] == '\n') t->head_complete = true;
    if (len >= 5 && strncmp(data, "HTTP/", 5) == 0) t->head_complete = false;
    if (header_value(data, len, "Retry-After", value))
        t->answer.retry_after_ms = cr_http_retry_after(value, cr_clock_now().wall_ms);
    else if (!t->answer.warning && header_value(data, len, "Warning", value))
        keep_warning(t, value);
    return len;
}

/* ---- the handle ---- */

#define SET(option, value) ok = curl_easy_setopt(t->easy, option, value) == CURLE_OK && ok

static struct curl_blob blob(const struct cr_secret *s)
{
    return (struct curl_blob){.data = s->data, .len = s->len, .flags = CURL_BLOB_NOCOPY};
}

/* The identity's memory outlives the handle. CAPATH: else the system's CAs would be trusted beside the given one. */
static bool set_tls(struct cr_http_transfer *t)
{
    struct cr_http_identity *id = t->identity;
    struct curl_blob ca = blob(&id->ca), certificate = blob(&id->certificate), key = blob(&id->key);
    long verify = !t->http->access->insecure_skip_tls_verify;
    bool ok = true;
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_SSL_VERIFYPEER, verify);
    SET(CURLOPT_SSL_VERIFYHOST, verify ? 2L : 0L);
    SET(CURLOPT_SSL_SESSIONID_CACHE, 0L); /* a resumed session would carry an older client certificate */
    if (ca.data) {
        SET(CURLOPT_CAINFO_BLOB, &ca);
        SET(CURLOPT_CAPATH, NULL);
    }
    if (certificate.data) {
        SET(CURLOPT_SSLCERT_BLOB, &certificate);
        SET(CURLOPT_SSLKEY_BLOB, &key);
        SET(CURLOPT_KEYPASSWD, ""); /* OpenSSL would ask on the terminal */
    }
    return ok;
}

static bool set_connection(struct cr_http_transfer *t)
{
    const struct cr_access *access = t->http->access;
    bool ok = true;
    SET(CURLOPT_PROTOCOLS_STR, strncmp(t->identity->base_url, "http:", 5) == 0 ? "http" : "https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_PROXY, access->proxy ? access->proxy : "");
    SET(CURLOPT_NOPROXY, "");
    SET(CURLOPT_HTTPPROXYTUNNEL, 1L);
    SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    SET(CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE); /* no token for the proxy */
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L); /* never wait for a resolver */
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_S);
    SET(CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_PROBE_S);
    SET(CURLOPT_OPENSOCKETFUNCTION, cr_http_open_socket);
    SET(CURLOPT_OPENSOCKETDATA, t);
    SET(CURLOPT_CLOSESOCKETFUNCTION, cr_http_close_socket);
    SET(CURLOPT_CLOSESOCKETDATA, t->http);
    if (t->identity->connect_to) SET(CURLOPT_CONNECT_TO, &t->identity->connect_to_node);
    return ok;
}

static bool set_callbacks(struct cr_http_transfer *t)
{
    bool ok = true;
    SET(CURLOPT_PRIVATE, t);
    SET(CURLOPT_ERRORBUFFER, t->why);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, t);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, t);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_USERAGENT, "csireg/" CSIREG_VERSION);
    return ok;
}

/* A handle serves one request: up to libcurl 8.0 one that is used again keeps a pointer into the headers of its last
 * answer, freed by then, and a folded line that begins an answer is appended there. Connections outlive handles. */
static bool make_handle(struct cr_http_transfer *t)
{
    t->easy = curl_easy_init();
    if (!t->easy) return false;
    t->identity = t->http->identity;
    t->identity->refs++;
    return set_callbacks(t) && set_connection(t) && set_tls(t);
}

/* ---- the request ---- */

static const char *const methods[] = {
    [CR_HTTP_GET] = "GET",     [CR_HTTP_POST] = "POST",     [CR_HTTP_PUT] = "PUT",
    [CR_HTTP_PATCH] = "PATCH", [CR_HTTP_DELETE] = "DELETE",
};

static bool set_method(struct cr_http_transfer *t)
{
    const struct cr_api_request *r = &t->request;
    bool ok = true;
    if (r->body) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(r->body));
        SET(CURLOPT_POSTFIELDS, r->body);
    } else {
        SET(CURLOPT_HTTPGET, 1L);
    }
    SET(CURLOPT_CUSTOMREQUEST, methods[r->method]);
    return ok;
}

static bool set_headers(struct cr_http_transfer *t)
{
    struct curl_slist *headers = t->identity->headers;
    bool ok = true;
    if (t->request.body) {
        snprintf(t->content_type, sizeof t->content_type, "Content-Type: %s", t->request.content_type);
        t->content_type_node = (struct curl_slist){.data = t->content_type, .next = headers};
        headers = &t->content_type_node;
    }
    SET(CURLOPT_HTTPHEADER, headers);
    return ok;
}

static bool set_url(struct cr_http_transfer *t)
{
    struct cr_buf url;
    bool ok = true;
    cr_buf_init(&url, 2 * CR_MAX_URL + strlen(t->request.path));
    cr_buf_printf(&url, "%s%s", t->identity->base_url, t->request.path);
    SET(CURLOPT_URL, cr_buf_str(&url));
    ok = ok && !url.failed;
    cr_buf_free(&url);
    return ok;
}

/* A watch never shares its connection. While a connection of an older identity may still be in libcurl's hands, a
 * request has a new one too. */
bool cr_http_transfer_prepare(struct cr_http_transfer *t)
{
    if (!make_handle(t)) return false;
    long timeout = t->request.timeout_ms < LONG_MAX ? (long)t->request.timeout_ms : LONG_MAX;
    bool ok = true;
    SET(CURLOPT_FRESH_CONNECT, t->request.watch || cr_http_has_old_sockets(t->http) ? 1L : 0L);
    SET(CURLOPT_FORBID_REUSE, t->request.watch ? 1L : 0L);
    SET(CURLOPT_TIMEOUT_MS, timeout);
    SET(CURLOPT_CONNECTTIMEOUT_MS, timeout < CONNECT_TIMEOUT_MS ? timeout : (long)CONNECT_TIMEOUT_MS);
    return ok && set_url(t) && set_method(t) && set_headers(t);
}

/* ---- the end ---- */

void cr_http_transfer_fail(struct cr_http_transfer *t, enum cr_transport transport, const char *text)
{
    cr_api_answer_fini(&t->answer);
    t->answer.transport = transport;
    t->answer.retry_after_ms = -1;
    t->answer.text = cr_strdup(text);
}

static void fail_with_code(struct cr_http_transfer *t, CURLcode code)
{
    long number = 0;
    enum cr_transport transport = cr_http_transport_of(t, code);
    char *text = cr_http_failure_text(t, code, transport);
    cr_http_transfer_fail(t, transport, NULL);
    t->answer.text = text;
    if (transport == CR_TRANSPORT_CONNECT) curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &number);
    t->answer.number = number ? (int)number : (int)code;
}

static void succeed(struct cr_http_transfer *t)
{
    t->answer.status = (int)status_of(t);
    t->answer.body_len = t->body.len;
    t->answer.body = t->body.len ? cr_buf_take(&t->body) : NULL;
    if (t->answer.status >= 300) cr_http_hide_token(t, t->answer.body, t->answer.body_len);
    if (t->answer.status == 401 && t->identity == t->http->identity) t->http->unauthorized = true;
}

/* libcurl takes a connection that closed within the headers, or after an interim answer, for the end of an answer. */
static bool is_answer(const struct cr_http_transfer *t) { return t->head_complete && status_of(t) >= 200; }

void cr_http_transfer_end(struct cr_http_transfer *t, CURLcode code)
{
    if (code == CURLE_OK && !is_answer(t)) code = CURLE_PARTIAL_FILE;
    bool last_line = t->request.watch && code == CURLE_OK && !t->cancelled;
    if (last_line) deliver_line(t); /* one that the end of the answer ended; whoever takes it may cancel */
    if (t->cancelled) return cr_http_transfer_fail(t, CR_TRANSPORT_CANCELLED, NULL);
    if (code != CURLE_OK) return fail_with_code(t, code);
    succeed(t);
}
