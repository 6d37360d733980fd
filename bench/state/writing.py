#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long writing a graph to the state directory takes beside dd of the same bytes, and what it does to queries of another
graph meanwhile.

  PYTHONPATH=build/release/client/python/installed python3 bench/state/writing.py --json writing.json

A graph is replaced again and again. In quiet rounds the time from READY to DURABLE is compared with `dd conv=fsync` of the
files that were written, to the same disk. In rounds with queries `vicinal load` calls another graph during the write, and
for the same time before the upload; only loads that ended before the write did count."""

import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import numpy as np

import vicinal
from bench.state import common
from bench.state.writing_bundle import dd_seconds


def load(server, options):
    """p50 and p99 in milliseconds of queries of the graph `small`."""
    step = server.vicinal("load", "--graph", "small", "--model", "sum", "--rate", str(options.rate), "--arrivals", "uniform",
                          "--duration", str(options.load_seconds), "--warmup", "0.1")["steps"][0]
    if step["failed"]:
        raise RuntimeError(f"queries failed: {step}")
    return np.array([step["latency"]["p50"], step["latency"]["p99"]]) * 1e3


def write_once(server, client, arrays, options, queries):
    """Replaces the graph; seconds from READY to DURABLE, and with `queries` their quantiles (None if the write was shorter)."""
    edge_index, x = arrays
    client.upload_graph("written", edge_index, x=x, reorder="none", replace=True, wait_for="ready")
    begin, durable = time.monotonic(), []

    def watch():
        common.wait_until_durable(client.get_graph, "written")
        durable.append(time.monotonic())

    watcher = threading.Thread(target=watch)
    watcher.start()
    measured = load(server, options) if queries else None
    end = time.monotonic()
    watcher.join()
    return durable[0] - begin, measured if queries and end <= durable[0] else None


def measure(options, folder, state, server, client):
    arrays = common.random_graph(options.seed, options.nodes, options.edges, options.features)
    small = common.random_graph(options.seed + 1, 20_000, 200_000, options.features)
    client.upload_graph("small", small[0], x=small[1])
    client.upload_model("sum", *common.sum_model(options.features))
    write_once(server, client, arrays, options, False)  # buffers and files of a first time
    writes, copies, quiet, busy = [], [], [], []
    for _ in range(options.rounds):
        quiet.append(load(server, options))
        writes.append(write_once(server, client, arrays, options, False)[0])
        versions = os.path.join(state, "graphs", "written")
        files, size = common.disk_bytes(os.path.join(versions, max(os.listdir(versions), key=int)))
        copies.append(dd_seconds(files, folder))
        _, measured = write_once(server, client, arrays, options, True)
        if measured is not None:
            busy.append(measured)
    rows = [{"case": "write", "bytes": size, "rounds": options.rounds, "ready_to_durable_ms": round(common.median(writes) * 1e3, 1),
             "least_ms": round(min(writes) * 1e3, 1), "most_ms": round(max(writes) * 1e3, 1),
             "dd_fsync_ms": round(common.median(copies) * 1e3, 1), "dd_least_ms": round(min(copies) * 1e3, 1),
             "dd_most_ms": round(max(copies) * 1e3, 1), "ratio": round(common.median(writes) / common.median(copies), 3)}]
    if busy:
        before, meanwhile = np.median(quiet, axis=0), np.median(busy, axis=0)
        rows.append({"case": "queries meanwhile", "rounds": len(busy), "rate": options.rate, "load_seconds": options.load_seconds,
                     "median_before_ms": round(before[0], 3), "p99_before_ms": round(before[1], 3),
                     "median_meanwhile_ms": round(meanwhile[0], 3), "p99_meanwhile_ms": round(meanwhile[1], 3),
                     "p99_most_ms": round(float(np.max(busy, axis=0)[1]), 3), "ratio": round(meanwhile[1] / before[1], 3)})
    return rows


def main():
    parser = common.parser(__doc__, "state_writing_cpu")
    parser.add_argument("--nodes", type=int, default=4_000_000)
    parser.add_argument("--edges", type=int, default=25_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=500, help="queries per second")
    parser.add_argument("--load_seconds", type=float, default=0.5)
    options = parser.parse_args()
    with common.Scratch(options.folder) as folder:
        state = os.path.join(folder, "state")
        with common.Server(options, folder, f"--state_dir={state}", "--max_upload_bytes=64GiB", "--tuning_budget=0s") as server:
            with vicinal.Client(server.grpc, chunk_bytes=4 << 20) as client:
                rows = measure(options, folder, state, server, client)
            server.stop()
    common.finish(options, rows)


if __name__ == "__main__":
    main()
