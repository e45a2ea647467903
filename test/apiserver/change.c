// SPDX-License-Identifier: Apache-2.0
#include "apiserver/change.h"

#include <string.h>

#include "apiserver/answer.h"
#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "apiserver/names.h"

#define MAX_ANNOTATIONS (256 * 1024) /* bytes of all keys and values */

static void drop_duplicate_owners(json_t *metadata, struct as_answer *a)
{
    json_t *owners = json_object_get(metadata, "ownerReferences"), *seen = json_object();
    for (size_t i = 0; i < json_array_size(owners);) {
        const char *uid = as_json_str(json_array_get(owners, i), "uid");
        if (json_object_get(seen, uid)) {
            as_answer_warn(a, "metadata.ownerReferences: duplicate uid \"%s\" was dropped", uid);
            json_array_remove(owners, i);
            continue;
        }
        json_object_set_new(seen, uid, json_true());
        i++;
    }
    json_decref(seen);
}

static void first_metadata(json_t *metadata)
{
    char uid[AS_UUID_SIZE], date[AS_DATE_SIZE];
    as_uuid(uid);
    as_date(date);
    as_json_set(metadata, "uid", json_string(uid));
    as_json_set(metadata, "creationTimestamp", json_string(date));
    as_json_set(metadata, "deletionTimestamp", NULL);
    as_json_set(metadata, "deletionGracePeriodSeconds", NULL);
    as_json_set(metadata, "selfLink", NULL);
}

static void kept_metadata(json_t *metadata, const json_t *old)
{
    static const char *const kept[] = {"name",
                                       "namespace",
                                       "uid",
                                       "generation",
                                       "creationTimestamp",
                                       "deletionTimestamp",
                                       "selfLink",
                                       "deletionGracePeriodSeconds"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) as_json_copy(metadata, old, kept[i]);
}

/* Through /status only status, and for some types labels and annotations, comes from the request. */
static void only_status(struct as_change *c, const struct as_resource *type)
{
    json_t *status = json_incref(json_object_get(c->object, "status"));
    json_t *sent = json_incref(json_object_get(c->object, "metadata")), *kept = json_deep_copy(c->old);
    json_object_clear(c->object);
    json_object_update(c->object, kept);
    as_json_set(c->object, "status", status);
    json_t *metadata = json_object_get(c->object, "metadata");
    if (type->status_takes_labels) {
        as_json_copy(metadata, sent, "labels");
        as_json_copy(metadata, sent, "annotations");
    }
    as_json_copy(metadata, sent, "resourceVersion");
    json_decref(kept);
    json_decref(sent);
}

void as_change_prepare(struct as_change *c, const struct as_resource *type, struct as_answer *a)
{
    if (c->old && c->status)
        only_status(c, type);
    else if (c->old && type->has_status)
        as_json_copy(c->object, c->old, "status");
    json_t *metadata = as_json_child(c->object, "metadata");
    drop_duplicate_owners(metadata, a);
    if (c->old)
        kept_metadata(metadata, json_object_get(c->old, "metadata"));
    else
        first_metadata(metadata);
    type->prepare(c);
}

static void validate_labels(struct as_change *c, json_t *labels)
{
    const char *key, *why;
    json_t *value;
    json_object_foreach(labels, key, value)
    {
        if ((why = as_name_qualified(key))) as_cause_invalid_text(c->causes, "metadata.labels", key, why);
        if ((why = as_name_label_value(json_string_value(value))))
            as_cause_invalid_text(c->causes, "metadata.labels", json_string_value(value), why);
    }
}

/* Annotation keys may be written in upper case. */
static const char *annotation_key(const char *key)
{
    char lower[512];
    size_t n = strlen(key);
    if (n >= sizeof lower) return as_name_qualified(key);
    for (size_t i = 0; i <= n; i++) lower[i] = (char)(key[i] >= 'A' && key[i] <= 'Z' ? key[i] - 'A' + 'a' : key[i]);
    return as_name_qualified(lower);
}

static void validate_annotations(struct as_change *c, json_t *annotations)
{
    const char *key, *why;
    json_t *value;
    size_t total = 0;
    json_object_foreach(annotations, key, value)
    {
        if ((why = annotation_key(key))) as_cause_invalid_text(c->causes, "metadata.annotations", key, why);
        total += strlen(key) + json_string_length(value);
    }
    if (total > MAX_ANNOTATIONS) as_cause_too_long(c->causes, "metadata.annotations", MAX_ANNOTATIONS);
}

static void validate_owner(struct as_change *c, const json_t *owner)
{
    static const char *const needed[][3] = {
        {"apiVersion", "metadata.ownerReferences.apiVersion", "version must not be empty"},
        {"kind", "metadata.ownerReferences.kind", "must not be empty"},
        {"name", "metadata.ownerReferences.name", "must not be empty"},
        {"uid", "metadata.ownerReferences.uid", "must not be empty"}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!*as_json_str(owner, needed[i][0])) as_cause_invalid_text(c->causes, needed[i][1], "", needed[i][2]);
}

static void validate_owners(struct as_change *c, json_t *owners)
{
    size_t i, controllers = 0;
    json_t *owner;
    json_array_foreach(owners, i, owner)
    {
        validate_owner(c, owner);
        controllers += as_json_true(owner, "controller");
    }
    if (controllers > 1)
        as_cause_invalid(c->causes, "metadata.ownerReferences", owners,
                         "Only one reference can have Controller set to true");
}

void as_change_validate(struct as_change *c, const struct as_resource *type)
{
    json_t *metadata = json_object_get(c->object, "metadata");
    const char *why = as_name_subdomain(as_json_str(metadata, "name"));
    if (!c->old && why) as_cause_invalid_text(c->causes, "metadata.name", as_json_str(metadata, "name"), why);
    validate_labels(c, json_object_get(metadata, "labels"));
    validate_annotations(c, json_object_get(metadata, "annotations"));
    validate_owners(c, json_object_get(metadata, "ownerReferences"));
    type->validate(c);
}
