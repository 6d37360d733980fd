#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the comparison of the default with forced orders and kernels reads tuning records and graphs, and what it computes from its samples:
no server, no GPU."""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import numpy as np

from bench.cuda import defaults


def candidate(kernel, ratio=0.0, measured=0.0, outcome="MEASURED", **parameters):
    return {"kernel": kernel, "parameters": [{"name": name, "value": value} for name, value in parameters.items()], "outcome": outcome,
            "predicted_seconds": 1e-3, "measured_seconds": measured, "ratio": ratio}  # fmt: skip


class Defaults(unittest.TestCase):
    def test_settings_name_what_is_not_the_kernels_own(self):
        self.assertEqual(defaults.spec_of(candidate("binned_rows", tile=32, scale_first=0)), "binned_rows:tile=32")
        self.assertEqual(defaults.spec_of(candidate("row_cache", cf=0)), "row_cache")

    def test_each_kernel_is_forced_as_tuning_found_it_best(self):
        candidates = [candidate("binned_rows", 1.0, 2e-4), candidate("binned_rows", 0.9, 2.1e-4, tile=64), candidate("binned_rows", tile=8),
                      candidate("dense_tiles", outcome="PRUNED"), candidate("dense_tiles", outcome="PRUNED", threshold=256),
                      candidate("row_cache", 0.0, 3e-4, cf=2), candidate("row_cache", 0.0, 4e-4, cf=1)]  # fmt: skip
        self.assertEqual(defaults.best_settings(candidates, ["source_panels", "row_cache"]),
                         {"binned_rows": "binned_rows:tile=64", "dense_tiles": "dense_tiles", "row_cache": "row_cache:cf=2",
                          "source_panels": "source_panels"})  # fmt: skip

    def test_a_refusal_is_told_by_its_reason(self):
        self.assertEqual(defaults.reason_of('x: {"message": "m", "fields": [{"description": "no tile is dense"}]}'), "no tile is dense")
        self.assertEqual(defaults.reason_of('x: r": {"message": "m"}'), "m")
        self.assertEqual(defaults.reason_of("broken pipe"), "broken pipe")

    def test_ratios_are_taken_within_rounds(self):
        default, other = [[10.0, 11.0, 12.0], [22.0], [33.0]], [[10.0], [20.0], [33.0]]
        self.assertAlmostEqual(defaults.paired_ratio(default, other), 1.1)
        self.assertAlmostEqual(defaults.spread(default), 3.0)

    def test_states_are_told_in_short(self):
        wide, narrow = ("sum", 64, "none"), ("sum", 41, "none")
        self.assertEqual(defaults.describe({}), "tuned")
        self.assertEqual(defaults.describe({wide: "row_cache", narrow: "row_cache"}), "row_cache")
        self.assertEqual(defaults.describe({wide: "row_cache", narrow: "dense_tiles"}), "sum 64: row_cache; sum 41: dense_tiles")

    def test_graphs_are_read_as_sources_and_targets(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.bin")
            with open(path, "wb") as file:
                file.write(np.array([3, 3], np.int64).tobytes() + np.array([0, 1, 1, 3, 2, 0, 1], np.int32).tobytes())
            edges, nodes = defaults.read_graph(path)
            self.assertEqual(nodes, 3)
            self.assertEqual(edges.tolist(), [[2, 0, 1], [0, 2, 2]])
            with open(path, "ab") as file:
                file.write(b"more")
            with self.assertRaisesRegex(ValueError, "does not fit 3 nodes and 3 edges"):
                defaults.read_graph(path)


class ServerDouble:
    """Answers what an Upload asks, and keeps the calls that change something."""

    def __init__(self, folder):
        self.folder, self.changes = folder, []

    def call(self, *arguments):
        words = list(arguments)
        if words[-1] == "refused":
            raise RuntimeError("refused")
        if words[:2] == ["graph", "upload"]:
            self.changes.append(words[4:])
            return {"node_count": 5}
        for changing in ("--force", "--import"):
            if changing in words:
                self.changes.append((changing, words[words.index("--widths") + 1] if "--widths" in words else "",
                                     words[-1] if changing == "--force" else ""))  # fmt: skip
        return {}


class Uploads(unittest.TestCase):
    def test_the_default_names_no_order(self):
        with tempfile.TemporaryDirectory() as folder:
            server = ServerDouble(folder)
            defaults.Upload(server, "Rand-1", defaults.DEFAULT, "file")
            defaults.Upload(server, "Rand-1", "rcm", "file")
        self.assertEqual(server.changes, [["rand-1-default"], ["rand-1-rcm", "--reorder", "rcm"]])

    def test_only_what_differs_is_forced_and_the_tuned_choice_comes_back(self):
        wide, narrow = ("sum", 64, "none"), ("sum", 41, "none")
        with tempfile.TemporaryDirectory() as folder:
            server = ServerDouble(folder)
            upload = defaults.Upload(server, "g", "none", "file")
            server.changes.clear()
            upload.put({})
            self.assertEqual(server.changes, [])
            upload.put({wide: "row_cache", narrow: "row_cache"})
            upload.put({wide: "row_cache", narrow: "dense_tiles"})
            self.assertEqual(server.changes, [("--force", "64", "row_cache"), ("--force", "41", "row_cache"), ("--force", "41", "dense_tiles")])
            server.changes.clear()
            upload.put({wide: "row_cache"})
            self.assertEqual(server.changes, [("--import", "", ""), ("--force", "64", "row_cache")])
            server.changes.clear()
            upload.put({})
            self.assertEqual(server.changes, [("--import", "", "")])

    def test_what_was_forced_before_a_refusal_is_taken_back(self):
        wide, narrow = ("sum", 64, "none"), ("sum", 41, "none")
        with tempfile.TemporaryDirectory() as folder:
            server = ServerDouble(folder)
            upload = defaults.Upload(server, "g", "none", "file")
            with self.assertRaises(RuntimeError):
                upload.put({wide: "row_cache", narrow: "refused"})
            server.changes.clear()
            upload.put({})
            self.assertEqual(server.changes, [("--import", "", "")])


if __name__ == "__main__":
    unittest.main()
