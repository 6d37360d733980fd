#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch Geometric, shaped like those of public repositories, exported without editing, uploaded with their reference and
compared with the module in float64. Skips without torch and torch_geometric; run by hand in an environment that has them (docs/python.md)."""

import json
import os
import subprocess
import sys
import unittest

import vicinal
from data import CLASSES, FEATURES, ROOT, needs, randomize, snippets
from server_process import ServerProcess

try:
    import torch
    import torch_geometric.nn as pyg
    from torch import nn
    from torch_geometric.data import Batch, Data

    import export_models as models
    from vicinal.exporting import ExportError
except ImportError:
    torch = None

HERE = os.path.dirname(os.path.abspath(__file__))


class Asserting(nn.Module if torch else object):
    """FAConv that normalises must not be given weights, and says so without a word."""

    def __init__(self):
        super().__init__()
        self.first, self.conv = nn.Linear(FEATURES, 8), pyg.FAConv(8, normalize=True)

    def forward(self, x, edge_index, edge_weight):
        x = self.first(x)
        return self.conv(x, x, edge_index, edge_weight)


def make_data(nodes=150, edges=700, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return Data(x=torch.randn(nodes, FEATURES, generator=generator), edge_index=torch.randint(0, nodes, (2, edges), generator=generator))


@needs("torch")
@needs("torch_geometric")
class ExportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.server = ServerProcess().__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        cls.client = vicinal.Client(cls.server.grpc)
        cls.addClassCleanup(cls.client.close)
        cls.data = make_data()
        cls.client.upload_graph("g", cls.data)
        cls.weighted = make_data(seed=2)
        cls.weighted.edge_weight = torch.rand(cls.weighted.num_edges) + 0.25
        cls.client.upload_graph("w", cls.weighted)

    def test_what_a_ready_made_model_leaves_unread_is_left_out(self):
        data = make_data(seed=3)
        data.edge_weight = torch.rand(data.num_edges) + 0.25
        data.edge_attr = torch.randn(data.num_edges, 2)
        for model, unread in ((pyg.GraphSAGE, ["edge_weight", "edge_attr"]), (pyg.GAT, ["edge_weight", "edge_attr"]), (pyg.GCN, ["edge_attr"])):
            with self.subTest(model=model.__name__):
                exported = vicinal.export(randomize(model(FEATURES, 8, 2, CLASSES)), data)
                said = [note for note in exported.notes if "does not read" in note]
                self.assertEqual(said, [f"{model.__name__} does not read the data's {name}" for name in unread])
        with self.assertRaisesRegex(ExportError, "edge weights"):  # given on purpose
            vicinal.export(randomize(pyg.GraphSAGE(FEATURES, 8, 2, CLASSES)), data, edge_weight=data.edge_weight)

    def test_an_assertion_of_a_layer_is_an_input_error(self):
        with self.assertRaisesRegex(vicinal.InputError, "the module fails on this data"):
            vicinal.export(Asserting(), self.weighted)

    def check(self, module, data=None, graph="g", expected=None, rows_within=1e-5):
        """Exports, uploads with the reference, and compares logits of all nodes with the module's in float64. `rows_within`: each row alone."""
        data = self.data if data is None else data
        randomize(module)
        exported = vicinal.export(module, data)
        served = self.client.upload_model("m", exported, replace=True)
        self.assertLess(served.reference_error, rows_within)
        inputs = (data.x.double(), data.edge_index) + ((data.edge_weight.double(),) if graph == "w" else ())
        with torch.no_grad():
            wanted = (expected or (lambda net: net(*inputs)))(module.double())
        logits = torch.from_numpy(self.client.classify(graph, "m", logits=True).logits.copy()).double()
        error = float((logits - wanted).norm() / wanted.norm())
        print(f"{type(module).__name__}: {len(exported.architecture['layers'])} layers, relative L2 error {error:.1e}")
        self.assertLess(error, 2e-6)
        return exported

    def test_public_shapes(self):
        for make in models.NODE_MODELS:
            with self.subTest(make.__name__):
                self.check(make(FEATURES, CLASSES))

    def test_forward_of_data_and_log_softmax(self):
        module = models.PlanetoidGCN(FEATURES, CLASSES)
        exported = self.check(module, expected=lambda net: net.logits(self.data.x.double(), self.data.edge_index))
        self.assertIn("final log_softmax was dropped", exported.notes[0])

    def test_a_model_of_numbers(self):
        class Share(torch.nn.Module):
            def __init__(self, end):
                super().__init__()
                self.conv, self.end = pyg.SAGEConv(FEATURES, 2), end

            def forward(self, x, edge_index):
                return self.end(self.conv(x, edge_index))

        for end in (torch.sigmoid, torch.nn.Sigmoid(), torch.nn.Softmax(dim=-1)):
            with self.subTest(end):
                net = Share(end).eval()
                exported = vicinal.export(net, self.data, target="regression")
                self.assertEqual(exported.architecture["target"], "regression")
                self.assertNotIn("multi_label", exported.architecture)
                self.client.upload_model("share", exported, replace=True)
                with torch.no_grad():
                    wanted = net(self.data.x, self.data.edge_index)
                served = self.client.embed("g", "share", output="logits").embeddings
                torch.testing.assert_close(torch.from_numpy(served.copy()), wanted, rtol=1e-4, atol=1e-5)
                with self.assertRaises(vicinal.errors.FailedPrecondition) as raised:
                    self.client.classify("g", "share", [0])
                self.assertEqual(raised.exception.reason, "REGRESSION_MODEL")
        with self.assertRaisesRegex(vicinal.InputError, "^target is 'numbers', but must be one of .*regression"):
            vicinal.export(net, self.data, target="numbers")
        with self.assertRaisesRegex(vicinal.InputError, "^multi_label=True contradicts target='regression'"):
            vicinal.export(net, self.data, target="regression", multi_label=True)
        self.assertEqual(vicinal.export(net, self.data, target="multi_label", multi_label=True).architecture["target"], "multi_label")

    def test_edge_weights(self):
        self.check(models.WeightedGraphConv(FEATURES, CLASSES), self.weighted, "w")
        self.check(models.WeightedInitial(FEATURES, CLASSES), self.weighted, "w")

    def test_features_of_edges(self):
        data = make_data(seed=3)
        data.edge_attr = torch.randn(data.num_edges, 5)
        self.client.upload_graph("e", data)
        self.assertEqual(self.client.get_graph("e").edge_features, 5)
        double = data.edge_attr.double()
        self.check(models.EdgeFeatures(FEATURES, CLASSES, 5), data, "e", lambda net: net(data.x.double(), data.edge_index, double))
        self.assertEqual(self.client.get_model("m").edge_features, 5)
        ready = pyg.GAT(FEATURES, 8, 2, CLASSES, v2=True, heads=2, edge_dim=5)
        self.check(ready, data, "e", lambda net: net(data.x.double(), data.edge_index, edge_attr=double))
        with self.assertRaisesRegex(vicinal.Error, "was sent without; send it with edge_attr"):
            self.client.classify("g", "m")

    def test_messages_of_both_ends_and_features(self):
        data = make_data(seed=5)
        data.edge_attr = torch.randn(data.num_edges, 5)
        self.client.upload_graph("messages", data)
        double = data.edge_attr.double()
        self.check(models.EdgeMessages(FEATURES, CLASSES, 5), data, "messages", lambda net: net(data.x.double(), data.edge_index, double))
        # Where large numbers cancel, PyTorch Geometric itself misses rows by 0.7e-5 to 2.6e-5 in float32 (eight seeds).
        for make, within in ((models.OwnMessagesNet, 1e-5), (lambda *widths: models.DegreeScaled(*widths, 5), 1e-4)):
            self.check(make(FEATURES, CLASSES), data, "messages", lambda net: net(data.x.double(), data.edge_index, double), within)
        with self.assertRaises(ExportError) as raised:
            vicinal.export(models.UnsupportedMessages(FEATURES, CLASSES, 5), data)
        for told in ("a power mean of another power", "separate_gaussians=True", "a bipartite layer"):
            self.assertIn(told, str(raised.exception))

    def test_messages_of_several_inputs(self):
        exported = self.check(models.OwnSeveralInputs(FEATURES, CLASSES))
        own = {layer["name"]: layer for layer in exported.architecture["layers"] if layer["type"] == "MessagePassing"}
        self.assertEqual({name: layer["inputs"] for name, layer in own.items()}, {"own": ["x", "lin"], "tuples": ["own", "lin"]})
        self.assertEqual(own["own"]["args"]["aggr"], "max")
        self.assertEqual(exported.notes, tuple(f"{name}: not exported, as no expression of vicinal_message names them: seen, head.weight, head.bias"
                                               for name in ("own", "tuples")))

    def test_the_cookbook(self):
        blocks = snippets("python_cookbook.md", "export_test.py")
        self.assertEqual(len(blocks), 6)
        data = make_data(seed=4)
        data.edge_attr = torch.randn(data.num_edges, 3)
        names = {**vars(pyg), "__name__": __name__, "torch": torch, "vicinal": vicinal, "client": self.client, "data": data}
        for block in blocks:
            names["data"] = data if "_links" not in block else make_data(seed=6)
            exec(block, names)  # pylint: disable=exec-used
            if "prices" in block:
                names["model_of_prices"] = names["model"]
        self.assertEqual(self.client.get_graph("bonds").edge_features, 3)
        self.assertEqual(self.client.get_graph("bonds").edge_feature_sets, ("default", "what_if"))
        self.assertTrue(self.client.get_model("weighted").raw.uses_edge_weight)
        self.assertEqual(self.client.get_model("links").decoder, "bilinear")
        with torch.no_grad():
            z = names["encoder"](names["data"].x, names["data"].edge_index)
            (sources, targets) = ends = names["edge_label_index"]
            wanted = names["decoder"](z[sources], z[targets]).flatten()
        served = self.client.predict_links("linked", "links", *ends)
        self.assertEqual(served.links.tolist(), ends.t().tolist())
        torch.testing.assert_close(torch.from_numpy(served.scores.copy()), wanted, rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            prices = names["model_of_prices"](data.x, data.edge_index)[[0, 1], 0]
            links = names["network"](torch.cat([z[[0, 1]], z[[5, 6]]], dim=-1)).flatten()
            kinds = ((z[[0, 1]] * names["relations"].weight[2]) @ z.t()).fill_diagonal_(-torch.inf).topk(5).values
        torch.testing.assert_close(torch.from_numpy(names["prices"].copy()), prices, rtol=1e-4, atol=1e-4)
        scores = self.client.predict_links("linked", "network", [0, 1], [5, 6]).scores
        torch.testing.assert_close(torch.from_numpy(scores.copy()), links, rtol=1e-4, atol=1e-4)
        scores = self.client.top_links("linked", "kinds", [0, 1], k=5, relation=2).scores
        torch.testing.assert_close(torch.from_numpy(scores.copy()), kinds, rtol=1e-4, atol=1e-4)

    def test_lightgcn(self):
        module = pyg.LightGCN(150, 16, 3, alpha=torch.tensor([0.1, 0.2, 0.3, 0.4]))
        exported = vicinal.export(module, Data(edge_index=self.data.edge_index, num_nodes=150))
        self.assertIn("embedding.weight is the graph's x", exported.notes[-1])
        self.client.upload_graph("table", Data(x=module.embedding.weight.detach(), edge_index=self.data.edge_index))
        self.client.upload_model("light", exported, replace=True)
        with torch.no_grad():
            wanted = module.double()(self.data.edge_index, self.data.edge_index)
        served = self.client.predict_links("table", "light", *self.data.edge_index)
        torch.testing.assert_close(torch.from_numpy(served.scores.copy()).double(), wanted, rtol=1e-5, atol=1e-6)

    def test_a_module_that_encodes(self):
        module = models.Encoding(FEATURES, CLASSES)
        module.forward = module.encode
        self.check(module, expected=lambda net: models.Encoding.encode(net, self.data.x.double(), self.data.edge_index))

    def test_features_of_edges_that_do_not_fit(self):
        data = make_data(seed=3)
        data.edge_attr = torch.randn(data.num_edges, 5)
        with self.assertRaises(ExportError) as raised:
            vicinal.export(models.WithoutTheirFeatures(FEATURES, CLASSES, 5), data)
        for told in ("is called without edge_attr", "GCNConv with features of edges", "fill_value='max'"):
            self.assertIn(told, str(raised.exception))

    def test_ready_made_classes(self):
        options = [(pyg.GCN, {"jk": "cat", "norm": "batch_norm"}), (pyg.GraphSAGE, {"aggr": "max", "jk": "last"}),
                   (pyg.GIN, {"train_eps": True, "norm": "batch_norm"}),
                   (pyg.GAT, {"heads": 2, "act": "elu", "norm": "layer_norm"}), (pyg.EdgeCNN, {"act_first": True, "norm": "batch_norm"}),
                   (pyg.GAT, {"v2": True, "heads": 4, "jk": "max"})]
        for cls, kwargs in options:
            with self.subTest(f"{cls.__name__} {kwargs}"):
                self.check(cls(FEATURES, 8, 3, CLASSES, **kwargs))

    def test_sequential(self):
        self.check(pyg.Sequential("x, edge_index", [
            (pyg.GCNConv(FEATURES, 16), "x, edge_index -> h"), nn.ReLU(inplace=True), (pyg.SAGEConv(16, 16), "h, edge_index -> h2"),
            (lambda a, b: torch.cat([a, b], dim=-1), "h, h2 -> x"), nn.Linear(32, CLASSES)]))

    def test_graph_models(self):
        batch = Batch.from_data_list([make_data(10 + i, 40, i) for i in range(6)])
        for make in (models.GraphGIN, models.GraphAttention, models.SeveralReadouts):
            with self.subTest(make.__name__):
                module = randomize(make(FEATURES, CLASSES))
                self.client.upload_model("pool", vicinal.export(module, batch), replace=True)
                with torch.no_grad():
                    wanted = module.double()(batch.x.double(), batch.edge_index, batch.batch)
                logits = torch.from_numpy(self.client.classify_graphs("pool", batch, logits=True).logits.copy()).double()
                error = float((logits - wanted).norm() / wanted.norm())
                print(f"{make.__name__}: relative L2 error {error:.1e}")
                self.assertLess(error, 2e-6)

    def test_everything_unsupported_is_named_at_once(self):
        with self.assertRaises(ExportError) as raised:
            vicinal.export(models.Unsupported(FEATURES, CLASSES), self.data)
        text = str(raised.exception)
        for told in ("embedding", "conv1", "FeaStConv has no counterpart", "sin() has no counterpart", "mod() has no counterpart",
                     "conv2", "aggr='median'"):
            self.assertIn(told, text)
        path = os.path.join(HERE, "export_models.py")
        with open(path, encoding="utf-8") as file:
            (line,) = [number for number, text_line in enumerate(file, 1) if "# sin here" in text_line]
        self.assertIn(f"{path}:{line}", text)
        self.assertGreaterEqual(len(raised.exception.problems), 4)

    def test_forward_that_decides_by_values(self):
        with self.assertRaisesRegex(ExportError, r"export_models.py:\d+\): cannot be traced"):
            vicinal.export(models.Deciding(FEATURES, CLASSES), self.data)

    def test_what_is_no_trained_module(self):
        module = models.PlainSAGE(FEATURES, CLASSES)
        for wrong, told in ((models.PlainSAGE, "the class PlainSAGE"), (module.state_dict(), "a OrderedDict")):
            with self.assertRaisesRegex(vicinal.InputError, told + "; a trained torch.nn.Module is needed"):
                vicinal.export(wrong, self.data)
        with self.assertRaisesRegex(vicinal.InputError, r"the architecture is PlainSAGE.*vicinal\.export"):
            self.client.upload_model("m", module)

    def test_an_export_is_printed_without_its_weights(self):
        shown = repr(vicinal.export(randomize(models.PlainSAGE(FEATURES, CLASSES)), self.data))
        self.assertIn("SAGEConv", shown)
        self.assertNotIn("weights=", shown)

    def test_a_wrong_export_is_never_served(self):
        exported = vicinal.export(randomize(models.Residual(FEATURES, CLASSES)), self.data)
        wrong = dict(exported.architecture, layers=[{**layer, "args": {**layer["args"], "mode": "graph"}} if layer["type"] == "LayerNorm" else layer
                                                    for layer in exported.architecture["layers"]])
        with self.assertRaises(vicinal.errors.InvalidArgument) as raised:
            self.client.upload_model("wrong", wrong, exported.weights, reference=exported.reference)
        self.assertEqual(raised.exception.reason, "REFERENCE_MISSED")

    def test_large_graphs_travel_in_part(self):
        data = make_data(5000, 20_000)
        module = randomize(models.PlainSAGE(FEATURES, CLASSES))
        exported = vicinal.export(module, data)
        self.assertLess(len(exported.reference), 1_000_000)
        self.assertLess(self.client.upload_model("large", exported).reference_error, 1e-5)

    def test_command(self):
        script = self.server.path("train.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"import sys\nsys.path.insert(0, {HERE!r})\nimport export_models, torch\nfrom torch_geometric.data import Data\n"
                       "net = export_models.PlainSAGE(12, 5)\ngraph = Data(x=torch.randn(9, 12), edge_index=torch.tensor([[0, 1], [1, 2]]))\n")
        done = subprocess.run([sys.executable, "-m", "vicinal", "export", f"{script}:net", "--data", "graph", "--out", "net"],
                              cwd=self.server.folder.name, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.server.vicinal("model", "upload", "net.json", "--weights", "net.safetensors", "--reference", "net.reference.safetensors",
                            "--name", "net")
        self.assertEqual(self.client.get_model("net").target, "multi_class")
        done = subprocess.run([sys.executable, "-m", "vicinal", "export", f"{script}:net", "--data", "graph", "--out", "numbers", "--target",
                               "regression"], cwd=self.server.folder.name, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.server.path("numbers.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["target"], "regression")
        bad = subprocess.run([sys.executable, "-m", "vicinal", "export", f"{script}:nothing"], capture_output=True, text=True, check=False)
        self.assertIn("does not define 'nothing' or 'data'", bad.stderr)

    def test_fifteen_minutes(self):
        script = os.path.join(ROOT, "client", "python", "examples", "fifteen_minutes.py")
        with open(script, encoding="utf-8") as file:
            code = [line for line in file if line.strip() and not line.startswith(("#", '"""'))]
        self.assertLess(len(code), 25)
        done = subprocess.run([sys.executable, "-W", "ignore", script], env={**os.environ, "VICINAL_SERVER": self.server.grpc},
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(float(done.stdout.split()[-1]), 0.6)


if __name__ == "__main__":
    unittest.main()
