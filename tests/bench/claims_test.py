#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the comparison with published claims makes of its cells, counts and counters, on fixtures: no GPU."""

import os
import struct
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.cuda import claim_cells, claim_table


def run(kernel, us, parameters="", right=True):
    return {"kernel": kernel, "parameters": parameters, "right": right, "median_us": us, "p10_us": us - 1, "p90_us": us + 1}


def cell(graph, operation, width, kernels, order="none", peers=()):
    return {
        "graph": graph, "order": order, "operation": operation, "width": width, "edges": 1000, "dram_floor_us": 5.0,
        "gather_floor_us": 8.0, "cusparse_sum_us": 40.0, "kernels": kernels,
        "peers": [{"algorithm": a, "right": True, "median_us": us, "p10_us": us, "p90_us": us} for a, us in peers],
    }


def cells(*some):
    return claim_cells.Cells([{"copy_bytes_per_second": 4e12, "cells": list(some)}])


def claim(text):
    return next(one for one in claim_table.CLAIMS if one.text == text)


class CellsTest(unittest.TestCase):
    def test_the_fastest_right_run_and_the_named_configuration(self):
        found = cells(cell("g", "sum", 64, [
            run("row_cache", 9.0), run("row_cache", 4.0, "cf=2 uncached=0"), run("row_cache", 1.0, "cf=4 uncached=0", False),
            {"kernel": "row_cache", "refused": "no"}]))
        self.assertEqual(found.kernel("g", "none", "sum", 64, "row_cache").us, 4.0)
        self.assertEqual(found.kernel("g", "none", "sum", 64, "row_cache", {}).us, 9.0)
        self.assertEqual(found.kernel("g", "none", "sum", 64, "row_cache", {"cf": 2}).name, "row_cache cf=2 uncached=0")
        self.assertIsNone(found.kernel("g", "none", "sum", 64, "row_cache", {"cf": 4}))
        self.assertIsNone(found.kernel("g", "rcm", "sum", 64, "row_cache"))

    def test_runs_on_one_problem_are_joined(self):
        found = cells(cell("g", "sum", 64, [run("a", 2.0)]), cell("g", "sum", 64, [run("b", 3.0)]))
        self.assertEqual(found.kernel("g", "none", "sum", 64, "a").us, 2.0)
        self.assertEqual(found.kernel("g", "none", "sum", 64, "b").us, 3.0)

    def test_cusparse_by_algorithm(self):
        found = cells(cell("g", "sum", 64, [], peers=[("csr_alg2", 12.0), ("csr_alg3", 10.0)]))
        self.assertEqual(found.cusparse("g", "none", "sum", 64).us, 10.0)
        self.assertEqual(found.cusparse("g", "none", "sum", 64, "csr_alg2").us, 12.0)
        self.assertIsNone(found.cusparse("g", "none", "sum", 64, "csr_alg1"))


