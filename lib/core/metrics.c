/* SPDX-License-Identifier: Apache-2.0 */
#include "core/metrics.h"

#include <string.h>

#include "core/internal.h"

const char *cr_step_name(enum cr_step step)
{
    static const char *const names[] = {
#define X(name, text) text,
        CR_STEPS(X)
#undef X
    };
    return names[step];
}

const char *cr_driver_state_name(enum cr_driver_state state)
{
    static const char *const names[] = {"registering", "registered", "unconfirmed", "removing"};
    return names[state];
}

void cr_count_failure(struct cr_counters *c, const char *step, bool persistent)
{
    enum cr_step s = 0;
    while (s < CR_STEP_OTHER && strcmp(cr_step_name(s), step) != 0) s++;
    c->failures[s][persistent]++;
}

void cr_count_refresh(struct cr_counters *c, int result)
{
    if (result >= CSIREG_EXHAUSTED_REFRESHED && result <= CSIREG_EXHAUSTED_FAILED) c->refreshes[result]++;
}

static enum cr_flow_count flow_of(const struct cr_driver *d)
{
    if (d->registered) return d->view.flow == CSIREG_FLOW_NODE ? CR_FLOW_IN_NODE : CR_FLOW_IN_CONTROLLER;
    if (d->desired.want == CR_WANT_NODE_FLOW) return CR_FLOW_IN_NODE;
    return d->desired.want == CR_WANT_CONTROLLER_FLOW ? CR_FLOW_IN_CONTROLLER : CR_FLOW_UNDECIDED;
}

void cr_core_numbers(const struct cr_core *core, struct cr_numbers *out)
{
    *out = (struct cr_numbers){.counters = core->counters,
                               .api_state = core->publisher.state,
                               .gate = core->config.gate,
                               .capability = core->config.node_info_from_controller};
    CR_LIST_FOREACH (l, &core->instances) out->sockets[cr_instance_of(l)->state]++;
    CR_LIST_FOREACH (l, &core->drivers) {
        const struct cr_driver *d = cr_driver_of(l);
        out->drivers[cr_driver_state(d)][flow_of(d)]++;
    }
}

bool cr_core_knows(const struct cr_core *core, const char *driver)
{
    CR_LIST_FOREACH (l, &core->drivers)
        if (strcmp(cr_driver_of(l)->name, driver) == 0) return true;
    return false;
}
