# SPDX-License-Identifier: Apache-2.0
"""Graphs of other libraries as the arrays that the server takes. A library is recognised by its objects and never imported here."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Optional

import numpy as np

from vicinal._tensors import Array, Features, features, float_array, int_array, to_numpy
from vicinal.errors import InputError
from vicinal.ids import Ids, rows_or_ids


@dataclass(frozen=True)
class GraphArrays:
    """A graph of `num_nodes` nodes. Messages flow from edge_index[0] to edge_index[1]; row i of `x` belongs to node i, row e of `edge_attr`
    to edge e; `ids` maps ids of the user's own to rows, None: ids are row numbers."""

    num_nodes: int
    edge_index: Array
    edge_weight: Optional[Array] = None
    x: Optional[Features] = None
    ids: Optional[Ids] = None
    edge_attr: Optional[Array] = None


def graph_arrays(graph: Any, *, x: Any = None, edge_weight: Any = None, num_nodes: Optional[int] = None, ids: Any = None,
                 undirected: bool = False, edge_attr: Any = None) -> GraphArrays:
    """Reads a graph.

    `graph`: an edge_index [2, E] (NumPy, torch, nested lists); a SciPy sparse matrix (entry (i, j) is an edge from j to i, as in the
    product of matrix and features); a NetworkX graph (an undirected one gives both directions); a pandas DataFrame of edges (columns
    `source` and `target`, or the first two); a PyTorch Geometric `Data`; a homogeneous DGL graph.
    `x`: features; the name of a node attribute (NetworkX, DGL), or of a field of `Data`. `edge_weight`: weights [E], or the name of an edge
    attribute or column. `ids`: the ids of the nodes in order of row; with them, an edge list of ids is meant where its entries are not
    integers. `undirected`: adds missing reverse edges, as `vicinal graph upload --undirected`. `edge_attr`: features of edges, [E, A] or [E]
    in the order of the edges; of `Data` the name of a field, by default its edge_attr; of DGL the name of an edge attribute; of pandas and
    NetworkX a list of columns or edge attributes.
    """
    if isinstance(graph, GraphArrays):
        return graph
    readers = {"networkx": _networkx, "pandas": _pandas, "torch_geometric": _pyg, "dgl": _dgl, "scipy": _scipy}
    kind = next((root for base in type(graph).__mro__ if (root := base.__module__.partition(".")[0]) in readers), "")
    given = None if ids is None else ids if isinstance(ids, Ids) else Ids(ids)
    found = readers.get(kind, _edge_index)(graph, x, edge_weight, num_nodes, given)
    found = replace(found, edge_attr=_edge_features(kind, graph, edge_attr))
    _check(found)
    return add_reverse_edges(found) if undirected else found


def _count(num_nodes: Optional[int], x: Optional[Features], ids: Optional[Ids], largest: int) -> int:
    if num_nodes is not None:
        return int(num_nodes)
    if x is not None:
        return x.rows
    return len(ids) if ids is not None else largest + 1


def _check(graph: GraphArrays) -> None:
    edges = graph.edge_index.values
    if edges.shape[0] != 2:
        raise InputError(f"edge_index has the shape {list(edges.shape)}, but must be [2, E]: row 0 sources, row 1 targets")
    if edges.size and (edges.min() < 0 or edges.max() >= graph.num_nodes):
        at = int(np.argmax(((edges < 0) | (edges >= graph.num_nodes)).any(axis=0)))
        edge, last = f"edge {at} is {edges[0, at]} -> {edges[1, at]}", graph.num_nodes - 1
        if graph.x is not None and graph.x.rows == graph.num_nodes and graph.ids is None and edges.min() >= 0:
            raise InputError(f"{edge}, but x has only the rows 0..{last}: it needs one for each node")
        raise InputError(f"{edge}, outside 0..{last}: pass num_nodes, or ids")
    if graph.edge_weight is not None and graph.edge_weight.shape[0] != edges.shape[1]:
        raise InputError(f"edge_weight has {graph.edge_weight.shape[0]} entries, edge_index {edges.shape[1]} edges")
    if graph.edge_attr is not None and graph.edge_attr.shape[0] != edges.shape[1]:
        raise InputError(f"edge_attr has {graph.edge_attr.shape[0]} rows, edge_index {edges.shape[1]} edges")
    if graph.x is not None and graph.x.rows != graph.num_nodes:
        raise InputError(f"x has {graph.x.rows} rows, but the graph has {graph.num_nodes} nodes")
    if graph.ids is not None and len(graph.ids) != graph.num_nodes:
        raise InputError(f"{len(graph.ids)} ids were given, but the graph has {graph.num_nodes} nodes")


