/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks now and then whether the service socket of a registered driver takes connections: a connect that is closed
 * again at once. Status says since when it does not; with endpoint-dead-after the registration ends after that time,
 * and the attempts that follow bring it back when the driver answers again.
 */
#include "core/internal.h"

#define IDLE_PERIOD_MS 60000 /* without endpoint-dead-after: for the status alone */
#define MIN_PERIOD_MS  1000
#define MAX_PERIOD_MS  10000

static int64_t period(const struct cr_core *core)
{
    int64_t p = core->config.endpoint_dead_after_ms / 4;
    if (p == 0) return IDLE_PERIOD_MS;
    return p < MIN_PERIOD_MS ? MIN_PERIOD_MS : p > MAX_PERIOD_MS ? MAX_PERIOD_MS : p;
}

void cr_probe_stop(struct cr_instance *i)
{
    i->probe = 0;
    i->probe_ms = CR_NEVER;
    i->unreachable_ms = i->unreachable_wall_ms = 0;
}

void cr_probe_schedule(struct cr_instance *i)
{
    cr_probe_stop(i);
    i->probe_ms = i->core->now.mono_ms + period(i->core);
}

static bool watched(const struct cr_instance *i)
{
    return cr_instance_owns(i) && i->driver->registered &&
           (i->state == CR_STATE_REGISTERED || i->state == CR_STATE_UNCONFIRMED);
}

void cr_probe_timer(struct cr_instance *i)
{
    if (i->probe || i->probe_ms > i->core->now.mono_ms) return;
    i->probe_ms = i->core->now.mono_ms + period(i->core);
    if (watched(i)) i->probe = cr_emit_probe(i->core, i->driver->view.endpoint);
}

static void note(struct cr_instance *i, bool unreachable)
{
    const struct cr_time *now = &i->core->now;
    if (unreachable == (i->unreachable_wall_ms != 0)) return;
    i->unreachable_ms = unreachable ? now->mono_ms : 0;
    i->unreachable_wall_ms = unreachable ? now->wall_ms : 0;
    cr_driver_changed(i->driver);
    i->core->generation++;
    cr_emit_log(i->core, unreachable ? CSIREG_LOG_WARNING : CSIREG_LOG_INFO, "registration", i,
                unreachable ? "the driver's endpoint does not take connections"
                            : "the driver's endpoint answers again");
}

void cr_probe_answer(struct cr_instance *i, int error_number)
{
    int64_t limit = i->core->config.endpoint_dead_after_ms;
    i->probe = 0;
    if (!watched(i)) return;
    note(i, error_number != 0);
    if (error_number == 0 || limit == 0 || i->core->now.mono_ms - i->unreachable_ms < limit) return;
    struct csireg_error *err =
        cr_error_os(error_number, "%s: the endpoint %s has taken no connection for longer than endpoint-dead-after",
                    i->driver->name, i->driver->view.endpoint);
    cr_error_set_retryable(err, true);
    cr_driver_unregister(i->driver, err);
    cr_instance_failed(i, "endpoint", err);
}
