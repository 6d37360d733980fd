# SPDX-License-Identifier: Apache-2.0
"""Modules of torch.nn and PyTorch Geometric as layers: the type, its arguments read back from the module, and its tensors, which keep their
names. What docs/layers.md does not list is refused here, with what to do instead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

import torch

WEIGHTED = ("GCNConv", "GraphConv", "SGConv", "APPNP", "LGConv", "SSGConv", "TAGConv", "ChebConv", "GatedGraphConv")


class Unsupported(Exception):
    """A module, argument or call without counterpart: what it is, and a suggestion."""

    def __init__(self, what: str, suggestion: str) -> None:
        super().__init__(what)
        self.what, self.suggestion = what, suggestion


@dataclass
class Layer:
    type: str
    args: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    edge_weight: bool = False
    note: str = ""


def own_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in module.state_dict().items() if not name.endswith("num_batches_tracked")}


def _convolution(conv: Any) -> dict[str, Any]:
    """What all convolutions check."""
    if getattr(conv, "flow", "source_to_target") != "source_to_target":
        raise Unsupported(f"flow={conv.flow!r}", "train with flow='source_to_target' and the rows of edge_index swapped")
    if isinstance(getattr(conv, "in_channels", None), (tuple, list)):
        pair = conv.in_channels
        if pair[0] != pair[1]:
            raise Unsupported(f"in_channels={pair}: a bipartite layer", "graphs have one type of nodes: use one width")
    return {}


def _aggr(conv: Any, allowed: tuple[str, ...]) -> str:
    if not isinstance(conv.aggr, str) or conv.aggr not in allowed:
        raise Unsupported(f"aggr={conv.aggr!r}", f"train with one of {', '.join(allowed)}")
    return conv.aggr


def _edge_dim(conv: Any) -> dict[str, Any]:
    return {} if conv.edge_dim is None else {"edge_dim": conv.edge_dim}


def _fill_value(conv: Any) -> dict[str, Any]:
    """Features of added self-loops; without edge features or loops there are none."""
    fill = conv.fill_value
    if conv.edge_dim is None or not conv.add_self_loops or fill == "mean":
        return {}
    if isinstance(fill, bool) or not isinstance(fill, (int, float)):
        raise Unsupported(f"fill_value={fill!r}", "train with fill_value='mean' or a number")
    return {"fill_value": fill}


def _gine(conv: Any) -> dict[str, Any]:
    args = {"nn": nested(conv.nn), "eps": float(conv.initial_eps), "train_eps": isinstance(conv.eps, torch.nn.Parameter),
            "aggr": _aggr(conv, _SUMS)}
    return args if conv.lin is None else {**args, "edge_dim": conv.lin.in_features if hasattr(conv.lin, "in_features") else conv.lin.in_channels}


def reads_edge_features(layer: Layer) -> bool:
    return layer.type == "GINEConv" or "edge_dim" in layer.args


_SUMS = ("add", "sum", "mean", "max", "min")


def _attention(conv: Any) -> dict[str, Any]:
    return {**_edge_dim(conv), **_fill_value(conv),
            "out_channels": conv.out_channels, "heads": conv.heads, "concat": conv.concat, "negative_slope": conv.negative_slope,
            "add_self_loops": conv.add_self_loops, "bias": conv.bias is not None, "residual": getattr(conv, "res", None) is not None}


def _transformer(conv: Any) -> dict[str, Any]:
    return {**_edge_dim(conv), "out_channels": conv.out_channels, "heads": conv.heads, "concat": conv.concat, "beta": bool(conv.beta),
            "bias": conv.lin_key.bias is not None, "root_weight": conv.root_weight}


def _cluster(conv: Any) -> dict[str, Any]:
    if not conv.add_self_loops:
        raise Unsupported("add_self_loops=False", "train with self-loops")
    return {"out_channels": conv.out_channels, "diag_lambda": conv.diag_lambda, "bias": conv.lin_out.bias is not None}


def _cheb(conv: Any) -> dict[str, Any]:
    if conv.normalization is None:
        raise Unsupported("normalization=None", "train with normalization 'sym' or 'rw'")
    return {"out_channels": conv.out_channels, "K": len(conv.lins), "normalization": conv.normalization, "bias": conv.bias is not None}


_CONVOLUTIONS = {
    "GCNConv": lambda c: {"out_channels": c.out_channels, "improved": c.improved, "add_self_loops": c.add_self_loops,
                          "normalize": c.normalize, "bias": c.bias is not None},
    "SAGEConv": lambda c: {"out_channels": c.out_channels, "aggr": _aggr(c, _SUMS), "normalize": c.normalize,
                           "root_weight": c.root_weight, "project": c.project, "bias": c.lin_l.bias is not None},
    "GraphConv": lambda c: {"out_channels": c.out_channels, "aggr": _aggr(c, _SUMS), "bias": c.lin_rel.bias is not None},
    "GINConv": lambda c: {"nn": nested(c.nn), "eps": float(c.initial_eps), "train_eps": isinstance(c.eps, torch.nn.Parameter)},
    "GINEConv": _gine,
    "GATConv": _attention,
    "GATv2Conv": lambda c: {**_attention(c), "share_weights": c.share_weights},
    "TransformerConv": _transformer,
    "EdgeConv": lambda c: {"nn": nested(c.nn), "aggr": _aggr(c, _SUMS)},
    "SGConv": lambda c: {"out_channels": c.out_channels, "K": c.K, "add_self_loops": c.add_self_loops, "bias": c.lin.bias is not None},
    "APPNP": lambda c: {"K": c.K, "alpha": c.alpha, "add_self_loops": c.add_self_loops, "normalize": c.normalize},
    "LGConv": lambda c: {"normalize": c.normalize},
    "SSGConv": lambda c: {"out_channels": c.out_channels, "alpha": c.alpha, "K": c.K, "add_self_loops": c.add_self_loops,
                          "bias": c.lin.bias is not None},
    "TAGConv": lambda c: {"out_channels": c.out_channels, "K": c.K, "bias": c.bias is not None, "normalize": c.normalize},
    "ClusterGCNConv": _cluster,
    "ChebConv": _cheb,
    "GatedGraphConv": lambda c: {"out_channels": c.out_channels, "num_layers": c.num_layers, "aggr": _aggr(c, _SUMS),
                                 "bias": c.rnn.bias},
}


def _batch_norm(norm: Any) -> dict[str, Any]:
    if not norm.track_running_stats:
        raise Unsupported("track_running_stats=False", "answers would depend on the batch: train with running statistics")
    return {"eps": norm.eps, "affine": norm.affine}


def _torch_layer_norm(norm: Any) -> Layer:
    if len(norm.normalized_shape) != 1:
        raise Unsupported(f"normalized_shape={tuple(norm.normalized_shape)}", "rows are normalised: one dimension")
    tensors = own_tensors(norm)
    if norm.elementwise_affine and norm.bias is None:
        tensors["bias"] = torch.zeros_like(norm.weight)
    return Layer("LayerNorm", {"mode": "node", "eps": norm.eps, "affine": norm.elementwise_affine}, tensors)


# Activations of torch.nn, with their arguments: attributes of the module, in the order in which the function takes them.
ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "ReLU": (), "ReLU6": (), "ELU": ("alpha",), "CELU": ("alpha",), "SELU": (), "LeakyReLU": ("negative_slope",), "RReLU": ("lower", "upper"),
    "PReLU": ("num_parameters",), "GELU": ("approximate",), "SiLU": (), "Mish": (), "Softplus": ("beta", "threshold"), "Softsign": (),
    "Sigmoid": (), "LogSigmoid": (), "Tanh": (), "Tanhshrink": (), "Hardtanh": ("min_val", "max_val"), "Hardsigmoid": (), "Hardswish": (),
    "Hardshrink": ("lambd",), "Softshrink": ("lambd",), "Threshold": ("threshold", "value"),
}
_ROWWISE = {
    "Linear": lambda m: Layer("Linear", {"out_channels": m.weight.shape[0], "bias": m.bias is not None}, own_tensors(m)),
    "BatchNorm1d": lambda m: Layer("BatchNorm1d", _batch_norm(m), own_tensors(m)),
    "Dropout": lambda m: Layer("Dropout"), "Identity": lambda m: Layer("Identity"),
}
_SUGGESTIONS = {
    "Embedding": "an embedding of node ids is a table of features: upload its weight as x, and export the module that follows it "
                 "(docs/python_cookbook.md)",
    "LSTM": "train with mode 'cat' or 'max'",
}


def is_pyg(module: Any) -> bool:
    return type(module).__module__.startswith("torch_geometric.")


def pyg_layer(module: Any) -> Layer:
    kind = type(module).__name__
    if kind in _CONVOLUTIONS:
        _convolution(module)
        return Layer(kind, _CONVOLUTIONS[kind](module), own_tensors(module))
    if kind == "BatchNorm":
        return Layer(kind, _batch_norm(module.module), own_tensors(module))
    if kind == "LayerNorm":
        return Layer(kind, {"mode": module.mode, "eps": module.eps, "affine": module.weight is not None}, own_tensors(module))
    if kind == "GraphNorm":
        return Layer(kind, {"eps": module.eps}, own_tensors(module))
    if kind == "PairNorm":
        if module.scale_individually:
            raise Unsupported("PairNorm(scale_individually=True)", "train with scale_individually=False")
        return Layer(kind, {"scale": module.scale, "eps": module.eps})
    if kind == "InstanceNorm":
        if module.track_running_stats:
            raise Unsupported("InstanceNorm(track_running_stats=True)", "BatchNorm computes the same from the same tensors")
        return Layer(kind, {"eps": module.eps, "affine": module.affine}, own_tensors(module))
    if kind == "JumpingKnowledge":
        if module.mode not in ("cat", "max"):
            raise Unsupported(f"JumpingKnowledge('{module.mode}')", _SUGGESTIONS["LSTM"])
        return Layer(kind, {"mode": module.mode})
    if kind in ("SumAggregation", "MeanAggregation", "MaxAggregation", "MinAggregation"):
        return Layer(kind)
    return rowwise(module)


def rowwise(module: Any) -> Layer:
    """A module that works on each row by itself."""
    kind = type(module).__name__
    home = type(module).__module__
    if home.startswith("torch.nn.") and kind == "LayerNorm":
        return _torch_layer_norm(module)
    if home.startswith("torch.nn.") and kind in ACTIVATIONS:
        return Layer(kind, {name: getattr(module, name) for name in ACTIVATIONS[kind]}, own_tensors(module))
    if kind in _ROWWISE and (home.startswith("torch.nn.") or (kind == "Linear" and is_pyg(module))):
        return _ROWWISE[kind](module)
    raise Unsupported(f"{kind} has no counterpart",
                      _SUGGESTIONS.get(kind, "docs/python.md lists what is exported; other layers of docs/layers.md can be declared by hand"))


def mlp_parts(mlp: Any) -> list[tuple[str, Any]]:
    """torch_geometric.nn.MLP as its parts: (path, module), in the order of its forward."""
    parts: list[tuple[str, Any]] = []
    last = len(mlp.lins) - 1
    for i, lin in enumerate(mlp.lins):
        parts.append((f"lins.{i}", lin))
        if i == last and mlp.plain_last:
            continue
        steps: list[tuple[str, Optional[Any]]] = [(f"norms.{i}", mlp.norms[i]), (f"act{i}", mlp.act)]
        parts += [step for step in (reversed(steps) if mlp.act_first else steps) if step[1] is not None]
    return parts


def activation(act: Any) -> Layer:
    """A module, or a function of torch."""
    if isinstance(act, torch.nn.Module):
        return rowwise(act)
    types = {"relu": "ReLU", "elu": "ELU", "leaky_relu": "LeakyReLU", "sigmoid": "Sigmoid", "tanh": "Tanh", "gelu": "GELU", "silu": "SiLU"}
    name = getattr(act, "__name__", str(act))
    if name not in types:
        raise Unsupported(f"the activation {name}", "pass a module of torch.nn, such as torch.nn.ReLU()")
    return Layer(types[name])


def nested(nn: Any, path: str = "") -> list[dict[str, Any]]:
    """The network inside GINConv and EdgeConv: Sequential (nested too), MLP, or one module."""
    if isinstance(nn, torch.nn.Sequential):
        return [entry for name, child in nn.named_children() for entry in nested(child, f"{path}{name}.")]
    if is_pyg(nn) and type(nn).__name__ == "MLP":
        return [entry for name, child in mlp_parts(nn)
                for entry in ([_entry(activation(child), f"{path}act.")] if name.startswith("act") else nested(child, f"{path}{name}."))]
    return [_entry(pyg_layer(nn) if is_pyg(nn) else rowwise(nn), path)]


def _entry(layer: Layer, path: str) -> dict[str, Any]:
    return {"type": layer.type, **({"args": layer.args} if layer.args else {}), **({"prefix": path} if layer.tensors else {})}
