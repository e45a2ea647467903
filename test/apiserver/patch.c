// SPDX-License-Identifier: Apache-2.0
#include "apiserver/patch.h"

#include <stdlib.h>
#include <string.h>

#include "apiserver/json.h"
#include "common/alloc.h"

json_t *as_merge_patch(json_t *target, const json_t *patch)
{
    if (!json_is_object(patch)) {
        json_decref(target);
        return json_deep_copy(patch);
    }
    if (!json_is_object(target)) {
        json_decref(target);
        target = json_object();
    }
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)patch, key, value) {
        if (json_is_null(value)) {
            json_object_del(target, key);
            continue;
        }
        json_t *old = json_incref(json_object_get(target, key));
        json_object_set_new(target, key, as_merge_patch(old, value));
    }
    return target;
}

static bool fail(char **out_error, const char *what, const char *key)
{
    if (!*out_error) *out_error = need_printf("%s: %s", key, what);
    return false;
}

static bool merge_object(const struct as_schema *schema, json_t *target, const json_t *patch, char **out_error);

static size_t index_of(const json_t *list, const char *merge_key, const json_t *value)
{
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item) {
        if (json_equal(*merge_key ? json_object_get(item, merge_key) : item, value)) break;
    }
    return i;
}

/* One item of a patch's list of objects. */
static bool merge_item(const struct as_field *f, json_t *list, const json_t *item, char **out_error)
{
    const json_t *key = json_object_get(item, f->merge_key);
    if (!key) return fail(out_error, "an item of the patch does not contain declared merge key", f->merge_key);
    size_t at = index_of(list, f->merge_key, key);
    bool there = at < json_array_size(list);
    if (!strcmp(as_json_str(item, "$patch"), "delete")) {
        if (there) json_array_remove(list, at);
        return true;
    }
    json_t *into = there ? json_array_get(list, at) : json_object();
    if (!there) json_array_append_new(list, into);
    return merge_object(f->of, into, item, out_error);
}

/* An item {"$patch": "replace"} says that the list is replaced by the others. */
static bool wants_replacement(const json_t *patch)
{
    size_t i;
    json_t *item;
    json_array_foreach (patch, i, item) {
        if (!strcmp(as_json_str(item, "$patch"), "replace")) return true;
    }
    return false;
}

static const json_t *key_of(const json_t *item, const char *merge_key)
{
    return *merge_key ? json_object_get(item, merge_key) : item;
}

static bool holds(const json_t *list, const char *merge_key, const json_t *item)
{
    return index_of(list, merge_key, key_of(item, merge_key)) < json_array_size(list);
}

/* Whether `a` comes before `b` in a list that has both. */
static bool precedes(const json_t *list, const char *merge_key, const json_t *a, const json_t *b)
{
    size_t at = index_of(list, merge_key, key_of(a, merge_key)), bt = index_of(list, merge_key, key_of(b, merge_key));
    return at < bt && bt < json_array_size(list);
}

/* The items that `order` names take its order; the others keep theirs, each before what it preceded in `before`. */
static void arrange(json_t *list, const char *merge_key, const json_t *order, const json_t *before)
{
    json_t *named = json_array(), *others = json_array(), *item;
    size_t i;
    json_array_foreach (order, i, item) {
        if (!holds(list, merge_key, item) || holds(named, merge_key, item)) continue;
        json_array_append(named, json_array_get(list, index_of(list, merge_key, key_of(item, merge_key))));
    }
    json_array_foreach (list, i, item) {
        if (!holds(named, merge_key, item)) json_array_append(others, item);
    }
    json_array_clear(list);
    size_t n = 0, o = 0;
    while (n < json_array_size(named) || o < json_array_size(others)) {
        json_t *next = json_array_get(named, n), *other = json_array_get(others, o);
        bool take_other = other && (!next || precedes(before, merge_key, other, next));
        json_array_append(list, take_other ? other : next);
        *(take_other ? &o : &n) += 1;
    }
    json_decref(named);
    json_decref(others);
}

static bool merge_objects(const struct as_field *f, json_t *list, const json_t *patch, char **out_error)
{
    size_t i;
    json_t *item;
    bool replace = wants_replacement(patch);
    if (replace) json_array_clear(list);
    json_array_foreach (patch, i, item) {
        if (replace && !strcmp(as_json_str(item, "$patch"), "replace")) continue;
        if (!merge_item(f, list, item, out_error)) return false;
    }
    return true;
}

static void merge_set(json_t *list, const json_t *patch)
{
    size_t i;
    json_t *item;
    json_array_foreach (patch, i, item) {
        if (index_of(list, "", item) == json_array_size(list)) json_array_append(list, item);
    }
}

