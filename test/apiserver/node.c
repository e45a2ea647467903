// SPDX-License-Identifier: Apache-2.0
/* Node: metadata is checked, spec and status are opaque. */
#include "apiserver/json.h"
#include "apiserver/resource.h"

static const struct as_field typed_fields[] = {{.name = "type", .kind = AS_KIND_STRING}, {0}};
static const struct as_schema typed_schema = {typed_fields, true};

static const struct as_field status_fields[] = {
    {.name = "addresses", .kind = AS_KIND_LIST, .of = &typed_schema, .merge_key = "type"},
    {.name = "conditions", .kind = AS_KIND_LIST, .of = &typed_schema, .merge_key = "type"},
    {0},
};
static const struct as_schema status_schema = {status_fields, true};

static const struct as_field spec_fields[] = {{0}};
static const struct as_schema spec_schema = {spec_fields, true};

static const struct as_field node_fields[] = {
    {.name = "kind", .kind = AS_KIND_STRING},
    {.name = "apiVersion", .kind = AS_KIND_STRING},
    {.name = "metadata", .kind = AS_KIND_OBJECT, .of = &as_metadata_schema},
    {.name = "spec", .kind = AS_KIND_OBJECT, .of = &spec_schema},
    {.name = "status", .kind = AS_KIND_OBJECT, .of = &status_schema},
    {0},
};
const struct as_schema as_node_schema = {node_fields, false};

void as_node_prepare(struct as_change *c)
{
    as_json_child(c->object, "spec");
    as_json_child(c->object, "status");
}

void as_node_validate(struct as_change *c) { (void)c; }
