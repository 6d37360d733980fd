#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The metrics' listener of a real server, over real sockets: what it answers, over TLS to whom, and that nobody keeps others waiting."""

import contextlib
import http.client
import os
import socket
import ssl
import sys
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
for folder in ("deploy", "edge"):
    sys.path.insert(0, os.path.join(ROOT, "tests", folder))
from edge_process import Authority, wait_until  # noqa: E402
from server_process import ServerProcess  # noqa: E402

ASK = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
MOST_CONNECTIONS = 64  # server/http/listener.h


def address(server):
    host, port = server.metrics.rsplit(":", 1)
    return host, int(port)


def read_all(connection):
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


class PlainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess()
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def ask(self, method, path):
        connection = http.client.HTTPConnection(self.server.metrics, timeout=30)
        self.addCleanup(connection.close)
        connection.request(method, path)
        reply = connection.getresponse()
        reply.text = reply.read().decode("utf-8")
        return reply

    def test_get_and_head_of_metrics_and_nothing_else(self):
        got, head = self.ask("GET", "/metrics"), self.ask("HEAD", "/metrics?x=1")
        self.assertEqual((got.status, got.getheader("Content-Type")), (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertIn("\nvicinal_ready 1\n", got.text)
        self.assertEqual((head.status, head.text), (200, ""))
        self.assertGreater(int(head.getheader("Content-Length")), 1000)
        for method, path, status in (("GET", "/", 404), ("GET", "/metrics/", 404), ("POST", "/metrics", 405), ("OPTIONS", "/metrics", 405)):
            reply = self.ask(method, path)
            self.assertEqual(reply.status, status, (method, path))
            self.assertNotIn("vicinal_", reply.text)

    def test_connections_that_say_nothing_or_drip_keep_nobody_waiting(self):
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(socket.create_connection(address(self.server), timeout=30)) for _ in range(3 * MOST_CONNECTIONS)]
            for turn in range(len(ASK) - 4):
                for one in held:
                    with contextlib.suppress(OSError):
                        one.send(ASK[turn:turn + 1])
                if turn % 10 == 0:
                    self.assertEqual(self.ask("GET", "/metrics").status, 200)
            for one in held:
                with contextlib.suppress(ConnectionError):
                    self.assertEqual(read_all(one), b"")  # its time is up


class TlsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vicinal-metrics-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.authority = Authority(self.folder, "authority")
        self.install("first")

    def path(self, name):
        return os.path.join(self.folder, name)

    def install(self, subject, key_of=None):
        """As the server's certificate."""
        certificate, key = self.authority.issue(subject)
        if key_of:
            key = self.authority.issue(key_of)[1]
        for name, content in (("cert.pem", certificate), ("key.pem", key)):
            with open(self.path(name + ".new"), "wb") as file:
                file.write(content)
            os.replace(self.path(name + ".new"), self.path(name))

    def server(self, *flags):
        server = ServerProcess("--metrics_tls", f"--tls_cert_file={self.path('cert.pem')}", f"--tls_key_file={self.path('key.pem')}", *flags)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def context(self, client=None, authority=None):
        context = ssl.create_default_context(cadata=self.authority.pem().decode())
        if client:
            certificate, key = (authority or self.authority).issue(client)
            with open(self.path("client.pem"), "wb") as file:
                file.write(certificate + key)
            context.load_cert_chain(self.path("client.pem"))
        return context

    def scrape(self, server, context):
        """The answer, and the name in the server's certificate. Fails as the client does."""
        with socket.create_connection(address(server), timeout=30) as raw, context.wrap_socket(raw, server_hostname="localhost") as web:
            web.sendall(ASK)
            return read_all(web), dict(pair for part in web.getpeercert()["subject"] for pair in part)["commonName"]

    def test_only_over_tls_of_today(self):
        server = self.server()
        answer, name = self.scrape(server, self.context())
        self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer[:100])
        self.assertIn(b"\nvicinal_ready 1\n", answer)
        self.assertEqual(name, "first")
        with socket.create_connection(address(server), timeout=30) as raw:
            raw.sendall(ASK)
            self.assertNotIn(b"HTTP/1.1", read_all(raw))
        old = self.context()
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            self.scrape(server, old)

    def test_with_client_certificates_only_to_whoever_has_one(self):
        with open(self.path("clients.pem"), "wb") as file:
            file.write(self.authority.pem())
        server = self.server(f"--tls_client_ca_file={self.path('clients.pem')}")
        self.assertIn(b"\nvicinal_ready 1\n", self.scrape(server, self.context("prometheus"))[0])
        for context in (self.context(), self.context("stranger", Authority(self.folder, "other"))):
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                self.scrape(server, context)

    def test_a_new_certificate_is_taken_and_a_wrong_one_is_not(self):
        server = self.server()
        self.install("second", key_of="another")
        wait_until(lambda: "certificates not read again" in server.read_log(), "a key of another certificate was not noticed")
        self.assertEqual(self.scrape(server, self.context())[1], "first")
        self.install("third")
        wait_until(lambda: self.scrape(server, self.context())[1] == "third", "the new certificate is not served")

    def test_handshakes_that_stop_end_and_keep_nobody_waiting(self):
        server = self.server()
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(socket.create_connection(address(server), timeout=30)) for _ in range(2 * MOST_CONNECTIONS)]
            for one in held:
                with contextlib.suppress(OSError):
                    one.sendall(b"\x16\x03\x01\x02\x00\x01")
            self.assertIn(b"\nvicinal_ready 1\n", self.scrape(server, self.context())[0])
            for one in held:
                with contextlib.suppress(ConnectionError):
                    self.assertEqual(read_all(one), b"")


if __name__ == "__main__":
    unittest.main()
