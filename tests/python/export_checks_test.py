#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an export refuses, and that nothing is dropped in silence: every argument of every constructor of the installed PyTorch Geometric is
read, refused by name, or changes no answer. Needs no server. Skips without torch and torch_geometric; run by hand in an environment that has
them (docs/python.md)."""

import inspect
import unittest

import vicinal
from data import CLASSES, FEATURES, needs

try:
    import torch
    import torch_geometric.nn as pyg
    from torch import nn
    from torch_geometric.data import Data
    from torch_geometric.utils import add_self_loops

    from vicinal.exporting import ExportError
    from vicinal.exporting._constructors import READ, WITHOUT_EFFECT
    from vicinal.exporting._modules import _CONVOLUTIONS, pyg_layer
    from vicinal.exporting._result import Unsupported
except ImportError:
    torch = None


def network(wide=8):
    return nn.Sequential(nn.Linear(8, wide), nn.ReLU())


def required():
    """The arguments without a default."""
    return {"in_channels": 8, "out_channels": 8, "channels": 8, "nn": network(), "K": 2, "alpha": 0.2, "num_layers": 2, "groups": 2,
            "mode": "cat", "gate_nn": network(1), "dim": 2, "kernel_size": 3, "aggregators": ["mean", "max"], "scalers": ["identity"],
            "deg": torch.tensor([0, 3, 4, 1]), "conv": pyg.GCNConv(8, 8), "k": 2, "aggrs": ["mean", "max"]}


def other_values():
    """Another value for each argument that has a default, or is required and not a width."""
    return {"improved": True, "add_self_loops": False, "normalize": False, "bias": False, "aggr": "max", "root_weight": False, "project": True,
            "nn": network(5), "eps": 0.3, "train_eps": True, "edge_dim": 3, "heads": 2, "concat": False, "negative_slope": 0.1, "fill_value": 0.5,
            "residual": True, "share_weights": True, "beta": True, "K": 3, "alpha": 0.4, "diag_lambda": 0.5, "normalization": "rw",
            "num_layers": 3, "theta": 0.5, "shared_weights": False, "num_stacks": 2, "act": nn.ELU(0.7), "affine": False, "mode": "node",
            "track_running_stats": False, "scale": 2.0, "scale_individually": True, "groups": 3, "lamda": 0.5, "t": 2.0, "learn": True,
            "gate_nn": network(8), "cached": True, "dropout": 0.5, "momentum": 0.3, "allow_single_element": True, "device": "cpu",
            "learn_scale": True, "semi_grad": True, "weight_initializer": "kaiming_uniform", "bias_initializer": "zeros",
            "batch_norm": True, "dim": 3, "kernel_size": 4, "separate_gaussians": True, "msg_norm": True, "learn_t": True, "expansion": 3,
            "aggregators": ["mean", "std"], "scalers": ["amplification"], "deg": torch.tensor([0, 1, 9]), "towers": 2, "pre_layers": 2,
            "post_layers": 2, "divide_input": True, "train_norm": True, "attention_type": "SD", "neg_sample_ratio": 0.9,
            "edge_sample_ratio": 0.5, "is_undirected": True, "conv": pyg.SAGEConv(8, 8), "k": 3, "aggrs": ["sum", "max"], "channels": 9}


PROJECTED = {"mode": "proj", "mode_kwargs": {"in_channels": 8, "out_channels": 8}}  # what several aggregations give


def special():
    """Where the usual other value is the default, or an argument is there only together with another one."""
    return {("SAGEConv", "normalize"): {"normalize": True}, ("EdgeConv", "aggr"): {"aggr": "add"}, ("InstanceNorm", "affine"): {"affine": True},
           ("InstanceNorm", "track_running_stats"): {"track_running_stats": True}, ("GCN2Conv", "theta"): {"theta": 0.5, "layer": 2},
           ("GCN2Conv", "layer"): {"theta": 0.5, "layer": 3}, ("ARMAConv", "shared_weights"): {"shared_weights": True},
           ("GATConv", "fill_value"): {"fill_value": 0.5, "edge_dim": 3}, ("GATv2Conv", "fill_value"): {"fill_value": 0.5, "edge_dim": 3},
           ("JumpingKnowledge", "mode"): {"mode": "max"}, ("JumpingKnowledge", "channels"): {"mode": "lstm", "channels": 8, "num_layers": 2},
           ("JumpingKnowledge", "num_layers"): {"mode": "lstm", "channels": 8, "num_layers": 3},
           ("SoftmaxAggregation", "channels"): {"learn": True, "channels": 8}, ("AttentionalAggregation", "nn"): {"nn": network(8)},
           ("GENConv", "bias"): {"bias": True}, ("GENConv", "learn_msg_scale"): {"msg_norm": True, "learn_msg_scale": True},
           ("MultiAggregation", "mode"): {"mode": "sum"}, ("MultiAggregation", "mode_kwargs"): PROJECTED,
           ("MultiAggregation", "aggrs_kwargs"): {"aggrs": ["softmax", "max"], "aggrs_kwargs": [{"t": 2.0}, {}]},
           ("PNAConv", "act_kwargs"): {"pre_layers": 2, "act": "leaky_relu", "act_kwargs": {"negative_slope": 0.3}},
           ("PNAConv", "act"): {"pre_layers": 2, "act": "elu"}, ("PNAConv", "divide_input"): {"towers": 2, "divide_input": True},
           ("GENConv", "p"): {"aggr": "powermean", "p": 2.0}, ("GENConv", "learn_p"): {"aggr": "powermean", "learn_p": True},
           ("CGConv", "channels"): {"channels": 9}, ("GCN2Conv", "channels"): {"channels": 9}, ("TAGConv", "K"): {"K": 4},
           ("GCNConv", "normalize"): {"normalize": False, "add_self_loops": False}}


# Widths: the server takes them from the input and the tensors.
WIDTHS = {"in_channels", "out_channels"}


def make(kind, **changes):
    torch.manual_seed(1)
    cls = getattr(pyg, kind, None) or getattr(pyg.aggr, kind)
    parameters = inspect.signature(cls.__init__).parameters
    given = {name: value for name, value in required().items() if name in parameters and parameters[name].default is inspect.Parameter.empty}
    return cls(**{**given, **changes}).eval()


def described(module):
    """What would be written, or the refusal."""
    try:
        layer = pyg_layer(module)
    except Unsupported as error:
        return error.what
    return layer.type, layer.args, {name: (tuple(value.shape), float(value.double().sum())) for name, value in layer.tensors.items()}


@needs("torch")
@needs("torch_geometric")
class ConstructorTest(unittest.TestCase):
    def test_all_arguments_of_the_installed_classes_are_known(self):
        for kind in READ:
            cls = getattr(pyg, kind, None) or getattr(pyg.aggr, kind)
            names = {name for name, one in inspect.signature(cls.__init__).parameters.items()
                     if name != "self" and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}
            known = {*READ[kind].split(), *WITHOUT_EFFECT.get(kind, "").split()}
            self.assertEqual(names - known, set(), f"{kind}: arguments that are neither read nor without effect")
            self.assertEqual(known - names, set(), f"{kind}: arguments that the class does not have")

    def test_what_is_read_changes_the_export_or_is_refused(self):
        for kind in READ:
            if kind == "MLP":
                continue  # taken apart: its parts are what is read
            for name in set(READ[kind].split()) - WIDTHS:
                changes = special().get((kind, name), {name: other_values().get(name)})
                with self.subTest(f"{kind}({changes})"):
                    usual = make(kind, **({"edge_dim": 3} if "edge_dim" in changes and name != "edge_dim" else {}))
                    self.assertNotEqual(described(make(kind, **changes)), described(usual))

    def test_what_is_not_read_changes_no_answer(self):
        x, edges = torch.randn(9, 8), torch.randint(0, 9, (2, 30))
        for kind, names in WITHOUT_EFFECT.items():
            if kind == "MLP":
                continue
            for name in names.split():
                with self.subTest(f"{kind}({name})"):
                    usual, changed = make(kind), make(kind, **{name: other_values()[name]})
                    changed.load_state_dict(usual.state_dict())
                    self.assertEqual(described(changed), described(usual))
                    inputs = (x, edges) if kind in _CONVOLUTIONS else (x,)
                    inputs = (x, x, edges) if kind in ("GCN2Conv", "FAConv") else (x, x) if kind == "MessageNorm" else inputs
                    with torch.no_grad():
                        self.assertTrue(torch.equal(usual(*inputs), changed(*inputs)))

    def test_arguments_of_message_passing(self):
        for kind in _CONVOLUTIONS:
            usual = described(make(kind))
            for changes, told in (({"aggr": "max"}, "aggr='max'"), ({"aggr": "median"}, "aggr='median'"), ({"aggr": ["sum", "mean"]}, "aggr=["),
                                  ({"flow": "target_to_source"}, "flow='target_to_source'"), ({"node_dim": 1}, "node_dim=1")):
                with self.subTest(f"{kind}({changes})"):
                    try:
                        module = make(kind, **changes)
                    except Exception:  # pylint: disable=broad-except
                        continue  # the class itself refuses it
                    found = described(module)
                    if isinstance(found, str):
                        self.assertIn(told, found)
                    elif kind != "EdgeConv":  # whose default is max
                        self.assertNotEqual(found, usual, "taken, and not written down")

    def test_a_projection_of_several_aggregations_is_refused(self):
        conv = pyg.SAGEConv(8, 8, aggr=["mean", "max"], aggr_kwargs=PROJECTED)
        with self.assertRaisesRegex(Unsupported, "mode='proj'"):
            pyg_layer(conv)

    def test_an_argument_of_a_later_version_is_refused_by_name(self):
        def init(self, novel=None):
            pyg.GCNConv.__init__(self, 8, 8)
            self.novel = novel

        later = type("GCNConv", (pyg.GCNConv,), {"__init__": init, "__module__": "torch_geometric.nn.conv"})
        self.assertEqual(pyg_layer(later()).type, "GCNConv")
        with self.assertRaisesRegex(Unsupported, "GCNConv has an argument novel"):
            pyg_layer(later(novel=3))


class Net(nn.Module if torch else object):
    """One convolution, called as `call` says."""

    def __init__(self, conv, call):
        super().__init__()
        self.conv, self.call = conv, call

    def forward(self, x, edge_index, edge_attr=None, edge_weight=None):
        return self.call(self.conv, x, edge_index, edge_attr, edge_weight)


def data(**fields):
    torch.manual_seed(2)
    return Data(x=torch.randn(20, FEATURES), edge_index=torch.randint(0, 20, (2, 60)), **fields)


@needs("torch")
@needs("torch_geometric")
class RefusalTest(unittest.TestCase):
    def refused(self, module, graph, **kwargs):
        with self.assertRaises(ExportError) as raised:
            vicinal.export(module, graph, **kwargs)
        return str(raised.exception)

    def test_constants_in_calls(self):
        calls = ((pyg.GATConv(FEATURES, CLASSES), {"return_attention_weights": True}), (pyg.SAGEConv(FEATURES, CLASSES), {"size": (20, 20)}),
                 (pyg.ChebConv(FEATURES, CLASSES, 2), {"lambda_max": 1.5}))
        for conv, given in calls:
            (name,) = given
            text = self.refused(Net(conv, lambda c, x, e, a, w, given=given: c(x, e, **given)), data())
            self.assertIn(f"is called with {name}=", text)

    def test_bad_features_of_edges(self):
        net = Net(pyg.GATConv(FEATURES, CLASSES, edge_dim=5), lambda c, x, e, a, w: c(x, e, a))
        good = torch.randn(60, 5)
        self.assertEqual(vicinal.export(net, data(edge_attr=good)).architecture["layers"][0]["args"]["edge_dim"], 5)
        nan = good.clone()
        nan[7, 2] = float("nan")
        for wrong, told in ((good[:59], "edge_attr has 59 rows, edge_index 60 edges"), (good[:, :0], "edge_attr has no columns"),
                            (good.reshape(60, 5, 1), r"edge_attr has the shape \[60, 5, 1\]"), (nan, r"edge_attr\[7, 2\] is NaN"),
                            (good.to(torch.complex64), "edge_attr has the type complex64")):
            for call in (lambda graph: vicinal.export(net, graph), vicinal.graph_arrays):
                with self.assertRaisesRegex(vicinal.InputError, told):
                    call(data(edge_attr=wrong))
        self.assertIn("reads 5 features per edge, but the data's edge_attr has 3", self.refused(net, data(edge_attr=good[:, :3])))
        self.assertIn("called without edge_attr", self.refused(net, data()))
        for name, argument in (("edge_attr", "edge_attr"), ("edge_weight", "edge_weight"), ("x", "x")):
            with self.assertRaisesRegex(vicinal.InputError, f"{argument}='nothing' names no field of the graph"):
                vicinal.graph_arrays(data(), **{name: "nothing"})
        with self.assertRaisesRegex(vicinal.InputError, "x='nothing' names no field"):
            vicinal.export(net, data(edge_attr=good), x="nothing")
        whole = Net(pyg.GINEConv(nn.Linear(FEATURES, CLASSES)), lambda c, x, e, a, w: c(x, e, a))
        with self.assertRaisesRegex(vicinal.InputError, r"fails on this data \(x \[20, \d+\], .*edge_attr \[60, 5\]"):
            vicinal.export(whole, data(edge_attr=good))

    def test_other_fields(self):
        net = Net(pyg.GCNConv(FEATURES, CLASSES), lambda c, x, e, a, w: c(x, e, w))
        for changes, told in (({"edge_weight": torch.ones(59)}, "edge_weight has 59 rows"),
                              ({"edge_weight": torch.ones(60, 2)}, "edge_weight has 2 columns"),
                              ({"batch": torch.zeros(3, dtype=torch.long)}, "batch has 3 entries"),
                              ({"edge_index": torch.full((2, 60), 20)}, "edge_index has nodes 20 to 20, but x has 20 rows"),
                              ({"edge_index": torch.zeros(3, 60, dtype=torch.long)}, r"edge_index has the shape \[3, 60\]"),
                              ({"edge_index": torch.zeros(2, 60)}, "edge_index has the type float32"), ({"x": None}, "no x")):
            graph = data()
            for name, value in changes.items():
                graph[name] = value
            with self.assertRaisesRegex(vicinal.InputError, told):
                vicinal.export(net, graph)
        with self.assertRaisesRegex(vicinal.InputError, "no weights yet"):
            vicinal.export(Net(pyg.SAGEConv(-1, CLASSES), lambda c, x, e, a, w: c(x, e)), data())

    def test_weights_that_are_called_edge_attr(self):
        net = Net(pyg.GCNConv(FEATURES, CLASSES), lambda c, x, e, a, w: c(x, e, a))
        graph = data(edge_attr=torch.rand(60))
        self.assertIn('export(..., edge_weight="edge_attr")', self.refused(net, graph))
        for weight in ("edge_attr", graph.edge_attr):
            self.assertTrue(vicinal.export(net, graph, edge_weight=weight).architecture["layers"][0]["edge_weight"])
        self.assertNotIn("export(...", self.refused(net, data(edge_attr=torch.rand(60, 3))))

    def test_parameters_of_forward_hide_nothing(self):
        class Demanding(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.median = pyg.GATConv(FEATURES, 8, edge_dim=5), pyg.SAGEConv(8, CLASSES, aggr="median")

            def forward(self, x, edge_index, edge_attr, positions):
                x = torch.sin(self.conv(x, edge_index, edge_attr))
                return self.median(x + positions, edge_index)

        text = self.refused(Demanding(), data())
        for told in ("needs edge_attr, and the data has no edge_attr", "needs positions, which has no known meaning", "sin() has no counterpart",
                     "aggr='median'", "4 problems"):
            self.assertIn(told, text)

    def test_what_newcomers_try(self):
        class Own(pyg.MessagePassing):
            def forward(self, x, edge_index):
                return self.propagate(edge_index, x=x)

        class Looped(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = pyg.GCNConv(FEATURES, CLASSES)

            def forward(self, x, edge_index):
                return self.conv(x, add_self_loops(edge_index)[0])

        class Table(Looped):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(60, FEATURES)

            def forward(self, edge_index):
                return self.conv(self.table.weight, edge_index)

        for module, told in ((Net(Own(), lambda c, x, e, a, w: c(x, e)), "Own has no counterpart\n    no code is uploaded"),
                             (Looped(), "what changes edge_index belongs to the data"),
                             (Table(), "uses the embedding table.weight\n    an embedding of node ids is a table of features")):
            self.assertIn(told, self.refused(module, data()))
        with self.assertRaisesRegex(vicinal.InputError, "TorchScript.*pass the module that it was made of"):
            vicinal.export(torch.jit.script(nn.Linear(FEATURES, CLASSES)), data())

    def test_expressions_that_contradict_the_code(self):
        class Own(pyg.MessagePassing):
            vicinal_message = {"message": "x_j"}

            def forward(self, x, edge_index, edge_attr=None, others=()):
                return self.propagate(edge_index, x=x)

        graph = data(edge_attr=torch.randn(60, 5))
        plain = lambda c, x, e, a, w: c(x, e)
        for stated, made, call, told in (
                ({"message": "x_j"}, {}, lambda c, x, e, a, w: c(x, e, a),
                 "vicinal_message has no edge_dim\n    state edge_dim: 5, or call the layer without edge_attr"),
                ("relu(x_j)", {}, plain, "vicinal_message is a str\n    a dict is needed"),
                ({}, {}, plain, "vicinal_message has no message"),
                ({"message": 3}, {}, plain, "message is a int\n    a text is needed"),
                ({"message": "x_j", "update": ["aggr", 3]}, {}, plain, "update is a list\n    a text is needed"),
                ({"message": "x_j", "edge_dim": "5"}, {}, plain, "edge_dim is '5'"),
                ({"message": "x_j", "edge_dim": True}, {}, plain, "edge_dim is True"),
                ({"message": "x_j", "dim": "a"}, {}, plain, "vicinal_message has an argument 'dim'\n    it takes message, "),
                ({"message": "x_j", "aggr": "mean"}, {"aggr": "max"}, plain, "vicinal_message has aggr='mean', the layer's own is 'max'"),
                ({"message": "x_j"}, {"aggr": "median"}, plain, "vicinal_message has no aggr, and the layer's own is 'median"),
                ({"message": "x_j"}, {"aggr": ["mean", "max"]}, plain, "vicinal_message has no aggr, and the layer's own is ['mean', 'max']"),
                ({"message": "x_j"}, {"flow": "target_to_source"}, plain, "flow='target_to_source'"),
                ({"message": "x_j"}, {}, lambda c, x, e, a, w: c(x, e, others=[x] * 8), "is called with features of nodes 9 times"),
                ({"message": "x_j"}, {}, lambda c, x, e, a, w: c(e, e), "is called with features of nodes 0 times")):
            with self.subTest(told):
                own = Own(**made)
                own.vicinal_message = stated
                self.assertIn(told, self.refused(Net(own, call), graph))

    def test_the_aggregation_of_expressions(self):
        class Own(pyg.MessagePassing):
            def forward(self, x, edge_index):
                return self.propagate(edge_index, x=x)

        for stated, made, wanted in ((None, "mean", "mean"), (None, "add", "sum"), (None, pyg.aggr.MaxAggregation(), "max"), (None, None, None),
                                     ("sum", "add", "sum"), ("softmax", "add", "softmax"), (["mean", "max"], ["mean", "max"], ["mean", "max"])):
            with self.subTest(f"{stated} {made}"):
                own = Own(aggr=made)
                own.vicinal_message = {"message": "x_j", "aggr": stated}
                self.assertEqual(pyg_layer(own).args.get("aggr"), wanted)

    def test_link_predictors(self):
        told = "export the encoder; the decoder is a section of the document (docs/formats.md#decoders-of-links)"
        graph, conv = data(), pyg.GCNConv(FEATURES, CLASSES)

        class Scoring(nn.Module):
            def __init__(self, decode):
                super().__init__()
                self.conv, self.decode, self.lin = conv, decode, nn.Linear(2 * CLASSES, 1)

            def forward(self, x, edge_index):
                z = self.conv(x, edge_index)
                return self.decode(self, z, edge_index)

        class Labelled(Scoring):
            def forward(self, x, edge_index, edge_label_index):
                a, b = edge_label_index
                z = self.conv(x, edge_index)
                return (z[a] * z[b]).sum(dim=-1)

        for decode in (lambda net, z, e: (z[e[0]] * z[e[1]]).sum(-1), lambda net, z, e: z[e].prod(0),
                       lambda net, z, e: net.lin(torch.cat([z.index_select(0, e[0]), z[e[1], :]], -1)).sigmoid()):
            text = self.refused(Scoring(decode), graph)
            self.assertIn("1 problem:", text)
            self.assertIn("takes rows of the ends of edges, to score links\n    " + told, text)
        text = self.refused(Labelled(None), graph)
        self.assertIn("needs edge_label_index, links to score\n    " + told, text)
        self.assertIn("2 problems:", text)
        own = type("Own", (pyg.GAE,), {})
        for module, kind in ((pyg.GAE(conv), "GAE"), (pyg.VGAE(conv), "VGAE"), (own(conv), "Own"), (nn.DataParallel(pyg.GAE(conv)), "GAE")):
            self.assertIn(f"{kind} scores links\n    {told}", self.refused(module, graph))
        encoding = type("Encoding", (nn.Module,), {"encode": lambda self, x, edge_index: x})
        self.assertIn("Encoding has no forward, but encode\n    model.forward = model.encode exports", self.refused(encoding(), graph))
        self.assertIn("Module has no forward\n", self.refused(nn.Module(), graph))

    def test_rows_of_edge_index_are_no_inputs(self):
        for call in (lambda c, x, e, a, w: c(x + e[0].sum(), e), lambda c, x, e, a, w: c(x, e[[1, 0]]), lambda c, x, e, a, w: c(x, e[0])):
            text = self.refused(Net(pyg.GCNConv(FEATURES, CLASSES), call), data())
            self.assertIn("getitem() has no counterpart", text)
            self.assertNotIn("score links", text)

    def test_parts_of_tensors_have_advice(self):
        for call, name in ((lambda c, x, e, a, w: c(x, e)[:, :2], "getitem"), (lambda c, x, e, a, w: c(x, e)[:5], "getitem"),
                           (lambda c, x, e, a, w: c(x, e).chunk(2, dim=-1)[0], "chunk"),
                           (lambda c, x, e, a, w: torch.narrow(c(x, e), 1, 0, 2), "narrow")):
            text = self.refused(Net(pyg.GCNConv(FEATURES, CLASSES), call), data())
            self.assertIn(f"{name}() takes a part of a tensor\n    columns [:, a:b]: a Linear(width, b - a, bias=False) with the weight "
                          "torch.eye(width)[a:b]", text)
        parts = Net(nn.ModuleList([pyg.GCNConv(FEATURES, CLASSES), nn.Linear(CLASSES, 2, bias=False)]),
                    lambda c, x, e, a, w: c[1](c[0](x, e)))
        with torch.no_grad():
            parts.conv[1].weight.copy_(torch.eye(CLASSES)[1:3])
        layers = vicinal.export(parts, data()).architecture["layers"]
        self.assertEqual([layer["type"] for layer in layers], ["GCNConv", "Linear"])

    def test_equal_problems_are_told_once(self):
        text = self.refused(Net(pyg.GCNConv(FEATURES, CLASSES), lambda c, x, e, a, w: c(torch.sin(x) + torch.sin(x), e)), data())
        self.assertIn("1 problem:", text)

    def test_wrappers_of_training_are_taken_off(self):
        module = nn.Sequential(nn.Linear(FEATURES, CLASSES))
        plain = vicinal.export(module, data())
        for wrapped in (torch.compile(module), nn.DataParallel(module), nn.DataParallel(torch.compile(module))):
            exported = vicinal.export(wrapped, data())
            self.assertEqual((exported.architecture, exported.weights), (plain.architecture, plain.weights))

    def test_what_training_has_cached_is_not_used(self):
        graph = Data(x=torch.randn(2500, FEATURES), edge_index=torch.randint(0, 2500, (2, 9000)))
        for conv in (pyg.GCNConv(FEATURES, CLASSES, cached=True), pyg.SGConv(FEATURES, CLASSES, K=2, cached=True)):
            with torch.no_grad():
                conv(graph.x, graph.edge_index)
            exported = vicinal.export(Net(conv, lambda c, x, e, a, w: c(x, e)), graph)
            self.assertEqual(exported.architecture["layers"][0]["type"], type(conv).__name__)

    def test_numbers(self):
        class Mixed(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin, self.alpha, self.table = nn.Linear(FEATURES, CLASSES), nn.Parameter(torch.tensor(0.25)), nn.Parameter(torch.ones(CLASSES))

            def forward(self, x, edge_index):
                x = self.lin(x)
                return sum([self.alpha * x, x / 4, torch.sub(x, x, alpha=0.5), -x, x * x])

        layers = vicinal.export(Mixed(), data()).architecture["layers"]
        self.assertEqual([layer["args"]["factor"] for layer in layers if layer["type"] == "Scale"], [0.25, 0.25, -0.5, -1.0])
        self.assertEqual([layer["type"] for layer in layers].count("Mul"), 1)

        class Wrong(Mixed):
            def forward(self, x, edge_index):
                x = self.lin(x)
                return x * self.table + 1 + x / x

        text = self.refused(Wrong(), data())
        for told in ("uses the tensor table directly", "a constant 1 in place of a tensor", "a division by a tensor"):
            self.assertIn(told, text)


if __name__ == "__main__":
    unittest.main()
