#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the Python package costs over plain stubs: Classify of 10 nodes, one call at a time, and one upload of features over loopback.

  PYTHONPATH=build/release/client/python/installed python3 bench/python/overhead.py --bin build/release/bin --json python_client_cpu.json

Needs numpy, google-crc32c and the plugin for stubs (grpcio-tools, or Debian's). Calls alternate, stub and package, over one connection each, so
that whatever else the machine does meets both. "stub" does what client/python/example.py does: builds the message, calls, and reads classes and
scores with numpy; chunks have 1 MiB and the checksum of google-crc32c. "stub, bare" only calls, with a request that is ready, and reads nothing."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import grpc
import numpy as np
from google_crc32c import value as crc32c

import vicinal
from bench.state import common

DATA = os.path.join(ROOT, "tests", "data")
NODES = 10
CHUNK_BYTES = 1 << 20


class Stubs:
    """Plain stubs, generated for the length of the run."""

    def __init__(self, folder, target):
        subprocess.run([os.path.join(ROOT, "client", "python", "generate_stubs.sh"), folder], check=True,
                       env={**os.environ, "PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"]})
        sys.path.insert(0, folder)
        # The package is called vicinal, too: the folder of the stubs is added to it.
        vicinal.__path__.append(os.path.join(folder, "vicinal"))
        from vicinal.v1 import graph_pb2, graph_pb2_grpc, inference_pb2, inference_pb2_grpc, tensor_pb2
        self.graph_pb, self.inference_pb, self.tensor_pb = graph_pb2, inference_pb2, tensor_pb2
        self.channel = grpc.insecure_channel(target, options=[("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)])
        self.graphs = graph_pb2_grpc.GraphServiceStub(self.channel)
        self.inference = inference_pb2_grpc.InferenceServiceStub(self.channel)

    def request(self, nodes):
        target = self.inference_pb.Target(graph="cora", model="gcn")
        return self.inference_pb.ClassifyRequest(target=target, nodes=self.inference_pb.NodeSelection(ids=nodes))

    def classify(self, nodes):
        reply = self.inference.Classify(self.request(nodes), timeout=60, metadata=(("vicinal-graph", "cora"),))
        shape = tuple(reply.classes.shape)
        return (np.frombuffer(reply.classes.data, dtype="<i4").reshape(shape), np.frombuffer(reply.scores.data, dtype="<f4").reshape(shape))

    def upload(self, graph, name, x):
        pb = self.graph_pb

        def messages():
            spec = pb.UploadFeaturesSpec(graph=graph, name=name, upload_id=str(uuid.uuid4()))
            spec.tensors.add(name="x", dtype=self.tensor_pb.DATA_TYPE_FLOAT32, shape=x.shape)
            yield pb.UploadFeaturesRequest(spec=spec)
            view = memoryview(x).cast("B")
            for offset in range(0, len(view), CHUNK_BYTES):
                piece = bytes(view[offset:offset + CHUNK_BYTES])
                chunk = self.tensor_pb.UploadChunk(tensor="x", offset_bytes=offset, data=piece, crc32c=crc32c(piece))
                yield pb.UploadFeaturesRequest(chunk=chunk)
            yield pb.UploadFeaturesRequest(finish=self.tensor_pb.FinishUpload())

        self.graphs.UploadFeatures(messages(), metadata=(("vicinal-graph", graph),))


def measure_calls(options, stubs, client):
    nodes = np.random.default_rng(options.seed).integers(0, 2708, (options.calls + 200, NODES))
    bare = stubs.request(nodes[0])
    ways = {"stub, bare": lambda _: stubs.inference.Classify(bare, timeout=60),
            "stub": lambda row: stubs.classify(row.tolist()),
            "package": lambda row: client.classify("cora", "gcn", row)}
    classes = client.classify("cora", "gcn", nodes[0]).classes
    assert np.array_equal(classes, stubs.classify(nodes[0].tolist())[0])
    seconds = {way: [] for way in ways}
    for index, row in enumerate(nodes):
        for way, call in ways.items():
            begin = time.perf_counter()
            call(row)
            if index >= 200:  # warm
                seconds[way].append(time.perf_counter() - begin)
    return [{"case": "classify 10 nodes", "way": way, "calls": len(each), **common.quantiles_ms(each)} for way, each in seconds.items()]


def measure_uploads(options, stubs, client):
    rows = options.megabytes * 1_000_000 // (4 * 256)
    x = np.random.default_rng(options.seed).random((rows, 256), dtype=np.float32)
    client.upload_graph("large", np.array([[0], [1]]), num_nodes=rows)
    seconds = {"stub": [], "package": []}
    for _ in range(options.uploads):
        for way, upload in (("stub", stubs.upload), ("package", lambda graph, name, x: client.upload_features(graph, x, name=name))):
            begin = time.perf_counter()
            upload("large", "x", x)
            seconds[way].append(time.perf_counter() - begin)
            client.delete_features("large", "x")
    return [{"case": "upload", "way": way, "megabytes": round(x.nbytes / 1e6), "mb_per_s": round(x.nbytes / 1e6 / statistics.median(each), 1),
             "seconds": [round(one, 3) for one in each]} for way, each in seconds.items()]


def main():
    parser = common.parser(__doc__, "python_client_cpu")
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--uploads", type=int, default=3, help="per way")
    options = parser.parse_args()
    with common.Scratch(options.folder) as folder, common.Server(options, folder, "--tuning_budget=0", "--max_upload_bytes=2GiB") as server, \
            vicinal.Client(server.grpc) as client:
        stubs = Stubs(os.path.join(folder, "stubs"), server.grpc)
        with np.load(os.path.join(DATA, "graphs", "cora.npz")) as cora:
            x = np.zeros(tuple(cora["x_shape"]), dtype=np.float32)
            x[np.repeat(np.arange(len(x)), np.diff(cora["x_indptr"])), cora["x_indices"]] = cora["x_data"]
            client.upload_graph("cora", cora["edge_index"], x=x)
        model = os.path.join(DATA, "models", "cora-gcn")
        client.upload_model("gcn", model + ".json", model + ".safetensors")
        rows = measure_calls(options, stubs, client) + measure_uploads(options, stubs, client)
        stubs.channel.close()
        server.stop()
    common.finish(options, rows)


if __name__ == "__main__":
    main()
