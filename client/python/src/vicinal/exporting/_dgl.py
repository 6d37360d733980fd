# SPDX-License-Identifier: Apache-2.0
"""DGL's convolutions as layers. DGL and PyTorch Geometric name and shape tensors differently; the numbers are the same. DGL never adds
self-loops: the uploaded graph must be the one that the module was given."""

from __future__ import annotations

from typing import Any, Optional

import torch

from vicinal.exporting._modules import Layer, nested, own_tensors
from vicinal.exporting._result import Unsupported


def is_dgl(module: Any) -> bool:
    return type(module).__module__.startswith("dgl.")


def _needs_equal_degrees(graph: Any, what: str) -> None:
    if not bool((graph.in_degrees() == graph.out_degrees()).all()):
        raise Unsupported(f"{what} divides by out-degrees and in-degrees, and this graph's differ",
                          "train on the graph with both directions of each edge (dgl.to_bidirected), or with norm='right'")


def _graph_conv(conv: Any, graph: Any) -> Layer:
    if conv.weight is None:
        raise Unsupported("GraphConv(weight=False)", "give it a weight")
    weight, bias = conv.weight.t(), conv.bias
    args = {"out_channels": weight.shape[0], "bias": bias is not None}
    biases = {} if bias is None else {"bias": bias}
    if conv._norm == "both":
        _needs_equal_degrees(graph, "GraphConv(norm='both')")
        return Layer("GCNConv", {**args, "add_self_loops": False}, {"lin.weight": weight, **biases})
    if conv._norm == "none":
        return Layer("GCNConv", {**args, "add_self_loops": False, "normalize": False}, {"lin.weight": weight, **biases})
    if conv._norm == "right":
        return Layer("SAGEConv", {**args, "root_weight": False},
                     {"lin_l.weight": weight, **({} if bias is None else {"lin_l.bias": bias})})
    raise Unsupported(f"GraphConv(norm={conv._norm!r})", "train with norm 'both', 'right' or 'none'")


def _sage_conv(conv: Any, _: Any) -> Layer:
    kinds = {"mean": {"aggr": "mean"}, "pool": {"aggr": "max", "project": True}}
    if conv._aggre_type not in kinds:
        raise Unsupported(f"SAGEConv('{conv._aggre_type}')", "train with 'mean' or 'pool'")
    if conv.norm is not None:
        raise Unsupported("SAGEConv(norm=...)", "call the norm in forward")
    tensors = {"lin_l.weight": conv.fc_neigh.weight, "lin_r.weight": conv.fc_self.weight}
    if conv.fc_self.bias is not None:
        tensors["lin_l.bias"] = conv.fc_self.bias
    if conv._aggre_type == "pool":
        tensors.update({"lin.weight": conv.fc_pool.weight, "lin.bias": conv.fc_pool.bias})
    return Layer("SAGEConv", {"out_channels": conv._out_feats, "bias": conv.fc_self.bias is not None, **kinds[conv._aggre_type]}, tensors)


def _gin_conv(conv: Any, _: Any) -> Layer:
    if conv._aggregator_type != "sum":
        raise Unsupported(f"GINConv(aggregator_type={conv._aggregator_type!r})", "train with 'sum'")
    if conv.apply_func is None:
        raise Unsupported("GINConv without apply_func", "give it the module that follows as apply_func")
    tensors = {f"nn.{name}": tensor for name, tensor in own_tensors(conv.apply_func).items()}
    return Layer("GINConv", {"nn": nested(conv.apply_func), "train_eps": True}, {**tensors, "eps": conv.eps})


def _residual(conv: Any, in_channels: int, concat: bool) -> tuple[Optional[torch.Tensor], Optional[torch.Tensor]]:
    """Weight and bias of the residual, per head averaged where heads are."""
    if conv.res_fc is None:
        return None, None
    linear = isinstance(conv.res_fc, torch.nn.Linear)
    weight = conv.res_fc.weight if linear else torch.eye(in_channels)
    bias = conv.res_fc.bias if linear else None
    return (weight, bias) if concat else (_mean(conv, weight), None if bias is None else _mean(conv, bias))


