#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the scenarios against the built programs."""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import runner  # pylint: disable=wrong-import-position

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", metavar="PATTERN", default="", help="only scenarios whose name contains PATTERN")
    parser.add_argument("--list", action="store_true", help="print names and what they show")
    parser.add_argument("--jobs", type=int, default=6, help="how many at once (those that wait long run beside them)")
    parser.add_argument("--keep", action="store_true", help="leave the directories of the scenarios")
    parser.add_argument("--bin", metavar="DIR", default=os.path.join(ROOT, "build/bin"), help="where the programs are")
    parser.add_argument("--fast", action="store_true", help="without the scenarios that wait long")
    parser.add_argument("--slow", action="store_true", help="only those")
    options = parser.parse_args()

    chosen = [s for s in runner.load() if options.k in s.name and not (s.slow and options.fast)
              and (s.slow or not options.slow)]
    if options.list:
        for one in chosen:
            print(f"{one.name}{' (slow)' if one.slow else ''}\n    {' '.join((one.function.__doc__ or '').split())}")
        return 0
    return runner.exit_code(*runner.run(chosen, os.path.abspath(options.bin), options.jobs, options.keep))


if __name__ == "__main__":
    sys.exit(main())
