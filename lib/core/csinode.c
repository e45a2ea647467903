/* SPDX-License-Identifier: Apache-2.0 */
#include "core/csinode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "base/buf.h"
#include "base/mem.h"
#include "core/json.h"
#include "core/shown.h"

#define DRIVERS       "drivers"
#define REGISTRATIONS "driverRegistrations"

/* json_*_set_new and _append_new take their value even when they fail, and fail for NULL. */
static int nomem_unless(bool ok) { return ok ? 0 : CSIREG_ERR_NOMEM; }

/* The member as object or array; made when it is absent or null. NULL: no memory. Borrowed. */
static json_t *member_or_new(json_t *object, const char *key, json_t *(*make)(void))
{
    json_t *v = json_object_get(object, key);
    if (v && !json_is_null(v)) return v;
    return json_object_set_new(object, key, make()) == 0 ? json_object_get(object, key) : NULL;
}

static json_t *metadata_of(const json_t *obj) { return json_object_get(obj, "metadata"); }
static json_t *list_of(const json_t *obj, const char *list)
{
    return json_object_get(json_object_get(obj, "spec"), list);
}

static json_t *find(const json_t *list, const char *name)
{
    size_t i;
    json_t *entry;
    json_array_foreach ((json_t *)list, i, entry)
        if (cr_json_is(json_object_get(entry, "name"), name)) return entry;
    return NULL;
}

static int append(json_t *obj, const char *list, json_t *entry)
{
    json_t *spec = member_or_new(obj, "spec", json_object);
    json_t *entries = spec ? member_or_new(spec, list, json_array) : NULL;
    if (entries) return nomem_unless(json_array_append_new(entries, entry) == 0);
    json_decref(entry);
    return CSIREG_ERR_NOMEM;
}

static int remove_all(json_t *obj, const char *list, const char *name)
{
    json_t *entries = list_of(obj, list);
    for (size_t i = json_array_size(entries); i-- > 0;) {
        if (!cr_json_is(json_object_get(json_array_get(entries, i), "name"), name)) continue;
        if (json_array_remove(entries, i)) return CSIREG_ERR_NOMEM;
    }
    return 0;
}

/* ---- check ---- */

static bool is_nothing_or(const json_t *v, json_type type) { return !v || json_is_null(v) || json_typeof(v) == type; }

static bool is_list_of_objects(const json_t *v)
{
    size_t i;
    json_t *entry;
    json_array_foreach ((json_t *)v, i, entry)
        if (!json_is_object(entry)) return false;
    return is_nothing_or(v, JSON_ARRAY);
}

/* The first thing that is wrong, or NULL. */
static const char *find_fault(const json_t *obj, const char *expected_name)
{
    const json_t *metadata = metadata_of(obj), *spec = json_object_get(obj, "spec");
    const char *uid = cr_csinode_uid(obj), *version = cr_csinode_resource_version(obj);
    if (!cr_json_is(json_object_get(obj, "kind"), "CSINode")) return "its kind is another";
    if (!cr_json_is(json_object_get(metadata, "name"), expected_name)) return "its name is another";
    if (!uid || !uid[0]) return "metadata.uid is missing";
    if (!version || !version[0]) return "metadata.resourceVersion is missing";
    if (!is_nothing_or(json_object_get(metadata, "annotations"), JSON_OBJECT))
        return "metadata.annotations is no object";
    if (!is_list_of_objects(json_object_get(metadata, "ownerReferences")))
        return "metadata.ownerReferences is no list of objects";
    if (!is_nothing_or(spec, JSON_OBJECT)) return "spec is no object";
    if (!is_list_of_objects(list_of(obj, DRIVERS))) return "spec.drivers is no list of objects";
    if (!is_list_of_objects(list_of(obj, REGISTRATIONS))) return "spec.driverRegistrations is no list of objects";
    return NULL;
}

int cr_csinode_check(const json_t *obj, const char *expected_name, struct csireg_error **err)
{
    const char *fault = find_fault(obj, expected_name);
    if (!fault) return 0;
    return cr_error_put(err, cr_error_new(CSIREG_ERR_REFUSED, "the answer is not a usable CSINode \"%s\": %s",
                                          cr_shown(expected_name).text, fault));
}