def field_of(fields: Any, name: str, what: str) -> Any:
    """The field of a graph that the argument `what` names."""
    if name not in fields:
        raise InputError(f"{what}={name!r} names no field of the graph; it has {sorted(map(str, fields.keys()))}")
    return fields[name]


def _weights(value: Any) -> Optional[Array]:
    if value is None:
        return None
    values = to_numpy(value, "edge_weight")
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    return float_array(values.astype(np.float32) if values.dtype.kind == "f" else values, "edge_weight", 1)


def _edge_features(kind: str, graph: Any, value: Any) -> Optional[Array]:
    names = [value] if isinstance(value, str) else value
    by_name = isinstance(names, (list, tuple)) and bool(names) and all(isinstance(name, str) for name in names)
    if kind == "torch_geometric":
        fields = graph.to_dict()
        value = fields.get("edge_attr") if value is None else field_of(fields, value, "edge_attr") if isinstance(value, str) else value
    elif kind == "dgl" and isinstance(value, str):
        value = field_of(graph.edata, value, "edge_attr")
    elif kind == "pandas" and by_name:
        missing = [name for name in names if name not in graph.columns]
        if missing:
            raise InputError(f"the table of edges has no column {missing[0]!r}, only {[str(name) for name in graph.columns]}")
        value = graph[list(names)].to_numpy()
    elif kind == "networkx" and by_name:
        value = _networkx_features(graph, list(names))
    elif by_name:
        raise InputError(f"edge_attr is {value!r}; features of edges are needed, [E, A]")
    return None if value is None else edge_features(value)


def edge_features(value: Any) -> Array:
    """Features of edges, [E, A], or [E] for one of each."""
    values = to_numpy(value, "edge_attr")
    values = values.reshape(-1, 1) if values.ndim == 1 else values
    if values.ndim == 2 and values.shape[1] == 0:
        raise InputError("edge_attr has no columns: leave it out, or give each edge a number")
    return float_array(values, "edge_attr", 2)


def _networkx_features(graph: Any, names: list[str]) -> Any:
    """In the order of `_networkx`: each edge, and after an undirected one its reverse."""
    rows = []
    for source, target, attributes in graph.edges(data=True):
        missing = [name for name in names if name not in attributes]
        if missing:
            raise InputError(f"the edge {source!r} - {target!r} has no attribute {missing[0]!r}")
        row = [attributes[name] for name in names]
        for name, value in zip(names, row):
            if isinstance(value, str) or np.ndim(value) != 0:
                raise InputError(f"edge_attr: {name!r} of the edge {source!r} - {target!r} is {value!r}; a number is needed")
        rows += [row] if graph.is_directed() or source == target else [row, row]
    return np.asarray(rows).reshape(len(rows), len(names))


def _assemble(edges: Any, weight: Any, x: Any, num_nodes: Optional[int], ids: Optional[Ids]) -> GraphArrays:
    index = int_array(edges, "edge_index", 2)
    table = None if x is None else features(x)
    largest = int(index.values.max()) if index.values.size else -1
    return GraphArrays(_count(num_nodes, table, ids, largest), index, _weights(weight), table, ids)


def _edge_index(edges: Any, x: Any, weight: Any, num_nodes: Optional[int], ids: Optional[Ids]) -> GraphArrays:
    needed = "an edge_index [2, E], a SciPy sparse matrix, a NetworkX or DGL graph, a pandas edge list or a PyG Data is needed"
    if isinstance(edges, (str, os.PathLike)):
        raise InputError(f"{str(edges)!r} is a path, and files are not read here: {needed}; `vicinal graph upload` sends files")
    if edges is None:
        raise InputError(f"the graph is None: {needed}")
    if isinstance(edges, (list, tuple)) and len(edges) == 2 and all(isinstance(row, tuple) and len(row) == 2 for row in edges):
        raise InputError(f"{edges!r} could be two edges, or the sources and targets of two: pass lists [[sources...], [targets...]]")
    values = to_numpy(edges, "the graph")
    if values.ndim != 2 or values.shape[0] != 2:
        transposed = "; an edge per row? Pass its transpose (.T)" if values.ndim == 2 and values.shape[1] == 2 else ""
        raise InputError(f"a {type(edges).__module__}.{type(edges).__qualname__} of shape {list(values.shape)} is no graph: {needed}"
                         f"{transposed}")
    if values.dtype.kind in "OUS":
        return _of_labels(values[0].tolist(), values[1].tolist(), weight, x, ids)
    return _assemble(values, weight, x, num_nodes, ids)


