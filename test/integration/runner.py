# SPDX-License-Identifier: Apache-2.0
"""Scenarios: functions that take a World. Found in test_*.py, run side by side, failures shown with their logs."""
import concurrent.futures
import glob
import importlib
import os
import sys
import time
import traceback

from harness import World

SCENARIOS = []


class Scenario:
    def __init__(self, function, slow, emulator):
        self.function, self.slow, self.emulator = function, slow, emulator
        self.name = f"{function.__module__.removeprefix('test_')}.{function.__name__}"

    def run(self, programs, keep, make_world=World):
        """(seconds, None or the text of the failure)."""
        begin, trouble = time.monotonic(), None
        world = make_world(programs, self.name)
        try:
            self.function(world)
        except Exception:  # pylint: disable=broad-except
            trouble = traceback.format_exc(limit=-4)
        logs = world.logs() if trouble else None
        try:
            wrong = world.close(keep=keep)
        except Exception:  # pylint: disable=broad-except
            wrong = [traceback.format_exc(limit=-4)]
        if wrong and not trouble:
            trouble, logs = "", world.logs()
        if trouble is not None:
            kept = f"\nfiles: {world.directory}" if keep else ""
            trouble = "\n".join(filter(None, [trouble, *wrong, logs])) + kept
        return time.monotonic() - begin, trouble


def scenario(function=None, *, slow=False, emulator=True):
    """Marks a scenario. slow: it must wait long (they all run at once); emulator=False: any API server will do."""
    def mark(f):
        SCENARIOS.append(Scenario(f, slow, emulator))
        return f
    return mark(function) if function else mark


def load():
    here = os.path.dirname(os.path.abspath(__file__))
    for path in sorted(glob.glob(os.path.join(here, "test_*.py"))):
        importlib.import_module(os.path.basename(path)[:-3])
    return SCENARIOS


def report(one, seconds, trouble, explained=True):
    print(f"{'ok' if trouble is None else 'FAILED':7} {one.name:60} {seconds:6.1f} s", flush=True)
    if explained and trouble is not None:
        explain(one, trouble)


def explain(one, trouble):
    print("\n".join([f"{one.name}:"] + ["    | " + line for line in trouble.split("\n")]), flush=True)


def run(chosen, programs, jobs, keep):
    """Runs them and reports as they end, what went wrong last of all; (passed, failed)."""
    failed = []
    waiting = [s for s in chosen if s.slow]
    others = [s for s in chosen if not s.slow]
    with concurrent.futures.ThreadPoolExecutor(max(1, len(waiting))) as slow_pool, \
            concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = {slow_pool.submit(s.run, programs, keep): s for s in waiting}
        running |= {pool.submit(s.run, programs, keep): s for s in others}
        for done in concurrent.futures.as_completed(running):
            seconds, trouble = done.result()
            if trouble is not None:
                failed.append((running[done], trouble))
            report(running[done], seconds, trouble, explained=False)
    for one, trouble in failed:
        explain(one, trouble)
    return len(chosen) - len(failed), len(failed)


def exit_code(passed, failed):
    print(f"{passed} passed, {failed} failed")
    sys.stdout.flush()
    return 1 if failed or not passed else 0
