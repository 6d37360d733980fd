# SPDX-License-Identifier: Apache-2.0
"""Layers of the user's own, made of PyTorch Geometric's MessagePassing: expressions that stand beside the code which they repeat
(docs/message_passing.md)."""

from __future__ import annotations

import re
from typing import Any, Iterator

import torch
import torch.fx

from vicinal.exporting._constructors import check_direction
from vicinal.exporting._result import Unsupported

_TEXTS = ("message", "score", "update")
_ARGUMENTS = (*_TEXTS, "aggr", "edge_dim", "self_loops", "fill_value", "normalize", "flow", "node_dim", "aggr_kwargs", "decomposed_layers")
_REDUCTIONS = ("sum", "add", "mean", "max", "min", "var", "std", "softmax")
_MOST_INPUTS = 8
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_OF_A_MODULE = ("weight", "bias", "running_mean", "running_var")  # what linear(a, module) and batch_norm(a, module) read
_NO_MESSAGE = ("no code is uploaded: state what its message computes in an attribute vicinal_message (docs/message_passing.md); "
               "a layer of docs/layers.md may compute the same")


def message_arguments(module: Any) -> dict[str, Any]:
    """The arguments of the layer MessagePassing, checked as far as the code can contradict them; the server reads the expressions."""
    stated = getattr(module, "vicinal_message", None)
    if stated is None:
        raise Unsupported(f"{type(module).__name__} has no counterpart", _NO_MESSAGE)
    if not isinstance(stated, dict):
        raise Unsupported(f"vicinal_message is a {type(stated).__name__}", 'a dict is needed, such as {"message": "relu(x_j)"}')
    args = {name: value for name, value in stated.items() if value is not None}
    strange = [name for name in args if name not in _ARGUMENTS]
    if strange:
        raise Unsupported(f"vicinal_message has an argument {strange[0]!r}", f"it takes {', '.join(_ARGUMENTS)}")
    if "message" not in args:
        raise Unsupported("vicinal_message has no message", 'it is the expression of an edge, such as "relu(x_j)"')
    for name in _TEXTS:
        if name in args and not isinstance(args[name], str) and not (
                isinstance(args[name], (list, tuple)) and all(isinstance(line, str) for line in args[name])):
            raise Unsupported(f"vicinal_message: {name} is a {type(args[name]).__name__}", "a text is needed, or a list of its lines")
    width = args.get("edge_dim", 1)
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise Unsupported(f"vicinal_message: edge_dim is {width!r}", "it is the number of columns of edge_attr; leave it out if nothing reads it")
    check_direction(module)
    return {**args, **_aggregation(module, args)}


def _plain(aggr: Any) -> Any:
    """An aggregation by its short name; PyTorch Geometric keeps MeanAggregation() as that text."""
    if isinstance(aggr, (list, tuple)):
        return [_plain(one) for one in aggr]
    name = re.sub(r"Aggregation\(.*\)$", "", aggr).lower() if isinstance(aggr, str) else aggr
    return "sum" if name == "add" else name


def _aggregation(module: Any, args: dict[str, Any]) -> dict[str, Any]:
    own = _plain(getattr(module, "aggr", None))
    if "aggr" not in args:
        if own is not None and own not in _REDUCTIONS:
            raise Unsupported(f"vicinal_message has no aggr, and the layer's own is {module.aggr!r}",
                              f"state aggr: one of {', '.join(_REDUCTIONS)}, or a list of them")
        return {} if own is None else {"aggr": own}
    stated = _plain(args["aggr"])
    weighted = stated == "softmax" and own == "sum"  # a softmax in message(), and a sum
    if type(stated) is type(own) and stated != own and not weighted:
        raise Unsupported(f"vicinal_message has aggr={args['aggr']!r}, the layer's own is {module.aggr!r}",
                          "state what the layer computes; what forward does to the sums afterwards is update")
    return {}


def input_rows(given: dict[str, Any], is_row: Any) -> tuple[dict[str, torch.fx.Node], tuple[str, ...]]:
    """What the layer is called with, tuples by their parts, and the names of those that are features of nodes: x, x1, x2 ..."""
    flat: dict[str, torch.fx.Node] = {}
    for name, value in given.items():
        parts = enumerate(value) if isinstance(value, (tuple, list)) else ()
        flat.update({f"{name}[{i}]": one for i, one in parts} or {name: value})
    rows = tuple(name for name, value in flat.items() if is_row(value))
    if not 1 <= len(rows) <= _MOST_INPUTS:
        raise Unsupported(f"is called with features of nodes {len(rows)} times", f"a layer has 1 to {_MOST_INPUTS} inputs: x, x1, x2 ...")
    return flat, rows


def _names(text: str) -> Iterator[str]:
    """Names in an expression, without functions."""
    text = re.sub(r"#[^\n]*", "", text)
    for found in _NAME.finditer(text):
        if not text[found.end():].lstrip().startswith("("):
            yield found.group()


def named_tensors(args: dict[str, Any], tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors that expressions name, themselves or by their module."""
    texts = [args[name] if isinstance(args[name], str) else "\n".join(args[name]) for name in _TEXTS if name in args]
    names = {name for text in texts for name in _names(text)}
    return {name: tensor for name, tensor in tensors.items()
            if name in names or (name.rpartition(".")[0] in names and name.rpartition(".")[2] in _OF_A_MODULE)}
