#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The edge of deploy/edge, over real sockets: who gets in, what is forwarded, what is bounded. A recording server shows what
arrives; vicinal-server itself shows that calls mean the same behind the edge as without."""

import base64
import http.client
import http.server
import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest

import grpc
import h2.connection
import h2.events
import yaml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from edge_process import DEPLOY, ROOT, TOKEN, Authority, Edge, Recorder, free_port, wait_until  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "deploy"))
from server_process import BIN, ServerProcess  # noqa: E402

CODE = grpc.StatusCode
BEARER = ("authorization", f"Bearer {TOKEN}")
NO_MESSAGE = b""


def call(channel, method="/vicinal.v1.GraphService/GetGraph", request=NO_MESSAGE, metadata=(BEARER,), timeout=10):
    return channel.unary_unary(method)(request, metadata=metadata, timeout=timeout)


class EdgeTest(unittest.TestCase):
    def expect(self, code, *arguments, details="", **named):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.code(), code, caught.exception)
        self.assertIn(details, caught.exception.details())
        return caught.exception

    def edge(self, server, **variables):
        edge = Edge(server, **variables)
        edge.__enter__()
        self.addCleanup(edge.__exit__)
        return edge

    def recorder(self):
        recorder = Recorder()
        recorder.__enter__()
        self.addCleanup(recorder.__exit__)
        return recorder

    def channel(self, edge, *arguments, **named):
        channel = edge.channel(*arguments, **named)
        self.addCleanup(channel.close)
        return channel


class ConfigurationTest(EdgeTest):
    def test_haproxy_takes_every_line_without_a_warning(self):
        edge = Edge("127.0.0.1:1")
        self.addCleanup(edge.temporary.cleanup)
        done = edge.check()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        edge.environment["VICINAL_EDGE_SERVER"] = "unix@/run/vicinal/edge.sock"
        self.assertEqual(edge.check().returncode, 0)

    def test_a_missing_file_is_named(self):
        edge = Edge("127.0.0.1:1")
        self.addCleanup(edge.temporary.cleanup)
        os.remove(edge.path("tokens.map"))
        done = edge.check()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(edge.path("tokens.map") + " is missing", done.stderr)

    def test_the_pages_certificate_for_a_trial_serves(self):
        with open(os.path.join(ROOT, "docs", "edge.md"), encoding="utf-8") as file:
            block = re.search(r"For a trial[^\n]*\n\n((?:    [^\n]*\n)+)", file.read()).group(1)
        edge = Edge("127.0.0.1:1")
        subprocess.run(["bash", "-e"], input=block, cwd=edge.folder, text=True, capture_output=True, check=True)
        for target, sources in (("site.pem", ("fullchain.pem", "key.pem")), ("clients.pem", ("clients-ca.pem",))):
            edge.write(target, b"".join(pathlib.Path(edge.path(name)).read_bytes() for name in sources))
        with edge:
            trusted = os.path.join(edge.folder, "ca.pem")
            done = subprocess.run([os.path.join(BIN, "vicinal"), "--server", f"localhost:{edge.port}", "--tls_ca_file", trusted, "status"],
                                  capture_output=True, text=True, check=False)
        # TLS is well: the edge answers.
        self.assertIn("edge: no valid token and no client certificate", done.stderr)

    def test_every_variable_is_documented(self):
        with open(os.path.join(DEPLOY, "haproxy.cfg"), encoding="utf-8") as file:
            names = [line.split()[1] for line in file if line.strip().startswith("presetenv")]
        with open(os.path.join(ROOT, "docs", "edge.md"), encoding="utf-8") as file:
            page = file.read()
        self.assertGreater(len(names), 10)
        self.assertEqual([name for name in names if f"`{name}`" not in page], [])


class WhoTest(EdgeTest):
    def setUp(self):
        self.behind = self.recorder()

    def test_a_token_or_a_certificate_and_nothing_else(self):
        edge = self.edge(self.behind.target)
        certificate = edge.authority.issue("client")
        plain, known = self.channel(edge), self.channel(edge, certificate)
        self.assertEqual(call(plain, request=b"x"), b"x")
        self.assertEqual(call(known, request=b"y", metadata=()), b"y")
        self.behind.calls.clear()
        self.expect(CODE.UNAUTHENTICATED, plain, metadata=(), details="edge: no valid token")
        for wrong in (f"Bearer {TOKEN}x", "Bearer", TOKEN, "Bearer ", f"Bearer {TOKEN[:-1]}"):
            for channel in (plain, known):
                self.expect(CODE.UNAUTHENTICATED, channel, metadata=(("authorization", wrong),))
        self.expect(CODE.INVALID_ARGUMENT, plain, metadata=(BEARER, BEARER), details="given twice")
        self.assertEqual(self.behind.calls, [], "nothing is forwarded before the caller is known")

    def test_certificates_of_others_end_in_the_handshake(self):
        edge = self.edge(self.behind.target, client_certs="required")
        self.assertEqual(call(self.channel(edge, edge.authority.issue("client"))), b"")
        stranger = Authority(edge.folder, "stranger").issue("client")
        for certificate in (None, stranger, edge.authority.issue("expired", days=0)):
            self.expect(CODE.UNAVAILABLE, self.channel(edge, certificate))
        self.assertEqual(len(self.behind.calls), 1)

    def test_our_client_says_what_is_wrong_with_the_edges_certificate(self):
        for days, trusted, name, why in ((0, True, "localhost", "is not valid now"), (2, False, "localhost", "is not signed by an authority"),
                                         (2, True, "other.example.org", "the server's certificate is for other names")):
            edge = Edge(self.behind.target)
            edge.write("site.pem", b"".join(edge.authority.issue("tried", days=days)))
            authority = edge.authority if trusted else Authority(edge.folder, "stranger")
            with edge:
                done = subprocess.run([os.path.join(BIN, "vicinal"), "--server", edge.target, "--tls_ca_file", authority.path("pem"),
                                       "--tls_server_name", name, "graph", "list"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(why, done.stderr)
        self.assertEqual(self.behind.calls, [])

    def test_old_versions_of_tls_are_refused(self):
        edge = self.edge(self.behind.target)
        for version, accepted in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=edge.authority.pem().decode())
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.set_alpn_protocols(["h2"])
            context.minimum_version = context.maximum_version = version
            with socket.create_connection(("127.0.0.1", edge.port), timeout=10) as raw:
                try:
                    with context.wrap_socket(raw, server_hostname="localhost") as done:
                        self.assertEqual(done.selected_alpn_protocol(), "h2")
                    worked = True
                except ssl.SSLError:
                    worked = False
            self.assertEqual(worked, accepted, version)

    def test_an_address_that_guesses_tokens_is_shut_out(self):
        edge = self.edge(self.behind.target)
        channel = self.channel(edge)
        for _ in range(101):
            self.expect(CODE.UNAUTHENTICATED, channel, metadata=(("authorization", "Bearer guess"),))
        self.expect(CODE.UNAVAILABLE, self.channel(edge))
        self.assertEqual(self.behind.calls, [])


class ForwardTest(EdgeTest):
    def setUp(self):
        self.behind = self.recorder()

    def arrived(self):
        return dict(self.behind.calls[-1][1])

    def test_only_the_edge_says_who_the_client_is(self):
        edge = self.edge(self.behind.target)
        forged = (("vicinal-edge-client-der", "Zm9yZ2Vk"), ("vicinal-edge-client-der", "YWdhaW4="),
                  ("vicinal-edge-client-address", "10.0.0.1"), ("vicinal-edge-other", "x"))
        call(self.channel(edge), metadata=(BEARER, *forged))
        edge_headers = [(key, value) for key, value in self.behind.calls[-1][1] if key.startswith("vicinal-edge-")]
        self.assertEqual(edge_headers, [("vicinal-edge-client-address", "127.0.0.1")])
        certificate = edge.authority.issue("client")
        call(self.channel(edge, certificate), metadata=forged)
        edge_headers = {key: value for key, value in self.behind.calls[-1][1] if key.startswith("vicinal-edge-")}
        der = ssl.PEM_cert_to_DER_cert(certificate[0].decode())
        self.assertEqual(edge_headers, {"vicinal-edge-client-address": "127.0.0.1",
                                        "vicinal-edge-client-der": base64.b64encode(der).decode()})

    def test_what_the_api_uses_passes_and_binary_metadata_does_not(self):
        edge = self.edge(self.behind.target)
        call(self.channel(edge), metadata=(BEARER, ("vicinal-graph", "g"), ("vicinal-request-id", "r"), ("odd-bin", b"\xff"),
                                           ("grpc-tags-bin", b"\x00")))
        arrived = self.arrived()
        self.assertEqual((arrived["vicinal-graph"], arrived["vicinal-request-id"]), ("g", "r"))
        self.assertEqual(arrived["authorization"], BEARER[1], "the server checks the token itself, too")
        self.assertEqual([key for key in arrived if key.endswith("-bin")], [])

    def test_metadata_is_bounded_and_the_connection_stays(self):
        edge = self.edge(self.behind.target)
        channel = self.channel(edge)
        call(channel, metadata=(BEARER, ("filler", "x" * 4000)))
        self.behind.calls.clear()
        self.expect(CODE.INVALID_ARGUMENT, channel, metadata=(BEARER, ("filler", "x" * 4700)), details="larger than 4608")
        self.assertEqual(self.behind.calls, [])
        call(channel)
        with self.assertRaises(grpc.RpcError):
            call(channel, metadata=(BEARER, *((f"h{i}", "x") for i in range(45))))
        self.assertEqual(len(self.behind.calls), 1)
        call(channel)

    def test_certificates_that_the_server_could_not_take_are_refused(self):
        edge = self.edge(self.behind.target)
        self.expect(CODE.INVALID_ARGUMENT, self.channel(edge, edge.authority.issue("large", more_names=50)), metadata=(),
                    details="edge: client certificate larger than 2175 bytes")
        self.assertEqual(self.behind.calls, [])

    def test_a_server_that_is_away_is_unavailable(self):
        edge = self.edge(f"127.0.0.1:{free_port()}")
        wait_until(lambda: edge.healthy() is False, "the edge has not seen that the server is away")
        self.expect(CODE.UNAVAILABLE, self.channel(edge), details="edge: the server cannot be reached")
        self.assertIn("haproxy_server_status", edge.metrics())

    def test_other_protocols_than_grpc_are_refused(self):
        edge = self.edge(self.behind.target)
        for protocols in ([], ["http/1.1"]):
            context = ssl.create_default_context(cadata=edge.authority.pem().decode())
            context.set_alpn_protocols(protocols)
            with socket.create_connection(("127.0.0.1", edge.port), timeout=10) as raw:
                with context.wrap_socket(raw, server_hostname="localhost") as web:
                    reply = b""
                    try:
                        web.sendall(f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: {BEARER[1]}\r\n\r\n".encode())
                        reply = web.recv(4096)
                    except OSError:
                        pass
            self.assertEqual(reply, b"")
        done = h2_request(edge, ":method GET")
        self.assertEqual(done["grpc-status"], "3")
        self.assertEqual(done["content-type"], "application/grpc")
        self.assertEqual(h2_request(edge, "content-type text/plain")["grpc-message"], "edge: no gRPC call")
        self.assertEqual(self.behind.calls, [])


def h2_request(edge, change):
    """The headers of the reply to a request whose header `change` ("NAME VALUE") differs from a gRPC call's."""
    headers = {":method": "POST", ":path": "/vicinal.v1.GraphService/GetGraph", ":scheme": "https", ":authority": "x",
               "te": "trailers", "content-type": "application/grpc", "authorization": BEARER[1]}
    headers.update([change.split()])
    context = ssl.create_default_context(cadata=edge.authority.pem().decode())
    context.set_alpn_protocols(["h2"])
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    connection.send_headers(1, list(headers.items()), end_stream=True)
    with socket.create_connection(("127.0.0.1", edge.port), timeout=10) as raw:
        with context.wrap_socket(raw, server_hostname="localhost") as web:
            web.sendall(connection.data_to_send())
            while True:
                for event in connection.receive_data(web.recv(4096)):
                    if isinstance(event, h2.events.ResponseReceived):
                        return {name.decode(): value.decode() for name, value in event.headers}


