#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Message functions as expressions on a GPU, interpreted and compiled, beside the layers that compute the same with kernels of their own.

  python3 bench/cuda/expressions.py --worker bin/vicinal_bench_worker --json expressions.json

GINE with three features per edge, EdgeConv with a product of 64 x 64 per edge, GATv2 with four heads; 64 columns (--width), a random graph. The expressions
are written so that no other step computes them: relu(z) as (z + |z|) / 2 and leaky_relu(z) as 0.6 z + 0.4 |z|. Contestants are plans of one
layer without products of nodes where the function allows it; what products of nodes cost (model `products`) is subtracted from GATv2 and
EdgeConv, for both ways have them. `own` of EdgeConv is the kernel of message_reduce, forced; `layer` is the layer as plans compute it, which is an
expression where its kernel is compiled. Times: the GPU's, of queued runs, in turn; the medians of --rounds turns. Answers are compared first
(relative L2 at most 1e-5; expressions interpreted and compiled bit by bit). Needs numpy."""

import argparse
import json
import os
import statistics
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import numpy as np

from bench.peers import exchange, workers

FEATURES, HEADS, TOLERANCE = 3, 4, 1e-5
RELU, LEAKY = "0.5 * (z + abs(z))", "0.6 * z + 0.4 * abs(z)"
OWN_KERNELS = {"edgeconv": {"message_reduce": "template_spmm"}}
KERNELS = {"interpreted": "edge_programs:compile=-1", "compiled": "edge_programs:compile=1"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worker", required=True, help="vicinal_bench_worker")
    parser.add_argument("--device", default="cuda:0", help="cpu: to try this script where there is no GPU")
    parser.add_argument("--sizes", default="20000x400000,200000x4000000", help="nodes x edges of random graphs, or names of graphs in --data")
    parser.add_argument("--data", default="tests/data/graphs", help="folder of graphs")
    parser.add_argument("--width", type=int, default=64, help="columns, a multiple of 4")
    parser.add_argument("--functions", default="gine,edgeconv,gatv2")
    parser.add_argument("--settings", default="", help="more of the compiled kernel: edge_tile=32;edge_tile=32,edges_per_block=512")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turn-ms", type=float, default=60)
    parser.add_argument("--json", required=True)
    return parser.parse_args()


def random_tensors(**shapes):
    random = np.random.default_rng(3)
    return {name: (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32) for name, shape in shapes.items()}


def functions(width):
    """name -> (own layers, expression layers, layers of both ways' products of nodes, tensors)"""
    square, narrow = (width, width), (width, FEATURES)
    gine = {"name": "a", "type": "GINEConv", "args": {"nn": [{"type": "ReLU"}], "edge_dim": FEATURES}}
    gine_message = {"edge_dim": FEATURES, "message": f"z = x_j + linear(edge_attr, lin); {RELU}", "update": "relu(x * (1 + eps) + aggr)"}
    linear = {"type": "Linear", "args": {"out_channels": width}}
    edge = {"name": "a", "type": "EdgeConv", "args": {"aggr": "max", "nn": [linear, {"type": "ReLU"}, linear]}}
    edge_message = {"aggr": "max", "message": f"z = linear(cat(x_i, x_j - x_i), nn.0); linear({RELU}, nn.2)"}
    gat = {"name": "a", "type": "GATv2Conv", "args": {"out_channels": width // HEADS, "heads": HEADS, "add_self_loops": False}}
    gat_message = {"message": "linear(x_j, lin_l)", "aggr": "softmax", "update": "aggr + bias",
                   "score": f"z = linear(x_j, lin_l) + linear(x_i, lin_r); dot({LEAKY}, att, {HEADS})"}  # fmt: skip
    both = [{"name": "r", "type": "Linear", "inputs": ["x"], "args": {"out_channels": 2 * width}}]
    return {
        "gine": ([gine], [gine_message], None, {**random_tensors(**{"a.lin.weight": narrow, "a.lin.bias": (width,)}), "a.eps": np.zeros(1, np.float32)}),
        "edgeconv": ([edge], [edge_message], both, random_tensors(**{"a.nn.0.weight": (width, 2 * width), "a.nn.0.bias": (width,),
                     "a.nn.2.weight": square, "a.nn.2.bias": (width,)})),
        "gatv2": ([gat], [gat_message], both, random_tensors(**{"a.lin_l.weight": square, "a.lin_l.bias": (width,), "a.lin_r.weight": square,
                  "a.lin_r.bias": (width,), "a.att": (1, HEADS, width // HEADS), "a.bias": (width,)})),
    }  # fmt: skip


class Contest:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def start(self, graph, nodes):
        """A worker of its own for each contestant, so that none plans anew in its turn."""
        worker = workers.Process([self.options.worker, "4", self.options.device])
        worker.ask("graph", file=graph, nodes=nodes, features=self.options.width, order="none")
        return worker

    def forward(self, worker, name, layers, tensors, kernels):
        files = {key: os.path.join(self.folder, f"{name}.{key}") for key in ("architecture", "weights", "result")}
        with open(files["architecture"], "w", encoding="utf-8") as file:
            json.dump({"format": "vicinal.model/1", "in_channels": self.options.width, "layers": layers}, file)
        exchange.write_safetensors(files["weights"], tensors)
        answer = worker.ask("forward", kernels=kernels, **files)
        return answer["kernels"], np.fromfile(files["result"], np.float32)

    def contestants(self, name, own, message, products, tensors):
        expression = [{"name": "a", "type": "MessagePassing", "args": message[0]}]
        made = {"own": (own, tensors, OWN_KERNELS.get(name, {}))}
        if name in OWN_KERNELS:
            made["layer"] = (own, tensors, {"expression": KERNELS["compiled"]} if self.options.device != "cpu" else {})
        for name, kernel in KERNELS.items():
            made[name] = (expression, tensors, {"expression": kernel if self.options.device != "cpu" else "edge_tiles"})
        for setting in filter(None, self.options.settings.split(";")):
            made[setting] = (expression, tensors, {"expression": f"edge_programs:compile=1,{setting}"})
        if products:
            out = products[0]["args"]["out_channels"]
            made["products"] = (products, random_tensors(**{"r.weight": (out, self.options.width), "r.bias": (out,)}), {})
        return made

    def run(self, name, graph, nodes, edges):
        made = self.contestants(name, *functions(self.options.width)[name])
        cell = {"function": name, "width": self.options.width, "nodes": nodes, "edges": edges, "kernels": {}}
        processes, answers, times = {}, {}, {}
        try:
            for way, (layers, tensors, kernels) in made.items():
                processes[way] = self.start(graph, nodes)
                cell["kernels"][way], answers[way] = self.forward(processes[way], way.replace("=", "_"), layers, tensors, kernels)
                times[way] = []
            cell["error"] = max(float(np.linalg.norm(answers[way] - answers["own"]) / np.linalg.norm(answers["own"]))
                                for way in ("compiled", "layer") if way in answers)  # fmt: skip
            cell["equal_bits"] = all(np.array_equal(answers[way].view(np.uint32), answers["interpreted"].view(np.uint32))
                                     for way in made if way not in ("own", "layer", "products"))  # fmt: skip
            for _ in range(self.options.rounds):
                for way, process in processes.items():
                    answer = process.ask("time", budget_ms=self.options.turn_ms, most=400)
                    times[way].append(statistics.median(answer.get("queued") or answer["us"]))
        finally:
            for process in processes.values():
                process.close()
        return self.summarise(cell, {way: statistics.median(us) for way, us in times.items()}, times)

    def summarise(self, cell, medians, times):
        products = medians.pop("products", 0.0)
        own = medians["own"] - products
        for way, us in medians.items():
            cell[f"{way}_us"] = round(us - products, 1)
            cell[f"{way}_over_own"] = round((us - products) / own, 2)
            cell[f"{way}_spread"] = round((max(times[way]) - min(times[way])) / us, 3)
        cell["products_us"] = round(products, 1)
        return cell


def load_edges(data, size):
    """edge_index and the number of nodes."""
    if size.replace("x", "").isdigit():
        nodes, edges = (int(number) for number in size.split("x"))
        return np.random.default_rng(5).integers(0, nodes, (2, edges)), nodes
    with np.load(os.path.join(data, size + ".npz"), allow_pickle=False) as graph:
        ends = graph["edge_index"].astype(np.int64)
        return ends, int(graph["x"].shape[0]) if "x" in graph else int(ends.max()) + 1


def write_graph(folder, ends, nodes, width):
    edges = ends.shape[1]
    file = os.path.join(folder, "graph")
    exchange.write_safetensors(file, {"edge_index": ends[:, np.argsort(ends[1], kind="stable")].astype(np.int32),
                                      "edge_attr": exchange.pattern(edges, FEATURES), "x": exchange.pattern(nodes, width)})  # fmt: skip
    return file


def main():
    options = parse_arguments()
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        contest = Contest(options, folder)
        for size in options.sizes.split(","):
            ends, nodes = load_edges(options.data, size)
            graph = write_graph(folder, ends, nodes, options.width)
            for name in options.functions.split(","):
                cells.append(contest.run(name, graph, nodes, ends.shape[1]))
                print(json.dumps(cells[-1]), flush=True)
                with open(options.json, "w", encoding="utf-8") as file:
                    json.dump({"rows": cells}, file, indent=1)
    return 0 if all(cell["error"] <= TOLERANCE and cell["equal_bits"] for cell in cells) else 1


if __name__ == "__main__":
    sys.exit(main())