const char *cr_csinode_uid(const json_t *obj) { return cr_json_str(metadata_of(obj), "uid"); }
const char *cr_csinode_resource_version(const json_t *obj) { return cr_json_str(metadata_of(obj), "resourceVersion"); }

/* ---- spec.drivers ---- */

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The server keeps keys unique, so lists of different length differ as sets. */
static bool same_keys(const json_t *keys, const struct cr_csinode_driver *want)
{
    if (cr_json_empty(keys)) return want->n_topology_keys == 0;
    if (!json_is_array(keys) || json_array_size(keys) != want->n_topology_keys) return false;
    for (size_t i = 0; i < want->n_topology_keys; i++) {
        bool found = false;
        for (size_t k = 0; k < want->n_topology_keys && !found; k++)
            found = cr_json_is(json_array_get(keys, k), want->topology_keys[i]);
        if (!found) return false;
    }
    return true;
}

static bool same_count(const json_t *entry, const struct cr_csinode_driver *want)
{
    const json_t *count = json_object_get(json_object_get(entry, "allocatable"), "count");
    if (!count || json_is_null(count)) return !want->has_count;
    return want->has_count && json_is_integer(count) && json_integer_value(count) == want->count;
}

enum cr_driver_match cr_csinode_match_driver(const json_t *obj, const struct cr_csinode_driver *want)
{
    const json_t *entry = find(list_of(obj, DRIVERS), want->name);
    if (!entry) return CR_DRIVER_ABSENT;
    if (!cr_json_is(json_object_get(entry, "nodeID"), want->node_id) ||
        !same_keys(json_object_get(entry, "topologyKeys"), want))
        return CR_DRIVER_IMMUTABLE_DIFFERS;
    return same_count(entry, want) ? CR_DRIVER_EQUAL : CR_DRIVER_COUNT_DIFFERS;
}

const char *cr_csinode_driver_node_id(const json_t *obj, const char *name)
{
    const json_t *entry = find(list_of(obj, DRIVERS), name);
    const char *id = cr_json_str(entry, "nodeID");
    return entry && !id ? "" : id;
}

static int set_count(json_t *entry, int32_t count)
{
    json_t *allocatable = json_object_get(entry, "allocatable");
    if (json_is_object(allocatable))
        return nomem_unless(json_object_set_new(allocatable, "count", json_integer(count)) == 0);
    json_t *made = json_pack("{s:i}", "count", (int)count);
    return nomem_unless(json_object_set_new(entry, "allocatable", made) == 0);
}

static int clear_count(json_t *entry)
{
    json_t *allocatable = json_object_get(entry, "allocatable");
    json_object_del(allocatable, "count");
    if (cr_json_empty(allocatable)) json_object_del(entry, "allocatable");
    return 0;
}

static json_t *key_list(const struct cr_csinode_driver *want)
{
    json_t *keys = json_array();
    for (size_t i = 0; keys && i < want->n_topology_keys; i++) {
        if (json_array_append_new(keys, json_string(want->topology_keys[i])) == 0) continue;
        json_decref(keys);
        return NULL;
    }
    return keys;
}

static json_t *new_entry(const struct cr_csinode_driver *want)
{
    json_t *keys = key_list(want);
    json_t *entry =
        keys ? json_pack("{s:s,s:s,s:o}", "name", want->name, "nodeID", want->node_id, "topologyKeys", keys) : NULL;
    if (!entry || !want->has_count || set_count(entry, want->count) == 0) return entry;
    json_decref(entry);
    return NULL;
}

int cr_csinode_put_driver(json_t *obj, const struct cr_csinode_driver *want)
{
    json_t *entry;
    switch (cr_csinode_match_driver(obj, want)) {
    case CR_DRIVER_EQUAL:
        return 0;
    case CR_DRIVER_IMMUTABLE_DIFFERS:
        return CSIREG_ERR_INVALID;
    case CR_DRIVER_COUNT_DIFFERS:
        entry = find(list_of(obj, DRIVERS), want->name);
        return want->has_count ? set_count(entry, want->count) : clear_count(entry);
    case CR_DRIVER_ABSENT:
        break;
    }
    entry = new_entry(want);
    return entry ? append(obj, DRIVERS, entry) : CSIREG_ERR_NOMEM;
}

