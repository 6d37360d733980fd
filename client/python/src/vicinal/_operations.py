# SPDX-License-Identifier: Apache-2.0
"""The operations of a client, written once for `Client` and `AsyncClient` (see _effects.py)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Iterable, Optional, Union

import grpc
import numpy as np

from vicinal import results
from vicinal._arguments import milliseconds
from vicinal._channel import Options
from vicinal._effects import Call, Next, Open, Operation, backoff
from vicinal._links import check_relations, relation_of_each
from vicinal._messages import METHODS, enum_values, message
from vicinal._tensors import Array, UINT8, features
from vicinal._upload import Progress, Report, Upload
from vicinal.errors import CallError, IdsError, InputError, NotFound, from_status, is_broken_off, make_error
from vicinal.graphs import edge_features, graph_arrays, graph_batch
from vicinal.ids import Ids
from vicinal.progress import reporter
from vicinal.queries import Answer, ClassifyQuery, EmbedQuery, PredictLinksQuery, Query

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_REORDER = {name[len("REORDER_"):].lower(): number for name, number in enum_values("Reorder").items()}
_ORDERS = enum_values("AnswerOrder")
_STREAM_FIELDS = {"Classify": "classify", "Embed": "embed", "PredictLinks": "predict_links"}  # of InferStreamRequest
_TARGET, _NODES = message("Target"), message("NodeSelection")


@dataclass
class Known:
    """What this client knows of a graph's ids. `version` 0: not asked yet."""

    version: int = 0
    incarnation: str = ""
    digest: str = ""
    ids: Optional[Ids] = None


@dataclass
class Session:
    options: Options
    known: dict[str, Known] = field(default_factory=dict)

    def remember(self, graph: Any) -> Known:
        old = self.known.get(graph.name)
        ids = old.ids if old and old.ids is not None and old.ids.digest == graph.ids_digest else None
        known = self.known[graph.name] = Known(graph.version, graph.incarnation, graph.ids_digest, ids)
        return known


# --- uploads ---


def upload_graph(session: Session, name: str, graph: Any, *, arguments: dict[str, Any], reorder: str, replace: bool, if_version: int,
                 progress: Union[bool, Report], wait_for: Optional[str], pinned: bool, upload_id: Optional[str],
                 keep_edge_order: bool) -> Operation[results.Graph]:
    arrays = graph_arrays(graph, **arguments)
    if reorder not in _REORDER:
        raise InputError(f"reorder is {reorder!r}, but must be one of {sorted(_REORDER)}")
    method = METHODS["UploadGraph"]
    spec = message("UploadGraphSpec")(name=name, node_count=arrays.num_nodes, reorder=_REORDER[reorder], replace=replace,
                                      if_version=if_version, pinned=pinned, keep_edge_order=keep_edge_order,
                                      ids_digest=arrays.ids.digest if arrays.ids is not None else "")
    tensors = [("edge_index", arrays.edge_index)]
    if arrays.edge_weight is not None:
        tensors.append(("edge_weight", arrays.edge_weight))
    if arrays.edge_attr is not None:
        tensors.append(("edge_attr", arrays.edge_attr))
    if arrays.x is not None:
        tensors += arrays.x.upload_tensors()
        spec.feature_count = arrays.x.columns if arrays.x.dense is None else 0
    report = reporter(progress, f"graph {name}")
    upload = _upload(session, method, spec, tensors, name, upload_id, report, wait_for)
    reply = yield from upload.run()
    made = reply.graph
    ready = upload.wait_for != "accepted"
    if ready:
        made = yield from watch(session, name, report)
        if made.error_code and made.version <= reply.graph.version:
            raise make_error(_CODES[made.error_code], f"graph {name!r} was not replaced, version {made.version} continues to serve: "
                                                      f"{made.error_message}")
    if upload.wait_for == "durable":
        made = (yield from upload.wait_until_durable()).graph
    if arrays.ids is not None or ready:
        session.known[name] = Known(made.version if ready else 0, made.incarnation, spec.ids_digest, arrays.ids)
    return results.Graph.of(made, arrays.ids)


