/* SPDX-License-Identifier: Apache-2.0 */
#include "core/json.h"

#include <string.h>

#include "base/bounds.h"
#include "base/buf.h"
#include "base/mem.h"
#include "core/shown.h"

/* Counts what can start a value: each bracket and comma outside of strings. Cheap, and never below the true number. */
static size_t count_values(const char *text, size_t len)
{
    size_t n = 1;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '{' || c == '[' || c == ','))
            n++;
    }
    return n;
}

/* jansson leaves the text empty on some of its paths that run out of memory. */
static bool ran_out_of_memory(const json_error_t *e)
{
    return e->text[0] == '\0' || json_error_code(e) == json_error_out_of_memory;
}

static struct csireg_error *syntax_error(const json_error_t *e)
{
    if (ran_out_of_memory(e)) return cr_error_oom();
    struct csireg_error *error =
        cr_error_new(CSIREG_ERR_REFUSED, "%s (line %d, column %d)", cr_shown(e->text).text, e->line, e->column);
    cr_error_set_origin(error, CSIREG_ORIGIN_JSON, 0);
    return error;
}

int cr_json_parse(const char *text, size_t len, size_t flags, json_t **out, struct csireg_error **err)
{
    json_error_t why = {.text = ""};
    if (count_values(text, len) > CR_MAX_JSON_VALUES)
        return cr_error_put(err, cr_error_new(CSIREG_ERR_LIMIT, "more than %d JSON values", CR_MAX_JSON_VALUES));
    json_t *value = json_loadb(text, len, flags | JSON_ALLOW_NUL, &why);
    if (!value) return cr_error_put(err, syntax_error(&why));
    *out = value;
    return 0;
}

static int append(const char *data, size_t len, void *user) { return cr_buf_append(user, data, len) ? 0 : -1; }

char *cr_json_text(const json_t *value, size_t flags)
{
    struct cr_buf text;
    cr_buf_init(&text, CR_MAX_API_BODY);
    if (json_dump_callback(value, append, &text, flags | JSON_COMPACT) == 0) return cr_buf_take(&text);
    cr_buf_free(&text);
    return NULL;
}

const char *cr_json_str(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    const char *s = json_string_value(v);
    return s && strlen(s) == json_string_length(v) ? s : NULL;
}

bool cr_json_is(const json_t *value, const char *s)
{
    size_t len = json_string_length(value);
    return json_is_string(value) && len == strlen(s) && memcmp(json_string_value(value), s, len) == 0;
}

bool cr_json_empty(const json_t *value)
{
    if (!value || json_is_null(value)) return true;
    return (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static json_t *whole(json_t *copy, bool complete)
{
    if (complete) return copy;
    json_decref(copy);
    return NULL;
}

json_t *cr_json_copy(const json_t *value)
{
    json_t *copy = json_copy((json_t *)value);
    return whole(copy,
                 json_object_size(copy) == json_object_size(value) && json_array_size(copy) == json_array_size(value));
}

json_t *cr_json_deep_copy(const json_t *value)
{
    json_t *copy = json_deep_copy(value);
    return whole(copy, json_equal(copy, value));
}
