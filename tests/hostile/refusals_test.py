#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Connections whose calls are refused too often are ended; others of the same address go on, and so do those of proxies. And nobody keeps
probes out of --health_listen."""

import contextlib
import os
import socket
import sys
import tempfile
import unittest

import grpc
import h2.connection
import h2.events

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "deploy"))
from server_process import ServerProcess  # noqa: E402

TOKEN = "a-token"
MOST = 1000  # server/refusals.h
AT_ONCE = 50
NO_MESSAGE = bytes(5)  # of no bytes, with its length
LIST = "/vicinal.v1.GraphService/ListGraphs"


class Caller:
    """Calls over one connection from an address of this machine, by an HTTP/2 client that keeps all rules. Without a token they are
    headers alone."""

    def __init__(self, test, server, source):
        host, port = server.grpc.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=60, source_address=(source, 0))
        test.addCleanup(self.socket.close)
        self.http, self.open, self.statuses, self.ended = h2.connection.H2Connection(), set(), [], False
        self.http.initiate_connection()

    def call(self, path, count, token=None):
        """Makes calls until they are answered, or the connection has ended."""
        headers = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), ("te", "trailers"),
                   ("content-type", "application/grpc")] + ([("authorization", f"Bearer {token}")] if token else [])
        while (count > 0 or self.open) and not self.ended:
            while count > 0 and len(self.open) < AT_ONCE:
                stream = self.http.get_next_available_stream_id()
                self.http.send_headers(stream, headers)
                if token:
                    self.http.send_data(stream, NO_MESSAGE, end_stream=True)
                self.open.add(stream)
                count -= 1
            self.receive()

    def receive(self):
        try:
            self.socket.sendall(self.http.data_to_send())
            data = self.socket.recv(65536)
        except ConnectionError:
            data = b""
        self.ended = not data
        for event in self.http.receive_data(data) if data else ():
            if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                self.statuses += [value for name, value in event.headers if name == b"grpc-status"]
            if isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)):
                self.open.discard(event.stream_id)


class ProbesTest(unittest.TestCase):
    def test_connections_that_stay_keep_no_probe_out(self):
        with ServerProcess("--health_listen=127.0.0.1:0") as server, contextlib.ExitStack() as stack:
            host, port = server.health.rsplit(":", 1)
            hello = h2.connection.H2Connection()
            hello.initiate_connection()
            hello = hello.data_to_send()
            for last in range(2, 8):
                for _ in range(20):  # of which 16 have a place, and 64 of all
                    one = stack.enter_context(socket.create_connection((host, int(port)), timeout=10, source_address=(f"127.0.0.{last}", 0)))
                    with contextlib.suppress(OSError):
                        one.sendall(hello)
            for _ in range(20):
                with grpc.insecure_channel(server.health, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
                    reply = channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=10, wait_for_ready=True)
                self.assertEqual(reply, b"\x08\x01")


class RefusalsTest(unittest.TestCase):
    def server(self, *flags):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tokens = []
        for role in ("infer", "admin"):
            tokens.append(f"--{role}_token_file={folder.name}/{role}")
            with open(f"{folder.name}/{role}", "w", encoding="ascii") as file:
                file.write(f"{TOKEN}-{role}\n")
        server = ServerProcess(*tokens, *flags)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def hung_up(self, server):
        return float(next(line for line in server.scrape().splitlines() if line.startswith("vicinal_connections_hung_up_total")).split()[1])

    def test_the_connections_end_and_others_of_the_address_go_on(self):
        server = self.server()
        probe = Caller(self, server, "127.0.0.2")
        for path, status, address in ((LIST, b"16", "127.0.0.2"), ("/no.such.Service/Method", b"12", "127.0.0.3")):
            with self.subTest(path):
                before, first, second = self.hung_up(server), Caller(self, server, address), Caller(self, server, address)
                first.call(path, MOST - 1)
                self.assertEqual((first.statuses, first.ended), ([status] * (MOST - 1), False))
                second.call(path, 2)
                while not (first.ended and second.ended):
                    for caller in (first, second):
                        if not caller.ended:
                            caller.receive()
                # The server counts what it has ended: the client may see the end first.
                while self.hung_up(server) < before + 2:
                    pass
                self.assertEqual(self.hung_up(server), before + 2)
        self.assertIn("connections ended: too many refused calls", server.read_log())
        probe.call(LIST, 1, f"{TOKEN}-infer")
        self.assertEqual((probe.statuses, probe.ended), ([b"0"], False))

    def test_proxies_are_not_ended(self):
        for source, flags in (("127.0.0.1", ()), ("127.0.0.2", ("--max_connections=100", "--max_connections_per_address=100"))):
            with self.subTest(source):
                server = self.server(*flags)
                proxy = Caller(self, server, source)
                proxy.call(LIST, MOST + AT_ONCE)
                self.assertEqual((len(proxy.statuses), proxy.ended), (MOST + AT_ONCE, False))
                self.assertEqual(self.hung_up(server), 0)


if __name__ == "__main__":
    unittest.main()
