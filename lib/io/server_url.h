/* SPDX-License-Identifier: Apache-2.0 */
/* The address of an API server, taken apart: http(s)://HOST[:PORT][/PREFIX], HOST a name, an IPv4 or a bracketed IPv6
 * address. Pure. */
#ifndef CR_IO_SERVER_URL_H
#define CR_IO_SERVER_URL_H

#include <stdbool.h>
#include <stddef.h>

struct cr_server_url {
    bool https;
    char *host;   /* IPv6: in brackets */
    char *prefix; /* "" or "/a/b", no trailing slash */
    unsigned port;
};

/* NULL and *out, or a static text that says what is wrong. No memory: *nomem and a text. */
const char *cr_server_url_parse(struct cr_server_url *out, const char *url, bool *nomem);
void cr_server_url_fini(struct cr_server_url *u);

bool cr_server_url_has_default_port(const struct cr_server_url *u);
bool cr_server_url_is_loopback(const struct cr_server_url *u);

/* A DNS name, an IPv4 or an IPv6 address (without brackets). */
bool cr_host_name_valid(const char *name);

#endif
