/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions, driver names, label keys and values, endpoints, node ids and topologies, against a second reading of their
 * rules by regular expressions. Input: which of them, then texts that end with NUL.
 */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "core/names.h"
#include "core/versions.h"
#include "fuzz/fuzz.h"

#define MAX_TEXTS 160

static regex_t version, driver_name, subdomain, label_name;

#define PART(letters) "[" letters "]([-" letters "]*[" letters "])?"

static void compile(regex_t *out, const char *pattern, int flags)
{
    CHECK(regcomp(out, pattern, REG_EXTENDED | flags) == 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    compile(&version, "^[ \t\n\v\f\r]*v?([0-9]+(\\.[0-9]+)+)", 0);
    compile(&driver_name, "^" PART("A-Za-z0-9") "(\\." PART("A-Za-z0-9") ")*$", REG_NOSUB);
    compile(&subdomain, "^" PART("a-z0-9") "(\\." PART("a-z0-9") ")*$", REG_NOSUB);
    compile(&label_name, "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", REG_NOSUB);
    return 0;
}

static bool matches(const regex_t *r, const char *s, size_t max)
{
    return strlen(s) <= max && regexec(r, s, 0, NULL, 0) == 0;
}

/* ---- versions, as decimal texts ---- */

struct numbers {
    char *text;      /* owns the parts */
    char *parts[64]; /* without leading zeros */
    size_t n;
};

static bool fits(const char *digits)
{
    static const char max[] = "18446744073709551615";
    size_t len = strlen(digits);
    return len < sizeof max - 1 || (len == sizeof max - 1 && strcmp(digits, max) <= 0);
}

/* false: not a version, and there is nothing to free. */
static bool read_numbers(const char *s, struct numbers *out)
{
    regmatch_t m[2];
    if (regexec(&version, s, 2, m, 0) != 0) return false;
    *out = (struct numbers){.text = fuzz_string(s + m[1].rm_so, (size_t)(m[1].rm_eo - m[1].rm_so))};
    bool good = !(out->text[0] == '0' && out->text[1] != '.');
    char *rest = out->text;
    for (char *p; (p = strsep(&rest, "."));) {
        while (p[0] == '0' && p[1]) p++;
        good = good && fits(p);
        CHECK(out->n < 64);
        out->parts[out->n++] = p;
    }
    if (!good) free(out->text);
    return good;
}

static int order(const struct numbers *a, const struct numbers *b)
{
    for (size_t i = 0; i < a->n || i < b->n; i++) {
        const char *x = i < a->n ? a->parts[i] : "0", *y = i < b->n ? b->parts[i] : "0";
        int length = strlen(x) < strlen(y) ? -1 : strlen(x) > strlen(y);
        int c = length ? length : strcmp(x, y);
        if (c) return c < 0 ? -1 : 1;
    }
    return 0;
}

static int sign(int n) { return (n > 0) - (n < 0); }

static void check_order(const char *a, const char *b)
{
    struct numbers x, y;
    bool good_x = read_numbers(a, &x), good_y = read_numbers(b, &y);
    int want = good_x && good_y ? order(&x, &y) : (int)good_x - (int)good_y;
    CHECK(sign(cr_version_compare(a, b)) == want);
    CHECK(sign(cr_version_compare(b, a)) == -want);
    if (good_x) free(x.text);
    if (good_y) free(y.text);
}

/* The highest with a major of at most one; the first of equal ones. NULL: there is none with major one. */
static char *chosen(char **texts, size_t n)
{
    struct numbers best = {0}, other;
    char *out = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!read_numbers(texts[i], &other)) continue;
        bool low = strcmp(other.parts[0], "0") == 0 || strcmp(other.parts[0], "1") == 0;
        if (low && (!best.text || order(&other, &best) > 0)) {
            free(best.text);
            best = other;
        } else {
            free(other.text);
        }
    }
    if (best.text && strcmp(best.parts[0], "1") == 0) {
        out = calloc(CR_MAX_VERSION + 1, 1);
        CHECK(out);
        for (size_t i = 0, at = 0; i < best.n; i++) {
            size_t len = strlen(best.parts[i]);
            if (i) out[at++] = '.';
            memcpy(out + at, best.parts[i], len);
            at += len;
        }
    }
    free(best.text);
    return out;
}

