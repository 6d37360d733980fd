#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dot products of the ends of all edges (SDDMM) on the CPU beside DGL, in one run, on graphs that vicinal_bench_graphs makes.

  python3 bench/edge_scores.py --graphs FOLDER/cora.bin,FOLDER/artist.bin --worker build/bench/bin/vicinal_bench_worker \\
      --dgl-python DGL_ENV/bin/python --json FILE

Ours by rows, and in the order of Hilbert's curve (--hilbert); DGL with 64-bit and 32-bit ids. Nodes stay in the file's order for all. Answers
are compared first (relative L2 at most 1e-5), then all take turns; a ratio is that of medians. This script itself needs numpy alone."""

import argparse
import json
import os
import statistics
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

import numpy as np

from bench.binary_graph import read_graph
from bench.peers import exchange, workers

TOLERANCE = 1e-5


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", required=True, help="files, separated by commas")
    parser.add_argument("--worker", required=True, help="vicinal_bench_worker")
    parser.add_argument("--dgl-python", required=True, help="interpreter with dgl")
    parser.add_argument("--widths", default="16,64,128,256")
    parser.add_argument("--hilbert", default="1,4", help="orders of the curve to measure beside rows")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant")
    parser.add_argument("--turn-ms", type=float, default=50)
    parser.add_argument("--processor", action="store_true", help="processor time, on a machine that others use; with one thread")
    parser.add_argument("--json", required=True)
    return parser.parse_args()


class Contestant:
    """Something that is timed in turns: a process, and what it is asked."""

    def __init__(self, name, process, **fields):
        self.name, self.process, self.fields, self.us = name, process, fields, []



class Ours(Contestant):
    def result(self, path, width):
        self.process.ask("scores", width=width, result=path, config=[self.fields["order"]])

    def turn(self, options, width, path):
        self.result(path, width)  # the worker holds one cell at a time
        self.us += self.process.ask("time", budget_ms=options.turn_ms, most=50)["processor_us" if options.processor else "us"]


class Peer(Contestant):
    def result(self, path, width):
        self.process.ask("make", peer=self.fields["peer"], result=path)

    def turn(self, options, width, path):
        fields = {"peer": self.fields["peer"], "budget_ms": options.turn_ms, "most": 50}
        self.us += self.process.ask("time", **fields)["processor_us" if options.processor else "us"]


def relative_error(got, want):
    return float(np.linalg.norm(got.astype(np.float64) - want) / np.linalg.norm(want.astype(np.float64)))


def contestants(options, ours, dgl, width):
    orders = [0, *map(int, filter(None, options.hilbert.split(",")))]
    all_of_us = [Ours("rows" if order == 0 else f"Hilbert, order {order}", ours, order=order) for order in orders]
    names = dgl.ask("list", kind="scores", width=width)["peers"]
    return all_of_us + [Peer(name, dgl, peer=name) for name in names]


def run_cell(options, ours, dgl, width, path):
    entrants = contestants(options, ours, dgl, width)
    want, errors = None, {}
    for entrant in entrants:
        entrant.result(path, width)
        got = np.fromfile(path, np.float32)
        want = got if want is None else want
        errors[entrant.name] = relative_error(got, want)
        if not errors[entrant.name] <= TOLERANCE:
            raise SystemExit(f"{entrant.name} differs from ours by rows: relative L2 {errors[entrant.name]:.2g}")
    for _ in range(options.rounds):
        for entrant in entrants:
            entrant.turn(options, width, path)
            entrant.process.rest()
    us = {entrant.name: statistics.median(entrant.us) for entrant in entrants}
    spread = {entrant.name: float(np.subtract(*np.percentile(entrant.us, [75, 25])) / us[entrant.name]) for entrant in entrants}
    peer = min((name for name in us if name.startswith("DGL")), key=us.get)
    return {"width": width, "us": us, "spread": spread, "errors": errors, "peer": peer, "ratio": us[peer] / us["rows"]}


def load(nodes, edges, folder, ours, dgl):
    file = os.path.join(folder, "graph")
    exchange.write_safetensors(file, {"edge_index": edges, "edge_weight": np.ones(edges.shape[1], np.float32)})
    ours.ask("graph", file=file, nodes=nodes, features=0, order="none")
    dgl.ask("graph", file=file, nodes=nodes, features=0)


def main():
    options = parse_arguments()
    environment = {"OMP_NUM_THREADS": str(options.threads), "MKL_NUM_THREADS": str(options.threads), "PYTHONPATH": ROOT}
    ours = workers.Process([options.worker, str(options.threads)])
    dgl = workers.Process([options.dgl_python, "-m", "bench.peers.peer_worker", "dgl", str(options.threads)], environment)
    report = {"about": ours.ask("hello"), "versions": dgl.ask("hello")["versions"], "processor_time": options.processor}
    report["cells"] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in options.graphs.split(","):
            edges, nodes = read_graph(path)
            load(nodes, edges, folder, ours, dgl)
            for width in map(int, options.widths.split(",")):
                cell = {"graph": os.path.splitext(os.path.basename(path))[0], "nodes": nodes, "edges": int(edges.shape[1])}
                cell.update(run_cell(options, ours, dgl, width, os.path.join(folder, "result")))
                report["cells"].append(cell)
                times = ", ".join(f"{name} {us:.0f}" for name, us in cell["us"].items())
                print(f"{cell['graph']:14} D={width:<4} us: {times}; ratio {cell['ratio']:.2f}", flush=True)
                report["geometric_mean"] = float(np.exp(np.mean([np.log(c["ratio"]) for c in report["cells"]])))
                report["least"] = min(c["ratio"] for c in report["cells"])
                with open(options.json, "w", encoding="utf-8") as file:
                    json.dump(report, file, indent=1)
    ours.close()
    dgl.close()
    print(f"geometric mean {report['geometric_mean']:.2f}, least {report['least']:.2f}")


if __name__ == "__main__":
    main()
