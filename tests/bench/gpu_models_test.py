#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the comparison of whole models computes from its samples, on fixtures: no PyTorch, no GPU."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.cuda import model_cells


def measured(graph="cora", model="gcn", ours=(10.0, 12.0), waited=(40.0, 48.0), queued=(30.0, 36.0)):
    cell = {"graph": graph, "model": model, "peers": {"CSR": {"us": 41.0}, "edge_index": {"failed": "no memory"}}}
    return model_cells.verdict(
        cell,
        {"waited": [[us] for us in ours]},
        {"CSR": {"waited": [[us] for us in waited], "queued": [[us] for us in queued]}},
    )


class ModelCells(unittest.TestCase):
    def test_ratios_are_the_peers_time_by_ours(self):
        cell = measured()
        self.assertEqual(cell["best_peer"], "CSR")
        self.assertAlmostEqual(cell["ratio"], 4.0)
        self.assertAlmostEqual(cell["queued_ratio"], 3.0)
        self.assertIn("ratio 4.00, queued 3.00", model_cells.line(cell))

    def test_queued_runs_are_compared_with_queued_ones(self):
        cell = {"graph": "cora", "model": "gcn", "peers": {"CSR": {"us": 41.0}}}
        ours = {"waited": [[20.0], [20.0]], "queued": [[10.0, 12.0], [12.0, 14.0]]}
        model_cells.verdict(cell, ours, {"CSR": {"waited": [[40.0], [40.0]], "queued": [[36.0], [36.0]]}})
        self.assertAlmostEqual(cell["ours"]["queued_us"], 12.0)
        self.assertAlmostEqual(cell["ratio"], 2.0)
        self.assertAlmostEqual(cell["queued_ratio"], 3.0)
        self.assertIn("queued 12.0", model_cells.line(cell))

    def test_a_cell_without_peers_is_shown_and_not_counted(self):
        cell = {"graph": "reddit", "model": "sagemax", "peers": {"edge_index": {"failed": "needs 257 GiB"}}}
        model_cells.verdict(cell, {"waited": [[5.0]]}, {})
        self.assertNotIn("ratio", cell)
        self.assertIn("needs 257 GiB", model_cells.line(cell))
        text = model_cells.summary([measured(), cell])
        self.assertIn("| reddit | 602-64-41 |  | 5 / - |", text)
        self.assertIn("All 1 cells: 4.00", text)

    def test_means_are_geometric(self):
        text = model_cells.summary([measured(), measured("pubmed", waited=(10.0, 12.0), queued=())])
        self.assertIn("| geometric mean | | 2.00 (lowest 1.00) |", text)
        self.assertIn("| cora | 1433-16-7 | 11 / 44 = 4.00 (3.00) |", text)
        self.assertIn("| pubmed | 500-16-3 | 11 / 11 = 1.00 |", text)

    def test_architectures_are_two_layers_of_the_listed_widths(self):
        self.assertEqual(
            model_cells.architecture("sagemax", "reddit"),
            {
                "class": "torch_geometric.nn.models.GraphSAGE",
                "kwargs": {"in_channels": 602, "hidden_channels": 64, "num_layers": 2, "out_channels": 41, "aggr": "max"},
            },
        )
        layers = model_cells.architecture("gat", "cora")["layers"]
        self.assertEqual([layer["name"] for layer in layers], ["conv1", "act", "conv2"])
        self.assertEqual(layers[2]["args"], {"in_channels": 64, "out_channels": 7})

    def test_edge_buffers_count_the_widest_messages(self):
        self.assertEqual(model_cells.edge_buffer_bytes("sage", "reddit", 1000), 4 * 1000 * 602)
        self.assertEqual(model_cells.edge_buffer_bytes("gcn", "reddit", 1000), 4 * 1000 * 64 * 2)
        self.assertEqual(model_cells.edge_buffer_bytes("gat", "proteins", 1000), 4 * 1000 * 112 * 2)


if __name__ == "__main__":
    unittest.main()
