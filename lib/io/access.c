/* SPDX-License-Identifier: Apache-2.0 */
#include "io/access.h"

#include <string.h>
#include <strings.h>

#include "base/bounds.h"
#include "base/buf.h"
#include "base/mem.h"
#include "io/kubeconfig.h"
#include "io/secret.h"
#include "io/server_url.h"

#define SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

static int no_memory(struct csireg_error **error) { return cr_error_put(error, cr_error_oom()); }

static int wrong(struct csireg_error **error, const char *what, const char *why)
{
    return cr_error_put(error, cr_error_new(CSIREG_ERR_CONFIG, "%s %s", what, why));
}

void cr_access_free(struct cr_access *a)
{
    if (!a) return;
    cr_secret_fini(&a->ca);
    cr_secret_fini(&a->token);
    cr_secret_fini(&a->client_certificate);
    cr_secret_fini(&a->client_key);
    cr_free(a->server);
    cr_free(a->tls_server_name);
    if (a->proxy) explicit_bzero(a->proxy, strlen(a->proxy)); /* may hold a password */
    cr_free(a->proxy);
    cr_free(a->warning);
    cr_free(a);
}

/* ---- checks that hold for every source ---- */

/* The text of a server is shown only when it is well-formed: a malformed one may hold a password. */
static int check_server(struct cr_access *a, struct csireg_error **error)
{
    struct cr_server_url u = {0};
    bool nomem;
    if (!a->server) return wrong(error, "the API server's address", "is missing");
    const char *fault = cr_server_url_parse(&u, a->server, &nomem);
    if (nomem) return no_memory(error);
    if (fault) return wrong(error, "the API server's address", fault);
    int rc = 0;
    if (!u.https && !cr_server_url_is_loopback(&u))
        rc = cr_error_put(error, cr_error_new(CSIREG_ERR_CONFIG,
                                              "the API server's address %s: plain http is for tests on the loopback "
                                              "interface only, use https",
                                              a->server));
    cr_server_url_fini(&u);
    for (size_t n = strlen(a->server); a->server[n - 1] == '/'; n--) a->server[n - 1] = '\0';
    return rc;
}

static bool is_set(const struct cr_secret *s) { return s->data || s->file; }

static int check_tls(const struct cr_access *a, struct csireg_error **error)
{
    bool certificate = is_set(&a->client_certificate), key = is_set(&a->client_key);
    if (a->tls_server_name && !cr_host_name_valid(a->tls_server_name))
        return wrong(error, "the TLS server name", "is neither a host name nor an address");
    if (certificate != key)
        return wrong(error, certificate ? "the client certificate" : "the client key",
                     certificate ? "has no client key beside it; both are needed"
                                 : "has no client certificate beside it; both are needed");
    if (a->insecure_skip_tls_verify && is_set(&a->ca))
        return wrong(error, "insecure-skip-tls-verify",
                     "and a certificate authority are both given; leave one of them out");
    return 0;
}

/* ---- files ---- */

struct slot {
    struct cr_secret *secret;
    enum cr_secret_kind kind;
};

/* All of a group or none: a new certificate with the old key is no identity. */
static int refresh_group(const struct slot *slots, size_t n, bool force, bool *changed, struct csireg_error **error)
{
    struct cr_secret next[2] = {{0}};
    bool read[2] = {false};
    int rc = 0;
    for (size_t i = 0; rc >= 0 && i < n; i++) {
        rc = cr_secret_load(slots[i].secret, slots[i].kind, force, &next[i], error);
        read[i] = rc > 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (rc >= 0 && read[i] && cr_secret_adopt(slots[i].secret, &next[i])) *changed = true;
        cr_secret_fini(&next[i]);
    }
    return rc < 0 ? rc : 0;
}

/* One group that cannot be read does not keep the others from being renewed. */
static int refresh_all(struct cr_access *a, bool force, bool *changed, struct csireg_error **error)
{
    const struct slot slots[] = {{&a->token, CR_SECRET_TOKEN},
                                 {&a->ca, CR_SECRET_CA},
                                 {&a->client_certificate, CR_SECRET_CERTIFICATE},
                                 {&a->client_key, CR_SECRET_KEY}};
    int token = refresh_group(slots, 1, force, changed, error);
    int ca = refresh_group(slots + 1, 1, force, changed, error);
    int pair = refresh_group(slots + 2, 2, force, changed, error);
    return token ? token : ca ? ca : pair;
}

int cr_access_refresh(struct cr_access *a, bool force, struct csireg_error **error)
{
    struct csireg_error *fault = NULL;
    bool changed = false;
    int rc = refresh_all(a, force, &changed, &fault);
    if (!changed && fault) return cr_error_put(error, fault);
    csireg_error_free(fault); /* comes again at the next call: its file still is not what was read last */
    return changed ? 1 : rc;
}

static int add_warning(struct cr_access *a, const char *text, struct csireg_error **error)
{
    struct cr_buf b;
    cr_buf_init(&b, 2 * CR_MAX_ERROR_TEXT);
    cr_buf_printf(&b, "%s%s", text, a->warning ? a->warning : "");
    char *joined = cr_buf_take(&b);
    if (!joined) return no_memory(error);
    cr_free(a->warning);
    a->warning = joined;
    return 0;
}

