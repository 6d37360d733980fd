# SPDX-License-Identifier: Apache-2.0
"""Queries of a stream (`Client.query_stream`), and their answers. The fields are the arguments of `Client.classify`, `Client.embed` and
`Client.predict_links`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Union

from vicinal._arguments import execution, milliseconds
from vicinal._links import link_decoder, one_relation
from vicinal.errors import CallError
from vicinal.results import Classification, Embedding, LinkScores


@dataclass(frozen=True, eq=False)
class ClassifyQuery:
    """`timeout`: seconds until the answer is of no use, counted from the query's arrival at the server (docs/python.md); None: no bound but
    the stream's."""

    graph: str
    model: str
    nodes: Any = None
    top_k: int = 1
    logits: bool = False
    probabilities: bool = False
    ids: Any = None
    x: Any = None
    x_nodes: Any = None
    feature_set: str = ""
    graph_version: int = 0
    model_version: int = 0
    options: Optional[Mapping[str, Any]] = None
    timeout: Optional[float] = None
    edge_feature_set: str = ""

    method = "Classify"

    def __post_init__(self) -> None:
        milliseconds(self.timeout)  # a wrong one is told at once

    def fields(self) -> dict[str, Any]:
        return {"top_k": self.top_k, "return_logits": self.logits, "return_probabilities": self.probabilities,
                "execution": execution(self.options)}


@dataclass(frozen=True, eq=False)
class EmbedQuery:
    """`timeout` as in `ClassifyQuery`."""

    graph: str
    model: str
    nodes: Any = None
    output: str = ""
    ids: Any = None
    x: Any = None
    x_nodes: Any = None
    feature_set: str = ""
    graph_version: int = 0
    model_version: int = 0
    options: Optional[Mapping[str, Any]] = None
    timeout: Optional[float] = None
    edge_feature_set: str = ""

    method = "Embed"

    def __post_init__(self) -> None:
        milliseconds(self.timeout)

    def fields(self) -> dict[str, Any]:
        return {"output": self.output, "execution": execution(self.options)}


@dataclass(eq=False)
class PredictLinksQuery:
    """The links sources[i] -> targets[i], or without both all edges of the graph; the rest as in `Client.predict_links`. `links` [n, 2], row
    numbers, is set when the query is sent."""

    graph: str
    model: str
    sources: Any = None
    targets: Any = None
    relation: Optional[int] = None
    relations: Any = None
    decoder: str = ""
    output: str = ""
    probabilities: bool = False
    ids: Any = None
    x: Any = None
    x_nodes: Any = None
    feature_set: str = ""
    graph_version: int = 0
    model_version: int = 0
    options: Optional[Mapping[str, Any]] = None
    timeout: Optional[float] = None
    edge_feature_set: str = ""
    links: Any = None

    method = "PredictLinks"

    def __post_init__(self) -> None:
        milliseconds(self.timeout)

    def fields(self) -> dict[str, Any]:
        return {"decoder": link_decoder(self.decoder), "relation": one_relation(self.relation), "output": self.output,
                "return_probabilities": self.probabilities, "execution": execution(self.options)}


Query = Union[ClassifyQuery, EmbedQuery, PredictLinksQuery]


@dataclass(frozen=True, eq=False)
class Answer:
    """`result`, or the query's own `error`."""

    query: Query
    result: Union[None, Classification, Embedding, LinkScores]
    error: Optional[CallError]

    def get(self) -> Union[Classification, Embedding, LinkScores]:
        """The result; raises the error where there is none."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result
