/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits of a CSINode on the JSON as received: what is not named here stays as it was, unknown members included. Pure.
 *
 * An object given to anything below passed cr_csinode_check or came from cr_csinode_new. Edits work in place; edit a
 * json_deep_copy, because an edit that ends with CSIREG_ERR_NOMEM may be half done. null, absent and [] all mean empty.
 */
#ifndef CR_CORE_CSINODE_H
#define CR_CORE_CSINODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define CR_MIGRATED_PLUGINS_ANNOTATION "storage.alpha.kubernetes.io/migrated-plugins"

/* A wanted entry of spec.drivers; all borrowed. */
struct cr_csinode_driver {
    const char *name, *node_id;
    const char *const *topology_keys; /* sorted bytewise, unique */
    size_t n_topology_keys;
    bool has_count;
    int32_t count;
};

enum cr_driver_match {
    CR_DRIVER_ABSENT,
    CR_DRIVER_EQUAL,            /* nodeID, topologyKeys as a set, and count */
    CR_DRIVER_COUNT_DIFFERS,    /* an edit in place will do */
    CR_DRIVER_IMMUTABLE_DIFFERS /* nodeID or topologyKeys: the entry must be removed by an update of its own first */
};
enum cr_registration_match { CR_REGISTRATION_ABSENT, CR_REGISTRATION_EQUAL, CR_REGISTRATION_DIFFERS };
enum cr_owner {
    CR_OWNER_OK,
    CR_OWNER_MISSING, /* no owner of kind Node */
    CR_OWNER_STALE    /* owners of kind Node, but none is this one: the object is from an earlier machine */
};

/* Kind, name, resourceVersion and uid there; metadata, spec, lists and their entries of the right JSON types.
 * 0, REFUSED (persistent) or NOMEM. */
int cr_csinode_check(const json_t *obj, const char *expected_name, struct csireg_error **err);

/* ---- questions ---- */

const char *cr_csinode_uid(const json_t *obj);              /* borrowed; NULL on a new object */
const char *cr_csinode_resource_version(const json_t *obj); /* likewise */
enum cr_driver_match cr_csinode_match_driver(const json_t *obj, const struct cr_csinode_driver *want);
enum cr_registration_match cr_csinode_match_registration(const json_t *obj, const char *name, const char *node_id);
const char *cr_csinode_driver_node_id(const json_t *obj,
                                      const char *name); /* borrowed; NULL: no entry; "": one without an id */
enum cr_owner cr_csinode_owner(const json_t *obj, const char *node_name, const char *uid);
json_t *cr_csinode_names(const json_t *obj); /* names in either list, unique, an array of strings; NULL: no memory */

/* ---- edits: 0 or CSIREG_ERR_NOMEM ---- */

/* Appends, or edits only the count in place: stored key order and unknown members stay. CSIREG_ERR_INVALID, and nothing
 * is touched, when the entry differs in what is immutable. */
int cr_csinode_put_driver(json_t *obj, const struct cr_csinode_driver *want);
int cr_csinode_put_registration(json_t *obj, const char *name, const char *node_id); /* appends, or edits the nodeID */
int cr_csinode_remove_driver(json_t *obj, const char *name);                         /* 0 also when absent */
int cr_csinode_remove_registration(json_t *obj, const char *name);                   /* 0 also when absent */
int cr_csinode_add_owner(json_t *obj, const char *node_name, const char *uid);
/* Compared as a set: the annotation is rewritten (sorted) only when it differs. n = 0: untouched. */
int cr_csinode_set_migrated(json_t *obj, const char *const *plugins, size_t n);

/* ---- whole objects ---- */

/* What a create starts from: no entries yet. NULL: no memory. */
json_t *cr_csinode_new(const char *node_name, const char *uid, const char *const *plugins, size_t n);
/* What is sent: spec.drivers always an array, an empty driverRegistrations left out, compact. NULL: no memory. */
char *cr_csinode_text(const json_t *obj);

/*
 * allocatable.count for a driver's max_volumes_per_node: none for 0; none and a warning below 0; the value; INT32_MAX
 * and a warning above it. *out_warning: the caller's text, or NULL. 0 or NOMEM (then nothing is stored).
 */
int cr_csinode_count_from_limit(int64_t max_volumes, bool *has_count, int32_t *count, char **out_warning);

#endif
