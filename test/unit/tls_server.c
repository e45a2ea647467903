/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/tls_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#define MAX_CONNS   512
#define MAX_REQUEST (4 * 1024 * 1024)

struct tls_conn {
    struct tls_server *server;
    gnutls_session_t session; /* NULL: plain */
    pthread_t thread;
    unsigned index;
    int fd;
    char *in; /* bytes received and not used, NUL-terminated */
    size_t in_len, in_cap;
    char client[128], sni[256];
};

struct tls_server {
    struct tls_server_config config;
    gnutls_certificate_credentials_t credentials;
    pthread_t thread;
    int fd;
    unsigned port;
    atomic_uint accepts, requests, open;
    struct tls_conn *conns[MAX_CONNS];
    pthread_mutex_t mutex; /* conns[].fd against stop */
    bool stopping;
};

static void must(bool ok, const char *what)
{
    if (ok) return;
    perror(what);
    abort();
}

static gnutls_datum_t datum(const char *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)(size_t)text, .size = (unsigned)strlen(text)};
}

/* ---- bytes ---- */

bool tls_send(struct tls_conn *c, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = c->session ? gnutls_record_send(c->session, p, len) : send(c->fd, p, len, MSG_NOSIGNAL);
        if (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_AGAIN) continue;
        if (n <= 0) return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

bool tls_puts(struct tls_conn *c, const char *text) { return tls_send(c, text, strlen(text)); }

bool tls_reply(struct tls_conn *c, int status, const char *headers, const char *body)
{
    char head[4096];
    snprintf(head, sizeof head, "HTTP/1.1 %d X\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n",
             status, headers ? headers : "", strlen(body));
    return tls_puts(c, head) && tls_puts(c, body);
}

static ssize_t receive(struct tls_conn *c, char *data, size_t len)
{
    for (;;) {
        ssize_t n = c->session ? gnutls_record_recv(c->session, data, len) : recv(c->fd, data, len, 0);
        if (n != GNUTLS_E_INTERRUPTED && n != GNUTLS_E_AGAIN) return n;
    }
}

void tls_wait_closed(struct tls_conn *c)
{
    char scratch[512];
    while (receive(c, scratch, sizeof scratch) > 0) continue;
}

static bool read_more(struct tls_conn *c)
{
    if (c->in_cap - c->in_len < 16385) {
        c->in_cap += 65536;
        c->in = reallocarray(c->in, c->in_cap, 1);
        must(c->in && c->in_cap < MAX_REQUEST, "request");
    }
    ssize_t n = receive(c, c->in + c->in_len, 16384);
    if (n <= 0) return false;
    c->in_len += (size_t)n;
    c->in[c->in_len] = '\0';
    return true;
}

/* ---- HTTP ---- */

static size_t content_length(const char *head)
{
    const char *p = strcasestr(head, "\r\nContent-Length:");
    return p ? (size_t)strtoul(p + 17, NULL, 10) : 0;
}

static enum tls_after serve_request(struct tls_conn *c, unsigned n)
{
    char *end;
    while (!(end = c->in ? strstr(c->in, "\r\n\r\n") : NULL))
        if (!read_more(c)) return TLS_CLOSE;
    *end = '\0';
    size_t head = (size_t)(end - c->in) + 4, body = content_length(c->in);
    while (c->in_len < head + body)
        if (!read_more(c)) return TLS_CLOSE;
    char *copy = strndup(c->in + head, body);
    atomic_fetch_add(&c->server->requests, 1);
    struct tls_request r = {c->in, copy, c->client, c->sni, c->index, n};
    enum tls_after after = c->server->config.handler(c->server->config.user, c, &r);
    free(copy);
    c->in_len -= head + body;
    memmove(c->in, c->in + head + body, c->in_len + 1);
    return after;
}

/* ---- connections ---- */

static void learn_client(struct tls_conn *c)
{
    unsigned n = 0, type = 0;
    size_t size = sizeof c->client, sni = sizeof c->sni - 1;
    gnutls_x509_crt_t crt;
    if (gnutls_server_name_get(c->session, c->sni, &sni, &type, 0) < 0) c->sni[0] = '\0';
    const gnutls_datum_t *certificates = gnutls_certificate_get_peers(c->session, &n);
    if (!certificates || n == 0) return;
    must(gnutls_x509_crt_init(&crt) >= 0, "certificate");
    must(gnutls_x509_crt_import(crt, certificates, GNUTLS_X509_FMT_DER) >= 0, "certificate");
    gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, c->client, &size);
    gnutls_x509_crt_deinit(crt);
}