class BoundsTest(EdgeTest):
    def setUp(self):
        self.behind = self.recorder()

    def open(self, edge):
        """None: the connection was reset at once."""
        try:
            sock = socket.create_connection(("127.0.0.1", edge.port), timeout=10)
        except ConnectionResetError:
            return None
        self.addCleanup(sock.close)
        return sock

    def is_closed(self, sock, seconds):
        if sock is None:
            return True
        sock.settimeout(seconds)
        try:
            while sock.recv(4096):
                pass
            return True
        except TimeoutError:
            return False
        except OSError:
            return True

    def test_connections_of_one_address(self):
        edge = self.edge(self.behind.target, connections_per_address=4)
        sockets = [self.open(edge) for _ in range(10)]

        def closed():
            return sum(self.is_closed(sock, 0.05) for sock in sockets)

        wait_until(lambda: closed() >= 6, "connections beyond the limit are not closed")
        self.assertEqual(closed(), 6)
        for sock in filter(None, sockets):
            sock.close()
        channel = self.channel(edge)
        wait_until(lambda: served(channel), "connections are not taken again")

    def test_a_connection_without_handshake_or_request_is_closed(self):
        edge = self.edge(self.behind.target, idle="1s")
        self.assertTrue(self.is_closed(self.open(edge), 10), "half open")
        context = ssl.create_default_context(cadata=edge.authority.pem().decode())
        context.set_alpn_protocols(["h2"])
        with context.wrap_socket(self.open(edge), server_hostname="localhost") as silent:
            self.assertTrue(self.is_closed(silent, 10), "without a preface")

    def test_frames_that_are_no_call_keep_no_connection_open(self):
        edge = self.edge(self.behind.target)
        context = ssl.create_default_context(cadata=edge.authority.pem().decode())
        context.set_alpn_protocols(["h2"])
        pinging = h2.connection.H2Connection()
        pinging.initiate_connection()
        begin = time.monotonic()
        with context.wrap_socket(self.open(edge), server_hostname="localhost") as sock, self.assertRaises(OSError):
            while time.monotonic() < begin + 30:
                pinging.ping(b"no call!")
                sock.sendall(pinging.data_to_send())
                self.is_closed(sock, 0.05)
        self.assertLess(time.monotonic() - begin, 20, "VICINAL_EDGE_IDLE, 60 s, is for those that have called")

    def test_calls_of_one_address(self):
        edge = self.edge(self.behind.target, request_rate=20)
        channel = self.channel(edge)
        outcomes = []
        for _ in range(40):
            try:
                call(channel)
                outcomes.append(None)
            except grpc.RpcError as error:
                outcomes.append((error.code(), error.details()))
        self.assertEqual(outcomes[:15], [None] * 15)
        self.assertEqual(outcomes[-1], (CODE.UNAVAILABLE, "edge: too many calls from this address"))
        self.assertLessEqual(len(self.behind.calls), 21)


    def test_calls_of_one_address_at_once(self):
        edge = self.edge(self.behind.target, calls_per_address=4)
        stop = threading.Event()
        self.addCleanup(stop.set)
        # Headers, and no message until the test ends; on two connections.
        silent = [self.channel(edge) for _ in range(2)]
        calls = [channel.stream_unary("/vicinal.v1.GraphService/UploadGraph").future(iter(stop.wait, True), metadata=(BEARER,))
                 for channel in silent * 2]
        wait_until(lambda: len(self.behind.calls) == 4, "the calls do not arrive")
        channel = self.channel(edge)
        self.expect(CODE.UNAVAILABLE, channel, details="edge: too many open calls from this address")
        for ended in calls[:2]:
            ended.cancel()
        wait_until(lambda: served(channel), "the calls that have ended still count")


