/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kubeconfig.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bounds.h"
#include "base/buf.h"
#include "base/mem.h"
#include "io/kubeconfig_yaml.h"
#include "io/secret.h"

struct reader {
    struct cr_access *access;
    char *dir; /* of the kubeconfig, absolute */
    struct cr_yaml_doc doc;
    struct cr_buf warnings;
    struct csireg_error **error;
};

/* A named entry of clusters, users or contexts, as errors call it. */
struct entry {
    const char *kind, *name;
    const struct cr_yaml *body;
};

__attribute__((format(printf, 3, 4))) static int refuse(struct reader *r, const struct cr_yaml *at, const char *fmt,
                                                        ...)
{
    char text[CR_MAX_ERROR_TEXT + 1];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct csireg_error *e = cr_error_new(CSIREG_ERR_CONFIG, "%s", text);
    if (at) cr_error_prefix(e, "line %zu", at->line);
    return cr_error_put(r->error, e);
}

static int no_memory(struct reader *r) { return cr_error_put(r->error, cr_error_oom()); }

/* ---- fields ---- */

/* The field's node, NULL when it is absent or null. */
static int field(struct reader *r, const struct entry *e, const char *name, const struct cr_yaml **out)
{
    bool twice;
    const struct cr_yaml *node = cr_yaml_get(e->body, name, &twice);
    if (twice) return refuse(r, node, "%s \"%s\" has %s twice", e->kind, e->name, name);
    *out = node && node->kind == CR_YAML_SCALAR && node->null ? NULL : node;
    return 0;
}

/* As field, but must be a text; NULL when it is empty, as kubectl takes it. */
static int text_field(struct reader *r, const struct entry *e, const char *name, const struct cr_yaml **out)
{
    const struct cr_yaml *node = NULL;
    int rc = field(r, e, name, &node);
    if (rc != 0) return rc;
    if (node && node->kind != CR_YAML_SCALAR)
        return refuse(r, node, "%s of %s \"%s\" must be a text", name, e->kind, e->name);
    *out = node && node->text[0] ? node : NULL;
    return 0;
}

static int bool_field(struct reader *r, const struct entry *e, const char *name, bool *out)
{
    const struct cr_yaml *node = NULL;
    int rc = text_field(r, e, name, &node);
    if (rc != 0 || !node) return rc;
    *out = strcasecmp(node->text, "true") == 0;
    if (*out || strcasecmp(node->text, "false") == 0) return 0;
    return refuse(r, node, "%s of %s \"%s\" must be true or false", name, e->kind, e->name);
}

static int copy_field(struct reader *r, const struct entry *e, const char *name, char **out)
{
    const struct cr_yaml *node = NULL;
    int rc = text_field(r, e, name, &node);
    if (rc != 0 || !node) return rc;
    *out = cr_strdup(node->text);
    return *out ? 0 : no_memory(r);
}

/* ---- secrets ---- */

static int inline_secret(struct reader *r, const struct entry *e, const char *name, const struct cr_yaml *node,
                         enum cr_secret_kind kind, struct cr_secret *out)
{
    size_t len = strlen(node->text);
    bool nomem = false;
    char *data = kind == CR_SECRET_TOKEN ? cr_strdup(node->text) : cr_secret_base64(node->text, &len, &nomem);
    if (!data && (nomem || kind == CR_SECRET_TOKEN)) return no_memory(r);
    if (!data) return refuse(r, node, "%s of %s \"%s\" is not base64", name, e->kind, e->name);
    const char *fault = cr_secret_set(out, kind, data, len);
    return fault ? refuse(r, node, "%s of %s \"%s\" %s", name, e->kind, e->name, fault) : 0;
}

static int file_secret(struct reader *r, const struct cr_yaml *node, struct cr_secret *out)
{
    out->file = cr_secret_path(r->dir, node->text);
    return out->file ? 0 : no_memory(r);
}

struct secret_fields {
    const char *inline_name, *file_name;
    enum cr_secret_kind kind;
    bool file_first;
};

