#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel of the Python client: built without network, holds what it should, and gets along with other users of protobuf."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from data import ROOT

# Another program's module may have these names; a second definition in protobuf's pool would end the process.
CLASH = """
import sys
from google.protobuf import descriptor_pb2, descriptor_pool
pool = descriptor_pool.Default()
for name, package, message in (("vicinal/v1/graph.proto", "vicinal.v1", "Graph"), ("google/rpc/status.proto", "google.rpc", "Status"),
                               ("grpc_service.proto", "inference", "ModelInferRequest")):
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package)
    file.message_type.add(name=message)
    pool.Add(file) if not hasattr(pool, "AddSerializedFile") else pool.AddSerializedFile(file.SerializeToString())
import vicinal
from vicinal._messages import message
assert message("Graph")(name="g").name == "g"
assert not any(name.endswith("_pb2") and "vicinal" in name for name in sys.modules)
"""


# As where torch is not installed.
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from vicinal.export_command import main
sys.exit(main([sys.argv[1] + ":model", *sys.argv[2:]]))
"""


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        # A copy: a build leaves its folders beside setup.py.
        for part in ("client/python", "proto"):
            shutil.copytree(os.path.join(ROOT, part), os.path.join(folder.name, part), ignore=shutil.ignore_patterns("build", "*.egg-info"))
        program = "import os, sys; import build_backend; print(build_backend.build_wheel(sys.argv[1]))"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, folder.name], cwd=os.path.join(folder.name, "client/python"),
                              env={**os.environ, "PYTHONPATH": "."}, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        (cls.wheel,) = glob.glob(os.path.join(folder.name, "*.whl"))
        cls.unpacked = os.path.join(folder.name, "unpacked")
        with zipfile.ZipFile(cls.wheel) as archive:
            cls.names = archive.namelist()
            archive.extractall(cls.unpacked)

    def test_holds_the_package_and_nothing_else(self):
        self.assertRegex(os.path.basename(self.wheel), r"^vicinal-[\d.]+-py3-none-any\.whl$")
        for name in ("vicinal/__init__.py", "vicinal/py.typed", "vicinal/api.binpb"):
            self.assertIn(name, self.names)
        self.assertEqual([name for name in self.names if not name.startswith("vicinal")], [])
        sources = {os.path.relpath(path, os.path.join(ROOT, "client", "python", "src"))
                   for path in glob.glob(os.path.join(ROOT, "client", "python", "src", "vicinal", "**", "*.py"), recursive=True)}
        self.assertEqual({name for name in self.names if name.endswith(".py")}, sources)

    def test_clashes_with_nobody(self):
        done = subprocess.run([sys.executable, "-c", CLASH], cwd="/", env={**os.environ, "PYTHONPATH": self.unpacked}, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_exporter_says_that_torch_is_missing(self):
        script = os.path.join(self.unpacked, "train.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("raise SystemExit('the script is not run in vain')\n")
        done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, script], env={**os.environ, "PYTHONPATH": self.unpacked},
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"has no torch. Export with the Python that trains the model and has the package vicinal, too: "
                      f"python -m vicinal export {script}:model", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_the_exporter_refuses_a_target_before_it_runs_the_script(self):
        script = os.path.join(self.unpacked, "train.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write("raise SystemExit('the script is not run in vain')\n")
        done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, script, "--target", "numbers"],
                              env={**os.environ, "PYTHONPATH": self.unpacked}, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (1, "vicinal-export: target is 'numbers', but must be one of "
                                                             "['multi_class', 'multi_label', 'regression']\n"))

    def test_needs_no_package_of_the_tests(self):
        imports = subprocess.run(["grep", "-rhoE", r"^(import|from) \w+", os.path.join(self.unpacked, "vicinal")], capture_output=True,
                                 text=True, check=True).stdout
        used = {line.split()[1] for line in imports.splitlines()}
        known = set(sys.stdlib_module_names) if hasattr(sys, "stdlib_module_names") else used
        self.assertLessEqual(used - known, {"vicinal", "grpc", "google", "numpy", "torch", "google_crc32c"})


if __name__ == "__main__":
    unittest.main()
