/* SPDX-License-Identifier: Apache-2.0 */
#include "api/guard.h"

#include <unistd.h>

#include "base/error.h"

#define ALWAYS (CR_PHASE_NEW | CR_PHASE_STARTED | CR_PHASE_STOPPED)

static const struct {
    const char *name;
    unsigned phases;
    bool in_callback;
} table[CR_CALL_COUNT] = {
    [CR_CALL_START] = {"start", CR_PHASE_NEW, false},
    [CR_CALL_STOP] = {"stop", ALWAYS, false},
    [CR_CALL_FD] = {"fd", ALWAYS, true},
    [CR_CALL_NEXT_EVENT] = {"next_event", ALWAYS, false},
    [CR_CALL_SOCKET_SEEN] = {"socket_seen", CR_PHASE_STARTED, false},
    [CR_CALL_SOCKET_GONE] = {"socket_gone", CR_PHASE_STARTED, false},
    [CR_CALL_DRIVER_REGISTER] = {"driver_register", CR_PHASE_STARTED, false},
    [CR_CALL_DRIVER_DEREGISTER] = {"driver_deregister", CR_PHASE_STARTED, false},
    [CR_CALL_LOOKUP] = {"lookup", CR_PHASE_STARTED, false},
    [CR_CALL_RETRY] = {"retry", CR_PHASE_STARTED, false},
    [CR_CALL_PLUGIN_RESULT] = {"plugin_result", CR_PHASE_STARTED, false},
    [CR_CALL_STATUS_JSON] = {"status_json", CR_PHASE_STARTED | CR_PHASE_STOPPED, false},
    [CR_CALL_METRICS] = {"metrics", CR_PHASE_STARTED | CR_PHASE_STOPPED, false},
    [CR_CALL_WAIT_INITIAL] = {"wait_initial", CR_PHASE_STARTED, false},
    [CR_CALL_EXHAUSTED] = {"exhausted", CR_PHASE_STARTED, false},
};

const char *cr_call_name(enum cr_call call) { return table[call].name; }

int cr_guard_caller(enum cr_call call, pid_t maker, bool in_callback, struct csireg_error **error)
{
    if (getpid() != maker)
        return cr_error_put(error, cr_error_new(CSIREG_ERR_FORKED,
                                                "%s: the manager belongs to process %d; make one in this process",
                                                table[call].name, (int)maker));
    if (in_callback && !table[call].in_callback)
        return cr_error_put(error,
                            cr_error_new(CSIREG_ERR_STATE, "%s: not from inside the log callback", table[call].name));
    return CSIREG_OK;
}

int cr_guard_phase(enum cr_call call, enum cr_phase phase, struct csireg_error **error)
{
    if (table[call].phases & phase) return CSIREG_OK;
    const char *why = phase == CR_PHASE_NEW       ? "the manager is not started yet"
                      : phase == CR_PHASE_STARTED ? "the manager is started already"
                                                  : "the manager is stopped; make a new one";
    return cr_error_put(error, cr_error_new(CSIREG_ERR_STATE, "%s: %s", table[call].name, why));
}
