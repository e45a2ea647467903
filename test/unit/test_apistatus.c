/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "core/apistatus.h"
#include "core/json.h"
#include "unit/golden.h"

#define STATUS(members) "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\"," members "}"
#define REASON(reason)  STATUS("\"message\":\"said\",\"reason\":\"" reason "\"")
#define DETAILS(reason, name, kind)                                                                                    \
    STATUS("\"message\":\"said\",\"reason\":\"" reason "\",\"details\":{\"name\":\"" name "\",\"kind\":\"" kind "\"}")

static struct cr_api_answer answer(int status, const char *body)
{
    return (struct cr_api_answer){
        .status = status, .retry_after_ms = -1, .body = (char *)body, .body_len = body ? strlen(body) : 0};
}

/* ---- by HTTP code and reason ---- */

static const struct {
    int status;
    const char *body;
    enum cr_api_class class;
    const char *part; /* of the message */
} failures[] = {
    /* not usable now */
    {401, REASON("Unauthorized"), CR_API_UNUSABLE, "HTTP 401 Unauthorized: said; check the credentials"},
    {401, NULL, CR_API_UNUSABLE, "HTTP 401 without a Status; check"},
    {408, NULL, CR_API_UNUSABLE, "HTTP 408"},
    {429, REASON("TooManyRequests"), CR_API_UNUSABLE, "TooManyRequests"},
    {429, "Too many requests, please try again later.\n", CR_API_UNUSABLE,
     "Too many requests, please try again later.?"},
    {500, REASON("InternalError"), CR_API_UNUSABLE, "HTTP 500 InternalError: said"},
    {500, STATUS("\"message\":\"etcdserver: leader changed\""), CR_API_UNUSABLE,
     "HTTP 500: etcdserver: leader changed"},
    {503, "<html>down</html>", CR_API_UNUSABLE, "<html>down</html>"},
    {504, REASON("Timeout"), CR_API_UNUSABLE, "Timeout"},
    {599, "", CR_API_UNUSABLE, "HTTP 599"},
    {500, REASON("NotFound"), CR_API_UNUSABLE, "HTTP 500"}, /* the code goes first */
    /* conflicts */
    {409, DETAILS("Conflict", "n1", "csinodes"), CR_API_CONFLICT, "HTTP 409 Conflict: said"},
    {409, DETAILS("AlreadyExists", "n1", "csinodes"), CR_API_ALREADY_EXISTS, "HTTP 409 AlreadyExists: said"},
    {409, STATUS("\"message\":\"object AlreadyExists\",\"reason\":\"Conflict\""), CR_API_CONFLICT, "409"},
    {409, NULL, CR_API_CONFLICT, "409"},
    {409, "AlreadyExists", CR_API_CONFLICT, "409"},
    {400, REASON("AlreadyExists"), CR_API_REFUSED, "HTTP 400"},
    {410, REASON("Expired"), CR_API_EXPIRED, "HTTP 410 Expired: said"},
    {410, NULL, CR_API_EXPIRED, "HTTP 410"},
    /* the object is missing */
    {404, DETAILS("NotFound", "n1", "csinodes"), CR_API_NOT_FOUND, "HTTP 404 NotFound: said"},
    {404, DETAILS("NotFound", "n1", "CSINode"), CR_API_NOT_FOUND, "HTTP 404 NotFound: said"},
    /* the resource type, or something else, is missing */
    {404, "404 page not found\n", CR_API_REFUSED, "does not know the resource"},
    {404, NULL, CR_API_REFUSED, "does not know the resource"},
    {404, "<html>csinodes n1 not found</html>", CR_API_REFUSED, "does not know the resource"},
    {404, REASON("NotFound"), CR_API_REFUSED, "does not know the resource"},
    {404, STATUS("\"message\":\"m\",\"reason\":\"NotFound\",\"details\":{}"), CR_API_REFUSED, "404"},
    {404, DETAILS("NotFound", "", "csinodes"), CR_API_REFUSED, "404"},
    {404, DETAILS("NotFound", "n1", ""), CR_API_REFUSED, "404"},
    {404, DETAILS("NotFound", "n1", "nodes"), CR_API_REFUSED, "404"},
    {404, DETAILS("NotFound", "n1", "csinodesx"), CR_API_REFUSED, "404"},
    {404, DETAILS("NotFound", "x", "namespaces"), CR_API_REFUSED, "404"},
    {404, DETAILS("Other", "n1", "csinodes"), CR_API_REFUSED, "404"},
    {404, STATUS("\"reason\":\"NotFound\",\"details\":{\"name\":1,\"kind\":\"csinodes\"}"), CR_API_REFUSED, "404"},
    {404, STATUS("\"reason\":\"NotFound\",\"details\":[]"), CR_API_REFUSED, "404"},
    {404, "{\"reason\":\"NotFound\",\"details\":{\"name\":\"n1\",\"kind\":\"csinodes\"}}", CR_API_REFUSED, "404"},
    /* refused */
    {400, REASON("BadRequest"), CR_API_REFUSED, "HTTP 400 BadRequest: said"},
    {403, REASON("Forbidden"), CR_API_REFUSED, "HTTP 403 Forbidden: said; grant this verb"},
    {405, REASON("MethodNotAllowed"), CR_API_REFUSED, "MethodNotAllowed"},
    {406, REASON("NotAcceptable"), CR_API_REFUSED, "NotAcceptable"},
    {413, REASON("RequestEntityTooLarge"), CR_API_REFUSED, "RequestEntityTooLarge"},
    {415, REASON("UnsupportedMediaType"), CR_API_REFUSED, "UnsupportedMediaType"},
    {422, DETAILS("Invalid", "n1", "CSINode"), CR_API_REFUSED, "HTTP 422 Invalid: said"},
    {418, NULL, CR_API_REFUSED, "HTTP 418"},
    {403, STATUS("\"message\":7,\"reason\":[]"), CR_API_REFUSED, "HTTP 403"},
    /* nothing to rely on */
    {302, "<a href=\"/login\">", CR_API_NONSENSE, "Kubernetes API server?"},
    {304, NULL, CR_API_NONSENSE, "HTTP 304"},
    {100, NULL, CR_API_NONSENSE, "HTTP 100"},
};

