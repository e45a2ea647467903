# SPDX-License-Identifier: Apache-2.0
"""Waves, failures and refreshes: what csireg asks of the API server beside what the kubelet's packages ask, and how long
the waves take there. On the real server where there is one, so that both meet the same."""
import time

from procs import check, until
from rig import ROUND_MS, Csireg, Sample, by_verb

WINDOWS = {1: "50ms", 10: "50ms", 50: "500ms", 100: "500ms"}


def asked(world, since):
    """(text, number, new since) of the requests on Node and CSINode by the node's identity."""
    rows = [row for row in world.api.log() if row["user"].startswith("system:node:")]
    return (*by_verb(rows[since:]), len(rows))


class Waves:
    """Waves of one size by one subject: times, and the requests of the first, the last, and its removal."""

    def __init__(self, subject, count, rounds):
        world, self.times = subject.world, []
        self.cold, self.warm, self.removal = [(None, None)] * 3
        time.sleep(0.2)  # an audit log has a request a little after its answer
        start = asked(world, 0)[2]
        for number in range(rounds + 1):
            self.times.append(subject.come(count))
            text, total, start = asked(world, start)
            self.cold, self.warm = ((text, total), None) if number == 0 else (self.cold, (text, total))
            subject.go(count)
            text, total, start = asked(world, start)
            self.removal = text, total
        self.sample = Sample(self.times[1:])


def waves(table, stage, count, rounds):
    with stage.world() as world:
        fleet = world.fleet_of(count)
        ours = Waves(Csireg(world, fleet, "--gather-window", WINDOWS[count]), count, rounds)
    theirs = stage.peer(count, lambda subject: Waves(subject, count, max(1, rounds // 3)))
    who = f"{count} driver{'s at once' if count > 1 else ''}"
    peer = stage.against
    table.add(f"{who} to the last Notify, {stage.server}", ours.sample, "ms", peer, theirs and theirs.sample,
              ("ratio", 0.05) if count > 1 else None, f"gathering window {WINDOWS[count]}")
    for what, most in (("cold", 4), ("warm", 2), ("removal", 2)):
        text, total = getattr(ours, what)
        their_text, their_total = getattr(theirs, what) if theirs else ("", None)
        name = f"requests, removal of {who}" if what == "removal" else f"requests, {who}, {what}"
        table.add(name, total, "", peer, their_total, ("value", most),
                  f"{text}" + (f"; peer: {their_text}" if theirs else ""))


# ---- a driver that fails ----

def failures(subject, attempts):
    """Requests per failed attempt, once the objects were read."""
    world = subject.world
    subject.come(1)
    start = asked(world, 0)[2]
    failing = world.driver("failing.example.com", error={"NodeGetInfo": (14, "not today")})
    failing.wait_call("NodeGetInfo", attempts + 1, timeout=ROUND_MS / 1000)
    text, total, _ = asked(world, start)
    failing.stop()
    return total / attempts, text or "none"


def failing(table, stage, attempts):
    with stage.world() as world:
        ours, text = failures(Csireg(world, world.fleet_of(1)), attempts)
    theirs, their_text = stage.peer(1, lambda subject: failures(subject, attempts)) or (None, "")
    table.add("requests per failed attempt, nothing published", ours, "", stage.against, theirs, ("value", 0),
              f"{attempts} attempts: {text}" + (f"; peer: {their_text}" if their_text else ""))


# ---- refresh ----

def refreshes(subject, seconds):
    """Requests a minute of ten drivers whose CSIDriver objects ask for a refresh every 10 s."""
    world = subject.world
    for number in range(10):
        world.api.csidriver(f"d{number}.bench.example.com", attachRequired=True, nodeAllocatableUpdatePeriodSeconds=10)
    subject.come(10)
    before, start = subject.fleet.calls()["NodeGetInfo"], asked(world, 0)[2]
    until("the drivers were asked again", lambda: subject.fleet.calls()["NodeGetInfo"] > before, timeout=30, pause=0.2)
    time.sleep(seconds)  # what is measured: how often in that time
    text, total, _ = asked(world, start)
    calls = subject.fleet.calls()["NodeGetInfo"] - before
    check(calls > 0, "nobody refreshed")
    return total * 60 / seconds, f"{calls} NodeGetInfo in {seconds} s, {text or 'no requests'}"


def refresh(table, stage, seconds):
    with stage.world() as world:
        ours, text = refreshes(Csireg(world, world.fleet_of(10)), seconds)
    theirs, their_text = stage.peer(10, lambda subject: refreshes(subject, seconds)) or (None, "")
    table.add("requests a minute, refresh of 10 drivers every 10 s", ours, "", stage.against, theirs, ("value", 0),
              text + (f"; peer: {their_text}" if their_text else ""))


def all_rows(quick):
    rows = [(f"peer-wave-{count}", lambda t, s, n=count: waves(t, s, n, 2 if quick else 6)) for count in WINDOWS]
    rows += [("failing", lambda t, s: failing(t, s, 3 if quick else 5)), ("refresh", lambda t, s: refresh(t, s, 20 if quick else 60))]
    return rows
