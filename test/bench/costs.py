# SPDX-License-Identifier: Apache-2.0
"""Memory, CPU time, wake-ups, descriptors: what a host pays, now and after a long time."""
import json
import os
import time

from counts import asked
from procs import check
from rig import ROUND_MS, Bench, Csireg, Embedded, Sample, Tool, about, cpu_seconds, fds, memory, own_threads, scheduled_seconds
from servers import BASES

WINDOW = ("--gather-window", "500ms")
MANY_WINDOW = "1s"  # hundreds of managers on a few processors: their drivers' answers take that long to be seen
SETTLE_S = 1  # until what ended is freed: gRPC and Go tidy up a little later


# ---- memory ----

def footprints(subject):
    """{number of drivers: memory}"""
    time.sleep(SETTLE_S)
    found = {0: memory(subject.pid) | {"own": own_threads(subject.pid)}}
    for have, more in ((0, 1), (1, 49), (50, 50)):
        subject.fleet.appear(more, have)
        subject.fleet.notified(more)
        time.sleep(SETTLE_S)
        found[have + more] = memory(subject.pid) | {"own": own_threads(subject.pid)}
    return found


def footprint(table, stage):
    with stage.world() as world:
        ours = footprints(Csireg(world, world.fleet_of(100), *WINDOW, page=False))
    with stage.world() as world:
        small = footprints(Embedded(world, world.fleet_of(100)))
    theirs = stage.peer(100, footprints)
    for count in (0, 50, 100):
        for key, most in (("RssAnon", 1 / 3), ("VmRSS", 1 / 2)):
            table.add(f"{'RSS' if key == 'VmRSS' else key} with {count} drivers", ours[count][key], "MiB", stage.against,
                      theirs and theirs[count][key], ("ratio", round(most, 3)),
                      f"csireg-agent; examples/embed.c, the smallest host: {small[count][key]:.1f} MiB")
    table.add("csireg's own threads with 100 drivers", ours[100]["own"], "", "with 1 driver", ours[1]["own"], ("ratio", 1))
    table.add("threads with 100 drivers", ours[100]["Threads"], "", stage.against, theirs and theirs[100]["Threads"],
              detail=f"{ours[0]['Threads']} before the first driver; gRPC adds up to two for each processor under load, "
                     "whatever the number of drivers")


# ---- CPU ----

def cycle_seconds(subject, waves, count):
    """CPU time of 1,000 cycles."""
    subject.round(count)
    before = cpu_seconds(subject.pid)
    for _ in range(waves):
        subject.round(count)
    return (cpu_seconds(subject.pid) - before) * 1000 / (waves * count)


def cycles(table, stage, waves):
    count = 50
    with stage.world() as world:
        ours = cycle_seconds(Csireg(world, world.fleet_of(count), *WINDOW), waves, count)
    theirs = stage.peer(count, lambda subject: cycle_seconds(subject, waves, count))
    table.add("CPU time of 1,000 cycles, 50 drivers at a time", ours, "s", stage.against, theirs, ("ratio", 0.333),
              f"measured over {waves * count} cycles")


