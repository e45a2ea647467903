// SPDX-License-Identifier: Apache-2.0
/* CSINode: the list of installed drivers, and KEP-6011's list of registrations beside it. */
#include <stdlib.h>
#include <string.h>

#include "apiserver/answer.h"
#include "apiserver/json.h"
#include "apiserver/names.h"
#include "apiserver/resource.h"
#include "base/bounds.h"
#include "common/alloc.h"

#define MAX_CONDITIONS 16 /* of one entry of status.storageHealth */

static const struct as_field allocatable_fields[] = {{.name = "count", .kind = AS_KIND_INT32}, {0}};
static const struct as_schema allocatable_schema = {allocatable_fields, false};

static const struct as_field driver_fields[] = {
    {.name = "name", .kind = AS_KIND_STRING},
    {.name = "nodeID", .kind = AS_KIND_STRING},
    {.name = "topologyKeys", .kind = AS_KIND_LIST},
    {.name = "allocatable", .kind = AS_KIND_OBJECT, .of = &allocatable_schema, .flags = AS_FIELD_KEEP_EMPTY},
    {0},
};
static const struct as_schema driver_schema = {driver_fields, false};

static const struct as_field registration_fields[] = {
    {.name = "name", .kind = AS_KIND_STRING}, {.name = "nodeID", .kind = AS_KIND_STRING}, {0}};
static const struct as_schema registration_schema = {registration_fields, false};

static const struct as_field spec_fields[] = {
    {.name = "drivers", .kind = AS_KIND_LIST, .of = &driver_schema, .merge_key = "name"},
    {.name = "driverRegistrations",
     .kind = AS_KIND_LIST,
     .of = &registration_schema,
     .merge_key = "name",
     .flags = AS_FIELD_REGISTRATIONS},
    {0},
};
static const struct as_schema spec_schema = {spec_fields, false};

static const struct as_field health_fields[] = {{.name = "name", .kind = AS_KIND_STRING}, {0}};
static const struct as_schema health_schema = {health_fields, true};

static const struct as_field status_fields[] = {
    {.name = "storageHealth", .kind = AS_KIND_LIST, .of = &health_schema, .merge_key = "name"}, {0}};
static const struct as_schema status_schema = {status_fields, false};

static const struct as_field csinode_fields[] = {
    {.name = "kind", .kind = AS_KIND_STRING},
    {.name = "apiVersion", .kind = AS_KIND_STRING},
    {.name = "metadata", .kind = AS_KIND_OBJECT, .of = &as_metadata_schema},
    {.name = "spec", .kind = AS_KIND_OBJECT, .of = &spec_schema},
    {.name = "status", .kind = AS_KIND_OBJECT, .of = &status_schema},
    {0},
};
const struct as_schema as_csinode_schema = {csinode_fields, false};

/* A field of a gate that is off goes, silently, unless the stored object uses it. */
static void drop_gated(enum as_gate gate, json_t *object, const json_t *old, const char *field)
{
    if (gate != AS_GATE_ON && as_json_empty(json_object_get(old, field))) json_object_del(object, field);
}

static void null_when_absent(json_t *object, const char *field)
{
    if (!json_object_get(object, field)) json_object_set_new(object, field, json_null());
}

void as_csinode_prepare(struct as_change *c)
{
    size_t i;
    json_t *driver, *spec = as_json_child(c->object, "spec");
    null_when_absent(spec, "drivers");
    json_array_foreach (json_object_get(spec, "drivers"), i, driver) null_when_absent(driver, "topologyKeys");
    drop_gated(c->gates.node_info, spec, json_object_get(c->old, "spec"), "driverRegistrations");
    if (!c->old) json_object_del(c->object, "status");
    json_t *status = as_json_child(c->object, "status");
    drop_gated(c->gates.volume_health, status, json_object_get(c->old, "status"), "storageHealth");
}

