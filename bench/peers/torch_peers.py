# SPDX-License-Identifier: Apache-2.0
"""PyTorch and PyTorch Geometric on the CPU: every form that a user can choose between, prepared once."""

import json
import warnings

import torch
import torch_geometric
from torch import nn
from torch_geometric.nn import SimpleConv
from torch_geometric.nn import models as pyg_models

from bench.peers import edge_layers as layers
from bench.peers import exchange

EDGE_BUFFER_LIMIT = 4 << 30  # bytes; a form that copies each edge's message is left out above it


def start(threads):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(threads)


def versions():
    return {
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def run(task):
    with torch.inference_mode():
        return task()


def to_numpy(result):
    return result.detach().contiguous().numpy()


def prepare(graph):
    graph.edges = torch.from_numpy(graph.edge_index)
    graph.by_target = torch.from_numpy(graph.sorted_edges)
    graph.ptr = torch.from_numpy(graph.row_ptr)
    graph.weight = torch.from_numpy(graph.sorted_weight.copy())
    graph.weight_as_sent = torch.from_numpy(graph.edge_weight.copy())
    if "edge_attr" in graph.tensors:
        graph.attr = torch.from_numpy(graph.sorted_attr)
        graph.attr_as_sent = torch.from_numpy(graph.tensors["edge_attr"].copy())


def csr(graph, values, index=torch.int64):
    return torch.sparse_csr_tensor(
        graph.ptr.to(index), graph.by_target[0].to(index), values, size=(graph.nodes, graph.nodes)
    )


def aggregations(graph, cell):
    """Name -> maker of a task. `cell`: reduce (sum, mean, max), weighted, width."""
    reduce, weighted, width = cell["reduce"], cell["weighted"], cell["width"]
    x = torch.from_numpy(exchange.pattern(graph.nodes, width))
    edges = graph.by_target.shape[1]
    values = graph.weight if weighted else torch.ones(edges)
    degree = graph.ptr[1:] - graph.ptr[:-1]
    source, target, ptr = graph.by_target[0].contiguous(), graph.by_target[1].contiguous(), graph.ptr
    makers = {}

    def linear(values):
        def with_index(index):
            def make():
                matrix = csr(graph, values, index)
                return lambda: matrix @ x

            return make

        def in_place():
            matrix, out = csr(graph, values), torch.zeros(graph.nodes, width)
            return lambda: torch.addmm(out, matrix, x, beta=0, out=out)

        makers["torch CSR @"] = with_index(torch.int64)
        makers["torch CSR @, int32"] = with_index(torch.int32)
        makers["torch CSR addmm(out=)"] = in_place

    if reduce == "sum":
        linear(values)
    if reduce == "mean":
        linear((1.0 / degree.clamp(min=1).float())[target])

    def reduced(index):
        def make():
            matrix = csr(graph, values, index)
            name = {"max": "amax"}.get(reduce, reduce)
            return lambda: torch.sparse.mm(matrix, x, reduce=name)

        return make

    makers["torch.sparse.mm(reduce=)"] = reduced(torch.int64)

    def bag(index):
        def make():
            offsets, ids = ptr[:-1].to(index), source.to(index)
            options = {"per_sample_weights": values} if weighted else {}
            return lambda: nn.functional.embedding_bag(ids, x, offsets, mode=reduce, **options)

        return make

    makers["torch embedding_bag"] = bag(torch.int64)
    makers["torch embedding_bag, int32"] = bag(torch.int32)

    def pyg_csr():
        matrix, conv = csr(graph, values), SimpleConv(aggr=reduce)
        return lambda: conv(x, matrix)

    makers["PyG message passing, CSR"] = pyg_csr

    if 4 * edges * width <= EDGE_BUFFER_LIMIT:

        def pyg_edges(order):
            def make():
                conv = SimpleConv(aggr=reduce)
                index = graph.edges if order == "as sent" else graph.by_target
                weight = graph.weight_as_sent if order == "as sent" else graph.weight
                return lambda: conv(x, index, edge_weight=weight if weighted else None)

            return make

        makers["PyG message passing, edge_index"] = pyg_edges("as sent")
        makers["PyG message passing, edge_index by target"] = pyg_edges("by target")

        def scatter():
            def task():
                messages = x.index_select(0, source)
                if weighted:
                    messages = messages * values.view(-1, 1)
                return torch_geometric.utils.scatter(messages, target, 0, graph.nodes, reduce=reduce)

            return task

        makers["PyG scatter"] = scatter
        if not weighted:
            makers["PyG segment"] = lambda: lambda: torch_geometric.utils.segment(
                x.index_select(0, source), ptr, reduce=reduce
            )

    def edge_index_class():
        index = torch_geometric.EdgeIndex(graph.by_target, sparse_size=(graph.nodes, graph.nodes), sort_order="col")
        index.fill_cache_()
        value = {"input_value": values} if weighted else {}
        return lambda: index.matmul(x, reduce=reduce, transpose=True, **value)

    makers["PyG EdgeIndex.matmul"] = edge_index_class
    return makers


def dense_features(graph):
    if not hasattr(graph, "dense_x"):
        if "x" in graph.tensors:
            graph.dense_x = torch.from_numpy(graph.tensors["x"].copy())
        else:
            graph.dense_x = sparse_features(graph).to_dense()
    return graph.dense_x


def sparse_features(graph):
    t = graph.tensors
    return torch.sparse_csr_tensor(
        torch.from_numpy(t["x_indptr"].copy()),
        torch.from_numpy(t["x_indices"]).long(),
        torch.from_numpy(t["x_values"].copy()),
        size=(graph.nodes, graph.features),
    )


def make_model(architecture):
    """The ready-made class that an architecture file names, in eval mode."""
    model_class = getattr(pyg_models, architecture["class"].rsplit(".", 1)[1])
    return model_class(**architecture["kwargs"]).eval()


def write_model(architecture_file, weights_file, architecture):
    """Random weights for an architecture (seeded), as the files that our side loads."""
    torch.manual_seed(1)
    state = make_model(architecture).state_dict()
    exchange.write_safetensors(
        weights_file, {name: tensor.numpy() for name, tensor in state.items() if tensor.dtype == torch.float32}
    )
    with open(architecture_file, "w", encoding="utf-8") as file:
        json.dump(architecture, file)


def op_model(request):
    write_model(request["architecture"], request["weights"], request["content"])
    return {}


def op_edge_layer(request):
    """Random weights (seeded) of a layer, as the files that our side loads."""
    torch.manual_seed(1)
    degrees = torch.tensor(request["degrees"])
    layers.write_files(
        request["architecture"], request["weights"], request["name"], *layers.layer_of(request["name"], request["edge_dim"], degrees)
    )
    return {}


def outside_inference_mode(layer):
    """EdgeIndex fails inside."""

    def forward(*inputs):
        with torch.inference_mode(False), torch.no_grad():
            return layer(*inputs)

    return forward


def edge_layers(graph, cell):
    edges = graph.by_target.shape[1]
    # NNConv makes a matrix for each edge.
    if 4 * edges * layers.WIDTH * (layers.WIDTH if cell["name"] == "NNConv" else layers.HEADS) > EDGE_BUFFER_LIMIT:
        raise MemoryError(f"a buffer of more than {EDGE_BUFFER_LIMIT} bytes")

    def load():
        _, layer = layers.layer_of(cell["name"], cell["edge_dim"], torch.ones(2, dtype=torch.int64))
        weights = exchange.read_safetensors(cell["weights"])
        layer.load_state_dict({n.removeprefix("a."): torch.from_numpy(w.copy()) for n, w in weights.items()}, strict=False)
        return layer.eval()

    x = dense_features(graph)

    def on(index, attr, convert=lambda layer: layer):
        def make():
            layer = convert(load())
            return lambda: layer(x, index, attr)

        return make

    makers = {"PyG edge_index": on(graph.edges, graph.attr_as_sent), "PyG edge_index by target": on(graph.by_target, graph.attr)}
    sorted_index = torch_geometric.EdgeIndex(graph.by_target, sparse_size=(graph.nodes, graph.nodes), sort_order="col")
    sorted_index.fill_cache_()
    makers["PyG EdgeIndex by target"] = on(sorted_index, graph.attr, outside_inference_mode)
    if cell.get("compile"):
        makers["PyG edge_index by target, torch.compile"] = on(graph.by_target, graph.attr, torch.compile)
    return makers


def forwards(graph, cell):
    with open(cell["architecture"], encoding="utf-8") as file:
        architecture = json.load(file)
    weights = {
        name: torch.from_numpy(array.copy()) for name, array in exchange.read_safetensors(cell["weights"]).items()
    }
    kind = architecture["class"].rsplit(".", 1)[1]

    def load(**options):
        model = make_model({"class": architecture["class"], "kwargs": {**architecture["kwargs"], **options}})
        model.load_state_dict(weights, strict=False)
        return model

    def task(model, x, adjacency):
        def forward():
            return model(x, adjacency)

        return forward

    cached = {"cached": True} if kind == "GCN" else {}
    edges = graph.by_target
    x = dense_features
    width = max(architecture["kwargs"]["hidden_channels"], 1)
    fits = 4 * edges.shape[1] * max(width, graph.features if kind in ("GraphSAGE", "GIN") else 0) <= EDGE_BUFFER_LIMIT
    makers = {}
    if fits:
        makers["PyG edge_index"] = lambda: task(load(), x(graph), graph.edges)
        makers["PyG edge_index by target"] = lambda: task(load(), x(graph), edges)
        if cached:
            makers["PyG edge_index, cached norm"] = lambda: task(load(**cached), x(graph), graph.edges)
    if kind != "GAT":
        ones = torch.ones(edges.shape[1])
        makers["PyG CSR"] = lambda: task(load(), x(graph), csr(graph, ones))
        if cached:
            makers["PyG CSR, cached norm"] = lambda: task(load(**cached), x(graph), csr(graph, ones))
            if "x" not in graph.tensors:
                makers["PyG CSR, cached norm, sparse x"] = lambda: task(
                    load(**cached), sparse_features(graph), csr(graph, ones)
                )
    hand = hand_written(graph, architecture, weights)
    if hand is not None:
        makers["torch, by hand"] = lambda: hand(x(graph))
        if "x" not in graph.tensors:
            makers["torch, by hand, sparse x"] = lambda: hand(sparse_features(graph))
    return makers


def hand_written(graph, architecture, weights):
    """What someone who knows PyTorch well would write without PyG, product before aggregation wherever that is equal
    and cheaper. Two-layer models without norm only; None for others."""
    kind = architecture["class"].rsplit(".", 1)[1]
    kwargs = architecture["kwargs"]
    if kwargs.get("num_layers") != 2 or kwargs.get("norm") or kwargs.get("jk"):
        return None
    edges = graph.by_target.shape[1]
    if kind == "GCN":
        from torch_geometric.nn.conv.gcn_conv import gcn_norm

        index, value = gcn_norm(graph.edges, None, graph.nodes)
        matrix = torch.sparse_coo_tensor(index.flip(0), value, (graph.nodes, graph.nodes)).coalesce().to_sparse_csr()
        w1, b1 = weights["convs.0.lin.weight"].t().contiguous(), weights["convs.0.bias"]
        w2, b2 = weights["convs.1.lin.weight"].t().contiguous(), weights["convs.1.bias"]

        def gcn(x):
            def forward():
                h = torch.addmm(b1, matrix, x @ w1).relu_()
                return torch.addmm(b2, matrix, h @ w2)

            return forward

        return gcn
    if kind == "GraphSAGE":
        reduce = {"max": "amax"}.get(kwargs.get("aggr", "mean"), "mean")
        matrix = csr(graph, torch.ones(edges))
        layer = [
            [weights[f"convs.{i}.lin_{side}.weight"].t().contiguous() for side in "lr"]
            + [weights[f"convs.{i}.lin_l.bias"]]
            for i in range(2)
        ]

        def sage_layer(x, left, right, bias):
            if reduce == "amax":
                return torch.sparse.mm(matrix, x, reduce="amax") @ left + x @ right + bias
            return torch.sparse.mm(matrix, x @ left, reduce="mean") + x @ right + bias

        def sage(x):
            if reduce == "amax" and x.layout != torch.strided:
                x = x.to_dense()

            def forward():
                return sage_layer(sage_layer(x, *layer[0]).relu_(), *layer[1])

            return forward

        return sage
    if kind == "GIN":
        matrix = csr(graph, torch.ones(edges))
        layer = [
            [weights[f"convs.{i}.nn.lins.{j}.{what}"] for j in range(2) for what in ("weight", "bias")]
            for i in range(2)
        ]

        def gin_layer(x, w1, b1, w2, b2):
            h = x @ w1.t()
            h = torch.addmm(h, matrix, h).add_(b1).relu_()
            return nn.functional.linear(h, w2, b2)

        def gin(x):
            def forward():
                return gin_layer(gin_layer(x, *layer[0]).relu_(), *layer[1])

            return forward

        return gin
    return None
