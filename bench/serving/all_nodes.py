#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Classify of all nodes of a graph with one call in flight: on the server (Timing.total_seconds) and at the client.

  python3 bench/serving/all_nodes.py --bin build/bench/bin [--device cuda:0] [--json OUT.json]

The graph has the sizes of the Flickr social network (7,575 nodes, 479,476 edges, 12,047 sparse features), random edges and a GCN with 64
hidden and 7 classes, random weights. Kept answers are off, so every call runs the model. The server tunes the graph first. Needs numpy."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [ROOT, os.path.join(ROOT, "bench", "state")]

import numpy as np

import common
import models

NODES, EDGES, FEATURES, PER_ROW, HIDDEN, CLASSES = 7575, 479476, 12047, 24, 64, 7


def write_graph(folder, seed):
    edges, _ = common.random_graph(seed, NODES, EDGES, 1)
    random = np.random.default_rng(seed)
    indices = np.sort(random.integers(0, FEATURES // PER_ROW, (NODES, PER_ROW)) + np.arange(PER_ROW) * (FEATURES // PER_ROW), axis=1)
    path = os.path.join(folder, "flickr.npz")
    np.savez(path, edge_index=edges.astype(np.int32), x_indptr=np.arange(NODES + 1, dtype=np.int64) * PER_ROW,
             x_indices=indices.ravel().astype(np.int32), x_data=np.ones(NODES * PER_ROW, np.float32),
             x_shape=np.array([NODES, FEATURES], np.int64))  # fmt: skip
    return path


def measure(server, top_k, seconds, *flags):
    report = server.vicinal("load", "--graph", "flickr", "--model", "gcn", "--nodes", "all", "--top_k", str(top_k), "--concurrency", "1",
                            "--warmup", "1", "--duration", str(seconds), *flags)  # fmt: skip
    step = report["steps"][0]
    row = {"top_k": top_k, "parts": " ".join(flag[2:] for flag in flags) or "classes and scores", "calls": step["ok"], "failed": step["failed"]}
    for name in ("server", "latency"):
        for quantile in ("p50", "p99"):
            row[f"{name}_{quantile}_us"] = round(step[name][quantile] * 1e6, 1)
    return row


def main():
    parser = common.parser(__doc__, "serving_all_nodes")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=5, help="of each case")
    options = parser.parse_args()
    with common.Scratch(options.folder) as folder:
        graph, stem = write_graph(folder, options.seed), models.write_gcn(folder, options.seed, FEATURES, HIDDEN, CLASSES)
        with common.Server(options, folder, f"--device={options.device}", "--keep_answers=never") as server:
            server.vicinal("graph", "upload", graph, "--name", "flickr")
            server.vicinal("model", "upload", stem + ".json", "--weights", stem + ".safetensors", "--name", "gcn")
            measure(server, 1, 1)  # makes the plan, and tells the tuner what it needs
            server.vicinal("graph", "tune", "flickr")
            rows = [measure(server, 1, options.seconds), measure(server, 5, options.seconds),
                    measure(server, 1, options.seconds, "--probabilities")]  # fmt: skip
            answer = server.vicinal("classify", "--graph", "flickr", "--model", "gcn", "--nodes", "all", "--repeat", "20")
        rows[0]["execute_us"] = round(answer["timing"]["execute_seconds"] * 1e6, 1)
    common.finish(options, rows)
    return 0 if all(row["failed"] == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
