/* SPDX-License-Identifier: Apache-2.0 */
#include "core/apistatus.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/json.h"
#include "core/shown.h"

/* ---- no HTTP answer ---- */

struct transport_fault {
    const char *what, *remedy;
};

static const struct transport_fault transport_faults[] = {
    [CR_TRANSPORT_CONNECT] = {"the API server cannot be reached", "check its address and that it runs"},
    [CR_TRANSPORT_TLS] = {"no trusted TLS connection to the API server",
                          "check the CA certificate, the server name and the client certificate"},
    [CR_TRANSPORT_TIMEOUT] = {"the API server did not answer in time", NULL},
    [CR_TRANSPORT_BROKEN] = {"the connection to the API server broke, or it does not speak HTTP", NULL},
    [CR_TRANSPORT_TOO_LARGE] = {"the answer of the API server is too large", NULL},
    [CR_TRANSPORT_CREDENTIALS] = {"the credentials for the API server cannot be read",
                                  "check the token and certificate files"},
    [CR_TRANSPORT_CANCELLED] = {"the request was cancelled", NULL},
};

static struct csireg_error *transport_error(const struct cr_api_answer *a)
{
    if (a->transport == CR_TRANSPORT_NOMEM) return cr_error_oom();
    bool credentials = a->transport == CR_TRANSPORT_CREDENTIALS;
    struct transport_fault f = transport_faults[a->transport];
    struct csireg_error *e =
        cr_error_new(credentials ? CSIREG_ERR_CONFIG : CSIREG_ERR_API, "%s%s%s%s%s", f.what, a->text ? ": " : "",
                     cr_shown(a->text).text, f.remedy ? "; " : "", f.remedy ? f.remedy : "");
    if (credentials) cr_error_set_origin(e, CSIREG_ORIGIN_CONFIG, 0);
    return e;
}

static enum cr_api_class classify_transport(const struct cr_api_answer *a, struct csireg_error **out)
{
    *out = transport_error(a);
    return a->transport == CR_TRANSPORT_TOO_LARGE ? CR_API_NONSENSE : CR_API_UNUSABLE;
}

/* ---- 2xx ---- */

static struct csireg_error *nonsense(int status, const char *fmt, const char *detail)
{
    struct csireg_error *e =
        cr_error_new(CSIREG_ERR_API, "the API server answered HTTP %d, but %s%s", status, fmt, detail);
    cr_error_set_origin(e, CSIREG_ORIGIN_HTTP, status);
    return e;
}

/* Names that are there twice cannot be kept as received. */
static enum cr_api_class parse_body(const struct cr_api_answer *a, json_t **out_body, struct csireg_error **out)
{
    struct csireg_error *why = NULL;
    if (a->body_len == 0) {
        *out = nonsense(a->status, "the body is empty", "");
        return CR_API_NONSENSE;
    }
    if (cr_json_parse(a->body, a->body_len, JSON_REJECT_DUPLICATES, out_body, &why) == 0) return CR_API_OK;
    if (csireg_error_code(why) == CSIREG_ERR_NOMEM) {
        *out = why;
        return CR_API_UNUSABLE;
    }
    *out = nonsense(a->status, "the body is not JSON that can be used: ", csireg_error_message(why));
    csireg_error_free(why);
    return CR_API_NONSENSE;
}

static enum cr_api_class classify_success(const struct cr_api_answer *a, const char *kind, json_t **out_body,
                                          struct csireg_error **out)
{
    json_t *body = NULL;
    enum cr_api_class class = parse_body(a, &body, out);
    if (class != CR_API_OK) return class;
    if (json_is_object(body) && (!kind || cr_json_is(json_object_get(body, "kind"), kind))) {
        *out_body = body;
        return CR_API_OK;
    }
    *out = kind ? nonsense(a->status, "the body is not an object of kind ", kind)
                : nonsense(a->status, "the body is not a JSON object", "");
    json_decref(body);
    return CR_API_NONSENSE;
}

/* ---- the rest ---- */

/* *out: the Status in the body, a new reference, or NULL when there is none. False: no memory to tell. */
static bool load_status(const struct cr_api_answer *a, json_t **out)
{
    json_t *body = NULL;
    int rc = a->body_len ? cr_json_parse(a->body, a->body_len, 0, &body, NULL) : 0;
    bool found = cr_json_is(json_object_get(body, "kind"), "Status");
    *out = found ? body : NULL;
    if (!found) json_decref(body);
    return rc != CSIREG_ERR_NOMEM;
}

