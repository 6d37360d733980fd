#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten small requests a second on a graph with 10 million edges, from its upload on: when it is tuned, and what tuning costs the requests.

  python3 bench/serving/tuning.py --bin build/bench/bin [--device cuda:0] [--json OUT.json]
  python3 bench/serving/tuning.py --bin bin --device cuda:0 --graph reddit.bin --widths 602,64,41 --json OUT.json   # of vicinal_bench_graphs

Classify of 10 nodes, a GCN with two layers, kept answers off, equal gaps. Two servers with the same calls, one after the other: one that
tunes in the background and one that does not (--tuning_budget=0). The delay by tuning is the difference of quantiles on the server. The
first --first seconds are a row of their own: they make the plan. Needs numpy."""

import os
import sys
import threading
import time

import numpy as np

import pinned  # first: it says where the next ones are

import common
import models
from bench.binary_graph import read_graph

WAITING = ("QUEUED", "RUNNING", "SEEDED")


def parse_arguments():
    parser = pinned.parser(__doc__, "serving_tuning")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--graph", help="a file of vicinal_bench_graphs in place of a random graph of --nodes and --edges")
    parser.add_argument("--widths", default="16,16,8", help="of the GCN: features, hidden, classes")
    parser.add_argument("--rate", type=float, default=10, help="requests a second")
    parser.add_argument("--first", type=float, default=1.0, help="seconds from the first request on that are counted apart")
    parser.add_argument("--most", type=float, default=60, help="seconds after which an untuned graph is given up")
    parser.add_argument("--after", type=float, default=5, help="seconds of requests once it is tuned")
    return parser.parse_args()


class Watch(threading.Thread):
    """Asks for the states of the graph's kinds of work until all have been measured."""

    def __init__(self, server, begin, most):
        super().__init__()
        self.server, self.begin, self.most = server, begin, most
        self.states, self.tuned_after = [], None

    def run(self):
        while time.monotonic() < self.begin + self.most:
            shown = self.server.vicinal("graph", "tune", "large", "--show")
            self.states = [record["state"].removeprefix("STATE_") for record in shown.get("records", [])]
            if "TUNED" in self.states and not any(state in WAITING for state in self.states):
                self.tuned_after = time.monotonic() - self.begin
                return
            time.sleep(0.2)


def write_graph(folder, options, features):
    if options.graph:
        edges, nodes = read_graph(options.graph)
        x = np.random.default_rng(options.seed).standard_normal((nodes, features), np.float32)
    else:
        edges, x = common.random_graph(options.seed, options.nodes, options.edges, features)
    file = os.path.join(folder, "large.npz")
    np.savez(file, edge_index=edges, x=x)
    return file


def calls(server, cores, options, seconds):
    return pinned.open_loop(server, cores, options.rate, seconds, "--arrivals", "uniform", "--graph", "large", "--model", "gcn",
                            "--nodes", "10")["steps"][0]  # fmt: skip


def until_tuned(server, cores, options, graph, tunes):
    """Steps of requests from the upload on: [first, while tuning, once tuned]."""
    pinned.upload(server, "large", graph)
    begin = time.monotonic()
    watch = Watch(server, begin, options.most if tunes else 0)
    watch.start()
    first = calls(server, cores, options, options.first)
    during = []
    while watch.is_alive() or not during:
        during.append(calls(server, cores, options, 2.0))
    watch.join()
    return watch, first, during, calls(server, cores, options, options.after)


def row_of(phase, tunes, steps):
    """Quantiles of small samples: the largest of the steps' ones."""
    row = {"phase": phase, "tunes": tunes, "calls": sum(step["ok"] for step in steps), "failed": sum(step["failed"] for step in steps)}
    for name in ("server", "latency"):
        times = [step[name] for step in steps if step[name]["count"]]
        for quantile, combine in (("p50", np.median), ("p99", max), ("max", max)):
            if times:
                row[f"{name}_{quantile}_ms"] = round(float(combine([one[quantile] for one in times])) * 1e3, 3)
    return row


def measure(options, cores, folder, graph, stem, tunes):
    flags = ["--keep_answers=never"] + ([] if tunes else ["--tuning_budget=0"])
    with pinned.server(cores, options, folder, *flags, name=f"tunes{tunes}") as server:
        pinned.upload_model(server, "gcn", stem)
        watch, first, during, after = until_tuned(server, cores, options, graph, tunes)
        rows = [row_of("first", tunes, [first]), row_of("tuning", tunes, during), row_of("tuned", tunes, [after])]
        if tunes:
            rows[0].update(tuned_after_seconds=watch.tuned_after and round(watch.tuned_after, 2), states=watch.states,
                           tuning_seconds=round(server.metric("vicinal_tuning_seconds_total"), 3))  # fmt: skip
    return rows


def main():
    options = parse_arguments()
    cores = pinned.Cores(options.load_cores)
    with common.Scratch(options.folder) as folder:
        widths = [int(width) for width in options.widths.split(",")]
        graph = write_graph(folder, options, widths[0])
        stem = models.write_gcn(folder, options.seed, *widths)
        rows = measure(options, cores, folder, graph, stem, True) + measure(options, cores, folder, graph, stem, False)
    delay = {key: round(rows[1][key] - rows[4][key], 3) for key in ("server_p50_ms", "server_p99_ms", "server_max_ms")}
    rows.append({"phase": "delay by tuning", **delay})
    common.finish(options, rows)
    return 0 if all(row.get("failed", 0) == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
