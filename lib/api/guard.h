/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call is legal when: one table, one guard that every call of a manager passes first. Any thread.
 *
 *                    new   started   stopped   log callback   child after fork
 *   start            yes     -         -           -               -
 *   stop             yes    yes       yes          -               -
 *   free             yes    yes       yes          -           does nothing
 *   fd               yes    yes       yes         yes              -
 *   next_event       yes    yes       yes          -               -
 *   status_json       -     yes       yes          -               -
 *   metrics           -     yes       yes          -               -
 *   all others        -     yes        -           -               -
 *
 * A call out of turn fails with STATE, in a child with FORKED; nothing else of the manager is touched then.
 */
#ifndef CR_API_GUARD_H
#define CR_API_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

#include "csireg/error.h"

enum cr_phase { CR_PHASE_NEW = 1, CR_PHASE_STARTED = 2, CR_PHASE_STOPPED = 4 };

enum cr_call {
    CR_CALL_START,
    CR_CALL_STOP,
    CR_CALL_FD,
    CR_CALL_NEXT_EVENT,
    CR_CALL_SOCKET_SEEN,
    CR_CALL_SOCKET_GONE,
    CR_CALL_DRIVER_REGISTER,
    CR_CALL_DRIVER_DEREGISTER,
    CR_CALL_LOOKUP,
    CR_CALL_RETRY,
    CR_CALL_PLUGIN_RESULT,
    CR_CALL_STATUS_JSON,
    CR_CALL_METRICS,
    CR_CALL_WAIT_INITIAL,
    CR_CALL_EXHAUSTED,
    CR_CALL_COUNT
};

const char *cr_call_name(enum cr_call call); /* "socket_seen" */

/* May this process and thread make the call at all? in_callback: the caller is the engine's own thread. */
int cr_guard_caller(enum cr_call call, pid_t maker, bool in_callback, struct csireg_error **error);
/* And now? */
int cr_guard_phase(enum cr_call call, enum cr_phase phase, struct csireg_error **error);

#endif
