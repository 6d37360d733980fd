#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares layers with features of edges on a GPU with PyTorch Geometric in the same run: one layer, float32.

  python3 bench/cuda/edge_layers.py --data tests/data/graphs --worker bin/vicinal_bench_worker --json edge_layers.json

Ours is a plan of the engine. PyG is the faster of its forms: the layer on edge_index sorted by target, eagerly and as a
CUDA graph. Answers are compared first (relative L2 at most 1e-5); then the contestants are timed in turn, both with the
GPU's work waited for once per run. Where PyG runs out of memory, ours is timed alone. Peak memory: of PyG what its allocator reserved in the run beyond its inputs; of ours
what the GPU has less while the worker holds the graph and the plan than before."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import numpy as np
import torch
import torch_geometric

from bench.peers import cuda_graph, exchange, workers
from bench.peers.edge_layers import WIDTH, layer_of, write_files

TOLERANCE = 1e-5
NOT_CAPTURED = ("GATConv", "GATv2Conv")  # replacing loops waits for the GPU, which a capture cannot
LAYERS = ("GATConv", "GATv2Conv", "TransformerConv", "GINEConv", "CGConv", "ResGatedGraphConv", "GENConv", "NNConv")
LAYERS += ("GMMConv",)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="folder of tests/data/graphs")
    parser.add_argument("--worker", required=True, help="vicinal_bench_worker")
    parser.add_argument("--device", default="cuda:0", help="cpu: to try this script where there is no GPU")
    parser.add_argument("--graphs", default="cora,pubmed,proteins,amazon_computers,cornell5,synthetic")
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--edge-dims", default="8,16")
    parser.add_argument("--synthetic-edges", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant")
    parser.add_argument("--turn-ms", type=float, default=100, help="of a contestant")
    parser.add_argument("--json", required=True, help="results, written after every cell")
    return parser.parse_args()


def load_edges(options, name):
    """edge_index [2, E] sorted by target, and the number of nodes."""
    if name == "synthetic":
        # Ten edges per node; sources are skewed, so that some rows are read often.
        random = np.random.default_rng(5)
        nodes = options.synthetic_edges // 10
        source = (nodes * random.random(options.synthetic_edges) ** 2).astype(np.int64)
        target = random.integers(0, nodes, options.synthetic_edges)
    else:
        with np.load(os.path.join(options.data, name + ".npz"), allow_pickle=False) as data:
            source, target = data["edge_index"].astype(np.int64)
            nodes = int(data["x"].shape[0]) if "x" in data else int(max(source.max(), target.max())) + 1
    order = np.lexsort((source, target))
    return np.stack([source[order], target[order]]), nodes


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(device, task):
    wait(device)
    begin = time.perf_counter()
    task()
    wait(device)
    return (time.perf_counter() - begin) * 1e3


def used_bytes(device):
    if device.type != "cuda":
        return 0
    free, total = torch.cuda.mem_get_info(device)
    return total - free


def worst_rows(got, want, edges, nodes):
    """The rows that differ most, for a cell that failed: [node, in-degree, relative error]."""
    got, want = got.reshape(nodes, -1), want.reshape(nodes, -1)
    errors = np.linalg.norm(got - want, axis=1) / (np.linalg.norm(want, axis=1) + 1e-30)
    degrees = np.bincount(edges[1], minlength=nodes)
    return [[int(row), int(degrees[row]), float(errors[row])] for row in np.argsort(errors)[::-1][:8]]


class Cell:
    def __init__(self, options, folder, worker, edges, nodes, attr):
        self.options, self.folder, self.worker, self.host_edges = options, folder, worker, edges
        self.device = torch.device(options.device)
        self.x = torch.from_numpy(exchange.pattern(nodes, WIDTH)).to(self.device)
        self.edges = torch.from_numpy(edges).to(self.device)
        self.attr = torch.from_numpy(attr).to(self.device)

    def ours(self, kind, args, layer):
        names = {key: os.path.join(self.folder, key) for key in ("architecture", "weights", "result")}
        write_files(names["architecture"], names["weights"], kind, args, layer)
        answer = self.worker.ask("forward", **names)
        return np.fromfile(names["result"], np.float32), answer["kernels"]

    def run(self, kind, edge_dim, before):
        torch.manual_seed(1)
        args, layer = layer_of(kind, edge_dim)
        layer = layer.eval()
        got, kernels = self.ours(kind, args, layer)
        our_bytes = used_bytes(self.device) - before
        layer = layer.to(self.device)
        result = {"layer": kind, "edge_dim": edge_dim, "kernels": kernels, "our_bytes": our_bytes}
        try:
            result.update(self.compare(kind, lambda: layer(self.x, self.edges, self.attr), got))
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            result["peer"] = "out of memory"
            answer = self.worker.ask("time", budget_ms=self.options.turn_ms, most=40)
            result["our_ms"] = statistics.median(answer["us"]) / 1e3
        return result

    def compare(self, kind, task, got):
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        held = torch.cuda.memory_allocated(self.device) if self.device.type == "cuda" else 0
        want = task().cpu().numpy().reshape(-1)
        error = float(np.linalg.norm(got - want) / np.linalg.norm(want))
        result = {"error": error}
        if self.device.type == "cuda":
            result["peer_bytes"] = torch.cuda.max_memory_allocated(self.device) - held
        if not error <= TOLERANCE:
            result["worst_rows"] = worst_rows(got, want, self.host_edges, self.x.shape[0])
            print(f"{kind}: the rows that differ most (node, in-degree, error): {result['worst_rows']}", flush=True)
        result.update(self.race(kind, task))
        return result

    def race(self, kind, task):
        forms = {"edge_index": task}
        if self.device.type == "cuda":
            if kind not in NOT_CAPTURED:
                try:
                    forms["edge_index, CUDA graph"], _ = cuda_graph.capture(task)
                except torch.cuda.OutOfMemoryError:  # a capture keeps what it needs beside the run's
                    torch.cuda.empty_cache()
        ours, queued, peers = [], [], {name: [] for name in forms}
        for _ in range(self.options.rounds):
            answer = self.worker.ask("time", budget_ms=self.options.turn_ms, most=40)
            ours += answer["us"]
            queued += answer.get("queued", [])
            for name, form in forms.items():
                timed(self.device, form)
                begin = time.perf_counter()
                while len(peers[name]) == 0 or time.perf_counter() - begin < self.options.turn_ms / 1e3:
                    peers[name].append(timed(self.device, form))
        medians = {name: statistics.median(times) for name, times in peers.items()}
        best = min(medians, key=medians.get)
        our_ms = statistics.median(ours) / 1e3
        answer = {"our_ms": our_ms, "peer_ms": medians[best], "peer": best, "peers_ms": medians}
        answer["ratio"] = medians[best] / our_ms
        if queued:
            answer["our_queued_ms"] = statistics.median(queued) / 1e3
        return answer


def line_of(result):
    line = f"{result['graph']:16} {result['layer']:18} A={result['edge_dim']:<3} ours {result['our_ms']:8.3f} ms  PyG"
    if "ratio" not in result:
        return f"{line} {result['peer']}"
    return f"{line} {result['peer_ms']:8.3f} ms ({result['peer']})  ratio {result['ratio']:6.1f}  error {result['error']:.1e}"


def open_graph(options, folder, worker, name, edge_dim):
    edges, nodes = load_edges(options, name)
    attr = exchange.pattern(edges.shape[1], edge_dim)
    file = os.path.join(folder, "graph")
    tensors = {"edge_index": edges.astype(np.int32), "edge_attr": attr, "x": exchange.pattern(nodes, WIDTH)}
    exchange.write_safetensors(file, tensors)
    worker.ask("graph", file=file, nodes=nodes, features=WIDTH, order="auto")
    os.remove(file)
    return edges, nodes, attr


def main():
    options = parse_arguments()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_grad_enabled(False)
    device = torch.device(options.device)
    report = {"torch": torch.__version__, "torch_geometric": torch_geometric.__version__, "cells": []}
    if device.type == "cuda":
        report["gpu"] = torch.cuda.get_device_name(device)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name in options.graphs.split(","):
            for edge_dim in map(int, options.edge_dims.split(",")):
                torch.zeros(1, device=device)
                before = used_bytes(device)
                worker = workers.Process([options.worker, str(os.cpu_count()), options.device])
                try:
                    edges, nodes, attr = open_graph(options, folder, worker, name, edge_dim)
                    # What the worker takes is measured before PyG's inputs are there.
                    graph_bytes = used_bytes(device) - before
                    cell = Cell(options, folder, worker, edges, nodes, attr)
                    inputs = used_bytes(device) - before - graph_bytes
                    for kind in options.layers.split(","):
                        result = {"graph": name, "nodes": nodes, "edges": edges.shape[1]}
                        result.update(cell.run(kind, edge_dim, before + inputs))
                        failed = failed or not result.get("error", 0) <= TOLERANCE
                        report["cells"].append(result)
                        print(line_of(result), flush=True)
                        if device.type == "cuda":
                            torch.cuda.empty_cache()
                except (workers.WorkerError, torch.cuda.OutOfMemoryError, subprocess.SubprocessError) as error:
                    print(f"{name} A={edge_dim}: {error}", file=sys.stderr)
                    report["cells"].append({"graph": name, "edge_dim": edge_dim, "failed": str(error)})
                    failed = True
                finally:
                    worker.close()
                    cell = None
                ratios = [c["ratio"] for c in report["cells"] if "ratio" in c]
                if ratios:
                    report["geometric_mean"] = float(np.exp(np.mean(np.log(ratios))))
                    report["least"] = min(ratios)
                with open(options.json, "w", encoding="utf-8") as file:
                    json.dump(report, file, indent=1)
    print(f"geometric mean {report.get('geometric_mean', 0):.1f}, least {report.get('least', 0):.1f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