def _upload(session: Session, method: Any, spec: Any, tensors: list[tuple[str, Array]], graph: Optional[str], upload_id: Optional[str],
            report: Report, wait_for: Optional[str]) -> Upload:
    return Upload(method, spec, tensors, graph, upload_id, report, session.options.chunk_bytes, session.options.upload_attempts, wait_for)


def _run(upload: Upload) -> Operation[Any]:
    """Of what serves as soon as it is uploaded: feature sets and models."""
    reply = yield from upload.run()
    if upload.wait_for == "durable":
        reply = yield from upload.wait_until_durable()
    return reply


def upload_features(session: Session, graph: str, x: Any, *, name: str, replace: bool, if_version: int, progress: Union[bool, Report],
                    wait_for: Optional[str], upload_id: Optional[str]) -> Operation[results.FeatureSet]:
    table = features(x)
    spec = message("UploadFeaturesSpec")(graph=graph, name=name, replace=replace, if_version=if_version,
                                         feature_count=table.columns if table.dense is None else 0)
    reply = yield from _run(_upload(session, METHODS["UploadFeatures"], spec, table.upload_tensors(), graph, upload_id,
                                    reporter(progress, f"features {graph}/{name}"), wait_for))
    return results.FeatureSet.of(reply.feature_set)


def upload_edge_features(session: Session, graph: str, edge_attr: Any, *, name: str, replace: bool, if_version: int,
                         progress: Union[bool, Report], wait_for: Optional[str],
                         upload_id: Optional[str]) -> Operation[results.FeatureSet]:
    spec = message("UploadFeaturesSpec")(graph=graph, name=name, replace=replace, if_version=if_version)
    reply = yield from _run(_upload(session, METHODS["UploadFeatures"], spec, [("edge_attr", edge_features(edge_attr))], graph, upload_id,
                                    reporter(progress, f"edge features {graph}/{name}"), wait_for))
    return results.FeatureSet.of(reply.feature_set)


def upload_model(session: Session, name: str, architecture: str, weights: bytes, *, reference: Optional[bytes],
                 reference_graph: Optional[str], reference_features: Optional[str], reference_edge_features: Optional[str],
                 tolerance: float, replace: bool, if_version: int,
                 progress: Union[bool, Report], wait_for: Optional[str], upload_id: Optional[str]) -> Operation[results.Model]:
    spec = message("UploadModelSpec")(name=name, architecture_json=architecture, replace=replace, if_version=if_version)
    tensors = [("weights", _bytes_array(weights))]
    if reference is not None:
        tensors.append(("reference", _bytes_array(reference)))
        spec.reference.SetInParent()
        spec.reference.graph, spec.reference.feature_set = reference_graph or "", reference_features or ""
        spec.reference.edge_feature_set = reference_edge_features or ""
        spec.reference.tolerance = tolerance
    elif reference_graph:
        raise InputError("reference_graph without reference: nothing would be compared")
    reply = yield from _run(_upload(session, METHODS["UploadModel"], spec, tensors, None, upload_id, reporter(progress, f"model {name}"),
                                    wait_for))
    return results.Model.of(reply.model)


def _bytes_array(data: bytes) -> Array:
    return Array(np.frombuffer(data, dtype=np.uint8), UINT8)


def watch(session: Session, name: str, report: Report) -> Operation[Any]:
    """Waits until the graph is READY; FAILED is an error with the graph's own code. Gives the message."""
    request, last = METHODS["WatchGraph"].request(name=name), None
    for attempt in range(session.options.upload_attempts):
        if attempt:
            yield backoff(attempt)
        try:
            stream = yield Open(METHODS["WatchGraph"], request, name, timed=False)
            while (graph := (yield Next(stream))) is not None:
                last = graph
                report(Progress("prepare", graph.progress, 1))
            break
        except CallError as error:
            if not is_broken_off(error) or attempt + 1 == session.options.upload_attempts:
                raise
    state = results.Graph.of(last).state if last is not None else ""
    if state == "FAILED":
        raise make_error(_CODES[last.error_code], f"graph {name!r} could not be prepared: {last.error_message}")
    if state != "READY":
        raise make_error(grpc.StatusCode.INTERNAL, f"the watch of graph {name!r} ended before it was ready")
    return last


