/* SPDX-License-Identifier: Apache-2.0 */
/* The getters of a driver that lookup found. */
#include "core/core.h"

static const char *text(const char *s) { return s ? s : ""; }

const char *csireg_driver_name(const struct csireg_driver *d) { return text(d ? d->name : NULL); }
const char *csireg_driver_endpoint(const struct csireg_driver *d) { return text(d ? d->endpoint : NULL); }
const char *csireg_driver_version(const struct csireg_driver *d) { return text(d ? d->version : NULL); }
const char *csireg_driver_node_id(const struct csireg_driver *d) { return text(d ? d->node_id : NULL); }
enum csireg_flow csireg_driver_flow(const struct csireg_driver *d) { return d ? d->flow : CSIREG_FLOW_NODE; }