static int secret(struct reader *r, const struct entry *e, const struct secret_fields *f, struct cr_secret *out)
{
    const struct cr_yaml *data = NULL, *file = NULL;
    int rc = text_field(r, e, f->inline_name, &data);
    if (rc == 0) rc = text_field(r, e, f->file_name, &file);
    if (rc != 0) return rc;
    if (data && file && f->file_first) data = NULL;
    if (data) return inline_secret(r, e, f->inline_name, data, f->kind, out);
    return file ? file_secret(r, file, out) : 0;
}

/* ---- entries ---- */

/* The map under `key` of the item of the list `list` whose name is e->name. */
static int find_entry(struct reader *r, const char *list, const char *key, struct entry *e)
{
    const struct cr_yaml *items = cr_yaml_get(r->doc.root, list, NULL);
    for (size_t i = 0; items && items->kind == CR_YAML_LIST && i < items->n_items; i++) {
        const struct cr_yaml *name = cr_yaml_get(items->items[i], "name", NULL);
        if (!name || name->kind != CR_YAML_SCALAR || strcmp(name->text, e->name) != 0) continue;
        if (e->body) return refuse(r, items->items[i], "%s \"%s\" is there twice", e->kind, e->name);
        e->body = cr_yaml_get(items->items[i], key, NULL);
        if (!e->body) return refuse(r, items->items[i], "%s \"%s\" has no \"%s\"", e->kind, e->name, key);
        bool empty = e->body->kind == CR_YAML_SCALAR && e->body->null;
        if (!empty && e->body->kind != CR_YAML_MAP)
            return refuse(r, e->body, "%s of %s \"%s\" must be a map", key, e->kind, e->name);
    }
    return e->body ? 0 : refuse(r, items, "there is no %s \"%s\"", e->kind, e->name);
}

static int read_cluster(struct reader *r, const char *name)
{
    static const struct secret_fields ca = {"certificate-authority-data", "certificate-authority", CR_SECRET_CA, false};
    struct cr_access *a = r->access;
    struct entry e = {"cluster", name, NULL};
    const struct cr_yaml *proxy = NULL;
    int rc = find_entry(r, "clusters", "cluster", &e);
    if (rc == 0) rc = copy_field(r, &e, "server", &a->server);
    if (rc == 0 && !a->server) rc = refuse(r, e.body, "cluster \"%s\" has no server", name);
    if (rc == 0) rc = copy_field(r, &e, "tls-server-name", &a->tls_server_name);
    if (rc == 0) rc = bool_field(r, &e, "insecure-skip-tls-verify", &a->insecure_skip_tls_verify);
    if (rc == 0) rc = secret(r, &e, &ca, &a->ca);
    if (rc == 0) rc = text_field(r, &e, "proxy-url", &proxy);
    if (rc == 0 && proxy)
        cr_buf_printf(&r->warnings,
                      "proxy-url of cluster \"%s\" is not used; set the option api-proxy to use a proxy. ", name);
    return rc;
}

/* Ways to authenticate that need what csireg does not have. */
static int refuse_foreign(struct reader *r, const struct entry *user)
{
    static const struct {
        const char *field, *why;
    } foreign[] = {
        {"exec", "runs a credential program, which csireg never does"},
        {"auth-provider", "needs a plugin, which csireg does not have"},
        {"username", "is basic authentication, which API servers no longer take"},
        {"password", "is basic authentication, which API servers no longer take"},
        {"as", "is impersonation, which a node agent has no use for"},
        {"as-uid", "is impersonation, which a node agent has no use for"},
        {"as-groups", "is impersonation, which a node agent has no use for"},
        {"as-user-extra", "is impersonation, which a node agent has no use for"},
    };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        const struct cr_yaml *node = NULL;
        int rc = field(r, user, foreign[i].field, &node);
        if (rc != 0) return rc;
        if (!node || (node->kind == CR_YAML_SCALAR && !node->text[0])) continue;
        return refuse(
            r, node,
            "user \"%s\" has \"%s\": this %s. Give the user a token, a tokenFile (which is read again when it "
            "changes) or a client certificate and key instead",
            user->name, foreign[i].field, foreign[i].why);
    }
    return 0;
}

static bool is_set(const struct cr_secret *s) { return s->data || s->file; }

