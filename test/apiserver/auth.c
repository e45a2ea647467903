// SPDX-License-Identifier: Apache-2.0
#include "apiserver/auth.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "apiserver/pki.h"
#include "apiserver/relay.h"
#include "apiserver/server.h"
#include "common/alloc.h"

void as_auth_init(struct as_auth *auth, bool anonymous)
{
    *auth = (struct as_auth){.tokens = json_object(), .anonymous = anonymous};
}

void as_auth_fini(struct as_auth *auth)
{
    json_decref(auth->tokens);
    free(auth->client_ca);
}

bool as_auth_add(struct as_auth *auth, const json_t *entry)
{
    const char *token = as_json_str(entry, "token"), *user = as_json_str(entry, "user");
    int64_t ttl = as_json_int(entry, "ttlMs", -1);
    if (!*token || !*user) return false;
    json_t *groups = json_object_get(entry, "groups");
    json_t *known = json_pack("{s:s, s:o, s:I}", "user", user, "groups",
                              json_is_array(groups) ? json_deep_copy(groups) : json_array(), "expiresNs",
                              (json_int_t)(ttl < 0 ? AS_FOREVER : as_now_ns() + ttl * AS_MS));
    json_object_set_new(auth->tokens, token, known);
    return true;
}

bool as_auth_revoke(struct as_auth *auth, const char *token) { return json_object_del(auth->tokens, token) == 0; }

bool as_auth_expire(struct as_auth *auth, const char *token)
{
    json_t *known = json_object_get(auth->tokens, token);
    return known && json_object_set_new(known, "expiresNs", json_integer(0)) == 0;
}

static void become(struct as_user *u, const char *name, json_t *groups)
{
    u->name = need_strdup(name);
    u->groups = groups;
}

static const char *bearer(const struct as_request *r)
{
    static const char scheme[] = "Bearer ";
    if (!r->authorization || strncasecmp(r->authorization, scheme, sizeof scheme - 1) != 0) return NULL;
    return r->authorization + sizeof scheme - 1;
}

static bool by_token(struct apiserver *s, const char *token, struct as_user *u)
{
    pthread_mutex_lock(&s->mu);
    const json_t *known = json_object_get(s->auth.tokens, token);
    bool good = known && as_json_int(known, "expiresNs", 0) > as_now_ns();
    if (good) become(u, as_json_str(known, "user"), json_deep_copy(json_object_get(known, "groups")));
    pthread_mutex_unlock(&s->mu);
    return good;
}

static bool by_certificate(struct apiserver *s, const gnutls_datum_t *chain, unsigned n, struct as_user *u)
{
    char *name = NULL, **groups = NULL;
    pthread_mutex_lock(&s->mu);
    char *authorities = need_strdup(s->auth.client_ca);
    pthread_mutex_unlock(&s->mu);
    bool good = authorities && as_client_identity(authorities, chain, n, &name, &groups);
    free(authorities);
    if (!good) return false;
    json_t *list = json_array();
    for (size_t i = 0; groups[i]; i++) {
        json_array_append_new(list, json_string(groups[i]));
        free(groups[i]);
    }
    free(groups);
    become(u, name, list);
    free(name);
    return true;
}

bool as_authenticate(struct apiserver *s, struct as_request *r)
{
    unsigned n = 0;
    const gnutls_datum_t *chain = r->conn ? as_conn_certificates(r->conn, &n) : NULL;
    const char *token = bearer(r);
    bool known = (n && by_certificate(s, chain, n, &r->user)) || (token && by_token(s, token, &r->user));
    if (!known && !n && !r->authorization && s->auth.anonymous) {
        become(&r->user, "system:anonymous", json_pack("[s]", "system:unauthenticated"));
        return true;
    }
    if (known) json_array_append_new(r->user.groups, json_string("system:authenticated"));
    return known;
}
