/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Node: the annotation that maps driver names to node ids, label collisions, the patch. Input: allocation that
 * fails, the Node as JSON, the annotation's text (empty: as in the Node), labels "key=value" and ids "name=id" or
 * "name" (which goes), each up to a NUL and one a line. The patch, merged as the server merges it, brings exactly what
 * was asked for, and the next one is empty.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "core/json.h"
#include "core/node.h"
#include "fuzz/fuzz.h"

#define MAX_LINES 32

struct asked {
    char *text; /* owns the pairs */
    struct cr_pair pairs[MAX_LINES];
    size_t n;
};

static void read_pairs(struct asked *out, struct fuzz_in *in)
{
    *out = (struct asked){.text = fuzz_text(in, 4096)};
    char *rest = out->text;
    for (char *line; out->n < MAX_LINES && (line = strsep(&rest, "\n"));) {
        char *key = strsep(&line, "=");
        if (key[0] && cr_utf8_valid(key, strlen(key)) && (!line || cr_utf8_valid(line, strlen(line))))
            out->pairs[out->n++] = (struct cr_pair){key, line};
    }
}

static const char *name_of(const json_t *object)
{
    const char *name = cr_json_str(json_object_get(object, "metadata"), "name");
    return name ? name : "n1";
}

/* ---- the ids ---- */

static void check_ids_text(const json_t *map)
{
    char *text = NULL;
    CHECK(cr_node_ids_text(map, &text) == 0);
    CHECK(!text == (json_object_size(map) == 0));
    json_t *annotations = text ? json_pack("{s:s}", CR_NODE_ID_ANNOTATION, text) : json_object(), *again = NULL;
    struct cr_node n = {.annotations = annotations};
    if (annotations) { /* jansson refuses a text with NUL only where it is one, and this one is escaped */
        CHECK(cr_node_ids_load(&n, &again, NULL) == 0);
        CHECK(json_equal(again, map));
    }
    json_decref(again);
    json_decref(annotations);
    cr_free(text);
}

static void change_ids(json_t *map, const struct asked *ids)
{
    for (size_t i = 0; i < ids->n; i++) {
        if (ids->pairs[i].value)
            json_object_set_new(map, ids->pairs[i].key, json_string(ids->pairs[i].value));
        else
            json_object_del(map, ids->pairs[i].key);
    }
}

/* ---- the patch ---- */

/* As a strategic merge patch treats maps: null deletes. */
static void merge(json_t *metadata, const char *map, const json_t *changes)
{
    const char *key;
    json_t *value, *into = json_object_get(metadata, map);
    if (!changes) return;
    CHECK(json_object_size(changes) > 0);
    if (!json_is_object(into)) {
        json_object_set_new(metadata, map, json_object());
        into = json_object_get(metadata, map);
    }
    json_object_foreach ((json_t *)changes, key, value) {
        if (json_is_null(value))
            json_object_del(into, key);
        else
            json_object_set(into, key, value);
    }
}

/* Which parts a patch has; its resourceVersion is always that of the base. */
static json_t *parse_patch(char *text, const struct cr_node *base)
{
    json_t *patch = NULL;
    CHECK(text);
    CHECK(cr_json_parse(text, strlen(text), JSON_REJECT_DUPLICATES, &patch, NULL) == 0);
    json_t *metadata = json_object_get(patch, "metadata");
    CHECK(json_object_size(patch) == 1);
    CHECK(cr_json_is(json_object_get(metadata, "resourceVersion"), base->resource_version));
    CHECK(json_object_size(metadata) ==
          1 + !!json_object_get(metadata, "labels") + !!json_object_get(metadata, "annotations"));
    cr_free(text);
    return patch;
}

static json_t *merged(const json_t *object, const json_t *patch)
{
    json_t *copy = json_deep_copy(object), *metadata = json_object_get(copy, "metadata");
    const json_t *changes = json_object_get(patch, "metadata");
    merge(metadata, "labels", json_object_get(changes, "labels"));
    merge(metadata, "annotations", json_object_get(changes, "annotations"));
    return copy;
}

static void drop(json_t *metadata, const char *map, const char *key)
{
    json_t *from = json_object_get(metadata, map);
    json_object_del(from, key);
    if (cr_json_empty(from)) json_object_del(metadata, map);
}

static json_t *without_ours(const json_t *object, const struct asked *labels)
{
    json_t *copy = json_deep_copy(object), *metadata = json_object_get(copy, "metadata");
    drop(metadata, "annotations", CR_NODE_ID_ANNOTATION);
    drop(metadata, "labels", "");
    for (size_t i = 0; i < labels->n; i++) drop(metadata, "labels", labels->pairs[i].key);
    return copy;
}

static void check_foreign(const json_t *before, const json_t *after, const struct asked *labels)
{
    json_t *a = without_ours(before, labels), *b = without_ours(after, labels);
    CHECK(json_equal(a, b));
    json_decref(a);
    json_decref(b);
}

