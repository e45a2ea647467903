// SPDX-License-Identifier: Apache-2.0
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>

#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "apiserver/server.h"
#include "common/alloc.h"

static char *base64(const char *text)
{
    gnutls_datum_t in = {(unsigned char *)text, (unsigned)strlen(text)}, out = {0};
    gnutls_base64_encode2(&in, &out);
    char *encoded = need_strndup((const char *)out.data, out.size);
    gnutls_free(out.data);
    return encoded;
}

/* The token of a user, made when there is none. Lock held. */
static char *token_of(struct apiserver *s, const char *user)
{
    const char *token;
    json_t *known;
    json_object_foreach (s->auth.tokens, token, known) {
        if (!strcmp(as_json_str(known, "user"), user)) return need_strdup(token);
    }
    bool node = !strncmp(user, "system:node:", strlen("system:node:"));
    char *made = need_printf("t-%016llx%016llx", (unsigned long long)as_random(), (unsigned long long)as_random());
    json_t *entry =
        json_pack("{s:s, s:s, s:[s]}", "token", made, "user", user, "groups", node ? "system:nodes" : AS_MASTERS);
    as_auth_add(&s->auth, entry);
    json_decref(entry);
    return made;
}

char *apiserver_kubeconfig(struct apiserver *s, const char *user)
{
    pthread_mutex_lock(&s->mu);
    char *token = token_of(s, user);
    pthread_mutex_unlock(&s->mu);
    char *ca = s->ca ? base64(s->ca) : need_strdup(""),
         *authority = need_printf("    certificate-authority-data: %s\n", ca);
    char *text =
        need_printf("apiVersion: v1\nkind: Config\nclusters:\n- name: emulator\n  cluster:\n"
                    "    server: %s://%s\n%scontexts:\n- name: emulator\n  context:\n    cluster: emulator\n"
                    "    user: \"%s\"\ncurrent-context: emulator\nusers:\n- name: \"%s\"\n  user:\n    token: %s\n",
                    s->plain ? "http" : "https", as_relay_address(s->relay), s->ca ? authority : "", user, user, token);
    free(authority);
    free(ca);
    free(token);
    return text;
}
