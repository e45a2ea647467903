/* SPDX-License-Identifier: Apache-2.0 */
/* What connections are made with, and how those of an older identity come to their end. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "io/http_internal.h"
#include "io/secret.h"
#include "io/server_url.h"

static char accept_header[] = "Accept: application/json";
static char expect_header[] = "Expect:"; /* none: it would cost a round trip */

void cr_http_identity_unref(struct cr_http_identity *id)
{
    if (!id || --id->refs > 0) return;
    cr_secret_fini(&id->ca);
    cr_secret_fini(&id->certificate);
    cr_secret_fini(&id->key);
    cr_secret_wipe(id->authorization, id->authorization ? strlen(id->authorization) : 0);
    cr_free(id->host);
    cr_free(id->base_url);
    cr_free(id->connect_to);
    cr_free(id);
}

/* ---- making one ---- */

static bool copy_secret(struct cr_secret *to, const struct cr_secret *from)
{
    if (!from->data) return true;
    to->data = cr_calloc(from->len + 1, 1);
    if (!to->data) return false;
    memcpy(to->data, from->data, from->len);
    to->len = from->len;
    return true;
}

/* With a TLS server name the URL has that name, so that SNI and the check of the certificate use it, and libcurl is
 * told where it really is. The Host header stays the server's own. */
static bool name_server(struct cr_http_identity *id, const struct cr_server_url *u, const char *tls_name)
{
    struct cr_buf b;
    bool bracket = tls_name && strchr(tls_name, ':');
    cr_buf_init(&b, 2 * CR_MAX_URL);
    cr_buf_printf(&b, "http%s://%s%s%s:%u%s", u->https ? "s" : "", bracket ? "[" : "", tls_name ? tls_name : u->host,
                  bracket ? "]" : "", u->port, u->prefix);
    id->base_url = cr_buf_take(&b);
    if (!tls_name) return id->base_url;
    cr_buf_printf(&b, "::%s:%u", u->host, u->port);
    id->connect_to = cr_buf_take(&b);
    cr_buf_printf(&b, "Host: %s", u->host);
    if (!cr_server_url_has_default_port(u)) cr_buf_printf(&b, ":%u", u->port);
    id->host = cr_buf_take(&b);
    id->connect_to_node.data = id->connect_to;
    return id->base_url && id->connect_to && id->host;
}

static bool authorize(struct cr_http_identity *id, const struct cr_secret *token)
{
    struct cr_buf b;
    if (!token->data) return true;
    cr_buf_init(&b, CR_MAX_TOKEN + CR_MAX_API_HEADER);
    cr_buf_printf(&b, "Authorization: Bearer %s", token->data);
    id->authorization = cr_buf_take(&b);
    return id->authorization;
}

/* libcurl only reads the list; the nodes are ours, so a request costs no allocation for them. */
static void link_headers(struct cr_http_identity *id)
{
    char *const lines[] = {accept_header, expect_header, id->authorization, id->host};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (!lines[i]) continue;
        id->header_nodes[i] = (struct curl_slist){.data = lines[i], .next = id->headers};
        id->headers = &id->header_nodes[i];
    }
}

static bool fill(struct cr_http_identity *id, const struct cr_access *access)
{
    struct cr_server_url u = {0};
    bool nomem;
    if (cr_server_url_parse(&u, access->server, &nomem)) return false; /* checked when access was made: no memory */
    bool ok = name_server(id, &u, access->tls_server_name) && authorize(id, &access->token) &&
              copy_secret(&id->ca, &access->ca) && copy_secret(&id->certificate, &access->client_certificate) &&
              copy_secret(&id->key, &access->client_key);
    cr_server_url_fini(&u);
    if (ok) link_headers(id);
    return ok;
}

int cr_http_renew_identity(struct cr_http *http, struct csireg_error **error)
{
    struct cr_http_identity *id = CR_NEW(struct cr_http_identity);
    if (!id) return cr_error_put(error, cr_error_oom());
    *id = (struct cr_http_identity){.refs = 1, .generation = http->generation + 1};
    if (!fill(id, http->access)) {
        cr_http_identity_unref(id);
        return cr_error_put(error, cr_error_oom());
    }
    cr_http_identity_unref(http->identity);
    http->identity = id;
    http->generation = id->generation;
    cr_http_shut_old_sockets(http);
    return 0;
}

/* ---- sockets ---- */

static bool add_socket(struct cr_http *http, struct cr_http_socket s)
{
    if (http->n_sockets == http->cap_sockets) {
        size_t cap = 2 * http->cap_sockets + 8;
        struct cr_http_socket *sockets = cr_realloc_array(http->sockets, cap, sizeof *sockets);
        if (!sockets) return false;
        http->sockets = sockets;
        http->cap_sockets = cap;
    }
    http->sockets[http->n_sockets++] = s;
    return true;
}

curl_socket_t cr_http_open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct cr_http_transfer *t = user;
    (void)purpose;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0) return CURL_SOCKET_BAD;
    if (add_socket(t->http, (struct cr_http_socket){fd, t->identity->generation, t->request.watch, false})) return fd;
    close(fd);
    return CURL_SOCKET_BAD;
}

int cr_http_close_socket(void *user, curl_socket_t fd)
{
    struct cr_http *http = user;
    for (size_t i = 0; i < http->n_sockets; i++) {
        if (http->sockets[i].fd != fd) continue;
        http->sockets[i] = http->sockets[--http->n_sockets];
        break;
    }
    return close(fd);
}

static bool is_old(const struct cr_http *http, const struct cr_http_socket *s)
{
    return !s->watch && !s->shut && s->generation < http->generation;
}

bool cr_http_has_old_sockets(const struct cr_http *http)
{
    for (size_t i = 0; i < http->n_sockets; i++)
        if (is_old(http, &http->sockets[i])) return true;
    return false;
}

size_t cr_http_kept_sockets(const struct cr_http *http)
{
    size_t n = 0;
    for (size_t i = 0; i < http->n_sockets; i++)
        n += !http->sockets[i].watch && http->sockets[i].generation == http->generation;
    return n;
}

void cr_http_shut_old_sockets(struct cr_http *http)
{
    CR_LIST_FOREACH (n, &http->running) {
        const struct cr_http_transfer *t = CR_CONTAINER(n, struct cr_http_transfer, node);
        if (!t->request.watch && t->identity->generation < http->generation) return;
    }
    for (size_t i = 0; i < http->n_sockets; i++) {
        if (!is_old(http, &http->sockets[i])) continue;
        shutdown(http->sockets[i].fd, SHUT_RDWR);
        http->sockets[i].shut = true;
    }
}
