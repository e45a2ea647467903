#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks test/behaviours.tsv: no entry is missing or there twice, each test it names exists, and with --ran LOGS it ran.

LOGS is where a full `make test` leaves what its stages printed. Fuzz targets and race tests run on their own
(make fuzz, make race): of those, only the existence is checked.
"""
import argparse
import glob
import os
import re
import sys

TEST = os.path.dirname(os.path.abspath(__file__))
ALONE = ("fuzz", "race")
offences = []


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def rows():
    """(ids that there must be, [(id, tests, note)])."""
    ids, found = [], []
    for line in read(os.path.join(TEST, "behaviours.tsv")).rstrip("\n").split("\n"):
        if line.startswith("# ids: "):
            ids = line.removeprefix("# ids: ").split()
        elif not line.startswith("#"):
            fields = line.split("\t")
            if len(fields) != 3:
                offences.append(f"not three columns: {line}")
                continue
            found.append((fields[0], fields[1].split(), fields[2]))
    return ids, found


def check_entries(ids, found):
    have = [entry for entry, _, _ in found]
    offences.extend(f"{entry}: no row" for entry in ids if entry not in have)
    offences.extend(f"{entry}: not in the list of ids" for entry in have if entry not in ids)
    offences.extend(f"{entry}: more than one row" for entry in set(have) if have.count(entry) > 1)
    for entry, tests, note in found:
        if not tests or (tests == ["later"] and not note):
            offences.append(f"{entry}: neither a test nor a reason")


def exists(test):
    where, _, name = test.partition("::")
    for suffix in (".c", ".py"):
        path = os.path.join(TEST, where + suffix)
        if os.path.exists(path):
            pattern = rf"^static void {name}\(" if suffix == ".c" else rf"^def {name}\("
            return not name or bool(re.search(pattern, read(path), re.M))
    return False


def names_that_ran(logs):
    """What the logs of unit tests, scenarios and other stages say, in the table's way of naming."""
    ran = set()
    for path in glob.glob(os.path.join(logs, "*.log")):
        stage = os.path.basename(path).removesuffix(".log")
        if stage.startswith("unit-"):
            ran |= {f"unit/test_{stage[5:]}::{name}" for name in re.findall(r"^\[ RUN      \] (\S+)", read(path), re.M)}
        elif "integration" in stage:
            ran |= {f"integration/test_{m}::{n}" for m, n in re.findall(r"^(?:ok|FAILED) +(\w+)\.(\w+) ", read(path), re.M)}
        elif stage == "lint":
            ran |= {f"lint/textual::{name}" for name in re.findall(r"^def (check_\w+)", read(os.path.join(TEST, "lint/textual.py")), re.M)}
    return ran


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ran", metavar="LOGS", help="check that each test ran, too")
    options = parser.parse_args()

    ids, found = rows()
    check_entries(ids, found)
    ran = names_that_ran(options.ran) if options.ran else set()
    named = 0
    for entry, tests, _ in found:
        for test in [t for t in tests if t != "later"]:
            named += 1
            if not exists(test):
                offences.append(f"{entry}: there is no {test}")
            elif options.ran and test not in ran and not test.startswith(ALONE):
                offences.append(f"{entry}: {test} did not run")
    for offence in offences:
        print(offence)
    later = sum(tests == ["later"] for _, tests, _ in found)
    print(f"{len(found)} entries, {later} of them later, {named} tests named, {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
