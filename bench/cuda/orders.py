#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does `reorder=auto` take the order that serves best on a GPU? Runs a GCN F-64-41 with tuned kernels on each graph in each order, and in
the one that `auto` takes, in turn, and tells how long each stage of preparation took.

  python3 bench/cuda/orders.py --graphs FOLDER --worker bin/vicinal_bench_worker --names reddit,artist --json orders.json

FOLDER has the graphs of vicinal_bench_graphs, NAME.bin. Needs NumPy."""

import argparse
import json
import os
import statistics
import struct
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import numpy as np

from bench.peers import workers

ORDERS = ("auto", "none", "community", "rcm", "degree")
FEATURES, HIDDEN, CLASSES = 64, 64, 41
TURN = {"budget_ms": 40, "most": 60}


def write_model(folder):
    """The architecture and random weights of the GCN, as files."""
    files = {"architecture": os.path.join(folder, "gcn.json"), "weights": os.path.join(folder, "gcn.safetensors")}
    kwargs = {"in_channels": FEATURES, "hidden_channels": HIDDEN, "num_layers": 2, "out_channels": CLASSES}
    with open(files["architecture"], "w", encoding="ascii") as file:
        json.dump({"class": "torch_geometric.nn.models.GCN", "kwargs": kwargs}, file)
    shapes = {"convs.0.lin.weight": (HIDDEN, FEATURES), "convs.0.bias": (HIDDEN,), "convs.1.lin.weight": (CLASSES, HIDDEN), "convs.1.bias": (CLASSES,)}
    random, header, body = np.random.default_rng(1), {}, b""
    for name, shape in shapes.items():
        values = random.normal(0, 0.1, shape).astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(values)]}
        body += values
    text = json.dumps(header).encode()
    with open(files["weights"], "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)
    return files


def measure(options, graph, folder, files):
    """{order: figures} of one graph. Each order has a process of its own, so that all are ready and take turns."""
    rows, ready = {}, {}
    file = os.path.join(options.graphs, graph + ".bin")
    for order in options.orders:
        worker = workers.Process([options.worker, str(os.cpu_count() or 1), options.device])
        prepared = worker.ask("binary_graph", file=file, features=FEATURES, order=order)
        worker.ask("forward", tune=True, result=os.path.join(folder, "result.f32"), **files)
        rows[order] = {"graph": graph, "order": order, "taken": prepared["order"], "prepare_seconds": prepared["prepare_seconds"],
                       "stage_seconds": prepared["stages"], "reason": prepared["order_reason"]}
        ready[order] = worker
    samples = {order: [] for order in ready}
    for _ in range(options.rounds):
        for order, worker in ready.items():
            answer = worker.ask("time", **TURN)
            samples[order].append(statistics.median(answer["us"]))
            rows[order]["kernels"] = answer["kernels"]
    for order, worker in ready.items():
        rows[order]["median_us"] = statistics.median(samples[order])
        rows[order]["spread"] = max(samples[order]) / min(samples[order])
        worker.close()
    best = min(row["median_us"] for order, row in rows.items() if order != "auto")
    for row in rows.values():
        row["of_best"] = row["median_us"] / best
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", required=True, help="folder of the graphs, NAME.bin")
    parser.add_argument("--worker", required=True, help="vicinal_bench_worker")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--names", required=True, help="graphs, separated by commas")
    parser.add_argument("--orders", default=",".join(ORDERS), help="auto and those to compare it with")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each order")
    parser.add_argument("--json", help="results, written after every graph")
    options = parser.parse_args()
    options.orders = options.orders.split(",")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        files = write_model(folder)
        for graph in options.names.split(","):
            rows = measure(options, graph, folder, files)
            for order, row in rows.items():
                stages = " ".join(f"{name} {seconds:.2f}" for name, seconds in row["stage_seconds"].items())
                print(f"{graph:12} {order:10} {row['taken']:10} {row['median_us']:10.1f} us {row['of_best']:6.3f} of the best   {stages}", flush=True)
            print("  " + rows["auto"]["reason"] if "auto" in rows else "", flush=True)
            results += rows.values()
            if options.json:
                with open(options.json, "w", encoding="utf-8") as file:
                    json.dump({"rows": results}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
