// SPDX-License-Identifier: Apache-2.0
/* Start and stop. */
#include "apiserver/server.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "apiserver/watch.h"
#include "base/buf.h"
#include "common/alloc.h"

#define DEFAULT_HISTORY 1000
#define MAX_FILE        (256u * 1024 * 1024)
#define SERVER_SECONDS  (365L * 24 * 3600)
#define STOP_GRACE_MS   500
#define DRAIN_NS        (1000 * (int64_t)AS_MS) /* how long answers under way may take when the server stops */

static char *read_file(const char *path, char **out_error)
{
    char chunk[16384];
    struct cr_buf text;
    FILE *f = fopen(path, "re");
    if (!f) {
        *out_error = need_printf("cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    cr_buf_init(&text, MAX_FILE);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;) cr_buf_append(&text, chunk, n);
    fclose(f);
    char *out = need_strdup(cr_buf_str(&text));
    cr_buf_free(&text);
    return out;
}

static json_t *read_json(const char *path, char **out_error)
{
    char *text = read_file(path, out_error), *why = NULL;
    if (!text) return NULL;
    json_t *v = as_json_parse(text, strlen(text), &why);
    if (!v) *out_error = need_printf("%s is not JSON: %s", path, why);
    free(why);
    free(text);
    return v;
}

static void committed(void *user, const struct as_resource *type)
{
    struct apiserver *s = user;
    as_watch_notify(s, type);
    pthread_cond_broadcast(&s->changed);
}

bool as_server_credentials(struct apiserver *s, const char *certificate, const char *key, char **out_error)
{
    gnutls_certificate_credentials_t credentials = as_credentials(certificate, key, out_error);
    if (!credentials) return false;
    s->credentials = need_array(s->credentials, s->n_credentials + 1, sizeof(gnutls_certificate_credentials_t));
    s->credentials[s->n_credentials++] = credentials;
    if (s->relay) as_relay_set_credentials(s->relay, credentials);
    return true;
}

/* ---- certificates ---- */

static bool made_certificate(struct apiserver *s, const struct as_subject *subject,
                             const struct as_authority *authority, char **out_error)
{
    char *certificate, *key;
    as_issue(authority, subject, &certificate, &key);
    bool ok = as_server_credentials(s, certificate, key, out_error);
    free(certificate);
    free(key);
    return ok;
}

static bool make_certificates(struct apiserver *s, const struct apiserver_config *c, char **out_error)
{
    static const char *const always[] = {"localhost", "127.0.0.1", "::1"};
    size_t n = sizeof always / sizeof *always;
    const char **hosts = need_calloc(n + c->n_host_names, sizeof *hosts);
    memcpy(hosts, always, sizeof always);
    for (size_t i = 0; i < c->n_host_names; i++) hosts[n++] = c->host_names[i];
    struct as_subject subject = {
        .name = "csireg-apiserver", .hosts = hosts, .n_hosts = n, .valid_seconds = SERVER_SECONDS};
    s->authority = as_authority_new("csireg-apiserver-ca");
    s->ca = as_authority_pem(s->authority);
    bool ok = made_certificate(s, &subject, s->authority, out_error);
    free(hosts);
    return ok;
}

static bool read_certificates(struct apiserver *s, const struct apiserver_config *c, char **out_error)
{
    char *certificate = read_file(c->tls_cert, out_error);
    char *key = certificate ? read_file(c->tls_key ? c->tls_key : c->tls_cert, out_error) : NULL;
    bool ok = key && as_server_credentials(s, certificate, key, out_error);
    free(certificate);
    free(key);
    return ok;
}

static bool set_up_tls(struct apiserver *s, const struct apiserver_config *c, char **out_error)
{
    if (c->client_ca) {
        s->auth.client_ca = read_file(c->client_ca, out_error);
        if (!s->auth.client_ca) return false;
    } else {
        s->client_authority = as_authority_new("csireg-apiserver-client-ca");
        s->auth.client_ca = as_authority_pem(s->client_authority);
    }
    if (s->plain) return true;
    return c->tls_cert ? read_certificates(s, c, out_error) : make_certificates(s, c, out_error);
}

/* ---- what the configuration brings ---- */

static bool read_tokens(struct apiserver *s, const char *path, char **out_error)
{
    size_t i;
    json_t *entry, *list = path ? read_json(path, out_error) : json_array();
    if (!list) return false;
    json_array_foreach (list, i, entry) {
        if (as_auth_add(&s->auth, entry) || *out_error) continue;
        *out_error = need_printf("%s: entry %zu lacks token or user", path, i);
    }
    json_decref(list);
    return !*out_error;
}

static bool parse_gate(const char *text, bool may_be_unknown, enum as_gate *out)
{
    if (!text || !strcmp(text, "off"))
        *out = AS_GATE_OFF;
    else if (!strcmp(text, "on"))
        *out = AS_GATE_ON;
    else if (may_be_unknown && !strcmp(text, "unknown"))
        *out = AS_GATE_UNKNOWN;
    else
        return false;
    return true;
}

bool as_server_gate(struct apiserver *s, const char *name, const char *value)
{
    if (!strcmp(name, "CSIControllerGetNodeInfo")) return parse_gate(value, true, &s->gates.node_info);
    return !strcmp(name, "CSIVolumeHealth") && parse_gate(value, false, &s->gates.volume_health);
}

static bool read_settings(struct apiserver *s, const struct apiserver_config *c, char **out_error)
{
    if (!as_server_gate(s, "CSIControllerGetNodeInfo", c->gate_node_info) ||
        !as_server_gate(s, "CSIVolumeHealth", c->gate_volume_health)) {
        *out_error = need_strdup("a gate is on or off, and CSIControllerGetNodeInfo also unknown");
        return false;
    }
    s->rbac = c->rules ? read_json(c->rules, out_error) : json_array();
    if (c->log && !(s->log = fopen(c->log, "ae")))
        *out_error = need_printf("cannot write %s: %s", c->log, strerror(errno));
    return s->rbac && !*out_error && read_tokens(s, c->tokens, out_error);
}

/* Creates an object as a master, the way /do does. */
static bool create(struct apiserver *s, const json_t *object, char **out_error)
{
    const char *kind = as_json_str(object, "kind");
    const struct as_resource *type = NULL;
    for (size_t i = 0; i < AS_RESOURCES; i++)
        if (!strcmp(as_resources[i].kind, kind)) type = &as_resources[i];
    if (!type) {
        *out_error = need_printf("objects of kind \"%s\" are not served", kind);
        return false;
    }
    struct as_answer a = {0};
    char *text = as_json_text(object),
         *path = need_printf("%s/%s/%s", *type->group ? "/apis" : "/api", type->api_version, type->plural);
    struct as_request *r = as_request_new("POST", path);
    as_request_route(r);
    as_request_append(r, text, strlen(text));
    r->user = (struct as_user){.name = need_strdup("system:admin"), .groups = json_pack("[s]", AS_MASTERS)};
    as_serve_as(s, r, &a);
    if (a.code != 201) *out_error = need_printf("cannot create a %s: %s", kind, a.body ? a.body : "");
    as_answer_fini(&a);
    as_request_free(r);
    free(path);
    free(text);
    return !*out_error;
}

static bool create_lines(struct apiserver *s, char *text, char **out_error)
{
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line && !*out_error; line = strtok_r(NULL, "\n", &save)) {
        json_t *object = as_json_parse(line, strlen(line), out_error);
        if (object) create(s, object, out_error);
        json_decref(object);
    }
    return !*out_error;
}

static bool load(struct apiserver *s, const char *path, char **out_error)
{
    char *text = path ? read_file(path, out_error) : NULL;
    if (!text) return !path;
    json_t *whole = as_json_parse(text, strlen(text), NULL), *items = json_object_get(whole, "items"), *item;
    size_t i;
    json_array_foreach (items, i, item) {
        if (!*out_error) create(s, item, out_error);
    }
    if (whole && !items) create(s, whole, out_error);
    if (!whole) create_lines(s, text, out_error);
    json_decref(whole);
    free(text);
    return !*out_error;
}

static bool create_nodes(struct apiserver *s, const struct apiserver_config *c, char **out_error)
{
    for (size_t i = 0; i < c->n_nodes && !*out_error; i++) {
        json_t *node =
            json_pack("{s:s, s:s, s:{s:s}}", "kind", "Node", "apiVersion", "v1", "metadata", "name", c->nodes[i]);
        create(s, node, out_error);
        json_decref(node);
    }
    return !*out_error;
}

/* ---- start, stop ---- */

static struct apiserver *new_server(const struct apiserver_config *c)
{
    struct apiserver *s = NEED_NEW(struct apiserver);
    pthread_mutex_init(&s->mu, NULL);
    pthread_mutex_init(&s->door, NULL);
    as_cond_init(&s->changed);
    cr_list_init(&s->watches);
    s->plain = c->plain_http;
    as_auth_init(&s->auth, !c->no_anonymous);
    as_rules_init(&s->rules);
    as_counts_init(&s->counts);
    as_store_init(&s->store, c->history > 0 ? (size_t)c->history : DEFAULT_HISTORY, committed, s);
    return s;
}

static void free_server(struct apiserver *s)
{
    as_store_fini(&s->store);
    as_counts_fini(&s->counts);
    as_rules_fini(&s->rules);
    as_auth_fini(&s->auth);
    json_decref(s->rbac);
    if (s->log) fclose(s->log);
    for (size_t i = 0; i < s->n_credentials; i++) gnutls_certificate_free_credentials(s->credentials[i]);
    free(s->credentials);
    as_authority_free(s->authority);
    as_authority_free(s->client_authority);
    free(s->ca);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->door);
    pthread_mutex_destroy(&s->mu);
    free(s);
}

