# SPDX-License-Identifier: Apache-2.0
"""Queries of a stream (`Client.query_stream`), and their answers. The fields are the arguments of `Client.classify` and `Client.embed`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Union

from vicinal._arguments import execution
from vicinal.errors import CallError
from vicinal.results import Classification, Embedding


@dataclass(frozen=True, eq=False)
class ClassifyQuery:
    """`timeout`: seconds until the answer is of no use; None: no bound but the stream's."""

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

    method = "Classify"

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

    method = "Embed"

    def fields(self) -> dict[str, Any]:
        return {"output": self.output, "execution": execution(self.options)}


@dataclass(frozen=True, eq=False)
class Answer:
    """`result`, or the query's own `error`."""

    query: Union[ClassifyQuery, EmbedQuery]
    result: Union[None, Classification, Embedding]
    error: Optional[CallError]

    def get(self) -> Union[Classification, Embedding]:
        """The result; raises the error where there is none."""
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result
