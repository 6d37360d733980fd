#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What check_counts.py makes of counts: it needs neither valgrind nor a build."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import check_counts  # noqa: E402

HERE = {"compiler": "12.2.0", "valgrind": "valgrind-3.19.0"}


class DeviationsTest(unittest.TestCase):
    def test_within_the_tolerance_in_both_directions(self):
        self.assertEqual(check_counts.deviations({"a": 1000, "b": 1000}, {"a": 1020, "b": 980}), [])

    def test_more_and_fewer_are_both_told_with_their_share(self):
        self.assertEqual(check_counts.deviations({"a": 1000, "b": 2000}, {"a": 1021, "b": 1000}),
                         ["a: 2.1 % more instructions, 1,021 instead of 1,000",
                          "b: 50.0 % fewer instructions, 1,000 instead of 2,000"])

    def test_a_path_without_a_number_and_a_number_without_a_path(self):
        self.assertEqual(check_counts.deviations({"old": 1}, {"new": 1}),
                         ["new: counts.json has no number",
                          "old: counts.json has a number, but the program has no such path"])


class ProfileTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(check_counts.total_of("events: Ir\nfn=(1)\n1 5\n\ntotals: 1234\n"), 1234)

    def test_nothing_counted_is_a_failure(self):
        for profile in ("", "events: Ir\ntotals: 0\n"):
            with self.assertRaises(check_counts.Failure):
                check_counts.total_of(profile)


class CheckTest(unittest.TestCase):
    """The whole check, with counts that are handed in."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        kept = mock.patch.object(check_counts, "KEPT", os.path.join(folder.name, "counts.json"))
        kept.start()
        self.addCleanup(kept.stop)

    def run_with(self, function, counts, environment=None):
        out = io.StringIO()
        counts = iter(counts)
        with mock.patch.object(check_counts, "count", lambda program, path: next(counts)), contextlib.redirect_stdout(out):
            return function("program", ["a"], environment or HERE), out.getvalue()

    def test_counts_that_were_written_are_met(self):
        self.assertEqual(self.run_with(check_counts.update, [1000, 1000])[0], 0)
        self.assertEqual(self.run_with(check_counts.check, [1001])[0], 0)

    def test_a_slower_path_fails_and_the_command_is_told(self):
        self.run_with(check_counts.update, [1000, 1000])
        status, text = self.run_with(check_counts.check, [1100])
        self.assertEqual(status, 1)
        self.assertIn("a: 10.0 % more instructions", text)
        self.assertIn("--update", text)

    def test_another_compiler_skips_and_says_which(self):
        self.run_with(check_counts.update, [1000, 1000])
        with self.assertRaisesRegex(check_counts.Skip, "compiler is '13.0.0', and the numbers are for '12.2.0'"):
            self.run_with(check_counts.check, [1000], {**HERE, "compiler": "13.0.0"})

    def test_a_count_that_changes_by_itself_is_not_written(self):
        with self.assertRaisesRegex(check_counts.Failure, "changes by itself"):
            self.run_with(check_counts.update, [1000, 1010])
        self.assertFalse(os.path.exists(check_counts.KEPT))


class KeptTest(unittest.TestCase):
    def test_ten_paths_are_kept(self):
        with open(check_counts.KEPT, encoding="utf-8") as file:
            kept = json.load(file)
        self.assertEqual(len(kept["instructions"]), 10)
        self.assertTrue(all(instructions > 100_000 for instructions in kept["instructions"].values()))
        self.assertEqual(set(kept["environment"]), {"compiler", "flags", "libc", "highway", "valgrind"})


if __name__ == "__main__":
    unittest.main()
