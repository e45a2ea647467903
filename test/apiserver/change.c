// SPDX-License-Identifier: Apache-2.0
#include "apiserver/change.h"

#include <stdlib.h>
#include <string.h>

#include "apiserver/answer.h"
#include "apiserver/clock.h"
#include "apiserver/json.h"
#include "apiserver/names.h"
#include "common/alloc.h"

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

static void validate_key(struct as_change *c, const char *field, const char *key, const char *tested)
{
    struct as_reasons why = as_name_qualified(tested);
    for (size_t i = 0; i < why.n; i++) as_cause_invalid_text(c->causes, field, key, why.text[i]);
}

static void validate_labels(struct as_change *c, json_t *labels)
{
    const char *key, *why;
    json_t *value;
    json_object_foreach (labels, key, value) {
        validate_key(c, "metadata.labels", key, key);
        if ((why = as_name_label_value(json_string_value(value))))
            as_cause_invalid_text(c->causes, "metadata.labels", json_string_value(value), why);
    }
}

/* Annotation keys may be written in upper case. */
static void validate_annotation_key(struct as_change *c, const char *key)
{
    char *lower = need_strdup(key);
    for (char *p = lower; *p; p++) *p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    validate_key(c, "metadata.annotations", key, lower);
    free(lower);
}

static void validate_annotations(struct as_change *c, json_t *annotations)
{
    const char *key;
    json_t *value;
    size_t total = 0;
    json_object_foreach (annotations, key, value) {
        validate_annotation_key(c, key);
        total += strlen(key) + json_string_length(value);
    }
    if (total > MAX_ANNOTATIONS) as_cause_too_long(c->causes, "metadata.annotations", MAX_ANNOTATIONS);
}

static void validate_owner(struct as_change *c, const json_t *owner, size_t at)
{
    static const char *const needed[] = {"apiVersion", "kind", "name", "uid"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (*as_json_str(owner, needed[i])) continue;
        char *field = need_printf("metadata.ownerReferences[%zu].%s", at, needed[i]);
        as_cause_required(c->causes, field, "must not be empty");
        free(field);
    }
}

static void two_controllers(struct as_change *c, const json_t *owners, const json_t *first, const json_t *second)
{
    char *why =
        need_printf("Only one reference can have Controller set to true. Found \"true\" in references for %s/%s "
                    "and %s/%s",
                    as_json_str(first, "kind"), as_json_str(first, "name"), as_json_str(second, "kind"),
                    as_json_str(second, "name"));
    as_cause_invalid(c->causes, "metadata.ownerReferences", owners, why);
    free(why);
}

static void validate_owners(struct as_change *c, json_t *owners)
{
    size_t i;
    json_t *owner, *controller = NULL;
    json_array_foreach (owners, i, owner) {
        validate_owner(c, owner, i);
        if (!as_json_true(owner, "controller")) continue;
        if (controller) two_controllers(c, owners, controller, owner);
        controller = owner;
    }
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
