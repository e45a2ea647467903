/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/pki.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#define DAY (24 * 60 * 60)

struct pki {
    gnutls_x509_crt_t crt;
    gnutls_x509_privkey_t key;
    char *pem;
};

static void must(int rc)
{
    if (rc >= 0) return;
    fprintf(stderr, "pki: %s\n", gnutls_strerror(rc));
    abort();
}

static char *text_of(gnutls_datum_t *d)
{
    char *s = strndup((const char *)d->data, d->size);
    gnutls_free(d->data);
    if (!s) abort();
    return s;
}

static gnutls_x509_privkey_t new_key(void)
{
    gnutls_x509_privkey_t key;
    must(gnutls_x509_privkey_init(&key));
    must(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    return key;
}

static gnutls_x509_crt_t new_certificate(const char *name, gnutls_x509_privkey_t key, bool expired)
{
    static unsigned serial;
    gnutls_x509_crt_t crt;
    time_t now = time(NULL);
    unsigned n = htonl(++serial);
    must(gnutls_x509_crt_init(&crt));
    must(gnutls_x509_crt_set_version(crt, 3));
    must(gnutls_x509_crt_set_serial(crt, &n, sizeof n));
    must(gnutls_x509_crt_set_activation_time(crt, now - 3 * DAY));
    must(gnutls_x509_crt_set_expiration_time(crt, expired ? now - DAY : now + DAY));
    must(gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, name, (unsigned)strlen(name)));
    must(gnutls_x509_crt_set_key(crt, key));
    return crt;
}

static char *export_certificate(gnutls_x509_crt_t crt)
{
    gnutls_datum_t d;
    must(gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &d));
    return text_of(&d);
}

struct pki *pki_new(const char *name)
{
    struct pki *ca = calloc(1, sizeof *ca);
    if (!ca) abort();
    ca->key = new_key();
    ca->crt = new_certificate(name, ca->key, false);
    must(gnutls_x509_crt_set_basic_constraints(ca->crt, 1, -1));
    must(gnutls_x509_crt_set_key_usage(ca->crt, GNUTLS_KEY_KEY_CERT_SIGN));
    must(gnutls_x509_crt_sign2(ca->crt, ca->crt, ca->key, GNUTLS_DIG_SHA256, 0));
    ca->pem = export_certificate(ca->crt);
    return ca;
}

void pki_free(struct pki *ca)
{
    if (!ca) return;
    gnutls_x509_crt_deinit(ca->crt);
    gnutls_x509_privkey_deinit(ca->key);
    free(ca->pem);
    free(ca);
}

const char *pki_pem(const struct pki *ca) { return ca->pem; }

static void add_name(gnutls_x509_crt_t crt, const char *name)
{
    unsigned char address[16];
    if (inet_pton(AF_INET, name, address) == 1)
        must(gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, address, 4, GNUTLS_FSAN_APPEND));
    else if (inet_pton(AF_INET6, name, address) == 1)
        must(gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, address, 16, GNUTLS_FSAN_APPEND));
    else
        must(gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, name, (unsigned)strlen(name),
                                                  GNUTLS_FSAN_APPEND));
}

struct pki_pair pki_issue(struct pki *ca, enum pki_kind kind, const char *common_name, const char *const *names)
{
    struct pki_pair pair;
    gnutls_datum_t d;
    gnutls_x509_privkey_t key = new_key();
    gnutls_x509_crt_t crt = new_certificate(common_name, key, kind == PKI_EXPIRED_SERVER);
    for (size_t i = 0; names && names[i]; i++) add_name(crt, names[i]);
    must(gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE));
    must(gnutls_x509_crt_set_key_purpose_oid(
        crt, kind == PKI_CLIENT ? GNUTLS_KP_TLS_WWW_CLIENT : GNUTLS_KP_TLS_WWW_SERVER, 0));
    must(gnutls_x509_crt_sign2(crt, ca->crt, ca->key, GNUTLS_DIG_SHA256, 0));
    pair.certificate = export_certificate(crt);
    must(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &d));
    pair.key = text_of(&d);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
    return pair;
}

void pki_pair_free(struct pki_pair *pair)
{
    free(pair->certificate);
    free(pair->key);
    *pair = (struct pki_pair){0};
}
