/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small texts of outsiders: server addresses, Retry-After and Warning headers, base64, paths of credentials, UTF-8 and
 * what is shown of it. Input: which of them, then the text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/shown.h"
#include "fuzz/fuzz.h"
#include "io/http_internal.h"
#include "io/secret.h"
#include "io/server_url.h"

/* ---- UTF-8, by code points ---- */

static size_t decode(const uint8_t *s, size_t left, uint32_t *out)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
    if (n == 0 || n > left) return 0;
    *out = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if (s[i] >> 6 != 2) return 0;
        *out = *out << 6 | (s[i] & 0x3f);
    }
    return n;
}

static bool is_utf8(const uint8_t *s, size_t len)
{
    static const uint32_t lowest[] = {0, 1, 0x80, 0x800, 0x10000};
    for (size_t i = 0; i < len;) {
        uint32_t c = 0;
        size_t n = decode(s + i, len - i, &c);
        if (n == 0 || c < lowest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return false;
        i += n;
    }
    return true;
}

static void check_utf8(const struct fuzz_in *in, size_t max)
{
    char *s = fuzz_string(in->at, in->left);
    bool valid = is_utf8(in->at, in->left);
    CHECK(cr_utf8_valid(s, in->left) == valid);
    if (max > in->left) max = in->left;
    size_t cut = cr_utf8_cut(s, max);
    CHECK(cut <= max);
    if (valid) CHECK(is_utf8(in->at, cut) && max - cut < 4);
    struct cr_shown shown = cr_shown(s);
    fuzz_check_text(shown.text, sizeof shown.text - 1);
    bool whole = strlen(s) <= CR_SHOWN_MAX && fuzz_is_printable_utf8(s);
    if (whole) CHECK(strcmp(shown.text, s) == 0);
    cr_utf8_sanitise(s, in->left);
    CHECK(strlen(s) == in->left && fuzz_is_printable_utf8(s));
    free(s);
}

/* ---- addresses ---- */

static void check_url(const char *text)
{
    struct cr_server_url u = {0};
    bool nomem = false;
    const char *fault = cr_server_url_parse(&u, text, &nomem);
    CHECK(!nomem);
    if (fault) {
        CHECK(!u.host && !u.prefix);
        return;
    }
    CHECK(strlen(text) <= CR_MAX_URL);
    CHECK(u.port >= 1 && u.port <= 65535);
    CHECK(u.host[0] == '[' || cr_host_name_valid(u.host));
    CHECK(u.prefix[0] == '\0' || (u.prefix[0] == '/' && u.prefix[strlen(u.prefix) - 1] != '/'));
    CHECK(strpbrk(u.host, "@?# \t\r\n/\\") == NULL && strpbrk(u.prefix, "@?# \t\r\n\\") == NULL);
    CHECK(strstr(text, u.host) && strstr(text, u.prefix));
    (void)cr_server_url_is_loopback(&u);
    (void)cr_server_url_has_default_port(&u);
    cr_server_url_fini(&u);
}

/* ---- headers ---- */

static void check_headers(const char *value, int64_t wall_ms)
{
    int64_t ms = cr_http_retry_after(value, wall_ms);
    CHECK(ms >= -1 && ms <= CR_MAX_RETRY_AFTER_MS);
    size_t digits = strspn(value, "0123456789");
    if (digits > 0 && value[digits] == '\0') {
        char *end;
        size_t zeros = strspn(value, "0");
        unsigned long long seconds = digits - zeros < 19 ? strtoull(value + zeros, &end, 10) : 1000000;
        CHECK(ms == (seconds > 600 ? CR_MAX_RETRY_AFTER_MS : (int64_t)seconds * 1000));
    }
    char *text = cr_http_warning_text(value);
    if (text) {
        CHECK(text[0]);
        fuzz_check_text(text, strlen(value));
        CHECK(strchr(value, '"'));
    }
    cr_free(text);
}

/* ---- base64 ---- */

static void encode(const uint8_t *data, size_t len, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len; i += 3) {
        unsigned bits = (unsigned)data[i] << 16;
        if (i + 1 < len) bits |= (unsigned)data[i + 1] << 8;
        if (i + 2 < len) bits |= data[i + 2];
        *out++ = digits[bits >> 18];
        *out++ = digits[bits >> 12 & 63];
        *out++ = i + 1 < len ? digits[bits >> 6 & 63] : '=';
        *out++ = i + 2 < len ? digits[bits & 63] : '=';
    }
    *out = '\0';
}

static void remove_line_breaks(char *s)
{
    char *to = s;
    for (; *s; s++)
        if (*s != '\n' && *s != '\r') *to++ = *s;
    *to = '\0';
}

/* What is accepted is exactly what an encoder makes of the same bytes. */
static void check_base64(char *text)
{
    size_t len = 0;
    bool nomem = false;
    char *data = cr_secret_base64(text, &len, &nomem);
    CHECK(!nomem);
    if (data) {
        char *again = malloc(len / 3 * 4 + 5);
        CHECK(again);
        encode((const uint8_t *)data, len, again);
        remove_line_breaks(text);
        CHECK(strcmp(again, text) == 0);
        free(again);
    }
    cr_secret_wipe(data, len);
}

/* All that an encoder makes is accepted. */
static void check_encoded(const struct fuzz_in *in)
{
    char *text = malloc(in->left / 3 * 4 + 5);
    size_t len = 0;
    bool nomem = false;
    CHECK(text);
    encode(in->at, in->left, text);
    char *data = cr_secret_base64(text, &len, &nomem);
    CHECK(data && len == in->left && (len == 0 || memcmp(data, in->at, len) == 0));
    cr_secret_wipe(data, len);
    free(text);
}

static void check_secrets(const struct fuzz_in *in)
{
    for (int kind = CR_SECRET_TOKEN; kind <= CR_SECRET_KEY; kind++) {
        struct cr_secret s = {0};
        char *data = cr_calloc(in->left + 1, 1);
        CHECK(data);
        if (in->left) memcpy(data, in->at, in->left);
        const char *fault = cr_secret_set(&s, (enum cr_secret_kind)kind, data, in->left);
        CHECK(!fault == (s.data != NULL));
        if (s.data) CHECK(strlen(s.data) == s.len && s.len > 0);
        if (s.data && kind == CR_SECRET_TOKEN) CHECK(!strpbrk(s.data, " \t\r\n\x7f"));
        cr_secret_fini(&s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    uint8_t what = fuzz_byte(&in);
    if (what % 4 == 0) check_utf8(&in, what / 4);
    if (what % 4 == 1) check_encoded(&in);
    if (what % 4 == 1) check_secrets(&in);
    char *text = fuzz_string(in.at, in.left);
    if (what % 4 == 1) check_base64(text);
    if (what % 4 == 2) check_url(text);
    if (what % 4 == 3) check_headers(text, (int64_t)what << 32);
    free(text);
    return 0;
}
