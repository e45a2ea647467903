/* SPDX-License-Identifier: Apache-2.0 */
/* The event object behind include/csireg/event.h. Made by the core, owned by whoever holds it. */
#ifndef CR_CORE_EVENT_H
#define CR_CORE_EVENT_H

#include "base/error.h"
#include "base/list.h"
#include "csireg/event.h"

struct csireg_event {
    struct cr_list node; /* of the engine's queue */
    enum csireg_event_kind kind;
    char *driver, *path, *endpoint, *type; /* NULL reads as "" */
    char **versions;                       /* NULL-terminated, PLUGIN only */
    uint64_t token;                        /* PLUGIN, PLUGIN_GONE */
    uint64_t generation;                   /* rises with every event of the manager */
    struct csireg_error *error;
};

struct csireg_event *cr_event_new(enum csireg_event_kind kind, const char *driver,
                                  const char *path); /* NULL: no memory */

#endif
