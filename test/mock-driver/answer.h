/* SPDX-License-Identifier: Apache-2.0 */
/* The response messages of a mock driver. Pure. */
#ifndef MOCK_ANSWER_H
#define MOCK_ANSWER_H

#include "mock-driver/config.h"

/* The answer of driver `number` to its call-th call (from 1) of the method; flagged: controller_get_node_info was set.
 */
void answer_build(const struct config *c, int64_t number, enum mock_method method, int64_t call, bool flagged,
                  struct bytes *out);

#endif
