#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzz targets, some side by side, and says of each what libFuzzer counted. Exit 1 if one found something.

Seeds are test/fuzz/corpus/TARGET and the dictionaries beside; what is found on the way is kept under --work, so that a
later run goes on from there. --minimise puts the smallest set of inputs with the same coverage into test/fuzz/corpus;
inputs named found-* there, which showed a fault once, stay.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DICTIONARIES = {"kubeconfig": "kubeconfig", "node": "json", "csinode": "json", "apistatus": "json", "csidrivers": "json",
                "core": "json", "http": "http", "rpc": "http2", "grammar": "grammar", "text": "grammar"}
RSS_MB = 1024
INPUT_TIMEOUT = 25  # seconds that one input may take
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "malloc_context_size=8:" + os.environ.get("ASAN_OPTIONS", "")}
GRACE = 120  # seconds after which a target that does not end is a finding


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="build/fuzz/bin")
    parser.add_argument("--work", default="build/fuzz/work")
    parser.add_argument("--seconds", type=int, default=60, help="of each target; 0: the seeds alone, once")
    parser.add_argument("--seed", type=int, default=0, help="of libFuzzer's choices; 0: another one each time")
    parser.add_argument("--jobs", type=int, default=2, help="targets side by side")
    parser.add_argument("--select", default="", help="a regular expression of names")
    parser.add_argument("--nice", type=int, default=10)
    parser.add_argument("--minimise", action="store_true")
    return parser.parse_args()


def command(args, name, work):
    until = f"-max_total_time={args.seconds}" if args.seconds else "-runs=0"
    out = [os.path.join(args.bin, name), until, f"-rss_limit_mb={RSS_MB}",
           f"-timeout={INPUT_TIMEOUT}", f"-seed={args.seed}", "-print_final_stats=1", f"-artifact_prefix={work}/found-"]
    if name in DICTIONARIES:
        out.append(f"-dict={HERE}/{DICTIONARIES[name]}.dict")
    return out + ([os.path.join(work, "corpus")] if args.seconds else []) + [seeds(name)]


def seeds(name):
    folder = os.path.join(HERE, "corpus", name)
    os.makedirs(folder, exist_ok=True)
    return folder


def last(pattern, text):
    found = re.findall(pattern, text)
    return found[-1] if found else "?"


def run(args, name):
    work = os.path.join(args.work, name)
    os.makedirs(os.path.join(work, "corpus"), exist_ok=True)
    log, started = os.path.join(work, "log"), time.monotonic()
    with open(log, "w", encoding="utf-8") as file:
        try:
            code = subprocess.run(command(args, name, work), stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=ENVIRONMENT,
                                  preexec_fn=lambda: os.nice(args.nice), timeout=args.seconds + GRACE, check=False).returncode
        except subprocess.TimeoutExpired:
            code = "it does not end"
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    numbers = [last(r"stat::number_of_executed_units: (\d+)", text), last(r"stat::average_exec_per_sec: +(\d+)", text),
               last(r"cov: (\d+)", text), last(r"ft: (\d+)", text), last(r"corp: (\d+)", text)]
    print(f"{name:<11} {time.monotonic() - started:6.0f} {numbers[0]:>11} {numbers[1]:>8} {numbers[2]:>6} {numbers[3]:>7} "
          f"{numbers[4]:>6}  {'ok' if code == 0 else f'FOUND ({code})'}", flush=True)
    if code != 0:
        print("\n".join(text.split("\n")[-60:]) + f"\n{name}: see {log} and {work}/found-*", flush=True)
    return code == 0


def minimise(args, name):
    fresh = os.path.join(args.work, name, "minimal")
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh)
    subprocess.run([os.path.join(args.bin, name), "-set_cover_merge=1", fresh, seeds(name), os.path.join(args.work, name, "corpus")],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for old in os.listdir(seeds(name)):
        if not old.startswith("found-"):
            os.unlink(os.path.join(seeds(name), old))
    for new in os.listdir(fresh):
        shutil.copy(os.path.join(fresh, new), seeds(name))
    print(f"{name}: {len(os.listdir(fresh))} inputs")
    return True


def main():
    args = parse()
    names = sorted(n for n in os.listdir(args.bin) if re.search(args.select, n))
    if not args.minimise:
        print(f"{'target':<11} {'seconds':>6} {'executions':>10} {'exec/s':>8} {'cov':>6} {'ft':>7} {'corpus':>6}", flush=True)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        good = list(pool.map(lambda n: (minimise if args.minimise else run)(args, n), names))
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if names and all(good) else 1


sys.exit(main())