static int complete(struct cr_access *a, struct csireg_error **error)
{
    bool changed = false;
    int rc = check_server(a, error);
    if (rc == 0) rc = check_tls(a, error);
    if (rc == 0) rc = refresh_all(a, true, &changed, error);
    if (rc == 0 && a->insecure_skip_tls_verify)
        rc =
            add_warning(a,
                        "INSECURE: the API server's certificate is not verified (insecure-skip-tls-verify): whoever is "
                        "on the way can read the credentials and answer in its place. ",
                        error);
    return rc;
}

/* Ends a constructor: hands over what is complete, frees the rest. */
static int finish(struct cr_access *a, int rc, struct cr_access **out, struct csireg_error **error)
{
    if (rc == 0) rc = complete(a, error);
    if (rc == 0)
        *out = a;
    else
        cr_access_free(a);
    return rc;
}

static struct cr_access *new_access(enum cr_access_source source)
{
    struct cr_access *a = CR_NEW(struct cr_access);
    if (a) a->source = source;
    return a;
}

/* ---- sources ---- */

int cr_access_from_kubeconfig(struct cr_access **out, const char *path, const char *context,
                              struct csireg_error **error)
{
    struct csireg_error *cause = NULL;
    struct cr_access *a = new_access(CR_ACCESS_KUBECONFIG);
    CR_AUTO_CHARP absolute = cr_secret_path(NULL, path);
    if (!a || !absolute) {
        cr_access_free(a);
        return no_memory(error);
    }
    int rc = cr_kubeconfig_read(a, absolute, context, error);
    if (rc != 0) return finish(a, rc, out, error);
    rc = finish(a, 0, out, &cause);
    if (rc == 0) return 0;
    cr_error_prefix(cause, "kubeconfig %s", absolute);
    return cr_error_put(error, cause);
}

static char *server_of(const char *host, const char *port)
{
    struct cr_buf b;
    bool bare_ipv6 = strchr(host, ':') && host[0] != '[';
    cr_buf_init(&b, CR_MAX_ERROR_TEXT);
    cr_buf_printf(&b, bare_ipv6 ? "https://[%s]:%s" : "https://%s:%s", host, port);
    return cr_buf_take(&b);
}

int cr_access_in_cluster(struct cr_access **out, const char *host, const char *port, const char *dir,
                         struct csireg_error **error)
{
    if (!host || !port || !host[0] || !port[0])
        return wrong(error, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT",
                     "are not set, so this is not a pod: name a kubeconfig or an API server");
    CR_AUTO_CHARP base = cr_secret_path(NULL, dir ? dir : SERVICE_ACCOUNT_DIR);
    struct cr_access *a = new_access(CR_ACCESS_IN_CLUSTER);
    if (a && base) {
        a->server = server_of(host, port);
        a->token.file = cr_secret_path(base, "token");
        a->ca.file = cr_secret_path(base, "ca.crt");
    }
    if (a && a->server && a->token.file && a->ca.file) return finish(a, 0, out, error);
    cr_access_free(a);
    return no_memory(error);
}

/* Copies an optional text; a file's name becomes absolute. */
static bool copy(char **out, const char *text, bool is_file)
{
    if (!text || !text[0]) return true;
    *out = is_file ? cr_secret_path(NULL, text) : cr_strdup(text);
    return *out;
}

static int explicit_token(struct cr_access *a, const char *token, struct csireg_error **error)
{
    if (!token || !token[0]) return 0;
    if (a->token.file) return wrong(error, "a token and a token file", "are both given; leave one of them out");
    char *data = cr_strdup(token);
    if (!data) return no_memory(error);
    const char *fault = cr_secret_set(&a->token, CR_SECRET_TOKEN, data, strlen(data));
    return fault ? wrong(error, "the token", fault) : 0;
}

int cr_access_from_explicit(struct cr_access **out, const struct cr_access_explicit *x, struct csireg_error **error)
{
    struct cr_access *a = new_access(CR_ACCESS_EXPLICIT);
    if (!a) return no_memory(error);
    a->insecure_skip_tls_verify = x->insecure_skip_tls_verify;
    bool ok = copy(&a->server, x->server, false) && copy(&a->tls_server_name, x->tls_server_name, false) &&
              copy(&a->token.file, x->token_file, true) && copy(&a->ca.file, x->ca_file, true) &&
              copy(&a->client_certificate.file, x->client_certificate_file, true) &&
              copy(&a->client_key.file, x->client_key_file, true);
    return finish(a, ok ? explicit_token(a, x->token, error) : no_memory(error), out, error);
}

int cr_access_set_proxy(struct cr_access *a, const char *proxy, struct csireg_error **error)
{
    static const char *const schemes[] = {"http://", "https://", "socks5://", "socks5h://"};
    char *chosen = NULL;
    bool known = !proxy || !proxy[0];
    for (size_t i = 0; !known && i < sizeof schemes / sizeof *schemes; i++)
        known = strncasecmp(proxy, schemes[i], strlen(schemes[i])) == 0 && proxy[strlen(schemes[i])];
    if (!known) return wrong(error, "the proxy", "must be http://, https://, socks5:// or socks5h://HOST[:PORT]");
    if (proxy && strpbrk(proxy, " \t\r\n")) return wrong(error, "the proxy", "holds white space");
    if (!copy(&chosen, proxy, false)) return no_memory(error);
    cr_free(a->proxy);
    a->proxy = chosen;
    return 0;
}