def watch_graph(session: Session, name: str, progress: Union[bool, Report]) -> Operation[results.Graph]:
    graph = yield from watch(session, name, reporter(progress, f"graph {name}"))
    return results.Graph.of(graph, session.remember(graph).ids)


# --- graphs, features, models ---


def get_graph(session: Session, name: str) -> Operation[results.Graph]:
    graph = yield Call(METHODS["GetGraph"], METHODS["GetGraph"].request(name=name), name)
    return results.Graph.of(graph, session.remember(graph).ids)


def get_model(session: Session, name: str) -> Operation[results.Model]:
    return results.Model.of((yield Call(METHODS["GetModel"], METHODS["GetModel"].request(name=name))))


# As client/cpp/client.cc has them.
_MOST_PAGES = 10_000
_MOST_LIST_BYTES = 256 << 20


def _pages(method: str, items: Callable[[Any], Iterable[Any]]) -> Operation[list[Any]]:
    found: list[Any] = []
    token, seen, size = "", {""}, 0
    while True:
        reply = yield Call(METHODS[method], METHODS[method].request(page_token=token))
        page, token, size = list(items(reply)), reply.next_page_token, size + reply.ByteSize()
        found += page
        if not token:
            return found
        if token in seen or not page or len(seen) >= _MOST_PAGES or size > _MOST_LIST_BYTES:
            raise _wrong_answer("the list does not end: " + ("a page token repeats" if token in seen else "an empty page is followed by another"
                                                             if not page else "it is larger than this client accepts"))
        seen.add(token)


def _wrong_answer(why: str) -> Exception:
    return make_error(grpc.StatusCode.INTERNAL, f"the server's answer is wrong: {why}; is it a vicinal-server?")


def list_graphs(session: Session) -> Operation[list[results.Graph]]:
    return [results.Graph.of(graph) for graph in (yield from _pages("ListGraphs", lambda reply: reply.graphs))]


def list_models(session: Session) -> Operation[list[results.Model]]:
    return [results.Model.of(model) for model in (yield from _pages("ListModels", lambda reply: reply.models))]


def list_features(session: Session, graph: str, edges: bool = False) -> Operation[list[results.FeatureSet]]:
    reply = yield Call(METHODS["ListFeatures"], METHODS["ListFeatures"].request(graph=graph), graph)
    return [results.FeatureSet.of(one) for one in (reply.edge_feature_sets if edges else reply.feature_sets)]


def delete(session: Session, method: str, fields: dict[str, Any], graph: Optional[str], missing_ok: bool) -> Operation[None]:
    try:
        yield Call(METHODS[method], METHODS[method].request(**fields), graph)
    except NotFound:
        if not missing_ok:
            raise
    if method == "DeleteGraph":
        session.known.pop(graph or "", None)


# --- inference ---


@dataclass(frozen=True)
class Selection:
    """The arguments that all queries share. `ids`: None, what the client knows; False, row numbers; else the map."""

    graph: str
    model: str
    nodes: Any
    ids: Any
    x: Any
    x_nodes: Any
    feature_set: str
    graph_version: int
    model_version: int
    edge_feature_set: str = ""


def _map_of(session: Session, query: Selection) -> Operation[Optional[Ids]]:
    if query.ids is False:
        return None
    if query.ids is not None:
        return query.ids if isinstance(query.ids, Ids) else Ids(query.ids)
    known = session.known.get(query.graph)
    if known is None or (known.ids is None and not known.version):
        known = session.remember((yield Call(METHODS["GetGraph"], METHODS["GetGraph"].request(name=query.graph), query.graph)))
    if known.ids is None and known.digest:
        raise IdsError(f"graph {query.graph!r} was uploaded with ids of its own, and this client does not have them: pass "
                       "ids=vicinal.Ids.load(FILE), or ids=False if the nodes are row numbers")
    return known.ids


def _is_mask(nodes: Any) -> bool:
    """The name of a NumPy type takes longer to make than all else here, so it is asked for its kind."""
    dtype = getattr(nodes, "dtype", None)
    return dtype.kind == "b" if isinstance(dtype, np.dtype) else str(dtype) == "torch.bool"