static bool has_reason(const json_t *status, const char *reason)
{
    return cr_json_is(json_object_get(status, "reason"), reason);
}

/* details.kind of a 404 is the resource ("csinodes"), in some answers the kind. */
static bool is_about(const json_t *details, const char *kind)
{
    const char *about = cr_json_str(details, "kind"), *name = cr_json_str(details, "name");
    if (!about || !about[0] || !name || !name[0]) return false;
    size_t len = kind ? strlen(kind) : 0;
    if (!kind) return true;
    return strncasecmp(about, kind, len) == 0 && (about[len] == '\0' || strcmp(about + len, "s") == 0);
}

static bool is_object_missing(const json_t *status, const char *kind)
{
    return has_reason(status, "NotFound") && is_about(json_object_get(status, "details"), kind);
}

static enum cr_api_class class_of(int code, const json_t *status, const char *kind)
{
    if (code < 400) return CR_API_NONSENSE; /* nothing here asks for a redirection, and none is followed */
    if (code == 401 || code == 408 || code == 429 || code >= 500) return CR_API_UNUSABLE;
    if (code == 409) return has_reason(status, "AlreadyExists") ? CR_API_ALREADY_EXISTS : CR_API_CONFLICT;
    if (code == 410) return CR_API_EXPIRED;
    if (code == 404 && is_object_missing(status, kind)) return CR_API_NOT_FOUND;
    return CR_API_REFUSED;
}

static const char *remedy(int code, enum cr_api_class class)
{
    if (code < 400) return "; is the address that of a Kubernetes API server?";
    if (code == 401) return "; check the credentials: token, client certificate";
    if (code == 403) return "; grant this verb on this resource to this user (RBAC), or see what admission forbids";
    if (code == 404 && class == CR_API_REFUSED)
        return "; this server does not know the resource: is the address that of a Kubernetes API server?";
    return "";
}

/* What the server says of its reasons; of a body that is no Status only how it begins. */
static void describe(const struct cr_api_answer *a, const json_t *status, char *out, size_t size)
{
    const char *reason = cr_json_str(status, "reason");
    const char *said = json_string_value(json_object_get(status, "message"));
    if (status)
        snprintf(out, size, "%s%.64s%s%s", reason ? " " : "", reason ? reason : "", said ? ": " : "", said ? said : "");
    else
        snprintf(out, size, " without a Status%s%.80s", a->body_len ? ", but with: " : "", a->body_len ? a->body : "");
    out[cr_utf8_cut(out, strlen(out))] = '\0';
    cr_utf8_sanitise(out, strlen(out));
}

static enum cr_api_class classify_failure(const struct cr_api_answer *a, const char *kind, struct csireg_error **out)
{
    char said[CR_MAX_API_MESSAGE + 1];
    json_t *status;
    if (!load_status(a, &status)) {
        *out = cr_error_oom();
        return CR_API_UNUSABLE;
    }
    enum cr_api_class class = class_of(a->status, status, kind);
    describe(a, status, said, sizeof said);
    json_decref(status);
    *out =
        cr_error_new(CSIREG_ERR_API, "the API server answered HTTP %d%s%s", a->status, said, remedy(a->status, class));
    cr_error_set_origin(*out, CSIREG_ORIGIN_HTTP, a->status);
    return class;
}

static enum cr_api_class classify(const struct cr_api_answer *a, const char *kind, json_t **out_body,
                                  struct csireg_error **out)
{
    if (a->transport != CR_TRANSPORT_OK) return classify_transport(a, out);
    if (a->status >= 200 && a->status < 300) return classify_success(a, kind, out_body, out);
    return classify_failure(a, kind, out);
}

enum cr_api_class cr_api_classify(const struct cr_api_answer *a, const char *kind, json_t **out_body,
                                  struct csireg_error **out_error)
{
    json_t *body = NULL;
    struct csireg_error *e = NULL;
    enum cr_api_class class = classify(a, kind, &body, &e);
    if (e) {
        cr_error_set_retryable(e, class != CR_API_REFUSED);
        cr_error_put(out_error, e);
    }
    if (out_body && body)
        *out_body = body;
    else
        json_decref(body);
    return class;
}
