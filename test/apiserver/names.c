// SPDX-License-Identifier: Apache-2.0
#include "apiserver/names.h"

#include <stdbool.h>
#include <string.h>

#include "base/bounds.h"

#define SUBDOMAIN_TEXT                                                                                                 \
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "   \
    "and end with an alphanumeric character"
static const char subdomain_text[] = SUBDOMAIN_TEXT;
#define NAME_TEXT                                                                                                      \
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
static const char name_text[] = "name part " NAME_TEXT;
static const char prefix_text[] = "prefix part " SUBDOMAIN_TEXT;
static const char too_many_slashes[] =
    "a valid label key " NAME_TEXT " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";

static bool lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
static bool alphanumeric(char c) { return lower_or_digit(c) || (c >= 'A' && c <= 'Z'); }

static bool is_subdomain(const char *s, size_t len)
{
    char before = '.';
    for (size_t i = 0; i < len; i++) {
        bool ok =
            lower_or_digit(s[i]) || (s[i] == '-' && before != '.') || (s[i] == '.' && before != '.' && before != '-');
        if (!ok) return false;
        before = s[i];
    }
    return before != '.' && before != '-';
}

const char *as_name_subdomain(const char *s)
{
    size_t len = strlen(s);
    if (len > CR_MAX_NODE_NAME) return "must be no more than 253 bytes";
    return is_subdomain(s, len) ? NULL : subdomain_text;
}

static bool is_name(const char *s)
{
    size_t len = strlen(s);
    for (size_t i = 0; i < len; i++)
        if (!alphanumeric(s[i]) && !strchr("-_.", s[i])) return false;
    return len > 0 && alphanumeric(s[0]) && alphanumeric(s[len - 1]);
}

static void add(struct as_reasons *r, const char *text) { r->text[r->n++] = text; }

static void check_prefix(struct as_reasons *r, const char *s, size_t len)
{
    if (!len)
        add(r, "prefix part must be non-empty");
    else if (len > CR_MAX_LABEL_PREFIX)
        add(r, "prefix part must be no more than 253 bytes");
    else if (!is_subdomain(s, len))
        add(r, prefix_text);
}

struct as_reasons as_name_qualified(const char *s)
{
    struct as_reasons r = {.n = 0};
    const char *slash = strchr(s, '/'), *name = slash ? slash + 1 : s;
    if (slash && strchr(name, '/')) {
        add(&r, too_many_slashes);
        return r;
    }
    if (slash) check_prefix(&r, s, (size_t)(slash - s));
    if (!*name) add(&r, "name part must be non-empty");
    if (strlen(name) > CR_MAX_LABEL_NAME) add(&r, "name part must be no more than 63 bytes");
    if (!is_name(name)) add(&r, name_text);
    return r;
}

const char *as_name_label_value(const char *s)
{
    if (strlen(s) > CR_MAX_LABEL_VALUE) return "must be no more than 63 bytes";
    if (!*s || is_name(s)) return NULL;
    return "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
           "start and end with an alphanumeric character";
}
