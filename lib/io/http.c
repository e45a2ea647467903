/* SPDX-License-Identifier: Apache-2.0 */
#include "io/http.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/http_internal.h"

#define MAX_CONNECTIONS   8    /* kept open */
#define CHECK_INTERVAL_MS 1000 /* between looks at the credential files while nothing is asked */
#define TURN_MS           50   /* how long a request waits for another at most, and a watch always */
#define BRAKE_MS          10   /* when libcurl cannot poll */

static struct cr_http_transfer *transfer_of(struct cr_list *n)
{
    return CR_CONTAINER(n, struct cr_http_transfer, node);
}

/* ---- life ---- */

/* curl_global_init counts its users; older libcurls need them to come one by one. */
static pthread_mutex_t global_mutex = PTHREAD_MUTEX_INITIALIZER;

static bool global_init(void)
{
    pthread_mutex_lock(&global_mutex);
    bool ok = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    pthread_mutex_unlock(&global_mutex);
    return ok;
}

static void global_cleanup(void)
{
    pthread_mutex_lock(&global_mutex);
    curl_global_cleanup();
    pthread_mutex_unlock(&global_mutex);
}

static int set_up(struct cr_http *http, struct csireg_error **error)
{
    http->multi = curl_multi_init();
    if (!http->multi) return cr_error_put(error, cr_error_oom());
    cr_http_set_cloexec(http->multi);
    curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, (long)MAX_CONNECTIONS);
    return http->access ? cr_http_renew_identity(http, error) : 0;
}

int cr_http_new(struct cr_http **out, struct cr_access *access, const struct cr_http_handlers *handlers,
                struct csireg_error **error)
{
    struct cr_http *http = CR_NEW(struct cr_http);
    if (!http || !global_init()) {
        cr_free(http);
        return cr_error_put(error, cr_error_oom());
    }
    http->access = access;
    http->handlers = *handlers;
    cr_list_init(&http->starting);
    cr_list_init(&http->running);
    cr_list_init(&http->finished);
    int rc = set_up(http, error);
    if (rc == 0)
        *out = http;
    else
        cr_http_free(http);
    return rc;
}

static void free_list(struct cr_list *list)
{
    for (struct cr_list *n; (n = cr_list_pop(list));) cr_http_transfer_free(transfer_of(n));
}

void cr_http_free(struct cr_http *http)
{
    if (!http) return;
    CR_LIST_FOREACH (n, &http->running) curl_multi_remove_handle(http->multi, transfer_of(n)->easy);
    free_list(&http->running);
    free_list(&http->starting);
    free_list(&http->finished);
    curl_multi_cleanup(http->multi);
    cr_http_identity_unref(http->identity);
    cr_free(http->sockets);
    cr_free(http->counts);
    cr_free(http);
    global_cleanup();
}

/* ---- counts ---- */

static struct cr_http_count *count_of(struct cr_http *http, const struct cr_api_request *r)
{
    for (size_t i = 0; i < http->n_counts; i++) {
        struct cr_http_count *c = &http->counts[i];
        if (strcmp(c->verb, r->verb) == 0 && strcmp(c->resource, r->resource) == 0) return c;
    }
    if (http->n_counts == http->cap_counts) {
        size_t cap = http->cap_counts + 16;
        struct cr_http_count *counts = cr_realloc_array(http->counts, cap, sizeof *counts);
        if (!counts) return NULL;
        http->counts = counts;
        http->cap_counts = cap;
    }
    http->counts[http->n_counts] = (struct cr_http_count){r->verb, r->resource, 0};
    return &http->counts[http->n_counts++];
}

json_t *cr_http_request_counts(const struct cr_http *http)
{
    json_t *object = json_object();
    for (size_t i = 0; object && i < http->n_counts; i++) {
        char key[128];
        snprintf(key, sizeof key, "%s %s", http->counts[i].verb, http->counts[i].resource);
        json_object_set_new(object, key, json_integer(http->counts[i].n));
    }
    return object;
}

static struct cr_http_tally *find_tally(struct cr_http *http, const struct cr_api_request *r, int code)
{
    for (size_t i = 0; i < http->n_tallies; i++) {
        struct cr_http_tally *t = &http->tallies[i];
        if (t->code == code && strcmp(t->verb, r->verb) == 0 && strcmp(t->resource, r->resource) == 0) return t;
    }
    return NULL;
}

