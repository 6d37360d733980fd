#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares aggregation and forward passes on the CPU with PyTorch, PyTorch Geometric and DGL, on real graphs.

  python bench/compare_peers.py --data FOLDER --worker build/bench/bin/vicinal_bench_worker --json result.json

Each contestant is a process of its own that prepares a cell, then runs and times it on command; the processes take
turns within each cell (ours, peer, peer, ours, ...), so that a change of the machine's speed hits all of them. Before
timing, each peer's result is compared with ours (relative L2 error at most 1e-5); one that differs or fails is named
and left out. A peer that was more than --screen times slower than the fastest one in its first runs is named, with that
time, and not run again.

--python is the interpreter with torch and torch_geometric, --dgl-python one with dgl (which needs an older torch); this
script itself needs numpy. A library that is not there is skipped aloud. bench/README.md says what is counted."""

import argparse
import itertools
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np

from bench.peers import cells as cell_list
from bench.peers import exchange, figures, report, workers

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORKING_SETS = [1 << k for k in range(16, 29)]
TOLERANCE = 1e-5
GRAPHS = ("cora", "directed", "pubmed", "proteins", "amazon_computers", "cornell5", "cnr2000")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="folder of the graphs, NAME.npz")
    parser.add_argument("--worker", required=True, help="vicinal_bench_worker")
    parser.add_argument("--python", default=sys.executable, help="interpreter with torch and torch_geometric")
    parser.add_argument("--dgl-python", default=None, help="interpreter with dgl; none: DGL is left out")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--kinds", default=",".join([*cell_list.AGGREGATIONS, *cell_list.FORWARDS]), help="also " + ",".join(cell_list.EDGE_LAYERS))
    parser.add_argument("--edge-dims", default="16", help="features of each edge, of layers that read them")
    parser.add_argument("--compile", action="store_true", help="PyG's layers with features of edges with torch.compile, too")
    parser.add_argument("--memory", action="store_true", help="peak memory of each contestant of these layers, each in a new process; with one thread")
    parser.add_argument("--no-time", action="store_true", help="prepare and check cells, but do not time them")
    parser.add_argument("--widths", default=",".join(map(str, cell_list.WIDTHS)))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--order", default="auto", help="order of our prepared graph")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each contestant, at most")
    parser.add_argument("--cell-seconds", type=float, default=4, help="no new round after this; at least 3 are run")
    parser.add_argument("--burst-ms", type=float, default=4, help="a contestant's samples within one turn")
    parser.add_argument("--peers", nargs="*", help="names of the forms to run, such as 'DGL, int32'; default: all")
    parser.add_argument("--screen", type=float, default=2.5)
    parser.add_argument(
        "--known",
        help="results of a run before this one: a peer that was screened out of a cell there, by at "
        "least twice the limit, or failed, is not prepared again, at any number of threads",
    )
    parser.add_argument("--json", help="results; with --resume, cells that are in it are not run again")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--stop-after", type=float, default=1e9, help="seconds; status 3 when cells were left over")
    parser.add_argument("--quiet", action="store_true", help="no line per cell")
    return parser.parse_args()


class Comparison:
    def __init__(self, options, threads, scratch, known):
        self.options, self.threads, self.scratch, self.known = options, threads, scratch, known
        self.ours = self.start("ours")
        self.peers = {}
        for library, python in (("torch", options.python), ("dgl", options.dgl_python)):
            if python is None:
                print(f"{library}: left out, no interpreter given", file=sys.stderr)
                continue
            self.peers[library] = self.start(library)
        self.about = self.ours.ask("hello")
        for library in list(self.peers):
            try:
                self.about.update(self.peers[library].ask("hello")["versions"])
            except workers.WorkerError as error:
                print(f"{library}: left out, {error}", file=sys.stderr)
                del self.peers[library]
        # Processes that run nothing themselves, for measuring memory.
        self.untouched = {library: self.start(library) for library in self.peers} if options.memory else {}
        self.speeds = {"working_sets": WORKING_SETS, **self.ours.ask("floors", working_sets=WORKING_SETS)}

    def start(self, contestant):
        """A process of ours or of a library of peers."""
        count = str(self.threads)
        if contestant == "ours":
            return workers.Process([self.options.worker, count])
        python = self.options.python if contestant == "torch" else self.options.dgl_python
        environment = {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "PYTHONPATH": ROOT}
        return workers.Process([python, "-m", "bench.peers.peer_worker", contestant, count], environment)

    def close(self):
        for process in [self.ours, *self.peers.values(), *self.untouched.values()]:
            process.close()

    def load(self, name, edge_dim):
        """`edge_dim`: None, or of each edge, for layers of cell_list.EDGE_LAYER_WIDTH columns."""
        path = os.path.join(self.options.data, name + ".npz")
        data = exchange.load_dataset(path, cell_list.EDGE_LAYER_WIDTH, edge_dim)
        file = os.path.join(self.scratch, "graph.safetensors")
        tensors = data.pop("tensors")
        in_edges = np.bincount(tensors["edge_index"][1], minlength=data["nodes"])
        self.degrees = np.bincount(in_edges).tolist()
        exchange.write_safetensors(file, tensors)
        self.graph = {"name": name, **data}
        self.message = {"file": file, "nodes": data["nodes"], "features": data["features"]}
        self.graph.update(self.ours.ask("graph", order=self.options.order, **self.message))
        for process in [*self.peers.values(), *self.untouched.values()]:
            process.ask("graph", **self.message)

    def run(self, cell):
        """Measures one cell; None when our side has no answer that the peers agree with."""
        cell = {**cell, "threads": self.threads}
        if cell["kind"] == "forward":
            cell.update(self.model(cell["name"]))
        if cell["kind"] == "edge_layer":
            cell.update(self.edge_layer(cell))
        ours_file = os.path.join(self.scratch, "ours.f32")
        op = "aggregate" if cell["kind"] == "aggregate" else "forward"
        cell["kernels"] = self.ours.ask(op, result=ours_file, **self.request(cell))["kernels"]
        expected = np.fromfile(ours_file, np.float32)
        cell["peers"] = {}
        contestants = self.prepare_peers(cell, expected)
        del expected
        if self.options.memory and cell["kind"] == "edge_layer":
            self.measure_memory(cell)
        if self.options.no_time:
            return cell
        rounds, processor_rounds = self.measure(cell, contestants)
        for process in self.peers.values():
            process.ask("clear")
        if cell["kind"] == "aggregate":
            cell["floors"] = figures.aggregation_floors(
                self.graph["nodes"], self.graph["edges"], cell["width"], cell["weighted"], self.speeds
            )
        return figures.add_processor_time(figures.cell_verdict(cell, rounds), processor_rounds)

    @staticmethod
    def request(cell):
        names = ("kind", "name", "reduce", "weighted", "width", "architecture", "weights", "edge_dim", "compile")
        return {name: cell[name] for name in names if name in cell}

    def model(self, name):
        architecture, weights, content = cell_list.model_files(
            os.path.join(ROOT, "tests", "data", "models"), self.scratch, self.graph, name
        )
        if content is not None and not os.path.exists(weights):
            self.peers["torch"].ask("model", architecture=architecture, weights=weights, content=content)
        return {"architecture": architecture, "weights": weights, "trained": content is None}

    def edge_layer(self, cell):
        files = {key: os.path.join(self.scratch, f"{cell['name']}.{key}") for key in ("architecture", "weights")}
        self.peers["torch"].ask("edge_layer", name=cell["name"], edge_dim=cell["edge_dim"], degrees=self.degrees, **files)
        return {**files, "compile": self.options.compile}

    def measure_memory(self, cell):
        """The peak of what each contestant takes beside the graph: of ours and of each peer that gave the right answer."""
        ours = self.start("ours")
        try:
            ours.ask("graph", order=self.options.order, **self.message)
            answer = ours.ask("peak", **self.request(cell))
        finally:
            ours.close()
        cell.update(ours_peak_bytes=answer["peak_bytes"], ours_scratch_bytes=answer["scratch_bytes"])
        for name, peer in cell["peers"].items():
            if "relative_l2" in peer:
                untouched = self.untouched["dgl" if name.startswith("DGL") else "torch"]
                try:
                    peer["peak_bytes"] = untouched.ask("peak", peer=name, **self.request(cell))["peak_bytes"]
                except workers.WorkerError as error:
                    print(f"{report.title(cell)}, memory of {name}: {error}", file=sys.stderr)

    def prepare_peers(self, cell, expected):
        """Prepares, checks and screens; returns [(name, process)] of those that will be timed."""
        first_runs = {}
        skip = figures.slow_peers(self.known.get(cell_list.cell_key({**cell, "threads": 0})), self.options.screen)
        peer_file = os.path.join(self.scratch, "peer.f32")
        for process in self.peers.values():
            try:
                names = process.ask("list", **self.request(cell))["peers"]
            except workers.WorkerError as error:
                cell["peers"][process.command[-2]] = {"failed": str(error)}
                continue
            for name in names:
                if self.options.peers and name not in self.options.peers:
                    continue
                if name in skip:
                    cell["peers"][name] = skip[name]
                    continue
                for other in self.peers.values():
                    other.rest()
                try:
                    us = process.ask("make", peer=name, result=peer_file)["us"]
                except workers.WorkerError as error:
                    cell["peers"][name] = {"failed": str(error)}
                    continue
                error = relative_error(np.fromfile(peer_file, np.float32), expected)
                if not error <= TOLERANCE:
                    cell["peers"][name] = {"failed": f"result differs from ours, relative L2 {error:.2g}"}
                    process.ask("drop", peer=name)
                    continue
                cell["peers"][name] = {"relative_l2": error, "screened_us": us}
                first_runs[name] = (us, process)
        if not first_runs:
            return []
        limit = self.options.screen * min(us for us, _ in first_runs.values()) + 20
        for name, (us, process) in first_runs.items():
            if us > limit:
                process.ask("drop", peer=name)
        return [(name, process) for name, (us, process) in first_runs.items() if us <= limit]

    def measure(self, cell, contestants):
        """{name: [samples of each round]}, elapsed and of processor time; the peers begin at another place in each round."""
        turn = {"budget_ms": self.options.burst_ms, "most": 50}
        rounds, processor = ({name: [] for name in ["ours"] + [name for name, _ in contestants]} for _ in range(2))
        for process in self.peers.values():
            process.rest()
        begin = time.perf_counter()
        for number in range(self.options.rounds):
            if number >= 3 and time.perf_counter() - begin > self.options.cell_seconds:
                break
            answer = self.ours.ask("time", **turn)
            rounds["ours"].append(answer["us"])
            processor["ours"].append(answer["processor_us"])
            cell["kernels"] = answer["kernels"]
            first = number % max(1, len(contestants))
            for name, process in contestants[first:] + contestants[:first]:
                answer = process.ask("time", peer=name, **turn)
                rounds[name].append(answer["us"])
                processor[name].append(answer["processor_us"])
                process.rest()
        return rounds, processor


def relative_error(result, expected):
    if result.shape != expected.shape:
        return float("inf")
    difference = norm = 0.0
    for begin in range(0, len(expected), 1 << 24):
        e = expected[begin : begin + (1 << 24)].astype(np.float64)
        d = result[begin : begin + (1 << 24)] - e
        difference += float(d @ d)
        norm += float(e @ e)
    return (difference / norm) ** 0.5 if norm else (0.0 if not difference else float("inf"))


def save(path, document):
    if not path:
        return
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    os.replace(path + ".part", path)


def run_cell(options, comparison, cell, document):
    try:
        cell = comparison.run(cell)
    except workers.WorkerError as error:
        print(f"{report.title({**cell, 'threads': comparison.threads})}: {error}", file=sys.stderr)
        document["failed"].append({**cell, "threads": comparison.threads, "error": str(error)})
        return
    document["cells"].append(cell)
    save(options.json, document)
    if not options.quiet:
        print(report.line(cell), flush=True)


def run_threads(options, threads, document, done, deadline, scratch, known):
    """All cells at one number of threads; False when the time was up before."""
    left = {}
    for graph in options.graphs.split(","):
        todo = [
            c
            for c in cell_list.enumerate_cells(
                graph, options.kinds.split(","), map(int, options.widths.split(",")), map(int, options.edge_dims.split(","))
            )
            if cell_list.cell_key({**c, "threads": threads}) not in done
        ]
        if todo:
            left[graph] = todo
    if not left:
        return True
    comparison = Comparison(options, threads, scratch, known)
    document["machines"][str(threads)] = {"about": comparison.about, "speeds": comparison.speeds}
    try:
        for graph, todo in left.items():
            if time.perf_counter() > deadline:
                return False
            for edge_dim, cells in itertools.groupby(todo, lambda cell: cell.get("edge_dim")):
                comparison.load(graph, edge_dim)
                document["graphs"][graph] = comparison.graph
                for cell in cells:
                    if time.perf_counter() > deadline:
                        return False
                    run_cell(options, comparison, cell, document)
    finally:
        comparison.close()
    return True


def main():
    options = parse_arguments()
    document = {"machines": {}, "graphs": {}, "cells": [], "failed": []}
    if options.resume and options.json and os.path.exists(options.json):
        with open(options.json, encoding="utf-8") as file:
            document = json.load(file)
    document["failed"] = []
    done = {cell_list.cell_key(cell) for cell in document["cells"]}
    deadline = time.perf_counter() + options.stop_after
    known = {}
    if options.known:
        with open(options.known, encoding="utf-8") as file:
            known = {cell_list.cell_key({**cell, "threads": 0}): cell for cell in json.load(file)["cells"]}
    finished = True
    with tempfile.TemporaryDirectory() as scratch:
        for threads in map(int, options.threads.split(",")):
            finished = run_threads(options, threads, document, done, deadline, scratch, known) and finished
    save(options.json, document)
    if finished:
        print("\n" + report.summary(document["cells"]))
    return 0 if finished else 3


if __name__ == "__main__":
    sys.exit(main())