int cr_csinode_remove_driver(json_t *obj, const char *name) { return remove_all(obj, DRIVERS, name); }

/* ---- spec.driverRegistrations (KEP-6011) ---- */

enum cr_registration_match cr_csinode_match_registration(const json_t *obj, const char *name, const char *node_id)
{
    const json_t *entry = find(list_of(obj, REGISTRATIONS), name);
    if (!entry) return CR_REGISTRATION_ABSENT;
    return cr_json_is(json_object_get(entry, "nodeID"), node_id) ? CR_REGISTRATION_EQUAL : CR_REGISTRATION_DIFFERS;
}

int cr_csinode_put_registration(json_t *obj, const char *name, const char *node_id)
{
    json_t *entry = find(list_of(obj, REGISTRATIONS), name);
    if (entry) return nomem_unless(json_object_set_new(entry, "nodeID", json_string(node_id)) == 0);
    entry = json_pack("{s:s,s:s}", "name", name, "nodeID", node_id);
    return entry ? append(obj, REGISTRATIONS, entry) : CSIREG_ERR_NOMEM;
}

int cr_csinode_remove_registration(json_t *obj, const char *name) { return remove_all(obj, REGISTRATIONS, name); }

static bool add_names(json_t *seen, json_t *names, const json_t *list)
{
    size_t i;
    json_t *entry;
    json_array_foreach ((json_t *)list, i, entry) {
        const char *name = cr_json_str(entry, "name");
        if (!name || json_object_get(seen, name)) continue;
        if (json_object_set_new(seen, name, json_true()) || json_array_append_new(names, json_string(name)))
            return false;
    }
    return true;
}

json_t *cr_csinode_names(const json_t *obj)
{
    json_t *seen = json_object(), *names = json_array();
    bool ok = seen && names && add_names(seen, names, list_of(obj, DRIVERS)) &&
              add_names(seen, names, list_of(obj, REGISTRATIONS));
    json_decref(seen);
    if (ok) return names;
    json_decref(names);
    return NULL;
}

/* ---- owner ---- */

static bool is_node_reference(const json_t *ref)
{
    return cr_json_is(json_object_get(ref, "kind"), "Node") && cr_json_is(json_object_get(ref, "apiVersion"), "v1");
}

enum cr_owner cr_csinode_owner(const json_t *obj, const char *node_name, const char *uid)
{
    enum cr_owner found = CR_OWNER_MISSING;
    size_t i;
    json_t *ref;
    json_array_foreach (json_object_get(metadata_of(obj), "ownerReferences"), i, ref) {
        if (!is_node_reference(ref)) continue;
        found = CR_OWNER_STALE;
        if (cr_json_is(json_object_get(ref, "name"), node_name) && cr_json_is(json_object_get(ref, "uid"), uid))
            return CR_OWNER_OK;
    }
    return found;
}

/* No controller and no blockOwnerDeletion: the reference only ties the lifetimes. */
static json_t *new_owner(const char *node_name, const char *uid)
{
    return json_pack("{s:s,s:s,s:s,s:s}", "apiVersion", "v1", "kind", "Node", "name", node_name, "uid", uid);
}

int cr_csinode_add_owner(json_t *obj, const char *node_name, const char *uid)
{
    json_t *refs = member_or_new(metadata_of(obj), "ownerReferences", json_array);
    return nomem_unless(refs && json_array_append_new(refs, new_owner(node_name, uid)) == 0);
}

/* ---- migrated plugins ---- */

/* Sorts v, and joins it without empty and repeated items. */
static char *canonical(const char **v, size_t n)
{
    struct cr_buf text;
    const char *last = "";
    cr_buf_init(&text, CR_MAX_API_BODY);
    if (n) qsort(v, n, sizeof *v, compare_text);
    for (size_t i = 0; i < n; last = v[i++])
        if (strcmp(v[i], last) != 0) cr_buf_printf(&text, "%s%s", text.len ? "," : "", v[i]);
    return cr_buf_take(&text);
}

