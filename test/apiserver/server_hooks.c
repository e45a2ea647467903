// SPDX-License-Identifier: Apache-2.0
/* What the control interface changes in a running server: identities and its certificate. */
#include <stdlib.h>
#include <string.h>

#include "apiserver/json.h"
#include "apiserver/server.h"
#include "common/alloc.h"

#define MAX_GROUPS 32

typedef bool on_token(struct as_auth *auth, const char *token);

static void each_token(struct as_auth *auth, const json_t *list, on_token *act)
{
    size_t i;
    json_t *token;
    json_array_foreach (list, i, token) {
        if (json_is_string(token)) act(auth, json_string_value(token));
    }
}

static bool add_tokens(struct as_auth *auth, const json_t *list)
{
    size_t i;
    json_t *entry;
    json_array_foreach (list, i, entry) {
        if (!as_auth_add(auth, entry)) return false;
    }
    return true;
}

/* {user, groups, validSeconds?} -> {cert, key} signed by the client authority. */
static json_t *issue(struct apiserver *s, const json_t *wanted)
{
    const char *groups[MAX_GROUPS];
    size_t n = 0, i;
    json_t *group;
    json_array_foreach (json_object_get(wanted, "groups"), i, group) {
        if (json_is_string(group) && n < MAX_GROUPS) groups[n++] = json_string_value(group);
    }
    struct as_subject subject = {.name = as_json_str(wanted, "user"),
                                 .groups = groups,
                                 .n_groups = n,
                                 .valid_seconds = (long)as_json_int(wanted, "validSeconds", 3600)};
    char *certificate, *key;
    as_issue(s->client_authority, &subject, &certificate, &key);
    json_t *made = json_pack("{s:s, s:s}", "cert", certificate, "key", key);
    free(certificate);
    free(key);
    return made;
}

static bool swap_client_ca(struct apiserver *s, const json_t *pem)
{
    if (!pem) return true;
    if (!json_is_string(pem)) return false;
    free(s->auth.client_ca);
    if (!strcmp(json_string_value(pem), "new")) {
        as_authority_free(s->client_authority);
        s->client_authority = as_authority_new("csireg-apiserver-client-ca-2");
        s->auth.client_ca = as_authority_pem(s->client_authority);
    } else {
        s->auth.client_ca = need_strdup(json_string_value(pem));
    }
    return true;
}

json_t *as_server_auth(struct apiserver *s, const json_t *body, char **out_error)
{
    const json_t *wanted = json_object_get(body, "issue"), *anonymous = json_object_get(body, "anonymous");
    bool ok = add_tokens(&s->auth, json_object_get(body, "add")) &&
              swap_client_ca(s, json_object_get(body, "clientCA")) && (!wanted || s->client_authority);
    if (!ok) {
        *out_error = need_strdup("add needs token and user, clientCA is PEM or \"new\", issue needs our own client CA");
        return NULL;
    }
    each_token(&s->auth, json_object_get(body, "revoke"), as_auth_revoke);
    each_token(&s->auth, json_object_get(body, "expire"), as_auth_expire);
    if (anonymous) s->auth.anonymous = json_is_true(anonymous);
    return wanted ? issue(s, wanted) : json_object();
}

/* "good", "expired", "wrongName", "untrusted", or {cert, key}. */
static bool server_certificate(struct apiserver *s, const json_t *wanted, char **out_error)
{
    static const char *const good[] = {"localhost", "127.0.0.1", "::1"}, *const wrong[] = {"elsewhere.invalid"};
    const char *word = json_string_value(wanted) ? json_string_value(wanted) : "";
    bool wrong_name = !strcmp(word, "wrongName");
    struct as_subject subject = {.name = "csireg-apiserver",
                                 .hosts = wrong_name ? wrong : good,
                                 .n_hosts = wrong_name ? 1 : sizeof good / sizeof *good,
                                 .valid_seconds = strcmp(word, "expired") ? 3600 : -60};
    if (json_is_object(wanted))
        return as_server_credentials(s, as_json_str(wanted, "cert"), as_json_str(wanted, "key"), out_error);
    bool stranger = !strcmp(word, "untrusted");
    struct as_authority *other = stranger ? as_authority_new("a stranger") : NULL;
    if (!s->authority && !stranger) {
        *out_error = need_strdup("the server certificate was given as a file: give another as {cert, key}");
        return false;
    }
    char *certificate, *key;
    as_issue(stranger ? other : s->authority, &subject, &certificate, &key);
    bool ok = as_server_credentials(s, certificate, key, out_error);
    free(certificate);
    free(key);
    as_authority_free(other);
    return ok;
}

bool as_server_net(struct apiserver *s, const json_t *body, char **out_error)
{
    json_t *rest = json_copy((json_t *)body), *certificate = json_object_get(body, "serverCert");
    json_object_del(rest, "serverCert");
    bool ok = (!certificate || s->plain || server_certificate(s, certificate, out_error)) &&
              as_relay_net(s->relay, rest, out_error);
    json_decref(rest);
    return ok;
}
