/* SPDX-License-Identifier: Apache-2.0 */
/* A small seeded generator for jitter. Not for secrets. The same seed gives the same numbers on every machine. */
#ifndef CR_BASE_RNG_H
#define CR_BASE_RNG_H

#include <stdint.h>

struct cr_rng {
    uint64_t state;
};

/* splitmix64: one addition and a mix per number. */
static inline uint64_t cr_rng_next(struct cr_rng *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform enough for jitter: 0 .. n-1; 0 for n = 0. */
static inline uint64_t cr_rng_below(struct cr_rng *r, uint64_t n) { return n ? cr_rng_next(r) % n : 0; }

#endif
