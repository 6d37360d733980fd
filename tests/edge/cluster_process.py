# SPDX-License-Identifier: Apache-2.0
"""A real cluster for the length of a test: a writer with a state directory, two read replicas, the edge of deploy/edge in front of them, TLS
on both of its sides. And a load that judges every answer."""

import contextlib
import os
import re
import sys
import tempfile
import threading
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from edge_process import DEPLOY, ROOT, TOKEN, Edge, free_port, wait_until  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "tests", "deploy"))
from server_process import ServerProcess  # noqa: E402

import vicinal  # noqa: E402

DATA = os.path.join(ROOT, "tests", "data")
MEMBERS = ("writer", "reader-1", "reader-2")
# More calls, of one address, than the edge allows its clients by default.
LIMITS = {"request_rate": 100_000_000, "connection_rate": 100_000}


def cluster_edge():
    """An edge for several servers, whose certificates are of edge.authority, for localhost. `write_cluster`, then `with` starts it."""
    edge = Edge("127.0.0.1:1", **LIMITS)
    edge.write("servers.pem", edge.authority.pem())
    edge.environment["VICINAL_EDGE_CLUSTER"] = edge.path("cluster.cfg")
    return edge


def write_cluster(edge, targets):
    """deploy/edge/cluster.cfg with other addresses. targets: {member: HOST:PORT}."""
    with open(os.path.join(DEPLOY, "cluster.cfg"), encoding="utf-8") as file:
        text = file.read()
    for name, target in targets.items():
        text = text.replace(f"{name}.vicinal.example.org:8500 verifyhost {name}.vicinal.example.org", f"{target} verifyhost localhost")
    edge.write("cluster.cfg", text.encode())


def server_states(edge, backend="app"):
    """{server: whether the edge gives it calls}"""
    line = rf'^haproxy_server_status{{proxy="{backend}",server="([^"]+)",state="UP"}} (\d)'
    return {name: up == "1" for name, up in re.findall(line, edge.metrics(), re.MULTILINE)}


class Member:
    """One server, at the same address whenever it runs."""

    def __init__(self, name, edge, target, folder, drain_delay):
        self.name, self.target = name, target
        base = os.path.join(folder, name)
        for end, content in zip((".crt", ".key"), edge.authority.issue(name)):
            with open(base + end, "wb") as file:
                file.write(content)
        principals = os.path.join(folder, "principals")
        with open(principals, "w", encoding="ascii") as file:
            file.write(f"test admin token:{TOKEN}\n")
        self.flags = [f"--grpc_listen={target}", f"--tls_cert_file={base}.crt", f"--tls_key_file={base}.key", f"--principals_file={principals}",
                      f"--state_dir={folder}/state", f"--drain_delay={drain_delay}", "--tuning_budget=0",
                      "--memory_budget_bytes=512MiB"]
        if name != "writer":
            self.flags.append("--state_read_only")

    def start(self):
        self.process = ServerProcess(*self.flags)
        self.process.__enter__()

    def stop(self):
        """SIGTERM: it drains."""
        self.process.__exit__(None, None, None)

    def kill(self):
        self.process.process.kill()
        self.process.process.wait()
        self.process.log.close()
        self.process.folder.cleanup()

    def stop_if_running(self):
        if self.process.process.returncode is None:
            self.stop()


class Cluster:
    """with Cluster() as cluster: cluster.members[NAME], cluster.edge, cluster.client()."""

    def __init__(self, drain_delay="2s"):
        self.folder = tempfile.TemporaryDirectory(prefix="vicinal-cluster-")
        targets = {name: f"127.0.0.1:{free_port()}" for name in MEMBERS}
        self.edge = cluster_edge()
        write_cluster(self.edge, targets)
        self.members = {name: Member(name, self.edge, target, self.folder.name, drain_delay) for name, target in targets.items()}

    def client(self, **options):
        return self._client(self.edge.target, **options)

    def _client(self, target, **options):
        return vicinal.Client(target, token=TOKEN, tls=vicinal.Tls(root_certificates=self.edge.authority.pem()), **options)

    def wait_until_served(self, *names):
        wait_until(lambda: all(server_states(self.edge)[name] for name in names or MEMBERS), f"the edge does not use {names or MEMBERS}")

    def fill(self, graphs):
        """Uploads Cora under these names, and a model; then every reader has them."""
        cora = {**np.load(os.path.join(DATA, "graphs", "cora.npz"))}
        rows = np.repeat(np.arange(cora["x_shape"][0]), np.diff(cora["x_indptr"]))
        x = np.zeros(tuple(cora["x_shape"]), dtype=np.float32)
        x[rows, cora["x_indices"]] = cora["x_data"]
        with self.client() as client:
            for name in graphs:
                client.upload_graph(name, cora["edge_index"], x=x, wait_for="durable")
            base = os.path.join(DATA, "models", "cora-gcn")
            client.upload_model("gcn", base + ".json", base + ".safetensors", wait_for="durable")
        for member in self.members.values():
            with self._client(member.target) as client:
                wait_until(lambda: all(self._has(client, name) for name in graphs), f"{member.name} does not follow the writer")

    @staticmethod
    def _has(client, graph):
        try:
            client.classify(graph, "gcn", [0])
            return True
        except vicinal.Error:
            return False

    def __enter__(self):
        with contextlib.ExitStack() as undo:
            undo.callback(self.folder.cleanup)
            for name in MEMBERS:
                self.members[name].start()
                undo.callback(self.members[name].stop_if_running)
            undo.enter_context(self.edge)
            self.wait_until_served()
            self.undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self.undo.close()


class Load:
    """Threads that classify through the edge, each over a connection of its own. Every call counts: an error, or other logits than the first
    answer had, is a failure. with Load(cluster, graphs, threads=4) as load."""

    def __init__(self, cluster, graphs, threads, **options):
        """options: of vicinal.Client."""
        self.options = options
        self.cluster, self.graphs = cluster, graphs
        self.ended, self.calls, self.failures = threading.Event(), [], []  # calls: (time of the start, seconds)
        self.threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(threads)]
        with cluster.client() as client:
            self.expected = {graph: client.classify(graph, "gcn", np.arange(64), logits=True).logits.copy() for graph in graphs}

    def _run(self, seed):
        random = np.random.default_rng(seed)
        with self.cluster.client(**self.options) as client:
            while not self.ended.is_set():
                graph, nodes = random.choice(self.graphs), random.integers(0, 64, 10)
                begin = time.monotonic()
                try:
                    answer = client.classify(graph, "gcn", nodes, logits=True)
                    if not np.array_equal(answer.logits, self.expected[graph][nodes]):
                        self.failures.append("another answer than before")
                except vicinal.Error as error:
                    self.failures.append(f"{type(error).__name__}: {error}")
                self.calls.append((begin, time.monotonic() - begin))

    def wait_for_calls(self, more):
        goal = len(self.calls) + more
        wait_until(lambda: len(self.calls) >= goal, f"no {more} further calls")

    def milliseconds(self, spans):
        """Of the calls that began in one of the spans (begin, end): {calls, median_ms, p99_ms, max_ms}."""
        seconds = [seconds for begin, seconds in self.calls if any(first <= begin < last for first, last in spans)]
        median, p99, most = np.percentile(seconds, [50, 99, 100]) * 1e3
        return {"calls": len(seconds), "median_ms": round(median, 3), "p99_ms": round(p99, 3), "max_ms": round(most, 3)}

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()
