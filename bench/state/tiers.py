#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""More graphs than memory: hit rate, and p99 of hits and of misses, under Zipf traffic.

  PYTHONPATH=build/release/client/python/installed python3 bench/state/tiers.py --json tiers.json

One client calls one graph after the other, drawn from a Zipf distribution. A call is a miss if the graph was not resident
just before it (GetGraph). The floor of the hit rate's cost is an LRU list of as many graphs as were resident, run over the
same draws. Misses are from the page cache; in a second run each graph's files are dropped from it before its miss."""

import collections
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import numpy as np

import vicinal
from bench.state import common


def upload(client, options):
    """Uploads all graphs, and waits until all are durable; the answer of each for its node 0."""
    client.upload_model("sum", *common.sum_model(options.features))
    answers = []
    for i in range(options.graphs):
        edge_index, x = common.random_graph(options.seed + i, options.nodes, options.edges, options.features)
        x = np.rint(x)  # sums are exact
        row = x.sum(axis=1, dtype=np.float64)
        answers.append(row[0] + row[edge_index[0][edge_index[1] == 0]].sum())
        client.upload_graph(f"g{i}", edge_index, x=x, reorder="none")
        common.wait_until_durable(client.get_graph, f"g{i}")  # until then it cannot be evicted
    return answers


def lru_hit_rate(draws, capacity, count_from):
    """Of draws[count_from:]."""
    kept, hits = collections.OrderedDict(), 0
    for i, graph in enumerate(draws):
        hits += i >= count_from and graph in kept
        kept[graph] = None
        kept.move_to_end(graph)
        if len(kept) > capacity:
            kept.popitem(last=False)
    return hits / (len(draws) - count_from)


def drop(state, graph):
    for path in common.disk_bytes(os.path.join(state, "graphs", f"g{graph}"))[0]:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def traffic(client, options, state, answers, cold):
    random = np.random.default_rng(options.seed)
    weights = 1 / np.arange(1, options.graphs + 1) ** options.zipf
    warm_up = options.calls // 4
    draws = random.choice(options.graphs, warm_up + options.calls, p=weights / weights.sum()).tolist()
    hits, misses, failed, wrong = [], [], 0, 0
    for i, graph in enumerate(draws):
        hit = client.get_graph(f"g{graph}").raw.resident
        if cold and not hit:
            drop(state, graph)
        begin = time.monotonic()
        try:
            answer = client.classify(f"g{graph}", "sum", [0], logits=True)
        except vicinal.Error as error:
            print(f"g{graph}: {error}", file=sys.stderr)
            failed += 1
            continue
        seconds = time.monotonic() - begin
        wrong += float(answer.logits[0, 0]) != answers[graph]
        if i >= warm_up:
            (hits if hit else misses).append(seconds)
    resident = sum(graph.raw.resident for graph in client.list_graphs())
    return {"case": "misses from disk" if cold else "misses from page cache", "graphs": options.graphs, "budget_mib": options.budget_mib,
            "zipf": options.zipf, "calls": options.calls, "failed": failed, "wrong": wrong, "resident": resident,
            "hit_rate": round(len(hits) / (len(hits) + len(misses)), 4), "lru_hit_rate": round(lru_hit_rate(draws, resident, warm_up), 4),
            "hit_median_ms": common.quantiles_ms(hits)["median_ms"], "hit_p99_ms": common.quantiles_ms(hits)["p99_ms"],
            "miss_median_ms": common.quantiles_ms(misses)["median_ms"], "miss_p99_ms": common.quantiles_ms(misses)["p99_ms"]}


def main():
    parser = common.parser(__doc__, "state_tiers_cpu")
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--edges", type=int, default=40_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--budget_mib", type=int, default=100)
    parser.add_argument("--zipf", type=float, default=1.0)
    parser.add_argument("--calls", type=int, default=20_000)
    options = parser.parse_args()
    with common.Scratch(options.folder) as folder:
        state = os.path.join(folder, "state")
        with common.Server(options, folder, f"--state_dir={state}", f"--memory_budget_bytes={options.budget_mib}MiB") as server:
            with vicinal.Client(server.grpc) as client:
                begin = time.monotonic()
                answers = upload(client, options)
                print(f"{options.graphs} graphs uploaded and durable in {time.monotonic() - begin:.0f} s", flush=True)
                rows = [{**traffic(client, options, state, answers, cold), "graph_bytes": client.get_graph("g0").size_bytes}
                        for cold in (False, True)]
                rows[-1]["rss_mib"] = round(server.rss_bytes() / 2**20)
                rows[-1]["evictions"] = server.metric("vicinal_graphs_evicted_total")
            server.stop()
    common.finish(options, rows)
    return 1 if any(row["failed"] or row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
