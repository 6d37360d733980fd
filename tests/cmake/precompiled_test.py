#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clones that share a ccache and differ in a generated header each compile against their own.

Two copies of a small project (precompiled/) use cmake/VicinalCcache.cmake and cmake/VicinalPrecompiled.cmake with a cache
of their own. What a program was compiled with is told by sizeof, which the program returns.

    precompiled_test.py COMPILER
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = pathlib.Path(__file__).resolve().parent / "precompiled" / "CMakeLists.txt.in"
COMPILER = sys.argv.pop()


class PrecompiledTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("CCACHE_")}
        self.environment["CCACHE_DIR"] = str(self.folder / "cache")

    def run_command(self, *command):
        done = subprocess.run([str(word) for word in command], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def clone(self, name):
        clone = self.folder / name
        (clone / "generated").mkdir(parents=True)
        text = PROJECT.read_text().replace("@CMAKE_FOLDER@", str(ROOT / "cmake"))
        (clone / "CMakeLists.txt").write_text(text)
        (clone / "probe.cc").write_text("#include <message.h>\nint main() { return sizeof(Message); }\n")
        return clone

    def size_after_build(self, clone, bytes_in_message):
        """Writes the header, builds, and returns what the program has for the size of the message."""
        (clone / "generated" / "message.h").write_text(
            f"#pragma once\nstruct Message {{\n  char field[{bytes_in_message}];\n}};\n")
        self.run_command("cmake", "-G", "Ninja", "-S", clone, "-B", clone / "build", f"-DCMAKE_CXX_COMPILER={COMPILER}")
        self.run_command("cmake", "--build", clone / "build")
        return subprocess.run([str(clone / "build" / "probe")]).returncode

    def cache_hits(self):
        stats = dict(line.split("\t") for line in self.run_command("ccache", "--print-stats").splitlines())
        return int(stats["direct_cache_hit"]) + int(stats["preprocessed_cache_hit"])

    def test_later_builds_take_the_headers_of_their_own_clone(self):
        one, two = self.clone("one"), self.clone("two")
        self.assertEqual(self.size_after_build(one, 10), 10)
        self.assertEqual(self.size_after_build(two, 10), 10)
        self.assertEqual(self.size_after_build(one, 20), 20)
        self.assertEqual(self.size_after_build(two, 30), 30)
        self.assertEqual(self.size_after_build(two, 10), 10)
        self.assertEqual(self.size_after_build(two, 20), 20)

    @unittest.skipIf("clang" in COMPILER, "clang's precompiled headers differ with the folder they are made in")
    def test_a_second_clone_finds_what_the_first_compiled(self):
        self.assertEqual(self.size_after_build(self.clone("one"), 10), 10)
        before = self.cache_hits()
        self.assertEqual(self.size_after_build(self.clone("two"), 10), 10)
        self.assertGreaterEqual(self.cache_hits() - before, 2)  # the precompiled headers and the program's source


if __name__ == "__main__":
    if not shutil.which("ccache"):
        print("no ccache: skipped")
        sys.exit(77)
    unittest.main()
