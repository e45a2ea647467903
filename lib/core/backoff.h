/* SPDX-License-Identifier: Apache-2.0 */
/* Growing pauses between tries: first, twice that, ... up to a cap, each with 0 to 10 % on top. Pure. */
#ifndef CR_CORE_BACKOFF_H
#define CR_CORE_BACKOFF_H

#include <stdint.h>

#include "base/rng.h"

#define CR_BACKOFF_FIRST_MS  500 /* attempts of a plugin, and an API that is not usable */
#define CR_BACKOFF_CAP_MS    122000
#define CR_CONFLICT_FIRST_MS 10 /* a write that lost against another writer */
#define CR_CONFLICT_CAP_MS   1000
#define CR_CONNECT_FIRST_MS  10 /* a socket file whose owner does not listen yet */
#define CR_CONNECT_CAP_MS    1000

struct cr_backoff {
    unsigned failures; /* 0: the next pause is the first; never past the number that reaches the cap */
};

/* The pause before the next try, in milliseconds; counts one failure. 0 < first_ms <= cap_ms <= INT64_MAX / 4. */
int64_t cr_backoff_next(struct cr_backoff *b, int64_t first_ms, int64_t cap_ms, struct cr_rng *rng);
void cr_backoff_reset(struct cr_backoff *b);

#endif
