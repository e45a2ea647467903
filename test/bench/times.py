# SPDX-License-Identifier: Apache-2.0
"""How long a registration takes, from the listening socket to the received notification: csireg beside the floor, on
the emulated API server, round by round in turn so that both meet the same machine."""
import time

from rig import Bench, Csireg, Floor, Sample, scrub

WARM_UP = 3
SETTLE_S = 0.2  # after the start of a process: what is measured is the first driver, not the start
WINDOWS = {10: "50ms", 50: "500ms", 100: "500ms"}  # gathering window: the answers of a wave must come within it


class Pair:
    """csireg and the floor, each with an API server, drivers and a registry of its own."""

    def __init__(self, build, count, controller=False):
        self.controller = controller
        flags = ("--controller",) if controller else ()
        self.worlds = [Bench(build), Bench(build)]
        for world in self.worlds:
            world.server(gate="on" if controller else "off")
        self.fleets = [world.fleet_of(count, *flags) for world in self.worlds]

    def __enter__(self):
        return self

    def __exit__(self, *why):
        for world in self.worlds:
            world.__exit__(*why)
        return False

    def csireg(self, *flags):
        return Csireg(self.worlds[0], self.fleets[0], *flags, gate=self.controller)

    def floor(self):
        return Floor(self.worlds[1], self.fleets[1], self.controller)

    def scrub(self):
        for world in self.worlds:
            scrub(world.api)


def in_turn(ours, floor, rounds, count, reads):
    """Two Samples."""
    floor.round(1, "first")
    found = [(ours.round(count), floor.round(count, reads)) for _ in range(rounds + WARM_UP)][WARM_UP:]
    return [Sample(column) for column in zip(*found)]


def warm(table, stage, rounds, controller=False):
    with Pair(stage.build, 1, controller) as pair:
        ours, floor = in_turn(pair.csireg(), pair.floor(), rounds, 1, "none")
    flow = "controller" if controller else "node"
    table.add(f"one driver to Notify, {flow} flow, warm", ours, "ms", "floor", floor, ("ratio", 1.3))


def first_round(start):
    subject = start()
    time.sleep(SETTLE_S)
    milliseconds = subject.round(1, "first")
    subject.end()
    return milliseconds


def first(table, stage, rounds, controller=False):
    """A new process for every round, and objects that no driver was ever in."""
    found = []
    with Pair(stage.build, 1, controller) as pair:
        for _ in range(rounds):
            pair.scrub()
            found.append([first_round(start) for start in (pair.csireg, pair.floor)])
    ours, floor = (Sample(column) for column in zip(*found))
    flow = "controller" if controller else "node"
    table.add(f"one driver to Notify, {flow} flow, first after start", ours, "ms", "floor", floor, ("ratio", 1.5))


def wave(table, stage, rounds, count):
    with Pair(stage.build, count) as pair:
        ours, floor = in_turn(pair.csireg("--gather-window", WINDOWS[count]), pair.floor(), rounds, count, "wave")
    table.add(f"{count} drivers at once to the last Notify", ours, "ms", "floor", floor, ("ratio", 1.5),
              detail=f"gathering window {WINDOWS[count]}")


def all_rows(quick):
    """[(name, function of table and stage)]"""
    rounds = 10 if quick else 50
    rows = [(f"warm-{flow}", lambda t, s, c=flow == "controller": warm(t, s, rounds, c)) for flow in ("node", "controller")]
    rows += [(f"first-{flow}", lambda t, s, c=flow == "controller": first(t, s, rounds // 2, c))
             for flow in ("node", "controller")]
    rows += [(f"wave-{count}", lambda t, s, n=count: wave(t, s, 3 if quick else 10, n)) for count in WINDOWS]
    return rows