static struct cr_http_tally *add_tally(struct cr_http *http, const struct cr_api_request *r, int code)
{
    if (http->n_tallies == sizeof http->tallies / sizeof *http->tallies) return NULL;
    http->tallies[http->n_tallies] = (struct cr_http_tally){r->verb, r->resource, code, 0};
    return &http->tallies[http->n_tallies++];
}

static void tally(struct cr_http *http, const struct cr_http_transfer *t)
{
    int code = t->answer.transport == CR_TRANSPORT_OK ? t->answer.status : -(int)t->answer.transport;
    struct cr_http_tally *found = find_tally(http, &t->request, code);
    if (!found && http->n_tallies >= CR_MAX_REQUEST_TALLIES) {
        code = 0;
        found = find_tally(http, &t->request, code);
    }
    if (!found) found = add_tally(http, &t->request, code); /* one row more for each kind of request */
    if (found) found->n++;
}

const struct cr_http_tally *cr_http_tallies(const struct cr_http *http, size_t *out_n)
{
    *out_n = http->n_tallies;
    return http->tallies;
}

/* ---- credentials ---- */

/* Looks at the files. < 0: what is there now must not be used, because the server refused it and nothing newer can be
 * read. A file that is gone for a moment is no reason to stop before that. */
static int refresh(struct cr_http *http, struct csireg_error **error)
{
    struct csireg_error *cause = NULL;
    http->checked_ms = cr_clock_now().mono_ms;
    int rc = cr_access_refresh(http->access, http->unauthorized, &cause);
    if (rc < 0 && http->unauthorized) return cr_error_put(error, cause);
    csireg_error_free(cause);
    if (rc > 0) http->renew = http->tell_changed = true;
    if (!http->renew && !http->unauthorized) return 0;
    rc = cr_http_renew_identity(http, error);
    if (rc == 0) http->renew = http->unauthorized = false;
    return rc;
}

static void check_files(struct cr_http *http)
{
    if (!http->access || cr_clock_now().mono_ms - http->checked_ms < CHECK_INTERVAL_MS) return;
    (void)refresh(http, NULL);
}

/* ---- requests ---- */

static void finish(struct cr_http_transfer *t)
{
    cr_list_remove(&t->node);
    cr_list_append(&t->http->finished, &t->node);
}

static void finish_early(struct cr_http_transfer *t, enum cr_transport transport, const char *text)
{
    cr_http_transfer_fail(t, transport, text);
    finish(t);
}

static void finish_unstarted(struct cr_http_transfer *t, const struct csireg_error *error)
{
    bool nomem = csireg_error_code(error) == CSIREG_ERR_NOMEM;
    finish_early(t, nomem ? CR_TRANSPORT_NOMEM : CR_TRANSPORT_CREDENTIALS, csireg_error_message(error));
}

/* When a request may go. A TLS handshake costs both sides more than many an answer, so of requests that come together
 * those for which no connection is free take turns; and a watch, which needs one of its own and is in no hurry, leaves
 * the processor to them. */
static int64_t launch_time(const struct cr_http_transfer *t)
{
    size_t busy = 0;
    if (t->cancelled) return 0;
    CR_LIST_FOREACH (n, &t->http->running) busy += !transfer_of(n)->request.watch;
    bool waits = t->request.watch || (busy > 0 && busy >= cr_http_kept_sockets(t->http));
    return waits ? t->asked_ms + TURN_MS : 0;
}

static void launch(struct cr_http_transfer *t)
{
    struct cr_http *http = t->http;
    struct csireg_error *error = NULL;
    if (t->cancelled) return finish_early(t, CR_TRANSPORT_CANCELLED, NULL);
    if (t->request.timeout_ms <= 0) return finish_early(t, CR_TRANSPORT_TIMEOUT, "no time is left for the request");
    if (!http->access) return finish_early(t, CR_TRANSPORT_CREDENTIALS, "no API server is configured");
    if (refresh(http, &error) < 0) {
        finish_unstarted(t, error);
        csireg_error_free(error);
        return;
    }
    struct cr_http_count *count = count_of(http, &t->request);
    if (!count || !cr_http_transfer_prepare(t) || curl_multi_add_handle(http->multi, t->easy) != CURLM_OK)
        return finish_early(t, CR_TRANSPORT_NOMEM, "out of memory");
    count->n++;
    cr_list_remove(&t->node);
    cr_list_append(&http->running, &t->node);
}