def _of_labels(sources: list[Any], targets: list[Any], weight: Any, x: Any, ids: Optional[Ids]) -> GraphArrays:
    """Edges between labels. Without `ids` rows follow ascending numbers, or text in order of first appearance."""
    if ids is None:
        seen = dict.fromkeys(label for edge in zip(sources, targets) for label in edge)
        numbers = all(isinstance(label, (int, np.integer)) and not isinstance(label, bool) for label in seen)
        if x is not None and not numbers:
            raise InputError("ids are text and rows of x have no order: pass ids, the id of each row of x")
        order = sorted(seen) if numbers else list(seen)
        known = rows_or_ids(order)
        table = Ids(order) if known is None else known
    else:
        table = known = ids
    edges = np.stack([table.rows(sources), table.rows(targets)])
    found = _assemble(edges, weight, x, len(table), known)
    return found


def _scipy(matrix: Any, x: Any, weight: Any, num_nodes: Optional[int], ids: Optional[Ids]) -> GraphArrays:
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"the sparse matrix has the shape {list(matrix.shape)}; an adjacency is square")
    entries = matrix.tocoo()
    if weight is None and not (entries.data == 1).all():
        weight = entries.data
    return _assemble(np.stack([entries.col, entries.row]), weight, x, num_nodes or matrix.shape[0], ids)


def _networkx(graph: Any, x: Any, weight: Any, num_nodes: Optional[int], ids: Optional[Ids]) -> GraphArrays:
    labels = list(graph.nodes)
    if ids is None and sorted(map(str, labels)) == sorted(str(row) for row in range(len(labels))) and all(
            isinstance(label, int) for label in labels):
        labels = sorted(labels)
    order = Ids(labels) if ids is None else ids
    name = weight if isinstance(weight, str) else None
    edges, weights = [], []
    for source, target, value in graph.edges(data=name, default=1.0) if name else ((*edge, 1.0) for edge in graph.edges()):
        edges.append((source, target))
        weights.append(value)
        if not graph.is_directed() and source != target:
            edges.append((target, source))
            weights.append(value)
    if isinstance(x, str):
        attribute = x
        missing = [label for label in labels if attribute not in graph.nodes[label]]
        if missing:
            raise InputError(f"node {missing[0]!r} has no attribute {attribute!r}")
        by_text = {str(label): label for label in labels}
        x = np.stack([np.asarray(graph.nodes[by_text[str(order[row])]][attribute], dtype=np.float32) for row in range(len(order))])
    index = np.stack([order.rows(end for end, _ in edges), order.rows(end for _, end in edges)]) if edges else np.zeros((2, 0), np.int64)
    given = np.asarray(weights, dtype=np.float32) if name else weight
    return _assemble(index, given, x, len(order), rows_or_ids(labels) if ids is None else ids)


def _pandas(frame: Any, x: Any, weight: Any, num_nodes: Optional[int], ids: Optional[Ids]) -> GraphArrays:
    names = [str(name) for name in frame.columns]
    if len(names) < 2:
        raise InputError(f"a table of edges has a column of sources and one of targets; this one has {names}")
    ends = ("source", "target") if {"source", "target"} <= set(names) else names[:2]
    sources, targets = (frame.iloc[:, names.index(end)] for end in ends)
    if frame.iloc[:, [names.index(end) for end in ends]].isna().any(axis=None):
        raise InputError(f"the columns {list(ends)} of the table of edges have missing values")
    if isinstance(weight, str):
        if weight not in names:
            raise InputError(f"the table of edges has no column {weight!r}, only {names}")
        weight = frame.iloc[:, names.index(weight)].to_numpy()
    if num_nodes is not None and ids is None:
        return _assemble(np.stack([sources.to_numpy(), targets.to_numpy()]), weight, x, num_nodes, None)
    return _of_labels(sources.tolist(), targets.tolist(), weight, x, ids)


def _pyg(data: Any, x: Any, weight: Any, num_nodes: Optional[int], ids: Optional[Ids]) -> GraphArrays:
    if type(data).__name__ == "HeteroData":
        raise InputError("HeteroData has several types of nodes or edges; graphs have one: pass data.to_homogeneous()")
    fields = data.to_dict()
    if fields.get("edge_index") is None:
        raise InputError("the Data has no edge_index" + ("; its adj_t is transposed: T.ToSparseTensor() was applied, leave it out"
                                                         if "adj_t" in fields else ""))
    if isinstance(weight, str):
        weight = field_of(fields, weight, "edge_weight")
    elif weight is None:
        weight = fields.get("edge_weight")
    table = field_of(fields, x, "x") if isinstance(x, str) else fields.get("x") if x is None else x
    return _assemble(fields["edge_index"], weight, table, num_nodes or data.num_nodes, ids)


