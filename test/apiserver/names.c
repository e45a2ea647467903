// SPDX-License-Identifier: Apache-2.0
#include "apiserver/names.h"

#include <stdbool.h>
#include <string.h>

#include "base/bounds.h"

static const char subdomain_text[] =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character";
static const char name_text[] =
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character";

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

const char *as_name_qualified(const char *s)
{
    const char *slash = strchr(s, '/');
    if (slash && slash == s) return "prefix part must be non-empty";
    if (slash && strchr(slash + 1, '/')) return "a qualified name must have at most one '/'";
    if (slash && slash - s > CR_MAX_LABEL_PREFIX) return "prefix part must be no more than 253 bytes";
    if (slash && !is_subdomain(s, (size_t)(slash - s))) return "prefix part must be a lowercase RFC 1123 subdomain";
    const char *name = slash ? slash + 1 : s;
    if (!*name) return "name part must be non-empty";
    if (strlen(name) > CR_MAX_LABEL_NAME) return "name part must be no more than 63 bytes";
    return is_name(name) ? NULL : name_text;
}

const char *as_name_label_value(const char *s)
{
    if (strlen(s) > CR_MAX_LABEL_VALUE) return "must be no more than 63 bytes";
    if (!*s || is_name(s)) return NULL;
    return "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
           "start and end with an alphanumeric character";
}
