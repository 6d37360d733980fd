#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One writer and two read replicas under load while a graph is replaced again and again: failed calls, answers that are of
no version, and how long a new version takes to reach each replica.

  PYTHONPATH=build/release/client/python/installed python3 bench/state/replicas.py --json replicas.json

Each version has its own topology and features, of small integers, so that every answer is known exactly: one that mixes
versions is found. The client retries nothing."""

import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import numpy as np

import vicinal
from bench.state import common

ASKED = 16


def contents(seed, options):
    """A version, and its answer for the nodes 0 to ASKED - 1."""
    edge_index, _ = common.random_graph(seed, options.nodes, options.edges, 1)
    x = np.random.default_rng(seed).integers(-8, 9, (options.nodes, options.features)).astype(np.float32)
    x[:ASKED, 0] = seed  # no two versions answer the same
    row = x.sum(axis=1, dtype=np.float64)
    answer = row[:ASKED].copy()
    sources, targets = edge_index
    asked = targets < ASKED
    np.add.at(answer, targets[asked], row[sources[asked]])
    return edge_index, x, answer


class Caller(threading.Thread):
    """Calls one server without pause until `stop`; `first[version]`: when it first answered with that version."""

    def __init__(self, target):
        super().__init__()
        self.target, self.stop = target, threading.Event()
        self.calls, self.failed, self.answers, self.first, self.seconds = 0, [], {}, {}, []
        self.backward = 0

    def run(self):
        last = 0
        with vicinal.Client(self.target, service_config=None) as client:
            while not self.stop.is_set():
                begin = time.monotonic()
                try:
                    answer = client.classify("g", "sum", np.arange(ASKED), logits=True)
                except vicinal.Error as error:
                    self.failed.append(str(error))
                    continue
                finally:
                    self.calls += 1
                end = time.monotonic()
                self.seconds.append(end - begin)
                version = answer.served_by.graph_version
                self.backward += version < last
                last = version
                self.first.setdefault(version, end)
                self.answers.setdefault(version, set()).add(answer.logits.tobytes())
                time.sleep(0.002)


def wrong_answers(callers, expected):
    """Answers that are not those of the version that they name."""
    wrong = 0
    for caller in callers:
        for version, answers in caller.answers.items():
            good = np.repeat(expected[version].astype(np.float32)[:, None], common.CLASSES, axis=1).tobytes()
            wrong += len(answers - {good})
    return wrong


def measure(options, servers, client):
    expected, ready, durable = {}, {}, {}

    def replace(seed):
        edge_index, x, answer = contents(seed, options)
        graph = client.upload_graph("g", edge_index, x=x, replace=True)
        expected[graph.version], ready[graph.version] = answer, time.monotonic()
        common.wait_until_durable(client.get_graph, "g")
        durable[graph.version] = time.monotonic()

    client.upload_model("sum", *common.sum_model(options.features))
    replace(1)
    for server in servers[1:]:  # each has the graph before the load begins
        with vicinal.Client(server.grpc) as replica:
            while not any(graph.state == "READY" for graph in replica.list_graphs()):
                time.sleep(0.05)
    callers = [Caller(server.grpc) for server in servers for _ in range(options.callers)]
    for caller in callers:
        caller.start()
    for seed in range(2, options.replacements + 2):
        replace(seed)
        time.sleep(options.pause)
    time.sleep(2)
    for caller in callers:
        caller.stop.set()
    for caller in callers:
        caller.join()
    return callers, expected, ready, durable


def main():
    parser = common.parser(__doc__, "state_replicas_cpu")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--edges", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=16)
    parser.add_argument("--replacements", type=int, default=50)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between replacements")
    parser.add_argument("--callers", type=int, default=1, help="threads that call each server")
    options = parser.parse_args()
    with common.Scratch(options.folder) as folder:
        state = os.path.join(folder, "state")
        with common.Server(options, folder, f"--state_dir={state}", name="writer") as writer, \
                common.Server(options, folder, f"--state_dir={state}", "--state_read_only", name="replica-1") as one, \
                common.Server(options, folder, f"--state_dir={state}", "--state_read_only", name="replica-2") as two, \
                vicinal.Client(writer.grpc) as client:
            callers, expected, ready, durable = measure(options, [writer, one, two], client)
            for server in (one, two, writer):
                server.stop()
    replicas = callers[options.callers:]
    versions = sorted(ready)[1:]
    missed = sum(version not in caller.first for caller in replicas for version in versions)
    rows = [{"case": "calls", "replacements": options.replacements, "calls": sum(caller.calls for caller in callers),
             "failed": sum(len(caller.failed) for caller in callers), "mixed": wrong_answers(callers, expected),
             "backward": sum(caller.backward for caller in callers), "versions_not_seen": missed,
             "failures": sorted({text for caller in callers for text in caller.failed})[:5],
             "writer": common.quantiles_ms(np.concatenate([caller.seconds for caller in callers[:options.callers]])),
             "replicas": common.quantiles_ms(np.concatenate([caller.seconds for caller in replicas]))}]
    for case, since in (("delay from READY", ready), ("delay from DURABLE", durable)):
        delays = [caller.first[version] - since[version] for caller in replicas for version in versions if version in caller.first]
        rows.append({"case": case, **common.quantiles_ms(delays)})
    common.finish(options, rows)
    return 1 if rows[0]["failed"] or rows[0]["mixed"] or rows[0]["backward"] else 0


if __name__ == "__main__":
    sys.exit(main())
