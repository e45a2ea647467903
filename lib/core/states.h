/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registration state machine of one instance, as a table: state, its name in status and logs, where it may go.
 * cr_instance_set_state is the only way from one state to another and refuses what the table does not allow.
 * The diagram in lib/core/registration.mmd is made from this table.
 */
#ifndef CR_CORE_STATES_H
#define CR_CORE_STATES_H

#include <stdbool.h>

#define CR_TO(state) (1u << CR_STATE_##state)
/* Not in the table: every state may fall back to NEW (the socket was made anew, the host asked for a retry). */
#define CR_TO_FAILED (CR_TO(REJECTING) | CR_TO(BACKOFF) | CR_TO(STANDBY) | CR_TO(UNCONFIRMED) | CR_TO(REGISTERED))

/* clang-format off */
#define CR_STATES(X)                                                                                              \
    X(NEW,          "new",                   CR_TO(CONNECTING) | CR_TO(ENDPOINT) | CR_TO(BACKOFF) | CR_TO(STANDBY)) \
    X(CONNECTING,   "connecting",            CR_TO(GET_INFO) | CR_TO_FAILED)                 \
    X(GET_INFO,     "get-info",              CR_TO(ENDPOINT) | CR_TO(HANDLER) | CR_TO_FAILED)                      \
    X(HANDLER,      "handler",               CR_TO(NOTIFYING) | CR_TO_FAILED)                                       \
    X(ENDPOINT,     "connecting-endpoint",   CR_TO(CAPABILITIES) | CR_TO(NODE_INFO) | CR_TO_FAILED)                 \
    X(CAPABILITIES, "node-get-capabilities", CR_TO(CSIDRIVER) | CR_TO(NODE_INFO) | CR_TO_FAILED)                    \
    X(CSIDRIVER,    "reading-csidriver",     CR_TO(NODE_INFO) | CR_TO_FAILED)                                       \
    X(NODE_INFO,    "node-get-info",         CR_TO(PUBLISHING) | CR_TO_FAILED)                                      \
    X(PUBLISHING,   "publishing",            CR_TO(NOTIFYING) | CR_TO(ENDPOINT) | CR_TO_FAILED)                     \
    X(NOTIFYING,    "notifying",             CR_TO(REGISTERED) | CR_TO(UNCONFIRMED) | CR_TO(STANDBY))               \
    X(REJECTING,    "rejecting",             CR_TO(BACKOFF) | CR_TO(STANDBY) | CR_TO(UNCONFIRMED))                  \
    X(REGISTERED,   "registered",            CR_TO(ENDPOINT) | CR_TO(BACKOFF) | CR_TO(STANDBY))                      \
    X(UNCONFIRMED,  "unconfirmed",           CR_TO(BACKOFF) | CR_TO(STANDBY))                                       \
    X(BACKOFF,      "backoff",               0u)                                                                    \
    X(STANDBY,      "standby",               0u)
/* clang-format on */

enum cr_state {
#define X(name, text, to) CR_STATE_##name,
    CR_STATES(X)
#undef X
        CR_STATE_COUNT
};

const char *cr_state_name(enum cr_state state);
bool cr_state_may_follow(enum cr_state from, enum cr_state to);

#endif
