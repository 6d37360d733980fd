#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small queries beside full passes over another graph: what one client's long runs cost the others.

  python3 bench/serving/beside.py --bin build/bench/bin [--device cuda:0] [--json OUT.json]

Small queries are Classify of 10 nodes of Cora, one in flight; full passes are Classify of all nodes of a graph with 1 million nodes and
10 million edges, by 0, 1 and 16 clients. Kept answers are off. Rounds take turns, so that a disturbance meets all of them. Needs numpy."""

import contextlib
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [ROOT, os.path.join(ROOT, "bench", "state")]

import numpy as np

import common
import models

FEATURES = 16
STREAMS = r"vicinal_requests_total\{[^}]*ClassifyStream[^}]*\}"  # the full passes


@contextlib.contextmanager
def full_passes(server, clients):
    """So many clients that ask for all nodes of the large graph, one call after the other."""
    if clients == 0:
        yield
        return
    command = [os.path.join(server.bin, "vicinal"), "load", "--server", server.grpc, "--graph", "large", "--model", "sum", "--mix", "classify_stream",
               "--nodes", "all", "--concurrency", str(clients), "--connections", str(clients), "--threads", str(min(4, clients)), "--duration", "600"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
        try:
            yield
        finally:
            load.terminate()


def small(server, seconds):
    report = server.vicinal("load", "--graph", "cora", "--model", "cora-gcn", "--nodes", "10", "--concurrency", "1", "--warmup", "1", "--duration", str(seconds))
    return report["steps"][0]


def main():
    parser = common.parser(__doc__, "serving_beside")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", default=os.path.join(ROOT, "tests", "data"), help="graphs/cora.npz and models/cora-gcn.*")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=4, help="of each turn")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    counts = (0, 1, 16)
    steps = {clients: [] for clients in counts}
    passes = {clients: 0 for clients in counts}
    with common.Scratch(options.folder) as folder:
        edges, x = common.random_graph(options.seed, options.nodes, options.edges, FEATURES)
        graph = os.path.join(folder, "large.npz")
        np.savez(graph, edge_index=edges, x=x)
        stem = models.write_model(folder, "sum", *common.sum_model(FEATURES))
        cora = os.path.join(options.data, "models", "cora-gcn")
        with common.Server(options, folder, f"--device={options.device}", "--keep_answers=never") as server:
            server.vicinal("graph", "upload", graph, "--name", "large")
            server.vicinal("graph", "upload", os.path.join(options.data, "graphs", "cora.npz"), "--name", "cora")
            server.vicinal("model", "upload", stem + ".json", "--weights", stem + ".safetensors", "--name", "sum")
            server.vicinal("model", "upload", cora + ".json", "--weights", cora + ".safetensors", "--name", "cora-gcn")
            for _ in range(options.rounds):
                for clients in counts:
                    before = server.metric(STREAMS)
                    with full_passes(server, clients):
                        steps[clients].append(small(server, options.seconds))
                        passes[clients] += round(server.metric(STREAMS) - before)
    rows = []
    for clients, those in steps.items():
        row = {"full_pass_clients": clients, "calls": sum(step["ok"] for step in those), "failed": sum(step["failed"] for step in those),
               "full_passes": passes[clients]}  # fmt: skip
        for quantile in ("p50", "p99"):
            row[f"{quantile}_us"] = round(statistics.median(step["latency"][quantile] for step in those) * 1e6, 1)
        rows.append(row)
        row["p99_ratio"] = round(row["p99_us"] / rows[0]["p99_us"], 2)
    common.finish(options, rows)
    return 0 if all(row["failed"] == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