static int read_user(struct reader *r, const char *name)
{
    static const struct secret_fields token = {"token", "tokenFile", CR_SECRET_TOKEN, true};
    static const struct secret_fields certificate = {"client-certificate-data", "client-certificate",
                                                     CR_SECRET_CERTIFICATE, false};
    static const struct secret_fields key = {"client-key-data", "client-key", CR_SECRET_KEY, false};
    struct cr_access *a = r->access;
    struct entry e = {"user", name, NULL};
    int rc = find_entry(r, "users", "user", &e);
    if (rc == 0) rc = refuse_foreign(r, &e);
    if (rc == 0) rc = secret(r, &e, &token, &a->token);
    if (rc == 0) rc = secret(r, &e, &certificate, &a->client_certificate);
    if (rc == 0) rc = secret(r, &e, &key, &a->client_key);
    if (rc == 0 && !is_set(&a->token) && !is_set(&a->client_key))
        cr_buf_printf(&r->warnings,
                      "user \"%s\" has neither token, tokenFile nor client certificate: requests are anonymous. ",
                      name);
    return rc;
}

/* ---- the whole ---- */

static int check_kind(struct reader *r)
{
    const struct cr_yaml *root = r->doc.root, *kind = cr_yaml_get(root, "kind", NULL);
    if (!root || root->kind != CR_YAML_MAP) return refuse(r, root, "this is not a kubeconfig: a map is expected");
    if (kind && (kind->kind != CR_YAML_SCALAR || strcmp(kind->text, "Config") != 0))
        return refuse(r, kind, "this is not a kubeconfig: its kind is not Config");
    return 0;
}

static int choose_context(struct reader *r, const char *asked, struct entry *context)
{
    const struct entry top = {"kubeconfig", "top level", r->doc.root};
    const struct cr_yaml *current = NULL;
    int rc = asked ? 0 : text_field(r, &top, "current-context", &current);
    if (rc != 0) return rc;
    if (!asked && !current)
        return refuse(r, NULL, "current-context is not set; set it (kubectl config use-context) or name a context");
    context->name = asked ? asked : current->text;
    return find_entry(r, "contexts", "context", context);
}

static int read_context(struct reader *r, const char *asked)
{
    struct entry context = {"context", "", NULL};
    const struct cr_yaml *cluster = NULL, *user = NULL;
    int rc = check_kind(r);
    if (rc == 0) rc = choose_context(r, asked, &context);
    if (rc == 0) rc = text_field(r, &context, "cluster", &cluster);
    if (rc == 0) rc = text_field(r, &context, "user", &user);
    if (rc != 0) return rc;
    if (!cluster) return refuse(r, context.body, "context \"%s\" names no cluster", context.name);
    rc = read_cluster(r, cluster->text);
    if (rc == 0 && user) rc = read_user(r, user->text);
    if (rc == 0 && !user)
        cr_buf_printf(&r->warnings, "context \"%s\" names no user: requests are anonymous. ", context.name);
    return rc;
}

static int take_warnings(struct reader *r)
{
    if (r->warnings.len == 0 && !r->warnings.failed) return 0;
    r->access->warning = cr_buf_take(&r->warnings);
    return r->access->warning ? 0 : no_memory(r);
}

static int read_text(struct reader *r, const char *path, const char *text, size_t len, const char *context)
{
    r->dir = cr_strndup(path, (size_t)(strrchr(path, '/') - path));
    if (!r->dir) return no_memory(r);
    int rc = cr_yaml_parse(&r->doc, text, len, r->error);
    if (rc == 0) rc = read_context(r, context);
    if (rc == 0) rc = take_warnings(r);
    cr_yaml_fini(&r->doc);
    cr_free(r->dir);
    return rc;
}

int cr_kubeconfig_read(struct cr_access *access, const char *path, const char *context, struct csireg_error **error)
{
    char *text = NULL;
    size_t len = 0;
    struct csireg_error *cause = NULL;
    struct reader r = {.access = access, .error = &cause};
    cr_buf_init(&r.warnings, CR_MAX_ERROR_TEXT);
    int rc = cr_secret_read_file(path, "kubeconfig", CR_MAX_KUBECONFIG, &text, &len, error);
    if (rc != 0) return rc;
    rc = read_text(&r, path, text, len, context);
    cr_secret_wipe(text, len);
    cr_buf_free(&r.warnings);
    if (rc == 0) return 0;
    cr_error_prefix(cause, "kubeconfig %s", path);
    return cr_error_put(error, cause);
}
