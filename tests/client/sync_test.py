#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vicinal sync` against real servers without a common volume: all are brought to one state, again after a restart, and nothing is sent
twice."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "deploy"))
from server_process import BIN, ServerProcess  # noqa: E402

DATA = os.path.join(ROOT, "tests", "data")
FILE = """
graphs:
  cora:
    file: cora.npz
    features:
      same: {file: cora.npz}
models:
  gcn:
    architecture: gcn.json
    weights: gcn.safetensors
"""


class SyncTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vicinal-sync-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        shutil.copy(os.path.join(DATA, "graphs", "cora.npz"), self.folder)
        for end in ("json", "safetensors"):
            shutil.copy(os.path.join(DATA, "models", "cora-gcn." + end), os.path.join(self.folder, "gcn." + end))
        self.write(FILE)

    def write(self, text):
        with open(os.path.join(self.folder, "state.yaml"), "w", encoding="utf-8") as file:
            file.write(text)

    def start(self, *flags):
        server = ServerProcess("--tuning_budget=0", *flags)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def sync(self, servers, *options):
        """{address: [(action, name)] of what is not kept}"""
        where = [word for server in servers for word in ("--to", server.grpc)]
        done = subprocess.run([os.path.join(BIN, "vicinal"), "sync", "state.yaml", "--json", *where, *options], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {one["server"]: [(step["action"], step["name"]) for step in one["steps"] if step["action"] != "keep"]
                for one in json.loads(done.stdout)["servers"]}

    def classes(self, server, feature_set):
        text = server.vicinal("classify", "--graph", "cora", "--model", "gcn", "--nodes", "0,1,2,3,4,5,6,7", "--feature_set", feature_set,
                              "--json")
        return json.loads(text)["classes"]

    def test_servers_are_brought_to_one_state_and_nothing_is_sent_twice(self):
        one, two = self.start(), self.start()
        everything = [("create", "cora"), ("create", "same"), ("create", "gcn")]
        self.assertEqual(self.sync([one, two], "--dry_run"), {one.grpc: everything, two.grpc: everything})
        self.assertEqual(json.loads(one.vicinal("graph", "list", "--json"))["graphs"], [])
        self.assertEqual(self.sync([one]), {one.grpc: everything})
        self.assertEqual(self.sync([one, two]), {one.grpc: [], two.grpc: everything})
        self.assertEqual(self.sync([one, two]), {one.grpc: [], two.grpc: []})
        for server in (one, two):
            self.assertEqual(self.classes(server, "same"), self.classes(one, "default"))

    def test_digests_survive_a_restart(self):
        state = os.path.join(self.folder, "state")
        with ServerProcess("--tuning_budget=0", f"--state_dir={state}") as server:
            self.assertEqual(len(self.sync([server])[server.grpc]), 3)
        again = self.start(f"--state_dir={state}")
        self.assertEqual(self.sync([again]), {again.grpc: []})
        with open(os.path.join(self.folder, "gcn.json"), "a", encoding="utf-8") as file:
            file.write("\n")
        self.assertEqual(self.sync([again]), {again.grpc: [("replace", "gcn")]})

    def test_what_others_changed_is_changed_back_and_what_they_added_is_pruned(self):
        server = self.start()
        self.sync([server])
        server.vicinal("features", "upload", os.path.join(self.folder, "cora.npz"), "--graph", "cora", "--name", "default", "--replace")
        server.vicinal("model", "upload", os.path.join(self.folder, "gcn.json"), "--weights", os.path.join(self.folder, "gcn.safetensors"),
                       "--name", "stray")
        self.assertEqual(self.sync([server]), {server.grpc: [("replace", "cora"), ("create", "same")]})
        self.assertEqual(self.sync([server]), {server.grpc: []})
        self.assertEqual(self.sync([server], "--prune"), {server.grpc: [("delete", "stray")]})
        self.write("graphs: {}\n")
        self.assertEqual(self.sync([server], "--prune"), {server.grpc: [("delete", "gcn"), ("delete", "cora")]})

    def write_edge_graphs(self):
        """tiny.npz with its features of edges, bare.npz without, one.npy and two.npy: those features, and the same with the last edge's row
        first. Its 570 edges have 4 float32 each."""
        tiny = os.path.join(DATA, "graphs", "tiny.npz")
        with zipfile.ZipFile(tiny) as archive, zipfile.ZipFile(os.path.join(self.folder, "bare.npz"), "w") as bare, \
                zipfile.ZipFile(os.path.join(self.folder, "turned.npz"), "w") as turned:
            for name in archive.namelist():
                data = archive.read(name)
                if name != "edge_attr.npy":
                    bare.writestr(name, data)
                    turned.writestr(name, data)
                    continue
                header, rows = data[:-570 * 16], data[-570 * 16:]
                other = header + rows[-16:] + rows[:-16]
                turned.writestr(name, other)
                for file_name, content in (("one.npy", data), ("two.npy", other)):
                    with open(os.path.join(self.folder, file_name), "wb") as file:
                        file.write(content)
        shutil.copy(tiny, self.folder)
        for end in ("json", "safetensors"):
            shutil.copy(os.path.join(DATA, "layers", "gine." + end), self.folder)

    def logits(self, server, graph, *options):
        text = server.vicinal("classify", "--graph", graph, "--model", "gine", "--nodes", ",".join(map(str, range(120))), "--logits", "--json",
                              *options)
        return json.loads(text)["logits"]

    def test_edge_feature_sets_are_declared_replaced_and_pruned(self):
        self.write_edge_graphs()
        declared = """
graphs:
  bonds:
    file: bare.npz
    reorder: rcm
    features:
      default: {file: bare.npz}
%s
models:
  gine: {architecture: gine.json, weights: gine.safetensors}
"""
        sets = "    edge_features:\n      default: {file: %s.npy}\n      first: {file: one.npy}\n"
        state = os.path.join(self.folder, "state")
        server = ServerProcess("--tuning_budget=0", f"--state_dir={state}")
        with server:
            # The oracle: graphs whose own uploads have those features of edges.
            for name, file in (("one", "tiny.npz"), ("two", "turned.npz")):
                server.vicinal("graph", "upload", os.path.join(self.folder, file), "--name", name, "--reorder", "rcm")
            self.write(declared % "")
            self.sync([server])
            expected = {name: self.logits(server, name) for name in ("one", "two")}
            self.assertNotEqual(expected["one"], expected["two"])

            # The graph has no order of edges yet, so it is sent again; its set of nodes goes with it.
            self.write(declared % (sets % "one"))
            self.assertEqual(self.sync([server]), {server.grpc: [("replace", "bonds"), ("replace", "default"), ("create", "default"),
                                                                 ("create", "first")]})
            self.assertEqual(self.sync([server]), {server.grpc: []})
            self.assertEqual(self.logits(server, "bonds"), expected["one"])
            self.write(declared % (sets % "two"))
            self.assertEqual(self.sync([server]), {server.grpc: [("replace", "default")]})
            self.assertEqual(self.logits(server, "bonds"), expected["two"])
            self.assertEqual(self.logits(server, "bonds", "--edge_feature_set", "first"), expected["one"])

        again = self.start(f"--state_dir={state}")
        self.assertEqual(self.sync([again]), {again.grpc: []})
        # What others did is seen: a set replaced, one deleted, one more.
        for options in (("default", "--replace"), ("stray",)):
            again.vicinal("features", "upload", os.path.join(self.folder, "one.npy"), "--graph", "bonds", "--edges", "--name", *options)
        again.vicinal("features", "delete", "first", "--graph", "bonds", "--edges")
        self.assertEqual(self.sync([again]), {again.grpc: [("replace", "default"), ("create", "first")]})
        self.assertEqual(self.logits(again, "bonds"), expected["two"])
        self.write(declared % "")
        self.assertEqual(self.sync([again]), {again.grpc: []})
        self.assertEqual(self.sync([again], "--prune"), {again.grpc: [("delete", "default"), ("delete", "first"), ("delete", "stray"),
                                                                      ("delete", "one"), ("delete", "two")]})
        self.assertEqual(self.sync([again], "--prune"), {again.grpc: []})


if __name__ == "__main__":
    unittest.main()
