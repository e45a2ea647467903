#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does a test notice when the core is wrong? Each file test/mutants/*.mutant is one deliberate fault. It is applied to a copy
of the sources; then the simulator runs, and the unit tests of the core. RESULTS.md says what caught it.

A mutant names a file and gives what to look for and what to put there. White space does not count, so code may move and
be laid out anew; when a snippet is not found exactly once the mutant is stale, which is an error like one that survives.

    # what is wrong
    --- lib/core/plan.c
    old text
    +++
    new text
"""
import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "test", "mutants")
UNITS = ["handshake", "handshake_checks", "plan", "plan_node", "publisher", "publish_requests", "publisher_upkeep",
         "csidrivers", "contest", "instance", "refresh", "driver", "status", "states", "core", "backoff"]
HELPERS = ["core_rig", "core_world"]
FLAGS = ["-O1", "-std=c11", "-w", "-D_GNU_SOURCE", "-Iinclude", "-Ilib", "-Itest"]
SECONDS = 120  # for one run of simulator or test


class Mutant:
    """One deliberate fault: hunks of (file, old, new)."""

    def __init__(self, path):
        self.name = os.path.basename(path)[:-len(".mutant")]
        with open(path, encoding="utf-8") as file:
            head, *parts = re.split(r"^--- (?=\S+\n)", file.read(), flags=re.M)
        self.what = " ".join(line.lstrip("# ") for line in head.strip().split("\n"))
        self.hunks = [self.hunk(part) for part in parts]

    @staticmethod
    def hunk(part):
        path, rest = part.split("\n", 1)
        old, new = re.split(r"^\+\+\+\n", rest, flags=re.M)
        return path, old.strip(), new.strip()

    def apply(self, tree):
        """The files that changed, or None when a snippet is not there exactly once."""
        changed = {}
        for path, old, new in self.hunks:
            text = changed.get(path) or read(os.path.join(tree, path))
            tokens = [re.escape(token) for token in re.findall(r"\w+|[^\w\s]", old)]
            pattern = re.compile(r"(?<!\w)" + r"\s*".join(tokens))
            if len(pattern.findall(text)) != 1:
                return None
            changed[path] = pattern.sub(lambda _, new=new: new, text)
        for path, text in changed.items():
            with open(os.path.join(tree, path), "w", encoding="utf-8") as file:
                file.write(text)
        return sorted(changed)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class LinkError(Exception):
    """The mutant compiles, but names what is not there."""


class Tree:
    """A built copy of core, simulator and tests in which single files are exchanged."""

    def __init__(self, path):
        self.path = path
        for folder in ("lib/base", "lib/core", "include", "test/sim", "test/unit"):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(path, folder))
        self.core = self.sources("lib/base") + self.sources("lib/core")
        self.sim = self.sources("test/sim")
        names = [f"test/unit/{name}.c" for name in HELPERS + [f"test_{unit}" for unit in UNITS]]
        self.units = [unit for unit in UNITS if f"test/unit/test_{unit}.c" in names]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            built = list(pool.map(self.compile, self.core + self.sim + names))
        if not all(built):
            sys.exit("the unchanged sources do not compile")

    def sources(self, folder):
        return sorted(os.path.relpath(p, self.path) for p in glob.glob(os.path.join(self.path, folder, "*.c")))

    def run(self, *argv, timeout=SECONDS):
        """(exit code, output); a run that does not end is a failure."""
        try:
            done = subprocess.run(argv, cwd=self.path, capture_output=True, timeout=timeout, check=False)
            return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            return 1, "does not end"

    def compile(self, source):
        return self.run("gcc", *FLAGS, "-c", source, "-o", self.object(source))[0] == 0

    @staticmethod
    def object(source):
        return source[:-2] + ".o"

    def link(self, out, sources, *libraries):
        code, output = self.run("gcc", *map(self.object, self.core + sources), "-o", out, "-ljansson", *libraries)
        if code:
            raise LinkError(output)

    def restore(self, changed):
        for path in changed:
            shutil.copy(os.path.join(ROOT, path), os.path.join(self.path, path))
            self.compile(path)

    def simulate(self, seeds):
        """What the simulator finds: the first failing seed and the invariant, or None."""
        self.link("sim", self.sim)
        code, output = self.run("./sim", "--seeds", str(seeds), "--first")
        if code == 0:
            return None
        broken, seed = re.search(r"BROKEN ([^:\n]*)", output), re.search(r"seed (\d+) failed", output)
        if broken and seed:
            return f"seed {seed.group(1)}: {broken.group(1)}"
        return "does not end" if output == "does not end" else "crash"

    def unit_tests(self, all_of_them):
        caught = []
        for unit in self.units:
            self.link("unit", [f"test/unit/{name}.c" for name in HELPERS] + [f"test/unit/test_{unit}.c"], "-lcmocka")
            code, output = self.run("./unit")
            if code:
                failed = re.findall(r"^\[  FAILED  \] (test_\w+)", output, re.M)
                caught.append(f"{unit}: {failed[0] if failed else 'crash'}")
                if not all_of_them:
                    break
        return caught


def try_one(tree, mutant, seeds, all_units):
    changed = mutant.apply(tree.path)
    if changed is None:
        return "stale", []
    try:
        if not all([tree.compile(path) for path in changed]):
            return "does not compile", []
        return tree.simulate(seeds), tree.unit_tests(all_units)
    except LinkError:
        return "does not link", []
    finally:
        tree.restore(changed)


def report(results, seeds):
    lines = ["# Deliberate faults and what catches them", "",
             f"Made by `make mutants`: each fault below, alone, in a copy of the core; {seeds} seeds of the simulator, then the "
             "unit tests of the core up to the first that fails.", "",
             "| mutant | what is wrong | simulator | unit test |", "|---|---|---|---|"]
    for mutant, sim, units in results:
        lines.append(f"| {mutant.name} | {mutant.what} | {sim or '-'} | {units[0] if units else '-'} |")
    by_sim = sum(bool(sim) for _, sim, _ in results)
    by_unit = sum(bool(units) for _, _, units in results)
    lines += ["", f"{len(results)} mutants: {by_sim} caught by the simulator, {by_unit} by unit tests, "
              f"{sum(not sim and not units for _, sim, units in results)} by nothing."]
    with open(os.path.join(HERE, "RESULTS.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="PATTERN", default="", help="only mutants whose name contains PATTERN; no RESULTS.md")
    parser.add_argument("--seeds", type=int, default=2000, help="of the simulator (default 2000)")
    parser.add_argument("--all-units", action="store_true", help="do not stop at the first unit test that fails")
    options = parser.parse_args()
    mutants = [Mutant(path) for path in sorted(glob.glob(os.path.join(HERE, "*.mutant"))) if options.k in path]
    results, bad = [], 0
    with tempfile.TemporaryDirectory(prefix="csireg-mutants-") as folder:
        tree = Tree(folder)
        for mutant in mutants:
            sim, units = try_one(tree, mutant, options.seeds, options.all_units)
            fine = (sim or units) and sim not in ("stale", "does not compile", "does not link")
            bad += not fine
            results.append((mutant, sim, units))
            print(f"{'ok' if fine else 'FAILED':7} {mutant.name:34} {sim or '-':44} {', '.join(units) or '-'}", flush=True)
    if not options.k:
        report(results, options.seeds)
    print(f"{len(mutants) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