def _some(nodes: Any, what: str) -> None:
    if hasattr(nodes, "__len__") and len(nodes) == 0:
        raise InputError(f"{what} is empty; {what}=None asks for all")


def _rows(nodes: Any, ids: Optional[Ids], what: str = "nodes") -> np.ndarray:
    """The row numbers of the argument `what`."""
    if _is_mask(nodes):
        raise IdsError(f"{what} is a mask; pass the nodes themselves, as row numbers with ids=False: mask.nonzero()[0], in torch "
                       "mask.nonzero().flatten()")
    if isinstance(nodes, (str, bytes)) or not hasattr(nodes, "__iter__") or getattr(nodes, "ndim", 1) == 0:
        raise IdsError(f"{what} is {nodes!r}, but must be a list, also of a single node: [{nodes!r}]")
    if ids is not None:
        return ids.rows(nodes)
    array = np.asarray(nodes if hasattr(nodes, "__len__") else list(nodes))
    if array.size and (array.dtype.kind not in "iu" or array.ndim != 1):
        raise IdsError(f"{what} must be a list of row numbers, as there is no map of ids; got {array.dtype} {list(array.shape)}")
    return array.astype(np.int64, copy=False)


def _fill(session: Session, query: Selection, request: Any) -> Operation[Optional[Ids]]:
    ids = yield from _fill_target(session, query, request)
    if query.nodes is None:
        request.nodes.all = True
    else:
        request.nodes.ids.extend(_rows(query.nodes, ids).tolist())
    return ids


def _fill_target(session: Session, query: Selection, request: Any) -> Operation[Optional[Ids]]:
    """All but the nodes; the map of ids, if nodes are named."""
    for what, name in (("graph", query.graph), ("model", query.model), ("feature_set", query.feature_set),
                       ("edge_feature_set", query.edge_feature_set)):
        if not isinstance(name, str):
            raise InputError(f"{what} is {type(name).__name__}; its name is needed" + (", .name" if hasattr(name, "name") else ""))
    target = request.target
    target.graph, target.model, target.feature_set = query.graph, query.model, query.feature_set
    target.edge_feature_set = query.edge_feature_set
    target.graph_version, target.model_version = query.graph_version, query.model_version
    if query.x_nodes is not None and query.x is None:
        raise InputError("x_nodes without x: the features of those nodes are missing")
    ids = None
    if query.nodes is not None or query.x_nodes is not None:
        ids = yield from _map_of(session, query)
    if ids is not None:
        known = session.known.get(query.graph)  # another thread may have deleted the graph since
        target.ids_digest = known.digest if query.ids is None and known is not None else ids.digest
    if query.x is not None:
        rows = None if query.x_nodes is None else _rows(query.x_nodes, ids, "x_nodes")
        request.features.CopyFrom(features(query.x).to_input(rows))
    return ids


def _check_served(session: Session, query: Selection, served: Any, ids: Optional[Ids]) -> Operation[None]:
    """Row numbers were sent to a graph that may have been replaced since this client looked: it may have ids now."""
    if ids is not None or query.nodes is None or query.ids is False:
        return
    known = session.known.get(query.graph)  # None: another thread has deleted the graph
    if known is not None and (known.version, known.incarnation) == (served.graph_version, served.incarnation):
        return
    known = session.remember((yield Call(METHODS["GetGraph"], METHODS["GetGraph"].request(name=query.graph), query.graph)))
    if known.digest:
        raise IdsError(f"graph {query.graph!r} was replaced by a version with ids of its own: pass ids=vicinal.Ids.load(FILE)")


def query_request(method: str, fields: dict[str, Any]) -> Any:
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        return METHODS[method].request(**given)
    except (TypeError, ValueError):
        # Protobuf does not name the field in all versions.
        for name, value in given.items():
            try:
                METHODS[method].request(**{name: value})
            except (TypeError, ValueError) as error:
                raise InputError(f"{name.removeprefix('return_')} is {value!r}: {error}") from None
        raise


