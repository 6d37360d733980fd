#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/layers: small models of every layer type and argument, with PyTorch Geometric's answers in float64.

Each model is declared once, as the list of layers (or ready-made class) that Vicinal reads; here the same declaration is
carried out with PyTorch Geometric's own modules. Weights are drawn in float32 from a generator seeded by the model's
name, so that running this again with the same versions gives the same files. Run by hand:

    python3 tests/data/make_references.py               # all models, anew
    python3 tests/data/make_references.py graph graph-max   # only these; all other files stay as they are

Needs torch and torch_geometric; their versions are written to tests/data/layers/README.md when all models are made.
"""

import copy
import hashlib
import json
import pathlib
import shutil
import string
import struct
import sys

import numpy as np
import torch
import torch_geometric
import torch_geometric.nn as pyg
from torch_geometric.nn.resolver import activation_resolver

import message_functions

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "layers"
FEATURES = 12
EDGE_FEATURES = 4


# --- graphs ---


def edge_features(edge_index, seed):
    """A generator of its own: what a graph had before it had features of edges stays as it was."""
    return np.random.default_rng(seed).normal(size=(edge_index.shape[1], EDGE_FEATURES)).astype(np.float32)


def weighted_graph():
    """Directed, weighted, with loops, duplicate edges, isolated nodes and nodes without in-edges."""
    rng = np.random.default_rng(1)
    nodes, linked, edges = 120, 104, 520
    sources, targets = rng.integers(0, linked, edges), rng.integers(8, linked, edges)
    loops = rng.random(edges) < 0.06
    targets[loops] = sources[loops]
    again = rng.integers(0, edges, 50)
    edge_index = np.stack([np.concatenate([sources, sources[again]]), np.concatenate([targets, targets[again]])])
    return {
        "edge_index": edge_index.astype(np.int64),
        "edge_weight": rng.uniform(0.25, 2.0, edge_index.shape[1]).astype(np.float32),
        "edge_attr": edge_features(edge_index, 3),
        "x": rng.normal(size=(nodes, FEATURES)).astype(np.float32),
    }


def graph_batch():
    """Seven small graphs side by side."""
    rng = np.random.default_rng(2)
    sizes = [9, 1, 17, 30, 4, 22, 13]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    sources, targets = [], []
    for start, size in zip(starts, sizes):
        sources.append(start + rng.integers(0, size, 3 * size))
        targets.append(start + rng.integers(0, size, 3 * size))
    edge_index = np.stack([np.concatenate(sources), np.concatenate(targets)]).astype(np.int64)
    return {
        "edge_index": edge_index,
        "edge_attr": edge_features(edge_index, 4),
        "x": rng.normal(size=(starts[-1], FEATURES)).astype(np.float32),
        "graph_id": np.repeat(np.arange(len(sizes)), sizes).astype(np.int64),
    }


# --- declarations carried out by PyTorch Geometric ---

CONVS = {name: getattr(pyg, name) for name in (
    "GCNConv", "SAGEConv", "GINConv", "GINEConv", "GATConv", "GATv2Conv", "TransformerConv", "EdgeConv", "SGConv", "APPNP",
    "GraphConv", "LGConv", "SSGConv", "TAGConv", "ClusterGCNConv", "GCN2Conv", "ARMAConv", "ChebConv", "GatedGraphConv",
    "CGConv", "ResGatedGraphConv", "GENConv", "GMMConv", "NNConv", "PNAConv", "FAConv", "SuperGATConv", "DirGNNConv")}
# Convolutions that read features of edges without an argument edge_dim.
FEATURED = ("GINEConv", "GMMConv", "NNConv")
POOLS = {"global_add_pool": pyg.global_add_pool, "global_mean_pool": pyg.global_mean_pool,
         "global_max_pool": pyg.global_max_pool, "SumAggregation": pyg.SumAggregation(),
         "MeanAggregation": pyg.MeanAggregation(), "MaxAggregation": pyg.MaxAggregation(),
         "MinAggregation": pyg.MinAggregation(), "VarAggregation": pyg.VarAggregation(),
         "StdAggregation": pyg.StdAggregation(), "MedianAggregation": pyg.MedianAggregation()}
# In-degrees of a training set: what PNAConv's scalers divide by. Here its averages are drawn like all weights.
DEGREES = [1, 5, 9, 4, 2]


def plain_module(layer, width):
    """A module that works on each row by itself, and the width of what it gives."""
    kind, args = layer["type"], dict(layer.get("args", {}))
    if kind == "Linear":
        out = args.pop("out_channels")
        args.pop("in_channels", None)
        return torch.nn.Linear(width, out, **args), out
    if kind == "BatchNorm1d":
        return torch.nn.BatchNorm1d(width, **args), width
    if kind in ("BatchNorm", "LayerNorm", "GraphNorm", "InstanceNorm", "DiffGroupNorm"):
        return getattr(pyg, kind)(width, **args), width
    if kind in ("PairNorm", "MessageNorm"):
        return getattr(pyg, kind)(**args), width
    if kind == "RMSNorm":
        return torch.nn.RMSNorm(width, **args), width
    if kind == "MLP":
        if "channel_list" not in args:
            args["in_channels"] = width
        mlp = pyg.MLP(**args)
        return mlp, mlp.out_channels
    return getattr(torch.nn, kind)(**args), width // 2 if kind == "GLU" else width


def sequential(layers, width):
    modules = []
    for layer in layers:
        module, width = plain_module(layer, width)
        modules.append(module)
    alone = len(layers) == 1 and layers[0].get("prefix") == ""
    return modules[0] if alone else torch.nn.Sequential(*modules), width


class Net(torch.nn.Module):
    """The layers of an explicit declaration, under their names."""

    def __init__(self, declaration):
        super().__init__()
        self.layers = declaration["layers"]
        widths = {"x": declaration["in_channels"]}
        previous = "x"
        for layer in self.layers:
            layer.setdefault("inputs", [previous])
            inputs = [widths[name] for name in layer["inputs"]]
            module, widths[layer["name"]] = self.make(layer, inputs)
            if module is not None:
                self.add_module(layer["name"], module)
            previous = layer["name"]

    @staticmethod
    def make(layer, inputs):
        kind, args = layer["type"], dict(layer.get("args", {}))
        if kind == "MessagePassing":
            _, _, module, width = message_functions.MESSAGES[layer["name"]]
            return module(), width
        if kind in CONVS:
            args.pop("in_channels", None)
            if kind in ("APPNP", "LGConv"):
                return CONVS[kind](**args), inputs[0]
            if kind == "GCN2Conv":
                return pyg.GCN2Conv(args.pop("channels", inputs[0]), **args), inputs[0]
            if kind == "FAConv":
                return pyg.FAConv(args.pop("channels", inputs[0]), **args), inputs[0]
            if kind == "PNAConv":
                return pyg.PNAConv(inputs[0], deg=torch.tensor(DEGREES), **args), args["out_channels"]
            if kind == "DirGNNConv":
                conv, width = Net.make(args.pop("conv")[0], inputs)
                return pyg.DirGNNConv(conv, **args), width
            if kind == "GatedGraphConv":
                return pyg.GatedGraphConv(**args), args["out_channels"]
            if kind == "CGConv":
                return pyg.CGConv(args.pop("channels", inputs[0]), **args), inputs[0]
            if kind == "NNConv":
                return pyg.NNConv(inputs[0], args.pop("out_channels"), sequential(args.pop("nn"), EDGE_FEATURES)[0], **args), layer["args"]["out_channels"]
            if kind in ("ARMAConv", "ResGatedGraphConv") and "act" in args:
                args["act"] = activation_resolver(args["act"], **args.pop("act_kwargs", {}))
            if "nn" in args:
                nn, out = sequential(args.pop("nn"), inputs[0] * (2 if kind == "EdgeConv" else 1))
                return CONVS[kind](nn, **args), out
            conv = CONVS[kind](inputs[0], **args)
            return conv, args["out_channels"] * (args.get("heads", 1) if args.get("concat", True) else 1)
        if kind == "JumpingKnowledge":
            module = None if args["mode"] == "last" else pyg.JumpingKnowledge(**args)
            return module, sum(inputs) if args["mode"] == "cat" else inputs[0]
        if kind == "AttentionalAggregation":
            (gate, _), (nn, out) = sequential(args["gate_nn"], inputs[0]), (None, inputs[0])
            if "nn" in args:
                nn, out = sequential(args["nn"], inputs[0])
            return pyg.AttentionalAggregation(gate, nn), out
        if kind == "SortAggregation":
            return pyg.SortAggregation(**args), args["k"] * inputs[0]
        if kind == "MultiAggregation":
            parts = [Net.make(part, inputs) for part in args["aggrs"]]
            modules = [module or POOLS[part["type"]] for part, (module, _) in zip(args["aggrs"], parts)]
            return pyg.MultiAggregation(modules), sum(width for _, width in parts)
        if kind == "SoftmaxAggregation":
            return pyg.SoftmaxAggregation(**args), inputs[0]
        if kind in ("Add", "Mul", "Scale", "Normalize") or kind in POOLS:
            return None, inputs[0]
        if kind == "Concat":
            return None, sum(inputs)
        return plain_module(layer, inputs[0])

    def forward(self, data):
        values = {"x": data["x"]}
        for layer in self.layers:
            values[layer["name"]] = self.run(layer, [values[name] for name in layer["inputs"]], data)
        return values[self.layers[-1]["name"]]

    def run(self, layer, inputs, data):
        kind = layer["type"]
        if kind in CONVS:
            weight = [data["edge_weight"]] if layer.get("edge_weight") else []
            if kind in FEATURED or {"edge_dim", "dim"} & layer.get("args", {}).keys():
                weight = [data["edge_attr"]]
            return getattr(self, layer["name"])(*inputs, data["edge_index"], *weight)
        if kind == "MessagePassing":
            return getattr(self, layer["name"])(*inputs, data["edge_index"], data)
        if kind == "JumpingKnowledge":
            return inputs[-1] if layer["args"]["mode"] == "last" else getattr(self, layer["name"])(inputs)
        if kind == "Add":
            return sum(inputs[1:], inputs[0])
        if kind == "Mul":
            return torch.stack(inputs).prod(dim=0)
        if kind == "Scale":
            return layer["args"]["factor"] * inputs[0]
        if kind == "Concat":
            return torch.cat(inputs, dim=-1)
        if kind == "Normalize":
            return torch.nn.functional.normalize(inputs[0], dim=-1)
        if kind in POOLS:
            return POOLS[kind](inputs[0], data["batch"])
        if kind.endswith("Aggregation"):
            return getattr(self, layer["name"])(inputs[0], data["batch"])
        if kind in ("LayerNorm", "GraphNorm", "InstanceNorm", "PairNorm"):
            return getattr(self, layer["name"])(inputs[0], data.get("batch"))
        return getattr(self, layer["name"])(*inputs)


class ReadyMade(torch.nn.Module):
    """torch_geometric.nn.models.NAME, called as BasicGNN is."""

    def __init__(self, declaration):
        super().__init__()
        cls = getattr(torch_geometric.nn.models, declaration["class"].rsplit(".", 1)[-1])
        self.gnn = cls(**declaration["kwargs"])
        self.edge_weight = declaration.get("edge_weight", False)
        self.edge_attr = "edge_dim" in declaration["kwargs"]

    def forward(self, data):
        weight = {"edge_weight": data["edge_weight"]} if self.edge_weight else {}
        weight.update({"edge_attr": data["edge_attr"]} if self.edge_attr else {})
        return self.gnn(data["x"], data["edge_index"], **weight)

    def state_dict(self):
        return self.gnn.state_dict()


def draw_weights(net, name):
    """Every parameter and running statistic is random, so that none can be left out unnoticed."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for key, tensor in sorted(net.state_dict().items()):
            shape = tuple(tensor.shape)
            if key.endswith("num_batches_tracked"):
                continue
            if key.endswith("running_var"):
                values = rng.uniform(0.5, 1.5, shape)
            elif tensor.dim() == 2:
                values = rng.normal(size=shape) / np.sqrt(shape[1])
            elif "norm" in key and key.endswith("weight"):
                values = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
            else:
                values = rng.normal(size=shape) * 0.5
            tensor.copy_(torch.from_numpy(values.astype(np.float32)))


