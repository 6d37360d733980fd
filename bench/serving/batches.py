#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests that bring their data, one at a time and many in flight: what sharing runs and overlapping steps is worth.

  python3 bench/serving/batches.py --bin build/bench/bin [--device cuda:0] [--json OUT.json]

Feature batches: Classify with features of all nodes, 7,575 x 500 numbers (15 MB), on a graph with the sizes of the Flickr social network and
a GCN 500-64-7. Batches of graphs: ClassifyGraphs with 16 random small graphs and the GIN of tests/data/models. Calls per second of each at
every number of calls in flight, medians over rounds, and their ratio to one in flight. Needs numpy."""

import os
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [ROOT, os.path.join(ROOT, "bench", "state")]

import numpy as np

import common
import models

NODES, EDGES, FEATURES, HIDDEN, CLASSES = 7575, 479476, 500, 64, 7
MODELS = os.path.join("tests", "data", "models")


def write_graph(folder, seed):
    edges, x = common.random_graph(seed, NODES, EDGES, FEATURES)
    path = os.path.join(folder, "flickr.npz")
    np.savez(path, edge_index=edges, x=x)
    return path


def measure(server, in_flight, seconds, *arguments):
    """One step of `vicinal load`."""
    report = server.vicinal("load", *arguments, "--concurrency", str(in_flight), "--connections", str(min(8, in_flight)), "--threads",
                            str(min(4, in_flight)), "--warmup", "1", "--duration", str(seconds))  # fmt: skip
    return report["steps"][0]


def rows_of(server, name, options, *arguments):
    """A row for each number of calls in flight. Rounds take turns, so that a disturbance meets all of them."""
    steps = {in_flight: [] for in_flight in options.in_flight}
    for _ in range(options.rounds):
        for in_flight, those in steps.items():
            those.append(measure(server, in_flight, options.seconds, *arguments))
    rows = []
    for in_flight, those in steps.items():
        rates = [step["ok"] / step["seconds"] for step in those]
        rows.append({"case": name, "in_flight": in_flight, "calls_per_second": round(statistics.median(rates), 1),
                     "lowest": round(min(rates), 1), "highest": round(max(rates), 1),
                     "p50_us": round(statistics.median(step["latency"]["p50"] for step in those) * 1e6, 1),
                     "failed": sum(step["failed"] for step in those)})  # fmt: skip
        rows[-1]["ratio"] = round(rows[-1]["calls_per_second"] / rows[0]["calls_per_second"], 2)
    return rows


def main():
    parser = common.parser(__doc__, "serving_batches")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", default=os.path.join(ROOT, MODELS), help="folder of proteins-ginpool.json and its weights")
    parser.add_argument("--in-flight", default="1,64", help="the first is what ratios refer to")
    parser.add_argument("--seconds", type=float, default=4, help="of each turn")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.in_flight = [int(count) for count in options.in_flight.split(",")]
    with common.Scratch(options.folder) as folder:
        graph, stem = write_graph(folder, options.seed), models.write_gcn(folder, options.seed, FEATURES, HIDDEN, CLASSES)
        pooled = os.path.join(options.data, "proteins-ginpool")
        with common.Server(options, folder, f"--device={options.device}") as server:
            server.vicinal("graph", "upload", graph, "--name", "flickr")
            server.vicinal("model", "upload", stem + ".json", "--weights", stem + ".safetensors", "--name", "gcn")
            server.vicinal("model", "upload", pooled + ".json", "--weights", pooled + ".safetensors", "--name", "pooled")
            on_flickr = ("--graph", "flickr", "--model", "gcn", "--mix", "classify_features")
            measure(server, 1, 1, *on_flickr)  # makes the plan, and tells the tuner what it needs
            server.vicinal("graph", "tune", "flickr")
            rows = rows_of(server, "features of all nodes", options, *on_flickr)
            rows += rows_of(server, "16 graphs", options, "--model", "pooled", "--mix", "classify_graphs", "--graphs_per_call", "16")
    common.finish(options, rows)
    return 0 if all(row["failed"] == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
