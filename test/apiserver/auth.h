/* SPDX-License-Identifier: Apache-2.0 */
/* Who sends a request: client certificates, then bearer tokens. The caller holds the server's lock unless it says so.
 */
#ifndef APISERVER_AUTH_H
#define APISERVER_AUTH_H

#include <jansson.h>
#include <stdbool.h>

#include "apiserver/request.h"

#define AS_MASTERS "system:masters"

struct as_auth {
    json_t *tokens;  /* token -> {user, groups, expiresNs} */
    char *client_ca; /* PEM */
    bool anonymous;  /* no credentials: system:anonymous, else 401 */
};

void as_auth_init(struct as_auth *auth, bool anonymous);
void as_auth_fini(struct as_auth *auth);
/* entry: {token, user, groups, ttlMs?}. False: it lacks something. */
bool as_auth_add(struct as_auth *auth, const json_t *entry);
bool as_auth_revoke(struct as_auth *auth, const char *token);
bool as_auth_expire(struct as_auth *auth, const char *token); /* stays known, is no longer good */

/* Sets r->user; false: 401. The certificate is checked against client_ca as it is now. Lock not held. */
struct apiserver;
bool as_authenticate(struct apiserver *s, struct as_request *r);

#endif
