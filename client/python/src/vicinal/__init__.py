# SPDX-License-Identifier: Apache-2.0
"""The Python client of Vicinal. docs/python.md is the guide."""

from typing import Any

from vicinal import errors
from vicinal._channel import SERVICE_CONFIG, Tls
from vicinal._upload import Progress
from vicinal.aio import AsyncClient
from vicinal.client import Client
from vicinal.errors import CallError, Error, IdsError, InputError
from vicinal.graphs import GraphArrays, graph_arrays
from vicinal.ids import Ids
from vicinal.progress import ProgressBar
from vicinal.queries import Answer, ClassifyQuery, EmbedQuery, PredictLinksQuery
from vicinal.results import Attention, Classification, Embedding, FeatureSet, Graph, LinkScores, Model, ServedBy, Timing, TopPartners

__version__ = "0.1.0"
__all__ = ["Answer", "AsyncClient", "Attention", "CallError", "Classification", "ClassifyQuery", "Client", "EmbedQuery", "Embedding", "Error", "FeatureSet", "Graph", "GraphArrays", "Ids",
           "IdsError", "InputError", "LinkScores", "Model", "PredictLinksQuery", "Progress", "ProgressBar", "SERVICE_CONFIG", "ServedBy", "Timing", "Tls", "TopPartners", "errors", "export",
           "graph_arrays"]


def export(module: Any, data: Any, **options: Any) -> Any:
    """Exports a trained module; see vicinal.exporting.export. Needs torch, which a client does not."""
    from vicinal import exporting

    return exporting.export(module, data, **options)