def _selection(query: Query) -> Selection:
    nodes = query.sources if isinstance(query, PredictLinksQuery) else query.nodes
    return Selection(query.graph, query.model, nodes, query.ids, query.x, query.x_nodes, query.feature_set, query.graph_version,
                     query.model_version, query.edge_feature_set)


def run_query(session: Session, query: Union[ClassifyQuery, EmbedQuery], parse: Callable[..., Any]) -> Operation[Any]:
    """Selected nodes: one call. All nodes: a stream, so that the size of the answer is not limited by that of a message."""
    selection, request = _selection(query), query_request(query.method, query.fields())
    ids = yield from _fill(session, selection, request)
    if query.nodes is not None:
        reply = yield Call(METHODS[query.method], request, query.graph)
        yield from _check_served(session, selection, reply.served_by, ids)
        return _with_rows(parse(reply), len(request.nodes.ids))
    stream = yield Open(METHODS[query.method + "Stream"], request, query.graph)
    try:
        return results.joined((yield from _all_pieces(session, query.graph, stream, parse)))
    finally:
        stream.cancel()


def predict_links(session: Session, query: PredictLinksQuery) -> Operation[results.LinkScores]:
    """Without sources all edges: a stream."""
    request, ids = yield from _links_request(session, query)
    if query.sources is None:
        stream = yield Open(METHODS["PredictLinksStream"], request, query.graph)
        try:
            answer = results.joined((yield from _pieces_of_edges(session, stream, results.link_scores, "links")))
        finally:
            stream.cancel()
        known = session.known.get(query.graph)
        return replace(answer, ids=known.ids if known is not None else None)
    reply = yield Call(METHODS["PredictLinks"], request, query.graph)
    yield from _check_served(session, _selection(query), reply.served_by, ids)
    return replace(_with_rows(results.link_scores(reply), len(query.links)), links=query.links, ids=ids)


def _links_request(session: Session, query: PredictLinksQuery) -> Operation[tuple[Any, Optional[Ids]]]:
    """The message, and the map of ids of its nodes. Sets `query.links`."""
    fields = query.fields()
    _check_pairs(query.sources, query.targets, query.relations, fields["relation"])
    request = query_request("PredictLinks", {**fields, "all_edges": query.sources is None})
    ids = yield from _fill_target(session, _selection(query), request)
    if query.sources is not None:
        query.links = _add_pairs(request, query.sources, query.targets, query.relations, ids)
    return request, ids


def _check_pairs(sources: Any, targets: Any, relations: Any, relation: Optional[int]) -> None:
    if (sources is None) != (targets is None):
        if targets is None and getattr(sources, "ndim", 0) == 2 and len(sources) == 2:
            raise InputError("sources is an array [2, n], and targets are missing; for an edge_label_index write *edge_label_index")
        raise InputError("give both sources and targets, or neither for all edges of the graph")
    check_relations(relations, relation, sources is None)


def _add_pairs(request: Any, sources: Any, targets: Any, relations: Any, ids: Any) -> Any:
    """Adds pairs to a request; gives them as row numbers [n, 2]."""
    for what, nodes in (("sources", sources), ("targets", targets)):
        if hasattr(nodes, "__len__") and len(nodes) == 0:
            raise InputError(f"{what} is empty; name at least one source and target, or neither for all edges of the graph")
    begins, ends = _rows(sources, ids, "sources"), _rows(targets, ids, "targets")
    if len(begins) != len(ends):
        raise InputError(f"there are {len(begins)} sources and {len(ends)} targets; give one of each per link")
    request.pairs.sources.extend(begins.tolist())
    request.pairs.targets.extend(ends.tolist())
    if relations is not None:
        request.pairs.relations.extend(relation_of_each(relations, len(begins)))
    return np.stack([begins, ends], axis=1)


def attention(session: Session, query: Selection, fields: dict[str, Any]) -> Operation[results.Attention]:
    """A stream, as a node may have any number of edges."""
    if not fields["attention"]:
        raise InputError("layer is '', but must be the name of a layer with attention")
    request = query_request("Embed", fields)
    ids = yield from _fill(session, query, request)
    stream = yield Open(METHODS["EmbedStream"], request, query.graph)
    try:
        answer = results.joined((yield from _pieces_of_edges(session, stream, results.attention, "edges")))
    finally:
        stream.cancel()
    yield from _check_served(session, query, answer.served_by, ids)
    known = session.known.get(query.graph)
    return replace(answer, ids=ids if ids is not None or known is None else known.ids)