int apiserver_start(const struct apiserver_config *c, struct apiserver **out, char **error)
{
    struct apiserver *s = new_server(c);
    *error = NULL;
    bool ok = set_up_tls(s, c, error) && read_settings(s, c, error) && create_nodes(s, c, error) &&
              load(s, c->load, error) && as_http_start(s, c->listen ? c->listen : "127.0.0.1:0", error) &&
              (!c->control || as_control_start(s, c->control, error));
    if (!ok) {
        apiserver_stop(s);
        return -1;
    }
    *out = s;
    return 0;
}

/* Wakes whoever waits and lets what is under way end. */
static void drain(struct apiserver *s)
{
    pthread_mutex_lock(&s->mu);
    s->stopping = true;
    pthread_cond_broadcast(&s->changed);
    as_watch_notify(s, NULL);
    int64_t deadline = as_now_ns() + DRAIN_NS;
    while ((s->counts.in_flight || s->counts.open_watches) && as_now_ns() < deadline)
        as_cond_wait(&s->changed, &s->mu, deadline);
    pthread_mutex_unlock(&s->mu);
}

void apiserver_stop(struct apiserver *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->door);
    s->door_open = false;
    pthread_mutex_unlock(&s->door);
    drain(s);
    as_control_stop(s);
    if (s->api) MHD_stop_daemon(s->api);
    if (s->relay) as_relay_stop(s->relay, STOP_GRACE_MS);
    as_relay_free(s->relay);
    free_server(s);
}

const char *apiserver_address(const struct apiserver *s) { return as_relay_address(s->relay); }
const char *apiserver_ca(const struct apiserver *s) { return s->ca; }
