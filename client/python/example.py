#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Vicinal from Python with plain grpcio: upload a graph, upload a model, classify nodes.

    client/python/generate_stubs.sh /tmp/stubs
    client/python/example.py --stubs /tmp/stubs --server 127.0.0.1:8500 --graph tests/data/graphs/cora.npz \
        --model tests/data/models/cora-gcn.json --weights tests/data/models/cora-gcn.safetensors

Needs grpcio and protobuf (Debian: python3-grpcio, python3-protobuf; or pip install grpcio-tools) and, for long uploads, gladly
google-crc32c. An .npy inside an .npz mostly is what the API wants (raw little-endian bytes behind a short header), so arrays go
from the file to the server without numpy; with numpy, send numpy.ascontiguousarray(array).tobytes().

The API speaks row numbers 0..N-1 only. Ids of your own, as the command line keeps them in GRAPH.ids.txt, are the client's affair: translate
them here, both ways.
"""

import argparse
import array
import ast
import contextlib
import os
import re
import struct
import sys
import uuid
import zipfile
import zlib

try:
    import grpc
except ImportError:
    raise SystemExit("this needs grpcio and protobuf: apt-get install python3-grpcio python3-protobuf (for /usr/bin/python3), "
                     "or pip install grpcio-tools") from None

CHUNK_BYTES = 1 << 20
CALL_SECONDS = 60  # of a call that is no upload: without a deadline a call may wait for ever


def make_crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = make_crc_table()


def slow_crc32c(data):
    """CRC-32C (Castagnoli; zlib.crc32 is another checksum). Short, but slow: a few MB per second."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


try:
    from google_crc32c import value as crc32c
except ImportError:
    crc32c = slow_crc32c


