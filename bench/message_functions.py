#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares message functions as expressions with PyTorch Geometric's modules in the same run, on one device, float32.

  python3 bench/message_functions.py --worker bin/vicinal_bench_worker --json message_functions.json
  python3 bench/message_functions.py --worker bin/vicinal_bench_worker --device cuda:0 --json message_functions_gpu.json

The functions are those of tests/data/message_functions.py. The graph is random: --nodes nodes, --edges edges sorted by
target. Ours is a plan of the engine in a process of its own, on a GPU with compiled kernels; PyG is the module, eagerly,
with as many threads, and on a GPU as a CUDA graph, too, where it can be captured: the faster form counts. Answers are
compared first (relative L2 at most 1e-5); then the contestants are timed in turn, the host waiting for each pass."""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [ROOT, os.path.join(ROOT, "tests", "data")]

import message_functions
import numpy as np
import torch
import torch_geometric

from bench.peers import cuda_graph, exchange, workers

TOLERANCE = 1e-5
FEATURES = 12


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worker", required=True, help="vicinal_bench_worker")
    parser.add_argument("--functions", default=",".join(message_functions.MESSAGES))
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0, of both contestants")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--edges", type=int, default=400_000)
    parser.add_argument("--tune", action="store_true", help="measure the settings of expressions first, as a server does in the background")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant")
    parser.add_argument("--turn-ms", type=float, default=200, help="of a contestant")
    parser.add_argument("--json", required=True, help="results")
    return parser.parse_args()


def make_graph(options):
    random = np.random.default_rng(5)
    edges = random.integers(0, options.nodes, (2, options.edges))
    return {"edge_index": edges[:, np.argsort(edges[1], kind="stable")].astype(np.int32),
            "edge_weight": random.uniform(0.25, 2.0, options.edges).astype(np.float32),
            "edge_attr": exchange.pattern(options.edges, message_functions.EDGES), "x": exchange.pattern(options.nodes, FEATURES)}


class Contest:
    def __init__(self, options, folder, worker, graph):
        self.options, self.folder, self.worker = options, folder, worker
        self.device = torch.device(options.device)
        self.kernels = {"expression": "edge_programs:compile=1"} if self.on_gpu() else {}
        self.x = torch.from_numpy(graph["x"]).to(self.device)
        self.edges = torch.from_numpy(graph["edge_index"].astype(np.int64)).to(self.device)
        self.data = {name: torch.from_numpy(graph[name]).to(self.device) for name in ("edge_attr", "edge_weight")}

    def on_gpu(self):
        return self.device.type == "cuda"

    def timed_ms(self, task):
        start = time.perf_counter()
        task()
        if self.on_gpu():
            torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3

    def turn(self, task, times):
        begin = time.perf_counter()
        while not times or time.perf_counter() - begin < self.options.turn_ms / 1e3:
            times.append(self.timed_ms(task))

    def peer_forms(self, task):
        forms = {"eager": task}
        if self.on_gpu():
            try:
                forms["CUDA graph"], _ = cuda_graph.capture(task)
            except RuntimeError:
                torch.cuda.synchronize()
        return forms

    def ours(self, name, arguments, more, module):
        more = {key: ["x"] * len(value) if key == "inputs" else value for key, value in more.items()}
        layer = {"name": "a", "type": "MessagePassing", "args": arguments, **more}
        files = {key: os.path.join(self.folder, key) for key in ("architecture", "weights", "result")}
        with open(files["architecture"], "w", encoding="utf-8") as file:
            json.dump({"format": "vicinal.model/1", "in_channels": FEATURES, "layers": [layer]}, file)
        exchange.write_safetensors(files["weights"], {f"a.{key}": tensor.numpy() for key, tensor in module.state_dict().items()})
        return self.worker.ask("forward", tune=self.options.tune, kernels=self.kernels, **files)["kernels"], np.fromfile(files["result"], np.float32)

    def run(self, name):
        torch.manual_seed(1)
        arguments, more, make, _ = message_functions.MESSAGES[name]
        module = make().eval()
        kernels, got = self.ours(name, arguments, more, module)
        module = module.to(self.device)
        inputs = [self.x] * len(more.get("inputs", ["x"]))
        want = module(*inputs, self.edges, self.data).cpu().numpy().reshape(-1)
        error = float(np.linalg.norm(got - want) / np.linalg.norm(want))
        forms = self.peer_forms(lambda: module(*inputs, self.edges, self.data))
        ours, peers = [], {form: [] for form in forms}
        for _ in range(self.options.rounds):
            ours += self.worker.ask("time", budget_ms=self.options.turn_ms, most=40)["us"]
            for form, task in forms.items():
                self.turn(task, peers[form])
        our_ms = statistics.median(ours) / 1e3
        peer_ms, form = min((statistics.median(times), form) for form, times in peers.items())
        return {"function": name, "kernels": kernels, "error": error, "our_ms": our_ms, "peer_ms": peer_ms, "peer_form": form, "ratio": peer_ms / our_ms}


def main():
    options = parse_arguments()
    torch.set_grad_enabled(False)
    torch.set_num_threads(options.threads)
    report = {"torch": torch.__version__, "torch_geometric": torch_geometric.__version__, "nodes": options.nodes, "edges": options.edges,
              "threads": options.threads, "device": options.device, "tuned": options.tune, "cells": []}
    if options.device != "cpu":
        report["gpu"] = torch.cuda.get_device_name(torch.device(options.device))
    with tempfile.TemporaryDirectory() as folder:
        worker = workers.Process([options.worker, str(options.threads), options.device])
        try:
            graph, file = make_graph(options), os.path.join(folder, "graph")
            exchange.write_safetensors(file, graph)
            worker.ask("graph", file=file, nodes=options.nodes, features=FEATURES, order="auto")
            contest = Contest(options, folder, worker, graph)
            for name in options.functions.split(","):
                cell = contest.run(name)
                report["cells"].append(cell)
                print(f"{name:16} ours {cell['our_ms']:8.2f} ms  PyG {cell['peer_ms']:8.2f} ms  ratio {cell['ratio']:6.1f}  error {cell['error']:.1e}", flush=True)
        finally:
            worker.close()
    ratios = [cell["ratio"] for cell in report["cells"]]
    report["geometric_mean"], report["least"] = float(np.exp(np.mean(np.log(ratios)))), min(ratios)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    print(f"geometric mean {report['geometric_mean']:.1f}, least {report['least']:.1f}")
    return 0 if all(cell["error"] <= TOLERANCE for cell in report["cells"]) else 1


if __name__ == "__main__":
    sys.exit(main())