# --- files ---

DTYPES = {torch.float32: "F32", torch.int64: "I64"}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in sorted(tensors.items()):
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def as_input(graph, dtype):
    data = {"x": torch.from_numpy(graph["x"]).to(dtype), "edge_index": torch.from_numpy(graph["edge_index"])}
    if "edge_weight" in graph:
        data["edge_weight"] = torch.from_numpy(graph["edge_weight"]).to(dtype)
    if "edge_attr" in graph:
        data["edge_attr"] = torch.from_numpy(graph["edge_attr"]).to(dtype)
    if "graph_id" in graph:
        data["batch"] = torch.from_numpy(graph["graph_id"])
    return data


def as_text(declaration):
    """A key on a line of its own, and a layer."""
    lines = []
    for key, value in declaration.items():
        if key == "layers":
            value = "[\n    " + ",\n    ".join(json.dumps(layer) for layer in value) + "\n  ]"
        else:
            value = json.dumps(value)
        lines.append(f'  "{key}": {value}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_model(name, declaration, graph):
    torch.manual_seed(0)
    declaration = json.loads(json.dumps(declaration))
    net = (ReadyMade if "class" in declaration else Net)(json.loads(json.dumps(declaration))).eval()
    draw_weights(net, name)
    weights = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    double_net = copy.deepcopy(net).double()  # before `net` runs: layers may cache what they propagated over
    with torch.no_grad():
        single = net(as_input(graph, torch.float32)).double()
        answer = double_net(as_input(graph, torch.float64))
    assert torch.isfinite(answer).all() and answer.abs().max() > 1e-3, name
    declaration["pyg_float32_relative_error"] = float((single - answer).norm() / answer.norm())
    (OUT / f"{name}.json").write_text(as_text(declaration))
    write_safetensors(OUT / f"{name}.safetensors", weights)
    output = "graph_logits" if declaration.get("task") == "graph" else "logits"
    write_safetensors(OUT / f"{name}.reference.safetensors", {output: answer.float()})


# --- the models ---


def chain(*layers, **document):
    """Layers one after the other; (type, args, more)."""
    listed = []
    for i, layer in enumerate(layers):
        kind, args, more = (layer + ({}, {}))[:3] if isinstance(layer, tuple) else (layer, {}, {})
        entry = {"name": more.pop("name", f"{string.ascii_lowercase[i]}"), "type": kind, **more}
        if args:
            entry["args"] = args
        listed.append(entry)
    return {"format": "vicinal.model/1", "in_channels": FEATURES, **document, "layers": listed}


def weighted(kind, **args):
    return (kind, args, {"edge_weight": True})


def conv(kind, **args):
    return (kind, args)


def conv_of(inputs, kind, edge_weight=False, **args):
    return (kind, args, {"inputs": inputs, **({"edge_weight": True} if edge_weight else {})})


def through(*activations):
    """Each activation after a Linear of its own."""
    return [layer for activation in activations for layer in (("Linear", {"out_channels": 9}), activation)]


def linear(out, **args):
    return {"type": "Linear", "args": {"out_channels": out, **args}}


def inner(kind, **args):
    return {"type": kind, "args": args} if args else {"type": kind}


def ready(name, document=None, **kwargs):
    kwargs = {"in_channels": FEATURES, "hidden_channels": 8, "num_layers": 2, "out_channels": 5, **kwargs}
    return {"class": f"torch_geometric.nn.models.{name}", "kwargs": kwargs, **(document or {})}


RELU, ELU = ("ReLU",), ("ELU",)
MLP = [linear(8), inner("ReLU"), linear(5)]

NODE_MODELS = {
    "gcn-weights": chain(weighted("GCNConv", out_channels=8), RELU, weighted("GCNConv", out_channels=5)),
    "gcn-improved-weights": chain(weighted("GCNConv", out_channels=8, improved=True, cached=True), RELU,
                                  weighted("GCNConv", out_channels=5, improved=True, bias=False)),
    "gcn-improved": chain(conv("GCNConv", out_channels=5, improved=True)),
    "gcn-noloops-weights": chain(weighted("GCNConv", out_channels=5, add_self_loops=False)),
    "gcn-plain-weights": chain(weighted("GCNConv", out_channels=20, normalize=False), RELU,
                               conv("GCNConv", out_channels=5, normalize=False, add_self_loops=False)),
    "sage-min": chain(conv("SAGEConv", out_channels=8, aggr="min"), RELU, conv("SAGEConv", out_channels=5, aggr="min")),
    "sage-add": chain(conv("SAGEConv", out_channels=5, aggr="add", root_weight=False)),
    "sage-list": chain(conv("SAGEConv", out_channels=8, aggr=["mean", "max", "std"]), RELU,
                       conv("SAGEConv", out_channels=6, aggr=["var", "sum", "min", "add"], project=True, normalize=True),
                       conv("SAGEConv", out_channels=5, aggr="std", root_weight=False)),
    "sage-min-project": chain(conv("SAGEConv", out_channels=8, aggr="min", project=True, normalize=True), RELU,
                              conv("SAGEConv", out_channels=5, bias=False, normalize=True)),
    "graph": chain(conv("GraphConv", out_channels=20), RELU, conv("GraphConv", out_channels=5, bias=False)),
    "graph-weights": chain(weighted("GraphConv", out_channels=20), RELU, weighted("GraphConv", out_channels=5, bias=False)),
    "graph-mean-weights": chain(weighted("GraphConv", out_channels=8, aggr="mean"), RELU,
                                conv("GraphConv", out_channels=5, aggr="mean")),
    "graph-max-weights": chain(weighted("GraphConv", out_channels=8, aggr="max"), ELU,
                               conv("GraphConv", out_channels=5, aggr="max")),
    "graph-min-weights": chain(weighted("GraphConv", out_channels=8, aggr="min"), ELU,
                               conv("GraphConv", out_channels=5, aggr="min")),
    "gin-train-eps": chain(conv("GINConv", nn=MLP, train_eps=True, eps=0.3)),
    "gin-norms": chain(conv("GINConv", nn=[linear(9), inner("BatchNorm1d"), inner("Tanh"), linear(8, bias=False),
                                           inner("LayerNorm", mode="node")]), ELU, conv("GINConv", nn=MLP, eps=-0.5)),
    "gat-residual": chain(conv("GATConv", out_channels=3, heads=3, residual=True), ELU,
                          conv("GATConv", out_channels=5, heads=2, concat=False, residual=True)),
    "gat-bare": chain(conv("GATConv", out_channels=4, heads=2, bias=False, negative_slope=0.01, dropout=0.5), ELU,
                      conv("GATConv", out_channels=5, add_self_loops=False)),
    "gatv2-residual": chain(conv("GATv2Conv", out_channels=3, heads=3, residual=True), ELU,
                            conv("GATv2Conv", out_channels=5, heads=2, concat=False, residual=True, share_weights=True)),
    "gatv2-bare": chain(conv("GATv2Conv", out_channels=4, heads=2, bias=False, negative_slope=0.01), ELU,
                        conv("GATv2Conv", out_channels=5, add_self_loops=False, bias=False, share_weights=True)),
    "transformer": chain(conv("TransformerConv", out_channels=4, heads=2), RELU, conv("TransformerConv", out_channels=5)),
    "transformer-mean": chain(conv("TransformerConv", out_channels=5, heads=3, concat=False)),
    "transformer-beta": chain(conv("TransformerConv", out_channels=3, heads=3, beta=True), ELU,
                              conv("TransformerConv", out_channels=5, heads=2, concat=False, beta=True)),
    "transformer-noroot": chain(conv("TransformerConv", out_channels=4, heads=2, root_weight=False), RELU,
                                conv("TransformerConv", out_channels=5, root_weight=False, beta=True, bias=False)),
    "transformer-nobias": chain(conv("TransformerConv", out_channels=3, heads=2, bias=False, beta=True, dropout=0.2)),
    "gine": chain(conv("GINEConv", nn=MLP, edge_dim=EDGE_FEATURES), RELU,
                  conv("GINEConv", nn=MLP, edge_dim=EDGE_FEATURES, eps=-0.4)),
    "gine-same-width": chain(("Linear", {"out_channels": EDGE_FEATURES}),
                             conv("GINEConv", nn=[linear(20), inner("ReLU"), linear(5)], train_eps=True, eps=0.3)),
    "gine-mean": chain(conv("GINEConv", nn=[linear(35)], edge_dim=EDGE_FEATURES, aggr="mean"), RELU,
                       conv("GINEConv", nn=[linear(8)], edge_dim=EDGE_FEATURES, aggr="max"), ELU,
                       conv("GINEConv", nn=[linear(5)], edge_dim=EDGE_FEATURES, aggr="min")),
    "gat-edge": chain(conv("GATConv", out_channels=4, heads=3, edge_dim=EDGE_FEATURES), ELU,
                      conv("GATConv", out_channels=5, edge_dim=EDGE_FEATURES, residual=True)),
    "gat-edge-fill": chain(conv("GATConv", out_channels=4, heads=2, edge_dim=EDGE_FEATURES, fill_value=0.5), ELU,
                           conv("GATConv", out_channels=19, heads=5, edge_dim=EDGE_FEATURES, fill_value=-1, concat=False), ELU,
                           conv("GATConv", out_channels=5, heads=2, edge_dim=EDGE_FEATURES, add_self_loops=False, concat=False)),
    "gatv2-edge": chain(conv("GATv2Conv", out_channels=4, heads=3, edge_dim=EDGE_FEATURES), ELU,
                        conv("GATv2Conv", out_channels=5, edge_dim=EDGE_FEATURES, residual=True, share_weights=True)),
    "gatv2-edge-fill": chain(conv("GATv2Conv", out_channels=17, heads=2, edge_dim=EDGE_FEATURES, fill_value=0.5), ELU,
                             conv("GATv2Conv", out_channels=5, heads=2, edge_dim=EDGE_FEATURES, add_self_loops=False,
                                  concat=False, bias=False)),
    "transformer-edge": chain(conv("TransformerConv", out_channels=4, heads=2, edge_dim=EDGE_FEATURES), RELU,
                              conv("TransformerConv", out_channels=5, edge_dim=EDGE_FEATURES, beta=True)),
    "transformer-edge-mean": chain(conv("TransformerConv", out_channels=18, heads=3, concat=False, edge_dim=EDGE_FEATURES,
                                        bias=False), RELU,
                                   conv("TransformerConv", out_channels=5, heads=2, edge_dim=EDGE_FEATURES, root_weight=False)),
    "edge-max": chain(conv("EdgeConv", nn=[linear(8), inner("ReLU"), linear(8)]), RELU, conv("EdgeConv", nn=MLP)),
    "edge-mean": chain(conv("EdgeConv", aggr="mean", nn=MLP)),
    "edge-add": chain(conv("EdgeConv", aggr="add", nn=[linear(8), inner("Tanh"), linear(5, bias=False)])),
    "edge-min": chain(conv("EdgeConv", aggr="min", nn=[linear(8), inner("LeakyReLU", negative_slope=0.3), linear(5)])),
    "edge-linear": chain(conv("EdgeConv", nn=[linear(9)]), RELU, conv("EdgeConv", aggr="mean", nn=[linear(5, bias=False)])),
    "edge-activated": chain(conv("EdgeConv", nn=[linear(7), inner("Sigmoid")]), conv("EdgeConv", aggr="sum", nn=MLP)),
    "edge-deep": chain(conv("EdgeConv", nn=[linear(10), inner("ELU"), linear(9), inner("Tanh"), linear(8), inner("ReLU"),
                                            linear(7), inner("LeakyReLU"), linear(5)])),
    "edge-norm": chain(conv("EdgeConv", nn=[linear(8), inner("BatchNorm1d"), inner("ReLU"), linear(8),
                                            inner("BatchNorm"), inner("ReLU"), inner("Dropout"), linear(5)])),
    "edge-norm-last": chain(conv("EdgeConv", nn=[linear(8), inner("ReLU"), inner("BatchNorm1d"), linear(5), inner("ReLU"),
                                                 inner("BatchNorm1d", affine=False)])),
    "edge-two-linears": chain(conv("EdgeConv", aggr="mean", nn=[linear(3), linear(8), inner("ReLU"), inner("Tanh"),
                                                                linear(5)])),
    "sg-weights": chain(weighted("SGConv", out_channels=20, K=3), RELU, weighted("SGConv", out_channels=5, K=2)),
    "sg-one": chain(conv("SGConv", out_channels=5, bias=False, cached=True)),
    "sg-zero": chain(conv("SGConv", out_channels=5, K=0)),
    "sg-noloops": chain(conv("SGConv", out_channels=8, K=2, add_self_loops=False), RELU, conv("SGConv", out_channels=5, K=4)),
    "appnp-weights": chain(("Linear", {"out_channels": 5}), weighted("APPNP", K=4, alpha=0.15)),
    "appnp": chain(conv("APPNP", K=2, alpha=0.1, dropout=0.5, cached=True), ("Linear", {"out_channels": 5}), RELU,
                   conv("APPNP", K=10, alpha=0.2)),
    "appnp-plain": chain(("Linear", {"out_channels": 5}), conv("APPNP", K=2, alpha=0.3, normalize=False)),
    "appnp-plain-weights": chain(weighted("APPNP", K=2, alpha=0.3, normalize=False, add_self_loops=True), ("ReLU",)),
    "appnp-noloops": chain(conv("GCNConv", out_channels=5), weighted("APPNP", K=3, alpha=0.5, add_self_loops=False)),
    "appnp-ends": chain(("Linear", {"out_channels": 5}), conv("APPNP", K=3, alpha=0.0), ("Tanh",),
                        conv("APPNP", K=1, alpha=1.0), RELU, conv("APPNP", K=0, alpha=0.5), ("Tanh",)),
    "lg": chain(conv("LGConv"), ("Linear", {"out_channels": 5}), conv("LGConv", normalize=False)),
    "lg-weights": chain(weighted("LGConv"), ("Linear", {"out_channels": 5}), weighted("LGConv", normalize=False)),
    "ssg": chain(conv("SSGConv", out_channels=20, alpha=0.1, K=3), RELU,
                 conv("SSGConv", out_channels=5, alpha=0.5, add_self_loops=False, bias=False, cached=True)),
    "ssg-weights": chain(weighted("SSGConv", out_channels=5, alpha=0.05, K=4)),
    "tag": chain(conv("TAGConv", out_channels=8), RELU, conv("TAGConv", out_channels=5, K=1, normalize=False, bias=False)),
    "tag-weights": chain(weighted("TAGConv", out_channels=8, K=2), RELU,
                         weighted("TAGConv", out_channels=5, K=2, normalize=False), conv("TAGConv", out_channels=4, K=0)),
    "cluster": chain(conv("ClusterGCNConv", out_channels=20), RELU,
                     conv("ClusterGCNConv", out_channels=5, diag_lambda=0.7, bias=False)),
    "gcn2": chain(("Linear", {"out_channels": 8}), RELU,
                  conv_of(["b", "b"], "GCN2Conv", channels=8, alpha=0.1, theta=0.5, layer=1), RELU,
                  conv_of(["d", "b"], "GCN2Conv", alpha=0.2, theta=0.5, layer=2, shared_weights=False), RELU,
                  conv_of(["f", "b"], "GCN2Conv", alpha=0.3, normalize=False)),
    "gcn2-weights": chain(("Linear", {"out_channels": 8}), RELU,
                          conv_of(["b", "a"], "GCN2Conv", True, alpha=0.1, add_self_loops=False, shared_weights=False),
                          conv_of(["c", "b"], "GCN2Conv", True, alpha=0.5, theta=1.5, layer=3, normalize=False)),
    "arma": chain(conv("ARMAConv", out_channels=6, num_stacks=3, num_layers=2),
                  conv("ARMAConv", out_channels=5, act=None, bias=False)),
    "arma-weights": chain(weighted("ARMAConv", out_channels=6, num_stacks=2, num_layers=3, shared_weights=True,
                                   act="leaky_relu", act_kwargs={"negative_slope": 0.3}, dropout=0.25),
                          weighted("ARMAConv", out_channels=5, num_layers=3, act="tanh")),
    "cheb": chain(conv("ChebConv", out_channels=8, K=3), RELU, conv("ChebConv", out_channels=5, K=2, bias=False)),
    "cheb-weights": chain(weighted("ChebConv", out_channels=8, K=4), RELU,
                          weighted("ChebConv", out_channels=6, K=3, normalization="rw"), RELU,
                          conv("ChebConv", out_channels=5, K=1, normalization="rw")),
    "gated": chain(conv("GatedGraphConv", out_channels=14, num_layers=2), RELU,
                   conv("GatedGraphConv", out_channels=14, num_layers=1, aggr="max", bias=False)),
    "gated-weights": chain(weighted("GatedGraphConv", out_channels=12, num_layers=3, aggr="mean")),
    "activations": chain(("Linear", {"out_channels": 9}), ("LeakyReLU",), ("Linear", {"out_channels": 9}),
                         ("ELU", {"alpha": 0.5}), ("Linear", {"out_channels": 9, "bias": False}), ("Sigmoid",),
                         ("Linear", {"out_channels": 9}), ("Tanh",), ("Dropout", {"p": 0.5}), ("Identity",), ("ReLU",)),
    "activations-smooth": chain(
        *through(("GELU",), ("GELU", {"approximate": "tanh"}), ("SiLU",), ("Mish",), ("Softplus",),
                 ("Softplus", {"beta": 2.0, "threshold": 1.0}), ("Softsign",), ("LogSigmoid",), ("SELU",),
                 ("CELU", {"alpha": 0.7}), ("Tanhshrink",))),
    "activations-hard": chain(
        *through(("ReLU6",), ("Hardtanh", {"min_val": -0.4, "max_val": 0.9}), ("Hardsigmoid",), ("Hardswish",),
                 ("Hardshrink", {"lambd": 0.3}), ("Softshrink", {"lambd": 0.2}),
                 ("Threshold", {"threshold": 0.1, "value": -0.3}), ("RReLU",), ("PReLU",),
                 ("PReLU", {"num_parameters": 9}), ("RReLU", {"lower": 0.5, "upper": 0.9}))),
    "activations-rows": chain(("GLU", {"dim": -1}), ("Linear", {"out_channels": 9}), ("Softmax", {"dim": -1}),
                              ("Linear", {"out_channels": 8}), ("Softmin", {"dim": 1}), ("Linear", {"out_channels": 10}),
                              ("GLU",), ("LogSoftmax", {"dim": -1})),
    "operators": chain(conv("SAGEConv", out_channels=12), ("Mul", {}, {"inputs": ["a", "x", "a"]}), RELU,
                       ("Scale", {"factor": -1.7}), ("Concat", {}, {"inputs": ["d", "x", "b"]}),
                       ("Linear", {"out_channels": 12}), ("Sigmoid",), ("Mul", {}, {"inputs": ["g", "d"]}),
                       conv("GCNConv", out_channels=5)),
    "mlp": chain(("MLP", {"channel_list": [FEATURES, 9, 8]}), conv("SAGEConv", out_channels=7),
                 ("MLP", {"hidden_channels": 9, "out_channels": 6, "num_layers": 3, "act": "gelu", "act_first": True,
                          "norm": "layer_norm", "norm_kwargs": {"mode": "node"}, "plain_last": False,
                          "bias": [True, False, True]}),
                 conv("GINConv", nn=[inner("MLP", channel_list=[6, 8, 8], norm=None, act="leaky_relu",
                                           act_kwargs={"negative_slope": 0.3})]),
                 conv("EdgeConv", nn=[inner("MLP", channel_list=[16, 8, 5], act="silu")])),
    "ready-gcn-gelu": ready("GCN", act="gelu", num_layers=3),
    "norms": chain(conv("SAGEConv", out_channels=8), ("LayerNorm", {"mode": "node"}), RELU, conv("SAGEConv", out_channels=7),
                   ("BatchNorm", {"affine": False, "eps": 1e-3}), RELU, conv("SAGEConv", out_channels=6), ("LayerNorm",),
                   ("BatchNorm1d",), ("Normalize",)),
    "norms-graph": chain(conv("SAGEConv", out_channels=8), ("GraphNorm",), RELU, conv("SAGEConv", out_channels=7),
                         ("InstanceNorm", {"eps": 1e-3}), RELU, conv("SAGEConv", out_channels=6),
                         ("PairNorm", {"scale": 1.7}), ("Tanh",), conv("SAGEConv", out_channels=6),
                         ("InstanceNorm", {"affine": True})),
    "norms-row": chain(conv("SAGEConv", out_channels=8), ("RMSNorm",), RELU, conv("SAGEConv", out_channels=8),
                       ("MessageNorm", {"learn_scale": True}, {"inputs": ["c", "d"]}),
                       ("DiffGroupNorm", {"groups": 3, "lamda": 0.4}), ("RMSNorm", {"eps": 1e-2, "elementwise_affine": False}),
                       conv("GINConv", nn=[linear(9), inner("GraphNorm"), inner("ReLU"), linear(8),
                                           inner("DiffGroupNorm", groups=2, affine=False)])),
    "ready-gin-graph-norm": ready("GIN", norm="graph_norm", jk="cat"),
    "norms-plain": chain(conv("GCNConv", out_channels=8), ("LayerNorm", {"affine": False, "eps": 1e-2}), RELU,
                         conv("GCNConv", out_channels=5), ("LayerNorm", {"mode": "node", "affine": False})),
    "jumps": chain(conv("GCNConv", out_channels=6), RELU, conv("GATConv", out_channels=3, heads=2),
                   ("JumpingKnowledge", {"mode": "max"}, {"inputs": ["b", "c", "a"]}),
                   ("JumpingKnowledge", {"mode": "cat"}, {"inputs": ["d", "x", "a"]}),
                   ("Linear", {"out_channels": 6}), ("JumpingKnowledge", {"mode": "last"}, {"inputs": ["c", "f"]}),
                   ("Add", {}, {"inputs": ["g", "a", "d"]})),
    "residuals": chain(("SAGEConv", {"out_channels": 12}), ("Add", {}, {"inputs": ["a", "x"]}), RELU,
                       conv("TransformerConv", out_channels=6, heads=2), ("Add", {}, {"inputs": ["d", "b", "x"]}),
                       conv("EdgeConv", nn=[linear(12), inner("ReLU"), linear(12)]), ("Add", {}, {"inputs": ["f", "e"]})),
    "jumps-lstm": chain(conv("GCNConv", out_channels=6), RELU, conv("SAGEConv", out_channels=6), conv("SAGEConv", out_channels=6),
                        ("JumpingKnowledge", {"mode": "lstm", "channels": 6, "num_layers": 3}, {"inputs": ["b", "c", "d"]}),
                        ("JumpingKnowledge", {"mode": "lstm", "channels": 6, "num_layers": 1}, {"inputs": ["e"]})),
    "ready-sage-jk-lstm": ready("GraphSAGE", jk="lstm", num_layers=3, act="silu"),
    "ready-gcn-act-first": ready("GCN", act_first=True, norm="batch_norm", act="leaky_relu",
                                 act_kwargs={"negative_slope": 0.2}, num_layers=3),
    "ready-gcn-norm-node": ready("GCN", {"edge_weight": True}, norm="LayerNorm", norm_kwargs={"mode": "node"}, jk="max",
                                 act="ELU", act_kwargs={"alpha": 0.5}, improved=True, num_layers=3),
    "ready-gcn-jk-last": ready("GCN", jk="last", act=None, norm="layer_norm", normalize=True),
    "ready-sage": ready("GraphSAGE", aggr="min", normalize=True, project=True, jk="cat", norm="batch", act_first=True),
    "ready-sage-hidden": ready("GraphSAGE", aggr="max", out_channels=None, dropout=0.5, act="tanh", root_weight=False),
    "ready-gin": ready("GIN", train_eps=True, norm="layer_norm", norm_kwargs={"mode": "node"}, jk="cat", act="elu",
                       act_kwargs={"alpha": 0.7}, num_layers=3),
    "ready-gin-act-first": ready("GIN", norm="batch_norm", act_first=True, eps=0.2),
    "ready-gat": ready("GAT", heads=4, residual=True, jk="max", negative_slope=0.1),
    "ready-gat-v2": ready("GAT", v2=True, heads=2, concat=False, share_weights=True, norm="layer_norm", bias=False),
    "cg": chain(conv("CGConv", dim=EDGE_FEATURES, batch_norm=True), RELU, conv("CGConv", dim=EDGE_FEATURES, aggr="mean", bias=False),
                ("Linear", {"out_channels": 7}), conv("CGConv", channels=7)),
    "res-gated": chain(conv("ResGatedGraphConv", out_channels=8), RELU, conv("ResGatedGraphConv", out_channels=19, aggr="max", act="tanh"),
                       conv("ResGatedGraphConv", out_channels=5, root_weight=False, bias=False)),
    "res-gated-edge": chain(conv("ResGatedGraphConv", out_channels=8, edge_dim=EDGE_FEATURES), RELU,
                            conv("ResGatedGraphConv", out_channels=17, edge_dim=EDGE_FEATURES, act="leaky_relu",
                                 act_kwargs={"negative_slope": 0.3}, aggr="mean"),
                            conv("ResGatedGraphConv", out_channels=5, edge_dim=EDGE_FEATURES, root_weight=False, bias=False, aggr="min")),
    "gen": chain(conv("GENConv", out_channels=8), RELU, conv("GENConv", out_channels=8, aggr="softmax", t=0.3, num_layers=1, eps=0.01, msg_norm=True),
                 conv("GENConv", out_channels=6, aggr="powermean", norm="layer", num_layers=3, expansion=3, bias=True),
                 conv("GENConv", out_channels=6, aggr="add", norm=None, eps=0.1)),
    "gen-edge": chain(conv("GENConv", out_channels=8, edge_dim=EDGE_FEATURES, learn_t=True, bias=True), RELU,
                      conv("GENConv", out_channels=8, edge_dim=EDGE_FEATURES, aggr="softmax_sg", t=-1.5, msg_norm=True, learn_msg_scale=True),
                      conv("GENConv", out_channels=EDGE_FEATURES, edge_dim=EDGE_FEATURES, aggr="mean", eps=0.01), RELU,
                      conv("GENConv", out_channels=6, edge_dim=EDGE_FEATURES, aggr="max", norm=None)),
    "gmm": chain(conv("GMMConv", out_channels=8, dim=EDGE_FEATURES, kernel_size=5), RELU,
                 conv("GMMConv", out_channels=19, dim=EDGE_FEATURES, kernel_size=1, aggr="max"),
                 conv("GMMConv", out_channels=5, dim=EDGE_FEATURES, kernel_size=3, aggr="add", bias=False)),
    "nn": chain(conv("NNConv", out_channels=8, nn=[linear(10, in_channels=EDGE_FEATURES), inner("ReLU"), linear(12 * 8)]), RELU,
                conv("NNConv", out_channels=6, nn=[linear(8 * 6, in_channels=EDGE_FEATURES)], aggr="mean", root_weight=False),
                conv("NNConv", out_channels=5, aggr="max", bias=False,
                     nn=[linear(9, in_channels=EDGE_FEATURES, bias=False), inner("BatchNorm1d"), inner("Tanh"), linear(7), inner("ELU"), linear(6 * 5, bias=False)])),
    "pna": chain(conv("PNAConv", out_channels=8, aggregators=["mean", "min", "max", "std"],
                      scalers=["identity", "amplification", "attenuation"]), RELU,
                 conv("PNAConv", out_channels=5, aggregators=["sum", "var"], scalers=["linear", "inverse_linear"], train_norm=True)),
    "pna-edge": chain(conv("PNAConv", out_channels=9, aggregators=["mean", "max", "std"], scalers=["attenuation", "identity"],
                           edge_dim=EDGE_FEATURES, towers=3, pre_layers=2, post_layers=2, divide_input=True, act="tanh"), RELU,
                      conv("PNAConv", out_channels=6, aggregators=["min", "add"], scalers=["amplification"], edge_dim=EDGE_FEATURES, towers=2)),
    "pna-towers": chain(conv("PNAConv", out_channels=20, aggregators=["max"], scalers=["identity"], towers=4, divide_input=True,
                             pre_layers=3, act="leaky_relu", act_kwargs={"negative_slope": 0.3}), RELU,
                        conv("PNAConv", out_channels=6, aggregators=["mean", "var"], scalers=["identity", "linear"], towers=3,
                             pre_layers=2, post_layers=3)),
    "fa": chain(("Linear", {"out_channels": 8}), conv_of(["a", "a"], "FAConv", eps=0.3, cached=True, dropout=0.4), RELU,
                conv_of(["c", "a"], "FAConv", channels=8, add_self_loops=False), ("Linear", {"out_channels": 5})),
    "fa-weights": chain(("Linear", {"out_channels": 20}), conv_of(["a", "a"], "FAConv", True, eps=0.0, normalize=False), RELU,
                        conv_of(["c", "a"], "FAConv", True, eps=-0.6, normalize=False)),
    "supergat": chain(conv("SuperGATConv", out_channels=4, heads=3, dropout=0.3), ELU,
                      conv("SuperGATConv", out_channels=5, heads=2, concat=False, negative_slope=0.1, add_self_loops=False, bias=False)),
    "supergat-sd": chain(conv("SuperGATConv", out_channels=18, heads=2, attention_type="SD", edge_sample_ratio=0.8), ELU,
                         conv("SuperGATConv", out_channels=5, attention_type="SD", is_undirected=True)),
    "dir-sage": chain(conv("DirGNNConv", conv=[inner("SAGEConv", out_channels=8, aggr="max", normalize=True)], alpha=0.3), RELU,
                      conv("DirGNNConv", conv=[inner("GCNConv", out_channels=6)]), RELU,
                      conv("DirGNNConv", conv=[inner("GraphConv", out_channels=5, aggr="mean")], root_weight=False, alpha=1.0)),
    "dir-gat": chain(conv("DirGNNConv", conv=[inner("GATConv", out_channels=8)]), ELU,
                     conv("DirGNNConv", conv=[inner("GATv2Conv", out_channels=4, heads=2)], root_weight=False, alpha=0.0), ELU,
                     conv("DirGNNConv", conv=[inner("TransformerConv", out_channels=6, beta=True)], alpha=-0.4)),
    "dir-others": chain(conv("DirGNNConv", conv=[inner("ChebConv", out_channels=8, K=3)]), RELU,
                        conv("DirGNNConv", conv=[inner("GINConv", nn=MLP)], root_weight=False), RELU,
                        conv("DirGNNConv", conv=[inner("EdgeConv", nn=[linear(7), inner("ReLU"), linear(6)])], root_weight=False),
                        conv("DirGNNConv", conv=[inner("ResGatedGraphConv", out_channels=5)], alpha=0.7)),
    "ready-gat-edge": ready("GAT", heads=2, edge_dim=EDGE_FEATURES, fill_value="mean"),
    "ready-gat-v2-edge": ready("GAT", v2=True, heads=2, edge_dim=EDGE_FEATURES, fill_value=0.25),
    "ready-edgecnn": ready("EdgeCNN", aggr="mean", norm="batch_norm", jk="cat"),
    "ready-edgecnn-act-first": ready("EdgeCNN", norm="batch_norm", act_first=True, act="elu"),
}

NODE_MODELS.update(message_functions.declarations())

GRAPH_MODELS = {
    f"pool-{pool.replace('global_', '').replace('_pool', '').lower()}": chain(
        conv("GINConv", nn=[linear(8), inner("ReLU"), linear(8)]), RELU, ("LayerNorm",), (pool,),
        ("Linear", {"out_channels": 3}), task="graph")
    for pool in POOLS
}
GRAPH_MODELS["pool-norms"] = chain(conv("SAGEConv", out_channels=8), ("GraphNorm",), RELU, conv("SAGEConv", out_channels=8),
                                   ("PairNorm",), RELU, ("InstanceNorm",), ("global_max_pool",), ("RMSNorm",),
                                   ("Linear", {"out_channels": 3}), task="graph")
GRAPH_MODELS["pool-attention"] = chain(
    conv("SAGEConv", out_channels=8), RELU,
    ("AttentionalAggregation", {"gate_nn": [linear(6), inner("Tanh"), linear(1)], "nn": [linear(7), inner("ReLU")]}),
    ("Linear", {"out_channels": 3}), task="graph")
GRAPH_MODELS["pool-attention-columns"] = chain(
    conv("SAGEConv", out_channels=8), RELU,
    ("AttentionalAggregation", {"gate_nn": [{**inner("MLP", channel_list=[8, 6, 8]), "prefix": ""}]}),
    ("Linear", {"out_channels": 3}), task="graph")
GRAPH_MODELS["pool-softmax"] = chain(
    conv("SAGEConv", out_channels=8), ("SoftmaxAggregation", {"t": -2.0, "semi_grad": True}, {"name": "one"}),
    ("SoftmaxAggregation", {"learn": True, "channels": 8}, {"inputs": ["a"]}),
    ("SoftmaxAggregation", {"learn": True}, {"inputs": ["a"]}), ("Concat", {}, {"inputs": ["one", "c", "d"]}),
    ("Linear", {"out_channels": 3}), task="graph")
GRAPH_MODELS["pool-several"] = chain(
    conv("SAGEConv", out_channels=8),
    ("MultiAggregation", {"aggrs": [inner("MeanAggregation"), inner("StdAggregation"), inner("SoftmaxAggregation", learn=True), inner("MaxAggregation"),
                                    inner("VarAggregation", semi_grad=True)]}),
    ("Linear", {"out_channels": 3}), task="graph")
GRAPH_MODELS["pool-sort"] = chain(conv("SAGEConv", out_channels=7), ("Tanh",), ("SortAggregation", {"k": 10}), RELU,
                                  ("Linear", {"out_channels": 3}), task="graph")
GRAPH_MODELS["pool-directed"] = chain(
    conv("DirGNNConv", conv=[inner("SAGEConv", out_channels=12)]), RELU, ("MessagePassing", message_functions.MESSAGES["outdegrees"][0], {"name": "outdegrees"}),
    conv("PNAConv", out_channels=8, aggregators=["mean", "std"], scalers=["identity", "attenuation"], edge_dim=EDGE_FEATURES, towers=2), RELU,
    conv("SuperGATConv", out_channels=3, heads=2), conv_of(["d", "d"], "FAConv"), ("global_mean_pool",), ("Linear", {"out_channels": 3}),
    task="graph")
GRAPH_MODELS["pool-gine"] = chain(
    conv("GINEConv", nn=MLP, edge_dim=EDGE_FEATURES), RELU, conv("GATv2Conv", out_channels=4, heads=2, edge_dim=EDGE_FEATURES),
    ELU, conv("TransformerConv", out_channels=6, edge_dim=EDGE_FEATURES), ("global_mean_pool",), ("Linear", {"out_channels": 3}),
    task="graph")
GRAPH_MODELS["pool-edge-messages"] = chain(
    conv("CGConv", dim=EDGE_FEATURES), conv("ResGatedGraphConv", out_channels=8, edge_dim=EDGE_FEATURES), RELU,
    conv("GENConv", out_channels=8, edge_dim=EDGE_FEATURES), conv("GMMConv", out_channels=8, dim=EDGE_FEATURES, kernel_size=2), RELU,
    conv("NNConv", out_channels=6, nn=[linear(5, in_channels=EDGE_FEATURES), inner("ReLU"), linear(48)]), ("global_mean_pool",),
    ("Linear", {"out_channels": 3}), task="graph")
GRAPH_MODELS["pool-messages"] = chain(
    *(("MessagePassing", message_functions.MESSAGES[name][0], {"name": name}) for name in ("egnn", "edgegate")), ELU,
    ("Linear", {"out_channels": 12}), ("MessagePassing", message_functions.MESSAGES["moments"][0], {"name": "moments"}),
    ("global_mean_pool",), ("Linear", {"out_channels": 3}), task="graph")
GRAPH_MODELS["pool-edge"] = chain(conv("EdgeConv", nn=[linear(8), inner("ReLU"), linear(8)]), RELU,
                                  conv("TransformerConv", out_channels=4, heads=2, beta=True), ("global_mean_pool",),
                                  ("LayerNorm", {"mode": "node"}), ("Linear", {"out_channels": 3}), task="graph")
GRAPH_MODELS["pool-gated"] = chain(conv("GatedGraphConv", out_channels=12, num_layers=2), conv("TAGConv", out_channels=8),
                                   ("SiLU",), conv("ChebConv", out_channels=8, K=3), ("global_mean_pool",),
                                   ("MLP", {"channel_list": [8, 6, 3]}), task="graph", target="regression")
GRAPH_MODELS["pool-appnp"] = chain(conv("APPNP", K=3, alpha=0.1), conv("SGConv", out_channels=8, K=2), ("Tanh",),
                                   ("global_add_pool",), ("Linear", {"out_channels": 3}), task="graph")

README = """# Small models of every layer and argument

Made by `tests/data/make_references.py` with torch {torch} and torch_geometric {pyg}; not written by hand. `NAME.json` is the
architecture as Vicinal reads it, `NAME.safetensors` the module's `state_dict`, `NAME.reference.safetensors` what PyTorch
Geometric answered in float64 from these float32 weights, stored as float32 (`logits`; `graph_logits` of models of graphs).
Every parameter and running statistic is random. `dataset` names the graph in `../graphs`: `tiny` is directed and weighted,
with loops, duplicates, isolated nodes and nodes without in-edges; `tiny_batch` is seven small graphs. Edges of both have four
features (`edge_attr`).
"""


def make(wanted):
    """Makes the models in `wanted`."""
    for name, models, graph in (("tiny", NODE_MODELS, weighted_graph()), ("tiny_batch", GRAPH_MODELS, graph_batch())):
        if not (HERE / "graphs" / f"{name}.npz").exists():
            np.savez_compressed(HERE / "graphs" / f"{name}.npz", **graph)
        for model, declaration in models.items():
            if model in wanted:
                write_model(model, {"name": model, "dataset": name, **declaration}, graph)


def main():
    known = [*NODE_MODELS, *GRAPH_MODELS]
    unknown = [name for name in sys.argv[1:] if name not in known]
    if unknown:
        sys.exit(f"no such model: {', '.join(unknown)}; add it to NODE_MODELS or GRAPH_MODELS")
    if len(sys.argv) > 1:
        make(sys.argv[1:])
        return
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    for name in ("tiny", "tiny_batch"):
        (HERE / "graphs" / f"{name}.npz").unlink(missing_ok=True)
    make(known)
    (OUT / "README.md").write_text(README.format(torch=torch.__version__, pyg=torch_geometric.__version__))


if __name__ == "__main__":
    main()
