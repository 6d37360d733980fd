#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a server keeps of things that come and go: connections, refused names, uploads that nobody finishes, streams that are cancelled.

  python3 bench/serving/growth.py --bin build/quick/bin [--items 100000] [--only connections,names] [--state] [--json OUT.json]

Each series makes --items of one kind (those that cost more, a tenth or a hundredth of it), after a tenth as many that fill what has a bound.
The allocator's bytes (process_allocator_bytes, kinds in_use and mapped) are read before and after it, at rest; their difference by the number
of items is what one item leaves behind. A server that keeps something of each shows some hundred bytes an item; one that keeps nothing, zero and
what its threads' arenas have shifted meanwhile, some kilobytes in all. Needs numpy, grpcio and the Python package of client/python."""

import collections
import json
import os
import socket
import sys
import time

import grpc

import pinned  # first: it says where the next ones are

import common
import vicinal
from vicinal._crc32c import numpy_crc32c
from vicinal._messages import METHODS, message

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # and empty SETTINGS
IN_FLIGHT = 64
TOKEN = "growth-" + "0" * 32


def parse_arguments():
    parser = pinned.parser(__doc__, "serving_growth")
    parser.add_argument("--items", type=int, default=100000)
    parser.add_argument("--only", default="", help="names of series, with commas")
    parser.add_argument("--state", action="store_true", help="with a state directory, and a read replica, whose memory the series `followed` reads")
    return parser.parse_args()


def raw(channel, path, kind="unary_unary"):
    """A method of which the bytes of messages are sent and received as they are."""
    return getattr(channel, kind)(path, request_serializer=None, response_deserializer=None)


class Calls:
    """Up to IN_FLIGHT calls at once; counts their codes."""

    def __init__(self):
        self.pending = collections.deque()
        self.codes = collections.Counter()

    def add(self, call):
        self.pending.append(call)
        if len(self.pending) >= IN_FLIGHT:
            self.take()

    def take(self):
        self.codes[self.pending.popleft().code().name] += 1

    def finish(self):
        while self.pending:
            self.take()
        return dict(self.codes)