static void validate_name(struct as_causes *causes, const char *field, const char *name)
{
    char lower[CR_MAX_NODE_NAME + 2];
    size_t n = strnlen(name, sizeof lower - 1);
    for (size_t i = 0; i < n; i++) lower[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    lower[n] = '\0';
    if (!*name) {
        as_cause_required(causes, field, NULL);
        return;
    }
    if (strlen(name) > CR_MAX_DRIVER_NAME) as_cause_too_long(causes, field, CR_MAX_DRIVER_NAME);
    const char *why = as_name_subdomain(lower);
    if (why) as_cause_invalid_text(causes, field, name, why);
}

static void validate_node_id(struct as_causes *causes, const char *field, const char *id)
{
    if (!*id) as_cause_required(causes, field, NULL);
    if (strlen(id) > CR_MAX_NODE_ID) as_cause_invalid_text(causes, field, id, "must be 256 characters or less");
}

static void validate_count(struct as_causes *causes, const char *at, const json_t *entry)
{
    const json_t *count = as_json_at(entry, "allocatable", "count");
    if (!count || json_integer_value(count) >= 0) return;
    char *field = need_printf("%s.allocatable.count", at);
    as_cause_invalid(causes, field, count, "must be greater than or equal to 0");
    free(field);
}

static void validate_keys(struct as_causes *causes, const char *at, const json_t *keys)
{
    json_t *seen = json_object(), *key;
    size_t i;
    json_array_foreach (keys, i, key) {
        const char *text = json_string_value(key);
        struct as_reasons why = as_name_qualified(text);
        if (!*text) as_cause_required(causes, at, NULL);
        for (size_t k = 0; k < why.n; k++) as_cause_invalid_text(causes, at, text, why.text[k]);
        if (json_object_get(seen, text)) as_cause_duplicate(causes, at, text);
        json_object_set_new(seen, text, json_true());
    }
    json_decref(seen);
}

static void validate_entry(struct as_causes *causes, const char *at, const json_t *entry, json_t *seen)
{
    const char *name = as_json_str(entry, "name");
    char *name_field = need_printf("%s.name", at), *id_field = need_printf("%s.nodeID", at);
    validate_name(causes, name_field, name);
    validate_node_id(causes, id_field, as_json_str(entry, "nodeID"));
    validate_count(causes, at, entry);
    if (json_object_get(seen, name)) as_cause_duplicate(causes, name_field, name);
    json_object_set_new(seen, name, json_true());
    validate_keys(causes, at, json_object_get(entry, "topologyKeys"));
    free(name_field);
    free(id_field);
}

static void validate_list(struct as_causes *causes, const json_t *list, const char *path)
{
    json_t *seen = json_object(), *entry;
    size_t i;
    json_array_foreach (list, i, entry) {
        char *at = need_printf("%s[%zu]", path, i);
        validate_entry(causes, at, entry, seen);
        free(at);
    }
    json_decref(seen);
}

/* name -> first entry of that name, borrowed values. */
static json_t *by_name(const json_t *list)
{
    json_t *index = json_object(), *entry;
    size_t i;
    json_array_foreach (list, i, entry) {
        const char *name = as_json_str(entry, "name");
        if (!json_object_get(index, name)) json_object_set(index, name, entry);
    }
    return index;
}

static bool same_id(const json_t *a, const json_t *b)
{
    return !strcmp(as_json_str(a, "nodeID"), as_json_str(b, "nodeID"));
}

static void validate_immutable(struct as_change *c, const json_t *drivers)
{
    json_t *old = by_name(as_json_at(c->old, "spec", "drivers")), *entry;
    size_t i;
    json_array_foreach (drivers, i, entry) {
        const json_t *before = json_object_get(old, as_json_str(entry, "name"));
        bool same = !before || (same_id(before, entry) && as_json_same(json_object_get(before, "topologyKeys"),
                                                                       json_object_get(entry, "topologyKeys")));
        if (!same) as_cause_invalid(c->causes, "spec.drivers", entry, "field is immutable");
    }
    json_decref(old);
}

/* The pair (completed id, registered id) of a name is judged when it is new, not while it just stays. */
static bool had_pair(const json_t *old_drivers, const json_t *old_registrations, const json_t *driver,
                     const json_t *registration)
{
    const char *name = as_json_str(registration, "name");
    const json_t *d = json_object_get(old_drivers, name), *r = json_object_get(old_registrations, name);
    return d && r && same_id(d, driver) && same_id(r, registration);
}

static void validate_pairs(struct as_change *c, const json_t *spec)
{
    const json_t *old_spec = json_object_get(c->old, "spec");
    json_t *drivers = by_name(json_object_get(spec, "drivers"));
    json_t *old_drivers = by_name(json_object_get(old_spec, "drivers"));
    json_t *old_registrations = by_name(json_object_get(old_spec, "driverRegistrations")), *entry;
    size_t i;
    json_array_foreach (json_object_get(spec, "driverRegistrations"), i, entry) {
        const json_t *driver = json_object_get(drivers, as_json_str(entry, "name"));
        if (!driver || same_id(driver, entry) || had_pair(old_drivers, old_registrations, driver, entry)) continue;
        char *field = need_printf("spec.driverRegistrations[%zu].nodeID", i);
        as_cause_invalid_text(c->causes, field, as_json_str(entry, "nodeID"),
                              "must match the nodeID of the entry with the same name in spec.drivers");
        free(field);
    }
    json_decref(drivers);
    json_decref(old_drivers);
    json_decref(old_registrations);
}

static void validate_health(struct as_causes *causes, const json_t *list)
{
    json_t *seen = json_object(), *entry;
    size_t i;
    json_array_foreach (list, i, entry) {
        const char *name = as_json_str(entry, "name");
        char *field = need_printf("status.storageHealth[%zu].name", i);
        char *conditions = need_printf("status.storageHealth[%zu].conditions", i);
        validate_name(causes, field, name);
        if (json_object_get(seen, name)) as_cause_duplicate(causes, field, name);
        json_object_set_new(seen, name, json_true());
        size_t n = json_array_size(json_object_get(entry, "conditions"));
        if (n > MAX_CONDITIONS)
            as_cause(causes, "FieldValueTooMany", conditions, "Too many: %zu: must have at most %d items", n,
                     MAX_CONDITIONS);
        free(field);
        free(conditions);
    }
    json_decref(seen);
}

void as_csinode_validate(struct as_change *c)
{
    const json_t *spec = json_object_get(c->object, "spec"), *drivers = json_object_get(spec, "drivers");
    validate_list(c->causes, drivers, "spec.drivers");
    validate_immutable(c, drivers);
    validate_list(c->causes, json_object_get(spec, "driverRegistrations"), "spec.driverRegistrations");
    validate_pairs(c, spec);
    validate_health(c->causes, as_json_at(c->object, "status", "storageHealth"));
}
