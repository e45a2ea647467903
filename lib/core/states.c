/* SPDX-License-Identifier: Apache-2.0 */
#include "core/states.h"

static const struct {
    const char *name;
    unsigned to;
} table[] = {
#define X(state, text, successors) [CR_STATE_##state] = {text, successors},
    CR_STATES(X)
#undef X
};

const char *cr_state_name(enum cr_state state) { return table[state].name; }

bool cr_state_may_follow(enum cr_state from, enum cr_state to)
{
    return to == CR_STATE_NEW || (table[from].to >> to) & 1u;
}
