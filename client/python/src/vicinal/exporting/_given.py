# SPDX-License-Identifier: Apache-2.0
"""The data that a module is exported for, checked: what forward may ask for, by role. InputError names the field that is wrong."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch

from vicinal._tensors import float_array, int_array, is_torch, module_of
from vicinal.errors import InputError
from vicinal.graphs import field_of


def given_inputs(data: Any, x: Any, edge_weight: Any) -> tuple[dict[str, Any], Any]:
    """x, edge_index, edge_weight, edge_attr, batch and graph, as far as the data has them; and the DGL graph."""
    if module_of(data) == "dgl":
        return _of_dgl(data, x), data
    if getattr(data, "edge_index", None) is None:
        raise InputError(f"data is a {type(data).__name__} without edge_index; a PyTorch Geometric Data or a DGL graph is needed")
    fields = data.to_dict() if hasattr(data, "to_dict") else vars(data)
    table = field_of(fields, x, "x") if isinstance(x, str) else fields.get("x") if x is None else x
    if table is None:
        raise InputError("the data has no x: pass x")
    index = torch.from_numpy(int_array(data.edge_index, "edge_index", 2, wide=True).values)
    inputs = {"x": _features(table), "edge_index": index}
    weight = field_of(fields, edge_weight, "edge_weight") if isinstance(edge_weight, str) else edge_weight
    weight = fields.get("edge_weight") if weight is None else weight
    attr = fields.get("edge_attr")
    if attr is weight or (isinstance(edge_weight, str) and edge_weight == "edge_attr"):
        attr = None  # it is the weights
    if weight is not None:
        inputs["edge_weight"] = _edge_values(weight, "edge_weight", index)
        if inputs["edge_weight"].shape[1] != 1:
            raise InputError(f"edge_weight has {inputs['edge_weight'].shape[1]} columns; a weight is one number per edge, features of edges are "
                             "edge_attr")
        inputs["edge_weight"] = inputs["edge_weight"].reshape(-1)
    if attr is not None:
        inputs["edge_attr"] = _edge_values(attr, "edge_attr", index)
    if fields.get("batch") is not None:
        inputs["batch"] = torch.from_numpy(int_array(fields["batch"], "batch", 1, wide=True).values)
    _check(inputs)
    return inputs, None


def _of_dgl(graph: Any, x: Any) -> dict[str, Any]:
    name = x if isinstance(x, str) else next((one for one in ("feat", "x") if one in graph.ndata), None)
    if x is None and name is None:
        raise InputError("the DGL graph has no features 'feat' or 'x': pass x")
    inputs = {"x": _features(x if x is not None and not isinstance(x, str) else field_of(graph.ndata, name, "x")),
              "edge_index": torch.stack(graph.edges(order="eid")), "graph": graph}
    _check(inputs)
    return inputs


def _features(table: Any) -> torch.Tensor:
    if is_torch(table) and table.layout is not torch.strided:
        table = table.to_dense()
    if module_of(table) == "scipy":
        table = table.toarray()
    return _floats(table, "x")


def _floats(value: Any, what: str) -> torch.Tensor:
    """float32, checked. Of torch only numbers pass: bfloat16 has no NumPy."""
    widened = value.float() if is_torch(value) and value.is_floating_point() else value
    array = float_array(widened, what, 2).values
    return torch.from_numpy(np.array(array, dtype=np.float32))


def _edge_values(value: Any, what: str, index: torch.Tensor) -> torch.Tensor:
    """[E, A]; [E] is one column."""
    if is_torch(value):
        value = value.reshape(-1, 1) if value.dim() == 1 else value
    else:
        value = np.asarray(value)
        value = value.reshape(-1, 1) if value.ndim == 1 else value
    values = _floats(value, what)
    if values.shape[0] != index.shape[1]:
        raise InputError(f"{what} has {values.shape[0]} rows, edge_index {index.shape[1]} edges")
    if values.shape[1] == 0:
        raise InputError(f"{what} has no columns: leave it out, or give each edge a number")
    return values


def _check(inputs: dict[str, Any]) -> None:
    index, nodes = inputs["edge_index"], inputs["x"].shape[0]
    if index.shape[0] != 2:
        raise InputError(f"edge_index has the shape {list(index.shape)}, but must be [2, E]: row 0 sources, row 1 targets")
    if index.numel() and (int(index.min()) < 0 or int(index.max()) >= nodes):
        raise InputError(f"edge_index has nodes {int(index.min())} to {int(index.max())}, but x has {nodes} rows")
    batch: Optional[torch.Tensor] = inputs.get("batch")
    if batch is not None and batch.shape[0] != nodes:
        raise InputError(f"batch has {batch.shape[0]} entries, but x has {nodes} rows")
