# SPDX-License-Identifier: Apache-2.0
"""The server that users of PyTorch Geometric would write: Classify of package vicinal.v1 in Python, around one graph and one model.

  python python_server.py --graph cora.npz --model cora-gcn [--keep] [--asyncio] [--device cpu|cuda:0]

`--model` names FILE.json and FILE.safetensors. Each request runs the model on the whole graph; with --keep the logits of all nodes are
computed once and stay in a tensor. Prints its address once it serves. Needs torch, torch_geometric, grpcio, numpy and the package of
client/python (PYTHONPATH), for its messages."""

import argparse
import asyncio
import json
import os
import sys
import time
import warnings
from concurrent import futures

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(ROOT)
warnings.filterwarnings("ignore")

import grpc
import numpy as np
import torch
import torch_geometric
from vicinal._messages import METHODS, enum_values, message

from bench.peers import exchange

TYPES = enum_values("DataType")
TOP_K = 1


def read_graph(path):
    """edge_index int64 [2, E] and dense features float32 [N, F]."""
    data = exchange.load_dataset(path)
    tensors = data["tensors"]
    if "x" in tensors:
        x = tensors["x"].copy()
    else:
        x = np.zeros((data["nodes"], data["features"]), np.float32)
        rows = np.repeat(np.arange(data["nodes"]), np.diff(tensors["x_indptr"]))
        x[rows, tensors["x_indices"]] = tensors["x_values"]
    return torch.from_numpy(tensors["edge_index"].astype(np.int64)), torch.from_numpy(x)


def read_model(path):
    """A ready-made class of PyTorch Geometric; GCN with its normalisation kept, as the graph does not change."""
    with open(path + ".json", encoding="utf-8") as file:
        architecture = json.load(file)
    name = architecture["class"].rsplit(".", 1)[1]
    options = {"cached": True} if name == "GCN" else {}
    model = getattr(torch_geometric.nn.models, name)(**architecture["kwargs"], **options).eval()
    weights = exchange.read_safetensors(path + ".safetensors")
    model.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in weights.items()})
    return model


class Service:
    def __init__(self, options):
        device = torch.device(options.device)
        edges, x = read_graph(options.graph)
        self.names = os.path.basename(options.graph).rsplit(".", 1)[0], os.path.basename(options.model)
        self.edges, self.x = edges.to(device), x.to(device)
        self.model = read_model(options.model).to(device)
        self.kept = None
        kept = self.forward()
        if options.keep:
            self.kept = kept

    def forward(self):
        with torch.inference_mode():
            return self.model(self.x, self.edges)

    def classify(self, request):
        begin = time.perf_counter()
        logits = self.kept if self.kept is not None else self.forward()
        with torch.inference_mode():
            chosen = logits if request.nodes.all else logits[torch.tensor(request.nodes.ids, device=logits.device)]
            scores, classes = torch.softmax(chosen, 1).topk(request.top_k or TOP_K)
        reply = METHODS["Classify"].reply()
        self.set_tensor(reply.classes, classes.to(torch.int32), "DATA_TYPE_INT32")
        self.set_tensor(reply.scores, scores, "DATA_TYPE_FLOAT32")
        served = reply.served_by
        served.graph, served.model = request.target.graph, request.target.model
        served.graph_version = served.model_version = served.feature_set_version = 1
        reply.timing.total_seconds = time.perf_counter() - begin
        return reply

    @staticmethod
    def set_tensor(tensor, values, dtype):
        tensor.dtype = TYPES[dtype]
        tensor.shape.extend(values.shape)
        tensor.data = values.cpu().numpy().tobytes()

    def graph(self, _):
        return message("Graph")(name=self.names[0], node_count=self.x.shape[0])

    def described(self, _):
        return message("Model")(name=self.names[1], feature_count=self.x.shape[1])


def add_methods(server, service, as_coroutine):
    """The three methods that `vicinal load` calls."""

    def handler(name, answer):
        def call(request, _context):
            return answer(request)

        async def call_later(request, _context):
            return answer(request)

        method = METHODS[name]
        return grpc.unary_unary_rpc_method_handler(
            call_later if as_coroutine else call,
            request_deserializer=method.request.FromString,
            response_serializer=lambda reply: reply.SerializeToString(),
        )

    for service_name, methods in {"InferenceService": {"Classify": service.classify}, "GraphService": {"GetGraph": service.graph},
                                  "ModelService": {"GetModel": service.described}}.items():  # fmt: skip
        handlers = {name: handler(name, answer) for name, answer in methods.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"vicinal.v1.{service_name}", handlers),))


def serve_with_threads(service, workers):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=workers))
    add_methods(server, service, as_coroutine=False)
    print(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", flush=True)
    server.start()
    server.wait_for_termination()


async def serve_with_asyncio(service):
    server = grpc.aio.server()
    add_methods(server, service, as_coroutine=True)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graph", required=True, help="graph with features, .npz")
    parser.add_argument("--model", required=True, help="path of the model without its endings")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--keep", action="store_true", help="keep the logits of all nodes in a tensor")
    parser.add_argument("--asyncio", action="store_true", help="grpc.aio instead of a pool of threads")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="threads of the pool")
    options = parser.parse_args()
    service = Service(options)
    if options.asyncio:
        asyncio.run(serve_with_asyncio(service))
    else:
        serve_with_threads(service, options.workers)


if __name__ == "__main__":
    main()
