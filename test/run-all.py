#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything `make test` runs: stages in order, what waits long beside them, one count at the end.

A stage is a command. Its tests are counted from what it prints (cmocka's and our runners' summaries); a stage that prints
no count is one test. The output of a stage that failed is shown; all of it is in build/test-logs/.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build", "test-logs")
SUMMARY = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)
CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test\(s\)", re.M)
CMOCKA_FAILED = re.compile(r"^\[  FAILED  \] \S+.*, (\d+) test\(s\)|^ *(\d+) FAILED TEST\(S\)", re.M)
TAIL = 100


class Stage:
    """One command and what it counted."""

    def __init__(self, name, *argv, env=None, timeout=240):
        self.name, self.argv, self.env, self.timeout = name, argv, env or {}, timeout
        self.passed = self.failed = 0
        self.seconds, self.output = 0.0, ""

    def run(self):
        begin = time.monotonic()
        try:
            done = subprocess.run(self.argv, cwd=ROOT, env=os.environ | self.env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=self.timeout, check=False)
            self.output, code = done.stdout.decode("utf-8", "replace"), done.returncode
        except subprocess.TimeoutExpired as late:
            self.output = (late.stdout or b"").decode("utf-8", "replace") + f"\nno end within {self.timeout} s\n"
            code = 1
        except OSError as error:
            self.output, code = f"{self.argv[0]}: {error.strerror}\n", 1
        self.seconds = time.monotonic() - begin
        self.count(code)
        self.report()
        return self.failed == 0

    def count(self, code):
        summaries = SUMMARY.findall(self.output)
        if summaries:
            self.passed, self.failed = (int(n) for n in summaries[-1])
        else:
            self.passed = sum(int(n) for n in CMOCKA_PASSED.findall(self.output))
            self.failed = sum(int(a or b) for a, b in CMOCKA_FAILED.findall(self.output))
        if self.passed + self.failed == 0:
            self.passed = int(code == 0)
        if code != 0 and self.failed == 0:
            self.failed = 1

    def report(self):
        os.makedirs(LOGS, exist_ok=True)
        with open(os.path.join(LOGS, self.name.replace(" ", "-") + ".log"), "w", encoding="utf-8") as log:
            log.write(self.output)
        mark = "ok" if self.failed == 0 else "FAILED"
        text = f"{mark:7} {self.name:34} {self.passed:5} passed {self.failed:3} failed {self.seconds:7.1f} s"
        if self.failed:
            lines = self.output.rstrip("\n").split("\n")
            text += "\n" + "\n".join("    | " + line for line in lines[-TAIL:])
        print(text, flush=True)


def make(name, *arguments, **more):
    return Stage(name, "make", f"-j{min(4, os.cpu_count() or 2)}", *arguments, **more)


def unit_stages(build, label, wrapper=()):
    names = sorted(os.path.basename(path)[:-2] for path in glob.glob(os.path.join(ROOT, "test/unit/test_*.c")))
    return [Stage(f"{label} {name[len('test_'):]}", *wrapper, os.path.join(build, "unit", name)) for name in names]


def under_valgrind():
    """All but the one that counts connections within milliseconds, which valgrind's slowness changes."""
    return [stage for stage in unit_stages("build", "valgrind unit", valgrind()) if not stage.name.endswith(" http_turns")]


def integration(label, build, *arguments):
    return Stage(label, sys.executable, "test/integration/run.py", "--bin", os.path.join(build, "bin"), *arguments)


VALGRIND = ("valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite",
            "--child-silent-after-fork=yes")


def valgrind():
    suppressions = os.path.join(ROOT, "test/lint/valgrind.supp")
    return VALGRIND + ((f"--suppressions={suppressions}",) if os.path.exists(suppressions) else ())


def phases(quick):
    """Lists of stages; those of one list run two at a time, the lists one after the other. What builds or measures is alone."""
    plain = [[make("build", "WERROR=1", "all", "unit-programs")], unit_stages("build", "unit") + [make("sim", "sim"), make("oom", "oom")],
             [integration("integration", "build", "--fast")], [Stage("demo", sys.executable, "test/demo/demo.py")],
             [make("abi", "abi"), make("lint", "lint")]]
    if quick:
        return plain
    return plain + [
        [make("sanitizer build", "SAN=1", "all", "unit-programs")],
        unit_stages("build/san", "sanitized unit") + [make("sanitized sim", "SAN=1", "sim", "SEEDS=400")],
        [integration("sanitized integration", "build/san", "--fast")], under_valgrind(),
        [make("clang build", "CC=clang", "WERROR=1", "all", "unit-programs")], [make("race", "race", "RACE_ROUNDS=1")]]


def run_phase(stages):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return all(list(pool.map(Stage.run, stages)))


def run(groups, slow, last):
    """Without a build there is nothing to test; what waits long runs beside all the rest but the last."""
    if not run_phase(groups[0]):
        return
    beside = threading.Thread(target=run_phase, args=(slow,))
    beside.start()
    for stages in groups[1:]:
        run_phase(stages)
    beside.join()
    run_phase(last)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="PATTERN", default="", help="build, and only stages whose name contains PATTERN")
    parser.add_argument("--list", action="store_true", help="print the names of the stages")
    parser.add_argument("--quick", action="store_true", help="without sanitizers, valgrind and clang")
    options = parser.parse_args()

    groups = phases(options.quick)
    groups[1:] = [[stage for stage in stages if options.k in stage.name] for stages in groups[1:]]
    slow = [stage for stage in [integration("slow integration", "build", "--slow"), Stage("soak", "test/soak/run.py", "--minutes", "1", timeout=400)]
            if options.k in stage.name]
    last = [] if options.k else [Stage("behaviours", "test/behaviours.py", "--ran", LOGS)]
    everything = [stage for stages in groups for stage in stages] + slow + last
    if options.list:
        print("\n".join(stage.name for stage in everything))
        return 0
    begin = time.monotonic()
    shutil.rmtree(LOGS, ignore_errors=True)
    run(groups, slow, last)
    passed, failed = (sum(getattr(stage, what) for stage in everything) for what in ("passed", "failed"))
    print(f"in {time.monotonic() - begin:.0f} s")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
