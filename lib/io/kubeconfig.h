/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kubeconfig says about one context, put into a cr_access: server, names, inline secrets decoded, file names
 * made absolute. The files it names are not read here.
 *
 * Read as kubectl reads it: the first document; inline -data wins over a file, tokenFile over token; unknown fields are
 * ignored. Refused, because nothing here could act on them: exec, auth-provider, username and password, impersonation.
 * proxy-url is not used, a warning says so: the proxy is the host's own option.
 */
#ifndef CR_IO_KUBECONFIG_H
#define CR_IO_KUBECONFIG_H

#include "base/error.h"
#include "io/access.h"

/* access is empty, path absolute. context NULL: current-context. On an error it may be half filled. */
int cr_kubeconfig_read(struct cr_access *access, const char *path, const char *context, struct csireg_error **error);

#endif
