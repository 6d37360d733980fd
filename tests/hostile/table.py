#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""By hand, on a quiet machine: the whole table of attacks (hostile.py) in all ways beside each other, each on processor cores of its own, then
latency and throughput with and without TLS and the edge (tests/edge/latency.py), as one JSON document:

    VICINAL_BIN_DIR=build/release/bin tests/hostile/table.py [--seconds 5] [--scale 1] [--json FILE]

It needs grpcio and hpack for Python, openssl, and HAProxy for the edge; it looks for them first. Each way wants three cores: one for the
server, one for the attacker, one for the honest client. About four minutes with sixteen cores and --seconds 5."""

import argparse
import importlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = (("mtls", ()), ("edge", ()), ("edge", ("--token",)), ("alone", ()))
CORES_EACH = 3


def missing():
    """What is not here, in words."""
    modules = [name for name in ("grpc", "hpack") if not importable(name)]
    programs = [name for name in ("openssl", "haproxy", "taskset") if shutil.which(name) is None]
    ours = [name for name in ("vicinal-server", "vicinal") if not os.access(os.path.join(os.environ.get("VICINAL_BIN_DIR", ""), name), os.X_OK)]
    return [f"Python's {name}" for name in modules] + programs + [f"{name} in VICINAL_BIN_DIR" for name in ours]


def importable(name):
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def start(command, cores, output):
    if cores:
        command = ["taskset", "-c", ",".join(map(str, cores)), *command]
    return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)


def attack_all(arguments, folder):
    """{way: its rows, or how it failed}."""
    cores = sorted(os.sched_getaffinity(0))
    share = len(cores) // len(WAYS)
    apart = share >= CORES_EACH
    if not apart:
        print(f"{len(cores)} cores: the ways run one after another", file=sys.stderr)
    running, done, cut = [], {}, set()
    for index, (where, more) in enumerate(WAYS):
        name = " ".join((where, *more))
        paths = [os.path.join(folder, f"{index}.{end}") for end in ("json", "txt")]
        with open(paths[1], "wb") as output:
            command = [sys.executable, os.path.join(HERE, "hostile.py"), "--where", where, *more, "--seconds", str(arguments.seconds),
                       "--scale", str(arguments.scale), "--rate", str(arguments.rate), "--json", paths[0]]
            for attack in arguments.attack or ():
                command += ["--attack", attack]
            process = start(command, cores[index * share:(index + 1) * share] if apart else (), output)
        running.append((name, process, paths))
        if not apart and not ends(process, arguments.end):
            cut.add(name)
    for name, process, (rows, text) in running:
        if not ends(process, arguments.end):
            cut.add(name)
        with open(text, encoding="utf-8") as file:
            printed = file.read()
        print(printed, file=sys.stderr)
        if process.returncode != 0 and name not in cut:
            done[name] = {"failed": printed[-2000:]}
            continue
        done[name] = {"cut_off": name in cut, "rows": []}
        if os.path.exists(rows):
            with open(rows, encoding="utf-8") as file:
                done[name].update(json.load(file))
    return done


def ends(process, end):
    """Whether it ends by itself until then; otherwise it is asked to, so that it ends its servers."""
    try:
        process.wait(timeout=max(0.0, end - time.monotonic()))
        return True
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        return False


def latency(arguments, folder):
    path = os.path.join(folder, "latency.json")
    command = [sys.executable, os.path.join(HERE, "..", "edge", "latency.py"), "--turns", str(arguments.turns), "--seconds", "2", "--json", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"failed": (done.stdout + done.stderr)[-2000:]}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def summary(ways):
    """Of each way: the largest ratio of p99 during to before, the largest peak of memory, failed calls, the slowest recovery."""
    out = {}
    for name, result in ways.items():
        rows = result.get("rows", [])
        if not rows:
            continue
        ratio, of = max((row["p99_during_ms"] / max(row["p99_before_ms"], 1e-3), row["attack"]) for row in rows)
        out[name] = {"attacks": len(rows), "cut_off": result["cut_off"], "ended": [row["attack"] for row in rows if not row["lives"]],
                     "largest_p99_ratio": round(ratio, 2), "of": of, "largest_p99_during_ms": round(max(row["p99_during_ms"] for row in rows), 2),
                     "largest_peak_mib": max(row["peak_mib"] or 0 for row in rows), "largest_edge_mib": max(row["edge_mib"] or 0 for row in rows),
                     "failed_calls": sum(row["failed"] for row in rows),
                     "not_normal_again": [row["attack"] for row in rows if row["recovered_s"] is None],
                     "slowest_recovery_s": max((row["recovered_s"] or 0 for row in rows), default=0)}
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=5, help="of each attack at least, and of the calls before and after it")
    parser.add_argument("--scale", type=float, default=1.0, help="of what is sent; 1 is the whole attack")
    parser.add_argument("--rate", type=float, default=400, help="calls per second of the honest clients, at most")
    parser.add_argument("--turns", type=int, default=3, help="of the latencies; 0: none")
    parser.add_argument("--limit", type=float, default=1800, help="seconds after which the attacks are cut off")
    parser.add_argument("--attack", action="append", help="these only")
    parser.add_argument("--json", metavar="FILE", help="instead of the standard output")
    arguments = parser.parse_args()
    if lacking := missing():
        print("missing: " + ", ".join(lacking), file=sys.stderr)
        return 2
    begin = time.monotonic()
    arguments.end = begin + arguments.limit
    with tempfile.TemporaryDirectory(prefix="vicinal-table-") as folder:
        ways = attack_all(arguments, folder)
        latencies = latency(arguments, folder) if arguments.turns > 0 else None
    document = {"machine": {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release(), "load": os.getloadavg()},
                "haproxy": subprocess.run(["haproxy", "-v"], capture_output=True, text=True, check=True).stdout.splitlines()[0],
                "seconds": round(time.monotonic() - begin), "summary": summary(ways), "attacks": ways, "latency": latencies}
    with open(arguments.json, "w", encoding="utf-8") if arguments.json else os.fdopen(os.dup(1), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    failed = [name for name, result in ways.items() if "failed" in result]
    return 1 if failed or (latencies and "failed" in latencies) else 0


if __name__ == "__main__":
    sys.exit(main())
