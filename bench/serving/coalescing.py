#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small queries that must compute: one client, and 64 whose requests share runs.

  python3 bench/serving/coalescing.py --bin build/bench/bin [--base OTHER_BIN] [--device cuda:0] [--json OUT.json]

Classify of 10 nodes of a graph with the sizes of the Flickr social network (7,575 nodes, 479,476 edges) and a GCN 500-64-7 with random
weights, kept answers off, tuned first. --base names a folder with another build of the server, which takes turns. Needs numpy."""

import contextlib
import os
import statistics
import sys

import pinned  # first: it says where the next ones are

import batches
import common
import models

ASK = ("--graph", "flickr", "--model", "gcn", "--nodes", "10")


def parse_arguments():
    parser = pinned.parser(__doc__, "serving_coalescing")
    parser.add_argument("--base", help="folder of the vicinal-server to compare with; the command line is that of --bin")
    parser.add_argument("--in-flight", default="1,64")
    parser.add_argument("--seconds", type=float, default=3, help="of each turn")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    options.in_flight = [int(count) for count in options.in_flight.split(",")]
    return options


def prepare(server, cores, graph, stem):
    pinned.upload(server, "flickr", graph)
    pinned.upload_model(server, "gcn", stem)
    pinned.closed_loop(server, cores, 1, 1, *ASK)  # makes the plan, and tells the tuner what it needs
    pinned.closed_loop(server, cores, 64, 1, *ASK)
    server.vicinal("graph", "tune", "flickr")


def row_of(name, in_flight, steps, runs):
    rates = [step["ok_per_second"] for step in steps]
    return {"server": name, "in_flight": in_flight, "calls_per_second": round(statistics.median(rates), 1), "lowest": round(min(rates), 1),
            "highest": round(max(rates), 1), "failed": sum(step["failed"] for step in steps),
            "calls_per_run": round(sum(step["ok"] for step in steps) / max(1.0, runs), 2),
            **{f"{quantile}_us": round(statistics.median(step["latency"][quantile] for step in steps) * 1e6, 1) for quantile in ("p50", "p99")}}  # fmt: skip


def compare(rows):
    """Adds, to a row of `vicinal`, its ratios to the row of `base`."""
    bases = {row["in_flight"]: row for row in rows if row["server"] == "base"}
    for row in rows:
        base = bases.get(row["in_flight"])
        if base and row["server"] != "base":
            row["throughput_of_base"] = round(row["calls_per_second"] / base["calls_per_second"], 3)
            row["median_of_base"] = round(row["p50_us"] / base["p50_us"], 3)


def measure(options, cores, servers):
    steps, runs = {}, {}
    for _ in range(options.rounds):
        for in_flight in options.in_flight:
            for name, server in servers.items():
                before = server.metric("vicinal_run_requests_count")
                step = pinned.closed_loop(server, cores, in_flight, options.seconds, *ASK, warmup=0)["steps"][0]
                key = (name, in_flight)
                steps.setdefault(key, []).append(step)
                runs[key] = runs.get(key, 0) + server.metric("vicinal_run_requests_count") - before
    rows = [row_of(*key, those, runs[key]) for key, those in steps.items()]
    compare(rows)
    return rows


def main():
    options = parse_arguments()
    cores = pinned.Cores(options.load_cores)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(common.Scratch(options.folder))
        graph = batches.write_graph(folder, options.seed)
        stem = models.write_gcn(folder, options.seed, batches.FEATURES, batches.HIDDEN, batches.CLASSES)
        servers = {}
        for name, programs in {"vicinal": options.bin, **({"base": options.base} if options.base else {})}.items():
            made = stack.enter_context(pinned.server(cores, options, folder, "--keep_answers=never", name=name, programs=programs))
            prepare(made, cores, graph, stem)
            servers[name] = made
        rows = measure(options, cores, servers)
    common.finish(options, rows)
    return 0 if all(row["failed"] == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
