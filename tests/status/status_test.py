#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The status page of a real server, over a real socket: signing in, what is shown, what is refused. BrowserTest opens it in a headless
Chromium, and skips without one; VICINAL_SCREENSHOTS=FOLDER keeps its pictures."""

import contextlib
import html.parser
import http.client
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "deploy"))
from server_process import BIN, ServerProcess  # noqa: E402

DATA = os.path.join(ROOT, "tests", "data")
TOKENS = {"admin": "a-token-of-admins+/=", "infer": "a-token-of-clients"}
CHROMIUM = shutil.which("chromium")


def fill(server, *credentials):
    model = os.path.join(DATA, "models", "cora-gcn")
    server.vicinal(*credentials, "graph", "upload", os.path.join(DATA, "graphs", "cora.npz"), "--name", "cora", "--reorder", "community")
    server.vicinal(*credentials, "model", "upload", model + ".json", "--weights", model + ".safetensors", "--name", "gcn")
    server.vicinal(*credentials, "classify", "--graph", "cora", "--model", "gcn")
    server.vicinal(*credentials, "graph", "tune", "cora")


class WellFormed(html.parser.HTMLParser):
    """Fails on elements that are not closed in their order, and notes their names."""

    VOID = {"meta", "link", "input", "br"}

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], set()
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs), attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="vicinal-status-")
        cls.addClassCleanup(folder.cleanup)
        flags = []
        for role, token in TOKENS.items():
            path = os.path.join(folder.name, role)
            with open(path, "w", encoding="ascii") as file:
                file.write(token + "\n")
            flags.append(f"--{role}_token_file={path}")
        cls.admin = ("--token_file", os.path.join(folder.name, "admin"))
        cls.server = ServerProcess("--status_listen=127.0.0.1:0", *flags)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        fill(cls.server, *cls.admin)

    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection(self.server.status, timeout=30)
        self.addCleanup(connection.close)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        reply.text = reply.read().decode("utf-8")
        return reply

    def sign_in(self, role="infer"):
        body = urllib.parse.urlencode({"token": TOKENS[role]})
        reply = self.ask("POST", "/login", body, Content_Type="application/x-www-form-urlencoded")
        self.assertEqual((reply.status, reply.getheader("Location")), (303, "/"))
        cookie = reply.getheader("Set-Cookie")
        self.assertRegex(cookie, r"^vicinal_status=[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Strict$")
        return cookie.partition(";")[0]

    def test_only_who_has_a_token_sees_anything(self):
        for path in ("/", "/graphs/cora"):
            reply = self.ask("GET", path)
            self.assertEqual((reply.status, reply.getheader("Location")), (303, "/login"))
            self.assertNotIn("cora", reply.text.replace(path, ""))
        self.assertEqual(self.ask("GET", "/", Cookie="vicinal_status=" + "0" * 64).status, 303)
        self.assertEqual(self.ask("POST", "/login", "token=wrong").status, 401)
        for role in TOKENS:
            self.assertEqual(self.ask("GET", "/", Cookie=self.sign_in(role)).status, 200)

    def test_the_overview_tells_of_graphs_models_latency_and_memory(self):
        page = self.ask("GET", "/", Cookie=self.sign_in())
        self.assertIn("default-src 'none'", page.getheader("Content-Security-Policy"))
        for part in ('<a href="/graphs/cora">cora</a>', "2,708", "10,556", "GCNConv, ", "vicinal.v1.InferenceService/ClassifyStream", "graphs"):
            self.assertIn(part, page.text)
        self.assertNotIn("script", WellFormed(page.text).seen)

    def test_a_graphs_page_has_histogram_pictures_and_kernels(self):
        page = self.ask("GET", "/graphs/cora", Cookie=self.sign_in())
        seen = WellFormed(page.text).seen
        self.assertLessEqual({"svg", "path", "rect", "table"}, seen)
        self.assertEqual(page.text.count("<svg"), 3)
        counts = [int(count) for count in re.findall(r"<text x=\"[\d.]+\" y=\"\d+\">(\d+)</text>", page.text)]
        self.assertEqual(sum(counts), 2708, "every node has a degree")
        kernels = page.text.partition("<h2>Kernels</h2>")[2]
        self.assertRegex(kernels, r"<td>tuned</td><td>[a-z_]+.*?</td><td>[\d.]+ [um]s</td><td>[\d.]+ [um]s</td>")
        self.assertEqual(self.ask("GET", "/graphs/none", Cookie=self.sign_in()).status, 404)

    def test_other_names_and_methods_are_refused(self):
        cookie = self.sign_in()
        self.assertEqual(self.ask("GET", "/", Cookie=cookie, Host="evil.example.com").status, 421)
        self.assertEqual(self.ask("DELETE", "/graphs/cora", Cookie=cookie).status, 405)
        self.assertEqual(self.ask("POST", "/login", "token=" + "x" * 9000).status, 413)
        self.assertEqual(self.ask("POST", "/login", "token=x", Origin="http://evil.example.com").status, 403)
        for path in ("/%3Cscript%3E", "/graphs/%3Cscript%3E", "/../../etc/passwd", "/graphs/..%2f..%2fetc%2fpasswd"):
            reply = self.ask("GET", path, Cookie=cookie)
            self.assertIn(reply.status, (400, 404), path)
            self.assertNotIn("<script", reply.text)

    def raw(self, request):
        """All that is answered, until the connection is closed."""
        host, port = self.server.status.split(":")
        with socket.create_connection((host, int(port)), timeout=20) as sock:
            sock.sendall(request)
            return b"".join(iter(lambda: sock.recv(65536), b""))

    def test_head_has_no_body_and_options_allow_nobody(self):
        head, _, body = self.raw(b"HEAD /login HTTP/1.1\r\nHost: localhost\r\n\r\n").partition(b"\r\n\r\n")
        self.assertIn(b" 200 ", head)
        self.assertNotIn(b"Content-Length: 0", head)
        self.assertEqual(body, b"")
        asked = b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example.com\r\nAccess-Control-Request-Method: GET\r\n\r\n"
        reply = self.raw(asked)
        self.assertIn(b" 405 ", reply.partition(b"\r\n")[0])
        self.assertNotIn(b"Access-Control", reply)
        self.assertIn(b"Content-Security-Policy", reply)

    def test_a_name_is_not_cut_at_a_nul(self):
        self.assertEqual(self.ask("GET", "/graphs/cora%00x", Cookie=self.sign_in()).status, 400)

    def test_slow_connections_end_and_keep_others_waiting_for_seconds_only(self):
        host, port = self.server.status.split(":")
        heads = (b"", b"GET / HTTP/1.1\r\nX: ", b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000\r\n\r\n")
        slow = [socket.create_connection((host, int(port)), timeout=20) for _ in range(36)]
        for number, sock in enumerate(slow):
            self.addCleanup(sock.close)
            sock.sendall(heads[number % len(heads)])
        begin = time.monotonic()
        answered = {}
        other = threading.Thread(target=lambda: answered.update(status=self.ask("GET", "/login").status))
        other.start()
        left = list(slow)
        while left and time.monotonic() < begin + 30:  # each has a byte more to say five times a second, until it is ended
            readable, _, _ = select.select(left, [], [], 0.2)
            left = [sock for sock in left if sock not in readable]
            for sock in left:
                with contextlib.suppress(OSError):
                    sock.sendall(b"x")
        other.join()
        self.assertEqual((left, answered), ([], {"status": 200}))
        self.assertLess(time.monotonic() - begin, 20)

    def test_signing_out_ends_the_session(self):
        cookie = self.sign_in()
        self.assertEqual(self.ask("POST", "/logout", Cookie=cookie).status, 303)
        self.assertEqual(self.ask("GET", "/", Cookie=cookie).status, 303)

    def test_garbage_ends_its_connection_only(self):
        host, port = self.server.status.split(":")
        for garbage in (b"\x00\xff\r\n\r\n", b"GET " + b"/" * 40_000 + b" HTTP/1.1\r\n\r\n", b"POST /login HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):
            with socket.create_connection((host, int(port)), timeout=20) as sock:
                sock.sendall(garbage)
                try:
                    while sock.recv(4096):
                        pass
                except ConnectionError:
                    pass
        self.assertEqual(self.ask("GET", "/login").status, 200)


class FlagTest(unittest.TestCase):
    def test_a_network_needs_a_flag(self):
        command = [os.path.join(BIN, "vicinal-server"), "--grpc_listen=127.0.0.1:0", "--metrics_listen=", "--status_listen=0.0.0.0:0"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--allow_plaintext_status", done.stderr)
        with ServerProcess("--status_listen=0.0.0.0:0", "--allow_plaintext_status") as server:
            connection = http.client.HTTPConnection("127.0.0.1", int(server.status.rpartition(":")[2]), timeout=10)
            connection.request("GET", "/", headers={"Host": "gnn.example.com"})
            self.assertEqual(connection.getresponse().status, 200, "no tokens: nobody must sign in")
            connection.close()


@unittest.skipUnless(CHROMIUM, "no chromium here")
class BrowserTest(unittest.TestCase):
    """A browser applies the policy: the style sheet is taken, and nothing is reported."""

    def chromium(self, folder, url, *options):
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   f"--user-data-dir={folder}/profile", "--enable-logging=stderr", "--window-size=1000,1750", *options, url]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)

    def test_pages_are_drawn_without_a_complaint(self):
        with tempfile.TemporaryDirectory(prefix="vicinal-chromium-") as folder, ServerProcess("--status_listen=127.0.0.1:0") as server:
            fill(server)
            keep = os.environ.get("VICINAL_SCREENSHOTS", folder)
            for name, path in (("status_overview", "/"), ("status_graph", "/graphs/cora")):
                url = f"http://{server.status}{path}"
                picture = os.path.join(keep, name + ".png")
                done = self.chromium(folder, url, f"--screenshot={picture}")
                self.assertNotRegex(done.stderr, "CONSOLE|Content Security Policy")
                self.assertGreater(os.path.getsize(picture), 10_000)
                text = self.chromium(folder, url, "--dump-dom").stdout
                self.assertIn("cora", text)


if __name__ == "__main__":
    unittest.main()
