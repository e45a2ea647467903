/* SPDX-License-Identifier: Apache-2.0 */
/* The library's numbers in Prometheus' text format, version 0.0.4. Any thread. */
#ifndef AGENT_METRICS_H
#define AGENT_METRICS_H

#include <csireg/metrics.h>
#include <stdbool.h>
#include <stdio.h>

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

char *metrics_text(const struct csireg_metrics *metrics); /* the caller's; NULL: no memory */

/* One record; with its help and type when it is the first of its name. */
void metrics_write(FILE *out, const struct csireg_metric *metric, bool first);

#endif