static void check_reached(const json_t *after, const struct asked *labels, const json_t *add, const json_t *ids)
{
    struct cr_node n = {0};
    json_t *map = NULL;
    CHECK(cr_node_load(&n, after, name_of(after), NULL) == 0);
    CHECK(cr_node_ids_load(&n, &map, NULL) == 0);
    CHECK(json_equal(map, ids));
    CHECK(cr_node_check_labels(&n, labels->pairs, labels->n, NULL) == 0);
    json_t *again = parse_patch(cr_node_patch(&n, add, false, map), &n);
    CHECK(json_object_size(json_object_get(again, "metadata")) == 1);
    json_decref(again);
    json_decref(map);
    cr_node_fini(&n);
}

static json_t *labels_to_add(const struct asked *labels)
{
    json_t *add = json_object();
    for (size_t i = 0; i < labels->n; i++)
        json_object_set_new(add, labels->pairs[i].key, json_string(labels->pairs[i].value));
    return add;
}

static void check_patch(const json_t *object, const struct cr_node *n, const struct asked *labels, const json_t *ids)
{
    json_t *add = labels_to_add(labels);
    json_t *patch = parse_patch(cr_node_patch(n, add, true, ids), n);
    json_t *after = merged(object, patch);
    check_foreign(object, after, labels);
    check_reached(after, labels, add, ids);
    json_decref(after);
    json_decref(patch);
    json_decref(add);
}

/* ---- labels ---- */

static bool collides(const struct cr_node *n, const struct asked *labels)
{
    for (size_t i = 0; i < labels->n; i++) {
        const json_t *have = json_object_get(n->labels, labels->pairs[i].key);
        if (have && !json_is_null(have) && !cr_json_is(have, labels->pairs[i].value)) return true;
    }
    return false;
}

/* A topology has each key once. */
static void keep_one_of_each(struct asked *labels)
{
    size_t n = 0;
    for (size_t i = 0; i < labels->n; i++) {
        bool seen = !labels->pairs[i].value;
        for (size_t k = 0; k < n; k++) seen = seen || strcmp(labels->pairs[k].key, labels->pairs[i].key) == 0;
        if (!seen) labels->pairs[n++] = labels->pairs[i];
    }
    labels->n = n;
}

static void check_node(const json_t *object, const struct cr_node *n, struct asked *labels, const struct asked *ids)
{
    struct csireg_error *err = NULL;
    json_t *map = NULL;
    int rc = cr_node_check_labels(n, labels->pairs, labels->n, &err);
    CHECK(rc == (collides(n, labels) ? CSIREG_ERR_REFUSED : 0));
    if (rc != 0) {
        fuzz_check_error(rc, err);
        labels->n = 0;
        err = NULL;
    }
    rc = cr_node_ids_load(n, &map, &err);
    if (rc != 0) {
        CHECK(rc == CSIREG_ERR_REFUSED);
        fuzz_check_error(rc, err);
        return;
    }
    check_ids_text(map);
    change_ids(map, ids);
    check_ids_text(map);
    check_patch(object, n, labels, map);
    json_decref(map);
}

static void short_of_memory(const json_t *object, const struct asked *labels, uint8_t fails)
{
    struct cr_node n = {0};
    struct csireg_error *err = NULL;
    json_t *map = NULL, *add = labels_to_add(labels);
    char *patch = NULL;
    fuzz_short_of_memory(fails);
    int rc = cr_node_load(&n, object, name_of(object), &err);
    if (rc == 0) rc = cr_node_ids_load(&n, &map, &err);
    if (rc == 0) patch = cr_node_patch(&n, add, true, map);
    bool was_short = fuzz_memory_was_short();
    CHECK(rc == 0 || err);
    CHECK(rc != 0 || patch || was_short);
    csireg_error_free(err);
    cr_free(patch);
    json_decref(map);
    json_decref(add);
    cr_node_fini(&n);
}

static void set_annotation(json_t *object, const char *text)
{
    json_t *metadata = json_object_get(object, "metadata"), *annotations = json_object_get(metadata, "annotations");
    if (!text[0] || !json_is_object(metadata)) return;
    if (!json_is_object(annotations)) {
        json_object_set_new(metadata, "annotations", json_object());
        annotations = json_object_get(metadata, "annotations");
    }
    json_object_set_new(annotations, CR_NODE_ID_ANNOTATION, json_string(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    struct asked labels, ids;
    struct cr_node n = {0};
    struct csireg_error *err = NULL;
    uint8_t fails = fuzz_byte(&in);
    json_t *object = fuzz_json(&in);
    if (!object) return 0;
    char *annotation = fuzz_text(&in, in.left);
    set_annotation(object, annotation);
    read_pairs(&labels, &in);
    read_pairs(&ids, &in);
    keep_one_of_each(&labels);
    if (fails && fails < 64) short_of_memory(object, &labels, fails);
    int rc = cr_node_load(&n, object, name_of(object), &err);
    if (rc == 0)
        check_node(object, &n, &labels, &ids);
    else
        fuzz_check_error(rc, err);
    cr_node_fini(&n);
    free(annotation);
    free(labels.text);
    free(ids.text);
    json_decref(object);
    return 0;
}