class CountsTest(unittest.TestCase):
    def test_additions_by_hand(self):
        # Groups of 2, three to a block: rows of 5, 0, 1 and 4 edges have 3, 1, 1 and 2 groups: |AAA|BCD|D|.
        self.assertEqual(claim_cells.additions([5, 0, 1, 4], 2, 3), (7, 5))
        self.assertEqual(claim_cells.additions([5, 0, 1, 4], 2, 1), (7, 7))
        self.assertEqual(claim_cells.additions([5, 0, 1, 4], 2, 100), (7, 4))

    def test_row_lengths_of_a_graphs_file(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(struct.pack("<qq4i3i", 3, 3, 0, 2, 2, 3, 1, 2, 0))
            file.flush()
            self.assertEqual(claim_cells.row_lengths(file.name), [2, 0, 1])

    def test_the_table_of_counts(self):
        self.assertIn("| g | 4 | 64 | 6,400 | 3,200 | 50 % |", claim_table.count_table([("g", 4, 64, 100, 50)]))


class CountersTest(unittest.TestCase):
    def test_medians_by_kernel(self):
        name = "void vicinal::cuda::<unnamed>::RowCache<2, 1>(vicinal::cuda::<unnamed>::Params)"
        lines = ["==PROF== Connected", '"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_read.max"', '"","","byte","byte"']
        lines += [f'"{i}","{name}","{value}","7"' for i, value in enumerate(("1,000", "3000", "2000"))]
        counters = claim_cells.read_counters(lines + ["==WARNING== some"], ("dram__bytes_read.sum",))
        self.assertEqual(counters, {"RowCache<2, 1>": {"dram__bytes_read.sum": 2000.0}})

    def test_names_without_template_arguments_and_with_nested_ones(self):
        for long, short in (("vicinal::cuda::Plain(Params)", "Plain"), ("void unnamed>::Rows<unnamed>::Layout<4, 32>>(unnamed>::Params)", "Rows<Layout<4, 32>>")):
            lines = ['"Kernel Name","m__a.sum"', '"","byte"', f'"{long}","1"']
            self.assertEqual(list(claim_cells.read_counters(lines, ("m__a.sum",))), [short])

    def test_a_log_without_counters(self):
        self.assertEqual(claim_cells.read_counters(["==ERROR== LibraryNotLoaded"], ()), {})


class ClaimsTest(unittest.TestCase):
    def test_a_mean_is_held_against_the_published_mean(self):
        caching = claim("coalesced row caching")
        found = cells(*[cell(graph, "sum_weighted", 512, [run("row_cache", us, "cf=0 uncached=1"), run("row_cache", 10.0, "cf=1 uncached=0")])
                        for graph, us in (("cora", 10.0), ("pubmed", 40.0))])
        some = claim_table.ratios(caching, found)
        figure, holds = claim_table.outcome(caching, some)
        self.assertAlmostEqual(figure, 2.0)
        self.assertTrue(holds)
        self.assertAlmostEqual(some[1].low, 39.0 / 11.0)
        self.assertIn("| cora, pubmed; 512 | 2.00 mean | 0.82 to 4.56 | yes |", claim_table.table(found))

    def test_up_to_is_the_most(self):
        tree = claim("tree reduction, dot-product attention")
        found = cells(*[cell("rand-100K", "edge_dot", width, [run("template_sddmm", 10.0), run("template_sddmm", us, "serial=1")])
                        for width, us in ((64, 12.0), (128, 19.0))])
        figure, holds = claim_table.outcome(tree, claim_table.ratios(tree, found))
        self.assertAlmostEqual(figure, 1.9)
        self.assertFalse(holds)

    def test_what_was_not_measured_is_said(self):
        self.assertIn("| not measured | - | - |", claim_table.table(cells()))
        self.assertEqual(claim_table.details(cells()), "")

    def test_hybrid_partitioning_is_against_the_same_kernel_without(self):
        found = cells(cell("rand-100K-out", "sum", 128, [run("template_spmm", 30.0), run("template_spmm", 20.0, "degree=960")]))
        hybrid = claim("hybrid partitioning by degree")
        figure, _ = claim_table.outcome(hybrid, claim_table.ratios(hybrid, found))
        self.assertAlmostEqual(figure, 1.5)

    def test_edge_wise_attention_is_three_kernels(self):
        attention = claim("attention (GAT) over DGL, inference")
        found = cells(cell("reddit", "edge_dot", 64, [run("template_sddmm", 50.0, "serial=1")]),
                      cell("reddit", "dot_1", 64, [run("fused_rows", 10.0)]))
        # 50 us of products, 40 us of cuSPARSE, 1,000 edges * 20 bytes at 4 TB/s: 0.005 us.
        self.assertAlmostEqual(claim_table.ratios(attention, found)[0].value, 9.0005)

    def test_whole_models_are_told_where_they_were_measured(self):
        some = [{"graph": "cora", "model": "gat", "ratio": 18.71}, {"graph": "cora", "model": "gcn", "ratio": 1.3}]
        self.assertIn("times PyTorch Geometric: cora 18.7\n", claim_table.models_line(some))
        self.assertEqual(claim_table.models_line([{"graph": "cora", "model": "gat"}]), "")

    def test_whole_models_are_held_against_the_form_of_the_paper(self):
        timing = {"median_us": 100.0, "p10_us": 90.0, "p90_us": 110.0}
        peers = {"edge_index": {**timing, "median_us": 5000.0, "us": 5000.0}, "CSR": {**timing, "median_us": 300.0, "us": 300.0}}
        models = [{"graph": "molecules", "model": "gcn", "device": "cuda:0", "ours": timing, "peers": peers,
                   "best_peer": "CSR", "ratio": 3.0}]
        found = claim_cells.Cells([], models)
        for text, value in (("GCN over PyG, graphs of type II", 50.0), ("GCN over PyG's fastest form, graphs of type II", 3.0)):
            one = claim(text)
            figure, holds = claim_table.outcome(one, claim_table.ratios(one, found))
            self.assertAlmostEqual(figure, value)
            self.assertEqual(holds, None if one.at_least is None else True)
        self.assertIn("molecules model: 50.00", claim_table.details(found))
        self.assertEqual(found.model("cpu", "molecules", "gcn"), (None, None))

    def test_a_form_that_was_dropped_counts_with_its_first_run(self):
        timing = {"median_us": 100.0, "p10_us": 90.0, "p90_us": 110.0}
        cell_of = {"graph": "g", "model": "gcn", "ours": timing, "best_peer": "CSR", "ratio": 1.0,
                   "peers": {"edge_index": {"us": 900.0}, "CSR": {**timing, "us": 100.0}, "lost": {"failed": "no memory"}}}
        found = claim_cells.Cells([], [cell_of])
        self.assertEqual(found.model("cuda:0", "g", "gcn", "edge_index")[0].us, 900.0)
        self.assertEqual(found.model("cuda:0", "g", "gcn", "lost"), (None, None))

    def test_threads_and_settings_of_a_cpu(self):
        timing = {"p10_us": 1.0, "p90_us": 1.0}
        cpu = [{"what": what, "threads": threads, "width": width, "median_us": us, **timing}
               for what, threads, width, us in (("neither", 16, 512, 300.0), ("both", 16, 512, 150.0), ("both", 16, 128, 50.0),
                                                ("both", 1, 128, 600.0), ("torch", 1, 128, 900.0))]
        found = claim_cells.Cells([], cpu=cpu)
        for text, value in (("CPU: tiles and partitions", 2.0), ("CPU: 16 threads over one", 12.0), ("CPU: over MKL, one thread", 1.5)):
            one = claim(text)
            self.assertAlmostEqual(claim_table.ratios(one, found)[0].value, value)
        self.assertEqual(claim_table.ratios(claim("CPU: tiles of features alone"), found), [])

    def test_dual_mode_is_held_against_nothing_dense(self):
        found = cells(cell("rmat5", "sum", 64, [run("partition_dual", 90.0, "theta=1001 parts=0 selective=1"),
                                                run("partition_dual", 60.0, "theta=1001 parts=0 selective=0"),
                                                run("partition_dual", 30.0, "theta=40 parts=0 selective=0")]))
        for text, value in (("dual mode over selective alone, as published", 3.0), ("dual mode over selective alone, ours", 2.0)):
            self.assertAlmostEqual(claim_table.ratios(claim(text), found)[0].value, value)

    def test_figures_without_a_measurement_say_why(self):
        self.assertIn("| 1.42 to 1.81 mean | - | not measured: GraphBLAST is not on the machine |", claim_table.table(cells()))

    def test_every_graph_and_study_is_known(self):
        for study in claim_table.STUDIES:
            self.assertLessEqual(set(study.graphs), set(claim_table.GRAPHS))
        for one in claim_table.CLAIMS:
            self.assertLessEqual(set(one.graphs), set(claim_table.GRAPHS))


if __name__ == "__main__":
    unittest.main()