static void test_failures(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct csireg_error *e = NULL;
        struct cr_api_answer a = answer(failures[i].status, failures[i].body);
        json_t *body = NULL;
        enum cr_api_class class = cr_api_classify(&a, "CSINode", &body, &e);
        const char *text = csireg_error_message(e);
        if (class != failures[i].class) fail_msg("row %zu: class %d: %s", i, (int)class, text);
        if (!strstr(text, failures[i].part)) fail_msg("row %zu: \"%s\" lacks \"%s\"", i, text, failures[i].part);
        assert_null(body);
        assert_int_equal(csireg_error_code(e), CSIREG_ERR_API);
        assert_int_equal(csireg_error_origin(e), CSIREG_ORIGIN_HTTP);
        assert_int_equal(csireg_error_number(e), failures[i].status);
        assert_int_equal(csireg_error_retryable(e), class != CR_API_REFUSED);
        csireg_error_free(e);
    }
}

static void test_not_found_of_any_kind(void **state)
{
    struct cr_api_answer a = answer(404, DETAILS("NotFound", "x", "leases"));
    (void)state;
    assert_int_equal(cr_api_classify(&a, NULL, NULL, NULL), CR_API_NOT_FOUND);
}

/* ---- success ---- */

static const struct {
    const char *body, *part; /* part NULL: OK */
} successes[] = {
    {"{\"kind\":\"CSINode\"}", NULL},
    {" \n{\"kind\":\"CSINode\",\"x\":{}}\n", NULL},
    {"{\"kind\":\"CSINode\",\"x\":\"\\u0000\"}", NULL},
    {NULL, "the body is empty"},
    {"", "the body is empty"},
    {"null", "not JSON that can be used"},
    {"[]", "not an object of kind CSINode"},
    {"[{\"kind\":\"CSINode\"}]", "not an object of kind CSINode"},
    {"{}", "not an object of kind CSINode"},
    {"{\"kind\":\"Status\"}", "not an object of kind CSINode"},
    {"{\"kind\":\"csinode\"}", "not an object of kind CSINode"},
    {"{\"kind\":\"CSINode\\u0000\"}", "not an object of kind CSINode"},
    {"{\"kind\":[\"CSINode\"]}", "not an object of kind CSINode"},
    {"{\"kind\":\"CSINode\"", "not JSON that can be used"},
    {"{\"kind\":\"CSINode\"}{}", "not JSON that can be used"},
    {"<html>", "not JSON that can be used"},
    {"{\"kind\":\"CSINode\",\"x\":\"\xff\"}", "not JSON that can be used"},
    {"{\"kind\":\"CSINode\",\"x\":\"\\ud800\"}", "not JSON that can be used"},
    {"{\"kind\":\"CSINode\",\"a\":1,\"a\":2}", "not JSON that can be used"},
    {"{\"kind\":\"CSINode\",\"n\":99999999999999999999}", "not JSON that can be used"},
    {"{\"kind\":\"CSINode\",\"n\":1e999}", "not JSON that can be used"},
    {"{\"kind\":\"CSINode\",\"n\":NaN}", "not JSON that can be used"},
    {"{\"kind\":\"CSINode\",\"\\u0000\":1}", "not JSON that can be used"},
};

