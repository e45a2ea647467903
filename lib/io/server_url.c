/* SPDX-License-Identifier: Apache-2.0 */
#include "io/server_url.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/bounds.h"
#include "base/mem.h"

#define ALNUM           "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define FORM            "must be https://HOST[:PORT][/PREFIX]"
#define ONLY_OF(s, set) ((s)[strspn(s, set)] == '\0')

void cr_server_url_fini(struct cr_server_url *u)
{
    cr_free(u->host);
    cr_free(u->prefix);
    *u = (struct cr_server_url){0};
}

static bool is_ipv6(const char *text)
{
    struct in6_addr a;
    return inet_pton(AF_INET6, text, &a) == 1;
}

bool cr_host_name_valid(const char *name)
{
    if (strchr(name, ':')) return is_ipv6(name);
    return name[0] && strlen(name) <= CR_MAX_SERVER_NAME && ONLY_OF(name, ALNUM "-._") && name[0] != '.' &&
           name[0] != '-';
}

/* Reads ":PORT" or nothing; 0: neither. */
static unsigned port_of(const char *text, size_t len, unsigned otherwise)
{
    unsigned port = 0;
    if (len == 0) return otherwise;
    if (text[0] != ':' || len == 1 || len > 6) return 0;
    for (size_t i = 1; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') return 0;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    return port <= 65535 ? port : 0;
}

static size_t host_length(const char *authority, size_t len)
{
    size_t n = 0;
    if (authority[0] == '[') {
        const char *end = memchr(authority, ']', len);
        return end ? (size_t)(end - authority) + 1 : len;
    }
    while (n < len && authority[n] != ':') n++;
    return n;
}

static bool host_valid(const char *host)
{
    size_t len = strlen(host);
    char bare[INET6_ADDRSTRLEN + 1];
    if (host[0] != '[') return !strchr(host, ':') && cr_host_name_valid(host);
    if (len < 4 || len - 2 >= sizeof bare || host[len - 1] != ']') return false;
    memcpy(bare, host + 1, len - 2);
    bare[len - 2] = '\0';
    return is_ipv6(bare);
}

static const char *parse_rest(struct cr_server_url *u, const char *rest, bool *nomem)
{
    size_t authority = strcspn(rest, "/"), end = strlen(rest);
    size_t host = host_length(rest, authority);
    while (end > authority && rest[end - 1] == '/') end--;
    u->host = cr_strndup(rest, host);
    u->prefix = cr_strndup(rest + authority, end - authority);
    *nomem = !u->host || !u->prefix;
    if (*nomem) return "out of memory";
    u->port = port_of(rest + host, authority - host, u->https ? 443 : 80);
    if (u->port == 0) return "has a port that is not a number from 1 to 65535";
    return host_valid(u->host) ? NULL : "has a host that is neither a name nor an address; " FORM;
}

const char *cr_server_url_parse(struct cr_server_url *out, const char *url, bool *nomem)
{
    *nomem = false;
    struct cr_server_url u = {.https = strncasecmp(url, "https://", 8) == 0};
    if (!u.https && strncasecmp(url, "http://", 7) != 0) return FORM;
    if (strlen(url) > CR_MAX_URL) return "is too long";
    const char *rest = url + (u.https ? 8 : 7);
    if (!ONLY_OF(rest, ALNUM "-._~/:[]")) return FORM ", without user, query, fragment or other characters";
    const char *fault = parse_rest(&u, rest, nomem);
    if (fault)
        cr_server_url_fini(&u);
    else
        *out = u;
    return fault;
}

bool cr_server_url_has_default_port(const struct cr_server_url *u) { return u->port == (u->https ? 443 : 80); }

bool cr_server_url_is_loopback(const struct cr_server_url *u)
{
    struct in_addr a;
    if (strcasecmp(u->host, "localhost") == 0 || strcmp(u->host, "[::1]") == 0) return true;
    return inet_pton(AF_INET, u->host, &a) == 1 && (ntohl(a.s_addr) >> 24) == 127;
}
