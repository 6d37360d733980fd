#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the maximum over neighbours as PyTorch Geometric computes it on a GPU, edge by edge: gather the sources, then
scatter their maxima. For GE-SpMM's claim about operations that cuSPARSE does not have.

  python3 bench/cuda/claim_pool.py --graphs FOLDER --names cora,pubmed --widths 16,64 --json pool.json

Each figure is the time on the GPU between events of queued runs. Needs numpy, torch and torch_geometric."""

import argparse
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import numpy as np
import torch
from torch_geometric.utils import scatter

from bench.peers import exchange, figures

RUNS, WARM_UPS = 30, 5


def queued_us(run):
    for _ in range(WARM_UPS):
        run()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(RUNS + 1)]
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    torch.cuda.synchronize()
    return [1e3 * a.elapsed_time(b) for a, b in zip(events, events[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", required=True, help="folder of the graphs, NAME.bin")
    parser.add_argument("--names", required=True)
    parser.add_argument("--widths", default="16,64")
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    cells = []
    for name in options.names.split(","):
        path = os.path.join(options.graphs, name + ".bin")
        nodes = int(np.fromfile(path, np.int64, 1)[0])
        numbers = np.fromfile(path, np.int32, offset=16)
        target = torch.from_numpy(np.repeat(np.arange(nodes, dtype=np.int64), np.diff(numbers[: nodes + 1]))).cuda()
        source = torch.from_numpy(numbers[nodes + 1 :].astype(np.int64)).cuda()
        for width in map(int, options.widths.split(",")):
            x = torch.from_numpy(exchange.pattern(nodes, width)).cuda()
            with torch.inference_mode():
                us = queued_us(lambda x=x: scatter(x[source], target, 0, nodes, "max"))
            cells.append({"graph": name, "width": width, **figures.summarise(us)})
            print(f"{name} {width}: {cells[-1]['median_us']:.1f} us", flush=True)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump({"cells": cells}, file, indent=1)


if __name__ == "__main__":
    main()
