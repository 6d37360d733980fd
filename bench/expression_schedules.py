#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the settings of expressions gain on a CPU: published message functions under each schedule, in turn.

  python3 bench/expression_schedules.py --worker bin/vicinal_bench_worker --json schedules.json

The functions are those of tests/data/layers whose messages the operation `expression` computes. A turn times one function
under all settings, in an order of its own; turns are repeated. A setting's figure is its least processor time divided by
the default's: other programs only add to it, through the caches. Bits are compared first: they must be equal. --near draws
sources from a window of that many nodes, so that they stay in the near caches: what cutting sources into partitions could
gain at most is the difference. Needs numpy alone."""

import argparse
import glob
import json
import os
import random
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

import numpy as np

from bench.peers import exchange, workers

FEATURES, EDGE_FEATURES = 12, 4
SETTINGS = ["", "edge_tile=8", "edge_tile=16", "edge_tile=24", "edge_tile=96", "edge_tile=192", "prefetch_columns=-1"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worker", required=True, help="vicinal_bench_worker")
    parser.add_argument("--data", default=os.path.join(ROOT, "tests", "data", "layers"))
    parser.add_argument("--functions", help="names, with commas; all")
    parser.add_argument("--wide", action="store_true", help="wide functions written here instead")
    parser.add_argument("--width", type=int, default=64, help="columns of --wide")
    parser.add_argument("--settings", default=";".join(SETTINGS), help="PARAMETER=VALUE,..., with semicolons; the first is compared with")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--edges", type=int, default=400_000)
    parser.add_argument("--near", type=int, default=0, help="sources are at most so many nodes away; 0: anywhere")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--turn-ms", type=float, default=250, help="of a setting")
    parser.add_argument("--json", required=True, help="results")
    return parser.parse_args()


def make_graph(options):
    rng = np.random.default_rng(5)
    targets = np.sort(rng.integers(0, options.nodes, options.edges))
    if options.near:
        sources = (targets + rng.integers(-options.near, options.near + 1, options.edges)) % options.nodes
    else:
        sources = rng.integers(0, options.nodes, options.edges)
    graph = {"edge_index": np.stack([sources, targets]).astype(np.int32), "x": exchange.pattern(options.nodes, FEATURES)}
    if not options.wide:
        graph["edge_weight"] = rng.uniform(0.25, 2.0, options.edges).astype(np.float32)
        graph["edge_attr"] = exchange.pattern(options.edges, EDGE_FEATURES)
    return graph


def published(options):
    """Document and weights of each function, by name."""
    found = {}
    for path in sorted(glob.glob(os.path.join(options.data, "message-*.reference.safetensors"))):
        stem = path[: -len(".reference.safetensors")]
        found[os.path.basename(stem)[len("message-"):]] = (stem + ".json", stem + ".safetensors")
    return {name: found[name] for name in (options.functions.split(",") if options.functions else found)}


def wide(options, folder):
    """Wide functions: a difference, the least work per edge; more element-wise work; a product per edge; a softmax of four heads; a variance."""
    width, rng = options.width, np.random.default_rng(3)
    messages = {
        "difference": {"message": "abs(x_j - x_i)", "aggr": "max"},
        "elementwise": {"message": "tanh(x_j * x_i) + silu(x_j - x_i) / (1 + abs(x_i + x_j))", "aggr": "sum"},
        "product": {"message": "relu(linear(silu(x_j * x_i), w)) * x_j", "aggr": "sum"},
        "softmax": {"message": "x_j * sigmoid(x_i + x_j)", "score": "dot(tanh(x_i + x_j), x_j, 4)", "aggr": "softmax"},
        "deviation": {"message": "silu(x_j - x_i) * x_j", "aggr": "std"},
    }
    found = {}
    for name, arguments in messages.items():
        layers = [{"name": "first", "type": "Linear", "args": {"out_channels": width}},
                  {"name": "own", "type": "MessagePassing", "args": arguments}]
        files = [os.path.join(folder, name + ending) for ending in (".json", ".safetensors")]
        with open(files[0], "w", encoding="utf-8") as file:
            json.dump({"format": "vicinal.model/1", "in_channels": FEATURES, "layers": layers}, file)
        tensors = {"first.weight": rng.normal(0, 0.2, (width, FEATURES)), "first.bias": np.zeros(width)}
        if name == "product":
            tensors["own.w"] = rng.normal(0, 0.1, (width, width))
        exchange.write_safetensors(files[1], {key: value.astype(np.float32) for key, value in tensors.items()})
        found[name] = tuple(files)
    return {name: found[name] for name in (options.functions.split(",") if options.functions else found)}


def measure(options, worker, folder, name, files, settings):
    """The cell of one function, or None where another operation computes its messages."""

    def prepare(setting):
        forced = {"expression": "edge_tiles" + (":" + setting if setting else "")}
        result = os.path.join(folder, "result")
        kernels = worker.ask("forward", architecture=files[0], weights=files[1], kernels=forced, result=result)["kernels"]
        return kernels, np.fromfile(result, np.uint32)

    expressions = [kernel for kernel in prepare("")[0] if kernel.startswith("expression ")]
    if not expressions:
        return None
    want = prepare(settings[0])[1]
    for setting in settings:
        if not np.array_equal(prepare(setting)[1], want):
            raise RuntimeError(f"{name}: other bits with {setting}")
    times = {setting: [] for setting in settings}
    for _ in range(options.turns):
        for setting in random.sample(settings, len(settings)):
            prepare(setting)
            times[setting].append(min(worker.ask("time", budget_ms=options.turn_ms, most=12)["processor_us"]))
    ratios = {setting: min(own) / min(times[settings[0]]) for setting, own in times.items()}
    return {"function": name, "steps": len(expressions), "default_us": min(times[settings[0]]), "ratios": ratios}


def main():
    options = parse_arguments()
    settings = options.settings.split(";")
    report = {"nodes": options.nodes, "edges": options.edges, "near": options.near, "threads": options.threads, "cells": []}
    with tempfile.TemporaryDirectory() as folder:
        worker = workers.Process([options.worker, str(options.threads), "cpu"])
        try:
            graph = os.path.join(folder, "graph")
            exchange.write_safetensors(graph, make_graph(options))
            worker.ask("graph", file=graph, nodes=options.nodes, features=FEATURES, order="none")
            for name, files in (wide(options, folder) if options.wide else published(options)).items():
                cell = measure(options, worker, folder, name, files, settings)
                if cell is None:
                    continue
                report["cells"].append(cell)
                said = "  ".join(f"{setting or 'default'} {ratio:.2f}" for setting, ratio in cell["ratios"].items())
                print(f"{name:16} {cell['default_us'] / 1e3:8.2f} ms  {said}", flush=True)
        finally:
            worker.close()
    report["geometric_means"] = {setting: float(np.exp(np.mean([np.log(cell["ratios"][setting]) for cell in report["cells"]])))
                                 for setting in settings}  # fmt: skip
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    print("geometric means", {setting or "default": round(mean, 3) for setting, mean in report["geometric_means"].items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
