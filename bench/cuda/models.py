#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares whole models on a GPU with PyTorch Geometric in the same run: forward passes, float32.

  python3 bench/cuda/models.py --graphs FOLDER --worker bin/vicinal_bench_worker --json models.json

FOLDER has the graphs of vicinal_bench_graphs, NAME.bin. Ours is a plan of the engine whose kernels were tuned on the
graph beforehand, as a server does in the background. PyG is the fastest of its forms (bench/cuda/pyg_worker.py).
Answers are compared first (relative L2 at most 1e-5); then all contestants are timed in turn. A form that would need
more memory than available is skipped, one that takes longer than --slow-seconds runs once, and one that does not answer
is killed."""

import argparse
import json
import os
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import numpy as np

from bench.cuda import model_cells
from bench.peers import workers

TOLERANCE = 1e-5
SCREEN = 2.0  # a form slower than the fastest by this factor in its first run is not run again
TURN = {"budget_ms": 25, "most": 60}
ATTEMPTS = 2  # per cell, as memory that earlier cells left in use may be the cause of a failure


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", required=True, help="folder of the graphs, NAME.bin")
    parser.add_argument("--worker", required=True, help="vicinal_bench_worker")
    parser.add_argument("--device", default="cuda:0", help="cpu: to try this script where there is no GPU")
    parser.add_argument("--names", default=",".join(model_cells.WIDTHS), help="graphs to compare on")
    parser.add_argument("--models", default=",".join(model_cells.MODELS))
    parser.add_argument("--order", default="auto", help="order of our prepared graph")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant")
    parser.add_argument("--memory-gib", type=float, default=120, help="a form that needs more is not tried")
    parser.add_argument("--slow-seconds", type=float, default=1, help="what takes longer is timed by its first run alone")
    parser.add_argument("--hang-seconds", type=float, default=120, help="without an answer for so long: ended")
    parser.add_argument("--stop-after", type=float, default=1e9, help="seconds; status 3 when cells were left over")
    parser.add_argument("--json", help="results, written after every cell")
    options = parser.parse_args()
    names = options.names.split(",")
    for name in [name for name in names if name not in model_cells.WIDTHS]:
        print(f"{name}: left out, it has no listed widths of features and classes", file=sys.stderr)
        names.remove(name)
    options.names = ",".join(names)
    return options


class PatientProcess(workers.Process):
    """A worker that is killed if it does not answer in time."""

    def __init__(self, command, patience, environment=None):
        super().__init__(command, environment)
        self.patience = patience

    def ask(self, op, **fields):
        timer = threading.Timer(self.patience, self.process.kill)
        timer.start()
        try:
            return super().ask(op, **fields)
        except workers.WorkerError:
            time.sleep(0.3)  # a worker that exits after its answer gets time to do so
            raise
        finally:
            timer.cancel()

    @property
    def alive(self):
        return self.process.poll() is None


class Comparison:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.ours = self.pyg = None
        self.about = self.start()

    def start(self):
        self.graph = None  # loaded into both processes
        threads = str(os.cpu_count() or 1)
        self.ours = PatientProcess([self.options.worker, threads, self.options.device], 600)
        return {"ours": self.ours.ask("hello"), "peers": self.start_pyg()}

    def restart(self):
        """Restarts both processes after an error, as their state is unknown."""
        for process in (self.ours, self.pyg):
            process.process.kill()
            process.process.wait()
        self.start()

    def start_pyg(self):
        command = [sys.executable, "-m", "bench.cuda.pyg_worker", self.options.device]
        self.pyg = PatientProcess(command, self.options.hang_seconds, {"PYTHONPATH": python_path()})
        return self.pyg.ask("hello")["versions"]

    def revive(self):
        """Returns a running PyG process that has the graph."""
        if not self.pyg.alive:
            self.start_pyg()
            self.pyg.ask("graph", **self.request)

    def close(self):
        for process in (self.ours, self.pyg):
            if process.alive:
                process.close()

    def load(self, name):
        file = os.path.join(self.options.graphs, name + ".bin")
        self.request = {"file": file, "features": model_cells.WIDTHS[name][0]}
        if not self.pyg.alive:
            self.start_pyg()
        prepared = self.ours.ask("binary_graph", order=self.options.order, **self.request)
        about = {**prepared, **self.pyg.ask("graph", **self.request)}
        self.graph = name
        print(f"{name}: order {about['order']}, prepared in {about['prepare_seconds']:.1f} s", flush=True)
        return about

    def cell(self, graph, about, model):
        stem = os.path.join(self.scratch, f"{graph}-{model}")
        files = {"architecture": stem + ".json", "weights": stem + ".safetensors"}
        self.revive()
        self.pyg.ask("model", content=model_cells.architecture(model, graph), **files)
        cell = {"graph": graph, "model": model, "order": about["order"], "peers": {}}
        ours_file = os.path.join(self.scratch, "ours.f32")
        cell["kernels"] = self.ours.ask("forward", tune=True, result=ours_file, **files)["kernels"]
        expected = np.fromfile(ours_file, np.float32)
        contestants = self.prepare(cell, files, expected, model_cells.edge_buffer_bytes(model, graph, about["edges"]))
        ours, peers = self.measure(cell, contestants)
        if self.pyg.alive:
            self.pyg.ask("clear")
        return model_cells.verdict(cell, ours, peers)

    def prepare(self, cell, files, expected, edge_bytes):
        """Prepares, checks and screens PyG's forms. Returns the names of those to be timed."""
        first = {}
        for name in self.pyg.ask("list", **files)["peers"]:
            peer = cell["peers"][name] = {}
            if name.startswith("edge_index") and edge_bytes > self.options.memory_gib * 2**30:
                peer["failed"] = f"needs {edge_bytes / 2**30:.0f} GiB for its messages"
            elif name.endswith(", CUDA graph") and "us" not in cell["peers"][name.removesuffix(", CUDA graph")]:
                peer["failed"] = "not tried, as it did not run eagerly"
            else:
                self.make(name, peer, expected)
            if not self.pyg.alive:  # the other forms were lost with it
                self.revive()
                self.pyg.ask("list", **files)
                for lost in first:
                    self.make(lost, cell["peers"][lost], expected)
            if "failed" not in peer:
                first[name] = peer["us"]
        limit = SCREEN * min(first.values(), default=0) + 20
        for name in [name for name, us in first.items() if us > limit]:
            self.pyg.ask("drop", peer=name)
            del first[name]
        return list(first)

    def make(self, name, peer, expected):
        result = os.path.join(self.scratch, "peer.f32")
        try:
            peer["us"] = self.pyg.ask("make", peer=name, result=result)["us"]
            peer["relative_l2"] = relative_error(np.fromfile(result, np.float32), expected)
            if not peer["relative_l2"] <= TOLERANCE:
                peer["failed"] = f"result differs from ours, relative L2 {peer['relative_l2']:.2g}"
                self.pyg.ask("drop", peer=name)
        except workers.WorkerError as error:
            peer["failed"] = str(error)

    def measure(self, cell, contestants):
        """Samples by round, of ours and of each of PyG's forms."""
        ours, peers = {"waited": [], "queued": []}, {name: {"waited": [], "queued": []} for name in contestants}
        for number in range(self.options.rounds):
            answer = self.ours.ask("time", **TURN)
            cell["kernels"] = answer["kernels"]
            ours["waited"].append(answer["us"])
            if answer.get("queued"):
                ours["queued"].append(answer["queued"])
            for name, rounds in list(peers.items()):
                if cell["peers"][name]["us"] > 1e6 * self.options.slow_seconds:
                    rounds["waited"].append([cell["peers"][name]["us"]])
                    continue
                try:
                    answer = self.pyg.ask("time", peer=name, **TURN)
                except workers.WorkerError as error:
                    cell["peers"][name]["failed"] = str(error)
                    del peers[name]
                    continue
                rounds["waited"].append(answer["us"])
                if answer["queued"]:
                    rounds["queued"].append(answer["queued"])
            slowest = max([cell["peers"][name]["us"] for name in peers] + [max(ours["waited"][-1])])
            if number >= 1 and slowest > 1e5:  # long runs vary little
                break
        return ours, peers


