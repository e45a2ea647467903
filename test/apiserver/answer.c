// SPDX-License-Identifier: Apache-2.0
#include "apiserver/answer.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "apiserver/json.h"
#include "base/buf.h"
#include "common/alloc.h"

#define AS_MAX_TEXT (64u * 1024 * 1024) /* of one message */

void as_answer_fini(struct as_answer *a)
{
    free(a->body);
    json_decref(a->warnings);
    *a = (struct as_answer){0};
}

void as_answer_reset(struct as_answer *a) { as_answer_fini(a); }

void as_answer_text(struct as_answer *a, int code, const char *content_type, char *body)
{
    free(a->body);
    a->code = code;
    a->content_type = content_type;
    a->body = body;
    a->len = body ? strlen(body) : 0;
}

void as_answer_json(struct as_answer *a, int code, json_t *body)
{
    char *text = as_json_text(body);
    as_answer_text(a, code, "application/json", need_printf("%s\n", text));
    free(text);
    json_decref(body);
}

void as_answer_warn(struct as_answer *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = need_vprintf(fmt, args);
    va_end(args);
    if (!a->warnings) a->warnings = json_array();
    json_array_append_new(a->warnings, json_string(text));
    free(text);
}

static json_t *envelope(int code, const char *reason, json_t *details, const char *message)
{
    json_t *status = json_pack("{s:s, s:s, s:{}, s:s, s:s}", "kind", "Status", "apiVersion", "v1", "metadata", "status",
                               "Failure", "message", message);
    if (reason) json_object_set_new(status, "reason", json_string(reason));
    if (details) json_object_set_new(status, "details", details);
    json_object_set_new(status, "code", json_integer(code));
    return status;
}

static void put_status(struct as_answer *a, int code, const char *reason, json_t *details, const char *message)
{
    a->retry_after = (int)as_json_int(details, "retryAfterSeconds", 0);
    as_answer_json(a, code, envelope(code, reason, details, message));
}

void as_status(struct as_answer *a, int code, const char *reason, json_t *details, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *message = need_vprintf(fmt, args);
    va_end(args);
    put_status(a, code, reason, details, message);
    free(message);
}

json_t *as_status_details(const struct as_resource *type, const char *name)
{
    json_t *details = json_object();
    if (name && *name) json_object_set_new(details, "name", json_string(name));
    if (*type->group) json_object_set_new(details, "group", json_string(type->group));
    json_object_set_new(details, "kind", json_string(type->plural));
    return details;
}

void as_bad_request(struct as_answer *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *message = need_vprintf(fmt, args);
    va_end(args);
    put_status(a, 400, "BadRequest", NULL, message);
    free(message);
}

void as_unauthorized(struct as_answer *a) { as_status(a, 401, "Unauthorized", NULL, "Unauthorized"); }

void as_forbidden(struct as_answer *a, const struct as_resource *type, const char *name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *why = need_vprintf(fmt, args);
    va_end(args);
    json_t *details = as_status_details(type, name);
    if (name && *name)
        as_status(a, 403, "Forbidden", details, "%s \"%s\" is forbidden: %s", type->qualified, name, why);
    else
        as_status(a, 403, "Forbidden", details, "%s is forbidden: %s", type->qualified, why);
    free(why);
}

void as_not_found(struct as_answer *a, const struct as_resource *type, const char *name)
{
    as_status(a, 404, "NotFound", as_status_details(type, name), "%s \"%s\" not found", type->qualified, name);
}

void as_unknown_resource(struct as_answer *a)
{
    as_status(a, 404, "NotFound", json_object(), "the server could not find the requested resource");
}

void as_method_not_allowed(struct as_answer *a)
{
    as_status(a, 405, "MethodNotAllowed", json_object(),
              "the server does not allow this method on the requested resource");
}

void as_exists(struct as_answer *a, const struct as_resource *type, const char *name)
{
    as_status(a, 409, "AlreadyExists", as_status_details(type, name), "%s \"%s\" already exists", type->qualified,
              name);
}

void as_conflict(struct as_answer *a, const struct as_resource *type, const char *name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *why = need_vprintf(fmt, args);
    va_end(args);
    as_status(a, 409, "Conflict", as_status_details(type, name), "Operation cannot be fulfilled on %s \"%s\": %s",
              type->qualified, name, why);
    free(why);
}

void as_modified(struct as_answer *a, const struct as_resource *type, const char *name)
{
    as_conflict(a, type, name,
                "the object has been modified; please apply your changes to the latest version and try again");
}