static bool merge_list(const struct as_field *f, json_t *target, const json_t *patch, const json_t *order,
                       char **out_error)
{
    json_t *list = json_object_get(target, f->name);
    if (!json_is_array(list)) {
        list = json_array();
        json_object_set_new(target, f->name, list);
    }
    json_t *before = json_copy(list);
    bool ok = true;
    if (*f->merge_key)
        ok = merge_objects(f, list, patch, out_error);
    else
        merge_set(list, patch);
    arrange(list, f->merge_key, json_is_array(order) ? order : patch, before);
    json_decref(before);
    return ok;
}

static const json_t *wanted_order(const json_t *patch, const char *field)
{
    char *key = need_printf("$setElementOrder/%s", field);
    const json_t *order = json_object_get(patch, key);
    free(key);
    return order;
}

static bool merge_child(const struct as_schema *of, json_t *target, const char *key, const json_t *patch,
                        char **out_error)
{
    return merge_object(of, as_json_child(target, key), patch, out_error);
}

static bool merge_field(const struct as_schema *schema, json_t *target, const json_t *patch, const char *key,
                        char **out_error)
{
    json_t *value = json_object_get(patch, key);
    const struct as_field *f = as_schema_field(schema, key);
    if (json_is_null(value)) {
        json_object_del(target, key);
        return true;
    }
    if (json_is_object(value)) return merge_child(f ? f->of : NULL, target, key, value, out_error);
    if (json_is_array(value) && f && f->kind == AS_KIND_LIST && f->merge_key)
        return merge_list(f, target, value, wanted_order(patch, key), out_error);
    json_object_set_new(target, key, json_deep_copy(value));
    return true;
}

static void retain_keys(json_t *target, const json_t *keys)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(target, next, key, value)
    {
        json_t *name = json_string(key);
        if (index_of(keys, "", name) == json_array_size(keys)) json_object_del(target, key);
        json_decref(name);
    }
}

static void delete_from_set(json_t *list, const json_t *gone)
{
    size_t i;
    json_t *item;
    json_array_foreach (gone, i, item) {
        size_t at = index_of(list, "", item);
        if (at < json_array_size(list)) json_array_remove(list, at);
    }
}

/* "$deleteFromPrimitiveList/x" and "$setElementOrder/x", which act on x once it is merged. */
static bool directive(const struct as_schema *schema, json_t *target, const json_t *patch, const char *key,
                      char **out_error)
{
    const json_t *value = json_object_get(patch, key);
    static const char deletion[] = "$deleteFromPrimitiveList/", order[] = "$setElementOrder/";
    if (!strcmp(key, "$retainKeys") || !strcmp(key, "$patch")) return true;
    if (!strncmp(key, deletion, sizeof deletion - 1)) {
        delete_from_set(json_object_get(target, key + sizeof deletion - 1), value);
        return true;
    }
    if (strncmp(key, order, sizeof order - 1) != 0) return fail(out_error, "unknown directive", key);
    const char *field = key + sizeof order - 1;
    const struct as_field *f = as_schema_field(schema, field);
    json_t *list = json_object_get(target, field);
    if (!list || json_object_get(patch, field)) return true; /* a list that was merged has its order already */
    json_t *before = json_copy(list);
    arrange(list, f && f->merge_key ? f->merge_key : "", value, before);
    json_decref(before);
    return true;
}

static bool merge_fields(const struct as_schema *schema, json_t *target, const json_t *patch, bool directives,
                         char **out_error)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)patch, key, value) {
        if ((*key == '$') != directives) continue;
        bool ok = directives ? directive(schema, target, patch, key, out_error)
                             : merge_field(schema, target, patch, key, out_error);
        if (!ok) return false;
    }
    return true;
}

static bool merge_object(const struct as_schema *schema, json_t *target, const json_t *patch, char **out_error)
{
    if (!json_is_object(patch)) return fail(out_error, "the patch has no object here", "patch");
    const char *how = as_json_str(patch, "$patch");
    if (!strcmp(how, "replace") || !strcmp(how, "delete")) json_object_clear(target);
    if (!strcmp(how, "delete")) return true;
    if (*how && strcmp(how, "replace") != 0 && strcmp(how, "merge") != 0) return fail(out_error, "unknown $patch", how);
    const json_t *keys = json_object_get(patch, "$retainKeys");
    if (keys) retain_keys(target, keys);
    return merge_fields(schema, target, patch, false, out_error) &&
           merge_fields(schema, target, patch, true, out_error);
}

bool as_strategic_patch(const struct as_schema *schema, json_t *target, const json_t *patch, char **out_error)
{
    *out_error = NULL;
    return merge_object(schema, target, patch, out_error);
}
