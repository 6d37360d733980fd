#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several servers behind the edge (deploy/edge/cluster.cfg): which server gets which call, by recording servers; and no failed call while
real servers are killed, restarted and rolled. cluster_load.py is the long form of the last. Skips, with status 77, without HAProxy."""

import os
import re
import shutil
import subprocess
import sys
import threading
import unittest

import grpc

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster_process import MEMBERS, Cluster, Load, cluster_edge, server_states, write_cluster  # noqa: E402
from edge_process import DEPLOY, ROOT, TOKEN, Authority, Recorder, free_port, wait_until  # noqa: E402

CODE = grpc.StatusCode
BEARER = ("authorization", f"Bearer {TOKEN}")
CLASSIFY = "/vicinal.v1.InferenceService/Classify"


def methods():
    """{path: whether it changes something} of all methods of the API."""
    with open(os.path.join(ROOT, "server", "methods.h"), encoding="utf-8") as file:
        rows = re.findall(r'\{"([\w.]+/\w+)", Role::k\w+(, kChanges)?\}', file.read())
    return {"/" + name: bool(changes) for name, changes in rows}


class RoutingTest(unittest.TestCase):
    """Recording servers, with TLS, in the place of the three."""

    def setUp(self):
        self.addCleanup(lambda: [undo() for undo in reversed(self.undo)])
        self.undo = []
        self.members = {}

    def enter(self, thing):
        thing.__enter__()
        self.undo.append(thing.__exit__)
        return thing

    def start(self, certificates=None):
        """`certificates`: {member: (certificate, key)} where it is not one of the edge's authority."""
        edge = cluster_edge()
        for name in MEMBERS:
            pair = (certificates or {}).get(name) or edge.authority.issue(name)
            self.members[name] = self.enter(Recorder(pair))
        write_cluster(edge, {name: member.target for name, member in self.members.items()})
        self.enter(edge)
        self.channel = edge.channel()
        self.undo.append(self.channel.close)
        self.edge = edge
        wait_until(lambda: any(server_states(edge).values()), "no server is used")

    def call(self, path, graph=None):
        """The member that got it."""
        before = {name: len(member.calls) for name, member in self.members.items()}
        metadata = (BEARER,) + ((("vicinal-graph", graph),) if graph else ())
        self.channel.unary_unary(path)(b"", metadata=metadata, timeout=10)
        got, = [name for name, member in self.members.items() if len(member.calls) > before[name]]
        return got

    def wait_until_used(self, expected):
        wait_until(lambda: {name for name, up in server_states(self.edge).items() if up} == set(expected), f"the edge does not use just {expected}")

    def test_what_changes_something_goes_to_the_writer_and_inference_to_readers(self):
        self.start()
        self.wait_until_used(MEMBERS)
        paths = methods()
        self.assertGreater(sum(paths.values()), 5)
        for path, changes in paths.items():
            about_resources = path.startswith(("/vicinal.v1.GraphService/", "/vicinal.v1.ModelService/"))
            self.assertTrue(about_resources or not changes, path)
            self.assertEqual(self.call(path) == "writer", about_resources, path)

    def test_while_the_writer_drains_readers_tell_what_there_is_and_nothing_is_changed(self):
        self.start()
        self.wait_until_used(MEMBERS)
        self.members["writer"].serving = False
        self.wait_until_used(("reader-1", "reader-2"))
        wait_until(lambda: not server_states(self.edge, "writer")["writer"], "the writer is still used")
        for path, changes in methods().items():
            if changes or path.endswith("/GetUpload"):
                with self.assertRaises(grpc.RpcError) as caught:
                    self.call(path)
                self.assertEqual((caught.exception.code(), caught.exception.details()),
                                 (CODE.UNAVAILABLE, "edge: the writer cannot be reached"), path)
            else:
                self.assertNotEqual(self.call(path), "writer", path)

    def test_a_graph_keeps_its_server_and_others_keep_theirs_when_one_goes(self):
        self.start()
        self.wait_until_used(MEMBERS)
        graphs = [f"graph-{i}" for i in range(40)]
        places = {graph: self.call(CLASSIFY, graph) for graph in graphs}
        self.assertEqual(set(places.values()), {"reader-1", "reader-2"})
        self.assertEqual({graph: self.call(CLASSIFY, graph) for graph in graphs}, places)
        self.members["reader-1"].serving = False
        self.wait_until_used(("reader-2", "writer"))
        self.assertEqual({self.call(CLASSIFY, graph) for graph in graphs}, {"reader-2"})
        self.members["reader-1"].serving = True
        self.wait_until_used(MEMBERS)
        self.assertEqual({graph: self.call(CLASSIFY, graph) for graph in graphs}, places)

    def test_a_server_that_is_suddenly_gone_costs_no_call(self):
        # Calls are not repeated by the client here: the edge finds another server for each.
        for gone in ("reader-1", "reader-2"):
            with self.subTest(gone):
                self.start()
                self.wait_until_used(MEMBERS)
                self.members[gone].server.stop(None).wait()
                for i in range(40):
                    self.assertNotEqual(self.call(CLASSIFY, f"graph-{i}"), gone)

    def test_the_writer_serves_when_no_reader_is_left(self):
        self.start()
        for name in ("reader-1", "reader-2"):
            self.members[name].serving = False
        self.wait_until_used(("writer",))
        self.assertEqual(self.call(CLASSIFY, "g"), "writer")

    def test_a_server_with_a_certificate_of_strangers_gets_nothing(self):
        folder = cluster_edge().temporary
        self.undo.append(folder.cleanup)
        self.start({"reader-1": Authority(folder.name, "stranger").issue("reader-1")})
        self.wait_until_used(("reader-2", "writer"))
        self.assertEqual({self.call(CLASSIFY, f"graph-{i}") for i in range(40)}, {"reader-2"})


    def test_the_list_of_servers_changes_without_a_failed_call(self):
        self.start()
        self.wait_until_used(MEMBERS)
        targets = {name: member.target for name, member in self.members.items()}
        self.members["reader-3"] = self.enter(Recorder(self.edge.authority.issue("reader-3")))
        write_cluster(self.edge, {**targets, "reader-2": self.members["reader-3"].target})
        ended, failures, used = threading.Event(), [], set()

        def load():
            turn = 0
            while not ended.is_set():
                turn += 1
                try:
                    used.add(self.call(CLASSIFY, f"graph-{turn % 40}"))
                except (grpc.RpcError, ValueError) as error:
                    failures.append(error)

        thread = threading.Thread(target=load)
        thread.start()
        try:
            done = self.edge.update("servers")
            wait_until(lambda: "reader-3" in used, "the new server gets no calls")
        finally:
            ended.set()
            thread.join()
        self.assertEqual((done.returncode, failures), (0, []), done.stderr)