def relative_error(result, expected):
    if result.shape != expected.shape:
        return float("inf")
    difference = result.astype(np.float64) - expected
    norm = float(np.linalg.norm(expected.astype(np.float64)))
    return float(np.linalg.norm(difference)) / norm if norm else float("inf")


def python_path():
    return os.pathsep.join([ROOT] + [p for p in [os.environ.get("PYTHONPATH")] if p])


def save(path, document):
    if path:
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
        os.replace(path + ".part", path)


def measure_cell(comparison, graph, model, document):
    """Adds the cell to the document's cells, or to its failed ones."""
    for _ in range(ATTEMPTS):
        try:
            if comparison.graph != graph:
                document["graphs"][graph] = comparison.load(graph)
            cell = comparison.cell(graph, document["graphs"][graph], model)
            document["cells"].append(cell)
            print(model_cells.line(cell), flush=True)
            return
        except workers.WorkerError as error:
            print(f"{graph} {model}: {error}", file=sys.stderr)
            failed = {"graph": graph, "model": model, "error": str(error)}
            comparison.restart()
    document["failed"].append(failed)


def run(options, scratch, document):
    """Returns False if the time was up before all cells were measured."""
    deadline = time.monotonic() + options.stop_after
    comparison = Comparison(options, scratch)
    document["about"] = comparison.about
    try:
        for graph in options.names.split(","):
            for model in options.models.split(","):
                if time.monotonic() > deadline:
                    return False
                measure_cell(comparison, graph, model, document)
                save(options.json, document)
    finally:
        comparison.close()
    return True


def main():
    options = parse_arguments()
    document = {"about": {}, "graphs": {}, "cells": [], "failed": []}
    with tempfile.TemporaryDirectory() as scratch:
        finished = run(options, scratch, document)
    save(options.json, document)
    print("\n" + model_cells.summary(document["cells"]))
    if document["failed"]:
        print(f"{len(document['failed'])} cells failed", file=sys.stderr)
        return 1
    return 0 if finished else 3


if __name__ == "__main__":
    sys.exit(main())
