/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which inputs met an instance in which state, over all seeds of a run; and which steps of the state table were taken.
 * Looks at the core's own objects, which nothing else here does. Off until coverage_start.
 */
#ifndef SIM_COVERAGE_H
#define SIM_COVERAGE_H

#include "sim/sim.h"

void coverage_start(void);
void coverage_input(struct sim *s, const struct cr_input *in); /* before the core gets it */
void coverage_step(const char *text);                          /* a log line: "from -> to" counts, others do not */
/* Prints the table; false when a pair that can be reached was not, or one that cannot be was. */
bool coverage_report(void);

#endif
