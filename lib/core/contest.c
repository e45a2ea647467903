/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several instances of one driver name. The higher version wins; of equal ones the newest socket (or, on request, the
 * first). Who loses waits as a standby, without RPCs. Who wins against a registered instance runs its whole attempt
 * beside it (claimant) and takes over only when it is published; until then, and if it fails, the old one is untouched.
 */
#include <string.h>

#include "base/mem.h"
#include "core/internal.h"
#include "core/versions.h"

static int order(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

/* Newest socket: birth time, then generation, then path. */
static int newer(const struct cr_instance *a, const struct cr_instance *b)
{
    int c = order(a->identity.birth_ns, b->identity.birth_ns);
    if (c == 0) c = order((int64_t)a->identity.generation, (int64_t)b->identity.generation);
    return c ? c : strcmp(a->path ? a->path : "", b->path ? b->path : "");
}

/* a, which comes now, against b, which is there already. */
static bool wins(const struct cr_instance *a, const struct cr_instance *b)
{
    int c = cr_version_compare(a->version, b->version);
    if (c != 0) return c > 0;
    return !a->core->config.first_instance_wins && newer(a, b) > 0;
}

static struct csireg_error *taken_error(const struct cr_instance *i, const struct cr_instance *other)
{
    return cr_error_new(
        CSIREG_ERR_REFUSED,
        "%s: another instance registers this driver and comes first (version %s, endpoint %s, registration "
        "socket %s; this one has version %s, endpoint %s): it waits until the other one is gone",
        i->plugin.name, other->version, other->endpoint, other->path ? other->path : "(handed over by the host)",
        i->version, i->endpoint);
}

static void refuse(struct cr_instance *i, const struct cr_instance *other)
{
    i->waits_for_name = true;
    cr_instance_rejected(i, "GetInfo", taken_error(i, other));
}

/* An attempt that had a GetInfo answer and was not ended yet owes its plugin one notification. */
static bool owes_notification(const struct cr_instance *r)
{
    return r->conn && r->state > CR_STATE_GET_INFO && r->state < CR_STATE_NOTIFYING;
}

static void end_attempt(struct cr_instance *r, const struct cr_instance *by)
{
    if (r->state == CR_STATE_CONNECTING || r->state == CR_STATE_GET_INFO)
        return; /* made anew: it contests when it answered */
    r->waits_for_name = true;
    if (owes_notification(r) || !r->path)
        refuse(r, by);
    else if (r->state != CR_STATE_REJECTING) /* that one settles by itself */
        cr_instance_settle(r);
}

/* Ends the attempt of an instance that is not registered: another one is stronger. */
static void displace_attempt(struct cr_driver *d, struct cr_instance *r, const struct cr_instance *by)
{
    if (r->previous == d) { /* its attempt goes on under another name */
        r->previous = NULL;
        cr_driver_release(d, r);
        return;
    }
    if (d->claimant == r)
        cr_publisher_restore(r->core, d);
    else
        cr_publisher_leave(d);
    cr_driver_release(d, r);
    end_attempt(r, by);
}

static const struct cr_instance *stronger(const struct cr_instance *i, const struct cr_driver *d)
{
    if (d->claimant && d->claimant != i && !wins(i, d->claimant)) return d->claimant;
    return d->owner && d->owner != i && !wins(i, d->owner) ? d->owner : NULL;
}

static void keep_previous(struct cr_instance *i)
{
    struct cr_driver *mine = i->driver;
    if (!mine || strcmp(mine->name, i->plugin.name) == 0) return;
    i->previous = mine;
    i->driver = NULL;
}

bool cr_contest_enter(struct cr_instance *i)
{
    keep_previous(i);
    struct cr_driver *d = cr_driver_find(i->core, i->plugin.name);
    const struct cr_instance *other = d ? stronger(i, d) : NULL;
    if (other) {
        refuse(i, other);
        return false;
    }
    if (d && d->claimant && d->claimant != i) displace_attempt(d, d->claimant, i);
    if (d && d->owner && d->owner != i && !d->registered) displace_attempt(d, d->owner, i);
    if (cr_driver_claim(i->core, i->plugin.name, i)) return true;
    cr_instance_rejected(i, "GetInfo", cr_error_oom());
    return false;
}

/* Nothing of the displaced instance failed, so it is told nothing, unless an attempt of its own was still running. */
static void to_standby(const struct cr_driver *d, struct cr_instance *loser, const struct cr_instance *by)
{
    cr_refresh_stop(loser);
    cr_probe_stop(loser);
    if (loser->previous == d) { /* its attempt goes on under another name */
        loser->previous = NULL;
        return;
    }
    loser->driver = NULL;
    cr_emit_log(loser->core, CSIREG_LOG_INFO, "registration", loser, "another instance took over; this one waits");
    end_attempt(loser, by);
}

void cr_contest_won(struct cr_instance *i)
{
    struct cr_driver *d = i->driver;
    if (d->claimant != i) return;
    struct cr_instance *loser = d->owner;
    d->owner = i;
    d->claimant = NULL;
    cr_desired_fini(&d->saved);
    to_standby(d, loser, i);
}

static struct cr_instance *best_standby(struct cr_core *core, const char *name, const struct cr_instance *but)
{
    struct cr_instance *best = NULL;
    CR_LIST_FOREACH (l, &core->instances) {
        struct cr_instance *i = cr_instance_of(l);
        if (i == but || !i->waits_for_name || strcmp(cr_instance_name(i), name) != 0) continue;
        if (!best || wins(i, best)) best = i;
    }
    return best;
}

bool cr_contest_is_taken(const struct cr_instance *i)
{
    const struct cr_driver *d = cr_driver_find(i->core, cr_instance_name(i));
    return d && d->owner && d->owner != i;
}

void cr_contest_name_free(struct cr_core *core, const char *name)
{
    struct cr_instance *i = best_standby(core, name, NULL);
    const struct cr_driver *d = cr_driver_find(core, name);
    bool stays = d && d->owner && i && !wins(i, d->owner); /* only a claimant went: its owner is there still */
    if (i && i->state == CR_STATE_STANDBY && !stays) cr_instance_retry(i);
}

bool cr_contest_succeed(struct cr_instance *gone)
{
    struct cr_driver *d = gone->driver;
    bool claimed = d->claimant;
    struct cr_instance *next = claimed ? d->claimant : best_standby(gone->core, d->name, gone);
    if (!next || (!claimed && next->state != CR_STATE_STANDBY)) return false;
    gone->driver = NULL;
    d->owner = next;
    d->claimant = NULL;
    cr_desired_fini(&d->saved);
    next->driver = d;
    next->recreated = true; /* a first failure ends what it inherited */
    cr_emit_log(gone->core, CSIREG_LOG_INFO, "registration", next, "takes the place of %s",
                gone->path ? gone->path : "?");
    if (!claimed) cr_instance_start(next);
    return true;
}