void as_internal_error(struct as_answer *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *why = need_vprintf(fmt, args);
    va_end(args);
    json_t *details = json_pack("{s:[{s:s}]}", "causes", "message", why);
    as_status(a, 500, "InternalError", details, "Internal error occurred: %s", why);
    free(why);
}

void as_too_large_version(struct as_answer *a, unsigned long long wanted, unsigned long long current)
{
    json_t *details = json_pack("{s:[{s:s, s:s}], s:i}", "causes", "reason", "ResourceVersionTooLarge", "message",
                                "Too large resource version", "retryAfterSeconds", 1);
    as_status(a, 504, "Timeout", details, "Timeout: Too large resource version: %llu, current: %llu", wanted, current);
}

json_t *as_expired_status(const char *message) { return envelope(410, "Expired", NULL, message); }

void as_deleted(struct as_answer *a, const struct as_resource *type, const char *name, const char *uid)
{
    json_t *details = as_status_details(type, name);
    json_object_set_new(details, "uid", json_string(uid));
    as_answer_json(a, 200,
                   json_pack("{s:s, s:s, s:{}, s:s, s:o}", "kind", "Status", "apiVersion", "v1", "metadata", "status",
                             "Success", "details", details));
}

void as_causes_init(struct as_causes *c) { c->list = json_array(); }
void as_causes_fini(struct as_causes *c) { json_decref(c->list); }
bool as_causes_any(const struct as_causes *c) { return json_array_size(c->list) > 0; }

void as_cause(struct as_causes *c, const char *reason, const char *field, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *message = need_vprintf(fmt, args);
    va_end(args);
    json_array_append_new(c->list, json_pack("{s:s, s:s, s:s}", "reason", reason, "message", message, "field", field));
    free(message);
}

void as_cause_required(struct as_causes *c, const char *field, const char *detail)
{
    bool more = detail && *detail;
    as_cause(c, "FieldValueRequired", field, "Required value%s%s", more ? ": " : "", more ? detail : "");
}

void as_cause_invalid(struct as_causes *c, const char *field, const json_t *value, const char *detail)
{
    char *text = as_json_text(value);
    as_cause(c, "FieldValueInvalid", field, "Invalid value: %s: %s", text, detail);
    free(text);
}

void as_cause_invalid_text(struct as_causes *c, const char *field, const char *value, const char *detail)
{
    json_t *v = json_string(value);
    as_cause_invalid(c, field, v, detail);
    json_decref(v);
}

void as_cause_duplicate(struct as_causes *c, const char *field, const char *value)
{
    json_t *v = json_string(value);
    char *text = as_json_text(v);
    as_cause(c, "FieldValueDuplicate", field, "Duplicate value: %s", text);
    free(text);
    json_decref(v);
}

void as_cause_too_long(struct as_causes *c, const char *field, int limit)
{
    as_cause(c, "FieldValueTooLong", field, "Too long: may not be more than %d bytes", limit);
}

void as_cause_not_supported(struct as_causes *c, const char *field, const char *value, const char *supported)
{
    as_cause(c, "FieldValueNotSupported", field, "Unsupported value: \"%s\": supported values: %s", value, supported);
}

static char *join_causes(const struct as_causes *c)
{
    struct cr_buf text;
    bool several = json_array_size(c->list) > 1;
    size_t i;
    json_t *cause;
    cr_buf_init(&text, AS_MAX_TEXT);
    if (several) cr_buf_puts(&text, "[");
    json_array_foreach (c->list, i, cause) {
        const char *field = as_json_str(cause, "field");
        cr_buf_printf(&text, "%s%s%s%s", i ? ", " : "", field, *field ? ": " : "", as_json_str(cause, "message"));
    }
    if (several) cr_buf_puts(&text, "]");
    char *joined = need_strdup(cr_buf_str(&text));
    cr_buf_free(&text);
    return joined;
}

void as_invalid(struct as_answer *a, const char *kind, const char *group, const char *name, const struct as_causes *c)
{
    char *causes = join_causes(c);
    json_t *details = json_object();
    if (*name) json_object_set_new(details, "name", json_string(name));
    if (*group) json_object_set_new(details, "group", json_string(group));
    if (*kind) json_object_set_new(details, "kind", json_string(kind));
    json_object_set(details, "causes", c->list);
    as_status(a, 422, "Invalid", details, "%s%s%s \"%s\" is invalid: %s", kind, *group ? "." : "", group, name, causes);
    free(causes);
}