def _mean(conv: Any, tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(conv._num_heads, conv._out_feats, *tensor.shape[1:]).mean(dim=0)


def _attention(conv: Any, concat: bool) -> dict[str, Any]:
    if conv.activation is not None and not concat:
        raise Unsupported("an activation inside the layer, before its heads are averaged", "call the activation after the mean")
    return {"out_channels": conv._out_feats, "heads": conv._num_heads, "concat": concat,
            "negative_slope": conv.leaky_relu.negative_slope, "add_self_loops": False, "residual": conv.res_fc is not None}


def _gat_conv(conv: Any, concat: bool) -> Layer:
    weight, extra = _residual(conv, conv._in_src_feats, concat)
    bias = getattr(conv, "bias", None)
    bias = bias if bias is None or concat else _mean(conv, bias)
    bias = extra if bias is None else bias if extra is None else bias + extra
    tensors = {"lin.weight": conv.fc.weight, "att_src": conv.attn_l, "att_dst": conv.attn_r}
    return _finish(Layer("GATConv", {**_attention(conv, concat), "bias": bias is not None}, tensors), weight, bias)


def _gatv2_conv(conv: Any, concat: bool) -> Layer:
    weight, extra = _residual(conv, conv._in_src_feats, concat)
    width = conv._out_feats * (conv._num_heads if concat else 1)
    tensors = {"lin_l.weight": conv.fc_src.weight, "lin_r.weight": conv.fc_dst.weight, "att": conv.attn}
    has_bias = conv.fc_src.bias is not None
    if has_bias:
        tensors.update({"lin_l.bias": conv.fc_src.bias, "lin_r.bias": conv.fc_dst.bias})
    bias = (torch.zeros(width) if extra is None else extra) if has_bias else None
    args = {**_attention(conv, concat), "bias": has_bias, "share_weights": bool(conv.share_weights)}
    return _finish(Layer("GATv2Conv", args, tensors), weight, bias)


def _finish(layer: Layer, weight: Optional[torch.Tensor], bias: Optional[torch.Tensor]) -> Layer:
    layer.tensors.update({name: tensor for name, tensor in (("res.weight", weight), ("bias", bias)) if tensor is not None})
    return layer


def _sg_conv(conv: Any, _: Any) -> Layer:
    if conv.norm is not None:
        raise Unsupported("SGConv(norm=...)", "train without norm")
    bias = {} if conv.fc.bias is None else {"lin.bias": conv.fc.bias}
    return Layer("SGConv", {"out_channels": conv.fc.weight.shape[0], "K": conv._k, "add_self_loops": False, "bias": bool(bias)},
                 {"lin.weight": conv.fc.weight, **bias})


def _appnp_conv(conv: Any, graph: Any) -> Layer:
    _needs_equal_degrees(graph, "APPNPConv")
    return Layer("APPNP", {"K": conv._k, "alpha": conv._alpha, "add_self_loops": False})


_PLAIN = {"GraphConv": _graph_conv, "SAGEConv": _sage_conv, "GINConv": _gin_conv, "SGConv": _sg_conv, "APPNPConv": _appnp_conv}
ATTENTION = {"GATConv": _gat_conv, "GATv2Conv": _gatv2_conv}


def dgl_layer(conv: Any, graph: Any, concat: bool) -> Layer:
    """`concat`: for attention, whether forward concatenates the heads (flatten) or averages them (mean)."""
    kind = type(conv).__name__
    if kind in ATTENTION:
        return ATTENTION[kind](conv, concat)
    if kind in _PLAIN:
        return _PLAIN[kind](conv, graph)
    raise Unsupported(f"dgl.nn.{kind} has no counterpart", f"these have: {', '.join([*_PLAIN, *ATTENTION])}")