static void test_successes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof successes / sizeof *successes; i++) {
        struct csireg_error *e = NULL;
        struct cr_api_answer a = answer(200 + (int)i % 5, successes[i].body);
        json_t *body = NULL;
        enum cr_api_class class = cr_api_classify(&a, "CSINode", &body, &e);
        const char *part = successes[i].part;
        assert_int_equal(class, part ? CR_API_NONSENSE : CR_API_OK);
        assert_int_equal(body != NULL, part == NULL);
        if (!part) assert_null(e);
        if (part && !strstr(csireg_error_message(e), part))
            fail_msg("row %zu: \"%s\" lacks \"%s\"", i, csireg_error_message(e), part);
        if (part) assert_true(csireg_error_retryable(e));
        if (part) assert_int_equal(csireg_error_number(e), a.status);
        json_decref(body);
        csireg_error_free(e);
    }
}

static void test_any_kind(void **state)
{
    struct cr_api_answer object = answer(201, "{\"kind\":\"Status\"}"), list = answer(200, "[]");
    struct csireg_error *e = NULL;
    json_t *body = NULL;
    (void)state;
    assert_int_equal(cr_api_classify(&object, NULL, &body, &e), CR_API_OK);
    json_decref(body);
    assert_int_equal(cr_api_classify(&object, NULL, NULL, &e), CR_API_OK);
    assert_int_equal(cr_api_classify(&list, NULL, NULL, &e), CR_API_NONSENSE);
    csireg_error_free(e);
}

/* ---- hostile bodies ---- */

/* "{"kind":"CSINode","x":" followed by n times the given text, and no end. */
static char *flood(const char *text, size_t n)
{
    static const char start[] = "{\"kind\":\"CSINode\",\"x\":";
    size_t len = strlen(text);
    char *s = calloc(1, sizeof start + n * len);
    assert_non_null(s);
    memcpy(s, start, sizeof start - 1);
    for (size_t i = 0; i < n; i++) memcpy(s + sizeof start - 1 + i * len, text, len);
    return s;
}

static void assert_nonsense(char *body, const char *part)
{
    struct csireg_error *e = NULL;
    struct cr_api_answer ok = answer(200, body), failed = answer(403, body);
    assert_int_equal(cr_api_classify(&ok, "CSINode", NULL, &e), CR_API_NONSENSE);
    if (!strstr(csireg_error_message(e), part)) fail_msg("\"%s\"", csireg_error_message(e));
    csireg_error_free(e);
    assert_int_equal(cr_api_classify(&failed, "CSINode", NULL, NULL), CR_API_REFUSED);
    free(body);
}

static void test_floods(void **state)
{
    (void)state;
    assert_nonsense(flood("[", 100000), "depth");
    assert_nonsense(flood("{\"a\":", 100000), "depth");
    assert_nonsense(flood("[[],{},", CR_MAX_JSON_VALUES / 2), "JSON values");
    assert_nonsense(flood("\"a\":1,", CR_MAX_JSON_VALUES + 1), "JSON values");
}

/* What is inside of strings does not count as values. */
static void test_long_strings_are_fine(void **state)
{
    char *text = flood("\"[,{\\", CR_MAX_JSON_VALUES);
    json_t *object = json_pack("{s:s,s:s}", "kind", "CSINode", "x", text), *parsed = NULL;
    char *body = json_dumps(object, 0);
    struct cr_api_answer a = answer(200, body);
    (void)state;
    assert_int_equal(cr_api_classify(&a, "CSINode", &parsed, NULL), CR_API_OK);
    assert_true(json_equal(object, parsed));
    json_decref(object);
    json_decref(parsed);
    free(text);
    free(body);
}