void cr_http_start(struct cr_http *http, uint64_t id, struct cr_api_request *request)
{
    struct cr_http_transfer *t = cr_http_transfer_new(http);
    if (!t) {
        struct cr_api_answer answer = {.transport = CR_TRANSPORT_NOMEM, .retry_after_ms = -1};
        cr_api_request_fini(request);
        http->handlers.done(http->handlers.user, id, &answer);
        return;
    }
    t->id = id;
    t->asked_ms = cr_clock_now().mono_ms;
    t->request = *request;
    *request = (struct cr_api_request){0};
    cr_list_append(&http->starting, &t->node);
}

static void cancel_in(struct cr_http *http, struct cr_list *list, uint64_t id)
{
    CR_LIST_FOREACH (n, list) {
        if (transfer_of(n)->id != id) continue;
        transfer_of(n)->cancelled = true;
        http->some_cancelled = true;
    }
}

void cr_http_cancel(struct cr_http *http, uint64_t id)
{
    cancel_in(http, &http->starting, id);
    cancel_in(http, &http->running, id);
}

/* ---- moving on ---- */

static void end_running(struct cr_http_transfer *t, CURLcode code)
{
    cr_http_transfer_end(t, code);
    curl_multi_remove_handle(t->http->multi, t->easy);
    finish(t);
    cr_http_shut_old_sockets(t->http);
}

static void sweep_cancelled(struct cr_http *http)
{
    if (!http->some_cancelled) return;
    http->some_cancelled = false;
    CR_LIST_FOREACH_SAFE (n, &http->running) {
        if (transfer_of(n)->cancelled) end_running(transfer_of(n), CURLE_OK);
    }
}

static void collect(struct cr_http *http)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(http->multi, &left));) {
        struct cr_http_transfer *t = NULL;
        if (m->msg != CURLMSG_DONE) continue;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
        end_running(t, code);
    }
}

static void deliver(struct cr_http *http)
{
    if (http->tell_changed) {
        http->tell_changed = false;
        http->handlers.credentials_changed(http->handlers.user);
    }
    for (struct cr_list *n; (n = cr_list_pop(&http->finished));) {
        struct cr_http_transfer *t = transfer_of(n);
        tally(http, t);
        http->handlers.done(http->handlers.user, t->id, &t->answer);
        cr_http_transfer_free(t);
    }
}

/* True: something was launched. */
static bool launch_due(struct cr_http *http)
{
    int64_t now = cr_clock_now().mono_ms;
    bool any = false;
    CR_LIST_FOREACH_SAFE (n, &http->starting) {
        if (launch_time(transfer_of(n)) > now) continue;
        launch(transfer_of(n));
        any = true;
    }
    return any;
}

void cr_http_perform(struct cr_http *http)
{
    int running;
    check_files(http);
    sweep_cancelled(http);
    launch_due(http);
    do {
        curl_multi_perform(http->multi, &running);
        collect(http);
        deliver(http);
    } while (launch_due(http)); /* those whose turn came with the end of others */
}

/* Milliseconds until there is something to perform whatever the network does. */
static int64_t patience(const struct cr_http *http)
{
    int64_t next = http->some_cancelled || !cr_list_empty(&http->finished) ? 0 : CR_NEVER;
    CR_LIST_FOREACH (n, &http->starting) {
        int64_t at = launch_time(transfer_of(n));
        if (at < next) next = at;
    }
    int64_t left = next - cr_clock_now().mono_ms;
    return left > 0 ? left : 0;
}

void cr_http_poll(struct cr_http *http, struct curl_waitfd *extra, unsigned n_extra, int timeout_ms)
{
    int64_t most = timeout_ms < 0 ? INT_MAX : timeout_ms, left = patience(http);
    int timeout = (int)(left < most ? left : most);
    if (curl_multi_poll(http->multi, extra, n_extra, timeout, NULL) != CURLM_OK) (void)poll(NULL, 0, BRAKE_MS);
}

void cr_http_wakeup(struct cr_http *http) { curl_multi_wakeup(http->multi); }
