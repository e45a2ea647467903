// SPDX-License-Identifier: Apache-2.0
#include "apiserver/pki.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apiserver/clock.h"
#include "common/alloc.h"

#define CA_SECONDS (10L * 365 * 24 * 3600)
#define MAX_CHAIN  8

static gnutls_x509_privkey_t new_key(void)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_privkey_init(&key);
    gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    return key;
}

static void add_name(gnutls_x509_crt_t crt, const char *oid, const char *value)
{
    gnutls_x509_crt_set_dn_by_oid(crt, oid, 0, value, (unsigned)strlen(value));
}

static gnutls_x509_crt_t new_certificate(const char *name, gnutls_x509_privkey_t key, long valid_seconds)
{
    gnutls_x509_crt_t crt;
    uint64_t serial = as_random() >> 1;
    time_t now = time(NULL);
    gnutls_x509_crt_init(&crt);
    gnutls_x509_crt_set_version(crt, 3);
    gnutls_x509_crt_set_serial(crt, &serial, sizeof serial);
    gnutls_x509_crt_set_activation_time(crt, now - (valid_seconds < 0 ? 3600 - valid_seconds : 60));
    gnutls_x509_crt_set_expiration_time(crt, now + valid_seconds);
    add_name(crt, GNUTLS_OID_X520_COMMON_NAME, name);
    gnutls_x509_crt_set_key(crt, key);
    return crt;
}

static void set_key_ids(gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer)
{
    unsigned char id[64];
    size_t len = sizeof id;
    if (gnutls_x509_crt_get_key_id(crt, 0, id, &len) == 0) gnutls_x509_crt_set_subject_key_id(crt, id, len);
    len = sizeof id;
    if (gnutls_x509_crt_get_key_id(issuer, 0, id, &len) == 0) gnutls_x509_crt_set_authority_key_id(crt, id, len);
}

struct as_authority *as_authority_new(const char *name)
{
    struct as_authority *a = NEED_NEW(struct as_authority);
    a->key = new_key();
    a->certificate = new_certificate(name, a->key, CA_SECONDS);
    gnutls_x509_crt_set_basic_constraints(a->certificate, 1, -1);
    gnutls_x509_crt_set_key_usage(a->certificate, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN);
    set_key_ids(a->certificate, a->certificate);
    gnutls_x509_crt_sign2(a->certificate, a->certificate, a->key, GNUTLS_DIG_SHA256, 0);
    return a;
}

void as_authority_free(struct as_authority *a)
{
    if (!a) return;
    gnutls_x509_crt_deinit(a->certificate);
    gnutls_x509_privkey_deinit(a->key);
    free(a);
}

static char *take_text(gnutls_datum_t *d)
{
    char *text = need_strndup((const char *)d->data, d->size);
    gnutls_free(d->data);
    return text;
}

static char *certificate_pem(gnutls_x509_crt_t crt)
{
    gnutls_datum_t out = {0};
    gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &out);
    return take_text(&out);
}

char *as_authority_pem(const struct as_authority *a) { return certificate_pem(a->certificate); }

static void add_host(gnutls_x509_crt_t crt, const char *host)
{
    unsigned char address[16];
    if (inet_pton(AF_INET, host, address) == 1)
        gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, address, 4, GNUTLS_FSAN_APPEND);
    else if (inet_pton(AF_INET6, host, address) == 1)
        gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, address, 16, GNUTLS_FSAN_APPEND);
    else
        gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, host, (unsigned)strlen(host), GNUTLS_FSAN_APPEND);
}