def lone_cycles(table, stage, rounds):
    with stage.world() as world:
        ours = cycle_seconds(Csireg(world, world.fleet_of(1)), rounds, 1)
    theirs = stage.peer(1, lambda subject: cycle_seconds(subject, max(3, rounds // 10), 1))
    table.add("CPU time of 1,000 cycles, one driver at a time", ours, "s", stage.against, theirs, ("ratio", 0.333),
              f"measured over {rounds} cycles")


# ---- nothing to do ----

def idleness(subject, seconds):
    """(wake-ups a second, CPU milliseconds a second, requests in all)"""
    subject.come(50)
    time.sleep(5)  # until what the registrations left behind is done
    start = asked(subject.world, 0)[2]
    before = subject.process.wakeups(), scheduled_seconds(subject.pid)
    time.sleep(seconds)  # what is measured
    after = subject.process.wakeups(), scheduled_seconds(subject.pid)
    return (after[0] - before[0]) / seconds, (after[1] - before[1]) * 1000 / seconds, asked(subject.world, start)[1]


def idle(table, stage, seconds):
    with stage.world() as world:
        ours = idleness(Csireg(world, world.fleet_of(50), *WINDOW, page=False), seconds)
    theirs = stage.peer(50, lambda subject: idleness(subject, seconds)) or (None, None, None)
    table.add("idle, 50 drivers: wake-ups a second", ours[0], "", stage.against, theirs[0])
    table.add("idle, 50 drivers: CPU a second", ours[1], "ms", stage.against, theirs[1])
    table.add("idle, 50 drivers: requests", ours[2], "", stage.against, theirs[2], ("value", 0), f"in {seconds} s")


# ---- after a long time ----

def growth(table, what, pid, before):
    time.sleep(SETTLE_S)
    table.add(f"RssAnon more after {what}", memory(pid)["RssAnon"] - before[0], "MiB", "after 100", before[0], ("value", 1))
    table.add(f"descriptors more after {what}", fds(pid) - before[1], "", "after 100", before[1], ("value", 0))


def level(pid):
    time.sleep(SETTLE_S)
    return memory(pid)["RssAnon"], fds(pid)


def long_cycles(table, build, waves):
    """Ten at a time: as many as come together in ordinary life, so that the peak of a wave is not what is measured."""
    with Bench(build) as world:
        world.server(gate="off")
        subject = Csireg(world, world.fleet_of(10), page=False)
        for _ in range(10):
            subject.round(10)
        before = level(subject.pid)
        for _ in range(waves - 10):
            subject.round(10)
        growth(table, f"{waves * 10:,} cycles", subject.pid, before)


def long_rounds(table, build, rounds):
    """One socket, reported anew after each refusal."""
    with Bench(build) as world:
        fleet = world.fleet_of(1, "--refused")
        fleet.appear(1)
        host = Tool(world, "host", [os.path.join(world.bench, "host"), "--registry", world.registry])
        host.wait_line("ready")
        host.ask("rounds 100", "rounds")
        before = level(host.pid)
        host.ask(f"rounds {rounds - 100}", "rounds", timeout=20 * ROUND_MS / 1000)
        growth(table, f"{rounds:,} GetInfo rounds", host.pid, before)


# ---- many managers ----

def kubeconfigs(world, count):
    """An identity for each of so many nodes: (server's flags, a function that writes their files once it runs)."""
    tokens = [{"token": f"token-of-n{i}", "user": f"system:node:n{i}", "groups": ["system:nodes"]} for i in range(count)]
    path = world.path("tokens.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(tokens, file)

    def write():
        directory = world.path("kubeconfigs")
        os.makedirs(directory)
        with open(world.api.kubeconfig, encoding="utf-8") as file:
            text = file.read()
        old = next(line for line in text.split("\n") if "token:" in line)
        for i in range(count):
            with open(os.path.join(directory, f"n{i}"), "w", encoding="utf-8") as file:
                file.write(text.replace(old, f"    token: token-of-n{i}"))
        return directory
    return ["--tokens", path, *(f"--node=n{i}" for i in range(1, count))], write


def managers(table, build, count, each):
    with Bench(build) as world:
        flags, write = kubeconfigs(world, count)
        world.server(node="n0", gate="on", flags=flags)
        directory = write()
        fleet = world.fleet_of(count * each)
        fleet.appear(count * each)
        world.api.rule({"status": 429, "reason": "TooManyRequests", "retryAfter": 1}, {}, every=7)
        host = Tool(world, "host", [os.path.join(world.bench, "host"), "--registry", world.registry, "--kubeconfig", directory,
                                    "--managers", str(count), "--drivers", str(each), "--gather-window", MANY_WINDOW])
        host.wait_line("ready", timeout=120)
        begin = time.monotonic()
        host.ask("register", "registered", timeout=300)
        seconds = time.monotonic() - begin
        judge_managers(table, world, count, each, seconds)
        check(fleet.calls()["false"] == 0, "drivers were told that they are not registered")


def judge_managers(table, world, count, each, seconds):
    log = world.api.log()
    refused = sum(1 for row in log if row["code"] == 429)
    done = [row for row in log if row["code"] != 429]
    per_node = {}
    for row in done:
        if about(row):
            per_node[row["user"]] = per_node.get(row["user"], 0) + 1
    entries = [len(((world.api.get("csinodes", f"n{i}") or {}).get("spec") or {}).get("drivers") or []) for i in range(count)]
    lists = sum(1 for row in done if row["path"] == BASES["csidrivers"] and "watch=" not in row.get("query", ""))
    name = f"{count} managers with {each} drivers each"
    table.add(f"{name}: requests of one", Sample(per_node.values()), "", "peer, as known", 4 * each, ("value", 4),
              f"gathering window {MANY_WINDOW}; registered in {seconds:.1f} s; {refused} answers of 429 absorbed; {lists} lists of CSIDrivers")
    table.add(f"{name}: most requests of one", max(per_node.values()), "", "peer, as known", 4 * each, ("value", 4))
    table.add(f"{name}: drivers lost", count * each - sum(entries), "", "", None, ("value", 0))


def all_rows(quick):
    """[(name, function of table and stage)]"""
    return [
        ("memory", footprint),
        ("cpu", lambda t, s: cycles(t, s, 2 if quick else 20)),
        ("cpu-lone", lambda t, s: lone_cycles(t, s, 20 if quick else 100)),
        ("idle", lambda t, s: idle(t, s, 10 if quick else 60)),
        ("long-cycles", lambda t, s: long_cycles(t, s.build, 50 if quick else 1000)),
        ("long-rounds", lambda t, s: long_rounds(t, s.build, 5000 if quick else 100_000)),
        ("managers", lambda t, s: managers(t, s.build, 20 if quick else 200, 3)),
    ]