class PassThroughTest(unittest.TestCase):
    def test_connections_pass_as_they_are(self):
        edge = cluster_edge()  # for its folder and authority
        self.addCleanup(edge.temporary.cleanup)
        members, ports = {}, {name: free_port() for name in ("8443", "8444")}
        with open(os.path.join(DEPLOY, "passthrough.cfg"), encoding="utf-8") as file:
            text = file.read()
        for name in MEMBERS:
            members[name] = Recorder(edge.authority.issue(name)).__enter__()
            health = Recorder().__enter__()
            self.addCleanup(members[name].__exit__)
            self.addCleanup(health.__exit__)
            text = text.replace(f"{name}.vicinal.example.org:8500", f"{members[name].target} port {health.target.partition(':')[2]}")
        for name, port in ports.items():
            text = text.replace(f"bind :{name}", f"bind 127.0.0.1:{port}")
        edge.write("passthrough.cfg", text.encode())
        process = subprocess.Popen(["haproxy", "-db", "-f", edge.path("passthrough.cfg")])
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        credentials = grpc.ssl_channel_credentials(edge.authority.pem())
        for port, expected in ((ports["8443"], {"reader-1", "reader-2"}), (ports["8444"], {"writer"})):
            for _ in range(4):
                with grpc.secure_channel(f"localhost:{port}", credentials, [("grpc.use_local_subchannel_pool", 1)]) as channel:
                    channel.unary_unary(CLASSIFY)(b"", timeout=30, wait_for_ready=True)
            self.assertEqual({name for name, member in members.items() if member.calls}, expected)
            for member in members.values():
                member.calls.clear()


class RollTest(unittest.TestCase):
    def test_kill_restart_and_roll_without_a_failed_call(self):
        graphs = ["cora-1", "cora-2", "cora-3"]
        with Cluster(drain_delay="1s") as cluster:
            cluster.fill(graphs)
            with Load(cluster, graphs, threads=3) as load:
                load.wait_for_calls(50)
                for name, end in (("reader-1", "kill"), ("writer", "kill"), ("reader-2", "stop"), ("reader-1", "stop"), ("writer", "stop")):
                    member = cluster.members[name]
                    getattr(member, end)()
                    load.wait_for_calls(30)
                    member.start()
                    cluster.wait_until_served()
                    load.wait_for_calls(30)
                    self.assertEqual(load.failures, [], f"{end} {name}")
            self.assertEqual(load.failures, [])
            with cluster.client() as client:
                self.assertEqual(sorted(graph.name for graph in client.list_graphs()), graphs)


if __name__ == "__main__":
    if not shutil.which("haproxy"):
        print("SKIPPED: haproxy is not installed (deploy/packages.sh test)")
        sys.exit(77)
    unittest.main()
