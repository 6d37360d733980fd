# SPDX-License-Identifier: Apache-2.0
"""A real edge (deploy/edge, HAProxy) for the length of a test, with certificates made for it, and a server that records."""

import concurrent.futures
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import grpc

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "deploy"))
from free_port import free_port  # noqa: E402

DEPLOY = os.path.join(ROOT, "deploy", "edge")
START_SECONDS = 30
TOKEN = "a-token-of-the-test+/="


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def wait_until(condition, what, seconds=START_SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"after {seconds} s: {what}")
        time.sleep(0.02)


class Authority:
    """Signs certificates in a folder."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                f"/CN={name}", "-keyout", self.path("key"), "-out", self.path("pem"))

    def path(self, end):
        return os.path.join(self.folder, f"{self.name}.{end}")

    def pem(self):
        with open(self.path("pem"), "rb") as file:
            return file.read()

    def issue(self, subject, days=2, more_names=0):
        """(certificate, key) in PEM for localhost and 127.0.0.1; days=0 has expired when it is used; each further name takes 50 bytes."""
        base = os.path.join(self.folder, f"{self.name}-{subject}")
        with open(base + ".ext", "w", encoding="ascii") as file:
            file.write("subjectAltName=DNS:localhost,IP:127.0.0.1,URI:spiffe://test/" + subject +
                       "".join(f",DNS:{name:048}" for name in range(more_names)))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={subject}",
                "-keyout", base + ".key", "-out", base + ".csr")
        openssl("x509", "-req", "-in", base + ".csr", "-CA", self.path("pem"), "-CAkey", self.path("key"), "-CAcreateserial",
                "-days", str(days), "-extfile", base + ".ext", "-out", base + ".crt")
        with open(base + ".crt", "rb") as certificate, open(base + ".key", "rb") as key:
            return certificate.read(), key.read()


class Edge:
    """with Edge(server="127.0.0.1:8500", idle="1s") as edge: edge.target is HOST:PORT. Other arguments become variables
    VICINAL_EDGE_* of haproxy.cfg."""

    def __init__(self, server, **variables):
        self.temporary = tempfile.TemporaryDirectory(prefix="vicinal-edge-")
        self.folder = self.temporary.name
        self.authority = Authority(self.folder, "authority")
        self.write("site.pem", b"".join(self.authority.issue("site")))
        self.write("clients.pem", self.authority.pem())
        self.write_tokens(TOKEN)
        self.port, self.status_port = free_port(), free_port()
        self.target = f"127.0.0.1:{self.port}"
        self.environment = {**os.environ, "VICINAL_EDGE_DIR": self.folder, "VICINAL_EDGE_RUN": self.path("run"),
                            "VICINAL_EDGE_LISTEN": self.target, "VICINAL_EDGE_STATUS": f"127.0.0.1:{self.status_port}",
                            "VICINAL_EDGE_SERVER": server,
                            **{"VICINAL_EDGE_" + name.upper(): str(value) for name, value in variables.items()}}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)

    def write_tokens(self, *tokens):
        lines = [f"{hashlib.sha256(token.encode()).hexdigest()} admin\n" for token in tokens]
        self.write("tokens.map", "".join(lines).encode())

    def check(self):
        return subprocess.run([os.path.join(DEPLOY, "start.sh"), "--check"], env=self.environment, capture_output=True,
                              text=True, check=False)

    def update(self, what):
        return subprocess.run([os.path.join(DEPLOY, "update.sh"), what], env=self.environment, capture_output=True,
                              text=True, check=False)

    def healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.status_port}/healthz", timeout=5) as page:
                return page.status == 200
        except urllib.error.HTTPError as error:
            error.close()
            return False
        except OSError:
            return None

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.status_port}/metrics", timeout=5) as page:
            return page.read().decode()

    def peak_mib(self):
        """The most memory of any of its processes."""
        peaks = [0]
        for process in (self.process.pid, *self.children()):
            try:
                with open(f"/proc/{process}/status", encoding="ascii") as file:
                    peaks += [int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM")]
            except OSError:
                continue
        return max(peaks)

    def children(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]

    def __enter__(self):
        self.log = open(self.path("edge.log"), "wb")
        self.process = subprocess.Popen([os.path.join(DEPLOY, "start.sh")], env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log)
        wait_until(lambda: self.healthy() is not None or self.process.poll() is not None, "the edge does not answer")
        if self.process.poll() is not None:
            raise RuntimeError("the edge did not start:\n" + self.read_log())
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.log.close()
        self.temporary.cleanup()

    def read_log(self):
        with open(self.path("edge.log"), encoding="utf-8") as file:
            return file.read()

    def channel(self, certificate=None, options=()):
        """A connection of its own, with a client certificate (certificate, key) if given."""
        pair = certificate or (None, None)
        credentials = grpc.ssl_channel_credentials(self.authority.pem(), pair[1], pair[0])
        return grpc.secure_channel(self.target, credentials,
                                   options=[("grpc.use_local_subchannel_pool", 1), *options])


class Recorder(grpc.GenericRpcHandler):
    """A server that answers every unary call with its own request, and keeps the metadata. with Recorder() as recorder. With TLS if it
    has a certificate and its key. Questions for its health are not kept; `serving` is the answer."""

    def __init__(self, certificate=None):
        self.calls, self.certificate, self.serving = [], certificate, True

    def service(self, details):
        if details.method == "/grpc.health.v1.Health/Check":
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x08\x01" if self.serving else b"\x08\x02")
        self.calls.append((details.method, list(details.invocation_metadata)))
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)

    def __enter__(self):
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
        self.server.add_generic_rpc_handlers([self])
        if self.certificate:
            credentials = grpc.ssl_server_credentials([self.certificate[::-1]])
            port = self.server.add_secure_port("127.0.0.1:0", credentials)
        else:
            port = self.server.add_insecure_port("127.0.0.1:0")
        self.target = f"127.0.0.1:{port}"
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()
