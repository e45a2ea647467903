// SPDX-License-Identifier: Apache-2.0
#include "apiserver/json.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

json_t *as_json_parse(const char *text, size_t len, char **out_error)
{
    json_error_t error;
    json_t *v = json_loadb(text, len, JSON_DECODE_ANY, &error);
    if (!v && out_error) *out_error = need_printf("%s at line %d column %d", error.text, error.line, error.column);
    return v;
}

char *as_json_text(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    return text ? text : need_strdup("null");
}

json_t *as_json_at(const json_t *object, const char *outer, const char *inner)
{
    return json_object_get(json_object_get(object, outer), inner);
}

const char *as_json_str(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

int64_t as_json_int(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *v = json_object_get(object, key);
    return json_is_integer(v) ? (int64_t)json_integer_value(v) : otherwise;
}

bool as_json_true(const json_t *object, const char *key) { return json_is_true(json_object_get(object, key)); }

bool as_json_empty(const json_t *v)
{
    if (!v || json_is_null(v)) return true;
    if (json_is_object(v)) return json_object_size(v) == 0;
    if (json_is_array(v)) return json_array_size(v) == 0;
    return json_is_string(v) && json_string_length(v) == 0;
}

bool as_json_same(const json_t *a, const json_t *b)
{
    if (as_json_empty(a) || as_json_empty(b)) return as_json_empty(a) && as_json_empty(b);
    return json_equal(a, b);
}

void as_json_set(json_t *object, const char *key, json_t *value)
{
    if (value)
        json_object_set_new(object, key, value);
    else
        json_object_del(object, key);
}

void as_json_copy(json_t *object, const json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);
    as_json_set(object, key, value ? json_deep_copy(value) : NULL);
}

json_t *as_json_child(json_t *object, const char *key)
{
    json_t *child = json_object_get(object, key);
    if (json_is_object(child)) return child;
    child = json_object();
    json_object_set_new(object, key, child);
    return child;
}

void as_json_append_text(json_t *array, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = need_vprintf(fmt, args);
    va_end(args);
    json_array_append_new(array, json_string(text));
    free(text);
}

static char *token(const char *from, const char *to)
{
    char *out = need_strndup(from, (size_t)(to - from)), *w = out;
    for (const char *r = out; *r; r++) {
        if (r[0] == '~' && (r[1] == '0' || r[1] == '1')) {
            *w++ = r[1] == '0' ? '~' : '/';
            r++;
        } else {
            *w++ = *r;
        }
    }
    *w = '\0';
    return out;
}

static json_t *step(json_t *at, const char *key)
{
    if (json_is_object(at)) return json_object_get(at, key);
    char *end;
    unsigned long i = strtoul(key, &end, 10);
    return *key >= '0' && *key <= '9' && !*end ? json_array_get(at, i) : NULL;
}

json_t *as_pointer_parent(json_t *root, const char *pointer, char **last)
{
    json_t *at = root;
    if (*pointer != '/') return NULL;
    for (;;) {
        const char *end = strchr(pointer + 1, '/');
        char *key = token(pointer + 1, end ? end : pointer + strlen(pointer));
        if (!end) {
            *last = key;
            if (json_is_object(at) || json_is_array(at)) return at;
            free(key);
            return NULL;
        }
        at = step(at, key);
        free(key);
        if (!at) return NULL;
        pointer = end;
    }
}

json_t *as_pointer_get(json_t *root, const char *pointer)
{
    char *last;
    if (!*pointer) return root;
    json_t *parent = as_pointer_parent(root, pointer, &last);
    if (!parent) return NULL;
    json_t *value = step(parent, last);
    free(last);
    return value;
}

bool as_pointer_remove(json_t *root, const char *pointer)
{
    char *last;
    json_t *parent = as_pointer_parent(root, pointer, &last);
    if (!parent) return false;
    bool found = step(parent, last) != NULL;
    if (found && json_is_array(parent))
        json_array_remove(parent, strtoul(last, NULL, 10));
    else if (found)
        json_object_del(parent, last);
    free(last);
    return found;
}
