# SPDX-License-Identifier: Apache-2.0
"""Modules of torch.nn and PyTorch Geometric as layers: the type, its arguments read back from the module, and its tensors, which keep their
names. What docs/layers.md does not list is refused here, with what to do instead."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Optional

import torch

from vicinal.exporting._constructors import READ, check_constructor, check_message_passing, check_width
from vicinal.exporting._link_predictors import AUTOENCODERS, DECODER
from vicinal.exporting._own_messages import message_arguments, named_tensors
from vicinal.exporting._result import Unsupported

WEIGHTED = ("GCNConv", "GraphConv", "SGConv", "APPNP", "LGConv", "SSGConv", "TAGConv", "ChebConv", "GatedGraphConv", "GCN2Conv",
            "ARMAConv", "FAConv")


@dataclass
class Layer:
    type: str
    args: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    edge_weight: bool = False
    left_out: dict[str, torch.Tensor] = field(default_factory=dict)  # of the module, that no expression names


def own_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in module.state_dict().items() if not name.endswith("num_batches_tracked")}


_SUMS = ("add", "sum", "mean", "max", "min")
# Aggregations of those that do not only sum.
_AGGREGATIONS = {"SAGEConv": (*_SUMS, "std", "var"), "GraphConv": _SUMS, "GINEConv": _SUMS, "EdgeConv": _SUMS, "GatedGraphConv": _SUMS,
                 "CGConv": _SUMS, "ResGatedGraphConv": _SUMS, "GMMConv": _SUMS, "NNConv": _SUMS, "GENConv": ("softmax", "powermean", *_SUMS),
                 "PNAConv": ("DegreeScalerAggregation()",)}


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
            "aggr": conv.aggr}
    return args if conv.lin is None else {**args, "edge_dim": conv.lin.in_features if hasattr(conv.lin, "in_features") else conv.lin.in_channels}


def reads_edge_features(layer: Layer) -> bool:
    return layer.type in ("GINEConv", "GMMConv", "NNConv") or "edge_dim" in layer.args or layer.args.get("dim", 0) > 0


def edge_width_of(layer: Layer) -> Optional[int]:
    """Of the features that it reads; None: any."""
    if layer.type == "NNConv":
        return layer.args["nn"][0].get("args", {}).get("in_channels")
    return layer.args.get("edge_dim", layer.args.get("dim"))


def _cg(conv: Any) -> dict[str, Any]:
    pair = conv.channels if isinstance(conv.channels, (tuple, list)) else (conv.channels, conv.channels)
    if pair[0] != pair[1]:
        raise Unsupported(f"channels={pair}: a bipartite layer", "graphs have one type of nodes: use one width")
    return {"channels": pair[0], "dim": conv.dim, "aggr": conv.aggr, "batch_norm": conv.bn is not None, "bias": conv.lin_f.bias is not None}


def _res_gated(conv: Any) -> dict[str, Any]:
    return {**_edge_dim(conv), "out_channels": conv.out_channels, **_act(conv.act), "aggr": conv.aggr, "root_weight": bool(conv.root_weight),
            "bias": conv.bias is not None}


_MLP_NORMS = {"BatchNorm1d": "batch", "LayerNorm": "layer"}


def _gen_aggregation(conv: Any) -> dict[str, Any]:
    module = conv.aggr_module
    if conv.aggr == "softmax":
        if module.channels != 1:
            raise Unsupported(f"aggr_kwargs: channels={module.channels}", "one temperature for all columns: leave aggr_kwargs out")
        return {"aggr": "softmax", **({"learn_t": True} if module.learn else {"t": float(module.t)})}
    if conv.aggr == "powermean" and (module.learn or module.p != 1):
        raise Unsupported("a power mean of another power than 1, or of a learned one", "train with aggr='softmax', or with p=1")
    return {"aggr": conv.aggr}


def _gen(conv: Any) -> dict[str, Any]:
    """`edge_dim` is what the features would be if the layer is called with some (edge_inputs)."""
    edge, linears = getattr(conv, "lin_edge", None), [part for part in conv.mlp if type(part).__name__ == "Linear"]
    norms = {type(part).__name__ for part in conv.mlp} - {"Linear", "ReLU", "Dropout"}
    if len(norms) > 1 or not norms <= _MLP_NORMS.keys():
        raise Unsupported(f"an mlp with {', '.join(sorted(norms))}", "train with norm 'batch', 'layer' or None")
    return {**_gen_aggregation(conv), "out_channels": conv.out_channels, "edge_dim": edge.weight.shape[1] if edge is not None else conv.out_channels,
            "msg_norm": hasattr(conv, "msg_norm"), "norm": _MLP_NORMS[norms.pop()] if norms else None, "num_layers": len(linears),
            "expansion": linears[0].weight.shape[0] // conv.out_channels, "eps": conv.eps, "bias": linears[0].bias is not None}


def _gmm(conv: Any) -> dict[str, Any]:
    if conv.separate_gaussians:
        raise Unsupported("separate_gaussians=True", "train with separate_gaussians=False")
    return {"out_channels": conv.out_channels, "dim": conv.dim, "kernel_size": conv.kernel_size, "aggr": conv.aggr, "bias": conv.bias is not None}


def _nn(conv: Any) -> dict[str, Any]:
    """The first Linear states how many features an edge has."""
    layers = nested(conv.nn)
    if layers and layers[0]["type"] == "Linear":
        layers[0]["args"]["in_channels"] = own_tensors(conv)[f"nn.{layers[0]['prefix']}weight"].shape[1]
    return {"out_channels": conv.out_channels, "nn": layers, "aggr": conv.aggr, "root_weight": bool(conv.root_weight), "bias": conv.bias is not None}


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


def _beta(beta: float) -> dict[str, Any]:
    """GCN2Conv keeps beta = log(theta / layer + 1), or 1."""
    return {} if beta == 1.0 else {"theta": math.expm1(beta), "layer": 1}


def _act(act: Any) -> dict[str, Any]:
    """An activation that is an argument: its name and its arguments."""
    if act is None:
        return {"act": None}
    layer = activation(act)
    if layer.tensors:
        raise Unsupported(f"act={layer.type}, which has weights", "call the activation after the layer, or train with another one")
    return {"act": layer.type, **({"act_kwargs": layer.args} if layer.args else {})}


def _cheb(conv: Any) -> dict[str, Any]:
    if conv.normalization is None:
        raise Unsupported("normalization=None", "train with normalization 'sym' or 'rw'")
    return {"out_channels": conv.out_channels, "K": len(conv.lins), "normalization": conv.normalization, "bias": conv.bias is not None}


def _aggregator(module: Any) -> str:
    """An aggregation of PNAConv, by the name that its constructor takes."""
    name = type(module).__name__.removesuffix("Aggregation").lower()
    if name not in ("sum", "mean", "max", "min", "var", "std"):
        raise Unsupported(f"aggregators: {name}", "train with sum, mean, max, min, var and std")
    return name


def _pna(conv: Any) -> dict[str, Any]:
    """The averages that `deg` gives are tensors."""
    scaled = conv.aggr_module
    parts = getattr(scaled.aggr, "aggrs", [scaled.aggr])
    acts = [part for network in (conv.pre_nns[0], conv.post_nns[0]) for part in list(network)[1::2]]
    return {**_edge_dim(conv), "out_channels": conv.out_channels, "aggregators": [_aggregator(part) for part in parts],
            "scalers": list(scaled.scaler), "towers": conv.towers, "pre_layers": (len(conv.pre_nns[0]) + 1) // 2,
            "post_layers": (len(conv.post_nns[0]) + 1) // 2, "divide_input": conv.divide_input, **(_act(acts[0]) if acts else {})}


def _super_gat(conv: Any) -> dict[str, Any]:
    return {"out_channels": conv.out_channels, "heads": conv.heads, "concat": conv.concat, "negative_slope": conv.negative_slope,
            "add_self_loops": conv.add_self_loops, "bias": conv.bias is not None, "attention_type": conv.attention_type}


_CONVOLUTIONS = {
    "PNAConv": _pna, "SuperGATConv": _super_gat,
    "FAConv": lambda c: {"eps": float(c.eps), "add_self_loops": c.add_self_loops, "normalize": c.normalize},
    "GCNConv": lambda c: {"out_channels": c.out_channels, "improved": c.improved, "add_self_loops": c.add_self_loops,
                          "normalize": c.normalize, "bias": c.bias is not None},
    "SAGEConv": lambda c: {"out_channels": c.out_channels, "aggr": c.aggr if isinstance(c.aggr, str) else list(c.aggr), "normalize": c.normalize,
                           "root_weight": c.root_weight, "project": c.project, "bias": c.lin_l.bias is not None},
    "GraphConv": lambda c: {"out_channels": c.out_channels, "aggr": c.aggr, "bias": c.lin_rel.bias is not None},
    "GINConv": lambda c: {"nn": nested(c.nn), "eps": float(c.initial_eps), "train_eps": isinstance(c.eps, torch.nn.Parameter)},
    "GINEConv": _gine,
    "CGConv": _cg, "ResGatedGraphConv": _res_gated, "GENConv": _gen, "GMMConv": _gmm, "NNConv": _nn,
    "GATConv": _attention,
    "GATv2Conv": lambda c: {**_attention(c), "share_weights": c.share_weights},
    "TransformerConv": _transformer,
    "EdgeConv": lambda c: {"nn": nested(c.nn), "aggr": c.aggr},
    "SGConv": lambda c: {"out_channels": c.out_channels, "K": c.K, "add_self_loops": c.add_self_loops, "bias": c.lin.bias is not None},
    "APPNP": lambda c: {"K": c.K, "alpha": c.alpha, "add_self_loops": c.add_self_loops, "normalize": c.normalize},
    "LGConv": lambda c: {"normalize": c.normalize},
    "SSGConv": lambda c: {"out_channels": c.out_channels, "alpha": c.alpha, "K": c.K, "add_self_loops": c.add_self_loops,
                          "bias": c.lin.bias is not None},
    "TAGConv": lambda c: {"out_channels": c.out_channels, "K": c.K, "bias": c.bias is not None, "normalize": c.normalize},
    "ClusterGCNConv": _cluster,
    "ChebConv": _cheb,
    "GatedGraphConv": lambda c: {"out_channels": c.out_channels, "num_layers": c.num_layers, "aggr": c.aggr,
                                 "bias": c.rnn.bias},
    "GCN2Conv": lambda c: {"alpha": c.alpha, **_beta(c.beta), "shared_weights": c.weight2 is None, "add_self_loops": c.add_self_loops,
                           "normalize": c.normalize},
    "ARMAConv": lambda c: {"out_channels": c.out_channels, "num_stacks": c.num_stacks, "num_layers": c.num_layers,
                           "shared_weights": c.shared_weights, **_act(c.act), "bias": c.bias is not None},
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


def _torch_rms_norm(norm: Any) -> Layer:
    if len(norm.normalized_shape) != 1:
        raise Unsupported(f"normalized_shape={tuple(norm.normalized_shape)}", "rows are normalised: one dimension")
    return Layer("RMSNorm", {"eps": norm.eps, "elementwise_affine": norm.elementwise_affine}, own_tensors(norm))


def _over_columns(module: Any) -> Layer:
    kind = type(module).__name__
    if module.dim not in (-1, 1):
        raise Unsupported(f"{kind}(dim={module.dim})", "the columns of a row take part: dim=-1")
    return Layer(kind)


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
    "RMSNorm": lambda m: _torch_rms_norm(m),
    "Softmax": lambda m: _over_columns(m), "LogSoftmax": lambda m: _over_columns(m), "Softmin": lambda m: _over_columns(m),
    "GLU": lambda m: _over_columns(m),
}
EMBEDDING = "an embedding of node ids is a table of features: upload its weight as x, and export the module that follows it (docs/python_cookbook.md)"
_SUGGESTIONS = {
    "Embedding": EMBEDDING,
    **dict.fromkeys(AUTOENCODERS, DECODER),
}


def is_pyg(module: Any) -> bool:
    return type(module).__module__.startswith("torch_geometric.")


def is_own_messages(module: Any) -> bool:
    """A layer of the user's own, made of PyTorch Geometric's MessagePassing."""
    return not is_pyg(module) and any(base.__name__ == "MessagePassing" for base in type(module).__mro__)


def own_messages(module: Any) -> Layer:
    args = message_arguments(module)
    tensors = own_tensors(module)
    layer = Layer("MessagePassing", args, named_tensors(args, tensors))
    layer.left_out = {name: tensor for name, tensor in tensors.items() if name not in layer.tensors}
    return layer


def _layer_norm(norm: Any) -> Layer:
    return Layer("LayerNorm", {"mode": norm.mode, "eps": norm.eps, "affine": norm.weight is not None}, own_tensors(norm))


def _pair_norm(norm: Any) -> Layer:
    if norm.scale_individually:
        raise Unsupported("PairNorm(scale_individually=True)", "train with scale_individually=False")
    return Layer("PairNorm", {"scale": norm.scale, "eps": norm.eps})


def _instance_norm(norm: Any) -> Layer:
    if norm.track_running_stats:
        raise Unsupported("InstanceNorm(track_running_stats=True)", "BatchNorm computes the same from the same tensors")
    return Layer("InstanceNorm", {"eps": norm.eps, "affine": norm.affine}, own_tensors(norm))


def _group_norm(norm: Any) -> Layer:
    return Layer("DiffGroupNorm", {"groups": norm.groups, "lamda": norm.lamda, **_batch_norm(norm.norm)}, own_tensors(norm))


def _jumping(jump: Any) -> Layer:
    sizes = {"channels": jump.channels, "num_layers": jump.num_layers} if jump.mode == "lstm" else {}
    return Layer("JumpingKnowledge", {"mode": jump.mode, **sizes}, own_tensors(jump))


def _softmax_readout(pool: Any) -> Layer:
    return Layer("SoftmaxAggregation", {"learn": True, "channels": pool.channels} if pool.learn else {"t": float(pool.t)}, own_tensors(pool))


def _attentional(pool: Any) -> Layer:
    """An MLP that is a whole network has another name there; here both are `gate_nn` and `nn`."""
    tensors = {name.replace("gate_mlp.", "gate_nn.", 1) if name.startswith("gate_mlp.") else
               name.replace("mlp.", "nn.", 1) if name.startswith("mlp.") else name: tensor for name, tensor in own_tensors(pool).items()}
    inner = pool.nn if pool.nn is not None else pool.mlp
    return Layer("AttentionalAggregation", {"gate_nn": nested(pool.gate_nn if pool.gate_nn is not None else pool.gate_mlp),
                                            "nn": None if inner is None else nested(inner)}, tensors)


def _directed(pair: Any) -> Layer:
    """Two convolutions of one kind, over in-edges and over out-edges."""
    sides = {"conv_in": pyg_layer(pair.conv_in), "conv_out": pyg_layer(pair.conv_out)}
    tensors = {f"{name}.{tensor}": value for name, side in sides.items() for tensor, value in side.tensors.items()}
    if pair.lin is not None:
        tensors.update({f"lin.{tensor}": value for tensor, value in own_tensors(pair.lin).items()})
    return Layer("DirGNNConv", {"conv": [_entry(Layer(sides["conv_in"].type, sides["conv_in"].args), "")], "alpha": float(pair.alpha),
                                "root_weight": pair.lin is not None}, tensors)


def _median(pool: Any) -> Layer:
    if pool.fill_value != 0:
        raise Unsupported(f"MedianAggregation(fill_value={pool.fill_value})", "an empty graph gives 0: train with fill_value=0")
    return Layer("MedianAggregation")


def _several_readouts(pool: Any) -> Layer:
    if pool.mode != "cat":
        raise Unsupported(f"MultiAggregation(mode={pool.mode!r})", "train with mode='cat'")
    parts = [pyg_layer(part) for part in pool.aggrs]
    return Layer("MultiAggregation", {"aggrs": [_entry(part, f"{i}.") for i, part in enumerate(parts)]},
                 {f"aggrs.{i}.{name}": tensor for i, part in enumerate(parts) for name, tensor in part.tensors.items()})


# Layers of PyTorch Geometric that are no convolutions, or are made of some.
_OTHERS = {
    "BatchNorm": lambda m: Layer("BatchNorm", _batch_norm(m.module), own_tensors(m)),
    "LayerNorm": _layer_norm,
    "GraphNorm": lambda m: Layer("GraphNorm", {"eps": m.eps}, own_tensors(m)),
    "PairNorm": _pair_norm, "InstanceNorm": _instance_norm, "DiffGroupNorm": _group_norm,
    "MessageNorm": lambda m: Layer("MessageNorm", {}, own_tensors(m)),
    "MedianAggregation": lambda m: _median(m), "SortAggregation": lambda m: Layer("SortAggregation", {"k": m.k}),
    "DirGNNConv": _directed, "MultiAggregation": _several_readouts,
    "JumpingKnowledge": _jumping, "SoftmaxAggregation": _softmax_readout, "AttentionalAggregation": _attentional,
    **{kind: lambda m: Layer(type(m).__name__) for kind in ("SumAggregation", "MeanAggregation", "MaxAggregation", "MinAggregation", "VarAggregation",
                                                      "StdAggregation")},
}


def pyg_layer(module: Any) -> Layer:
    kind = type(module).__name__
    if kind in READ:
        check_constructor(module)
    if kind in _CONVOLUTIONS:
        check_message_passing(module, _AGGREGATIONS.get(kind, ("add", "sum")))
        check_width(module)
        return Layer(kind, _CONVOLUTIONS[kind](module), own_tensors(module))
    if kind in _OTHERS:
        return _OTHERS[kind](module)
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
    if is_own_messages(module):
        return own_messages(module)
    raise Unsupported(f"{kind} has no counterpart",
                      _SUGGESTIONS.get(kind, "docs/python.md lists what is exported; other layers of docs/layers.md can be declared by hand"))


def mlp_parts(mlp: Any) -> list[tuple[str, Any]]:
    """torch_geometric.nn.MLP as its parts: (path, module), in the order of its forward."""
    check_constructor(mlp)
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
