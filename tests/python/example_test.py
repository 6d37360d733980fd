#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python example of client/python against a real server, with stubs generated from proto/ here and now."""

import os
import subprocess
import sys
import tempfile
import unittest

import numpy

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "deploy"))
from server_process import ServerProcess  # noqa: E402  (its folder is only known now)

GRAPH = os.path.join(ROOT, "tests", "data", "graphs", "cora.npz")
MODEL = os.path.join(ROOT, "tests", "data", "models", "cora-gcn")


class ExampleTest(unittest.TestCase):
    def run_example(self, server, *arguments, graph=GRAPH):
        stubs = server.path("stubs")
        subprocess.run([os.path.join(ROOT, "client", "python", "generate_stubs.sh"), stubs], check=True)
        command = [sys.executable, os.path.join(ROOT, "client", "python", "example.py"), "--stubs", stubs,
                   "--server", server.grpc, "--graph", graph, "--model", MODEL + ".json",
                   "--weights", MODEL + ".safetensors", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_classifies_cora_as_pytorch_geometric_does(self):
        with ServerProcess() as server:
            done = self.run_example(server)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("accuracy 0.7950 (795/1000)", done.stdout)

    def test_takes_wide_floats_and_columns_first_as_the_command_line_does(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        turned = os.path.join(folder.name, "turned.npz")
        with numpy.load(GRAPH) as cora:
            nodes, columns = cora["x_shape"]
            x = numpy.zeros((nodes, columns))
            rows = numpy.repeat(numpy.arange(nodes), numpy.diff(cora["x_indptr"]))
            x[rows, cora["x_indices"]] = cora["x_data"]
            numpy.savez(turned, x=numpy.asfortranarray(x), edge_index=numpy.asfortranarray(cora["edge_index"]),
                        y=cora["y"], test_mask=cora["test_mask"])
        with ServerProcess() as server:
            done = self.run_example(server, graph=turned)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("accuracy 0.7950 (795/1000)", done.stdout)

    def test_takes_narrow_integers(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        narrow = os.path.join(folder.name, "narrow.npz")
        with numpy.load(GRAPH) as cora:
            arrays = dict(cora)
        numpy.savez(narrow, **{**arrays, "y": arrays["y"].astype(numpy.int32), "x_shape": arrays["x_shape"].astype(numpy.int32)})
        with ServerProcess() as server:
            done = self.run_example(server, graph=narrow)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("accuracy 0.7950 (795/1000)", done.stdout)

    def test_says_in_one_line_what_is_wrong(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        text = os.path.join(folder.name, "text")
        with open(text, "w", encoding="ascii") as file:
            file.write("two words\n")
        lonely = os.path.join(folder.name, "lonely.npz")
        numpy.savez(lonely, edge_index=numpy.zeros((2, 1), dtype=numpy.int64))
        cases = [(["--graph", folder.name + "/none"], "none: No such file or directory"),
                 (["--graph", text], "text: File is not a zip file"),
                 (["--graph", lonely], "the graph's file must hold edge_index and x"),
                 (["--model", GRAPH], "cora.npz: 'utf-8' codec can't decode"),
                 (["--weights", folder.name], "Is a directory"),
                 (["--token_file", text], "text: contains no token that can be sent"),
                 (["--stubs", folder.name], "generate_stubs.sh"),
                 (["--server", "localhost"], "--server 'localhost' is not HOST:PORT"),
                 (["--server", "http://localhost:8500/"], "is not HOST:PORT"),
                 (["--server", "127.0.0.1:1"], "UNAVAILABLE: failed to connect")]
        with ServerProcess() as server:
            for arguments, message in cases:
                done = self.run_example(server, *arguments)
                self.assertNotEqual(done.returncode, 0, arguments)
                self.assertIn(message, done.stderr.strip().splitlines()[-1], arguments)
                self.assertNotIn("Traceback", done.stderr, arguments)

    def test_a_token_opens_admin_methods_and_its_absence_does_not(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        token = os.path.join(folder.name, "token")
        with open(token, "w", encoding="ascii") as file:
            file.write("a-token-of-the-test\n")
        with ServerProcess(f"--admin_token_file={token}") as server:
            refused = self.run_example(server)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("UNAUTHENTICATED", refused.stderr)
            done = self.run_example(server, "--token_file", token)
            self.assertEqual(done.returncode, 0, done.stderr)


    def test_speaks_tls_with_a_client_certificate(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)

        def path(name):
            return os.path.join(folder.name, name)

        def openssl(*arguments):
            subprocess.run(["openssl", *arguments], check=True, capture_output=True)

        new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        openssl("req", "-x509", *new_key, "-keyout", path("ca.key"), "-out", path("ca.pem"), "-subj", "/CN=ca")
        for name, names in (("server", "DNS:localhost,IP:127.0.0.1"), ("me", "DNS:me.example.com")):
            openssl("req", "-x509", *new_key, "-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-keyout", path(name + ".key"),
                    "-out", path(name + ".pem"), "-subj", "/CN=" + name, "-addext", "subjectAltName=" + names,
                    "-addext", "basicConstraints=critical,CA:FALSE")
        with open(path("principals"), "w", encoding="ascii") as file:
            file.write("me admin DNS:me.example.com\n")
        with ServerProcess(f"--tls_cert_file={path('server.pem')}", f"--tls_key_file={path('server.key')}",
                           f"--tls_client_ca_file={path('ca.pem')}", f"--principals_file={path('principals')}") as server:
            self.assertNotEqual(self.run_example(server).returncode, 0)
            self.assertNotEqual(self.run_example(server, "--tls_ca_file", path("ca.pem")).returncode, 0)
            done = self.run_example(server, "--tls_ca_file", path("ca.pem"), "--tls_cert_file", path("me.pem"),
                                    "--tls_key_file", path("me.key"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("accuracy 0.7950 (795/1000)", done.stdout)
            alone = self.run_example(server, "--tls_cert_file", path("me.pem"))
            self.assertIn("belong together", alone.stderr)


if __name__ == "__main__":
    unittest.main()
