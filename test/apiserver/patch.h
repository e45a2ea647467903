/* SPDX-License-Identifier: Apache-2.0 */
/* Patches on JSON trees. Pure. */
#ifndef APISERVER_PATCH_H
#define APISERVER_PATCH_H

#include <jansson.h>

#include "apiserver/schema.h"

/* RFC 7386. Changes target in place and returns it, or what takes its place (then target is released). */
json_t *as_merge_patch(json_t *target, const json_t *patch);

/*
 * Kubernetes' strategic merge: lists that have a merge key in the schema are merged by it; $patch,
 * $deleteFromPrimitiveList, $setElementOrder and $retainKeys are honoured. Changes target, an object, in place.
 * False and *out_error (malloc'ed): the patch cannot be applied.
 */
bool as_strategic_patch(const struct as_schema *schema, json_t *target, const json_t *patch, char **out_error);

/* RFC 6902. Changes *target in place, also when an operation fails: then false. */
#define AS_MAX_OPERATIONS 10000
bool as_json_patch(json_t **target, const json_t *patch);

#endif
