#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""FeatGraph's MLP aggregation (SC'20, section V-B) on a GPU beside PyTorch Geometric in the same run: max over in-edges of relu((x_i + x_j) W).

  python3 bench/cuda/mlp_aggregation.py --graphs FOLDER --names rand-100K,proteins --worker bin/vicinal_bench_worker --json mlp.json

W is [8, d]. Ours is a MessagePassing layer as it is planned, which multiplies per edge from 128 columns on; with the product moved to the nodes
(`per_node`: the kernel of message_reduce is forced); and with W per edge (`per_edge`: its input is made so that planning cannot move the product). PyG is a module of the same two operations per edge, eagerly, on edge_index sorted by target; where it runs out of memory, ours is
timed alone. The paper compares with Gunrock, which is not here. Answers are compared first (relative L2 at most 1e-5); then all take turns, the
host waiting for each run. Needs torch and torch_geometric."""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import numpy as np
import torch
from torch_geometric.nn import MessagePassing

from bench.binary_graph import read_graph
from bench.peers import exchange, workers

INPUTS, TOLERANCE = 8, 1e-5
MESSAGE, ABSOLUTE = "relu(linear(x_i + x_j, lin))", "relu(linear(abs(x_i + x_j), lin))"
COMPILED = {"expression": "edge_programs:compile=1"}
WAYS = {"ours": (MESSAGE, COMPILED), "per_node": (MESSAGE, {"message_reduce": "template_spmm"}), "per_edge": (ABSOLUTE, COMPILED)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", required=True, help="folder of the graphs, NAME.bin")
    parser.add_argument("--names", default="rand-100K,proteins")
    parser.add_argument("--worker", required=True, help="vicinal_bench_worker")
    parser.add_argument("--device", default="cuda:0", help="cpu: to try this script where there is no GPU")
    parser.add_argument("--widths", default="32,64,128")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn-ms", type=float, default=100)
    parser.add_argument("--json", required=True)
    return parser.parse_args()


class Mlp(MessagePassing):
    def __init__(self, width, absolute):
        super().__init__(aggr="max")
        self.lin, self.absolute = torch.nn.Linear(INPUTS, width, bias=False), absolute

    def forward(self, x, edges):
        return self.propagate(edges, x=x)

    def message(self, x_i, x_j):
        both = x_i + x_j
        return torch.relu(self.lin(both.abs() if self.absolute else both))


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Peer:
    def __init__(self, device, module, x, edges):
        self.device, self.module, self.x, self.edges = device, module.to(device).eval(), x, edges

    def run(self):
        return self.module(self.x, self.edges)

    def time(self, budget_ms):
        taken = []
        while not taken or sum(taken) < budget_ms * 1e3:
            wait(self.device)
            begin = time.perf_counter()
            self.run()
            wait(self.device)
            taken.append((time.perf_counter() - begin) * 1e6)
        return taken


def ours(worker, folder, width, way, weight):
    message, kernels = WAYS[way]
    files = {key: os.path.join(folder, key) for key in ("architecture", "weights", "result")}
    layer = {"name": "a", "type": "MessagePassing", "args": {"message": message, "aggr": "max"}}
    with open(files["architecture"], "w", encoding="utf-8") as file:
        json.dump({"format": "vicinal.model/1", "in_channels": INPUTS, "layers": [layer]}, file)
    exchange.write_safetensors(files["weights"], {"a.lin.weight": weight})
    answer = worker.ask("forward", kernels={} if worker.device == "cpu" else kernels, **files)
    return answer["kernels"], np.fromfile(files["result"], np.float32).reshape(-1, width)


def cell_of(options, folder, worker, device, name, graph, width):
    x, edges = graph
    cell = {"graph": name, "width": width, "nodes": len(x), "edges": edges.shape[1]}
    for way in WAYS:
        torch.manual_seed(1)
        peer = Peer(device, Mlp(width, way == "per_edge"), x, edges)
        cell[f"{way}_kernels"], got = ours(worker, folder, width, way, peer.module.lin.weight.detach().cpu().numpy())
        try:
            want = peer.run().cpu().numpy()
            cell[f"{way}_error"] = float(np.linalg.norm(got - want) / np.linalg.norm(want))
            del want
        except torch.cuda.OutOfMemoryError:
            peer = None
            torch.cuda.empty_cache()
        our_us, peer_us = [], []
        for _ in range(options.rounds):
            our_us += worker.ask("time", budget_ms=options.turn_ms, most=100)["us"]
            peer_us += peer.time(options.turn_ms) if peer else []
        cell[f"{way}_us"] = round(statistics.median(our_us), 1)
        cell[f"{way}_pyg_us"] = round(statistics.median(peer_us), 1) if peer else "out of memory"
        if peer:
            cell[f"{way}_speedup"] = round(cell[f"{way}_pyg_us"] / cell[f"{way}_us"], 2)
    return cell


def main():
    options = parse_arguments()
    torch.set_grad_enabled(False)
    device = torch.device(options.device)
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names.split(","):
            path = os.path.join(options.graphs, name + ".bin")
            worker = workers.Process([options.worker, "4", options.device])
            worker.device = options.device
            try:
                worker.ask("binary_graph", file=path, features=INPUTS, order="none")
                edges, nodes = read_graph(path)
                graph = torch.from_numpy(exchange.pattern(nodes, INPUTS)).to(device), torch.from_numpy(edges.astype(np.int64)).to(device)
                for width in options.widths.split(","):
                    cells.append(cell_of(options, folder, worker, device, name, graph, int(width)))
                    print(json.dumps(cells[-1]), flush=True)
            finally:
                worker.close()
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump({"rows": cells}, file, indent=1)
    errors = [value for cell in cells for key, value in cell.items() if key.endswith("_error")]
    return 0 if all(error <= TOLERANCE for error in errors) else 1


if __name__ == "__main__":
    sys.exit(main())
