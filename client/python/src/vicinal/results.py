# SPDX-License-Identifier: Apache-2.0
"""What calls return. Arrays are read-only views of the bytes that arrived; `torch()` shares them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, fields, replace
from typing import Any, Optional, TypeVar

import numpy as np

from vicinal._messages import enum_values, message
from vicinal._tensors import from_tensor
from vicinal.ids import Ids

_GRAPH = message("Graph")
_STATES = {value.number: value.name[len("STATE_"):] for value in _GRAPH.DESCRIPTOR.enum_types_by_name["State"].values}
_DURABILITY = {value.number: value.name[len("DURABILITY_"):]
               for value in _GRAPH.DESCRIPTOR.fields_by_name["durability"].enum_type.values}
_TASKS = {number: name[len("MODEL_TASK_"):].lower() for name, number in enum_values("ModelTask").items() if number}
_TARGETS = {number: name[len("MODEL_TARGET_"):].lower() for name, number in enum_values("ModelTarget").items() if number}
Result = TypeVar("Result", bound="Arrays")


@dataclass(frozen=True)
class Graph:
    """A graph on the server. `durability`: MEMORY, WRITING or DURABLE (it survives the server). `ids`: the map of the user's own ids, if this
    client has it. `edge_features`: columns of its own edge_attr. `raw`: the whole message (profile, stages, ...)."""

    name: str
    version: int
    state: str
    num_nodes: int
    num_edges: int
    weighted: bool
    order: str
    size_bytes: int
    feature_sets: tuple[str, ...]
    ids_digest: str
    durability: str
    incarnation: str
    raw: Any = field(repr=False)
    ids: Optional[Ids] = None
    edge_features: int = 0
    edge_feature_sets: tuple[str, ...] = ()

    @staticmethod
    def of(graph: Any, ids: Optional[Ids] = None) -> "Graph":
        return Graph(graph.name, graph.version, _STATES[graph.state], graph.node_count, graph.edge_count, graph.weighted, graph.order,
                     graph.size_bytes, tuple(one.name for one in graph.feature_sets), graph.ids_digest, _DURABILITY[graph.durability],
                     graph.incarnation, graph, ids, graph.edge_feature_width,
                     tuple(one.name for one in graph.edge_feature_sets))


@dataclass(frozen=True)
class FeatureSet:
    """Of nodes, with `num_nodes` rows, or of edges, with `num_edges`; the other is 0."""

    graph: str
    name: str
    version: int
    num_nodes: int
    num_features: int
    sparse: bool
    size_bytes: int
    durability: str
    raw: Any = field(repr=False)
    num_edges: int = 0

    @staticmethod
    def of(value: Any) -> "FeatureSet":
        return FeatureSet(value.graph, value.name, value.version, value.node_count, value.feature_count, value.sparse, value.size_bytes,
                          _DURABILITY[value.durability], value, value.edge_count)


@dataclass(frozen=True)
class Model:
    """`task`: what an answer belongs to, "node" or "graph"; `target`: what it is, "multi_class", "multi_label" or "regression" (of a server
    that says neither: ""). `outputs`: the names that `embed` takes. `edge_features`: those that it reads of each edge. `decoder`: how it scores
    links ("distmult", ...), "" if its document does not say. `reference_error`: the largest difference from the reference, None if none was uploaded."""

    name: str
    version: int
    num_features: int
    num_classes: int
    graph_level: bool
    multi_label: bool
    uses_edge_weight: bool
    outputs: tuple[str, ...]
    num_parameters: int
    reference_error: Optional[float]
    durability: str
    raw: Any = field(repr=False)
    edge_features: int = 0
    decoder: str = ""
    task: str = ""
    target: str = ""

    @staticmethod
    def of(model: Any) -> "Model":
        return Model(model.name, model.version, model.feature_count, model.class_count, model.graph_level, model.multi_label,
                     model.uses_edge_weight, tuple(model.outputs), model.parameter_count,
                     model.reference_error if model.reference_checked else None, _DURABILITY[model.durability], model,
                     model.edge_feature_width, model.decoder.type, _TASKS.get(model.task, ""), _TARGETS.get(model.target, ""))


@dataclass(frozen=True)
class ServedBy:
    """The versions that served a request; with equal ones and an equal revision the same request gives the same bits."""

    graph: str
    graph_version: int
    model: str
    model_version: int
    feature_set: str
    feature_set_version: int
    numerics_revision: int
    incarnation: str
    edge_feature_set: str = ""
    edge_feature_set_version: int = 0

    @staticmethod
    def of(served: Any) -> "ServedBy":
        return ServedBy(served.graph, served.graph_version, served.model, served.model_version, served.feature_set,
                        served.feature_set_version, served.numerics_revision, served.incarnation,
                        served.edge_feature_set, served.edge_feature_set_version)


@dataclass(frozen=True)
class Timing:
    """Where the time on the server went, in seconds: `queue`, `plan`, `execute`; `total` is from the parsed request to the finished reply.
    `receptive_field`: only the receptive field of the requested nodes was computed; `computed_nodes`: nodes whose features were read.
    `kept_answers`: nothing was computed, the rows were kept. `run_requests`: those that shared the run, this one included; 0 for kept answers."""

    queue: float
    plan: float
    execute: float
    total: float
    receptive_field: bool
    computed_nodes: int
    kept_answers: bool
    run_requests: int

    @staticmethod
    def of(reply: Any) -> Optional["Timing"]:
        if not reply.HasField("timing"):
            return None
        timing = reply.timing
        return Timing(timing.queue_seconds, timing.plan_seconds, timing.execute_seconds, timing.total_seconds, timing.receptive_field,
                      timing.computed_node_count, timing.kept_answers, timing.run_request_count)


@dataclass(frozen=True)
class Arrays:
    """Common to results: `served_by`; `timing`, where the time on the server went, None in pieces of a stream but the last; `seconds`, its
    total (0 where there is none)."""

    served_by: ServedBy
    timing: Optional[Timing]
    first_row: int

    @property
    def seconds(self) -> float:
        return 0.0 if self.timing is None else self.timing.total

    @property
    def rows(self) -> int:
        raise NotImplementedError

    def torch(self: Result) -> Result:
        """The same with torch tensors, which share the memory. Do not write to them in place."""
        import torch

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of arrays that cannot be written
            tensors = {one.name: torch.from_numpy(value) for one in fields(self)
                       if isinstance(value := getattr(self, one.name), np.ndarray)}
        return replace(self, **tensors)


@dataclass(frozen=True)
class Classification(Arrays):
    """Row i belongs to the i-th requested node (or graph). classes int32 [n, k], most likely first; scores float32 [n, k], their
    probabilities; logits, probabilities float32 [n, C] if asked for."""

    classes: Any
    scores: Any
    logits: Any = None
    probabilities: Any = None

    @property
    def rows(self) -> int:
        return len(self.classes)


@dataclass(frozen=True)
class Embedding(Arrays):
    """embeddings float32 [n, width]; row i belongs to the i-th requested node."""

    embeddings: Any

    @property
    def rows(self) -> int:
        return len(self.embeddings)


@dataclass(frozen=True)
class Attention(Arrays):
    """edges int64 [m, 2]: source and target of each edge, as row numbers, by target in the order of the requested nodes, then by source;
    weights float32 [m, heads]: those of one target's edges add up to 1. `ids`: the map of the user's own ids, if this client has it."""

    edges: Any
    weights: Any
    ids: Optional[Ids] = None

    @property
    def rows(self) -> int:
        return len(self.weights)

    def named(self) -> list[tuple[Any, Any]]:
        """The edges by the user's own ids, or by row numbers where there are none."""
        names = self.edges.ravel().tolist() if self.ids is None else self.ids.nodes(self.edges.ravel().tolist())
        return list(zip(names[::2], names[1::2]))


