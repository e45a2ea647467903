/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates for tests, made in memory (ECDSA P-256). Failures end the test program. */
#ifndef TEST_UNIT_PKI_H
#define TEST_UNIT_PKI_H

#include <stdbool.h>

struct pki; /* a certificate authority */

struct pki *pki_new(const char *name);
void pki_free(struct pki *ca);
const char *pki_pem(const struct pki *ca); /* its certificate */

enum pki_kind { PKI_SERVER, PKI_CLIENT, PKI_EXPIRED_SERVER };

struct pki_pair {
    char *certificate, *key; /* PEM */
};

/* common_name is the subject; names: NULL-terminated DNS names and IPv4 or IPv6 addresses, may be NULL. */
struct pki_pair pki_issue(struct pki *ca, enum pki_kind kind, const char *common_name, const char *const *names);
void pki_pair_free(struct pki_pair *pair);

#endif