static char *canonical_list(const char *const *plugins, size_t n)
{
    const char **v = cr_calloc(n + 1, sizeof *v);
    if (!v) return NULL;
    for (size_t i = 0; i < n; i++) v[i] = plugins[i];
    char *text = canonical(v, n);
    cr_free(v);
    return text;
}

static char *canonical_text(const char *list)
{
    CR_AUTO_CHARP copy = cr_strdup(list);
    size_t n = 0;
    for (const char *p = list; *p; p++) n += *p == ',';
    const char **v = cr_calloc(n + 1, sizeof *v);
    char *rest = copy, *text = NULL;
    for (size_t i = 0; copy && v && i <= n; i++) v[i] = strsep(&rest, ",");
    if (copy && v) text = canonical(v, n + 1);
    cr_free(v);
    return text;
}

int cr_csinode_set_migrated(json_t *obj, const char *const *plugins, size_t n)
{
    if (n == 0) return 0;
    json_t *annotations = member_or_new(metadata_of(obj), "annotations", json_object);
    const char *stored = cr_json_str(annotations, CR_MIGRATED_PLUGINS_ANNOTATION);
    CR_AUTO_CHARP want = canonical_list(plugins, n);
    CR_AUTO_CHARP have = canonical_text(stored ? stored : "");
    if (!annotations || !want || !have) return CSIREG_ERR_NOMEM;
    if (strcmp(want, have) == 0) return 0;
    return nomem_unless(json_object_set_new(annotations, CR_MIGRATED_PLUGINS_ANNOTATION, json_string(want)) == 0);
}

/* ---- whole objects ---- */

json_t *cr_csinode_new(const char *node_name, const char *uid, const char *const *plugins, size_t n)
{
    json_t *obj = json_pack("{s:s,s:s,s:{s:s},s:{s:[]}}", "apiVersion", "storage.k8s.io/v1", "kind", "CSINode",
                            "metadata", "name", node_name, "spec", DRIVERS);
    if (obj && cr_csinode_add_owner(obj, node_name, uid) == 0 && cr_csinode_set_migrated(obj, plugins, n) == 0)
        return obj;
    json_decref(obj);
    return NULL;
}

/* A copy of obj whose spec may be changed; everything below it is shared. */
static json_t *copy_for_sending(const json_t *obj)
{
    json_t *copy = cr_json_copy(obj), *spec = json_object_get(obj, "spec");
    json_t *spec_copy = cr_json_empty(spec) ? json_object() : cr_json_copy(spec);
    if (copy && json_object_set_new(copy, "spec", spec_copy) == 0) return copy;
    json_decref(copy);
    return NULL;
}

char *cr_csinode_text(const json_t *obj)
{
    json_t *copy = copy_for_sending(obj), *spec = json_object_get(copy, "spec");
    char *text = NULL;
    if (cr_json_empty(json_object_get(spec, REGISTRATIONS))) json_object_del(spec, REGISTRATIONS);
    if (spec && member_or_new(spec, DRIVERS, json_array)) text = cr_json_text(copy, 0);
    json_decref(copy);
    return text;
}

/* ---- the limit ---- */

static char *warning(const char *fmt, int64_t limit)
{
    char text[160];
    snprintf(text, sizeof text, "the driver reports max_volumes_per_node %" PRId64 ": %s", limit, fmt);
    return cr_strdup(text);
}

int cr_csinode_count_from_limit(int64_t max_volumes, bool *has_count, int32_t *count, char **out_warning)
{
    char *said = NULL;
    if (max_volumes < 0) said = warning("not a limit, none is published", max_volumes);
    if (max_volumes > INT32_MAX) said = warning("too large, 2147483647 is published", max_volumes);
    if (!said && (max_volumes < 0 || max_volumes > INT32_MAX)) return CSIREG_ERR_NOMEM;
    *has_count = max_volumes > 0;
    *count = max_volumes > INT32_MAX ? INT32_MAX : max_volumes > 0 ? (int32_t)max_volumes : 0;
    *out_warning = said;
    return 0;
}
