#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures FeatGraph's claims about CPUs: sums of tiled_rows in chosen settings and with chosen numbers of threads, and
PyTorch's sparse product, which calls MKL where PyTorch has it.

  python3 bench/cuda/claim_cpu.py --graph FOLDER/rand-100K.bin --worker bin/vicinal_bench_worker --json cpu.json

Settings: neither tiles nor partitions, tiles of columns alone, partitions of sources alone, and both; of each the
fastest of a few sizes counts. Results are compared to PyTorch's (relative L2 at most 1e-5). Needs numpy and torch."""

import argparse
import json
import os
import sys
import tempfile
import time
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import numpy as np
import torch

from bench.peers import exchange, figures, workers

TOLERANCE = 1e-5
RUNS = {"budget_ms": 600, "most": 5}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graph", required=True, help="a graph of vicinal_bench_graphs, NAME.bin")
    parser.add_argument("--worker", required=True, help="vicinal_bench_worker")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="the most; one is measured, too")
    parser.add_argument("--width", type=int, default=512, help="of the comparison of settings")
    parser.add_argument("--scaling-width", type=int, default=128, help="of the comparison of threads")
    parser.add_argument("--stop-after", type=float, default=1e9, help="seconds; what is left over is named")
    parser.add_argument("--json", required=True)
    return parser.parse_args()


def settings(nodes, width):
    """name -> configurations (source_rows, tile_columns, shared) of tiled_rows."""
    tiles = [t for t in (16, 64, 128) if t < width]
    parts = [max(64, nodes // n) for n in (4, 8, 16)]
    return {
        "neither": [(nodes, width)],
        "tiles": [(nodes, t) for t in tiles],
        "partitions": [(p, width) for p in parts],
        "both": [(p, t) for p in parts for t in tiles],
        "shared": [(p, t, 1) for p in (nodes, nodes // 2, nodes // 4) for t in (16, 32)],
    }


class Measuring:
    def __init__(self, options):
        self.options = options
        self.end = time.monotonic() + options.stop_after
        self.cells, self.left_over = [], []
        nodes, edges = np.fromfile(options.graph, np.int64, 2)
        numbers = np.fromfile(options.graph, np.int32, offset=16)
        self.nodes, self.edges = int(nodes), int(edges)
        self.csr = torch.sparse_csr_tensor(
            torch.from_numpy(numbers[: nodes + 1].astype(np.int64)), torch.from_numpy(numbers[nodes + 1 :].astype(np.int64)),
            torch.ones(self.edges), size=(self.nodes, self.nodes))
        self.name = os.path.splitext(os.path.basename(options.graph))[0]

    def add(self, what, threads, width, us, **more):
        cell = {"graph": self.name, "what": what, "threads": threads, "width": width, **figures.summarise(us), **more}
        self.cells.append(cell)
        print(f"{what}, {threads} threads, width {width}: {cell['median_us']:.0f} us {more}", flush=True)

    def torch_product(self, threads, width):
        """PyTorch's result."""
        torch.set_num_threads(threads)
        x = torch.from_numpy(exchange.pattern(self.nodes, width))
        us, result = [], None
        with torch.inference_mode():
            self.csr @ x[:, :8]
            while not us or (sum(us) < 1e3 * RUNS["budget_ms"] and len(us) < RUNS["most"]):
                begin = time.perf_counter()
                result = self.csr @ x
                us.append(1e6 * (time.perf_counter() - begin))
        self.add("torch", threads, width, us)
        return result.numpy()

    def tiled(self, worker, what, threads, width, configurations, expected):
        """Measures the fastest right one of `configurations`, and returns it alone; all, if the time was up."""
        best = None
        for config in configurations:
            if time.monotonic() > self.end:
                self.left_over.append(f"{what}, {threads} threads, width {width}")
                break
            with tempfile.NamedTemporaryFile() as file:
                worker.ask("aggregate", reduce="sum", weighted=False, width=width, kernel="tiled_rows",
                           config=list(config), result=file.name)
                error = relative_error(np.fromfile(file.name, np.float32), expected)
            if error > TOLERANCE:
                raise SystemExit(f"tiled_rows {config}: relative L2 {error:.2g}")
            us = worker.ask("time", **RUNS)["us"]
            if best is None or min(us) < min(best[0]):
                best = (us, config)
        if best is None:
            return configurations
        self.add(what, threads, width, best[0], config=list(best[1]))
        return [best[1]]

    def run(self):
        most, wide, narrow = self.options.threads, self.options.width, self.options.scaling_width
        expected = {width: self.torch_product(most, width) for width in (narrow, wide)}
        self.torch_product(1, narrow)
        fastest = {what: settings(self.nodes, narrow)[what] for what in ("neither", "both", "shared")}
        for threads in (most, 1):  # one thread takes what was the fastest with all
            worker = workers.Process([self.options.worker, str(threads)])
            worker.ask("binary_graph", file=self.options.graph, features=1, order="none")
            if threads == most:
                for what, configurations in settings(self.nodes, wide).items():
                    self.tiled(worker, what, threads, wide, configurations, expected[wide])
            for what in fastest:
                fastest[what] = self.tiled(worker, what, threads, narrow, fastest[what], expected[narrow])
            worker.close()


def relative_error(result, expected):
    difference = result.reshape(expected.shape).astype(np.float64) - expected
    return float(np.linalg.norm(difference) / np.linalg.norm(expected.astype(np.float64)))


def main():
    warnings.filterwarnings("ignore")  # PyTorch's, about CSR
    options = parse_arguments()
    measuring = Measuring(options)
    measuring.run()
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump({"threads": options.threads, "cells": measuring.cells, "left_over": measuring.left_over}, file, indent=1)
    return 3 if measuring.left_over else 0


if __name__ == "__main__":
    sys.exit(main())