def served(channel):
    try:
        call(channel, timeout=2)
        return True
    except grpc.RpcError:
        return False


class MetricsTest(EdgeTest):
    """VICINAL_EDGE_METRICS, before a page that this test serves."""

    def setUp(self):
        class Page(http.server.BaseHTTPRequestHandler):
            asked = []

            def do_GET(self):
                self.asked.append((self.path, self.headers.get("authorization")))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"vicinal_ready 1\n")

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        self.asked, self.port = Page.asked, free_port()
        self.tls_edge = self.edge("127.0.0.1:1", metrics=f"127.0.0.1:{self.port}", metrics_server=f"127.0.0.1:{server.server_port}")

    def get(self, path="/metrics", token=None, certificate=None, method="GET"):
        """Status and body."""
        context = ssl.create_default_context(cadata=self.tls_edge.authority.pem().decode())
        if certificate:
            files = []
            for name, content in zip(("client.crt", "client.key"), certificate):
                self.tls_edge.write(name, content)
                files.append(self.tls_edge.path(name))
            context.load_cert_chain(*files)
        connection = http.client.HTTPSConnection("localhost", self.port, context=context, timeout=10)
        self.addCleanup(connection.close)
        connection.request(method, path, headers={"Authorization": f"Bearer {token}"} if token else {})
        reply = connection.getresponse()
        return reply.status, reply.read()

    def test_a_token_or_a_certificate_reads_them_over_tls(self):
        for who in ({"token": TOKEN}, {"certificate": self.tls_edge.authority.issue("prometheus")}):
            self.assertEqual(self.get(**who), (200, b"vicinal_ready 1\n"))
        self.assertEqual(self.asked, [("/metrics", None)] * 2, "tokens stay at the edge")

    def test_nobody_else_does_and_nothing_else_is_there(self):
        certificate = self.tls_edge.authority.issue("prometheus")
        for who in ({}, {"token": TOKEN + "x"}, {"token": "wrong", "certificate": certificate}):
            self.assertEqual(self.get(**who)[0], 401)
        for path, method in (("/", "GET"), ("/metrics/x", "GET"), ("/metrics", "POST"), ("/metrics", "OPTIONS")):
            self.assertEqual(self.get(path, token=TOKEN, method=method)[0], 404)
        self.assertEqual(self.asked, [])
        stranger = Authority(self.tls_edge.folder, "stranger").issue("prometheus")
        with self.assertRaises(OSError):
            self.get(certificate=stranger)

    def test_without_tls_there_is_nothing(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as raw:
            raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertNotIn(b"vicinal_ready", raw.recv(4096))

    def test_it_is_off_by_default(self):
        edge = Edge("127.0.0.1:1", metrics="")
        self.addCleanup(edge.temporary.cleanup)
        done = edge.check()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


class RotationTest(EdgeTest):
    def presented(self, edge):
        return ssl.get_server_certificate(("127.0.0.1", edge.port), ca_certs=edge.path("authority.pem"))

    def test_certificates_and_tokens_change_under_load_without_a_failed_call(self):
        behind = self.recorder()
        edge = self.edge(behind.target, connection_rate=100000)
        stop, failures, done = threading.Event(), [], []

        def load(fresh):
            channel = edge.channel()
            while not stop.is_set():
                try:
                    call(channel)
                    done.append(fresh)
                except grpc.RpcError as error:
                    failures.append(error)
                if fresh:
                    channel.close()
                    channel = edge.channel()
            channel.close()

        threads = [threading.Thread(target=load, args=(fresh,)) for fresh in (True, True, False)]
        for thread in threads:
            thread.start()
            self.addCleanup(thread.join)
        self.addCleanup(stop.set)
        seen = {self.presented(edge)}
        for turn in range(5):
            edge.write("site.pem", b"".join(edge.authority.issue(f"site{turn}")))
            edge.write_tokens(TOKEN, f"new-{turn}")
            for what in ("site", "tokens", "clients"):
                result = edge.update(what)
                self.assertEqual(result.returncode, 0, result.stderr)
            seen.add(self.presented(edge))
            before = len(done)
            wait_until(lambda: len(done) > before + 20, "no calls are made")
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(len(seen), 6, "each certificate was presented")
        self.assertGreater(len(done), 100)

    def test_what_is_wrong_changes_nothing(self):
        edge = self.edge(self.recorder().target)
        channel, certificate = self.channel(edge), self.presented(edge)
        key_of_another = edge.authority.issue("other")[1]
        with open(edge.path("authority-site.crt"), "rb") as file:
            mixed = file.read() + key_of_another
        for bad in (b"no certificate\n", mixed):
            edge.write("site.pem", bad)
            self.assertNotEqual(edge.update("site").returncode, 0)
            self.assertEqual(self.presented(edge), certificate)
        edge.write("clients.pem", b"nothing\n")
        self.assertNotEqual(edge.update("clients").returncode, 0)
        edge.write("tokens.map", b"plain-token admin\n")
        self.assertIn("nothing was changed", edge.update("tokens").stderr)
        call(channel)
        call(self.channel(edge, edge.authority.issue("client")), metadata=())

    def test_a_token_and_an_authority_that_were_taken_away_no_longer_work(self):
        edge = self.edge(self.recorder().target)
        channel = self.channel(edge)
        edge.write_tokens("another")
        self.assertEqual(edge.update("tokens").returncode, 0)
        self.expect(CODE.UNAUTHENTICATED, channel)
        call(channel, metadata=(("authorization", "Bearer another"),))
        old = edge.authority.issue("client")
        edge.write("clients.pem", Authority(edge.folder, "next").pem())
        self.assertEqual(edge.update("clients").returncode, 0)
        self.expect(CODE.UNAVAILABLE, self.channel(edge, old), metadata=())


class UnixSocketTest(EdgeTest):
    """vicinal-server that listens on nothing but the unix socket of its edge, and takes callers from their certificates."""

    PRINCIPALS = f"ops admin URI:spiffe://test/ops\nweb infer URI:spiffe://test/web\nlaptop infer token:{TOKEN}\n"
    LIST, DELETE = "/vicinal.v1.GraphService/ListGraphs", "/vicinal.v1.GraphService/DeleteGraph"
    NO_SUCH_GRAPH = b"\x0a\x04none"  # its name

    def setUp(self):
        folder = Edge("127.0.0.1:1").temporary  # for the socket and the principals
        self.addCleanup(folder.cleanup)
        self.socket, principals = os.path.join(folder.name, "edge.sock"), os.path.join(folder.name, "principals")
        with open(principals, "w", encoding="ascii") as file:
            file.write(self.PRINCIPALS)
        self.server = ServerProcess("--grpc_listen=", f"--edge_listen={self.socket}", f"--principals_file={principals}",
                                    "--log_level=debug")
        self.server.__enter__()
        self.addCleanup(self.server.__exit__)

    def test_certificates_have_their_roles_and_forged_metadata_has_none(self):
        edge = self.edge(f"unix@{self.socket}")
        ops, web, stranger = (edge.authority.issue(subject) for subject in ("ops", "web", "stranger"))
        of_ops = base64.b64encode(ssl.PEM_cert_to_DER_cert(ops[0].decode())).decode()
        forged = (("vicinal-edge-client-der", of_ops), ("vicinal-edge-client-address", "192.0.2.99"))
        admin, reader = self.channel(edge, ops), self.channel(edge, web)
        call(admin, self.LIST, metadata=())
        self.expect(CODE.NOT_FOUND, admin, self.DELETE, self.NO_SUCH_GRAPH, metadata=())
        call(reader, self.LIST, metadata=forged)
        self.expect(CODE.PERMISSION_DENIED, reader, self.DELETE, self.NO_SUCH_GRAPH, metadata=forged)
        self.expect(CODE.PERMISSION_DENIED, self.channel(edge), self.DELETE, self.NO_SUCH_GRAPH, metadata=(BEARER, *forged))
        self.expect(CODE.UNAUTHENTICATED, self.channel(edge, stranger), self.LIST, metadata=forged, details="spiffe://test/stranger")
        log = self.server.read_log()
        self.assertIn('"principal":"web","role":"infer","peer":"127.0.0.1"', log)
        self.assertNotIn("192.0.2.99", log)

    def test_large_certificates_fit_beside_the_metadata_of_clients(self):
        edge = self.edge(f"unix@{self.socket}")
        large, too_large = (edge.authority.issue("web", more_names=names) for names in (70, 90))
        sizes = [len(ssl.PEM_cert_to_DER_cert(certificate.decode())) for certificate, _ in (large, too_large)]
        self.assertTrue(3500 < sizes[0] <= 4096 < sizes[1], sizes)
        channel = self.channel(edge, large)
        for _ in range(3):
            call(channel, self.LIST, metadata=(("filler", "x" * 4200),))
        self.expect(CODE.PERMISSION_DENIED, channel, self.DELETE, self.NO_SUCH_GRAPH, metadata=())
        self.expect(CODE.INVALID_ARGUMENT, self.channel(edge, too_large), self.LIST, metadata=(),
                    details="edge: client certificate larger than 4096 bytes")

    def test_health_passes_and_the_server_says_nothing_of_an_open_network(self):
        edge = self.edge(f"unix@{self.socket}")
        self.assertEqual(call(self.channel(edge), "/grpc.health.v1.Health/Check"), b"\x08\x01")
        self.assertNotIn("open to the network", self.server.read_log())


class ComposeTest(EdgeTest):
    """The two containers of deploy/edge/compose.yaml, as processes of this machine: the server has its image's entry point and the file's flags."""

    def test_they_start_and_know_who_calls(self):
        with open(os.path.join(DEPLOY, "compose.yaml"), encoding="utf-8") as file:
            services = yaml.safe_load(file)["services"]
        with open(os.path.join(ROOT, "Dockerfile"), encoding="utf-8") as file:
            entry = json.loads(re.search(r"(?m)^ENTRYPOINT (\[.*\])$", file.read().replace("\\\n", "")).group(1))
        folder = Edge("127.0.0.1:1").temporary  # what is mounted
        self.addCleanup(folder.cleanup)
        os.mkdir(os.path.join(folder.name, "socket"))
        with open(os.path.join(folder.name, "principals"), "w", encoding="ascii") as file:
            file.write(f"laptop admin token:{TOKEN}\n")
        places = (("/run/vicinal", os.path.join(folder.name, "socket")), ("/edge/", folder.name + "/"))

        def here(text):
            for inside, outside in places:
                text = text.replace(inside, outside, 1) if f"={inside}" in text or text.startswith("unix@") else text
            return re.sub(r"=0\.0\.0\.0:\d+$", "=127.0.0.1:0", text)

        with open(os.path.join(DEPLOY, "Dockerfile"), encoding="utf-8") as file:
            user = re.search(r"(?m)^USER (\d+):", file.read()).group(1)
        flags = [f"--edge_uids={os.getuid()}" if flag == f"--edge_uids={user}" else here(flag) for flag in entry[1:] + services["server"]["command"]]
        server = ServerProcess(*flags)
        server.__enter__()
        self.addCleanup(server.__exit__)
        edge = self.edge(here(services["edge"]["environment"]["VICINAL_EDGE_SERVER"]))
        call(self.channel(edge), UnixSocketTest.LIST)
        self.expect(CODE.NOT_FOUND, self.channel(edge), UnixSocketTest.DELETE, UnixSocketTest.NO_SUCH_GRAPH)
        self.assertIn('"principal":"laptop","role":"admin"', server.read_log())


class ServerBehindTest(EdgeTest):
    """vicinal-server behind the edge, with Cora and a GCN."""

    @classmethod
    def setUpClass(cls):
        cls.server = ServerProcess("--memory_budget_bytes=256MiB")
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        stubs = cls.server.path("stubs")
        subprocess.run([os.path.join(ROOT, "client", "python", "generate_stubs.sh"), stubs], check=True,
                       env={**os.environ, "PATH": "/usr/bin:/bin"})
        sys.path.insert(0, stubs)
        data = os.path.join(ROOT, "tests", "data")
        cls.server.vicinal("graph", "upload", os.path.join(data, "graphs", "cora.npz"), "--name", "cora")
        cls.server.vicinal("model", "upload", os.path.join(data, "models", "cora-gcn.json"), "--weights",
                           os.path.join(data, "models", "cora-gcn.safetensors"), "--name", "gcn")

    def setUp(self):
        # pylint: disable=import-outside-toplevel
        from vicinal.v1 import graph_pb2, graph_pb2_grpc, inference_pb2, inference_pb2_grpc, tensor_pb2
        self.graph, self.inference, self.tensor = graph_pb2, inference_pb2, tensor_pb2
        self.tls = self.channel(self.edge(self.server.grpc))
        direct = grpc.insecure_channel(self.server.grpc)
        self.addCleanup(direct.close)
        self.graphs = graph_pb2_grpc.GraphServiceStub(self.tls)
        self.answers = [inference_pb2_grpc.InferenceServiceStub(channel) for channel in (direct, self.tls)]

    def counted(self, method, code):
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.server.scrape().splitlines()
                   if line.startswith("vicinal_requests_total{") and f'/{method}"' in line and f'code="{code}"' in line)

    def upload_messages(self, name, upload_id, stop=None):
        sys.path.insert(0, os.path.join(ROOT, "client", "python"))
        import example  # pylint: disable=import-outside-toplevel
        edges = b"".join(i.to_bytes(4, "little") for i in (0, 1, 1, 0))
        spec = self.graph.UploadGraphSpec(name=name, upload_id=upload_id, node_count=2)
        spec.tensors.add(name="edge_index", dtype=self.tensor.DATA_TYPE_INT32, shape=[2, 2])
        yield self.graph.UploadGraphRequest(spec=spec)
        chunk = self.tensor.UploadChunk(tensor="edge_index", data=edges, crc32c=example.crc32c(edges))
        yield self.graph.UploadGraphRequest(chunk=chunk)
        if stop is not None:
            stop.wait(60)
            return
        yield self.graph.UploadGraphRequest(finish=self.tensor.FinishUpload())

    def test_answers_have_the_same_bits_unary_and_streamed(self):
        request = self.inference.ClassifyRequest()
        request.target.graph, request.target.model = "cora", "gcn"
        request.return_logits = True
        request.nodes.ids.extend([3, 1, 2707])
        unary = [stub.Classify(request, metadata=(BEARER,), timeout=20).logits.data for stub in self.answers]
        self.assertEqual(unary[0], unary[1])
        request.nodes.ClearField("ids")
        request.nodes.all = True
        streamed = [b"".join(piece.logits.data for piece in stub.ClassifyStream(request, metadata=(BEARER,), timeout=20))
                    for stub in self.answers]
        self.assertEqual(streamed[0], streamed[1])
        self.assertEqual(len(streamed[0]), 2708 * 7 * 4)

    def test_errors_keep_their_codes_messages_and_details(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.graphs.GetGraph(self.graph.GetGraphRequest(name="absent"), metadata=(BEARER,), timeout=10)
        self.assertEqual(caught.exception.code(), CODE.NOT_FOUND)
        self.assertIn("absent", caught.exception.details())
        trailers = dict(caught.exception.trailing_metadata())
        self.assertIn(b"NOT_FOUND", trailers["grpc-status-details-bin"])

    def test_refused_calls_of_one_client_do_not_end_the_edges_connection(self):
        # As many as end the connection of a client without an edge.
        for _ in range(1_100):
            self.expect(CODE.UNIMPLEMENTED, self.tls, "/no.such.Service/Method")
        self.assertIn("\nvicinal_connections_hung_up_total 0\n", self.server.scrape())

    def test_uploads(self):
        reply = self.graphs.UploadGraph(self.upload_messages("small", "upload-one"), metadata=(BEARER,), timeout=20)
        self.assertEqual(reply.graph.name, "small")
        last = None
        for last in self.graphs.WatchGraph(self.graph.WatchGraphRequest(name="small"), metadata=(BEARER,), timeout=20):
            pass
        self.assertEqual(last.state, self.graph.Graph.STATE_READY)

    def tune(self, widths):
        """Takes seconds. The server remembers what it has measured: each test has widths of its own."""
        request = self.graph.TuneGraphRequest(name="cora", operation="aggregate", kinds=["sum", "max"], widths=widths)
        request.budget.seconds = 5
        return request

    def in_flight(self, method):
        return any(line.endswith(" 1") and f"/{method}\"" in line for line in self.server.scrape().splitlines()
                   if line.startswith("vicinal_requests_in_flight{"))

    def test_a_cancellation_reaches_the_server(self):
        before = self.counted("TuneGraph", "CANCELLED")
        future = self.graphs.TuneGraph.future(self.tune(range(16, 64, 4)), metadata=(BEARER,))
        wait_until(lambda: self.in_flight("TuneGraph"), "the call did not arrive")
        future.cancel()
        wait_until(lambda: self.counted("TuneGraph", "CANCELLED") == before + 1, "the server still has the call")

    def test_the_end_of_a_cancelled_upload_reaches_the_server(self):
        stop = threading.Event()
        self.addCleanup(stop.set)
        future = self.graphs.UploadGraph.future(self.upload_messages("never", "upload-two", stop), metadata=(BEARER,))
        wait_until(lambda: self.in_flight("UploadGraph"), "the call did not arrive")
        future.cancel()
        wait_until(lambda: not self.in_flight("UploadGraph"), "the server still has the call")

    def test_deadlines_hold(self):
        def ended():
            return self.counted("TuneGraph", "DEADLINE_EXCEEDED") + self.counted("TuneGraph", "CANCELLED")

        before = ended()
        # Where the machine is so busy that the call does not get that far in the time, it is made again, with more of it and other widths.
        for turn, seconds in enumerate((0.5, 2, 4)):
            with self.assertRaises(grpc.RpcError) as caught:
                self.graphs.TuneGraph(self.tune(range(65 + turn, 128, 4)), metadata=(BEARER,), timeout=seconds)
            self.assertEqual(caught.exception.code(), CODE.DEADLINE_EXCEEDED)
            if self.in_flight("TuneGraph") or ended() > before:
                break
        wait_until(lambda: ended() > before and not self.in_flight("TuneGraph"), "the server still has the call")

    def test_a_silent_watch_outlasts_every_other_limit(self):
        # Silent for longer than the idle time (4 s) and than a call's (5 s), with the limit of a watch: 60 s. The handshake has the idle time.
        tls = self.channel(self.edge(self.server.grpc, idle="4s", call="5s", watch="60s"))
        watch = tls.unary_stream("/grpc.health.v1.Health/Watch")(NO_MESSAGE, metadata=(BEARER,))
        self.assertEqual(next(watch), b"\x08\x01")
        ended = threading.Event()
        watch.add_callback(ended.set)
        self.assertFalse(ended.wait(7), "the watch was ended")
        self.assertEqual(call(tls, "/grpc.health.v1.Health/Check"), b"\x08\x01")
        watch.cancel()


if __name__ == "__main__":
    unittest.main()
