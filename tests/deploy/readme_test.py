#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of the README and of docs/first_steps.md, in their order, against a fresh server."""

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


def marked_blocks(page):
    text = read(page)
    blocks = re.findall(re.escape(MARK) + r"\n```bash\n(.*?)```", text, re.DOTALL)
    return blocks, text.count(MARK)


class ReadmeTest(unittest.TestCase):
    def run_page(self, page, server, folder):
        """Output of the page's commands. They use the default port, the server a free one; Debian's Python has NumPy."""
        blocks, marks = marked_blocks(page)
        self.assertGreater(len(blocks), 0)
        self.assertEqual(len(blocks), marks)
        program = (f"set -euo pipefail\nvicinal() {{ {os.path.abspath(BIN)}/vicinal --server {server.grpc} \"$@\"; }}\n"
                   "python3() { /usr/bin/python3 \"$@\"; }\n" + "\n".join(blocks))
        done = subprocess.run(["bash", "-c", program], cwd=folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_sixty_seconds_of_the_readme(self):
        with ServerProcess() as server:
            output = self.run_page("README.md", server, ROOT)
            for node in (0, 5, 9):
                self.assertRegex(output, rf"(?m)^\s*{node}\s")

    def test_own_graph_and_model(self):
        with ServerProcess() as server:
            output = self.run_page("docs/first_steps.md", server, server.folder.name)
            self.assertRegex(output, r"(?m)^\s*ann\s")
            self.assertRegex(output, r"(?m)^\s*emil\s")
            self.assertTrue(os.path.exists(server.path("everybody.npy")))
            self.assertRegex(output, r"(?m)^\s*kinds .* 10 +2 ", "10 edges with 2 features each")
            with open(server.path("friends.svg"), encoding="utf-8") as file:
                self.assertIn("5 x 5 tiles", file.read())


if __name__ == "__main__":
    unittest.main()
