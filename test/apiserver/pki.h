/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates of the emulator: its own authority, its server certificate, client certificates. Keys are ECDSA P-256.
 */
#ifndef APISERVER_PKI_H
#define APISERVER_PKI_H

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <stddef.h>

struct as_authority {
    gnutls_x509_crt_t certificate;
    gnutls_x509_privkey_t key;
};

struct as_authority *as_authority_new(const char *name); /* self-signed */
void as_authority_free(struct as_authority *a);          /* NULL is fine */
char *as_authority_pem(const struct as_authority *a);    /* malloc'ed */

struct as_subject {
    const char *name;          /* CN */
    const char *const *groups; /* O */
    size_t n_groups;
    const char *const *hosts; /* names and addresses it is valid for; none: a client certificate */
    size_t n_hosts;
    long valid_seconds; /* from a minute ago until now plus this; negative: expired */
};

/* Certificate (its chain is itself alone) and key as PEM, malloc'ed. */
void as_issue(const struct as_authority *a, const struct as_subject *subject, char **out_certificate, char **out_key);

/* Server credentials from PEM texts; NULL and *out_error: not usable. */
gnutls_certificate_credentials_t as_credentials(const char *certificate, const char *key, char **out_error);

/* Who a client certificate is, if one of the authorities in the PEM text signed it and it is valid now.
 * False: it is not. *out_name and each of *out_groups (a NULL-terminated list) are malloc'ed. */
bool as_client_identity(const char *authorities, const gnutls_datum_t *chain, unsigned n, char **out_name,
                        char ***out_groups);

#endif