class Series:
    """Each method makes the items `begin` to `end` of one kind, and returns what became of them."""

    def __init__(self, server, replica, folder, options):
        self.server, self.folder = server, folder
        self.replica = replica and vicinal.Client(replica.grpc, token=TOKEN)
        self.credentials = (("authorization", "Bearer " + TOKEN),)
        self.channel = grpc.insecure_channel(server.grpc)
        self.client = vicinal.Client(server.grpc, token=TOKEN)
        self.edges, self.x = common.random_graph(options.seed, 100, 400, 4)
        self.architecture, self.weights = common.sum_model(4)
        self.client.upload_graph("kept", self.edges, x=self.x)
        self.client.upload_model("kept", self.architecture, self.weights)

    def unary(self, path, requests, metadata=()):
        method, calls = raw(self.channel, path), Calls()
        for request, more in requests:
            calls.add(method.future(request, metadata=(*self.credentials, *metadata, *more)))
        return calls.finish()

    def classify(self, graph, model):
        request = message("ClassifyRequest")()
        request.target.graph, request.target.model = graph, model
        request.nodes.ids[:] = [1, 2, 3]
        return request.SerializeToString()

    def connections(self, begin, end):
        """That send HTTP/2's first bytes, wait for the server's, and go."""
        address = self.server.grpc.rsplit(":", 1)
        for _ in range(begin, end):
            with socket.create_connection((address[0], int(address[1]))) as connection:
                connection.sendall(PREFACE)
                connection.recv(64)
        return {"closed": end - begin}

    def channels(self, begin, end):
        """Connections of gRPC that make one call."""
        for _ in range(begin, end):
            with grpc.insecure_channel(self.server.grpc, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
                raw(channel, METHODS["Classify"].path)(self.classify("kept", "kept"), metadata=self.credentials)
        return {"closed": end - begin}

    def answered(self, begin, end):
        request = self.classify("kept", "kept")
        return self.unary(METHODS["Classify"].path, ((request, ()) for _ in range(begin, end)))

    def graph_names(self, begin, end):
        return self.unary(METHODS["Classify"].path, ((self.classify(f"graph-{i}", "kept"), ()) for i in range(begin, end)))

    def model_names(self, begin, end):
        return self.unary(METHODS["Classify"].path, ((self.classify("kept", f"model-{i}"), ()) for i in range(begin, end)))

    def open_inference_names(self, begin, end):
        requests = ((b"\x0a" + bytes((len(name),)) + name, ()) for name in (f"graph-{i}/model-{i}".encode() for i in range(begin, end)))
        return self.unary("/inference.GRPCInferenceService/ModelInfer", requests)

    def late(self, begin, end):
        """Deadlines that have passed when the call arrives, or soon after."""
        method, calls = raw(self.channel, METHODS["Classify"].path), Calls()
        for _ in range(begin, end):
            calls.add(method.future(self.classify("kept", "kept"), metadata=self.credentials, timeout=0.0005))
        return calls.finish()

    def tokens(self, begin, end):
        method, calls = raw(self.channel, METHODS["Classify"].path), Calls()
        request = self.classify("kept", "kept")
        for i in range(begin, end):
            calls.add(method.future(request, metadata=(("authorization", f"Bearer unknown-{i:032d}"),)))
        return calls.finish()

    def request_ids(self, begin, end):
        request = self.classify("kept", "kept")
        ids = ((request, (("x-request-id", f"id-{i}"), ("traceparent", f"00-{i + 1:032x}-{i + 1:016x}-01"), ("x-own", f"value-{i}")))
               for i in range(begin, end))
        return self.unary(METHODS["Classify"].path, ids)

    def methods(self, begin, end):
        calls = Calls()
        for i in range(begin, end):
            calls.add(raw(self.channel, f"/vicinal.v1.Service{i}/Method{i}").future(b"", metadata=self.credentials))
        return calls.finish()

    def health_names(self, begin, end):
        return self.unary("/grpc.health.v1.Health/Check", ((b"\x0a\x0a" + f"name{i:06d}".encode(), ()) for i in range(begin, end)))

    def watches(self, begin, end):
        request = message("WatchGraphRequest")(name="kept").SerializeToString()
        method, calls = raw(self.channel, METHODS["WatchGraph"].path, "unary_stream"), Calls()
        for i in range(begin, end):
            call = method(request, metadata=self.credentials)
            if i % 2:
                next(call)
            call.cancel()
            calls.add(call)
        return calls.finish()

    def health_watches(self, begin, end):
        method, calls = raw(self.channel, "/grpc.health.v1.Health/Watch", "unary_stream"), Calls()
        for i in range(begin, end):
            call = method(b"\x0a\x0a" + f"name{i:06d}".encode(), metadata=self.credentials)
            if i % 2:
                next(call)
            call.cancel()
            calls.add(call)
        return calls.finish()

    def query_streams(self, begin, end):
        request = message("InferStreamRequest")()
        request.classify.ParseFromString(self.classify("kept", "kept"))
        method, calls = raw(self.channel, METHODS["InferStream"].path, "stream_stream"), Calls()
        for i in range(begin, end):
            call = method(iter([request.SerializeToString()] * 3), metadata=self.credentials)
            if i % 2:
                next(call)
            call.cancel()
            calls.add(call)
        return calls.finish()

    def uploads(self, begin, end):
        """Begun, with a chunk, and left; they expire after a second."""
        spec = message("UploadGraphRequest")()
        method, calls = raw(self.channel, METHODS["UploadGraph"].path, "stream_unary"), Calls()
        chunk = message("UploadGraphRequest")()
        chunk.chunk.tensor, chunk.chunk.data = "edge_index", bytes(64)
        chunk.chunk.crc32c = numpy_crc32c(bytes(64))
        for i in range(begin, end):
            spec.spec.name, spec.spec.upload_id, spec.spec.node_count = f"never-{i}", f"upload-{i:08d}", 100
            del spec.spec.tensors[:]
            spec.spec.tensors.add(name="edge_index", dtype=5, shape=[2, 1000])
            calls.add(method.future(iter([spec.SerializeToString(), chunk.SerializeToString()]), metadata=self.credentials))
            time.sleep(0.01)
        return calls.finish()

    def graphs(self, begin, end):
        for i in range(begin, end):
            self.client.upload_graph(f"graph-{i}", self.edges, x=self.x)
            self.client.classify(f"graph-{i}", "kept", [1, 2, 3])
            self.client.delete_graph(f"graph-{i}")
        return {"made": end - begin}

    def graph_versions(self, begin, end):
        for _ in range(begin, end):
            self.client.upload_graph("replaced", self.edges, x=self.x, replace=True)
            self.client.classify("replaced", "kept", [1, 2, 3])
        return {"made": end - begin}

    def models(self, begin, end):
        for i in range(begin, end):
            self.client.upload_model(f"model-{i}", self.architecture, self.weights)
            self.client.classify("kept", f"model-{i}", [1, 2, 3])
            self.client.delete_model(f"model-{i}")
        return {"made": end - begin}

    def feature_sets(self, begin, end):
        for i in range(begin, end):
            self.client.upload_features("kept", self.x, name=f"set-{i}")
            self.client.classify("kept", "kept", [1, 2, 3], feature_set=f"set-{i}")
            self.client.delete_features("kept", f"set-{i}")
        return {"made": end - begin}

    def followed(self, begin, end):
        """Graph versions that a read replica takes over, each with tuning decisions, until the writer has swept them; it needs --state."""
        force = message("TuneGraphRequest")(name="followed", operation="aggregate", widths=[4])
        force.force.kernel = "simd_rows"
        for _ in range(begin, end):
            version = self.client.upload_graph("followed", self.edges, x=self.x, replace=True).version
            raw(self.channel, METHODS["TuneGraph"].path)(force.SerializeToString(), metadata=self.credentials)
            while version not in [graph.version for graph in self.replica.list_graphs()]:
                time.sleep(0.01)
        while len(os.listdir(os.path.join(self.folder, "state", "graphs", "followed"))) > 1:
            time.sleep(1)
        time.sleep(1)  # the replica looks four times a second
        return {"made": end - begin}


# Name, and the part of --items.
SERIES = {"answered": 1, "connections": 1, "channels": 0.02, "graph_names": 1, "model_names": 1, "open_inference_names": 1, "late": 1, "tokens": 1,
          "request_ids": 1, "methods": 1, "health_names": 1, "watches": 0.2, "health_watches": 0.2, "query_streams": 0.2, "uploads": 0.02,
          "graphs": 0.02, "graph_versions": 0.02, "models": 0.02, "feature_sets": 0.02, "followed": 0.005}  # fmt: skip


def allocated(server, seconds=3):
    """The allocator's bytes once no call has been under way for so long; the least of the readings meanwhile."""
    least, end = None, time.monotonic() + seconds
    while time.monotonic() < end:
        if server.metric("vicinal_requests_in_flight") > 0:
            least, end = None, time.monotonic() + seconds
        now = sum(server.metric("process_allocator_bytes", f'kind="{kind}"') for kind in ("in_use", "mapped"))
        least = now if least is None else min(least, now)
        time.sleep(0.2)
    return least


def measure(server, series, name, items):
    run, warm = getattr(series, name), items // 10
    run(0, warm)
    before, begin = allocated(server), time.monotonic()
    became = run(warm, warm + items)
    seconds = time.monotonic() - begin
    after = allocated(server)
    return {"series": name, "items": items, "before": before, "after": after, "bytes_per_item": round((after - before) / items, 2),
            "resident": server.rss_bytes(), "descriptors": server.descriptors(), "seconds": round(seconds, 1), "became": became}


def main():
    options = parse_arguments()
    names = options.only.split(",") if options.only else [name for name in SERIES if options.state or name != "followed"]
    rows = []
    with common.Scratch(options.folder) as folder:
        tokens = os.path.join(folder, "tokens")
        with open(os.open(tokens, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(f"growth admin token:{TOKEN}\n")
        flags = [f"--state_dir={folder}/state"] if options.state else []
        with common.Server(options, folder, f"--principals_file={tokens}", "--upload_ttl=1s", "--log_level=error", *flags) as server:
            replica = None
            if options.state:
                replica = common.Server(options, folder, f"--principals_file={tokens}", "--state_read_only", *flags, name="replica")
            series = Series(server, replica, folder, options)
            for name in names:
                measured = replica if name == "followed" else server
                rows.append(measure(measured, series, name, max(1, int(options.items * SERIES[name]))))
                print(json.dumps(rows[-1]), flush=True)
            if replica:
                series.replica.close()
                replica.stop()
            series.channel.close()
            series.client.close()
            server.stop()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"rows": rows}, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