def _pieces_of_edges(session: Session, stream: Any, parse: Callable[..., Any], ends: str) -> Operation[list[Any]]:
    """`ends`: the field of a piece that names both nodes of each of its rows."""
    pieces: list[Any] = []
    order, size = PieceOrder(), 0
    while (reply := (yield Next(stream))) is not None:
        piece = parse(reply, reply.first_row)
        shape = getattr(piece, ends).shape
        if shape != (piece.rows, 2):
            raise _wrong_answer(f"it has {piece.rows} rows of {ends}, and ends [{', '.join(map(str, shape))}]")
        pieces.append(piece if piece.rows == 0 and not pieces else order.take(piece))  # a graph may have no edges
        size += reply.ByteSize()
        if size > session.options.max_answer_bytes:
            raise _wrong_answer(f"it has more than max_answer_bytes={session.options.max_answer_bytes}")
    if not pieces:
        raise _wrong_answer("it has no rows")
    return pieces


_UNARY_SCORES = 65536  # more might not fit one message
_DEFAULT_PARTNERS = 10  # the server's


def top_links(session: Session, query: Selection, partners: Any, fields: dict[str, Any]) -> Operation[results.TopPartners]:
    _some(query.nodes, "nodes")
    _some(partners, "partners")
    request = query_request("TopLinks", fields)
    named = query if query.nodes is not None or partners is None else replace(query, nodes=partners)  # for the map of ids
    ids = yield from _fill_target(session, named, request)
    if query.nodes is None:
        request.nodes.all = True
    else:
        request.nodes.ids.extend(_rows(query.nodes, ids).tolist())
    if partners is not None:
        request.partners.ids.extend(_rows(partners, ids, "partners").tolist())
    asked = None if query.nodes is None else len(request.nodes.ids)
    if asked is not None and asked * (request.k or _DEFAULT_PARTNERS) <= _UNARY_SCORES:
        answer = results.top_partners((yield Call(METHODS["TopLinks"], request, query.graph)))
    else:
        stream = yield Open(METHODS["TopLinksStream"], request, query.graph)
        try:
            answer = results.joined((yield from _all_pieces(session, query.graph, stream, results.top_partners, asked)))
        finally:
            stream.cancel()
    yield from _check_served(session, named, answer.served_by, ids)
    if asked is not None:
        _with_rows(answer, asked)
    if ids is None and (known := session.known.get(query.graph)) is not None:
        ids = known.ids
    return replace(answer, ids=ids)


def _with_rows(answer: Any, asked: int) -> Any:
    if answer.rows != asked:
        raise _wrong_answer(f"it has {answer.rows} rows, {asked} were asked for")
    return answer


# The rows of all nodes may be many, but not more than the graph has nodes, which is asked for once an answer is large.
_LARGE_ANSWER_BYTES = 64 << 20


def _all_pieces(session: Session, graph_name: str, stream: Any, parse: Callable[..., Any],
                asked: Optional[int] = None) -> Operation[list[Any]]:
    """`asked`: the number of rows; None: one of each node."""
    pieces: list[Any] = []
    order, size, nodes = PieceOrder(), 0, asked
    while (reply := (yield Next(stream))) is not None:
        pieces.append(order.take(parse(reply, reply.first_row)))
        size += reply.ByteSize()
        if size > session.options.max_answer_bytes:
            raise _wrong_answer(f"it has more than max_answer_bytes={session.options.max_answer_bytes}")
        if size > _LARGE_ANSWER_BYTES and nodes is None:
            graph = yield Call(METHODS["GetGraph"], METHODS["GetGraph"].request(name=graph_name), graph_name)
            # Of another version nothing is known: then max_answer_bytes counts.
            nodes = graph.node_count if graph.version == reply.served_by.graph_version else order.most
        if nodes is not None and order.rows > nodes:
            raise _wrong_answer(f"it has more rows than graph {graph_name!r} has nodes, {nodes}" if asked is None else
                                f"it has more than {asked} rows, {asked} were asked for")
    if not pieces:
        raise _wrong_answer("it has no rows")
    return pieces


