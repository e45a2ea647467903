/* SPDX-License-Identifier: Apache-2.0 */
/* The status document: the core's part, with what the engine's edges know around it. Engine thread. */
#ifndef CR_ENGINE_DOCUMENT_H
#define CR_ENGINE_DOCUMENT_H

#include <jansson.h>

#include "io/access.h"
#include "io/watcher.h"

struct cr_document {
    json_t *core;     /* of cr_core_status; taken. NULL: no memory */
    json_t *requests; /* of cr_http_request_counts; taken. NULL: no memory */
    const char *node_name;
    const struct cr_access *access;           /* NULL: local only */
    const struct cr_watcher_status *registry; /* NULL: no first door */
};

json_t *cr_document_build(struct cr_document *d); /* a new reference; NULL: no memory */

#endif
