/* SPDX-License-Identifier: Apache-2.0 */
#include "core/names.h"

#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "core/shown.h"

static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_lower_alnum(char c) { return is_lower(c) || is_digit(c); }
static bool is_alnum(char c) { return is_lower_alnum(c) || is_upper(c); }

/* One or more characters of `inside`, the first and last of which are of `ends`. */
static bool matches(const char *s, size_t len, bool (*ends)(char), const char *inside)
{
    if (len == 0 || !ends(s[0]) || !ends(s[len - 1])) return false;
    for (size_t i = 0; i < len; i++)
        if (!ends(s[i]) && (s[i] == '\0' || !strchr(inside, s[i]))) return false;
    return true;
}

static bool is_subdomain(const char *s, size_t len, bool (*ends)(char))
{
    for (;;) {
        const char *dot = memchr(s, '.', len);
        size_t label = dot ? (size_t)(dot - s) : len;
        if (!matches(s, label, ends, "-")) return false;
        if (!dot) return true;
        s += label + 1;
        len -= label + 1;
    }
}

static bool is_label_name(const char *s)
{
    size_t len = strlen(s);
    return len <= CR_MAX_LABEL_NAME && matches(s, len, is_alnum, "-_.");
}

bool cr_is_dns1123_subdomain(const char *s)
{
    size_t len = strlen(s);
    return len <= CR_MAX_LABEL_PREFIX && is_subdomain(s, len, is_lower_alnum);
}

bool cr_is_qualified_name(const char *s)
{
    const char *slash = strchr(s, '/');
    if (!slash) return is_label_name(s);
    size_t prefix = (size_t)(slash - s);
    return prefix <= CR_MAX_LABEL_PREFIX && is_subdomain(s, prefix, is_lower_alnum) && is_label_name(slash + 1);
}

bool cr_is_label_value(const char *s)
{
    size_t len = strlen(s);
    return len == 0 || (len <= CR_MAX_LABEL_VALUE && matches(s, len, is_alnum, "-_."));
}

int cr_check_driver_name(const char *name, struct csireg_error **err)
{
    size_t len = strlen(name);
    if (len == 0) return cr_error_put(err, cr_error_new(CSIREG_ERR_REFUSED, "the driver name is empty"));
    if (len > CR_MAX_DRIVER_NAME)
        return cr_error_put(err,
                            cr_error_new(CSIREG_ERR_REFUSED, "driver name \"%s\" has %zu bytes, at most %d are allowed",
                                         cr_shown(name).text, len, CR_MAX_DRIVER_NAME));
    if (is_subdomain(name, len, is_alnum)) return 0;
    return cr_error_put(err,
                        cr_error_new(CSIREG_ERR_REFUSED,
                                     "driver name \"%s\" is not a DNS name (letters, digits and '-' between dots, each "
                                     "part beginning and ending with a letter or digit)",
                                     cr_shown(name).text));
}

static const char *without_scheme(const char *raw)
{
    if (strncmp(raw, "unix:///", 8) == 0) return raw + 7;
    if (strncmp(raw, "unix:/", 6) == 0 && raw[6] != '/') return raw + 5;
    return raw;
}

static int check_path(const char *path, const char *raw, struct csireg_error **err)
{
    size_t len = strlen(path);
    if (path[0] != '/')
        return cr_error_put(err,
                            cr_error_new(CSIREG_ERR_REFUSED, "endpoint \"%s\" is not an absolute path of a Unix socket",
                                         cr_shown(raw).text));
    if (len > CR_MAX_PATH)
        return cr_error_put(err,
                            cr_error_new(CSIREG_ERR_REFUSED, "endpoint \"%s\" has %zu bytes, at most %d are allowed",
                                         cr_shown(raw).text, len, CR_MAX_PATH));
    return 0;
}

int cr_check_endpoint(const char *raw, const char *registration_path, char **out_path, struct csireg_error **err)
{
    bool empty = !raw || raw[0] == '\0';
    if (empty && !registration_path)
        return cr_error_put(err, cr_error_new(CSIREG_ERR_REFUSED, "the endpoint is empty"));
    const char *path = empty ? registration_path : without_scheme(raw);
    int rc = check_path(path, empty ? registration_path : raw, err);
    if (rc) return rc;
    char *copy = cr_strdup(path);
    if (!copy) return cr_error_put(err, cr_error_oom());
    *out_path = copy;
    return 0;
}

int cr_check_node_id(const char *id, struct csireg_error **err)
{
    size_t len = strlen(id);
    if (len == 0) return cr_error_put(err, cr_error_new(CSIREG_ERR_REFUSED, "the driver reported an empty node id"));
    if (len <= CR_MAX_NODE_ID) return 0;
    return cr_error_put(err, cr_error_new(CSIREG_ERR_REFUSED, "node id \"%s\" has %zu bytes, at most %d are allowed",
                                          cr_shown(id).text, len, CR_MAX_NODE_ID));
}

static int check_segment(const struct cr_pair *s, struct csireg_error **err)
{
    if (!cr_is_qualified_name(s->key))
        return cr_error_put(
            err, cr_error_new(CSIREG_ERR_REFUSED, "topology key \"%s\" is not a label key", cr_shown(s->key).text));
    if (!cr_is_label_value(s->value))
        return cr_error_put(err, cr_error_new(CSIREG_ERR_REFUSED, "topology key \"%s\": \"%s\" is not a label value",
                                              cr_shown(s->key).text, cr_shown(s->value).text));
    return 0;
}

int cr_check_topology(const struct cr_pair *segments, size_t n, struct csireg_error **err)
{
    if (n > CR_MAX_TOPOLOGY_SEGMENTS)
        return cr_error_put(err,
                            cr_error_new(CSIREG_ERR_REFUSED, "the topology has %zu segments, at most %d are allowed", n,
                                         CR_MAX_TOPOLOGY_SEGMENTS));
    for (size_t i = 0; i < n; i++) {
        int rc = check_segment(&segments[i], err);
        if (rc) return rc;
    }
    return 0;
}
