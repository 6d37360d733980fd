#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/state/start.py for machines that have a bundle (deploy/bundle.sh) and Python alone: from the start of a server to READY with
one large graph in its state directory, on a CPU or with the copy to a GPU.

  python3 bench/state/start_bundle.py --bin BUNDLE/bin --device cuda:0 --json start_h200.json

Each round first reads the state directory's data files, which is the floor, and then starts the server: both with the files in the
page cache, or both after they were dropped from it. The floor is one process that reads every file once, 4 MiB at a time. The
logits of a few nodes must be the same after each start. --state keeps and reuses the prepared directory."""

import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.state import bundle
from bench.state.scratch import Scratch, finish


def prepare(options, state, folder):
    graph, model = os.path.join(folder, "large.npz"), os.path.join(folder, "sum.json")
    bundle.write_model(options.features, folder)
    bundle.write_graph(graph, options.nodes, options.edges, options.features)
    server = bundle.Server(options, folder, state)
    server.vicinal("graph", "upload", graph, "--name", "large", "--reorder", options.reorder, "--wait_for", "durable")
    server.vicinal("model", "upload", model, "--weights", os.path.join(folder, "sum.safetensors"), "--name", "sum")
    server.stop()
    os.remove(graph)


def drop(files):
    subprocess.run(["sync"], check=True)
    for path in files:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(options, state, folder, case, answers):
    files, reads, starts, loads, device = bundle.data_files(state), [], [], [], ""
    settle = drop if case == "cold" else bundle.read_seconds
    for _ in range(options.rounds):
        settle(files)
        reads.append(bundle.read_seconds(files))
        settle(files)
        server = bundle.Server(options, folder, state)
        starts.append(server.seconds)
        loads.extend(server.loads)
        device = server.devices[0]
        nodes = ",".join(str(i * (options.nodes // 16)) for i in range(16))
        answer = server.vicinal("classify", "--graph", "large", "--model", "sum", "--nodes", nodes, "--ids", "none", "--logits",
                                "--json").stdout
        answers.add(json.dumps(json.loads(answer)["logits"]))
        server.stop()
    if len(answers) != 1:
        raise RuntimeError("a restarted server gave other logits")
    ms = {name: round(statistics.median(values) * 1e3, 1) for name, values in (("start_to_ready_ms", starts), ("read_ms", reads))}
    return {"case": "cold" if case == "cold" else "page cache", "device": device, "nodes": options.nodes, "edges": options.edges,
            "features": options.features, "rounds": options.rounds, "bytes": sum(os.stat(file).st_blocks * 512 for file in files), **ms,
            "start_to_ready_least_ms": round(min(starts) * 1e3, 1), "start_to_ready_most_ms": round(max(starts) * 1e3, 1),
            "load_ms": round(statistics.median(loads) * 1e3, 1), "ratio": round(ms["start_to_ready_ms"] / ms["read_ms"], 3)}


def main():
    parser = bundle.parser(__doc__, "cuda:0", "state_start_h200")
    parser.add_argument("--nodes", type=int, default=1 << 23, help="a power of two")
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--features", type=int, default=60)
    parser.add_argument("--reorder", default="degree")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", default="cache,cold")
    parser.add_argument("--state", default=None, help="prepared directory, made if missing, kept; default: a temporary one")
    options = parser.parse_args()
    if options.nodes & (options.nodes - 1):
        parser.error("--nodes must be a power of two")
    with Scratch(options.folder) as folder:
        state = options.state or os.path.join(folder, "state")
        if not os.path.exists(state):
            prepare(options, state, folder)
        answers = set()
        rows = [measure(options, state, folder, case, answers) for case in options.cases.split(",")]
    finish(options, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