@contextlib.contextmanager
def reading(path):
    """Reports in one line which file could not be read, and why."""
    try:
        yield
    except (OSError, zipfile.BadZipFile, zlib.error, struct.error, SyntaxError, ValueError) as error:
        raise SystemExit(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def row_major(shape, data):
    """A matrix in Fortran order (column after column), turned into rows."""
    rows, columns = shape
    code = {1: "B", 2: "H", 4: "I", 8: "Q"}[len(data) // max(rows * columns, 1)] if data else "B"
    cells = array.array(code, data)
    turned = array.array(code, bytes(len(data)))
    for column in range(columns):
        turned[column::columns] = cells[column * rows:(column + 1) * rows]
    return turned.tobytes()


def to_float32(data):
    """Rounds float64, which the API does not support, to float32, as the command line does."""
    return array.array("f", array.array("d", data)).tobytes()


def read_npz(path):
    """Arrays of an .npz as {name: (numpy type code, shape, bytes)}."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            data = archive.read(entry)
            if data[:6] != b"\x93NUMPY":
                continue
            size, begin = (struct.unpack("<H", data[8:10])[0], 10) if data[6] == 1 else (struct.unpack("<I", data[8:12])[0], 12)
            header = ast.literal_eval(data[begin:begin + size].decode("latin1"))
            kind, shape, data = header["descr"], header["shape"], data[begin + size:]
            if header["fortran_order"] and len(shape) == 2:
                data = row_major(shape, data)
            if kind == "<f8":
                kind, data = "<f4", to_float32(data)
            arrays[entry.removesuffix(".npy")] = (kind, shape, data)
    return arrays


def graph_tensors(pb, arrays):
    """The tensors of UploadGraph: (name, type, shape, bytes)."""
    types = {"<f4": pb.DATA_TYPE_FLOAT32, "<f2": pb.DATA_TYPE_FLOAT16, "<i4": pb.DATA_TYPE_INT32, "<i8": pb.DATA_TYPE_INT64}
    names = {"edge_index": "edge_index", "edge_weight": "edge_weight", "x": "x",
             "x_indptr": "x_indptr", "x_indices": "x_indices", "x_data": "x_values"}
    for name, (kind, _, _) in arrays.items():
        if name in names and kind not in types:
            raise SystemExit(f"{name} has the type {kind}; the API takes {', '.join(types)} (and <f8 is rounded here)")
    return [(names[name], types[kind], shape, data) for name, (kind, shape, data) in arrays.items() if name in names]


def integers(arrays, name):
    """A vector of integers, labels or a mask, whatever their width."""
    kind, shape, data = arrays[name]
    codes = {"|b1": "?", "<i4": "i", "<i8": "q"}
    if kind not in codes:
        raise SystemExit(f"{name} has the type {kind}; one of {', '.join(codes)} is needed")
    return struct.unpack(f"<{shape[0]}{codes[kind]}", data)


def matrix_shape(arrays):
    """Nodes and features, from the feature matrix."""
    if "edge_index" not in arrays or not ("x" in arrays or {"x_indptr", "x_indices", "x_data", "x_shape"} <= arrays.keys()):
        raise SystemExit("the graph's file must hold edge_index and x (or x_indptr, x_indices, x_data and x_shape); "
                         f"it holds {', '.join(arrays) or 'no array'}")
    shape = integers(arrays, "x_shape") if "x_shape" in arrays else arrays["x"][1]
    if len(shape) != 2:
        raise SystemExit(f"the features have the shape {list(shape)}; [N, F] is needed")
    return shape


def upload(request_type, tensor_pb, spec, tensors):
    """The messages of an upload: the specification, the chunks with offset and checksum, the end."""
    for name, dtype, shape, _ in tensors:
        spec.tensors.add(name=name, dtype=dtype, shape=shape)
    yield request_type(spec=spec)
    for name, _, _, data in tensors:
        for offset in range(0, len(data), CHUNK_BYTES):
            piece = data[offset:offset + CHUNK_BYTES]
            yield request_type(chunk=tensor_pb.UploadChunk(tensor=name, offset_bytes=offset, data=piece, crc32c=crc32c(piece)))
    yield request_type(finish=tensor_pb.FinishUpload())


def connect(args):
    """The channel, with TLS if the authorities of the server's certificate are named."""
    # No HTTP proxy from the environment, which would catch calls to the loopback address too.
    options = [("grpc.enable_http_proxy", 0)]
    if not args.tls_ca_file:
        return grpc.insecure_channel(args.server, options=options)
    contents = []
    for path in (args.tls_ca_file, args.tls_key_file, args.tls_cert_file):
        content = None
        if path:
            with reading(path), open(path, "rb") as file:
                content = file.read()
        contents.append(content)
    return grpc.secure_channel(args.server, grpc.ssl_channel_credentials(*contents), options=options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stubs", required=True, help="folder that generate_stubs.sh wrote")
    parser.add_argument("--server", default=os.environ.get("VICINAL_SERVER") or "127.0.0.1:8500",
                        help="HOST:PORT; default: the environment variable VICINAL_SERVER, or 127.0.0.1:8500")
    parser.add_argument("--token_file", help="file with the bearer token")
    parser.add_argument("--tls_ca_file", help="use TLS, and trust the authorities in this file (PEM)")
    parser.add_argument("--tls_cert_file", help="with --tls_ca_file: certificate of this client (PEM)")
    parser.add_argument("--tls_key_file", help="private key of --tls_cert_file (PEM)")
    parser.add_argument("--graph", required=True, help="an .npz with edge_index and features")
    parser.add_argument("--model", required=True, help="architecture (JSON)")
    parser.add_argument("--weights", required=True, help="weights (safetensors)")
    parser.add_argument("--name", default="python-example", help="name of the graph and of the model")
    args = parser.parse_args()
    if not re.search(r"^unix:.|^[^/]*:\d+$|^dns:///.*:\d+$", args.server):  # gRPC would take it for a name and ask the DNS
        parser.error(f"--server {args.server!r} is not HOST:PORT (such as localhost:8500), dns:///HOST:PORT or unix:PATH")

    if bool(args.tls_cert_file) != bool(args.tls_key_file) or (args.tls_cert_file and not args.tls_ca_file):
        parser.error("--tls_cert_file and --tls_key_file belong together, and need --tls_ca_file")

    sys.path.insert(0, args.stubs)
    try:
        from vicinal.v1 import graph_pb2, graph_pb2_grpc, inference_pb2, inference_pb2_grpc, model_pb2, model_pb2_grpc, tensor_pb2
    except ModuleNotFoundError as error:
        raise SystemExit(f"--stubs {args.stubs}: {error}; client/python/generate_stubs.sh {args.stubs} writes the stubs") from None

    # The graph's name in the metadata lets a proxy route on it. A token goes beside it.
    metadata = [("vicinal-graph", args.name)]
    if args.token_file:
        with reading(args.token_file), open(args.token_file, encoding="ascii") as file:
            token = file.read().strip()
        if not re.fullmatch("[!-~]+", token):
            raise SystemExit(f"{args.token_file}: contains no token that can be sent")
        metadata.append(("authorization", "Bearer " + token))

    with reading(args.graph):
        arrays = read_npz(args.graph)
    with reading(args.model), open(args.model, encoding="utf-8") as file:
        architecture = file.read()
    with reading(args.weights), open(args.weights, "rb") as file:
        weights = file.read()
    nodes, features = matrix_shape(arrays)
    with connect(args) as channel:
        graphs = graph_pb2_grpc.GraphServiceStub(channel)
        models = model_pb2_grpc.ModelServiceStub(channel)
        inference = inference_pb2_grpc.InferenceServiceStub(channel)

        spec = graph_pb2.UploadGraphSpec(name=args.name, upload_id=str(uuid.uuid4()), node_count=nodes,
                                         feature_count=features if "x_indptr" in arrays else 0, replace=True)
        graphs.UploadGraph(upload(graph_pb2.UploadGraphRequest, tensor_pb2, spec, graph_tensors(tensor_pb2, arrays)),
                           metadata=metadata)
        graph = None
        for graph in graphs.WatchGraph(graph_pb2.WatchGraphRequest(name=args.name), metadata=metadata):
            pass  # each state on the way; the last one is READY or FAILED
        if graph.state != graph_pb2.Graph.STATE_READY:
            raise SystemExit(f"the graph could not be prepared: {graph.error_message}")
        if graph.error_code != 0:  # a failed replacement: the older version continues to serve
            raise SystemExit(f"the graph was not replaced: {graph.error_message}")
        print(f"graph '{graph.name}' version {graph.version}: {graph.node_count} nodes, {graph.edge_count} edges, order {graph.order}")

        spec = model_pb2.UploadModelSpec(name=args.name, upload_id=str(uuid.uuid4()), architecture_json=architecture, replace=True)
        reply = models.UploadModel(
            upload(model_pb2.UploadModelRequest, tensor_pb2, spec, [("weights", tensor_pb2.DATA_TYPE_UINT8, [len(weights)], weights)]),
            metadata=metadata[1:])
        print(f"model '{reply.model.name}' version {reply.model.version}: {reply.model.feature_count} features, "
              f"{reply.model.class_count} classes")

        request = inference_pb2.ClassifyRequest(target=inference_pb2.Target(graph=args.name, model=args.name),
                                                nodes=inference_pb2.NodeSelection(ids=range(min(10, nodes))))
        reply = inference.Classify(request, metadata=metadata, timeout=CALL_SECONDS)
        count = reply.classes.shape[0]
        classes = struct.unpack(f"<{count}i", reply.classes.data)
        scores = struct.unpack(f"<{count}f", reply.scores.data)
        for node, (label, score) in enumerate(zip(classes, scores)):
            print(f"node {node}: class {label} ({score:.4f})")

        if "y" in arrays and "test_mask" in arrays:
            labels = integers(arrays, "y")
            test = [node for node, chosen in enumerate(integers(arrays, "test_mask")) if chosen]
            request.nodes.Clear()
            request.nodes.ids.extend(test)
            reply = inference.Classify(request, metadata=metadata, timeout=CALL_SECONDS)
            right = sum(label == labels[node] for node, (label,) in zip(test, struct.iter_unpack("<i", reply.classes.data)))
            print(f"accuracy {right / len(test):.4f} ({right}/{len(test)})")


if __name__ == "__main__":
    try:
        main()
    except grpc.RpcError as error:
        raise SystemExit(f"{error.code().name}: {error.details()}") from None
