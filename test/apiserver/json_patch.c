// SPDX-License-Identifier: Apache-2.0
/* RFC 6902. */
#include <stdlib.h>
#include <string.h>

#include "apiserver/json.h"
#include "apiserver/patch.h"

static void replace_root(json_t **root, json_t *value)
{
    json_decref(*root);
    *root = value;
}

/* The index that a token names, up to and including limit; false: none. "-" is the end. */
static bool index_of(const char *token, size_t limit, size_t *out)
{
    char *end;
    if (!strcmp(token, "-")) {
        *out = limit;
        return true;
    }
    unsigned long i = strtoul(token, &end, 10);
    *out = i;
    return *token >= '0' && *token <= '9' && !*end && (token[0] != '0' || !token[1]) && i <= limit;
}

/* Takes value. */
static bool add(json_t **root, const char *path, json_t *value)
{
    char *last = NULL;
    size_t i = 0;
    if (!*path) {
        replace_root(root, value);
        return true;
    }
    json_t *parent = as_pointer_parent(*root, path, &last);
    bool list = json_is_array(parent), ok = parent && (!list || index_of(last, json_array_size(parent), &i));
    if (ok && list)
        json_array_insert(parent, i, value);
    else if (ok)
        json_object_set(parent, last, value);
    json_decref(value);
    free(last);
    return ok;
}

/* An item of a list must be there; a member of an object, as Kubernetes has it, need not. */
static bool replace(json_t **root, const char *path, json_t *value)
{
    char *last = NULL;
    const json_t *parent = as_pointer_parent(*root, path, &last);
    bool list = json_is_array(parent), removed = as_pointer_remove(*root, path);
    if (parent) free(last);
    if (removed || !list) return add(root, path, value);
    json_decref(value);
    return false;
}

/* from must not lie above path: a value cannot be moved into itself. */
static bool move(json_t **root, const char *from, const char *path)
{
    size_t n = strlen(from);
    json_t *value = json_incref(as_pointer_get(*root, from));
    if (!value || (!strncmp(from, path, n) && path[n] == '/') || !as_pointer_remove(*root, from)) {
        json_decref(value);
        return false;
    }
    return add(root, path, value);
}

static bool apply(json_t **root, const json_t *operation)
{
    const char *op = as_json_str(operation, "op"), *path = as_json_str(operation, "path");
    const char *from = as_json_str(operation, "from");
    json_t *value = json_object_get(operation, "value");
    bool has_path = json_is_string(json_object_get(operation, "path"));
    if (!has_path) return false;
    if (!strcmp(op, "remove")) return as_pointer_remove(*root, path);
    if (!strcmp(op, "move")) return move(root, from, path);
    if (!strcmp(op, "copy")) {
        const json_t *source = as_pointer_get(*root, from);
        return source && add(root, path, json_deep_copy(source));
    }
    if (!value) return false;
    if (!strcmp(op, "add")) return add(root, path, json_deep_copy(value));
    if (!strcmp(op, "replace")) return replace(root, path, json_deep_copy(value));
    return !strcmp(op, "test") && json_equal(as_pointer_get(*root, path), value);
}

bool as_json_patch(json_t **target, const json_t *patch)
{
    size_t i;
    json_t *operation;
    if (!json_is_array(patch) || json_array_size(patch) > AS_MAX_OPERATIONS) return false;
    json_array_foreach (patch, i, operation) {
        if (!apply(target, operation)) return false;
    }
    return true;
}
