/* SPDX-License-Identifier: Apache-2.0 */
#include "core/node.h"

#include <string.h>

#include "base/mem.h"
#include "core/json.h"
#include "core/shown.h"

/* ---- load ---- */

static bool is_nothing_or_object(const json_t *v) { return !v || json_is_null(v) || json_is_object(v); }

/* The first thing that is wrong, or NULL. */
static const char *find_fault(const json_t *object, const char *expected_name)
{
    const json_t *metadata = json_object_get(object, "metadata");
    const char *uid = cr_json_str(metadata, "uid"), *version = cr_json_str(metadata, "resourceVersion");
    if (!cr_json_is(json_object_get(object, "kind"), "Node")) return "its kind is another";
    if (!cr_json_is(json_object_get(metadata, "name"), expected_name)) return "its name is another";
    if (!uid || !uid[0]) return "metadata.uid is missing";
    if (!version || !version[0]) return "metadata.resourceVersion is missing";
    if (!is_nothing_or_object(json_object_get(metadata, "labels"))) return "metadata.labels is no object";
    if (!is_nothing_or_object(json_object_get(metadata, "annotations"))) return "metadata.annotations is no object";
    return NULL;
}

static json_t *take_map(const json_t *metadata, const char *key)
{
    json_t *map = json_object_get(metadata, key);
    return json_is_object(map) ? json_incref(map) : json_object();
}

int cr_node_load(struct cr_node *out, const json_t *object, const char *expected_name, struct csireg_error **err)
{
    const json_t *metadata = json_object_get(object, "metadata");
    const char *fault = find_fault(object, expected_name);
    if (fault)
        return cr_error_put(err, cr_error_new(CSIREG_ERR_REFUSED, "the answer is not a usable Node \"%s\": %s",
                                              cr_shown(expected_name).text, fault));
    struct cr_node n = {.uid = cr_strdup(cr_json_str(metadata, "uid")),
                        .resource_version = cr_strdup(cr_json_str(metadata, "resourceVersion")),
                        .labels = take_map(metadata, "labels"),
                        .annotations = take_map(metadata, "annotations")};
    if (!n.uid || !n.resource_version || !n.labels || !n.annotations) {
        cr_node_fini(&n);
        return cr_error_put(err, cr_error_oom());
    }
    cr_node_fini(out);
    *out = n;
    return 0;
}

void cr_node_fini(struct cr_node *n)
{
    cr_free(n->uid);
    cr_free(n->resource_version);
    json_decref(n->labels);
    json_decref(n->annotations);
    *n = (struct cr_node){0};
}

/* ---- labels ---- */

static bool is_absent(const json_t *value) { return !value || json_is_null(value); }

static struct csireg_error *collision(const struct cr_pair *reported, const json_t *existing)
{
    return cr_error_new(CSIREG_ERR_REFUSED,
                        "label %s: the driver reports \"%s\", but the Node already has \"%s\"; labels are never "
                        "changed here, so correct the driver or remove the label from the Node",
                        cr_shown(reported->key).text, cr_shown(reported->value).text,
                        cr_shown(json_string_value(existing)).text);
}

int cr_node_check_labels(const struct cr_node *n, const struct cr_pair *segments, size_t n_segments,
                         struct csireg_error **err)
{
    for (size_t i = 0; i < n_segments; i++) {
        const json_t *existing = json_object_get(n->labels, segments[i].key);
        if (!is_absent(existing) && !cr_json_is(existing, segments[i].value))
            return cr_error_put(err, collision(&segments[i], existing));
    }
    return 0;
}

/* ---- annotation ---- */

static bool is_map_of_strings(json_t *map)
{
    const char *key;
    json_t *value;
    if (!json_is_object(map)) return false;
    json_object_foreach (map, key, value)
        if (!json_is_string(value)) return false;
    return true;
}

static int refuse_annotation(struct csireg_error **err)
{
    return cr_error_put(err, cr_error_new(CSIREG_ERR_REFUSED,
                                          "annotation %s of the Node is not a JSON object of strings and is not "
                                          "overwritten; correct or remove it",
                                          CR_NODE_ID_ANNOTATION));
}

static int empty_map(json_t **out_map, struct csireg_error **err)
{
    json_t *map = json_object();
    if (!map) return cr_error_put(err, cr_error_oom());
    *out_map = map;
    return 0;
}

/* Of a name that is there twice the last one counts, as for other readers of the annotation. */
static int parse_ids(const json_t *text, json_t **out_map, struct csireg_error **err)
{
    json_t *map = NULL;
    int rc = cr_json_parse(json_string_value(text), json_string_length(text), JSON_DECODE_ANY, &map, NULL);
    if (rc) return rc == CSIREG_ERR_NOMEM ? cr_error_put(err, cr_error_oom()) : refuse_annotation(err);
    if (is_map_of_strings(map)) {
        *out_map = map;
        return 0;
    }
    bool null = json_is_null(map);
    json_decref(map);
    return null ? empty_map(out_map, err) : refuse_annotation(err);
}

int cr_node_ids_load(const struct cr_node *n, json_t **out_map, struct csireg_error **err)
{
    const json_t *text = json_object_get(n->annotations, CR_NODE_ID_ANNOTATION);
    if (is_absent(text) || cr_json_is(text, "")) return empty_map(out_map, err);
    return json_is_string(text) ? parse_ids(text, out_map, err) : refuse_annotation(err);
}

int cr_node_ids_text(const json_t *map, char **out_text)
{
    char *text = NULL;
    if (json_object_size(map) > 0) {
        text = cr_json_text(map, JSON_SORT_KEYS);
        if (!text) return CSIREG_ERR_NOMEM;
    }
    *out_text = text;
    return 0;
}

/* ---- patch ---- */

static json_t *missing_labels(const struct cr_node *base, const json_t *labels)
{
    json_t *missing = json_object(), *value;
    const char *key;
    json_object_foreach ((json_t *)labels, key, value) {
        if (json_equal(json_object_get(base->labels, key), value)) continue;
        if (json_object_set(missing, key, value)) {
            json_decref(missing);
            return NULL;
        }
    }
    return missing;
}

static json_t *annotation_change(const json_t *ids_map)
{
    CR_AUTO_CHARP text = NULL;
    if (cr_node_ids_text(ids_map, &text)) return NULL;
    json_t *value = text ? json_string(text) : json_null();
    return value ? json_pack("{s:o}", CR_NODE_ID_ANNOTATION, value) : NULL;
}

/* Takes part; an empty one is left out. */
static bool add_part(json_t *metadata, const char *key, json_t *part)
{
    if (!part || json_object_size(part) > 0) return part && json_object_set_new(metadata, key, part) == 0;
    json_decref(part);
    return true;
}

char *cr_node_patch(const struct cr_node *base, const json_t *labels_to_add, bool annotation_changed,
                    const json_t *ids_map)
{
    json_t *body = json_pack("{s:{s:s}}", "metadata", "resourceVersion", base->resource_version);
    json_t *metadata = json_object_get(body, "metadata");
    bool ok = metadata && add_part(metadata, "labels", missing_labels(base, labels_to_add)) &&
              (!annotation_changed || add_part(metadata, "annotations", annotation_change(ids_map)));
    char *text = ok ? cr_json_text(body, JSON_SORT_KEYS) : NULL;
    json_decref(body);
    return text;
}
