// SPDX-License-Identifier: Apache-2.0
#include "apiserver/schema.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "apiserver/json.h"
#include "common/alloc.h"

static const struct as_field owner_fields[] = {
    {.name = "apiVersion", .kind = AS_KIND_STRING},
    {.name = "kind", .kind = AS_KIND_STRING},
    {.name = "name", .kind = AS_KIND_STRING},
    {.name = "uid", .kind = AS_KIND_STRING},
    {.name = "controller", .kind = AS_KIND_BOOL},
    {.name = "blockOwnerDeletion", .kind = AS_KIND_BOOL},
    {0},
};
static const struct as_schema owner_schema = {owner_fields, false};

static const struct as_field metadata_fields[] = {
    {.name = "name", .kind = AS_KIND_STRING},
    {.name = "generateName", .kind = AS_KIND_STRING},
    {.name = "namespace", .kind = AS_KIND_STRING},
    {.name = "selfLink", .kind = AS_KIND_STRING},
    {.name = "uid", .kind = AS_KIND_STRING},
    {.name = "resourceVersion", .kind = AS_KIND_STRING},
    {.name = "generation", .kind = AS_KIND_INT64},
    {.name = "creationTimestamp", .kind = AS_KIND_STRING},
    {.name = "deletionTimestamp", .kind = AS_KIND_STRING},
    {.name = "deletionGracePeriodSeconds", .kind = AS_KIND_INT64},
    {.name = "labels", .kind = AS_KIND_STRINGS},
    {.name = "annotations", .kind = AS_KIND_STRINGS},
    {.name = "ownerReferences", .kind = AS_KIND_LIST, .of = &owner_schema, .merge_key = "uid"},
    {.name = "finalizers", .kind = AS_KIND_LIST, .merge_key = ""},
    {.name = "managedFields", .kind = AS_KIND_ANY},
    {0},
};
const struct as_schema as_metadata_schema = {metadata_fields, false};

const struct as_field *as_schema_field(const struct as_schema *schema, const char *name)
{
    for (const struct as_field *f = schema ? schema->fields : NULL; f && f->name; f++)
        if (!strcmp(f->name, name)) return f;
    return NULL;
}

static const char *type_name(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "object";
    case JSON_ARRAY:
        return "array";
    case JSON_STRING:
        return "string";
    case JSON_TRUE:
    case JSON_FALSE:
        return "bool";
    default:
        return "number";
    }
}

static json_t *wrong(struct as_decoding *d, const json_t *v, const char *path, const char *wanted)
{
    if (!d->error)
        d->error = need_printf("json: cannot unmarshal %s into field %s of type %s", type_name(v), path, wanted);
    return NULL;
}

static bool is_known(const struct as_field *f, const struct as_decoding *d)
{
    return f && (!(f->flags & AS_FIELD_REGISTRATIONS) || d->registrations_known);
}

static json_t *decode_object(const struct as_schema *schema, const json_t *in, const char *path, struct as_decoding *d);

static json_t *decode_strings(const json_t *in, const char *path, struct as_decoding *d)
{
    if (!json_is_object(in)) return wrong(d, in, path, "map[string]string");
    json_t *out = json_object(), *value;
    const char *key;
    json_object_foreach ((json_t *)in, key, value) {
        if (json_is_null(value))
            json_object_set_new(out, key, json_string(""));
        else if (json_is_string(value))
            json_object_set(out, key, value);
        else
            wrong(d, value, path, "string");
    }
    return out;
}

static json_t *decode_item(const struct as_field *f, const json_t *in, const char *path, struct as_decoding *d)
{
    if (!f->of) {
        if (json_is_null(in)) return json_string("");
        return json_is_string(in) ? json_incref((json_t *)in) : wrong(d, in, path, "string");
    }
    return json_is_null(in) ? json_object() : decode_object(f->of, in, path, d);
}

static json_t *decode_list(const struct as_field *f, const json_t *in, const char *path, struct as_decoding *d)
{
    if (!json_is_array(in)) return wrong(d, in, path, "list");
    json_t *out = json_array(), *item;
    size_t i;
    json_array_foreach (in, i, item) {
        char *at = need_printf("%s[%zu]", path, i);
        json_t *decoded = decode_item(f, item, at, d);
        if (decoded) json_array_append_new(out, decoded);
        free(at);
    }
    return out;
}

static json_t *decode_integer(const struct as_field *f, const json_t *in, const char *path, struct as_decoding *d)
{
    json_int_t n = json_integer_value(in);
    bool fits = json_is_integer(in) && (f->kind == AS_KIND_INT64 || (n >= INT32_MIN && n <= INT32_MAX));
    return fits ? json_incref((json_t *)in) : wrong(d, in, path, f->kind == AS_KIND_INT64 ? "int64" : "int32");
}

static json_t *decode_value(const struct as_field *f, const json_t *in, const char *path, struct as_decoding *d)
{
    switch (f->kind) {
    case AS_KIND_STRING:
        return json_is_string(in) ? json_incref((json_t *)in) : wrong(d, in, path, "string");
    case AS_KIND_BOOL:
        return json_is_boolean(in) ? json_incref((json_t *)in) : wrong(d, in, path, "bool");
    case AS_KIND_INT32:
    case AS_KIND_INT64:
        return decode_integer(f, in, path, d);
    case AS_KIND_OBJECT:
        return decode_object(f->of, in, path, d);
    case AS_KIND_LIST:
        return decode_list(f, in, path, d);
    case AS_KIND_STRINGS:
        return decode_strings(in, path, d);
    case AS_KIND_ANY:
        break;
    }
    return json_deep_copy(in);
}

static char *join(const char *path, const char *key) { return need_printf("%s%s%s", path, *path ? "." : "", key); }

static void decode_rest(const struct as_schema *schema, const json_t *in, const char *path, struct as_decoding *d,
                        json_t *out)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)in, key, value) {
        if (is_known(as_schema_field(schema, key), d)) continue;
        char *at = join(path, key);
        if (schema->open && !json_is_null(value))
            json_object_set_new(out, key, json_deep_copy(value));
        else if (!schema->open)
            as_json_append_text(d->strict, "unknown field \"%s\"", at);
        free(at);
    }
}

static json_t *decode_object(const struct as_schema *schema, const json_t *in, const char *path, struct as_decoding *d)
{
    if (!json_is_object(in)) return wrong(d, in, path, "object");
    json_t *out = json_object();
    for (const struct as_field *f = schema->fields; f && f->name; f++) {
        const json_t *value = json_object_get(in, f->name);
        if (!value || json_is_null(value) || !is_known(f, d)) continue;
        char *at = join(path, f->name);
        json_t *decoded = decode_value(f, value, at, d);
        bool keep = decoded && (!as_json_empty(decoded) || json_is_string(decoded) || (f->flags & AS_FIELD_KEEP_EMPTY));
        if (keep)
            json_object_set_new(out, f->name, decoded);
        else
            json_decref(decoded);
        free(at);
    }
    decode_rest(schema, in, path, d, out);
    return out;
}

json_t *as_schema_decode(const struct as_schema *schema, const json_t *in, struct as_decoding *d)
{
    json_t *out = decode_object(schema, in, "", d);
    if (!d->error) return out;
    json_decref(out);
    return NULL;
}