static void test_message_is_bounded_and_clean(void **state)
{
    struct csireg_error *e = NULL;
    json_t *status = json_pack("{s:s,s:s}", "kind", "Status", "reason", "Forbidden");
    char *long_text = calloc(1, 100001);
    (void)state;
    for (size_t i = 0; i < 100000; i += 2) memcpy(long_text + i, "\xc3\xa9", 2);
    memcpy(long_text, "\n\x1b\t\x7f", 4);
    json_object_set_new(status, "message", json_string(long_text));
    char *body = json_dumps(status, 0);
    struct cr_api_answer a = answer(403, body);
    assert_int_equal(cr_api_classify(&a, "CSINode", NULL, &e), CR_API_REFUSED);
    const char *text = csireg_error_message(e);
    assert_in_range(strlen(text), CR_MAX_API_MESSAGE, CR_MAX_API_MESSAGE + 200);
    assert_non_null(strstr(text, "Forbidden: ????\xc3\xa9"));
    assert_non_null(strstr(text, "RBAC"));
    for (const char *p = text; *p; p++) assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
    csireg_error_free(e);
    json_decref(status);
    free(long_text);
    free(body);
}

/* ---- no answer ---- */

static const struct {
    enum cr_transport transport;
    enum cr_api_class class;
    enum csireg_code code;
    const char *part;
} transports[] = {
    {CR_TRANSPORT_CONNECT, CR_API_UNUSABLE, CSIREG_ERR_API, "cannot be reached: why; check"},
    {CR_TRANSPORT_TLS, CR_API_UNUSABLE, CSIREG_ERR_API, "TLS connection to the API server: why; check the CA"},
    {CR_TRANSPORT_TIMEOUT, CR_API_UNUSABLE, CSIREG_ERR_API, "in time: why"},
    {CR_TRANSPORT_BROKEN, CR_API_UNUSABLE, CSIREG_ERR_API, "broke"},
    {CR_TRANSPORT_TOO_LARGE, CR_API_NONSENSE, CSIREG_ERR_API, "too large"},
    {CR_TRANSPORT_CREDENTIALS, CR_API_UNUSABLE, CSIREG_ERR_CONFIG, "credentials"},
    {CR_TRANSPORT_CANCELLED, CR_API_UNUSABLE, CSIREG_ERR_API, "cancelled"},
    {CR_TRANSPORT_NOMEM, CR_API_UNUSABLE, CSIREG_ERR_NOMEM, "out of memory"},
};

static void test_transport(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof transports / sizeof *transports; i++) {
        struct csireg_error *e = NULL;
        /* a status that came before the transport failed does not count */
        struct cr_api_answer a = {.transport = transports[i].transport, .text = (char *)"why", .status = 200};
        assert_int_equal(cr_api_classify(&a, "CSINode", NULL, &e), transports[i].class);
        assert_int_equal(csireg_error_code(e), transports[i].code);
        assert_non_null(strstr(csireg_error_message(e), transports[i].part));
        assert_true(csireg_error_retryable(e));
        assert_int_not_equal(csireg_error_origin(e), CSIREG_ORIGIN_HTTP);
        csireg_error_free(e);
        e = NULL;
        a.text = NULL;
        assert_int_equal(cr_api_classify(&a, NULL, NULL, &e), transports[i].class);
        assert_non_null(e);
        csireg_error_free(e);
    }
}

/* ---- short of memory ---- */

static bool classify_under_pressure(void)
{
    struct cr_api_answer good = answer(200, "{\"kind\":\"CSINode\",\"a\":[{},\"b\",1.5,7]}"),
                         gone = answer(404, DETAILS("NotFound", "n1", "csinodes"));
    struct csireg_error *e = NULL, *e2 = NULL;
    json_t *body = NULL;
    enum cr_api_class first = cr_api_classify(&good, "CSINode", &body, &e);
    enum cr_api_class second = cr_api_classify(&gone, "CSINode", NULL, &e2);
    assert_true(first == CR_API_OK || csireg_error_code(e) == CSIREG_ERR_NOMEM);
    assert_int_equal(first == CR_API_OK, body != NULL);
    assert_true(second == CR_API_NOT_FOUND || (second == CR_API_UNUSABLE && csireg_error_code(e2) == CSIREG_ERR_NOMEM));
    bool ok = first == CR_API_OK && second == CR_API_NOT_FOUND && csireg_error_code(e2) == CSIREG_ERR_API;
    json_decref(body);
    csireg_error_free(e);
    csireg_error_free(e2);
    return ok;
}

static void test_oom(void **state)
{
    (void)state;
    oom_run(classify_under_pressure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_not_found_of_any_kind),
        cmocka_unit_test(test_successes),
        cmocka_unit_test(test_any_kind),
        cmocka_unit_test(test_floods),
        cmocka_unit_test(test_long_strings_are_fine),
        cmocka_unit_test(test_message_is_bounded_and_clean),
        cmocka_unit_test(test_transport),
        cmocka_unit_test(test_oom),
    };
    return cmocka_run_group_tests_name("apistatus", tests, NULL, NULL);
}
