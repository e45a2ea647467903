/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How to reach the API server: from a kubeconfig, the pod's service account, or explicit values. Reads files; no
 * network. Made by the facade before the engine starts, then used by the engine thread alone.
 */
#ifndef CR_IO_ACCESS_H
#define CR_IO_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum cr_access_source { CR_ACCESS_KUBECONFIG = 1, CR_ACCESS_IN_CLUSTER, CR_ACCESS_EXPLICIT };

/* A credential: inline bytes, or a file that is read again when it changes. */
struct cr_secret {
    char *file; /* absolute; NULL when inline */
    char *data; /* NUL-terminated; may hold NUL-free PEM or a token */
    size_t len;
    long long mtime_ns, ctime_ns;
    unsigned long long ino, size; /* of the file when it was read */
};

struct cr_access {
    enum cr_access_source source;
    char *server; /* "https://host:port" and maybe a path, no trailing slash; "http://" only for tests on loopback */
    char *tls_server_name; /* NULL: the host of server */
    char *proxy;           /* NULL: none */
    bool insecure_skip_tls_verify;
    struct cr_secret ca, token, client_certificate, client_key; /* unset: data and file NULL */
    char *warning; /* to be told loudly (no verification, anonymous, proxy-url unused); NULL otherwise */
};

struct cr_access_explicit {
    const char *server, *token, *token_file, *ca_file, *client_certificate_file, *client_key_file, *tls_server_name;
    bool insecure_skip_tls_verify;
};

/* context NULL: current-context. The file is YAML or JSON as kubectl writes it. Paths in it are relative to its folder.
 * What it may hold and what is refused: io/kubeconfig.h. Errors are CONFIG and never show a secret. */
int cr_access_from_kubeconfig(struct cr_access **out, const char *path, const char *context,
                              struct csireg_error **error);
/* KUBERNETES_SERVICE_HOST and _PORT as given by the caller; dir: NULL for
 * /var/run/secrets/kubernetes.io/serviceaccount. */
int cr_access_in_cluster(struct cr_access **out, const char *host, const char *port, const char *dir,
                         struct csireg_error **error);
int cr_access_from_explicit(struct cr_access **out, const struct cr_access_explicit *x, struct csireg_error **error);
/* http://, https://, socks5:// or socks5h://HOST[:PORT]; NULL or "": none. Before the client is made. */
int cr_access_set_proxy(struct cr_access *access, const char *proxy, struct csireg_error **error);
void cr_access_free(struct cr_access *access); /* wipes secrets */

/* Reads files again if they changed (or force); 1: something differs, 0: nothing, < 0: could not be read (old values
 * stay). Client certificate and key change together or not at all; one file that cannot be read does not hold up the
 * others. */
int cr_access_refresh(struct cr_access *access, bool force, struct csireg_error **error);

#endif
