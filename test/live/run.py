#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conformance of the emulator with a real kube-apiserver, then the node flow's scenarios against the real one.

Without Go 1.26, or when the servers cannot be built, it says so and everything is skipped; with --required that fails.
"""
import argparse
import base64
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "test/integration")]
sys.dont_write_bytecode = True

import cases_writes  # pylint: disable=wrong-import-position,unused-import
import cases_others  # pylint: disable=wrong-import-position,unused-import
import cases_reads  # pylint: disable=wrong-import-position,unused-import
import objects  # pylint: disable=wrong-import-position
import runner  # pylint: disable=wrong-import-position
import scenarios  # pylint: disable=wrong-import-position
from conformance import Conformance, Side  # pylint: disable=wrong-import-position
from server import ADMIN, NODES, Cluster, RealWorld  # pylint: disable=wrong-import-position
from servers import Emulator  # pylint: disable=wrong-import-position

SERVERS = os.path.join(ROOT, "build/live")


def why_not():
    """Builds the servers if need be; None, or why they cannot be had, in one line."""
    if not os.path.exists(os.path.join(SERVERS, "kube-apiserver")):
        print("building kube-apiserver and etcd, once; this takes some minutes", flush=True)
    done = subprocess.run(["make", "-s", "live-servers"], cwd=ROOT, capture_output=True, text=True, check=False,
                          env={k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))})
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.split("\n") if line.strip() and not line.startswith("make")]
    return lines[-1].strip() if lines else f"make live-servers failed with {done.returncode}"


def emulator_side(emulator, tokens):
    """Its authority is in the kubeconfig that it writes."""
    with open(emulator.kubeconfig, encoding="utf-8") as file:
        line = next(line for line in file if "certificate-authority-data:" in line)
    authority = base64.b64decode(line.split(":")[1].strip().strip('"')).decode()
    return Side("emulator", emulator.address, ssl.create_default_context(cadata=authority), tokens)


def conform(cluster, programs, pattern):
    """(passed, failed) requests."""
    users = [{"token": cluster.tokens[ADMIN], "user": ADMIN, "groups": ["system:masters"]}]
    users += [{"token": cluster.tokens[n], "user": f"system:node:{n}", "groups": ["system:nodes"]} for n in NODES]
    tokens = cluster.write("tokens.json", json.dumps(users))
    emulator = Emulator(os.path.join(programs, "csireg-apiserver"), cluster.directory, node=NODES[0], gate="unknown",
                        flags=("--tokens", tokens))
    try:
        cluster.clear()
        real = Side("real", f"127.0.0.1:{cluster.port}", cluster.tls, cluster.tokens)
        passed, failed = compared(real, emulator_side(emulator, cluster.tokens), pattern)
    finally:
        wrong = emulator.close()
    for fault in wrong:
        print(f"FAILED  {fault}")
    return passed, failed + len(wrong)


def compared(real, emulator, pattern):
    emulator.send("DELETE", objects.N1)
    both = Conformance(real, emulator)
    for one in objects.GROUPS:
        if one.name != "node_writes" and pattern not in one.name:  # that one makes the Nodes
            continue
        if one.lacks(emulator):
            print(f"skipped conformance.{one.name}: the emulator does not have this yet", flush=True)
            continue
        alike, different = both.passed, len(both.differences)
        both.run(one)
        wrong = both.differences[different:]
        mark = "FAILED" if wrong else "ok"
        print(f"{mark:7} conformance.{one.name:40} {both.passed - alike:4} requests alike", flush=True)
        for text in wrong:
            print("\n".join("    | " + line for line in text.split("\n")), flush=True)
    return both.passed, len(both.differences)


def play(cluster, programs, pattern):
    """(passed, failed) scenarios, one after the other."""
    RealWorld.cluster = cluster
    cluster.stop_apiserver()
    cluster.start_apiserver("--feature-gates=CSIVolumeHealth=true")  # for a status that the server keeps
    known = {one.name: one for one in runner.load()}
    own = [name for name in known if name.startswith("scenarios.")]
    wanted = [name for name in scenarios.SHARED + own if pattern in name]
    chosen, lost = [known[name] for name in wanted if name in known], [name for name in wanted if name not in known]
    for name in lost:
        print(f"FAILED  {name}: there is no such scenario any more")
    failed = len(lost)
    for one in chosen:
        seconds, trouble = one.run(programs, False, RealWorld)
        failed += trouble is not None
        runner.report(one, seconds, trouble)
    return len(wanted) - failed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="PATTERN", default="", help="only what has PATTERN in its name")
    parser.add_argument("--bin", metavar="DIR", default=os.path.join(ROOT, "build/bin"), help="where the programs are")
    parser.add_argument("--only", choices=("conformance", "scenarios"), help="one of the two parts")
    parser.add_argument("--required", action="store_true", help="fail where everything would be skipped")
    options = parser.parse_args()

    reason = why_not()
    if reason:
        print(f"0 passed, 0 failed, 1 skipped: no real API server: {reason}")
        return 1 if options.required else 0
    directory = tempfile.mkdtemp(prefix="csrlive", dir="/tmp")
    try:
        return run(options, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def run(options, directory):
    cluster = Cluster(SERVERS, directory)
    try:
        print(f"ready in {cluster.seconds:.1f} s, {cluster.memory()} MiB resident", flush=True)
        counts = [part(cluster, os.path.abspath(options.bin), options.k)
                  for name, part in (("conformance", conform), ("scenarios", play)) if options.only in (None, name)]
    finally:
        wrong = cluster.close()
    for fault in wrong:
        print(f"FAILED  {fault}")
    passed, failed = (sum(column) for column in zip(*counts))
    return runner.exit_code(passed, failed + len(wrong))


if __name__ == "__main__":
    sys.exit(main())
