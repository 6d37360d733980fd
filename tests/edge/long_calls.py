#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""By hand, as root, where control groups of version 1 can be made: calls through the edge that last an hour.

    VICINAL_BIN_DIR=build/release/bin tests/edge/long_calls.py [--seconds 3600]

A watch of a graph whose preparation is slowed down to a millisecond per second, and a bidirectional stream of inference requests, one
every 20 s. The server asks the edge to reconnect long before the end (--max_connection_age), which must end neither. Afterwards the
preparation may go on, and the watch must end with READY."""

import argparse
import contextlib
import os
import queue
import random
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from edge_process import ROOT, TOKEN, Edge, wait_until  # noqa: E402

for folder in (os.path.join(ROOT, "tests", "deploy"), os.path.join(ROOT, "client", "python")):
    sys.path.insert(0, folder)
import example  # noqa: E402
from server_process import ServerProcess  # noqa: E402

DATA = os.path.join(ROOT, "tests", "data")
BEARER = (("authorization", f"Bearer {TOKEN}"),)
PERIOD_SECONDS = 20
NODES, EDGES, CHUNK_BYTES = 1 << 20, 12_000_000, 1 << 20


@contextlib.contextmanager
def slow_threads(process):
    """Yields a function that adds a thread of `process` to a group with 1 ms of processor time per second."""
    group = f"/sys/fs/cgroup/cpu/vicinal-long-calls-{process}"
    os.mkdir(group)

    def write(folder, name, value):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(str(value))

    slowed = []

    def slow(thread):
        write(group, "tasks", thread)
        slowed.append(thread)

    write(group, "cpu.cfs_period_us", 1_000_000)
    write(group, "cpu.cfs_quota_us", 1_000)
    try:
        yield slow
    finally:
        for thread in slowed:
            with contextlib.suppress(OSError):
                write(os.path.dirname(group), "tasks", thread)
        os.rmdir(group)


def thread_ticks(process):
    ticks = {}
    for thread in os.listdir(f"/proc/{process}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{process}/task/{thread}/stat", encoding="ascii") as file:
            ticks[thread] = sum(int(field) for field in file.read().rsplit(")", 1)[1].split()[11:13])
    return ticks


def make_stubs(folder):
    subprocess.run([os.path.join(ROOT, "client", "python", "generate_stubs.sh"), folder], check=True,
                   env={**os.environ, "PATH": "/usr/bin:/bin"})
    proto = os.path.join(ROOT, "proto")
    subprocess.run(["protoc", "-I", proto, f"--python_out={folder}", os.path.join(proto, "inference", "grpc_inference.proto")],
                   check=True)
    sys.path.insert(0, folder)


def upload_messages(graph, tensor):
    """A random graph: its preparation takes more than 4 s of processor time."""
    size = 8 * EDGES
    below_nodes = int.from_bytes((NODES - 1).to_bytes(4, "little") * (2 * EDGES), "little")
    values = (int.from_bytes(random.Random(7).randbytes(size), "little") & below_nodes).to_bytes(size, "little")
    spec = graph.UploadGraphSpec(name="slow", upload_id="long-calls", node_count=NODES)
    spec.tensors.add(name="edge_index", dtype=tensor.DATA_TYPE_INT32, shape=[2, EDGES])
    yield graph.UploadGraphRequest(spec=spec)
    for offset in range(0, len(values), CHUNK_BYTES):
        piece = values[offset:offset + CHUNK_BYTES]
        yield graph.UploadGraphRequest(chunk=tensor.UploadChunk(tensor="edge_index", offset_bytes=offset, data=piece,
                                                                crc32c=example.crc32c(piece)))
    yield graph.UploadGraphRequest(finish=tensor.FinishUpload())


class Watch:
    """A WatchGraph, read by a thread of its own."""

    def __init__(self, stub, request):
        self.messages, self.error, self.ended = [], None, threading.Event()
        self.call = stub.WatchGraph(request, metadata=BEARER)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for message in self.call:
                self.messages.append((time.monotonic(), message.state, message.progress))
        except Exception as error:  # pylint: disable=broad-except
            self.error = error
        self.ended.set()


class Stream:
    """A bidirectional stream of ModelStreamInfer: ask() returns the bytes of one answer."""

    def __init__(self, channel, inference):
        self.requests = queue.Queue()
        self.request = inference.ModelInferRequest(model_name="cora/gcn")
        self.request.inputs.add(name="nodes", datatype="INT64", shape=[3])
        self.request.raw_input_contents.append(struct.pack("<3q", 3, 1, 2707))
        self.request.outputs.add(name="logits")
        call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer",
                                     inference.ModelInferRequest.SerializeToString, inference.ModelStreamInferResponse.FromString)
        self.replies = call(iter(self.requests.get, None), metadata=BEARER)

    def ask(self):
        self.requests.put(self.request)
        reply = next(self.replies)
        if reply.error_message:
            raise RuntimeError(reply.error_message)
        return reply.infer_response.raw_output_contents[0]

    def finish(self):
        self.requests.put(None)
        return next(self.replies, None) is None


def prepare_slowly(process, slow):
    """Slows down the thread that works, now that the server has a graph to prepare."""
    before = thread_ticks(process)

    def busiest():
        used = {thread: ticks - before.get(thread, 0) for thread, ticks in thread_ticks(process).items()}
        thread = max(used, key=used.get)
        return thread if used[thread] >= 10 else None  # 0.1 s

    wait_until(busiest, "no thread prepares the graph")
    slow(busiest())


def run(seconds, server, edge, channel):
    """(seconds that both calls lasted, answers on the stream, messages of the watch)."""
    make_stubs(server.path("stubs"))
    # pylint: disable=import-outside-toplevel
    from inference import grpc_inference_pb2
    from vicinal.v1 import graph_pb2, graph_pb2_grpc, tensor_pb2
    server.vicinal("graph", "upload", f"{DATA}/graphs/cora.npz", "--name", "cora")
    server.vicinal("model", "upload", f"{DATA}/models/cora-gcn.json", "--weights", f"{DATA}/models/cora-gcn.safetensors", "--name", "gcn")
    stub = graph_pb2_grpc.GraphServiceStub(channel)
    with slow_threads(server.process.pid) as slow:
        stub.UploadGraph(upload_messages(graph_pb2, tensor_pb2), metadata=BEARER, timeout=600)
        prepare_slowly(server.process.pid, slow)
        watch, stream = Watch(stub, graph_pb2.WatchGraphRequest(name="slow")), Stream(channel, grpc_inference_pb2)
        begin, first, answers = time.monotonic(), stream.ask(), 1
        while (left := begin + seconds - time.monotonic()) > 0:
            if watch.ended.wait(min(PERIOD_SECONDS, left)):
                raise RuntimeError(f"the watch ended after {time.monotonic() - begin:.0f} s: {watch.error or watch.messages[-1]}")
            if stream.ask() != first:
                raise RuntimeError(f"answer {answers} of the stream differs from the first")
            answers += 1
        lasted = time.monotonic() - begin
        edge_lost = edge.process.poll() is not None
    if edge_lost or not watch.ended.wait(120) or watch.error or watch.messages[-1][1] != graph_pb2.Graph.STATE_READY:
        raise RuntimeError(f"the watch did not end with READY: {watch.error or watch.messages[-1]}")
    if not stream.finish():
        raise RuntimeError("the stream has an answer to no request")
    return lasted, answers, len(watch.messages)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=int, default=3600)
    seconds = parser.parse_args().seconds
    flags = ("--memory_budget_bytes=2GiB", "--tuning_budget=0", f"--max_connection_age={max(1, seconds // 6)}s",
             f"--max_connection_age_grace={seconds + 600}s")
    with ServerProcess(*flags) as server, Edge(server.grpc) as edge, edge.channel() as channel:
        lasted, answers, messages = run(seconds, server, edge, channel)
    print(f"the watch ({messages} messages) and the stream ({answers} equal answers) lasted {lasted:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