void as_issue(const struct as_authority *a, const struct as_subject *subject, char **out_certificate, char **out_key)
{
    gnutls_datum_t key_text = {0};
    gnutls_x509_privkey_t key = new_key();
    gnutls_x509_crt_t crt = new_certificate(subject->name, key, subject->valid_seconds);
    for (size_t i = 0; i < subject->n_groups; i++) add_name(crt, GNUTLS_OID_X520_ORGANIZATION_NAME, subject->groups[i]);
    for (size_t i = 0; i < subject->n_hosts; i++) add_host(crt, subject->hosts[i]);
    gnutls_x509_crt_set_basic_constraints(crt, 0, -1);
    gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE);
    gnutls_x509_crt_set_key_purpose_oid(crt, subject->n_hosts ? GNUTLS_KP_TLS_WWW_SERVER : GNUTLS_KP_TLS_WWW_CLIENT, 0);
    set_key_ids(crt, a->certificate);
    gnutls_x509_crt_sign2(crt, a->certificate, a->key, GNUTLS_DIG_SHA256, 0);
    gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &key_text);
    *out_certificate = certificate_pem(crt);
    *out_key = take_text(&key_text);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
}

static gnutls_datum_t datum(const char *text)
{
    return (gnutls_datum_t){(unsigned char *)text, (unsigned)strlen(text)};
}

gnutls_certificate_credentials_t as_credentials(const char *certificate, const char *key, char **out_error)
{
    gnutls_certificate_credentials_t credentials;
    gnutls_datum_t c = datum(certificate), k = datum(key);
    gnutls_certificate_allocate_credentials(&credentials);
    int result = gnutls_certificate_set_x509_key_mem(credentials, &c, &k, GNUTLS_X509_FMT_PEM);
    if (result >= 0) return credentials;
    *out_error = need_printf("the server certificate or its key cannot be used: %s", gnutls_strerror(result));
    gnutls_certificate_free_credentials(credentials);
    return NULL;
}

static char *dn_part(gnutls_x509_crt_t crt, const char *oid, unsigned i)
{
    char text[512];
    size_t len = sizeof text;
    if (gnutls_x509_crt_get_dn_by_oid(crt, oid, i, 0, text, &len) != 0) return NULL;
    return need_strndup(text, len);
}

static void read_subject(gnutls_x509_crt_t leaf, char **out_name, char ***out_groups)
{
    size_t n = 0;
    char **groups = need_calloc(1, sizeof *groups), *group;
    char *name = dn_part(leaf, GNUTLS_OID_X520_COMMON_NAME, 0);
    *out_name = name ? name : need_strdup("");
    while ((group = dn_part(leaf, GNUTLS_OID_X520_ORGANIZATION_NAME, (unsigned)n))) {
        groups = need_array(groups, n + 2, sizeof *groups);
        groups[n++] = group;
        groups[n] = NULL;
    }
    *out_groups = groups;
}

static bool is_trusted(const char *authorities, gnutls_x509_crt_t *chain, unsigned n)
{
    gnutls_x509_trust_list_t trusted;
    gnutls_datum_t pem = datum(authorities);
    unsigned status = 0;
    gnutls_x509_trust_list_init(&trusted, 0);
    int added = gnutls_x509_trust_list_add_trust_mem(trusted, &pem, NULL, GNUTLS_X509_FMT_PEM, 0, 0);
    int result = gnutls_x509_trust_list_verify_crt(trusted, chain, n, 0, &status, NULL);
    gnutls_x509_trust_list_deinit(trusted, 1);
    return added > 0 && result == 0 && status == 0;
}

bool as_client_identity(const char *authorities, const gnutls_datum_t *chain, unsigned n, char **out_name,
                        char ***out_groups)
{
    gnutls_x509_crt_t certificates[MAX_CHAIN];
    unsigned read = 0;
    for (; read < n && read < MAX_CHAIN; read++) {
        gnutls_x509_crt_init(&certificates[read]);
        if (gnutls_x509_crt_import(certificates[read], &chain[read], GNUTLS_X509_FMT_DER) != 0) break;
    }
    bool complete = read == n, trusted = complete && n && is_trusted(authorities, certificates, n);
    if (trusted) read_subject(certificates[0], out_name, out_groups);
    unsigned made = complete || read == MAX_CHAIN ? read : read + 1;
    for (unsigned i = 0; i < made; i++) gnutls_x509_crt_deinit(certificates[i]);
    return trusted;
}
