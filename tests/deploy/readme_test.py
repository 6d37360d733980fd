#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stranger's way through the README: its own commands, in its order, against a fresh server."""

import os
import re
import subprocess
import unittest

from server_process import BIN, ServerProcess

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
MARK = "<!-- runs in tests/deploy/readme_test.py -->"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class ReadmeTest(unittest.TestCase):
    def test_own_graph_and_model(self):
        blocks = re.findall(re.escape(MARK) + r"\n```bash\n(.*?)```", read("README.md"), re.DOTALL)
        self.assertEqual(len(blocks), read("README.md").count(MARK))
        with ServerProcess() as server:
            # The README's server listens on the default port, this one on a free one; Debian's Python has NumPy.
            program = (f"set -euo pipefail\nvicinal() {{ {os.path.abspath(BIN)}/vicinal --server {server.grpc} \"$@\"; }}\n"
                       "python3() { /usr/bin/python3 \"$@\"; }\n" + "\n".join(blocks))
            done = subprocess.run(["bash", "-c", program], cwd=server.folder.name, capture_output=True, text=True,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"(?m)^\s*ann\s")
            self.assertRegex(done.stdout, r"(?m)^\s*emil\s")
            self.assertTrue(os.path.exists(server.path("everybody.npy")))


if __name__ == "__main__":
    unittest.main()
