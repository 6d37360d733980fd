# SPDX-License-Identifier: Apache-2.0
"""Models that score links. What is exported is the encoder, whose rows a decoder of the document scores; here decoders are recognised."""

from __future__ import annotations

import operator
from typing import Any, Optional

import torch
import torch.fx

from vicinal.exporting._result import Problem

DECODER = "export the encoder; the decoder is a section of the document (docs/formats.md#decoders-of-links)"
AUTOENCODERS = ("GAE", "VGAE", "ARGA", "ARGVA", "InnerProductDecoder")
LINKS = ("edge_label_index", "edge_label", "pos_edge_index", "neg_edge_index")  # usual names of parameters
_TAKES = (operator.getitem, "index_select")  # PyTorch Geometric's torch.index_select cannot be traced


def whole_model_problem(module: torch.nn.Module) -> Optional[Problem]:
    """Of a model whose forward is not what is to be exported."""
    kind = type(module).__name__
    if any(base.__name__ in AUTOENCODERS and base.__module__.startswith("torch_geometric.") for base in type(module).__mro__):
        return Problem("forward", f"{kind} scores links", DECODER)
    if type(module).forward is torch.nn.Module.forward and "forward" not in vars(module):
        if hasattr(module, "encode"):
            return Problem("forward", f"{kind} has no forward, but encode", "model.forward = model.encode exports the encoder; the decoder is a "
                           "section of the document (docs/formats.md#decoders-of-links)")
        return Problem("forward", f"{kind} has no forward", "export a module that has one")
    return None


def _index_of(node: torch.fx.Node) -> Any:
    """The index by which `node` takes rows of its first argument, None if it takes none."""
    if node.target not in _TAKES or len(node.args) < 2:
        return None
    index = node.args[1] if node.target is operator.getitem else node.kwargs.get("index", node.args[-1])
    return index[0] if isinstance(index, tuple) and index else index


def takes_ends(node: torch.fx.Node, are_edges: Any) -> bool:
    """z[edge_index[0]] and the like: rows of the ends of links. `are_edges`: whether a node is edge_index, or links to score."""
    index = _index_of(node)
    while isinstance(index, torch.fx.Node):
        if are_edges(index):
            return True
        index = index.args[0] if index.target is operator.getitem else None
    return False


def only_indexes(node: torch.fx.Node) -> bool:
    """edge_index[0], where it is used to take rows and for nothing else."""
    return node.target is operator.getitem and bool(node.users) and all(
        _index_of(user) is node or (user.args[0] is node and only_indexes(user)) for user in node.users)


class Embeddings(torch.nn.Module):
    """What LightGCN scores links by, of its table of embeddings as the features x: a weighted sum over its layers."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.convs, self.shares = model.convs, [float(share) for share in model.alpha]

    def forward(self, x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
        out = x * self.shares[0]
        for conv, share in zip(self.convs, self.shares[1:]):
            x = conv(x, edge_index, edge_weight)
            out = out + x * share
        return out


def embeddings_of(module: torch.nn.Module) -> Optional[Embeddings]:
    """Of PyTorch Geometric's LightGCN; None of another module."""
    kinds = [base.__name__ for base in type(module).__mro__ if base.__module__.startswith("torch_geometric.")]
    return Embeddings(module) if "LightGCN" in kinds else None
