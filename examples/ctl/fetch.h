/* SPDX-License-Identifier: Apache-2.0 */
/* Gets the status document, from whoever serves it over HTTP or from a file. One thread. */
#ifndef CTL_FETCH_H
#define CTL_FETCH_H

#include <jansson.h>
#include <stdint.h>

#define CTL_MAX_STATUS (64 * 1024 * 1024) /* bytes; what is longer is refused */

/*
 * endpoint: "unix:PATH", "ADDR:PORT", ":PORT", or a URL, to which /status is added unless it has a path. Proxies of the
 * environment are not used, redirections not followed. A new reference, or NULL and *out_error (malloc'ed), which names
 * endpoint, cause and remedy.
 */
json_t *fetch_http(const char *endpoint, int64_t timeout_ms, char **out_error);
json_t *fetch_file(const char *path, char **out_error); /* "-": standard input */

#endif
