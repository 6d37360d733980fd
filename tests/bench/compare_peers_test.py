#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the comparison with peers computes from its samples, on fixtures: no PyTorch, no timing."""

import math
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.peers import cells, figures, report, workers

try:
    import numpy as np

    from bench.peers import exchange
except ImportError:
    np = None


def measured(name="sum", threads=1, ours=(10.0, 12.0), peer=(20.0, 24.0), **fields):
    cell = {
        "graph": "g",
        "kind": "aggregate",
        "name": name,
        "reduce": "sum",
        "weighted": False,
        "width": 16,
        "threads": threads,
        "peers": {"slow": {"screened_us": 999.0}, "peer": {"screened_us": 21.0}},
        "floors": {"memory_us": 5.0, "gather_us": 2.5},
        **fields,
    }
    return figures.cell_verdict(cell, {"ours": [[us] for us in ours], "peer": [[us] for us in peer]})


class Figures(unittest.TestCase):
    def test_percentile_is_linear_between_neighbours(self):
        samples = [4.0, 1.0, 3.0, 2.0]
        self.assertEqual(figures.percentile(samples, 0.0), 1.0)
        self.assertEqual(figures.percentile(samples, 1.0), 4.0)
        self.assertEqual(figures.percentile(samples, 0.5), 2.5)
        self.assertAlmostEqual(figures.percentile(samples, 0.1), 1.3)
        self.assertEqual(figures.percentile([7.0], 0.9), 7.0)
        with self.assertRaises(ValueError):
            figures.percentile([], 0.5)

    def test_geometric_mean(self):
        self.assertAlmostEqual(figures.geometric_mean([2.0, 8.0]), 4.0)
        self.assertAlmostEqual(figures.geometric_mean([0.5, 2.0]), 1.0)
        self.assertAlmostEqual(figures.geometric_mean([1e-200] * 3), 1e-200, delta=1e-210)
        for bad in ([], [1.0, 0.0], [1.0, -1.0]):
            with self.assertRaises(ValueError):
                figures.geometric_mean(bad)

    def test_interpolation_is_linear_in_the_logarithm_and_constant_outside(self):
        xs, ys = [1024, 4096, 16384], [100.0, 80.0, 20.0]
        self.assertEqual(figures.interpolate(xs, ys, 1), 100.0)
        self.assertEqual(figures.interpolate(xs, ys, 1 << 30), 20.0)
        self.assertEqual(figures.interpolate(xs, ys, 4096), 80.0)
        self.assertAlmostEqual(figures.interpolate(xs, ys, 2048), 90.0)
        self.assertAlmostEqual(figures.interpolate(xs, ys, 8192), 50.0)

    def test_floors_count_the_bytes_that_must_move(self):
        # 10 nodes, 40 edges, width 16: 160 of ids, 80 of offsets, 2 x 640 of rows.
        self.assertEqual(figures.aggregation_bytes(10, 40, 16, False), 160 + 80 + 1280)
        self.assertEqual(figures.aggregation_bytes(10, 40, 16, True), 320 + 80 + 1280)
        speeds = {"copy": 1e9, "working_sets": [512, 1024], "read": [4e9, 2e9]}
        floors = figures.aggregation_floors(10, 40, 16, False, speeds)
        self.assertAlmostEqual(floors["memory_us"], 1.52)
        read = 4e9 - 2e9 * math.log(640 / 512) / math.log(2)
        self.assertAlmostEqual(floors["gather_us"], 40 * 64 / read * 1e6)

    def test_the_ratio_is_paired_so_that_a_slow_phase_of_the_machine_cancels(self):
        ours = [[10.0, 11.0, 12.0], [30.0, 33.0, 36.0], [10.0, 11.0, 12.0]]
        peer = [[22.0], [66.0], [44.0]]
        self.assertAlmostEqual(figures.paired_ratio(ours, peer), 2.0)

    def test_verdict_names_the_best_peer_and_both_floors(self):
        cell = measured(ours=(10.0, 12.0), peer=(20.0, 24.0))
        self.assertEqual(cell["best_peer"], "peer")
        self.assertAlmostEqual(cell["ratio"], 2.0)
        self.assertEqual(cell["ours"]["median_us"], 11.0)
        self.assertEqual(cell["ours"]["samples"], 2)
        self.assertAlmostEqual(cell["over_memory_floor"], 2.2)
        self.assertAlmostEqual(cell["over_gather_floor"], 4.4)
        self.assertNotIn("median_us", cell["peers"]["slow"])  # screened out: named, not compared

    def test_processor_time_has_a_ratio_and_a_best_peer_of_its_own(self):
        cell = {"peers": {"a": {}, "b": {}}}
        figures.cell_verdict(cell, {"ours": [[10.0], [20.0]], "a": [[20.0], [40.0]], "b": [[30.0], [60.0]]})
        figures.add_processor_time(cell, {"ours": [[5.0], [5.0]], "a": [[20.0], [20.0]], "b": [[15.0], [15.0]]})
        self.assertEqual((cell["best_peer"], cell["ratio"]), ("a", 2.0))
        self.assertEqual((cell["best_peer_by_processor"], cell["processor_ratio"]), ("b", 3.0))
        self.assertEqual(cell["ours"]["processor_median_us"], 5.0)
        self.assertEqual(cell["peers"]["a"]["processor_ratio"], 4.0)
        self.assertIn("of processor time 3.00 (b)", report.line({**cell, "graph": "g", "name": "GINEConv", "edge_dim": 4, "threads": 1}))

    def test_only_peers_that_cannot_win_are_not_tried_again(self):
        known = {
            "peers": {
                "best": {"screened_us": 10.0, "median_us": 9.0},
                "near": {"screened_us": 49.0},
                "far": {"screened_us": 51.0},
                "broken": {"failed": "no"},
            }
        }
        self.assertEqual(set(figures.slow_peers(known, 2.5)), {"far", "broken"})
        self.assertEqual(figures.slow_peers(None, 2.5), {})

    def test_a_cell_without_a_peer_has_no_ratio(self):
        cell = figures.cell_verdict({"peers": {"a": {"failed": "no"}}}, {"ours": [[1.0]]})
        self.assertNotIn("ratio", cell)