static bool handshake(struct tls_conn *c)
{
    struct tls_server *s = c->server;
    int rc;
    if (!s->config.pair) return true;
    must(gnutls_init(&c->session, GNUTLS_SERVER | GNUTLS_NO_SIGNAL) >= 0, "gnutls_init");
    must(gnutls_set_default_priority(c->session) >= 0, "priority");
    must(gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, s->credentials) >= 0, "credentials");
    if (s->config.client_ca) gnutls_certificate_server_set_request(c->session, GNUTLS_CERT_REQUEST);
    gnutls_transport_set_int(c->session, c->fd);
    do rc = gnutls_handshake(c->session);
    while (rc < 0 && !gnutls_error_is_fatal(rc));
    if (rc >= 0) learn_client(c);
    return rc >= 0;
}

static void end(struct tls_conn *c, enum tls_after after)
{
    if (c->session && after == TLS_CLOSE) gnutls_bye(c->session, GNUTLS_SHUT_WR);
    if (c->session) gnutls_deinit(c->session);
    struct linger hard = {1, 0};
    if (after == TLS_RESET) setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    pthread_mutex_lock(&c->server->mutex);
    close(c->fd);
    c->fd = -1;
    pthread_mutex_unlock(&c->server->mutex);
    atomic_fetch_sub(&c->server->open, 1);
    free(c->in);
}

static void *connection(void *arg)
{
    struct tls_conn *c = arg;
    enum tls_after after = TLS_CUT;
    const char *greeting = c->server->config.greeting;
    if (greeting && tls_puts(c, greeting))
        tls_wait_closed(c);
    else if (handshake(c))
        for (unsigned n = 1; (after = serve_request(c, n)) == TLS_KEEP; n++) continue;
    end(c, after);
    return NULL;
}

static void *acceptor(void *arg)
{
    struct tls_server *s = arg;
    for (;;) {
        int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) return NULL;
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* small writes go out as they are made */
        struct tls_conn *c = calloc(1, sizeof *c);
        must(c, "connection");
        *c = (struct tls_conn){.server = s, .fd = fd};
        pthread_mutex_lock(&s->mutex);
        c->index = atomic_fetch_add(&s->accepts, 1) + 1;
        must(c->index <= MAX_CONNS, "too many connections");
        atomic_fetch_add(&s->open, 1);
        s->conns[c->index - 1] = c;
        if (s->stopping) shutdown(fd, SHUT_RDWR);
        pthread_mutex_unlock(&s->mutex);
        must(pthread_create(&c->thread, NULL, connection, c) == 0, "pthread_create");
    }
}

/* ---- life ---- */

static void listen_on_loopback(struct tls_server *s)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *address = s->config.ipv6 ? (struct sockaddr *)&six : (struct sockaddr *)&four;
    socklen_t size = s->config.ipv6 ? sizeof six : sizeof four;
    s->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(s->fd >= 0, "socket");
    must(bind(s->fd, address, size) == 0, "bind");
    must(listen(s->fd, 64) == 0, "listen");
    must(getsockname(s->fd, address, &size) == 0, "getsockname");
    s->port = ntohs(s->config.ipv6 ? six.sin6_port : four.sin_port);
}

static void load_credentials(struct tls_server *s)
{
    const struct pki_pair *pair = s->config.pair;
    if (!pair) return;
    gnutls_datum_t certificate = datum(pair->certificate), key = datum(pair->key);
    must(gnutls_certificate_allocate_credentials(&s->credentials) >= 0, "credentials");
    must(gnutls_certificate_set_x509_key_mem(s->credentials, &certificate, &key, GNUTLS_X509_FMT_PEM) >= 0, "key");
    if (!s->config.client_ca) return;
    gnutls_datum_t ca = datum(s->config.client_ca);
    must(gnutls_certificate_set_x509_trust_mem(s->credentials, &ca, GNUTLS_X509_FMT_PEM) >= 0, "CA");
}

struct tls_server *tls_server_start(const struct tls_server_config *config)
{
    struct tls_server *s = calloc(1, sizeof *s);
    must(s, "server");
    s->config = *config;
    pthread_mutex_init(&s->mutex, NULL);
    load_credentials(s);
    listen_on_loopback(s);
    must(pthread_create(&s->thread, NULL, acceptor, s) == 0, "pthread_create");
    return s;
}

void tls_server_stop(struct tls_server *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->mutex);
    s->stopping = true;
    shutdown(s->fd, SHUT_RDWR);
    for (size_t i = 0; i < MAX_CONNS && s->conns[i]; i++)
        if (s->conns[i]->fd >= 0) shutdown(s->conns[i]->fd, SHUT_RDWR);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    for (size_t i = 0; i < MAX_CONNS && s->conns[i]; i++) {
        pthread_join(s->conns[i]->thread, NULL);
        free(s->conns[i]);
    }
    close(s->fd);
    if (s->credentials) gnutls_certificate_free_credentials(s->credentials);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

unsigned tls_server_port(const struct tls_server *s) { return s->port; }
unsigned tls_server_accepts(const struct tls_server *s) { return atomic_load(&s->accepts); }
unsigned tls_server_requests(const struct tls_server *s) { return atomic_load(&s->requests); }
unsigned tls_server_open(const struct tls_server *s) { return atomic_load(&s->open); }
