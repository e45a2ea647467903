/* SPDX-License-Identifier: Apache-2.0 */
#include "core/backoff.h"

int64_t cr_backoff_next(struct cr_backoff *b, int64_t first_ms, int64_t cap_ms, struct cr_rng *rng)
{
    int64_t delay = first_ms;
    for (unsigned i = 0; i < b->failures && delay < cap_ms; i++) delay *= 2;
    if (delay < cap_ms)
        b->failures++; /* stops at the cap, so it never overflows */
    else
        delay = cap_ms;
    return delay + (int64_t)cr_rng_below(rng, (uint64_t)delay / 10 + 1);
}

void cr_backoff_reset(struct cr_backoff *b) { b->failures = 0; }
