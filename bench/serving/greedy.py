#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One token queues a thousand full passes: whether the small queries of another token keep their deadline.

  python3 bench/serving/greedy.py --bin build/bench/bin [--device cuda:0] [--json OUT.json]

The passes are Classify of 10 nodes with features of one node in the request, which never share a run, over a graph with 1 million nodes and 10
million edges and a GCN with five layers, so that the field of 10 nodes is most of the graph. Small queries: Classify of 10 nodes of Cora, one at a
time, alone and beside the passes. Kept answers are off. Needs numpy."""

import os
import sys
import time

import numpy as np

import pinned  # first: it says where the next ones are

import common
import models

WIDTHS = (4, 16, 16, 16, 16, 8)


def parse_arguments():
    parser = pinned.parser(__doc__, "serving_greedy")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--passes", type=int, default=1000, help="in the queue at once")
    parser.add_argument("--deadline", type=float, default=0.05, help="of small queries, in seconds")
    parser.add_argument("--seconds", type=float, default=6, help="of small queries beside the passes")
    return parser.parse_args()


def token_file(folder, name, lines):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(lines)
    os.chmod(path, 0o600)
    return path


def small(server, cores, options, token, seconds):
    return pinned.closed_loop(server, cores, 1, seconds, "--graph", "cora", "--model", "cora-gcn", "--deadline", str(options.deadline),
                              "--token_file", token)  # fmt: skip


def wait_for_queue(server, passes):
    """Until that many requests wait, or half a minute."""
    end = time.monotonic() + 30
    depth = 0
    while depth < passes and time.monotonic() < end:
        depth = max(depth, server.metric("vicinal_queue_depth"))
        time.sleep(0.05)
    return depth


def row_of(name, report, **more):
    step = report["steps"][0]
    return {"case": name, "calls": step["ok"] + step["failed"], "failed": step["failed"],
            "errors": {error["error"]: error["count"] for error in report["errors"]}, **pinned.milliseconds(step["latency"], "p50", "p99", "max"), **more}  # fmt: skip


def measure(options, cores, server, admin, greedy, other, large, stem):
    token = ("--token_file", admin)
    pinned.upload_cora(server, options, *token)
    pinned.upload(server, "large", large, *token)
    pinned.upload_model(server, "gcn", stem, *token)
    rows = [row_of("alone", small(server, cores, options, other, options.seconds / 2))]
    passes = ("load", "--graph", "large", "--model", "gcn", "--mix", "classify_rows", "--nodes", "10", "--concurrency", str(options.passes),
              "--connections", "8", "--threads", "2", "--duration", "600", "--warmup", "0", "--timeout", "600", "--token_file", greedy)  # fmt: skip
    with pinned.beside(server, *passes):
        depth = wait_for_queue(server, 0.9 * options.passes)
        report = small(server, cores, options, other, options.seconds)
        left = server.metric("vicinal_queue_depth")
    return rows + [row_of("beside", report, queued=depth, queued_in_the_end=left)]


def main():
    options = parse_arguments()
    cores = pinned.Cores(options.load_cores)
    with common.Scratch(options.folder) as folder:
        edges, x = common.random_graph(options.seed, options.nodes, options.edges, WIDTHS[0])
        large = os.path.join(folder, "large.npz")
        np.savez(large, edge_index=edges, x=x)
        stem = models.write_gcn(folder, options.seed, *WIDTHS)
        names = {"ops": "admin", "greedy": "infer", "other": "infer"}
        tokens = {name: f"{name}-{'x' * 32}" for name in names}
        principals = token_file(folder, "principals", "".join(f"{name} {role} token:{tokens[name]}\n" for name, role in names.items()))
        files = [token_file(folder, name, tokens[name] + "\n") for name in names]
        with pinned.server(cores, options, folder, "--keep_answers=never", f"--principals_file={principals}", f"--max_queue={2 * options.passes + 64}") as server:
            rows = measure(options, cores, server, *files, large, stem)
    common.finish(options, rows)
    return 0 if all(row["failed"] == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