@dataclass(frozen=True)
class LinkScores(Arrays):
    """links int64 [n, 2]: source and target of each link, as row numbers; scores float32 [n], logits; probabilities float32 [n], their
    sigmoids, if asked for. `ids`: the map of the user's own ids, if this client has it."""

    links: Any
    scores: Any
    probabilities: Any = None
    ids: Optional[Ids] = None

    @property
    def rows(self) -> int:
        return len(self.scores)

    def named(self) -> list[tuple[Any, Any]]:
        """The links by the user's own ids, or by row numbers where there are none."""
        names = self.links.ravel().tolist() if self.ids is None else self.ids.nodes(self.links.ravel().tolist())
        return list(zip(names[::2], names[1::2]))


@dataclass(frozen=True)
class TopPartners(Arrays):
    """Row i belongs to the i-th requested node. partners int64 [n, k]: row numbers, the highest score first, -1 where there are fewer;
    scores float32 [n, k], logits; probabilities float32 [n, k], their sigmoids, if asked for. `ids`: as in LinkScores."""

    partners: Any
    scores: Any
    probabilities: Any = None
    ids: Optional[Ids] = None

    @property
    def rows(self) -> int:
        return len(self.partners)

    def named(self) -> list[list[Any]]:
        """The partners of each node by the user's own ids, or by row numbers where there are none; without those that are missing."""
        rows = [[row for row in of_node if row >= 0] for of_node in self.partners.tolist()]
        return rows if self.ids is None else [self.ids.nodes(of_node) for of_node in rows]


def classification(reply: Any, first_row: int = 0) -> Classification:
    return Classification(
        ServedBy.of(reply.served_by), Timing.of(reply), first_row, from_tensor(reply.classes), from_tensor(reply.scores),
        from_tensor(reply.logits) if reply.HasField("logits") else None,
        from_tensor(reply.probabilities) if reply.HasField("probabilities") else None)


def embedding(reply: Any, first_row: int = 0) -> Embedding:
    return Embedding(ServedBy.of(reply.served_by), Timing.of(reply), first_row, from_tensor(reply.embeddings))


def attention(reply: Any, first_row: int = 0) -> Attention:
    return Attention(ServedBy.of(reply.served_by), Timing.of(reply), first_row, from_tensor(reply.attention.edges),
                     from_tensor(reply.attention.weights))


def _flat_probabilities(reply: Any) -> Any:
    return from_tensor(reply.probabilities).reshape(-1) if reply.HasField("probabilities") else None


def link_scores(reply: Any, first_row: int = 0) -> LinkScores:
    scores = from_tensor(reply.scores).reshape(-1)
    links = from_tensor(reply.links) if reply.HasField("links") else np.empty((0, 2), np.int64)
    return LinkScores(ServedBy.of(reply.served_by), Timing.of(reply), first_row, links, scores, _flat_probabilities(reply))


def top_partners(reply: Any, first_row: int = 0) -> TopPartners:
    return TopPartners(ServedBy.of(reply.served_by), Timing.of(reply), first_row, from_tensor(reply.partners), from_tensor(reply.scores),
                       from_tensor(reply.probabilities) if reply.HasField("probabilities") else None)


def joined(pieces: list[Result]) -> Result:
    """The pieces of a stream as one result."""
    if len(pieces) == 1:
        return pieces[0]
    arrays = {one.name: np.concatenate([getattr(piece, one.name) for piece in pieces]) for one in fields(pieces[0])
              if isinstance(getattr(pieces[0], one.name), np.ndarray)}
    return replace(pieces[-1], first_row=0, **arrays)
