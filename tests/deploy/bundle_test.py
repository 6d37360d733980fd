#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/bundle.sh: what it gathers runs from another folder, with libraries of its own only."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
BUILD = os.path.dirname(os.path.abspath(os.environ.get("VICINAL_BIN_DIR", "build/release/bin")))
# What may come from the machine: the parts of glibc.
GLIBC = re.compile(r"/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util|anl|nsl|mvec|nss_\w+))\.so[.\d]*$")


class BundleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="vicinal-bundle-")
        cls.addClassCleanup(cls.folder.cleanup)
        made = os.path.join(cls.folder.name, "made", "vicinal")
        cls.archive = os.path.join(cls.folder.name, "vicinal.tar.gz")
        done = subprocess.run([os.path.join(ROOT, "deploy", "bundle.sh"), "--build", BUILD, "--tar", cls.archive, made],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        # Elsewhere, and nothing is left at the place it was made in.
        cls.bundle = os.path.join(cls.folder.name, "somewhere", "else", "v")
        os.makedirs(os.path.dirname(cls.bundle))
        shutil.move(made, cls.bundle)

    def start(self):
        ready = os.path.join(self.folder.name, "ready.json")
        if os.path.exists(ready):
            os.remove(ready)
        server = subprocess.Popen(
            [os.path.join(self.bundle, "bin", "vicinal-server"), "--grpc_listen=127.0.0.1:0",
             "--metrics_listen=127.0.0.1:0", f"--ready_file={ready}"],
            env={"LD_LIBRARY_PATH": ""}, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not (os.path.exists(ready) and os.path.getsize(ready)):
            if server.poll() is not None or time.monotonic() > deadline:
                server.kill()
                self.fail(server.communicate()[1].decode())
            time.sleep(0.02)
        with open(ready, encoding="utf-8") as file:
            return server, json.load(file)["grpc"]

    def run_client(self, address, *arguments):
        return subprocess.run([os.path.join(self.bundle, "bin", "vicinal"), "--server", address, *arguments],
                              env={"LD_LIBRARY_PATH": ""}, cwd="/", capture_output=True, text=True, check=False)

    def test_server_and_client_run_with_their_own_libraries(self):
        server, address = self.start()
        try:
            status = self.run_client(address, "status")
            self.assertEqual(status.returncode, 0, status.stderr)
            self.assertIn("cpu", status.stdout)
            with open(f"/proc/{server.pid}/maps", encoding="utf-8") as maps:
                mapped = {line.split(maxsplit=5)[5].strip() for line in maps if ".so" in line}
            outside = {path for path in mapped if not path.startswith(self.bundle + "/") and not GLIBC.search(path)}
            self.assertEqual(outside, set())
            self.assertTrue(any("libgrpc" in path for path in mapped))
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)
        self.assertEqual(server.returncode, 0)

    def test_it_serves_a_model(self):
        server, address = self.start()
        data = os.path.join(ROOT, "tests", "data")
        try:
            for arguments in (("graph", "upload", f"{data}/graphs/cora.npz", "--name", "cora"),
                              ("model", "upload", f"{data}/models/cora-gcn.json", "--weights",
                               f"{data}/models/cora-gcn.safetensors", "--name", "cora-gcn"),
                              ("classify", "--graph", "cora", "--model", "cora-gcn", "--nodes", "0,5,9")):
                done = self.run_client(address, *arguments)
                self.assertEqual(done.returncode, 0, done.stderr)
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)

    def test_every_library_has_its_licence(self):
        licences = os.listdir(os.path.join(self.bundle, "share", "licenses"))
        self.assertIn("vicinal", licences)
        self.assertTrue(any(name.startswith("libgrpc") for name in licences), licences)

    def test_the_archive_fits_a_small_transfer(self):
        self.assertLess(os.path.getsize(self.archive), 64 << 20)

    def test_unknown_arguments_are_refused(self):
        done = subprocess.run([os.path.join(ROOT, "deploy", "bundle.sh"), "--nothing"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