class PieceOrder:
    """Pieces of an answer follow each other without a gap, and each has rows."""

    most = 1 << 62

    def __init__(self) -> None:
        self.rows = 0

    def take(self, piece: Any) -> Any:
        if piece.first_row != self.rows or piece.rows < 1:
            raise _wrong_answer(f"a piece begins at row {piece.first_row}, not at {self.rows}" if piece.rows else "a piece has no rows")
        self.rows += piece.rows
        return piece


def open_stream(session: Session, query: Union[ClassifyQuery, EmbedQuery]) -> Operation[Any]:
    fields = query.fields()  # wrong options are told at once, and not with the first piece

    def steps() -> Operation[Any]:
        request = query_request(query.method + "Stream", fields)
        yield from _fill(session, _selection(query), request)
        return (yield Open(METHODS[query.method + "Stream"], request, query.graph))

    return steps()


def stream_request(session: Session, query: Query, number: int, in_order: bool) -> Operation[Any]:
    """The message of one query of a stream."""
    if isinstance(query, PredictLinksQuery):
        inner, _ = yield from _links_request(session, query)
    else:
        inner = query_request(query.method, query.fields())
        yield from _fill(session, _selection(query), inner)
    order = _ORDERS["ANSWER_ORDER_IN_ORDER" if in_order else "ANSWER_ORDER_AS_COMPLETED"]
    return METHODS["InferStream"].request(request_id=number, order=order, timeout_ms=milliseconds(query.timeout), **{_STREAM_FIELDS[query.method]: inner})


class Sent:
    """The queries of a stream: those that were sent and await their answers, and whether all have been sent."""

    def __init__(self) -> None:
        self.waiting: dict[int, Any] = {}
        self.all = False

    def take(self, reply: Any) -> Answer:
        if reply.request_id not in self.waiting:
            raise make_error(grpc.StatusCode.INTERNAL, f"the server answered a query that does not await an answer: number {reply.request_id}")
        return stream_answer(self.waiting.pop(reply.request_id), reply)

    def check_end(self) -> None:
        """After a stream that ended well."""
        if self.all and not self.waiting:
            return
        what = f"{len(self.waiting)} queries have no answer, the first is number {min(self.waiting)}" if self.waiting else ""
        rest = "" if self.all else "further ones were not sent"
        raise make_error(grpc.StatusCode.INTERNAL, "the server ended the stream too early: " + ", and ".join(filter(None, (what, rest))) +
                         "; send them again")


def stream_answer(query: Any, reply: Any) -> Answer:
    if reply.HasField("error"):
        return Answer(query, None, from_status(reply.error))
    if reply.HasField("predict_links"):
        scores = results.link_scores(reply.predict_links)
        return Answer(query, scores if query.sources is None else replace(scores, links=query.links), None)
    if reply.HasField("classify"):
        return Answer(query, results.classification(reply.classify), None)
    return Answer(query, results.embedding(reply.embed), None)


def classify_graphs(session: Session, model: str, graphs: Any, fields: dict[str, Any]) -> Operation[results.Classification]:
    batch = graph_batch(graphs)
    request = query_request("ClassifyGraphs", {"model": model, **fields})
    request.graphs.ptr.CopyFrom(batch.ptr.to_tensor())
    request.graphs.edge_index.CopyFrom(batch.edge_index.to_tensor())
    if batch.edge_weight is not None:
        request.graphs.edge_weight.CopyFrom(batch.edge_weight.to_tensor())
    if batch.edge_attr is not None:
        request.graphs.edge_attr.CopyFrom(batch.edge_attr.to_tensor())
    request.graphs.features.CopyFrom(batch.x.to_input())
    return _with_rows(results.classification((yield Call(METHODS["ClassifyGraphs"], request))), len(batch.ptr.values) - 1)


def simple(method: str, request: Any, graph: Optional[str] = None) -> Operation[Any]:
    return (yield Call(METHODS[method], request, graph))
