# SPDX-License-Identifier: Apache-2.0
"""What a module is called with in forward, by the names of its own forward's parameters."""

from __future__ import annotations

import inspect
from typing import Any

import torch.fx

from vicinal.exporting._modules import WEIGHTED, Layer, edge_width_of, reads_edge_features
from vicinal.exporting._result import Unsupported

# Values of the trace that are not rows of nodes; "unknown": a parameter of forward that is a problem already.
ROLES = ("edge_index", "edge_weight", "edge_attr", "batch", "graph", "unknown")


def arguments_of(module: Any, node: torch.fx.Node) -> dict[str, Any]:
    """By name, without those that have their default. Unsupported: constants, such as return_attention_weights=True."""
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind(*node.args, **node.kwargs).arguments
    except TypeError as error:
        raise Unsupported(f"is called with other arguments than it takes: {error}", "compare the call with the layer's documentation") from None
    given = {}
    for name, value in bound.items():
        if value is None or (not isinstance(value, (torch.fx.Node, tuple, list)) and value == signature.parameters[name].default):
            continue
        several = isinstance(value, (tuple, list)) and all(isinstance(one, torch.fx.Node) for one in value)
        if not several and not isinstance(value, torch.fx.Node):
            raise Unsupported(f"is called with {name}={value!r}", f"only the default of {name} has a counterpart: leave it out")
        given[name] = value
    return given


def edge_inputs(layer: Layer, given: dict[str, Any], roles: dict[torch.fx.Node, str], edge_width: int, rows: tuple[str, ...]) -> None:
    """Sets `layer.edge_weight`; refuses what the layer does not read. `roles`: of values; `rows`: arguments that are features of nodes."""
    kinds = {name: roles.get(value, "") for name, value in given.items() if isinstance(value, torch.fx.Node)}
    weighted, featured, unknown = ("edge_weight" in kinds.values(), "edge_attr" in kinds.values(), "unknown" in kinds.values())
    if weighted and layer.type not in (*WEIGHTED, "MessagePassing"):
        raise Unsupported(f"{layer.type} with edge weights", f"edge weights are for {', '.join(WEIGHTED)}")
    if layer.type == "GENConv" and not featured and not unknown:  # its features are optional, whatever it was made with
        layer.args.pop("edge_dim")
        layer.tensors = {name: tensor for name, tensor in layer.tensors.items() if not name.startswith("lin_edge.")}
    if featured and not reads_edge_features(layer) and layer.type == "MessagePassing":
        raise Unsupported("vicinal_message has no edge_dim", f"state edge_dim: {edge_width}, or call the layer without edge_attr")
    if featured and not reads_edge_features(layer) and layer.type != "GATConv":  # which ignores them without edge_dim
        as_weights = ("the data's edge_attr has one number per edge, which this layer takes as weights: export(..., edge_weight=\"edge_attr\"), "
                      "and upload_graph(..., edge_weight=data.edge_attr)")
        raise Unsupported(f"{layer.type} with features of edges", as_weights if edge_width == 1 and layer.type in WEIGHTED else
                          "they are for GINEConv, NNConv, GMMConv and GENConv, with dim for CGConv, and with edge_dim for GATConv, GATv2Conv, "
                          "TransformerConv and ResGatedGraphConv; weights are called edge_weight")
    if reads_edge_features(layer) and not featured and not unknown:
        raise Unsupported("reads features of edges, but is called without edge_attr", "pass edge_attr, as the data has it")
    width = edge_width_of(layer)
    if featured and width not in (None, edge_width) and reads_edge_features(layer):
        raise Unsupported(f"reads {width} features per edge, but the data's edge_attr has {edge_width}", "give it the data that it was trained on")
    strange = [value.name for name, value in given.items() if isinstance(value, torch.fx.Node) and name not in rows and kinds[name] not in ROLES]
    if strange:
        raise Unsupported(f"is called with {', '.join(strange)}, which forward computes", "layers take the edges as uploaded")
    layer.edge_weight = weighted
