#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/state/writing.py for machines that have a bundle (deploy/bundle.sh) and Python alone, and more cores than the server takes: the
server has its own, clients and generators of load have others, so that a query waits for the server's writing and for nothing else.

  python3 bench/state/writing_bundle.py --bin BUNDLE/bin --server_cores 0,1 --other_cores 4-15 --json writing.json

A graph is replaced again and again. From READY to DURABLE `vicinal load` calls another graph, one load after the other, and once before
each upload; only loads that ended before the write did count. The write is compared with dd conv=fsync of the files that were written, to the same disk."""

import json
import os
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.state import bundle
from bench.state.scratch import Scratch, finish


def durable_versions(state):
    """Of the graph that is written, by what the disk shows: asking the server would take time from it."""
    versions = os.path.join(state, "graphs", "written")
    names = os.listdir(versions) if os.path.isdir(versions) else []
    return {name for name in names if os.path.exists(os.path.join(versions, name, "manifest.json"))}


def load(server, options):
    """Median and p99 of queries of the graph `small`, in milliseconds."""
    done = server.vicinal("load", "--graph", "small", "--model", "sum", "--rate", str(options.rate), "--arrivals", "uniform", "--duration",
                          str(options.load_seconds), "--warmup", "0.1", "--json")
    step = json.loads(done.stdout)["steps"][0]
    if step["failed"]:
        raise RuntimeError(f"queries failed: {step}")
    return step["latency"]["p50"] * 1e3, step["latency"]["p99"] * 1e3


def dd_seconds(files, folder):
    """dd of the files to the disk of `folder`, each with fsync."""
    copy, seconds = os.path.join(folder, "copy"), 0.0
    for path in files:
        begin = time.monotonic()
        subprocess.run(["dd", f"if={path}", f"of={copy}", "bs=1M", "conv=fsync"], check=True, stderr=subprocess.DEVNULL)
        seconds += time.monotonic() - begin
        os.remove(copy)
    return seconds


def write_once(server, graph, state, options, queries):
    """Replaces the graph; seconds from READY to DURABLE, and with `queries` what each load took that ended before the write did."""
    before = durable_versions(state)
    server.vicinal("graph", "upload", graph, "--name", "written", "--reorder", "none", "--replace", "--wait_for", "ready")
    begin, durable = time.monotonic(), []

    def watch():
        while durable_versions(state) <= before:
            time.sleep(0.002)
        durable.append(time.monotonic())

    watcher = threading.Thread(target=watch)
    watcher.start()
    loads = []
    while queries and not durable:
        loads.append((load(server, options), time.monotonic()))
    watcher.join()
    return durable[0] - begin, [measured for measured, end in loads if end <= durable[0]]


def newest_files(state):
    versions = os.path.join(state, "graphs", "written")
    return bundle.data_files(os.path.join(versions, max(os.listdir(versions), key=int)))


def measure(options, folder, state):
    small, written = os.path.join(folder, "small.npz"), os.path.join(folder, "written.npz")
    bundle.write_graph(small, 1 << 14, 200_000, options.features)
    bundle.write_graph(written, options.nodes, options.edges, options.features)
    bundle.write_model(options.features, folder)
    server = bundle.Server(options, folder, state)
    server.vicinal("graph", "upload", small, "--name", "small", "--wait_for", "durable")
    server.vicinal("model", "upload", os.path.join(folder, "sum.json"), "--weights", os.path.join(folder, "sum.safetensors"), "--name", "sum")
    write_once(server, written, state, options, False)  # buffers and files of a first time
    writes, copies, quiet, busy = [], [], [], []
    for _ in range(options.rounds):
        quiet.append(load(server, options))
        if not options.queries_only:
            writes.append(write_once(server, written, state, options, False)[0])
            copies.append(dd_seconds(newest_files(state), folder))
        seconds, loads = write_once(server, written, state, options, True)
        busy += loads
        print(json.dumps({"write_ms": round(seconds * 1e3), "quiet_ms": quiet[-1], "meanwhile_ms": loads}), flush=True)
    server.stop()

    def middle(pairs, part):
        return round(statistics.median(pair[part] for pair in pairs), 3)

    rows = []
    if writes:
        rows.append({"case": "write", "bytes": sum(os.stat(file).st_blocks * 512 for file in newest_files(state)), "rounds": options.rounds,
                     "ready_to_durable_ms": round(statistics.median(writes) * 1e3, 1), "dd_fsync_ms": round(statistics.median(copies) * 1e3, 1),
                     "ratio": round(statistics.median(writes) / statistics.median(copies), 3)})
    row = {"case": "queries meanwhile", "rounds": options.rounds, "loads": len(busy), "rate": options.rate,
           "load_seconds": options.load_seconds, "median_before_ms": middle(quiet, 0), "p99_before_ms": middle(quiet, 1)}
    if busy:
        row.update({"median_meanwhile_ms": middle(busy, 0), "p99_meanwhile_ms": middle(busy, 1),
                    "p99_most_ms": round(max(pair[1] for pair in busy), 3), "p99_before_most_ms": round(max(pair[1] for pair in quiet), 3),
                    "p99_each_ms": sorted(pair[1] for pair in busy), "ratio": round(middle(busy, 1) / middle(quiet, 1), 3)})
    return [*rows, row]


def main():
    parser = bundle.parser(__doc__, "cpu", "state_writing_cpu")
    parser.add_argument("--server_cores", default="0,1", help="processors of the server, as taskset takes them")
    parser.add_argument("--other_cores", default=None, help="processors of everything else; default: all")
    parser.add_argument("--nodes", type=int, default=1 << 22, help="a power of two")
    parser.add_argument("--edges", type=int, default=25_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--queries_only", action="store_true", help="without the writes that are compared with dd: half the time")
    parser.add_argument("--rate", type=float, default=500, help="queries per second")
    parser.add_argument("--load_seconds", type=float, default=0.5)
    options = parser.parse_args()
    options.server_command = ["taskset", "-c", options.server_cores]
    options.client_command = ["taskset", "-c", options.other_cores] if options.other_cores else []
    options.flags = ["--threads=2", *options.flags]
    with Scratch(options.folder) as folder:
        rows = measure(options, folder, os.path.join(folder, "state"))
    finish(options, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
