#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures csireg beside the floor (test/bench/floor.c) and the kubelet's own packages (test/bench/peer), in one run on
one machine. Prints a table, writes build/bench.json, and draws the README's plots with --plots."""
import argparse
import os
import subprocess
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "test/integration"), os.path.join(ROOT, "test/live")]
sys.dont_write_bytecode = True

import costs  # pylint: disable=wrong-import-position
import counts  # pylint: disable=wrong-import-position
import times  # pylint: disable=wrong-import-position
from stage import Stage  # pylint: disable=wrong-import-position
from table import Table, print_head  # pylint: disable=wrong-import-position


def measure(table, stage, quick, pattern):
    """The names of what could not be measured."""
    broken = []
    for part in (times, counts, costs):
        for name, run in part.all_rows(quick):
            if pattern not in name:
                continue
            try:
                run(table, stage)
            except Exception:  # one figure that cannot be had must not cost the others
                traceback.print_exc()
                broken.append(name)
    return broken


def draw(path, directory):
    """matplotlib is a package of the system's Python, which may not be the one that runs this."""
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    subprocess.run([python, os.path.join(HERE, "plots.py"), path, directory], check=True)


def conclude(table, broken):
    missed = table.missed()
    for row in missed:
        print(f"missed: {row['figure']}: {row['value']:g} {row['unit']}, ratio {row['ratio']}, goal {row['goal']}")
    for name in broken:
        print(f"not measured: {name}")
    met = sum(1 for row in table.rows if row["met"])
    print(f"{len(table.rows)} figures, {met} goals met, {len(missed)} missed, {len(broken)} not measured")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="PATTERN", default="", help="only what has PATTERN in its name")
    parser.add_argument("--build", metavar="DIR", default=os.path.join(ROOT, "build"), help="build directory")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--plots", metavar="DIR", help="where the plots go")
    options = parser.parse_args()
    table, path = Table(), os.path.join(options.build, "bench.json")
    with Stage(os.path.abspath(options.build)) as stage:
        print_head()
        broken = measure(table, stage, options.quick, options.k)
    table.save(path)
    if options.plots:
        draw(path, options.plots)
    conclude(table, broken)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
