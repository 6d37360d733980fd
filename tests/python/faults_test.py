#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python client when things go wrong: connections that break under an upload to a real server, and what a real server will not do on
demand (be overloaded exactly twice, use TLS with this certificate), from a small server made here with grpcio."""

import asyncio
import concurrent.futures
import itertools
import os
import socket
import subprocess
import tempfile
import threading
import unittest

import grpc
import numpy as np

import vicinal
from data import safetensors
from server_process import ServerProcess
from vicinal import errors
from vicinal._messages import METHODS, enum_values, message


class BreakingProxy:
    """Forwards connections to `target`; the first `breaks` of them are closed after `limit` bytes from the client."""

    def __init__(self, target, breaks, limit):
        host, _, port = target.rpartition(":")
        self.server_address = (host, int(port))
        self.breaks, self.limit, self.connections = breaks, limit, 0
        self.sockets, self.forwarded = [], 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.server_address)
            self.sockets += [near, far]
            limit = self.limit if self.connections < self.breaks else None
            self.connections += 1
            threading.Thread(target=self.forward, args=(near, far, limit), daemon=True).start()
            threading.Thread(target=self.forward, args=(far, near, None), daemon=True).start()

    def forward(self, source, sink, limit):
        total = 0
        try:
            while data := source.recv(1 << 16):
                total += len(data)
                if sink.getpeername() == self.server_address:
                    self.forwarded += len(data)
                if limit is not None and total > limit:
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        for one in (self.listener, *self.sockets):
            one.close()


class UploadTest(unittest.TestCase):
    def setUp(self):
        self.server = ServerProcess().__enter__()
        self.addCleanup(self.server.__exit__)
        random = np.random.default_rng(0)
        self.edges = random.integers(0, 40_000, (2, 5))
        self.x = random.standard_normal((40_000, 100), dtype=np.float32)  # 16 MB

    def proxy(self, breaks, limit):
        proxy = BreakingProxy(self.server.grpc, breaks, limit)
        self.addCleanup(proxy.close)
        return proxy

    def test_goes_on_where_the_connection_broke(self):
        proxy = self.proxy(2, 6_000_000)
        with vicinal.Client(proxy.address) as client:
            graph = client.upload_graph("g", self.edges, x=self.x)
            self.assertEqual(graph.state, "READY")
        self.assertGreaterEqual(proxy.connections, 3)
        self.assertLess(proxy.forwarded, 26_000_000)  # from the beginning each time: 28 MB
        with vicinal.Client(self.server.grpc) as client:
            client.upload_model("same", {"format": "vicinal.model/1", "in_channels": 100, "layers": [
                {"name": "lin", "type": "Linear", "args": {"out_channels": 100, "bias": False}}]},
                safetensors({"lin.weight": np.eye(100, dtype=np.float32)}))
            np.testing.assert_array_equal(client.embed("g", "same", output="logits").embeddings, self.x)

    def test_an_interrupted_upload_is_resumed_by_another_client(self):
        proxy = self.proxy(100, 6_000_000)
        with vicinal.Client(proxy.address, upload_attempts=1) as client, self.assertRaises(errors.Unavailable) as raised:
            client.upload_graph("g", self.edges, x=self.x)
        upload_id = raised.exception.upload_id
        self.assertIsNotNone(upload_id)
        self.assertIn(f"upload_id='{upload_id}'", str(raised.exception))
        steps = []
        with vicinal.Client(self.server.grpc) as client:
            with self.assertRaisesRegex(vicinal.InputError, "was started with other tensors: 'x' differs"):
                client.upload_graph("g", self.edges, x=self.x[:, :50], upload_id=upload_id)
            self.assertEqual(client.upload_graph("g", self.edges, x=self.x, upload_id=upload_id, progress=steps.append).state, "READY")
        self.assertGreater(steps[0].done, 1 << 20)

    def test_nobody_listens(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = "127.0.0.1:%d" % taken.getsockname()[1]
        with vicinal.Client(address) as client, self.assertRaisesRegex(errors.Unavailable, f"cannot reach the server at {address}.*is vicinal-server running"):
            client.upload_graph("g", self.edges, num_nodes=40_000)


class Handlers(grpc.GenericRpcHandler):
    """Answers methods by name with functions of (request, context); InferStream of (requests, context). ...Stream: generators."""

    def __init__(self, functions):
        self.functions = functions

    def service(self, call):
        name = call.method.rpartition("/")[2]
        if name not in self.functions:
            return None
        if name == "InferStream":
            return grpc.stream_stream_rpc_method_handler(self.functions[name], METHODS[name].request.FromString,
                                                         METHODS[name].reply.SerializeToString)
        if name.endswith("Stream"):
            return grpc.unary_stream_rpc_method_handler(self.functions[name], METHODS[name].request.FromString,
                                                        METHODS[name].reply.SerializeToString)
        return grpc.unary_unary_rpc_method_handler(self.functions[name], METHODS[name].request.FromString,
                                                   METHODS[name].reply.SerializeToString)


def small_server(test, functions, credentials=None):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((Handlers(functions),))
    port = server.add_secure_port("localhost:0", credentials) if credentials else server.add_insecure_port("localhost:0")
    server.start()
    test.addCleanup(lambda: server.stop(0).wait())
    return f"localhost:{port}"


class RetryTest(unittest.TestCase):
    def overloaded(self, failures, pushback):
        calls = []

        def answer(request, context):
            calls.append(dict(context.invocation_metadata()))
            if len(calls) <= failures:
                context.set_trailing_metadata((("grpc-retry-pushback-ms", pushback),))
                context.abort(grpc.StatusCode.UNAVAILABLE, "the queue is full")
            return message("Graph")(name=request.name)

        return small_server(self, {"GetGraph": answer}), calls

    def test_retries_when_the_server_says_so(self):
        address, calls = self.overloaded(2, "1")
        with vicinal.Client(address, token="t0ken") as client:
            self.assertEqual(client.get_graph("g").name, "g")
        self.assertEqual(len(calls), 3)
        self.assertEqual((calls[0]["vicinal-graph"], calls[0]["authorization"]), ("g", "Bearer t0ken"))

    def test_does_not_when_the_server_says_not(self):
        address, calls = self.overloaded(2, "-1")
        with vicinal.Client(address) as client, self.assertRaisesRegex(errors.Unavailable, "the queue is full"):
            client.get_graph("g")
        self.assertEqual(len(calls), 1)

    def test_gives_up(self):
        address, calls = self.overloaded(100, "1")
        with vicinal.Client(address) as client, self.assertRaises(errors.Unavailable):
            client.get_graph("g")
        self.assertEqual(len(calls), 4)


def rows(first, count, k=1, kind="ClassifyResponse"):
    reply = message(kind)(**({"first_row": first} if first else {}))
    for tensor, dtype, name in ((reply.classes, np.int32, "DATA_TYPE_INT32"), (reply.scores, np.float32, "DATA_TYPE_FLOAT32")):
        tensor.dtype = enum_values("DataType")[name]
        tensor.shape.extend([count, k])
        tensor.data = np.zeros(count * k, dtype).tobytes()
    return reply


class HostileServerTest(unittest.TestCase):
    EVIL = "\x1b]0;owned\x07\r\u202egnp\u200b\nINJECTED"

    def expect(self, functions, call, text, **options):
        with vicinal.Client(small_server(self, functions), **options) as client, self.assertRaisesRegex(errors.CallError, text) as raised:
            call(client)
        return raised.exception

    def test_errors_are_shown_on_their_lines_and_without_controls(self):
        def refuse(_, context):
            context.abort(grpc.StatusCode.NOT_FOUND, self.EVIL)

        error = self.expect({"GetGraph": refuse}, lambda client: client.get_graph("g"), "owned")
        self.assertEqual(error.message, self.EVIL)
        self.assertEqual(str(error), "NOT_FOUND: \\x1b]0;owned\\x07\\r\\u202egnp\\u200b\\nINJECTED")
        violation = errors.FieldViolation(self.EVIL, self.EVIL)
        shown = str(errors.CallError(grpc.StatusCode.INTERNAL, "x", errors.Details(reason=self.EVIL, field_violations=(violation,))))
        self.assertEqual([line for line in shown.split("\n") if not line.isprintable()], [])
        self.assertNotIn("\nINJECTED", shown)
        self.assertEqual(str(errors.CallError(grpc.StatusCode.INTERNAL, "Größe 图 ok")), "INTERNAL: Größe 图 ok")

    def test_lists_without_end(self):
        pages = []

        def page(entries, fresh):
            def answer(request, _):
                pages.append(request.page_token)
                reply = message("ListModelsResponse")(next_page_token=str(len(pages)) if fresh else "again")
                for _ in range(entries):
                    reply.models.add()
                return reply
            return {"ListModels": answer}

        self.expect(page(1, False), lambda client: client.list_models(), "a page token repeats")
        self.expect(page(0, True), lambda client: client.list_models(), "an empty page is followed by another")
        self.assertLess(len(pages), 5)

    def test_rows_that_were_not_asked_for(self):
        for count in (0, 1, 3):
            self.expect({"Classify": lambda *_, count=count: rows(0, count)}, lambda client: client.classify("g", "m", [0, 1], ids=False),
                        f"it has {count} rows, 2 were asked for")
        graphs = [(np.zeros((2, 1), np.int64), np.ones((1, 1), np.float32))] * 2
        self.expect({"ClassifyGraphs": lambda *_: rows(0, 3, kind="ClassifyGraphsResponse")}, lambda client: client.classify_graphs("m", graphs), "it has 3 rows, 2 were asked for")
        bad = rows(0, 2)
        bad.classes.shape[0] = 1 << 62
        self.expect({"Classify": lambda *_: bad}, lambda client: client.classify("g", "m", [0, 1], ids=False), "8 bytes are no matrix")
        for pieces, why in (([rows(0, 5), rows(6, 4)], "a piece begins at row 6, not at 5"), ([rows(0, 5), rows(5, 0)], "a piece has no rows"),
                            ([], "it has no rows")):
            self.expect({"ClassifyStream": lambda *_, pieces=pieces: iter(pieces)}, lambda client: client.classify("g", "m", ids=False), why)
            if pieces:
                self.expect({"ClassifyStream": lambda *_, pieces=pieces: iter(pieces)},
                            lambda client: list(client.classify_stream("g", "m", ids=False)), why)

    def test_answers_without_end(self):
        sent = []

        def endless(*_):
            for piece in itertools.count():  # its own: a call that the client has left may still run for a moment
                sent.append(piece)
                yield rows(piece << 20, 1 << 20)

        graph = {"GetGraph": lambda *_: message("Graph")(name="g", node_count=10)}
        self.expect({"ClassifyStream": endless, **graph}, lambda client: client.classify("g", "m", ids=False), "more rows than graph 'g' has nodes, 10")
        self.assertLess(len(sent), 100)
        self.expect({"ClassifyStream": endless}, lambda client: client.classify("g", "m", ids=False), "more than max_answer_bytes=20000000",
                    max_answer_bytes=20_000_000)
        self.expect({"Classify": lambda *_: rows(0, 1000)}, lambda client: client.classify("g", "m", [0], ids=False), "RESOURCE_EXHAUSTED",
                    max_reply_bytes=1000)


def end_early(answers, number=None):
    """An InferStream that ends well after so many answers, with the numbers of their queries or always with this one."""

    def serve(requests, _):
        for _, request in zip(range(answers), requests):
            yield message("InferStreamResponse")(request_id=request.request_id if number is None else number, error={"code": 5, "message": "no"})

    return serve


class StreamEndsEarlyTest(unittest.TestCase):
    QUERIES = [vicinal.ClassifyQuery("g", "m", [node]) for node in range(5)]
    SILENT = "ended the stream too early: .*(no answer|not sent).*; send them again"

    def server(self, serve):
        return small_server(self, {"InferStream": serve, "GetGraph": lambda request, _: message("Graph")(name=request.name)})

    def test_queries_without_an_answer_raise(self):
        for answers in (0, 2):
            seen = []
            with vicinal.Client(self.server(end_early(answers))) as client, \
                    self.assertRaisesRegex(errors.Internal, self.SILENT):
                for answer in client.query_stream(self.QUERIES):
                    seen.append(answer.query.nodes)
            self.assertEqual(seen, [[node] for node in range(answers)])

    def test_queries_that_could_not_be_sent_raise(self):
        ended = threading.Event()

        def queries():
            yield self.QUERIES[0]
            ended.wait(20)  # the stream has ended, and gRPC takes no further query

        def serve(requests, _):
            yield message("InferStreamResponse")(request_id=next(requests).request_id, error={"code": 5, "message": "no"})

        with vicinal.Client(self.server(serve)) as client, \
                self.assertRaisesRegex(errors.Internal, "too early: further ones were not sent"):
            for _ in client.query_stream(queries()):
                pass
        ended.set()

    def test_an_answer_to_nothing_raises(self):
        with vicinal.Client(self.server(end_early(1, 77))) as client, \
                self.assertRaisesRegex(errors.Internal, "does not await an answer: number 77"):
            list(client.query_stream(self.QUERIES))

    def test_the_asynchronous_client_raises_too(self):
        async def ask(address):
            async with vicinal.AsyncClient(address) as client:
                return [answer async for answer in client.query_stream(self.QUERIES)]

        with self.assertRaisesRegex(errors.Internal, self.SILENT):
            asyncio.run(ask(self.server(end_early(2))))

    def test_a_whole_stream_ends_well(self):
        # One more than there are: it waits for the client's end, as a vicinal-server does.
        with vicinal.Client(self.server(end_early(len(self.QUERIES) + 1))) as client:
            self.assertEqual(len(list(client.query_stream(self.QUERIES))), 5)
            self.assertEqual(list(client.query_stream([])), [])


class DetailsTest(unittest.TestCase):
    def raised(self, code, data):
        def answer(_, context):
            context.set_trailing_metadata((("grpc-status-details-bin", data),))
            context.abort(code, "no")

        with vicinal.Client(small_server(self, {"GetModel": answer})) as client, self.assertRaises(vicinal.CallError) as raised:
            client.get_model("m")
        return raised.exception

    def test_retry_after_and_resource(self):
        status = message("details.Status")()
        for kind, detail in (("RetryInfo", message("details.RetryInfo")(retry_delay={"seconds": 1, "nanos": 500_000_000})),
                             ("ResourceInfo", message("details.ResourceInfo")(resource_type="model", resource_name="m")),
                             ("Unknown", message("details.ErrorInfo")(reason="X"))):
            status.details.add(type_url="type.googleapis.com/google.rpc." + kind, value=detail.SerializeToString())
        error = self.raised(grpc.StatusCode.RESOURCE_EXHAUSTED, status.SerializeToString())
        self.assertIsInstance(error, errors.ResourceExhausted)
        self.assertEqual((error.retry_after, error.details.resource_name, error.reason), (1.5, "m", ""))

    def test_details_that_are_no_message(self):
        self.assertEqual(self.raised(grpc.StatusCode.DATA_LOSS, b"\xff\xff\xff").details, errors.Details())


class TlsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.certificate, self.key = (os.path.join(self.folder.name, name) for name in ("c.pem", "k.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                        "-subj", "/CN=gnn.test", "-addext", "subjectAltName=DNS:gnn.test", "-keyout", self.key, "-out", self.certificate],
                       check=True, capture_output=True)

    def test_server_and_client_certificates(self):
        tls = vicinal.Tls.from_files(self.certificate, self.certificate, self.key, "gnn.test")
        credentials = grpc.ssl_server_credentials([(tls.private_key, tls.certificate)], tls.root_certificates, True)
        address = small_server(self, {"GetGraph": lambda request, _: message("Graph")(name=request.name)}, credentials)
        with vicinal.Client(address, tls=tls) as client:
            self.assertEqual(client.get_graph("g").name, "g")
        without = vicinal.Tls(tls.root_certificates, server_name="gnn.test")
        for wrong in (without, vicinal.Tls(tls.root_certificates, tls.certificate, tls.private_key), True, None):
            with vicinal.Client(address, tls=wrong, timeout=5) as client, self.assertRaises(errors.Unavailable):
                client.get_graph("g")

    def test_half_a_certificate(self):
        with self.assertRaisesRegex(vicinal.InputError, "needs its private key"):
            vicinal.Client(tls=vicinal.Tls(certificate=b"x"))


if __name__ == "__main__":
    unittest.main()