static void check_versions(char **texts, size_t n)
{
    char *got = NULL;
    struct csireg_error *e = NULL;
    if (n > CR_MAX_VERSIONS) n = CR_MAX_VERSIONS;
    for (size_t i = 0; i < n; i++) texts[i][strnlen(texts[i], CR_MAX_VERSION)] = '\0';
    char *want = chosen(texts, n);
    int rc = cr_version_choose((const char *const *)texts, n, &got, &e);
    if (want) CHECK(rc == 0 && strcmp(got, want) == 0);
    if (!want) CHECK(!got && rc == CSIREG_ERR_REFUSED);
    if (rc != 0) fuzz_check_error(rc, e);
    for (size_t i = 0; i + 1 < n; i++) check_order(texts[i], texts[i + 1]);
    for (size_t i = 0; i < n; i++) CHECK(cr_version_compare(texts[i], texts[i]) == 0);
    cr_free(got);
    free(want);
}

/* ---- names ---- */

static bool is_key(const char *s)
{
    const char *slash = strchr(s, '/');
    if (!slash) return matches(&label_name, s, 63);
    char *prefix = fuzz_string(s, (size_t)(slash - s));
    bool good = matches(&subdomain, prefix, 253) && matches(&label_name, slash + 1, 63);
    free(prefix);
    return good;
}

static bool is_value(const char *s) { return s[0] == '\0' || matches(&label_name, s, 63); }

static void expect(bool good, int rc, struct csireg_error *e)
{
    CHECK(rc == (good ? 0 : CSIREG_ERR_REFUSED));
    if (rc != 0) {
        CHECK(!csireg_error_retryable(e));
        fuzz_check_error(rc, e);
    }
}

static void check_names(const char *s)
{
    struct csireg_error *e = NULL, *f = NULL;
    expect(matches(&driver_name, s, 63), cr_check_driver_name(s, &e), e);
    expect(s[0] && strlen(s) <= CR_MAX_NODE_ID, cr_check_node_id(s, &f), f);
    CHECK(cr_is_dns1123_subdomain(s) == matches(&subdomain, s, 253));
    CHECK(cr_is_label_value(s) == is_value(s));
    CHECK(cr_is_qualified_name(s) == is_key(s));
}

static bool begins(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

static const char *path_of(const char *raw)
{
    if (begins(raw, "unix:///")) return raw + strlen("unix://");
    if (begins(raw, "unix://")) return NULL; /* names a host */
    if (begins(raw, "unix:/")) return raw + strlen("unix:");
    return raw[0] == '/' ? raw : NULL;
}

static void check_endpoint(const char *raw, const char *registration)
{
    struct csireg_error *e = NULL;
    char *got = NULL;
    const char *given = raw[0] ? raw : registration;
    const char *want = !given ? NULL : raw[0] ? path_of(raw) : given[0] == '/' ? given : NULL;
    bool good = want && strlen(want) <= CR_MAX_PATH;
    int rc = cr_check_endpoint(raw, registration, &got, &e);
    expect(good, rc, e);
    if (good) CHECK(strcmp(got, want) == 0);
    cr_free(got);
}

static void check_topology(char **texts, size_t n)
{
    struct cr_pair pairs[MAX_TEXTS];
    struct csireg_error *e = NULL;
    bool good = n / 2 <= CR_MAX_TOPOLOGY_SEGMENTS;
    for (size_t i = 0; i < n / 2; i++) {
        pairs[i] = (struct cr_pair){texts[2 * i], texts[2 * i + 1]};
        good = good && is_key(pairs[i].key) && is_value(pairs[i].value);
    }
    expect(good, cr_check_topology(pairs, n / 2, &e), e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *texts[2 * MAX_TEXTS];
    struct fuzz_in in = {data, size};
    size_t n = 0;
    uint8_t what = fuzz_byte(&in) % 4;
    while (in.left && n < 2 * MAX_TEXTS) texts[n++] = fuzz_text(&in, 8192);
    if (what == 0) check_versions(texts, n);
    if (what == 1) check_topology(texts, n);
    for (size_t i = 0; i < n; i++) {
        if (what == 2) check_names(texts[i]);
        if (what == 3) check_endpoint(texts[i], i + 1 < n ? texts[i + 1] : NULL);
        if (what == 3) check_endpoint("", texts[i]);
    }
    for (size_t i = 0; i < n; i++) free(texts[i]);
    return 0;
}
