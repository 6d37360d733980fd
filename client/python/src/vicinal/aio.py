# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio: the methods of `Client` as coroutines, streams as async iterators."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterable, AsyncIterator, Iterable, Mapping, Optional, TypeVar, Union

import grpc
import grpc.aio

from vicinal import _operations as operations
from vicinal import results
from vicinal._arguments import NO_TENSORS, architecture_text, execution, file_bytes, milliseconds
from vicinal._connection import Connection
from vicinal._effects import Call, Exchange, Next, Open, Operation, Send, Sleep
from vicinal._links import link_decoder, one_relation
from vicinal._messages import METHODS
from vicinal._upload import Report
from vicinal.errors import from_grpc
from vicinal.ids import Ids
from vicinal.queries import Answer, ClassifyQuery, EmbedQuery, PredictLinksQuery

T = TypeVar("T")


class AsyncClient(Connection):
    """As `Client`, in one event loop. Use it in an `async with`, or await `close`."""


    _grpc = grpc.aio

    async def close(self) -> None:
        await self._channel.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def _carry_out(self, effect: Any) -> Any:
        if isinstance(effect, (Call, Send)):
            return await self._start(effect)
        if isinstance(effect, Open):
            return self._start(effect)
        if isinstance(effect, Next):
            reply = await effect.stream.read()
            return None if reply is grpc.aio.EOF else reply
        assert isinstance(effect, Sleep)
        return await asyncio.sleep(effect.seconds)

    async def _run(self, operation: Operation[T]) -> T:
        try:
            effect = next(operation)
            while True:
                try:
                    value = await self._carry_out(effect)
                except grpc.RpcError as error:
                    effect = operation.throw(from_grpc(error, self._session.options.target))
                else:
                    effect = operation.send(value)
        except StopIteration as done:
            return done.value

    async def _pieces(self, operation: Operation[Any], parse: Any) -> AsyncIterator[Any]:
        stream = await self._run(operation)
        order = operations.PieceOrder()
        try:
            async for reply in stream:
                yield order.take(parse(reply, reply.first_row))
        except grpc.RpcError as error:
            raise from_grpc(error, self._session.options.target) from None
        finally:
            stream.cancel()

    # --- uploads ---

    async def upload_graph(self, name: str, graph: Any, *, x: Any = None, edge_weight: Any = None, num_nodes: Optional[int] = None,
                     ids: Any = None, undirected: bool = False, reorder: str = "auto", replace: bool = False, if_version: int = 0,
                     progress: Union[bool, Report] = False, wait_for: Optional[str] = None, pinned: bool = False,
                     upload_id: Optional[str] = None, edge_attr: Any = None, keep_edge_order: bool = False) -> results.Graph:
        """Uploads a graph. What `graph` may be, and what x, edge_weight, edge_attr, num_nodes, ids and undirected mean:
        `vicinal.graph_arrays`.
        `reorder`: auto, none, degree, rcm, community, metis. `progress`: True draws a bar on standard error; a function is called with a
        `Progress`. `wait_for`: accepted, ready (it serves) or durable (it is on the server's disk); None: durable if the server has a state
        directory, else ready. `pinned`: the server keeps the graph in memory, even if others need that. `upload_id`: resumes the upload
        that raised an error with this id. `keep_edge_order`: edge feature sets can be uploaded, as with edge_attr; see
        `upload_edge_features`."""
        arguments = {"x": x, "edge_weight": edge_weight, "num_nodes": num_nodes, "ids": ids, "undirected": undirected,
                     "edge_attr": edge_attr}
        return await self._run(operations.upload_graph(
            self._session, name, graph, arguments=arguments, reorder=reorder, replace=replace, if_version=if_version,
            progress=progress, wait_for=wait_for, pinned=pinned, upload_id=upload_id, keep_edge_order=keep_edge_order))

    async def upload_features(self, graph: str, x: Any, *, name: str = "default", replace: bool = False, if_version: int = 0,
                        progress: Union[bool, Report] = False, wait_for: Optional[str] = None,
                        upload_id: Optional[str] = None) -> results.FeatureSet:
        """Uploads a feature set of a graph: NumPy, torch, SciPy sparse, pandas; row i belongs to node i. `wait_for`: as for a graph."""
        return await self._run(operations.upload_features(self._session, graph, x, name=name, replace=replace, if_version=if_version,
                                                    progress=progress, wait_for=wait_for, upload_id=upload_id))

    async def upload_edge_features(self, graph: str, edge_attr: Any, *, name: str = "default", replace: bool = False, if_version: int = 0,
                             progress: Union[bool, Report] = False, wait_for: Optional[str] = None,
                             upload_id: Optional[str] = None) -> results.FeatureSet:
        """Uploads an edge feature set of a graph, [E, A] or [E]: row e belongs to edge e of the edge_index that was uploaded, after
        `undirected` has added reverse edges. The graph needs edge_attr or keep_edge_order. `wait_for`: as for a graph."""
        return await self._run(operations.upload_edge_features(self._session, graph, edge_attr, name=name, replace=replace,
                                                         if_version=if_version, progress=progress, wait_for=wait_for, upload_id=upload_id))

    async def upload_model(self, name: str, architecture: Any, weights: Any = None, *, reference: Any = None,
                     reference_graph: Optional[str] = None, reference_features: Optional[str] = None,
                     reference_edge_features: Optional[str] = None, tolerance: float = 0,
                     replace: bool = False, if_version: int = 0, progress: Union[bool, Report] = False,
                     wait_for: Optional[str] = None, upload_id: Optional[str] = None) -> results.Model:
        """Uploads a model. `architecture`: what `vicinal.export` returns (which brings weights and reference), or a path, a JSON text or a
        dict. `weights`, `reference`: safetensors, as a path or bytes; weights=None: the
        layers have no tensors. The server refuses a model that misses its reference by more than
        `tolerance` (0: 1e-4), relative to the largest expected magnitude in its row (at least 1). `wait_for`: as for a graph."""
        if hasattr(architecture, "architecture") and weights is None:
            exported, architecture = architecture, architecture.architecture
            weights, reference = exported.weights, exported.reference if reference is None else reference
        return await self._run(operations.upload_model(
            self._session, name, architecture_text(architecture), NO_TENSORS if weights is None else file_bytes(weights, "weights"),
            reference=None if reference is None else file_bytes(reference, "reference"), reference_graph=reference_graph,
            reference_features=reference_features, reference_edge_features=reference_edge_features, tolerance=tolerance, replace=replace, if_version=if_version, progress=progress,
            wait_for=wait_for, upload_id=upload_id))

    # --- graphs, features, models ---

    async def get_graph(self, name: str) -> results.Graph:
        return await self._run(operations.get_graph(self._session, name))

    async def list_graphs(self) -> list[results.Graph]:
        return await self._run(operations.list_graphs(self._session))

    async def watch_graph(self, name: str, *, progress: Union[bool, Report] = False) -> results.Graph:
        """Waits until the graph is READY."""
        return await self._run(operations.watch_graph(self._session, name, progress))

    async def delete_graph(self, name: str, *, if_version: int = 0, missing_ok: bool = False) -> None:
        await self._run(operations.delete(self._session, "DeleteGraph", {"name": name, "if_version": if_version}, name, missing_ok))

    async def list_features(self, graph: str) -> list[results.FeatureSet]:
        return await self._run(operations.list_features(self._session, graph))

    async def list_edge_features(self, graph: str) -> list[results.FeatureSet]:
        return await self._run(operations.list_features(self._session, graph, edges=True))

    async def delete_features(self, graph: str, name: str, *, if_version: int = 0, missing_ok: bool = False) -> None:
        await self._run(operations.delete(self._session, "DeleteFeatures", {"graph": graph, "name": name, "if_version": if_version}, graph,
                                    missing_ok))

    async def delete_edge_features(self, graph: str, name: str, *, if_version: int = 0, missing_ok: bool = False) -> None:
        fields = {"graph": graph, "name": name, "kind": "FEATURE_KIND_EDGES", "if_version": if_version}
        await self._run(operations.delete(self._session, "DeleteFeatures", fields, graph, missing_ok))

    async def get_model(self, name: str) -> results.Model:
        return await self._run(operations.get_model(self._session, name))

    async def list_models(self) -> list[results.Model]:
        return await self._run(operations.list_models(self._session))

    async def delete_model(self, name: str, *, if_version: int = 0, missing_ok: bool = False) -> None:
        await self._run(operations.delete(self._session, "DeleteModel", {"name": name, "if_version": if_version}, None, missing_ok))

    async def capabilities(self) -> Any:
        """Limits, devices, layer types and kernels: the message vicinal.v1.Capabilities."""
        return await self._run(operations.simple("GetCapabilities", operations.query_request("GetCapabilities", {})))

    async def explain(self, graph: str, model: str, *, output: str = "", feature_set: str = "", edge_feature_set: str = "",
                      options: Optional[Mapping[str, Any]] = None) -> Any:
        """The plan of a model on a graph: the message vicinal.v1.ExplainResponse. The other arguments: those of the query to be explained."""
        target = {"graph": graph, "model": model, "feature_set": feature_set, "edge_feature_set": edge_feature_set}
        fields = {"target": target, "output": output, "execution": execution(options)}
        return await self._run(operations.simple("Explain", operations.query_request("Explain", fields), graph))

    # --- inference ---

    async def classify(self, graph: str, model: str, nodes: Any = None, *, top_k: int = 1, logits: bool = False,
                 probabilities: bool = False, ids: Union[None, bool, Ids] = None, x: Any = None, x_nodes: Any = None,
                 feature_set: str = "", edge_feature_set: str = "", graph_version: int = 0, model_version: int = 0,
                 options: Optional[Mapping[str, Any]] = None) -> results.Classification:
        """Classes of nodes. `nodes`: ids as at the upload, in any order; None: all, by row. `ids`: the graph's ids, if another client
        uploaded it; False: nodes are row numbers. `x`: features for this request, of all nodes, or of `x_nodes` alone.
        `edge_feature_set`: in place of the graph's edge_attr; "": the edge feature set `default`, if there is one.
        `options`: fields of ExecutionOptions, such as {"precision": "bfloat16"}."""
        query = ClassifyQuery(graph, model, nodes, top_k, logits, probabilities, ids, x, x_nodes, feature_set, graph_version, model_version,
                              options, edge_feature_set=edge_feature_set)
        return await self._run(operations.run_query(self._session, query, results.classification))

    def classify_stream(self, graph: str, model: str, nodes: Any = None, *, top_k: int = 1, logits: bool = False,
                        probabilities: bool = False, ids: Union[None, bool, Ids] = None, x: Any = None, x_nodes: Any = None,
                        feature_set: str = "", edge_feature_set: str = "", options: Optional[Mapping[str, Any]] = None) -> AsyncIterator[results.Classification]:
        """Like `classify`, piece by piece; `first_row` of a piece is its place among the requested nodes."""
        query = ClassifyQuery(graph, model, nodes, top_k, logits, probabilities, ids, x, x_nodes, feature_set, options=options,
                              edge_feature_set=edge_feature_set)
        return self._pieces(operations.open_stream(self._session, query), results.classification)

    async def embed(self, graph: str, model: str, nodes: Any = None, *, output: str = "", ids: Union[None, bool, Ids] = None,
              x: Any = None, x_nodes: Any = None, feature_set: str = "", edge_feature_set: str = "", graph_version: int = 0, model_version: int = 0,
              options: Optional[Mapping[str, Any]] = None) -> results.Embedding:
        """A named output of the model (`Model.outputs`) for nodes; "": the input of the last convolution. The rest as in `classify`."""
        query = EmbedQuery(graph, model, nodes, output, ids, x, x_nodes, feature_set, graph_version, model_version, options,
                           edge_feature_set=edge_feature_set)
        return await self._run(operations.run_query(self._session, query, results.embedding))

    def embed_stream(self, graph: str, model: str, nodes: Any = None, *, output: str = "", ids: Union[None, bool, Ids] = None,
                     x: Any = None, x_nodes: Any = None, feature_set: str = "", edge_feature_set: str = "",
                     options: Optional[Mapping[str, Any]] = None) -> AsyncIterator[results.Embedding]:
        """Like `embed`, piece by piece."""
        query = EmbedQuery(graph, model, nodes, output, ids, x, x_nodes, feature_set, options=options, edge_feature_set=edge_feature_set)
        return self._pieces(operations.open_stream(self._session, query), results.embedding)

    async def attention(self, graph: str, model: str, layer: str, nodes: Any = None, *, ids: Union[None, bool, Ids] = None, x: Any = None,
                  x_nodes: Any = None, feature_set: str = "", edge_feature_set: str = "", graph_version: int = 0, model_version: int = 0,
                  options: Optional[Mapping[str, Any]] = None) -> results.Attention:
        """The weights that `layer` (GATConv, GATv2Conv, TransformerConv, SuperGATConv, FAConv) gives the in-edges of nodes (None: all), one per
        head, as PyTorch Geometric's return_attention_weights: `weights[i]` belongs to the edge `edges[i]`. The rest as in `classify`."""
        query = operations.Selection(graph, model, nodes, ids, x, x_nodes, feature_set, graph_version, model_version, edge_feature_set)
        fields = {"attention": layer, "execution": execution(options)}
        return await self._run(operations.attention(self._session, query, fields))

    async def predict_links(self, graph: str, model: str, sources: Any = None, targets: Any = None, *, relations: Any = None,
                      relation: Optional[int] = None, decoder: str = "", output: str = "", probabilities: bool = False, ids: Union[None, bool, Ids] = None, x: Any = None,
                      x_nodes: Any = None, feature_set: str = "", edge_feature_set: str = "", graph_version: int = 0, model_version: int = 0,
                      options: Optional[Mapping[str, Any]] = None) -> results.LinkScores:
        """Scores of the links sources[i] -> targets[i], which need not be edges; without both, of all edges of the graph. `decoder`: "model",
        "dot" or "cosine"; "": the model's own if it has one, else dot. `relations`: one per link, for a model's decoder with several;
        `relation`: of all (None: 0). `output`: whose rows are scored; "": the decoder's, or the model's last. The rest as in `classify`."""
        query = PredictLinksQuery(graph, model, sources, targets, relation, relations, decoder, output, probabilities, ids, x, x_nodes,
                                  feature_set, graph_version, model_version, options, edge_feature_set=edge_feature_set)
        return await self._run(operations.predict_links(self._session, query))

    async def top_links(self, graph: str, model: str, nodes: Any = None, *, k: Optional[int] = None, partners: Any = None,
                  exclude_links: bool = False, include_self: bool = False, nodes_are_targets: bool = False,
                  relation: Optional[int] = None, decoder: str = "", output: str = "", probabilities: bool = False, ids: Union[None, bool, Ids] = None, x: Any = None,
                  x_nodes: Any = None, feature_set: str = "", edge_feature_set: str = "", graph_version: int = 0, model_version: int = 0,
                  options: Optional[Mapping[str, Any]] = None) -> results.TopPartners:
        """The `k` (None: 10) partners with the highest scores for each node, exactly, among `partners` (None: all nodes). Partners are targets
        of links from the node, or sources with `nodes_are_targets`. `exclude_links`: without those that the graph links already. The rest
        as in `predict_links`."""
        query = operations.Selection(graph, model, nodes, ids, x, x_nodes, feature_set, graph_version, model_version, edge_feature_set)
        fields = {"k": k, "exclude_links": exclude_links, "include_self": include_self, "nodes_are_targets": nodes_are_targets,
                  "decoder": link_decoder(decoder), "relation": one_relation(relation), "output": output,
                  "return_probabilities": probabilities, "execution": execution(options)}
        return await self._run(operations.top_links(self._session, query, partners, fields))

    async def query_stream(self, queries: Union[Iterable[Any], AsyncIterable[Any]], *, in_order: bool = True,
                           timeout: Optional[float] = None) -> AsyncIterator[Answer]:
        """Sends queries on one stream, which costs less than a call for each, and gives an `Answer` for every one, in the order of the
        queries or, with `in_order=False`, as they are there. A query that fails has its error and ends nothing. `queries` is read ahead
        of the answers as far as the server takes more. `timeout`: seconds, of the whole stream. Raises `Internal` if the server ends the
        stream without an answer to every query."""
        milliseconds(timeout)
        sent = operations.Sent()
        failed: list[BaseException] = []

        async def all_queries() -> AsyncIterator[Any]:
            if isinstance(queries, AsyncIterable):
                async for query in queries:
                    yield query
                return
            for query in queries:
                yield query

        async def requests() -> AsyncIterator[Any]:
            number = 0
            try:
                async for query in all_queries():
                    sent.waiting[number] = query
                    yield await self._run(operations.stream_request(self._session, query, number, in_order))
                    number += 1
                sent.all = True
            except Exception as error:
                failed.append(error)

        stream = self._start(Exchange(METHODS["InferStream"], requests(), timeout))
        try:
            async for reply in stream:
                yield sent.take(reply)
        except grpc.RpcError as error:
            raise from_grpc(error, self._session.options.target) from None
        finally:
            stream.cancel()
        if failed:
            raise failed[0]
        sent.check_end()

    async def classify_graphs(self, model: str, graphs: Any, *, top_k: int = 1, logits: bool = False, probabilities: bool = False,
                        model_version: int = 0, options: Optional[Mapping[str, Any]] = None) -> results.Classification:
        """Classes of small graphs that travel with the request: a PyG `Batch`, or a list of graphs (anything that `upload_graph` reads and
        that has features, or pairs (graph, x))."""
        fields = {"top_k": top_k, "return_logits": logits, "return_probabilities": probabilities, "model_version": model_version,
                  "execution": execution(options)}
        return await self._run(operations.classify_graphs(self._session, model, graphs, fields))