class Cells(unittest.TestCase):
    def test_every_cell_has_a_key_of_its_own(self):
        kinds = [*cells.AGGREGATIONS, *cells.FORWARDS]
        listed = [
            {**c, "threads": t}
            for g in ("a", "b")
            for t in (1, 2)
            for c in cells.enumerate_cells(g, kinds, cells.WIDTHS)
        ]
        self.assertEqual(len(listed), 2 * 2 * (4 * 6 + 5))
        self.assertEqual(len({cells.cell_key(c) for c in listed}), len(listed))

    def test_only_the_kinds_asked_for(self):
        listed = cells.enumerate_cells("a", ["max", "gat"], [16, 32])
        self.assertEqual([(c["name"], c.get("width")) for c in listed], [("max", 16), ("max", 32), ("gat", None)])

    def test_layers_with_features_of_edges_have_a_cell_for_each_number_of_features(self):
        listed = cells.enumerate_cells("a", ["gat", "GINEConv", "CGConv"], [16], [4, 16])
        named = [("gat", None), ("GINEConv", 4), ("CGConv", 4), ("GINEConv", 16), ("CGConv", 16)]
        self.assertEqual([(c["name"], c.get("edge_dim")) for c in listed], named)
        self.assertEqual(len({cells.cell_key({**c, "threads": 1}) for c in listed}), len(listed))

    def test_a_data_set_gets_features_of_edges_and_dense_features(self):
        if np is None:
            self.skipTest("without numpy")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "g.npz")
            np.savez(path, edge_index=np.array([[0, 1, 2], [1, 2, 0]]), x=np.ones((3, 5)))
            plain, featured = exchange.load_dataset(path), exchange.load_dataset(path, 8, 4)
        self.assertNotIn("edge_attr", plain["tensors"])
        self.assertEqual((plain["features"], featured["features"]), (5, 8))
        self.assertEqual(featured["tensors"]["edge_attr"].shape, (3, 4))
        self.assertEqual(featured["tensors"]["x"].shape, (3, 8))

    def test_a_trained_model_is_taken_where_its_width_is_the_graphs(self):
        models = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "models")
        architecture, weights, content = cells.model_files(
            models, "/scratch", {"name": "cora", "features": 1433}, "gcn"
        )
        self.assertTrue(os.path.exists(architecture) and os.path.exists(weights))
        self.assertIsNone(content)
        for graph in ({"name": "cora", "features": 7}, {"name": "unknown", "features": 1433}):
            architecture, _, content = cells.model_files(models, "/scratch", graph, "gcn")
            self.assertTrue(architecture.startswith("/scratch/"))
            self.assertEqual(content["kwargs"]["in_channels"], graph["features"])


class Report(unittest.TestCase):
    def test_summary_has_means_and_names_what_is_too_slow(self):
        text = report.summary([measured(peer=(20.0, 24.0)), measured(name="max", peer=(5.0, 6.0))])
        self.assertIn("| 1 | aggregate, all | 2 | 1.00 | 0.50 | 2.20 | 4.40 | 1 |", text)
        self.assertIn("| g max 16, 1 thread | 11.0 | 5.5 | 0.50 | 2.20 | 4.40 | peer |", text)
        self.assertNotIn("| g sum 16, 1 thread |", text)

    def test_line(self):
        self.assertIn("ratio 2.00 (peer)", report.line(measured()))


class Workers(unittest.TestCase):
    ECHO = """import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["op"] == "end":
        break
    print(json.dumps({"ok": request["op"] != "bad", "error": "no such thing", "got": request}), flush=True)
"""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        script = os.path.join(self.folder.name, "echo.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(self.ECHO)
        self.process = workers.Process([sys.executable, script])

    def tearDown(self):
        self.process.close()
        self.process.process.stdout.close()
        self.folder.cleanup()

    def test_fields_arrive_and_errors_come_back(self):
        self.assertEqual(self.process.ask("time", most=3)["got"], {"op": "time", "most": 3})
        with self.assertRaisesRegex(workers.WorkerError, "no such thing"):
            self.process.ask("bad")

    def test_a_worker_that_ended_is_an_error(self):
        with self.assertRaisesRegex(workers.WorkerError, "ended"):
            self.process.ask("end")


if __name__ == "__main__":
    unittest.main()
