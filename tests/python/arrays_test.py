#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs of other libraries, ids and checksums of the Python client; nothing is sent."""

import os
import tempfile
import unittest

import numpy as np

import vicinal
from data import needs
from vicinal._crc32c import numpy_crc32c
from vicinal._messages import message
from vicinal._tensors import BFLOAT16, features
from vicinal._upload import encode_chunk
from vicinal.graphs import graph_batch
from vicinal.ids import rows_or_ids


def slow_crc32c(data):
    """Bit by bit, as RFC 3720 defines it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Crc32cTest(unittest.TestCase):
    def test_is_castagnolis(self):
        self.assertEqual(numpy_crc32c(b"123456789"), 0xE3069283)  # RFC 3720's check value
        self.assertEqual(numpy_crc32c(bytes(32)), 0x8A9136AA)
        self.assertEqual(numpy_crc32c(b""), 0)

    def test_of_every_length_that_lanes_divide_differently(self):
        data = np.random.default_rng(3).integers(0, 256, 400_000, dtype=np.uint8).tobytes()
        for length in (1, 1023, 65_535, 131_071, 131_072, 131_073, 200_001, 262_144, 400_000):
            self.assertEqual(numpy_crc32c(data[:length]), slow_crc32c(data[:length]), length)

    @needs("google_crc32c")
    def test_equals_google_crc32c(self):
        import google_crc32c
        data = os.urandom(300_001)
        self.assertEqual(numpy_crc32c(data), google_crc32c.value(data))


class ChunkTest(unittest.TestCase):
    def test_reads_as_protobuf_writes_it(self):
        for size in (0, 1, 127, 128, 70_000):
            piece = os.urandom(size)
            for kind in ("UploadGraphRequest", "UploadFeaturesRequest", "UploadModelRequest"):
                request = message(kind).FromString(encode_chunk("x_values", 5_000_000_000, piece))
                self.assertEqual(request.WhichOneof("message"), "chunk")
                self.assertEqual((request.chunk.tensor, request.chunk.offset_bytes, request.chunk.data), ("x_values", 5_000_000_000, piece))
                self.assertEqual(request.chunk.crc32c, slow_crc32c(piece))


class IdsTest(unittest.TestCase):
    def test_digest_is_the_crc_of_lines(self):
        self.assertEqual(vicinal.Ids(["ann", "bob"]).digest, f"crc32c:{slow_crc32c(b'ann' + bytes([10]) + b'bob' + bytes([10])):08x}")

    def test_maps_there_and_back(self):
        ids = vicinal.Ids([30, 10, 20])
        self.assertEqual(ids.rows(["10", 30]).tolist(), [1, 0])
        self.assertEqual(ids.rows(np.array([20])).tolist(), [2])
        self.assertEqual(ids.nodes([2, 0]), [20, 30])

    def test_bad_ids(self):
        for bad, told in (([1, "1"], "occurs twice, for row 0 and for row 1"), (["a", ""], "row 1 is empty"), (["a\nb"], "line break")):
            with self.assertRaisesRegex(vicinal.InputError, told):
                vicinal.Ids(bad)
        with self.assertRaisesRegex(vicinal.IdsError, "'zoe' is not among the 1 ids"):
            vicinal.Ids(["ann"]).rows(["zoe"])

    def test_file_keeps_odd_ids(self):
        odd = ["Doe, John", 'say "hi"', '"quoted"', " blank", "ü", "#1", "x"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ids.txt")
            vicinal.Ids(odd).save(path, "g")
            self.assertEqual([vicinal.Ids.load(path)[row] for row in range(len(odd))], odd)
            for bad in ("a\n\nb\n", "a,b\n"):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(bad)
                with self.assertRaisesRegex(vicinal.InputError, "is not one id"):
                    vicinal.Ids.load(path)

    def test_rows_need_no_map(self):
        self.assertIsNone(rows_or_ids([0, 1, 2]))
        self.assertEqual(len(rows_or_ids(["0", "1"])), 2)
        self.assertEqual(len(rows_or_ids([1, 0])), 2)


class GraphArraysTest(unittest.TestCase):
    def test_edge_index(self):
        graph = vicinal.graph_arrays([[0, 1], [1, 3]])
        self.assertEqual((graph.num_nodes, graph.edge_index.values.tolist(), graph.ids), (4, [[0, 1], [1, 3]], None))
        self.assertEqual(vicinal.graph_arrays(np.zeros((2, 0)), num_nodes=3).num_nodes, 3)
        wide = vicinal.graph_arrays(np.array([[0], [1]], order="F", dtype=np.uint8), x=np.ones((2, 3)))
        self.assertEqual((wide.edge_index.values.dtype, wide.x.dense.values.dtype), (np.int64, np.float32))

    def test_large_arrays_are_not_copied(self):
        edges, x = np.zeros((2, 5), dtype=np.int32), np.zeros((4, 2), dtype=np.float16)
        graph = vicinal.graph_arrays(edges, x=x)
        self.assertTrue(np.shares_memory(graph.edge_index.values, edges))
        self.assertTrue(np.shares_memory(graph.x.dense.values, x))

    def test_labels(self):
        graph = vicinal.graph_arrays([["bob", "ann"], ["ann", "cid"]], edge_weight=[1, 2])
        self.assertEqual([graph.ids[row] for row in range(3)], ["bob", "ann", "cid"])
        self.assertEqual(graph.edge_index.values.tolist(), [[0, 1], [1, 2]])
        graph = vicinal.graph_arrays([["bob"], ["ann"]], ids=["ann", "cid", "bob"], x=np.eye(3))
        self.assertEqual((graph.num_nodes, graph.edge_index.values.tolist()), (3, [[2], [0]]))

    def test_reverse_edges_as_the_command_line_adds_them(self):
        graph = vicinal.graph_arrays([[0, 0, 1, 2, 3], [1, 1, 2, 1, 3]], edge_weight=[5, 6, 7, 8, 9], undirected=True)
        self.assertEqual(graph.edge_index.values.tolist(), [[0, 0, 1, 2, 3, 1], [1, 1, 2, 1, 3, 0]])
        self.assertEqual(graph.edge_weight.values.tolist(), [5, 6, 7, 8, 9, 5])

    def test_features_of_edges(self):
        graph = vicinal.graph_arrays([[0, 1, 2], [1, 2, 2]], edge_attr=np.arange(6).reshape(3, 2), undirected=True)
        self.assertEqual(graph.edge_attr.values.tolist(), [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3]])
        self.assertEqual(str(graph.edge_attr.values.dtype), "float32")
        self.assertEqual(vicinal.graph_arrays([[0], [1]], edge_attr=[7]).edge_attr.values.tolist(), [[7]])
        self.assertIsNone(vicinal.graph_arrays([[0], [1]]).edge_attr)
        for value, message in ((np.ones((2, 2)), "edge_attr has 2 rows, edge_index 1"), ([[np.nan]], r"edge_attr\[0, 0\]"),
                               (np.ones((1, 1, 1)), "2 dimensions are needed"), ("rating", "features of edges are needed")):
            with self.assertRaisesRegex(vicinal.InputError, message):
                vicinal.graph_arrays([[0], [1]], edge_attr=value)

    def test_bad_input_is_told_where(self):
        cases = [(([[0, 1]],), {}, "is no graph"), (([[0], [9]],), {"num_nodes": 3}, "edge 0 is 0 -> 9, outside 0..2"),
                 (([[0.5], [1]],), {}, "has the type float64; integers are needed"),
                 (([[0], [1]],), {"x": np.ones((3, 1)), "num_nodes": 2}, "x has 3 rows, but the graph has 2 nodes"),
                 (([[0], [1]],), {"x": np.ones(2)}, "2 dimensions are needed"),
                 (([[0], [1]],), {"x": [["a"], ["b"]]}, "numbers are needed"),
                 (([[0], [1]],), {"edge_weight": [1, 2]}, "edge_weight has 2 entries, edge_index 1"),
                 (([[0], [1]],), {"x": [[1, 2], [3, np.nan]]}, r"x\[1, 1\] is NaN"), (([[0], [1]],), {"x": [[1e300], [0]]}, r"x\[0, 0\].*float32"),
                 (([[0], [1]],), {"x": np.array([[0], [-np.inf]], np.float16)}, r"x\[1, 0\]"),
                 (([[0], [1]],), {"edge_weight": [np.inf]}, r"edge_weight\[0\]"),
                 (([[0], [1]],), {"ids": ["a"]}, "outside 0..0"),
                 (([["a"], ["b"]],), {"x": np.ones((2, 1))}, "pass ids"), ((object(),), {}, "is no graph|not an array"),
                 (([[0, 1], [1, 2], [2, 0]],), {}, r"of shape \[3, 2\] is no graph.*Pass its transpose"),
                 ((np.zeros((3, 4), int),), {}, "PyG Data is needed$"), (("graph.npz",), {}, "'graph.npz' is a path"),
                 (([[0], [2]],), {"x": np.ones((2, 1))}, "edge 0 is 0 -> 2, but x has only the rows 0..1"),
                 (([[0], [-1]],), {"x": np.ones((2, 1))}, "edge 0 is 0 -> -1, outside 0..1"),
                 (([(0, 1), (1, 2)],), {}, "could be two edges"), ((None,), {}, "the graph is None")]
        largest = np.full((2, (1 << 20) + 1), np.finfo(np.float32).max, np.float32)
        vicinal.graph_arrays([[0], [1]], x=largest)
        largest[1, 7] = np.nan
        cases.append((([[0], [1]],), {"x": largest}, r"x\[1, 7\]"))
        for arguments, options, told in cases:
            with self.assertRaisesRegex(vicinal.InputError, told, msg=str(options)):
                vicinal.graph_arrays(*arguments, **options)

    def test_batches(self):
        batch = graph_batch([([[0], [1]], np.ones((2, 3))), ([[1, 0], [0, 0]], np.zeros((2, 3)))])
        self.assertEqual((batch.ptr.values.tolist(), batch.edge_index.values.tolist()), ([0, 2, 4], [[0, 3, 2], [1, 2, 2]]))
        for bad, told in (([], "no graphs"), ([([[0], [1]], np.ones((2, 3))), ([[0], [0]], np.ones((1, 4)))], "different widths"),
                          ([[[0], [1]]], "graph 0 has no dense features|is no graph")):
            with self.assertRaisesRegex(vicinal.InputError, told):
                graph_batch(bad)


class LibrariesTest(unittest.TestCase):
    @needs("scipy")
    def test_scipy(self):
        from scipy import sparse
        matrix = sparse.coo_matrix(([1.0, 2.0], ([0, 2], [1, 0])), shape=(3, 3))  # 1 -> 0, 0 -> 2
        graph = vicinal.graph_arrays(matrix.tocsr(), x=sparse.csr_matrix(np.diag([1.0, 0, 3])))
        self.assertEqual(graph.edge_index.values.tolist(), [[1, 0], [0, 2]])
        self.assertEqual(graph.edge_weight.values.tolist(), [1, 2])
        self.assertEqual((graph.x.columns, graph.x.indptr.values.tolist(), graph.x.indices.values.tolist()), (3, [0, 1, 1, 2], [0, 2]))
        with self.assertRaisesRegex(vicinal.InputError, "square"):
            vicinal.graph_arrays(sparse.csr_matrix(np.ones((2, 3))))

    @needs("networkx")
    def test_networkx(self):
        import networkx
        graph = networkx.Graph()
        graph.add_node("ann", h=[1.0, 2.0])
        graph.add_node("bob", h=[3.0, 4.0])
        graph.add_edge("ann", "bob", weight=0.5)
        arrays = vicinal.graph_arrays(graph, x="h", edge_weight="weight")
        self.assertEqual(arrays.edge_index.values.tolist(), [[0, 1], [1, 0]])
        self.assertEqual(arrays.edge_weight.values.tolist(), [0.5, 0.5])
        self.assertEqual(arrays.x.dense.values.tolist(), [[1, 2], [3, 4]])
        self.assertEqual(arrays.ids.nodes([0, 1]), ["ann", "bob"])
        self.assertEqual(vicinal.graph_arrays(graph, x="h", edge_attr=["weight"]).edge_attr.values.tolist(), [[0.5], [0.5]])
        with self.assertRaisesRegex(vicinal.InputError, "'ann' - 'bob' has no attribute 'age'"):
            vicinal.graph_arrays(graph, edge_attr=["weight", "age"])
        plain = vicinal.graph_arrays(networkx.DiGraph([(2, 0), (0, 1)]))
        self.assertEqual((plain.ids, plain.edge_index.values.tolist()), (None, [[2, 0], [0, 1]]))

    @needs("pandas")
    def test_pandas(self):
        import pandas
        frame = pandas.DataFrame({"w": [1.0, 2.0], "target": [30, 10], "source": [10, 20]})
        graph = vicinal.graph_arrays(frame, edge_weight="w", x=pandas.DataFrame(np.eye(3)))
        self.assertEqual((graph.ids.nodes(range(3)), graph.edge_index.values.tolist()), ([10, 20, 30], [[0, 1], [2, 0]]))
        self.assertEqual(vicinal.graph_arrays(frame, edge_attr=["w", "target"]).edge_attr.values.tolist(), [[1, 30], [2, 10]])
        with self.assertRaisesRegex(vicinal.InputError, "no column 'v'"):
            vicinal.graph_arrays(frame, edge_attr=["w", "v"])
        with self.assertRaisesRegex(vicinal.InputError, "missing values"):
            vicinal.graph_arrays(pandas.DataFrame({"source": [1.0, None], "target": [1, 2]}))

    @needs("torch")
    def test_torch_types(self):
        import torch
        self.assertEqual(features(torch.ones(2, 2, dtype=torch.bfloat16)).dense.dtype, BFLOAT16)
        sparse = features(torch.eye(3).to_sparse())
        self.assertEqual((sparse.dense, sparse.indices.values.tolist()), (None, [0, 1, 2]))
        x = torch.ones(3, 2)
        self.assertTrue(np.shares_memory(features(x).dense.values, x.numpy()))

    @needs("torch_geometric")
    def test_pytorch_geometric(self):
        import torch
        from torch_geometric.data import Batch, Data, HeteroData
        data = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), edge_weight=torch.tensor([1.0, 2.0]))
        graph = vicinal.graph_arrays(data)
        self.assertEqual((graph.num_nodes, graph.x.columns, graph.edge_weight.values.tolist()), (3, 2, [1, 2]))
        self.assertIsNone(graph.edge_attr)
        featured = Data(x=torch.ones(3, 2), edge_index=data.edge_index, edge_attr=torch.tensor([[1, 2], [3, 4]]), other=torch.tensor([5, 6]))
        self.assertEqual(vicinal.graph_arrays(featured).edge_attr.values.tolist(), [[1, 2], [3, 4]])
        self.assertEqual(vicinal.graph_arrays(featured, edge_attr="other").edge_attr.values.tolist(), [[5], [6]])
        for batch in (graph_batch(Batch.from_data_list([featured, featured])), graph_batch([featured, featured])):
            self.assertEqual(batch.edge_attr.values.tolist(), [[1, 2], [3, 4], [1, 2], [3, 4]])
        with self.assertRaisesRegex(vicinal.InputError, "different numbers of features per edge"):
            graph_batch([featured, Data(x=data.x, edge_index=data.edge_index)])
        batch = graph_batch(Batch.from_data_list([data, data]))
        self.assertEqual((batch.ptr.values.tolist(), batch.edge_index.values[0].tolist()), ([0, 3, 6], [0, 1, 3, 4]))
        with self.assertRaisesRegex(vicinal.InputError, "to_homogeneous"):
            vicinal.graph_arrays(HeteroData())

    @needs("dgl")
    def test_dgl(self):
        import dgl
        import torch
        graph = dgl.graph((torch.tensor([0, 1]), torch.tensor([1, 2])))
        graph.ndata["feat"] = torch.ones(3, 4)
        arrays = vicinal.graph_arrays(graph)
        self.assertEqual((arrays.num_nodes, arrays.x.columns, arrays.edge_index.values.tolist()), (3, 4, [[0, 1], [1, 2]]))


if __name__ == "__main__":
    unittest.main()
