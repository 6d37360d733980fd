#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules of DGL exported without editing, uploaded with their reference and compared with the module in float64. Skips without DGL, whose
last wheel on PyPI (2.1.0) needs torch 2.2; run by hand (docs/python.md)."""

import unittest

import vicinal
from data import CLASSES, FEATURES, needs, randomize
from server_process import ServerProcess

try:
    import dgl
    import dgl.nn as dglnn
    import torch
    from torch import nn
    from torch.nn import functional as F

    from vicinal.exporting import ExportError
except ImportError:
    nn = None


def models():
    class GCN(nn.Module):
        """DGL's own example: an activation inside, dropout between."""

        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([dglnn.GraphConv(FEATURES, 16, activation=F.relu), dglnn.GraphConv(16, CLASSES)])
            self.dropout = nn.Dropout(0.5)

        def forward(self, g, features):
            h = features
            for i, layer in enumerate(self.layers):
                h = self.dropout(h) if i else h
                h = layer(g, h)
            return h

    class SAGE(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = dglnn.SAGEConv(FEATURES, 16, "mean"), dglnn.SAGEConv(16, CLASSES, "pool")

        def forward(self, graph, feat):
            return self.conv2(graph, F.relu(self.conv1(graph, feat)))

    class GAT(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = dglnn.GATConv(FEATURES, 8, 4, activation=F.elu, residual=True)
            self.conv2 = dglnn.GATConv(32, CLASSES, 2, residual=True)

        def forward(self, g, h):
            h = self.conv1(g, h).flatten(1)
            return self.conv2(g, h).mean(1)

    class GATv2(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = dglnn.GATv2Conv(FEATURES, 8, 2, share_weights=True), dglnn.GATv2Conv(16, CLASSES, 3, residual=True)

        def forward(self, g, h):
            return torch.mean(self.conv2(g, F.elu(torch.flatten(self.conv1(g, h), 1))), dim=1)

    class GIN(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = dglnn.GINConv(nn.Sequential(nn.Linear(FEATURES, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16)), learn_eps=True)
            self.right, self.plain = dglnn.GraphConv(16, 16, norm="right"), dglnn.GraphConv(16, CLASSES, norm="none", bias=False)

        def forward(self, g, h):
            return self.plain(g, self.right(g, self.conv(g, h)).relu())

    class Propagating(nn.Module):
        def __init__(self):
            super().__init__()
            self.sg, self.appnp = dglnn.SGConv(FEATURES, CLASSES, k=2), dglnn.APPNPConv(5, 0.1)

        def forward(self, g, x):
            return self.appnp(g, torch.tanh(self.sg(g, x)))

    return [GCN, SAGE, GAT, GATv2, GIN, Propagating]


@needs("dgl")
class ExportDglTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.graph = dgl.to_bidirected(dgl.rand_graph(120, 400))
        self.graph = dgl.add_self_loop(dgl.remove_self_loop(self.graph))
        self.graph.ndata["feat"] = torch.randn(120, FEATURES)

    def test_models(self):
        with ServerProcess() as server, vicinal.Client(server.grpc) as client:
            client.upload_graph("g", self.graph)
            for make in models():
                with self.subTest(make.__name__):
                    module = randomize(make())
                    self.assertLess(client.upload_model("m", vicinal.export(module, self.graph), replace=True).reference_error, 1e-5)
                    torch.set_default_dtype(torch.float64)  # APPNPConv makes tensors of it
                    with torch.no_grad():
                        wanted = module.double()(self.graph, self.graph.ndata["feat"].double())
                    torch.set_default_dtype(torch.float32)
                    logits = torch.from_numpy(client.classify("g", "m", logits=True).logits.copy()).double()
                    error = float((logits - wanted).norm() / wanted.norm())
                    print(f"DGL {make.__name__}: relative L2 error {error:.1e}")
                    self.assertLess(error, 2e-6)

    def test_what_has_no_counterpart(self):
        directed = dgl.graph(([0, 1], [1, 2]), num_nodes=3)
        directed = dgl.add_self_loop(directed)
        directed.ndata["feat"] = torch.randn(3, FEATURES)
        with self.assertRaisesRegex(ExportError, "layers.0.*divides by out-degrees and in-degrees"):
            vicinal.export(models()[0](), directed)


if __name__ == "__main__":
    unittest.main()
