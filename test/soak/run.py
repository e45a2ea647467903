#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent under drivers that come and go, an API server that misbehaves, rotating credentials and foreign writers.

Time goes in rounds: a minute of disturbance, then peace until everything is as it must be, then a measurement. Every
version of Node and CSINode that the agent wrote is checked; memory, descriptors and threads must stay flat.
"""
import argparse
import os
import random
import shutil
import statistics
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "test/integration")]
sys.dont_write_bytecode = True

from checks import troubles  # pylint: disable=wrong-import-position
from churn import Others, Slot  # pylint: disable=wrong-import-position
from faults import Credentials, Faults  # pylint: disable=wrong-import-position
from histories import Histories  # pylint: disable=wrong-import-position
from harness import World  # pylint: disable=wrong-import-position
from procs import Failure, check, until  # pylint: disable=wrong-import-position

SLOTS, STABLE = 8, 4
KEEP_LINES = 2000
SETTLE_S = 400  # two persistent failures in a row wait for the longest pause each
GROWTH_KIB = 1024
PROGRAMS = ("csireg-agent", "csireg-apiserver", "csireg-mock-driver")


class SoakWorld(World):
    """A world that lives long: what ended is forgotten, logs are cut."""

    def __init__(self, programs):
        super().__init__(programs, "soak")
        own = self.path("bin")
        os.mkdir(own)
        for name in PROGRAMS:  # a build in between changes nothing
            shutil.copy2(os.path.join(programs, name), own)
        self.programs, self.wrong, self.secrets = own, [], set()

    def retire(self, process):
        self.wrong += process.close()
        self.things.remove(process)
        os.unlink(process.log_path)

    def trim(self, credentials):
        """Looks for secrets in what the agent printed, then forgets it."""
        self.secrets.update(credentials.secrets())
        for process in [t for t in self.things if hasattr(t, "lines")]:
            with process.news:
                text = "\n".join(line for _, line in process.lines)
                process.lines = process.lines[-KEEP_LINES:]
            if process.name == "agent":
                self.wrong += [f"a secret in the log: {secret}" for secret in self.secrets if secret in text]
                self.wrong += ["an authorization header in the log"] if "bearer " in text.lower() else []


class Soak:
    def __init__(self, options):
        self.rng = random.Random(options.seed)
        self.world = w = SoakWorld(options.bin)
        self.api = w.server()
        self.credentials = Credentials(w)
        self.agent = w.agent("--verify-interval=5s", "--getinfo-timeout=1s", "--node-rpc-timeout=2s", "--request-timeout=2s",
                             "--publish-timeout=4s", "--notify-timeout=1s", gate=True)
        self.slots = [Slot(w, self.rng, n) for n in range(SLOTS)]
        self.others, self.faults = Others(self.api, self.rng), Faults(w, self.rng, self.credentials, options.minutes >= 5)
        self.histories, self.rows, self.longest_settle = Histories(self.api), [], 0.0
        self.stable = w.fleet(STABLE, "stable-%d.example.com", node_id="stable", limit=7)
        self.stable.wait_all_notified(STABLE)
        self.begin = time.monotonic()

    def disturb(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            now = time.monotonic()
            self.faults.step(now)
            self.rng.choice(self.slots).step()
            if self.rng.random() < 0.3:
                self.others.step()
            if self.rng.random() < 0.5:
                self.others.complete()
            check(self.agent.process.running(), "the agent ended")
            self.agent.process.wake(0.1)
            time.sleep(max(0.0, now + 0.7 - time.monotonic()))  # the pace of the disturbance

    def settle(self):
        begin, left = time.monotonic(), ["?"]
        self.faults.stop()
        for slot in self.slots:
            slot.settle()

        def right():
            self.others.complete()
            left[:] = troubles(self.api, self.agent, self.slots)
            return not left
        try:
            until("everything is as it must be", right, SETTLE_S, pause=0.5)
        except Failure:
            raise Failure("no convergence: " + "; ".join(left)) from None
        self.longest_settle = max(self.longest_settle, time.monotonic() - begin)

    def check_stable(self):
        """The drivers that nobody touches were asked once and are published."""
        told = len(self.stable.calls("NotifyRegistrationStatus"))
        self.world.wrong += [f"the untouched drivers were notified {told} times"] if told > STABLE else []
        missing = [n for n in range(STABLE) if f"stable-{n}.example.com" not in self.api.drivers()]
        self.world.wrong += [f"untouched drivers are not published: {missing}"] if missing else []

    def measure(self):
        process = self.agent.process
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            found = dict(line.split(":", 1) for line in file)
        row = {"minute": (time.monotonic() - self.begin) / 60, "rss": int(found["VmRSS"].split()[0]),
               "anonymous": int(found["RssAnon"].split()[0]), "fds": process.fds(), "threads": process.threads(),
               "registered": len(self.agent.status()["drivers"]), "violations": len(self.histories.violations)}
        self.rows.append(row)
        print("  ".join(f"{k} {v:.1f}" if k == "minute" else f"{k} {v}" for k, v in row.items()), flush=True)

    def reset(self):
        """The same drivers for every measurement."""
        for slot in self.slots:
            slot.stop()
        self.settle()

    def one_round(self, seconds):
        self.disturb(seconds)
        self.settle()
        self.reset()
        self.histories.check()
        self.check_stable()
        self.world.trim(self.credentials)
        self.measure()

    def run(self, minutes):
        seconds = min(60.0, minutes * 20)
        while not self.rows or time.monotonic() - self.begin + seconds < minutes * 60:
            self.one_round(seconds)

    def growth(self):
        """KiB of anonymous memory from the first to the last third, after a quarter of warming up."""
        warm = [row["anonymous"] for row in self.rows[len(self.rows) // 4:]]
        third = max(1, len(warm) // 3)
        return statistics.median(warm[-third:]) - statistics.median(warm[:third])

    def verdict(self):
        wrong = self.world.wrong + self.histories.violations
        if len(self.rows) >= 8 and self.growth() > GROWTH_KIB:
            wrong.append(f"memory grew by {self.growth()} KiB")
        fds = [row["fds"] for row in self.rows[1:]] or [0]
        if max(fds) - min(fds) > 2:
            wrong.append(f"descriptors: {fds}")
        threads = {row["threads"] for row in self.rows}
        if len(threads) > 2:
            wrong.append(f"threads: {sorted(threads)}")
        return wrong

    def summary(self):
        counts = self.api.counts()["requests"]
        lines = [f"after {(time.monotonic() - self.begin) / 60:.1f} minutes, {len(self.rows)} rounds",
                 f"driver processes started: {sum(s.made for s in self.slots)}",
                 f"API faults begun: {sum(self.faults.counts.values())} {self.faults.counts}",
                 f"credential rotations: {self.credentials.rotations}",
                 f"requests of the agent: {sum(r['count'] for r in counts)}",
                 f"versions written by the agent and checked: {self.histories.written}",
                 f"invariant violations: {len(self.histories.violations)}",
                 f"longest time to convergence: {self.longest_settle:.0f} s",
                 f"anonymous memory, first third to last third after warming up: {self.growth():+.0f} KiB"]
        return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=None, help="of the disturbance's choices; printed")
    parser.add_argument("--bin", metavar="DIR", default=os.path.join(ROOT, "build/bin"))
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    return options


def main():
    options = parse()
    print(f"soak of {options.minutes:g} minutes, seed {options.seed}", flush=True)
    soak, wrong = Soak(options), []
    try:
        soak.run(options.minutes)
    except Exception as failure:  # pylint: disable=broad-except
        wrong = [repr(failure)]
        print(soak.world.logs(200), traceback.format_exc(limit=-6), flush=True)
    wrong += soak.verdict()
    print(soak.summary())
    wrong += soak.world.close(keep=bool(wrong))
    for what in wrong:
        print("WRONG:", what)
    print(f"{1 if not wrong else 0} passed, {1 if wrong else 0} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
