# SPDX-License-Identifier: Apache-2.0
"""A process that holds peers and times them on command: the counterpart of vicinal_bench_worker, with the same lines.

  python -m bench.peers.peer_worker torch|dgl THREADS

Each library lives in a process of its own, because DGL's last release wants an older PyTorch than PyG's. A task is a
closure without arguments; what it closes over (sorted edges, CSR, normalised adjacency) is prepared before, as a user
who cares for speed would, and is not timed."""

import importlib
import json
import sys
import time

from bench.peers import exchange

SCREEN_SECONDS = 0.1  # no further run after this; the first ones after a pause may share a core


class Graph:
    """What both libraries start from: edges as sent, and CSR by target."""

    def __init__(self, file):
        import numpy as np

        tensors = exchange.read_safetensors(file["file"])
        self.nodes, self.features = file["nodes"], file["features"]
        self.edge_index = tensors["edge_index"].astype(np.int64)
        self.edge_weight = tensors["edge_weight"]
        order = np.lexsort((self.edge_index[0], self.edge_index[1]))
        self.sorted_edges = np.ascontiguousarray(self.edge_index[:, order])
        self.sorted_weight = np.ascontiguousarray(self.edge_weight[order])
        self.row_ptr = np.zeros(self.nodes + 1, np.int64)
        self.row_ptr[1:] = np.cumsum(np.bincount(self.edge_index[1], minlength=self.nodes))
        self.tensors = tensors


class Worker:
    def __init__(self, library, threads):
        self.library = importlib.import_module(f"bench.peers.{library}_peers")
        self.library.start(threads)
        self.graph, self.tasks = None, {}

    def do(self, request):
        name = "op_" + request["op"]
        return (getattr(self, name) if hasattr(self, name) else getattr(self.library, name))(request)

    def op_hello(self, _):
        return {"versions": self.library.versions()}

    def op_graph(self, request):
        self.tasks = {}
        self.graph = Graph(request)
        self.library.prepare(self.graph)
        return {}

    def op_list(self, request):
        """Names of the peers that can do a cell."""
        of_kind = {"aggregate": "aggregations", "scores": "scores", "forward": "forwards"}[request["kind"]]
        self.makers = getattr(self.library, of_kind)(self.graph, request)
        return {"peers": list(self.makers)}

    def op_make(self, request):
        """Prepares one of them and writes its result; tells the shortest of some runs."""
        self.tasks.pop(request["peer"], None)
        task = self.makers[request["peer"]]()
        result = self.library.to_numpy(self.library.run(task))
        us = self.library.run(lambda: sample(task, SCREEN_SECONDS, 12))
        result.tofile(request["result"])
        self.tasks[request["peer"]] = task
        return {"us": min(us)}

    def op_drop(self, request):
        self.tasks.pop(request["peer"], None)
        return {}

    def op_clear(self, _):
        self.tasks, self.makers = {}, {}
        return {}

    def op_time(self, request):
        """As the op of vicinal_bench_worker: one run that does not count, then samples."""
        clock = time.process_time if request.get("processor") else time.perf_counter
        task, budget = self.tasks[request["peer"]], request["budget_ms"] * 1e-3
        return {"us": self.library.run(lambda: sample(task, budget, request["most"], clock))}


def sample(task, budget, most, clock=time.perf_counter):
    begin = clock()
    task()
    first = clock() - begin
    repeats = int(50e-6 / (first + 1e-7)) + 1 if first < 50e-6 else 1
    samples, used = [], 0.0
    while not samples or (used < budget and len(samples) < most):
        begin = clock()
        for _ in range(repeats):
            task()
        seconds = clock() - begin
        used += seconds
        samples.append(seconds * 1e6 / repeats)
    return samples


def main():
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print must not get between the answers
    worker = Worker(sys.argv[1], int(sys.argv[2]))
    for line in sys.stdin:
        try:
            answer = {"ok": True, **worker.do(json.loads(line))}
        except Exception as error:  # any failure of a peer is an answer, not the end of the run
            answer = {"ok": False, "error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
