#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The quick start builds the CUDA backend where there is a GPU, or as VICINAL_CUDA says. A copy of the script runs with a
cmake that writes down how it was called and fails, so that nothing is built."""

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def program(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


class CudaTest(unittest.TestCase):

    def run_quickstart(self, word, gpu):
        """(exit code, output, arguments that cmake was called with or None)."""
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(f"{folder}/deploy")
            shutil.copy(f"{ROOT}/deploy/quickstart.sh", f"{folder}/deploy")
            program(f"{folder}/deploy/packages.sh", "exit 0\n")
            os.makedirs(f"{folder}/bin")
            program(f"{folder}/bin/cmake", f'echo "$@" > {folder}/called\nexit 1\n')
            program(f"{folder}/bin/nvidia-smi", f"exit {0 if gpu else 1}\n")
            environment = {key: value for key, value in os.environ.items() if key != "VICINAL_CUDA"}
            environment["PATH"] = f"{folder}/bin:{environment['PATH']}"
            if word is not None:
                environment["VICINAL_CUDA"] = word
            done = subprocess.run([f"{folder}/deploy/quickstart.sh"], env=environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            called = None
            if os.path.exists(f"{folder}/called"):
                with open(f"{folder}/called", encoding="utf-8") as file:
                    called = file.read().split()
            return done.returncode, done.stdout, called

    def expect(self, word, gpu, cuda):
        code, output, called = self.run_quickstart(word, gpu)
        self.assertEqual(code, 1, output)  # the cmake that fails
        self.assertIn(f"-DVICINAL_CUDA={cuda}", called, output)

    def test_what_is_said_decides(self):
        self.expect("ON", False, "ON")
        self.expect("OFF", True, "OFF")

    def test_a_gpu_decides_where_nothing_is_said(self):
        self.expect(None, True, "ON")
        if not os.path.exists("/dev/nvidia0"):
            self.expect(None, False, "OFF")

    def test_another_word_is_refused_before_anything_is_built(self):
        code, output, called = self.run_quickstart("maybe", False)
        self.assertEqual(code, 2, output)
        self.assertIn("VICINAL_CUDA must be ON or OFF", output)
        self.assertIsNone(called)


if __name__ == "__main__":
    unittest.main()
