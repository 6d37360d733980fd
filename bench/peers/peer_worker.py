# SPDX-License-Identifier: Apache-2.0
"""A process that holds peers and times them on command: the counterpart of vicinal_bench_worker, with the same lines.

  python -m bench.peers.peer_worker torch|dgl THREADS

Each library lives in a process of its own, because DGL's last release wants an older PyTorch than PyG's. A task is a
closure without arguments; what it closes over (sorted edges, CSR, normalised adjacency) is prepared before, as a user
who cares for speed would, and is not timed."""

import gc
import importlib
import json
import os
import sys
import time

from bench.peers import exchange

SCREEN_SECONDS = 0.1  # no further run after this; the first ones after a pause may share a core


class Graph:
    """What both libraries start from: edges as sent, and CSR by target."""

    def __init__(self, tensors, nodes, features):
        import numpy as np

        self.nodes, self.features = nodes, features
        self.edge_index = tensors["edge_index"].astype(np.int64)
        self.edge_weight = tensors["edge_weight"]
        order = np.lexsort((self.edge_index[0], self.edge_index[1]))
        self.sorted_edges = np.ascontiguousarray(self.edge_index[:, order])
        self.sorted_weight = np.ascontiguousarray(self.edge_weight[order])
        self.row_ptr = np.zeros(self.nodes + 1, np.int64)
        self.row_ptr[1:] = np.cumsum(np.bincount(self.edge_index[1], minlength=self.nodes))
        if "edge_attr" in tensors:
            self.sorted_attr = np.ascontiguousarray(tensors["edge_attr"][order])
        self.tensors = tensors

    def tiny(self):
        """A ring of 16 nodes with features as wide as this graph's."""
        import numpy as np

        nodes = np.arange(16, dtype=np.int32)
        tensors = {"edge_index": np.stack([nodes, np.roll(nodes, 1)]), "edge_weight": np.ones(16, np.float32)}
        tensors["x"] = exchange.pattern(16, self.features)
        if "edge_attr" in self.tensors:
            tensors["edge_attr"] = exchange.pattern(16, self.tensors["edge_attr"].shape[1])
        return Graph(tensors, 16, self.features)


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
        self.graph = Graph(exchange.read_safetensors(request["file"]), request["nodes"], request["features"])
        self.library.prepare(self.graph)
        return {}

    def op_list(self, request):
        """Names of the peers that can do a cell."""
        self.makers = self.makers_of(self.graph, request)
        return {"peers": list(self.makers)}

    def makers_of(self, graph, cell):
        of_kind = {"aggregate": "aggregations", "scores": "scores", "forward": "forwards", "edge_layer": "edge_layers"}
        return getattr(self.library, of_kind[cell["kind"]])(graph, cell)

    def op_make(self, request):
        """Prepares one of them and writes its result; tells the shortest of some runs."""
        self.tasks.pop(request["peer"], None)
        task = self.makers[request["peer"]]()
        result = self.library.to_numpy(self.library.run(task))
        us, _ = self.library.run(lambda: sample(task, SCREEN_SECONDS, 12))
        result.tofile(request["result"])
        self.tasks[request["peer"]] = task
        return {"us": min(us)}

    def op_peak(self, request):
        """How much more memory one peer of a cell takes than there was with the graph: in a process of its own, forked from
        this one, which has run nothing yet and has one thread."""
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                answer = {"peak_bytes": self.peak(request)}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
            os.write(send, json.dumps(answer).encode())
            os._exit(0)
        os.close(send)
        with open(receive, "rb") as file:
            answer = json.loads(file.read() or b'{"error": "the process ended"}')
        os.waitpid(child, 0)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def peak(self, request):
        """What a library takes with its first operations is not counted: they run on a tiny graph before."""
        tiny = self.graph.tiny()
        self.library.prepare(tiny)
        self.library.run(self.makers_of(tiny, request)[request["peer"]]())
        maker = self.makers_of(self.graph, request)[request["peer"]]
        gc.collect()
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # forgets the peak so far
        before = memory("VmRSS")
        self.library.run(maker())
        return memory("VmHWM") - before

    def op_drop(self, request):
        self.tasks.pop(request["peer"], None)
        return {}

    def op_clear(self, _):
        self.tasks, self.makers = {}, {}
        return {}

    def op_time(self, request):
        """As the op of vicinal_bench_worker: one run that does not count, then samples."""
        task, budget = self.tasks[request["peer"]], request["budget_ms"] * 1e-3
        elapsed, processor = self.library.run(lambda: sample(task, budget, request["most"]))
        return {"us": elapsed, "processor_us": processor}


def sample(task, budget, most):
    """Microseconds of runs: elapsed, and of processor time."""
    begin = time.perf_counter()
    task()
    first = time.perf_counter() - begin
    repeats = int(50e-6 / (first + 1e-7)) + 1 if first < 50e-6 else 1
    elapsed, processor, used = [], [], 0.0
    while not elapsed or (used < budget and len(elapsed) < most):
        begin, processor_begin = time.perf_counter(), time.process_time()
        for _ in range(repeats):
            task()
        seconds, processor_seconds = time.perf_counter() - begin, time.process_time() - processor_begin
        used += seconds
        elapsed.append(seconds * 1e6 / repeats)
        processor.append(processor_seconds * 1e6 / repeats)
    return elapsed, processor


def memory(field):
    """Of /proc/self/status, in bytes: VmRSS is there now, VmHWM was at most."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


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
