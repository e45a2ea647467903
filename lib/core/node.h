/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Node object: what is kept of it, and the one patch that is ever written to it (labels of the topology, and the
 * annotation that maps driver names to node ids). Pure. Functions that return int: 0, REFUSED (persistent) or NOMEM.
 */
#ifndef CR_CORE_NODE_H
#define CR_CORE_NODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/messages.h"

#define CR_NODE_ID_ANNOTATION "csi.volume.kubernetes.io/nodeid"

struct cr_node {
    char *uid, *resource_version; /* never empty */
    json_t *labels, *annotations; /* objects, never NULL after a load; parts of the loaded object: not to be edited */
};

/* Refuses another kind or name, and an object without uid or resourceVersion. out: zero or loaded; untouched on
 * failure. */
int cr_node_load(struct cr_node *out, const json_t *object, const char *expected_name, struct csireg_error **err);
void cr_node_fini(struct cr_node *n);

/* Refuses a label that is present with another value, the empty one included. Message: key, reported, existing value.
 */
int cr_node_check_labels(const struct cr_node *n, const struct cr_pair *segments, size_t n_segments,
                         struct csireg_error **err);

/* The annotation as an object driver name -> node id, a new reference that may be edited. Absent, "" and "null" are
 * empty; what is no JSON object of strings is refused (and so never overwritten). */
int cr_node_ids_load(const struct cr_node *n, json_t **out_map, struct csireg_error **err);

/* The annotation's text, compact and sorted; 0 with *out_text NULL for an empty map: the annotation goes. */
int cr_node_ids_text(const json_t *map, char **out_text);

/*
 * The body of a strategic merge patch for nodes/status, conditional on base's resourceVersion, compact and sorted:
 * of labels_to_add (an object of strings, or NULL) what base does not have yet, and with annotation_changed the
 * annotation, null when ids_map is empty. NULL: no memory.
 */
char *cr_node_patch(const struct cr_node *base, const json_t *labels_to_add, bool annotation_changed,
                    const json_t *ids_map);

#endif
