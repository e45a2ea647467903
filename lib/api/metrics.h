/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a snapshot as the records that csireg_metrics_get hands out. Any thread. */
#ifndef CR_API_METRICS_H
#define CR_API_METRICS_H

#include <stddef.h>

#include "csireg/metrics.h"
#include "engine/snapshot.h"

/* Takes the reference, also when it fails. NULL: no memory. */
struct csireg_metrics *cr_metrics_list(struct cr_snapshot *snapshot, size_t queued_events);

#endif
