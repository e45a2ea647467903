/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an answer of the API server means, against a second reading of the rules. Input: transport, HTTP status, which
 * kind is expected, the body; or the text of a failed transport.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "core/apistatus.h"
#include "core/json.h"
#include "fuzz/fuzz.h"

static const char *const kinds[] = {NULL, "CSINode", "CSIDriverList", "Node"};
static const int statuses[] = {200, 201, 204, 301, 400, 401, 403, 404, 405,
                               408, 409, 410, 413, 422, 429, 500, 503, 504};

static bool same_but_case(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char x = a[i] >= 'A' && a[i] <= 'Z' ? (char)(a[i] + 32) : a[i];
        char y = b[i] >= 'A' && b[i] <= 'Z' ? (char)(b[i] + 32) : b[i];
        if (x != y) return false;
    }
    return true;
}

/* details name an object of the kind: "csinodes" or "CSINode". */
static bool names_object(const json_t *status, const char *kind)
{
    const json_t *details = json_object_get(status, "details");
    const char *about = cr_json_str(details, "kind"), *name = cr_json_str(details, "name");
    if (!about || !*about || !name || !*name) return false;
    if (!kind) return true;
    size_t len = strlen(kind), n = strlen(about);
    bool plural = n == len + 1 && about[len] == 's';
    return (n == len || plural) && same_but_case(about, kind, len);
}

static enum cr_api_class class_of_failure(int code, const json_t *body, const char *kind)
{
    const json_t *status = cr_json_is(json_object_get(body, "kind"), "Status") ? body : NULL;
    const json_t *reason = json_object_get(status, "reason");
    switch (code) {
    case 401:
    case 408:
    case 429:
        return CR_API_UNUSABLE;
    case 404:
        return cr_json_is(reason, "NotFound") && names_object(status, kind) ? CR_API_NOT_FOUND : CR_API_REFUSED;
    case 409:
        return cr_json_is(reason, "AlreadyExists") ? CR_API_ALREADY_EXISTS : CR_API_CONFLICT;
    case 410:
        return CR_API_EXPIRED;
    default:
        return code < 400 ? CR_API_NONSENSE : code >= 500 ? CR_API_UNUSABLE : CR_API_REFUSED;
    }
}

static enum cr_api_class expected(const struct cr_api_answer *a, const char *kind)
{
    json_t *body = NULL;
    enum cr_api_class class;
    bool success = a->status >= 200 && a->status < 300;
    if (a->transport == CR_TRANSPORT_TOO_LARGE) return CR_API_NONSENSE;
    if (a->transport != CR_TRANSPORT_OK) return CR_API_UNUSABLE;
    if (a->body_len) cr_json_parse(a->body, a->body_len, success ? JSON_REJECT_DUPLICATES : 0, &body, NULL);
    if (success)
        class = json_is_object(body) && (!kind || cr_json_is(json_object_get(body, "kind"), kind)) ? CR_API_OK
                                                                                                   : CR_API_NONSENSE;
    else
        class = class_of_failure(a->status, body, kind);
    json_decref(body);
    return class;
}

static void check_answer(const struct cr_api_answer *a, const char *kind)
{
    json_t *body = NULL;
    struct csireg_error *e = NULL;
    enum cr_api_class class = cr_api_classify(a, kind, &body, &e);
    CHECK(class == expected(a, kind));
    CHECK((class == CR_API_OK) == !e);
    CHECK((class == CR_API_OK) == (body != NULL));
    if (e) {
        CHECK(csireg_error_retryable(e) == (class != CR_API_REFUSED));
        CHECK(csireg_error_number(e) == (a->transport == CR_TRANSPORT_OK ? a->status : 0));
        fuzz_check_error((int)csireg_error_code(e), e);
    }
    json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    uint8_t how = fuzz_byte(&in), status = fuzz_byte(&in), kind = fuzz_byte(&in);
    struct cr_api_answer a = {.retry_after_ms = -1};
    char *body = fuzz_string(in.at, in.left);
    if (how % 16 < 9) a.transport = (enum cr_transport)(how % 16);
    if (a.transport == CR_TRANSPORT_OK) {
        a.status = statuses[status % (sizeof statuses / sizeof *statuses)];
        if (status >= 192) a.status = 100 + status * 2;
        a.body = in.left ? body : NULL;
        a.body_len = in.left;
    } else {
        a.text = how & 16 ? body : NULL;
    }
    check_answer(&a, kinds[kind % 4]);
    free(body);
    return 0;
}
