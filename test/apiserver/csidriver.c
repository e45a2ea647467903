// SPDX-License-Identifier: Apache-2.0
/* CSIDriver: a driver's properties as its deployer declares them. */
#include <string.h>

#include "apiserver/answer.h"
#include "apiserver/json.h"
#include "apiserver/resource.h"

#define MIN_UPDATE_PERIOD 10 /* seconds */

static const struct as_field token_fields[] = {
    {.name = "audience", .kind = AS_KIND_STRING}, {.name = "expirationSeconds", .kind = AS_KIND_INT64}, {0}};
static const struct as_schema token_schema = {token_fields, false};

static const struct as_field spec_fields[] = {
    {.name = "attachRequired", .kind = AS_KIND_BOOL},
    {.name = "podInfoOnMount", .kind = AS_KIND_BOOL},
    {.name = "volumeLifecycleModes", .kind = AS_KIND_LIST, .merge_key = NULL},
    {.name = "storageCapacity", .kind = AS_KIND_BOOL},
    {.name = "fsGroupPolicy", .kind = AS_KIND_STRING},
    {.name = "tokenRequests", .kind = AS_KIND_LIST, .of = &token_schema},
    {.name = "requiresRepublish", .kind = AS_KIND_BOOL},
    {.name = "seLinuxMount", .kind = AS_KIND_BOOL},
    {.name = "nodeAllocatableUpdatePeriodSeconds", .kind = AS_KIND_INT64},
    {.name = "serviceAccountTokenInSecrets", .kind = AS_KIND_BOOL},
    {.name = "preventPodSchedulingIfMissing", .kind = AS_KIND_BOOL},
    {0},
};
static const struct as_schema spec_schema = {spec_fields, false};

static const struct as_field csidriver_fields[] = {
    {.name = "kind", .kind = AS_KIND_STRING},
    {.name = "apiVersion", .kind = AS_KIND_STRING},
    {.name = "metadata", .kind = AS_KIND_OBJECT, .of = &as_metadata_schema},
    {.name = "spec", .kind = AS_KIND_OBJECT, .of = &spec_schema},
    {0},
};
const struct as_schema as_csidriver_schema = {csidriver_fields, false};

static void default_to(json_t *spec, const char *field, json_t *value)
{
    if (as_json_empty(json_object_get(spec, field)))
        json_object_set_new(spec, field, value);
    else
        json_decref(value);
}

void as_csidriver_prepare(struct as_change *c)
{
    json_t *spec = as_json_child(c->object, "spec");
    default_to(spec, "attachRequired", json_true());
    default_to(spec, "podInfoOnMount", json_false());
    default_to(spec, "storageCapacity", json_false());
    default_to(spec, "fsGroupPolicy", json_string("ReadWriteOnceWithFSType"));
    default_to(spec, "volumeLifecycleModes", json_pack("[s]", "Persistent"));
    default_to(spec, "requiresRepublish", json_false());
    default_to(spec, "seLinuxMount", json_false());
    default_to(spec, "preventPodSchedulingIfMissing", json_false());
    if (!c->old || json_equal(spec, json_object_get(c->old, "spec"))) return;
    json_t *metadata = json_object_get(c->object, "metadata");
    as_json_set(metadata, "generation", json_integer(as_json_int(metadata, "generation", 0) + 1));
}

static void validate_modes(struct as_change *c, const json_t *modes)
{
    size_t i;
    json_t *mode;
    json_array_foreach (modes, i, mode) {
        const char *m = json_string_value(mode);
        if (strcmp(m, "Persistent") != 0 && strcmp(m, "Ephemeral") != 0)
            as_cause_not_supported(c->causes, "spec.volumeLifecycleModes", m, "\"Ephemeral\", \"Persistent\"");
    }
}

static void validate_group_policy(struct as_change *c, const char *policy)
{
    static const char *const known[] = {"ReadWriteOnceWithFSType", "File", "None"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(policy, known[i])) return;
    as_cause_not_supported(c->causes, "spec.fsGroupPolicy", policy, "\"File\", \"None\", \"ReadWriteOnceWithFSType\"");
}

static void validate_immutable(struct as_change *c, const json_t *spec, const char *key, const char *field)
{
    const json_t *old = as_json_at(c->old, "spec", key), *now = json_object_get(spec, key);
    if (c->old && !json_equal(old, now)) as_cause_invalid(c->causes, field, now, "field is immutable");
}

void as_csidriver_validate(struct as_change *c)
{
    const json_t *spec = json_object_get(c->object, "spec");
    const json_t *period = json_object_get(spec, "nodeAllocatableUpdatePeriodSeconds");
    validate_group_policy(c, as_json_str(spec, "fsGroupPolicy"));
    validate_modes(c, json_object_get(spec, "volumeLifecycleModes"));
    if (period && json_integer_value(period) < MIN_UPDATE_PERIOD)
        as_cause_invalid(c->causes, "spec.nodeAllocatableUpdatePeriodSeconds", period,
                         "must be greater than or equal to 10 seconds");
    validate_immutable(c, spec, "attachRequired", "spec.attachedRequired"); /* the field is spelt so in Kubernetes */
    validate_immutable(c, spec, "volumeLifecycleModes", "spec.volumeLifecycleModes");
}
