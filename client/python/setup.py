# SPDX-License-Identifier: Apache-2.0
"""Adds the API's descriptors to the package: proto/vicinal/v1 as one FileDescriptorSet, from which src/vicinal/_messages.py makes its
classes. Everything else is in pyproject.toml.

    python3 setup.py -q build_py --build-lib DIR    # a folder for PYTHONPATH, without an installation
"""

import glob
import os
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

PROTO = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "proto"))


def protoc():
    return ["protoc"] if shutil.which("protoc") else [sys.executable, "-m", "grpc_tools.protoc"]


class BuildWithDescriptors(build_py):
    def run(self):
        super().run()
        files = sorted(glob.glob(os.path.join(PROTO, "vicinal", "v1", "*.proto")))
        if not files:
            raise SystemExit(f"{PROTO} has no vicinal/v1/*.proto: build from a clone of the repository, or install a wheel")
        out = os.path.join(self.build_lib, "vicinal", "api.binpb")
        self.mkpath(os.path.dirname(out))
        subprocess.run([*protoc(), "-I", PROTO, "--include_imports", f"--descriptor_set_out={out}", *files], check=True)


setup(cmdclass={"build_py": BuildWithDescriptors})
