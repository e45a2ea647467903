/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTPS client for one API server, on libcurl's multi interface. Engine thread only, but for cr_http_wakeup.
 *
 * - Owns the CURLM, which is also what the engine sleeps on (cr_http_poll).
 * - TLS 1.2 or later, verified (CA, server name); HTTP/1.1, on kept connections for plain requests, each watch on a
 *   connection of its own. Plain requests that come together take turns on one connection; none waits longer than
 *   50 ms for another. A watch starts 50 ms after it was asked for. No redirects are followed; Authorization never goes
 * to another host. Proxies only when asked for; the environment's proxy variables are ignored.
 * - Every request has its whole-request deadline; bodies, headers and watch lines are bounded (base/bounds.h).
 * - Credential files are looked at again before a request when they changed, and after a 401; connections that were
 *   made with an older identity are not used again. A watch that runs meanwhile goes on to its end.
 * - A kept connection that the server closed before a byte of the answer came is replaced once by libcurl itself, and
 *   the request sent again: what must not happen twice needs a condition (resourceVersion) in it.
 * - Handlers may call cr_http_start and cr_http_cancel; nothing else. Every descriptor is CLOEXEC, but for the socket
 *   pair of libcurl's resolver while a host name is being looked up.
 */
#ifndef CR_IO_HTTP_H
#define CR_IO_HTTP_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "base/messages.h"
#include "io/access.h"

struct curl_waitfd;
struct cr_http;

struct cr_http_handlers {
    /* The end of request `id`, exactly once each, from inside cr_http_perform; only when memory is too short even to
     * note the request, from inside cr_http_start. The answer is borrowed; its members may be taken out. */
    void (*done)(void *user, uint64_t id, struct cr_api_answer *answer);
    void (*watch_line)(void *user, uint64_t id, const char *line, size_t len); /* NUL-terminated, without the newline */
    void (*credentials_changed)(void *user); /* a token, certificate or CA was read anew and differs */
    void *user;
};

/* access may be NULL (local only): the object then only sleeps and wakes. Takes nothing: access is borrowed and
 * outlives it. */
int cr_http_new(struct cr_http **out, struct cr_access *access, const struct cr_http_handlers *handlers,
                struct csireg_error **error);
void cr_http_free(struct cr_http *http); /* running requests end without a call to done */

/* Takes the members of request. Never fails: what cannot be started ends in done. */
void cr_http_start(struct cr_http *http, uint64_t id, struct cr_api_request *request);
/* done comes with CR_TRANSPORT_CANCELLED; unknown id: nothing */
void cr_http_cancel(struct cr_http *http, uint64_t id);

void cr_http_perform(struct cr_http *http); /* moves transfers on, calls handlers */
/* Sleeps until a transfer, one of the extra fds, a wakeup or the time; timeout_ms < 0: no limit but curl's own. */
void cr_http_poll(struct cr_http *http, struct curl_waitfd *extra, unsigned n_extra, int timeout_ms);
void cr_http_wakeup(struct cr_http *http); /* any thread */

/* How many requests ended how. code: the HTTP status; minus the enum cr_transport where no answer came; 0: another
 * status when there are CR_MAX_REQUEST_TALLIES rows already. verb and resource: static. */
struct cr_http_tally {
    const char *verb, *resource;
    int code;
    uint64_t n;
};
const struct cr_http_tally *cr_http_tallies(const struct cr_http *http, size_t *out_n); /* until the next perform */

/* {"get csinodes": 4, ...}: requests sent so far, by verb and resource; new reference. */
json_t *cr_http_request_counts(const struct cr_http *http);

#endif