def _dgl(graph: Any, x: Any, weight: Any, num_nodes: Optional[int], ids: Optional[Ids]) -> GraphArrays:
    if not graph.is_homogeneous:
        raise InputError("the DGL graph has several types of nodes or edges; graphs have one: pass dgl.to_homogeneous(graph)")
    sources, targets = graph.edges(order="eid")
    if isinstance(weight, str):
        weight = field_of(graph.edata, weight, "edge_weight")
    if x is None:
        x = next((name for name in ("feat", "x") if name in graph.ndata), None)
    table = field_of(graph.ndata, x, "x") if isinstance(x, str) else x
    edges = np.stack([to_numpy(sources, "sources"), to_numpy(targets, "targets")])
    return _assemble(edges, weight, table, num_nodes or graph.num_nodes(), ids)


def add_reverse_edges(graph: GraphArrays) -> GraphArrays:
    """Adds the reverse of each edge that has none, once, with the weight and features of its first copy, after the edges as given."""
    sources, targets = graph.edge_index.values.astype(np.int64)
    keys, reverse = sources * graph.num_nodes + targets, targets * graph.num_nodes + sources
    missing = np.flatnonzero(~np.isin(reverse, keys))
    _, first = np.unique(keys[missing], return_index=True)
    added = missing[np.sort(first)]
    edges = np.concatenate([np.stack([sources, targets]), np.stack([targets[added], sources[added]])], axis=1)
    weight = graph.edge_weight
    if weight is not None:
        weight = Array(np.concatenate([weight.values, weight.values[added]]), weight.dtype)
    attr = graph.edge_attr
    if attr is not None:
        attr = Array(np.concatenate([attr.values, attr.values[added]]), attr.dtype)
    return replace(graph, edge_index=int_array(edges, "edge_index", 2), edge_weight=weight, edge_attr=attr)


@dataclass(frozen=True)
class GraphBatch:
    """G small graphs side by side: graph g has the nodes ptr[g] to ptr[g + 1]."""

    ptr: Array
    edge_index: Array
    x: Features
    edge_weight: Optional[Array] = None
    edge_attr: Optional[Array] = None


def graph_batch(graphs: Any) -> GraphBatch:
    """A PyTorch Geometric `Batch`, or a list of graphs: anything that `graph_arrays` reads, or pairs (graph, x)."""
    if isinstance(graphs, GraphBatch):
        return graphs
    if hasattr(graphs, "ptr") and hasattr(graphs, "edge_index"):
        one = graph_arrays(graphs)
        if one.x is None:
            raise InputError("the batch has no x")
        return GraphBatch(int_array(graphs.ptr, "ptr", 1, wide=True), one.edge_index, one.x, one.edge_weight, one.edge_attr)
    parts = []
    for number, item in enumerate(graphs):
        part = graph_arrays(item[0], x=item[1]) if isinstance(item, (tuple, list)) and len(item) == 2 else graph_arrays(item)
        if part.x is None or part.x.dense is None:
            raise InputError(f"graph {number} has no dense features")
        parts.append(part)
    if not parts:
        raise InputError("there are no graphs")
    return _side_by_side(parts)


def _side_by_side(parts: list[GraphArrays]) -> GraphBatch:
    weighted = [part.edge_weight is not None for part in parts]
    if any(weighted) and not all(weighted):
        raise InputError(f"graph {weighted.index(False)} has no edge_weight, others have one")
    widths = {part.edge_attr.shape[1] if part.edge_attr is not None else 0 for part in parts}
    if len(widths) > 1:
        raise InputError(f"the graphs have different numbers of features per edge: {sorted(widths)}")
    starts = np.cumsum([0] + [part.num_nodes for part in parts])
    edges = np.concatenate([part.edge_index.values + start for part, start in zip(parts, starts)], axis=1)
    tables = [part.x.dense for part in parts if part.x is not None and part.x.dense is not None]
    kinds = {(table.shape[1], table.dtype) for table in tables}
    if len(kinds) > 1:
        raise InputError(f"the graphs have features of different widths or types: {sorted(map(str, kinds))}")
    x = Array(np.concatenate([table.values for table in tables]), tables[0].dtype)
    weight = _weights(np.concatenate([part.edge_weight.values for part in parts if part.edge_weight])) if all(weighted) else None
    rows = [part.edge_attr.values for part in parts if part.edge_attr is not None]
    attr = float_array(np.concatenate(rows), "edge_attr", 2) if rows else None
    return GraphBatch(int_array(starts, "ptr", 1, wide=True), int_array(edges, "edge_index", 2), Features(x.shape[0], x.shape[1], x), weight,
                      attr)


