/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer's headers say, and what a failure means to people. */
#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "io/http_internal.h"

/* OpenSSL's X509_V_ERR_ numbers, as CURLINFO_SSL_VERIFYRESULT reports them. */
#define VERIFY_UNSPECIFIED   1 /* libcurl's start value: the chain was not what failed */
#define VERIFY_NOT_YET_VALID 9
#define VERIFY_EXPIRED       10

#define SHORTEST_SECRET 8 /* bytes; a shorter token keeps nobody out, and hiding it would maim words */

int64_t cr_http_retry_after(const char *value, int64_t wall_ms)
{
    int64_t ms = 0;
    size_t digits = strspn(value, "0123456789");
    if (digits == 0) {
        time_t date = curl_getdate(value, NULL);
        if (date == (time_t)-1) return -1;
        int64_t seconds = (int64_t)date - wall_ms / 1000; /* any year that fits 64 bits */
        if (seconds > CR_MAX_RETRY_AFTER_MS / 1000) return CR_MAX_RETRY_AFTER_MS;
        ms = seconds < 0 ? 0 : (int64_t)date * 1000 - wall_ms;
        if (ms < 0) ms = 0;
    } else if (value[digits + strspn(value + digits, " \t")] != '\0') {
        return -1;
    }
    for (size_t i = 0; i < digits && ms < CR_MAX_RETRY_AFTER_MS; i++) ms = ms * 10 + (value[i] - '0') * 1000;
    return ms < CR_MAX_RETRY_AFTER_MS ? ms : CR_MAX_RETRY_AFTER_MS;
}

/* Warning: CODE AGENT "TEXT" [DATE], with quotes and backslashes in TEXT escaped. */
char *cr_http_warning_text(const char *value)
{
    struct cr_buf b;
    const char *p = strchr(value, '"');
    cr_buf_init(&b, CR_MAX_API_HEADER);
    for (p = p ? p + 1 : ""; *p && *p != '"'; p++) {
        if (*p == '\\' && p[1]) p++;
        cr_buf_append(&b, p, 1);
    }
    if (b.len == 0 || b.failed) {
        cr_buf_free(&b);
        return NULL;
    }
    cr_utf8_sanitise(b.data, b.len);
    return cr_buf_take(&b);
}

void cr_http_hide_token(const struct cr_http_transfer *t, char *text, size_t len)
{
    const char *header = t->identity ? t->identity->authorization : NULL;
    if (!header || !text) return;
    const char *token = header + sizeof "Authorization: Bearer " - 1;
    size_t n = strlen(token);
    if (n < SHORTEST_SECRET) return;
    for (char *p = text, *end = text + len; (p = memchr(p, *token, (size_t)(end - p))) && (size_t)(end - p) >= n; p++)
        if (memcmp(p, token, n) == 0) memset(p, '*', n);
}

static bool was_sent(CURL *easy)
{
    long size = 0;
    return curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &size) == CURLE_OK && size > 0;
}

enum cr_transport cr_http_transport_of(const struct cr_http_transfer *t, CURLcode code)
{
    if (t->abort) return t->abort;
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PROXY:
        return CR_TRANSPORT_CONNECT;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_CLIENTCERT:
        return CR_TRANSPORT_TLS;
    case CURLE_OPERATION_TIMEDOUT:
        return CR_TRANSPORT_TIMEOUT;
    case CURLE_OUT_OF_MEMORY: /* also what 7.88 says of a header line past its own bound of 100 KiB */
        return was_sent(t->easy) ? CR_TRANSPORT_TOO_LARGE : CR_TRANSPORT_NOMEM;
    default:
        return CR_TRANSPORT_BROKEN;
    }
}

static const char *step_of(const struct cr_http_transfer *t, enum cr_transport transport)
{
    switch (transport) {
    case CR_TRANSPORT_CONNECT:
        return "cannot connect";
    case CR_TRANSPORT_TLS:
        return "TLS";
    case CR_TRANSPORT_TIMEOUT:
        return was_sent(t->easy) ? "no answer in time" : "no connection or no TLS handshake in time";
    case CR_TRANSPORT_TOO_LARGE:
        return "the answer is larger than it may be";
    case CR_TRANSPORT_CANCELLED:
        return "cancelled";
    case CR_TRANSPORT_NOMEM:
        return "out of memory";
    default:
        return "the answer is not complete or not HTTP";
    }
}

static const char *verify_remedy(const struct cr_http_transfer *t)
{
    long result = 0;
    curl_easy_getinfo(t->easy, CURLINFO_SSL_VERIFYRESULT, &result);
    if (result <= VERIFY_UNSPECIFIED)
        return "the certificate is for another name: correct the server's address or set tls-server-name";
    if (result == VERIFY_EXPIRED || result == VERIFY_NOT_YET_VALID)
        return "renew the server's certificate, or correct this machine's clock";
    return "give the CA that signed the server's certificate as certificate-authority";
}

static const char *remedy_of(const struct cr_http_transfer *t, CURLcode code)
{
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        return verify_remedy(t);
    case CURLE_SSL_CERTPROBLEM:
        return "check that client certificate and client key are PEM and belong together";
    case CURLE_SSL_CACERT_BADFILE:
        return "check that the certificate-authority is PEM";
    case CURLE_COULDNT_RESOLVE_HOST:
        return "check the server's name and this machine's DNS";
    default:
        return NULL;
    }
}

char *cr_http_failure_text(const struct cr_http_transfer *t, CURLcode code, enum cr_transport transport)
{
    struct cr_buf b;
    bool ours = t->abort || code == CURLE_OUT_OF_MEMORY; /* then libcurl's reason says nothing more */
    const char *remedy = ours ? NULL : remedy_of(t, code);
    const char *why = t->why[0] ? t->why : curl_easy_strerror(code);
    cr_buf_init(&b, CR_MAX_ERROR_TEXT);
    cr_buf_printf(&b, "%s: %s", t->http->access->server, step_of(t, transport));
    if (!ours) cr_buf_printf(&b, ": %s", why);
    if (remedy) cr_buf_printf(&b, "; %s", remedy);
    if (b.data) cr_utf8_sanitise(b.data, b.len);
    return cr_buf_take(&b);
}
