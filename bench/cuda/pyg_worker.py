# SPDX-License-Identifier: Apache-2.0
"""PyTorch Geometric on a GPU in a process that prepares, runs and times on command, with a line of JSON each way.

  python -m bench.cuda.pyg_worker DEVICE

Supports every form that a user can choose: edge_index sorted by target, CSR, GCN with cached normalisation
(`cached=True`), each eagerly and as a CUDA graph. Float32 throughout, TF32 off. It is a process of its own, so that a
form that runs out of memory or never ends does not end the comparison."""

import gc
import json
import os
import statistics
import sys
import time
import warnings

import numpy as np
import torch
import torch_geometric
from torch import nn
from torch_geometric import nn as gnn

from bench.peers import cuda_graph, exchange


class LayerList(nn.Module):
    """An architecture in the format vicinal.model/1, as far as this comparison needs it."""

    def __init__(self, layers):
        super().__init__()
        self.order = [layer["name"] for layer in layers]
        for layer in layers:
            kind, args = layer["type"], layer.get("args", {})
            self.add_module(layer["name"], getattr(nn if kind == "ELU" else gnn, kind)(**args))

    def forward(self, x, adjacency):
        for name in self.order:
            layer = getattr(self, name)
            x = layer(x, adjacency) if isinstance(layer, gnn.MessagePassing) else layer(x)
        return x


def make_model(architecture, **options):
    if "layers" in architecture:
        return LayerList(architecture["layers"]).eval()
    made = getattr(gnn.models, architecture["class"].rsplit(".", 1)[1])
    return made(**{**architecture["kwargs"], **options}).eval()


class Worker:
    def __init__(self, device):
        warnings.filterwarnings("ignore")
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self.device = torch.device(device)
        self.on_gpu = self.device.type == "cuda"
        self.tasks = {}

    def op_hello(self, _):
        about = {"torch": torch.__version__, "torch_geometric": torch_geometric.__version__}
        if self.on_gpu:
            about["gpu"] = torch.cuda.get_device_name(self.device)
        return {"versions": about}

    def op_graph(self, request):
        self.op_clear(None)
        self.x = self.edges = self.csr = None
        self.free()
        nodes, edges = np.fromfile(request["file"], np.int64, 2)
        numbers = np.fromfile(request["file"], np.int32, offset=16)
        row_ptr, col = numbers[: nodes + 1].astype(np.int64), numbers[nodes + 1 :].astype(np.int64)
        target = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(row_ptr))
        self.edges = torch.from_numpy(np.stack([col, target])).to(self.device)
        ones = torch.ones(int(edges), device=self.device)
        self.csr = torch.sparse_csr_tensor(
            torch.from_numpy(row_ptr).to(self.device), self.edges[0], ones, size=(int(nodes), int(nodes))
        )
        self.x = torch.from_numpy(exchange.pattern(int(nodes), request["features"])).to(self.device)
        return {"nodes": int(nodes), "edges": int(edges)}

    def op_model(self, request):
        """Random weights (seeded) for an architecture, saved to files that our side loads."""
        torch.manual_seed(1)
        state = make_model(request["content"]).state_dict()
        tensors = {name: tensor.numpy() for name, tensor in state.items() if tensor.dtype == torch.float32}
        exchange.write_safetensors(request["weights"], tensors)
        with open(request["architecture"], "w", encoding="utf-8") as file:
            json.dump(request["content"], file)
        return {}

    def op_list(self, request):
        with open(request["architecture"], encoding="utf-8") as file:
            self.architecture = json.load(file)
        self.weights = {
            name: torch.from_numpy(array.copy()) for name, array in exchange.read_safetensors(request["weights"]).items()
        }
        kind = self.architecture.get("class", "GAT").rsplit(".", 1)[-1]
        forms = ["edge_index", "CSR"]  # PyG refuses CSR for operations without CSR support: the maximum, GAT
        if kind == "GCN":
            forms += ["edge_index, cached", "CSR, cached"]
        return {"peers": forms + ([form + ", CUDA graph" for form in forms] if self.on_gpu else [])}

    def op_make(self, request):
        """Prepares a form, runs it once, writes its result, and times a few more runs."""
        name = request["peer"]
        model = make_model(self.architecture, **({"cached": True} if "cached" in name else {})).to(self.device)
        model.load_state_dict({n: t.to(self.device) for n, t in self.weights.items()}, strict=False)
        adjacency = self.csr if name.startswith("CSR") else self.edges
        task = lambda: model(self.x, adjacency)  # noqa: E731
        result = task()
        if "CUDA graph" in name:
            task, result = cuda_graph.capture(task)
            task()
        self.wait()
        us = self.timed(task)
        if us < 1e5:  # a first run may be disturbed, and a form that is slow in it is not run again
            us = min([us] + [self.timed(task) for _ in range(4)])
        result.detach().float().cpu().contiguous().numpy().tofile(request["result"])
        self.tasks[name] = task
        return {"us": us}

    def op_time(self, request):
        """One run that does not count, then runs that are waited for, then queued runs. Each kind uses the budget, with
        at least one run."""
        task, budget, most = self.tasks[request["peer"]], request["budget_ms"] * 1e3, request["most"]
        task()
        self.wait()
        waited = []
        while not waited or (sum(waited) < budget and len(waited) < most):
            waited.append(self.timed(task))
        return {"us": waited, "queued": self.queued(task, min(most, max(1, int(budget / statistics.median(waited)))))}

    def queued(self, task, count):
        if not self.on_gpu:
            return []
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        task()
        events[0].record()
        for event in events[1:]:
            task()
            event.record()
        self.wait()
        return [1e3 * a.elapsed_time(b) for a, b in zip(events, events[1:])]

    def timed(self, task):
        begin = time.perf_counter()
        task()
        self.wait()
        return 1e6 * (time.perf_counter() - begin)

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize(self.device)

    def op_drop(self, request):
        self.tasks.pop(request["peer"], None)
        self.free()
        return {}

    def op_clear(self, _):
        self.tasks = {}
        self.free()
        return {}

    def free(self):
        gc.collect()
        if self.on_gpu:
            torch.cuda.empty_cache()

    def still_usable(self):
        """Frees memory after a failure. Returns False if the device does not respond any more."""
        try:
            self.free()
            self.wait()
        except RuntimeError:
            return False
        return True

    def do(self, request):
        with torch.inference_mode():
            return getattr(self, "op_" + request["op"])(request)


def main():
    answers = sys.stdout
    sys.stdout = sys.stderr  # output of libraries must not mix with the answers
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        try:
            answer = {"ok": True, **worker.do(json.loads(line))}
        except Exception as error:  # a failure of a form is an answer and does not end the run
            answer = {"ok": False, "error": f"{type(error).__name__}: {str(error)[:300]}"}
        usable = answer["ok"] or worker.still_usable()
        print(json.dumps(answer), file=answers, flush=True)
        if not usable:
            os._exit(1)  # the process has lost the device, so clean-up would fail


if __name__ == "__main__":
    main()
