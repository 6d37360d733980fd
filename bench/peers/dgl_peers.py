# SPDX-License-Identifier: Apache-2.0
"""DGL on the CPU: its sparse operators (dgl.ops), and forward passes written with them. DGL 2.1, its last release on
PyPI, needs PyTorch 2.0 to 2.2."""

import json
import os
import warnings

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl
import dgl.function as fn
import dgl.ops
import torch
from torch import nn

from bench.peers import dgl_edge_layers, exchange


def start(threads):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(threads)
    dgl.utils.set_num_threads(threads)


def versions():
    return {"dgl": dgl.__version__, "torch (for dgl)": torch.__version__}


def run(task):
    with torch.inference_mode():
        return task()


def to_numpy(result):
    return result.detach().contiguous().numpy()


def prepare(graph):
    edges = torch.from_numpy(graph.sorted_edges)
    graph.dgl = {}
    for name, kind in (("int64", torch.int64), ("int32", torch.int32)):
        g = dgl.graph((edges[0].to(kind), edges[1].to(kind)), num_nodes=graph.nodes)
        graph.dgl[name] = g.formats(["csc", "coo"])
        graph.dgl[name].create_formats_()
    graph.weight = torch.from_numpy(graph.sorted_weight.copy())
    if "edge_attr" in graph.tensors:
        graph.attr = torch.from_numpy(graph.sorted_attr)


def aggregations(graph, cell):
    reduce, weighted, width = cell["reduce"], cell["weighted"], cell["width"]
    x = torch.from_numpy(exchange.pattern(graph.nodes, width))

    def make(index):
        def maker():
            g = graph.dgl[index]
            if weighted:
                weight = graph.weight.view(-1, 1)
                return lambda: dgl.ops.u_mul_e_sum(g, x, weight)
            if reduce == "max":
                return lambda: maximum(g, x)
            op = getattr(dgl.ops, f"copy_u_{reduce}")
            return lambda: op(g, x)

        return maker

    return {"DGL": make("int64"), "DGL, int32": make("int32")}


def scores(graph, cell):
    width = cell["width"]
    both = torch.from_numpy(exchange.pattern(2 * graph.nodes, width))
    source, target = both[: graph.nodes].contiguous(), both[graph.nodes :].contiguous()

    def make(index):
        return lambda: lambda: dgl.ops.u_dot_v(graph.dgl[index], source, target)

    return {"DGL": make("int64"), "DGL, int32": make("int32")}


def maximum(g, x):
    """Through message passing, because dgl.ops leaves minus infinity where a node has no in-edge."""
    with g.local_scope():
        g.srcdata["x"] = x
        g.update_all(fn.copy_u("x", "m"), fn.max("m", "y"))
        return g.dstdata["y"]


def edge_layers(graph, cell):
    """Those that DGL has, or that its operators give."""
    make_layer = dgl_edge_layers.LAYERS.get(cell["name"])
    if make_layer is None:
        return {}
    if cell["name"] == "NNConv" and 4 * graph.edge_index.shape[1] * graph.features**2 > dgl_edge_layers.EDGE_BUFFER_LIMIT:
        raise MemoryError(f"a buffer of more than {dgl_edge_layers.EDGE_BUFFER_LIMIT} bytes")
    weights = {
        name.removeprefix("a."): torch.from_numpy(array.copy()) for name, array in exchange.read_safetensors(cell["weights"]).items()
    }

    def make(index):
        def maker():
            layer = make_layer(graph.dgl[index], graph.attr, weights)
            x = features(graph)
            return lambda: layer(x)

        return maker

    return {"DGL": make("int64"), "DGL, int32": make("int32")}


def features(graph):
    t = graph.tensors
    if "x" in t:
        return torch.from_numpy(t["x"].copy())
    return torch.sparse_csr_tensor(
        torch.from_numpy(t["x_indptr"].copy()),
        torch.from_numpy(t["x_indices"]).long(),
        torch.from_numpy(t["x_values"].copy()),
        size=(graph.nodes, graph.features),
    ).to_dense()


def with_loops(g):
    g = dgl.add_self_loop(dgl.remove_self_loop(g)).formats(["csc", "coo"])
    g.create_formats_()
    return g


def forwards(graph, cell):
    with open(cell["architecture"], encoding="utf-8") as file:
        architecture = json.load(file)
    weights = {
        name: torch.from_numpy(array.copy()) for name, array in exchange.read_safetensors(cell["weights"]).items()
    }
    kind = architecture["class"].rsplit(".", 1)[1]
    kwargs = architecture["kwargs"]
    if kwargs["num_layers"] != 2 or kwargs.get("norm") or kwargs.get("jk") or kwargs.get("v2"):
        return {}
    layers = {"GCN": gcn, "GraphSAGE": sage, "GIN": gin, "GAT": gat}[kind]

    def make(index):
        def maker():
            first, second = (layers(graph, graph.dgl[index], weights, f"convs.{i}.", kwargs, i) for i in range(2))
            x = features(graph)
            activation = nn.functional.elu if kwargs.get("act") == "elu" else torch.relu
            return lambda: second(activation(first(x)))

        return maker

    return {"DGL": make("int64"), "DGL, int32": make("int32")}


def gcn(_, g, weights, prefix, __, ___):
    """GCNConv with its loops added once; the narrower of input and output is what is aggregated."""
    loops = with_loops(g)
    norm = loops.in_degrees().float().pow(-0.5).view(-1, 1)
    weight, bias = weights[prefix + "lin.weight"].t().contiguous(), weights[prefix + "bias"]

    def layer(x):
        return dgl.ops.copy_u_sum(loops, (x @ weight) * norm) * norm + bias

    return layer


def sage(_, g, weights, prefix, kwargs, __):
    left, bias = weights[prefix + "lin_l.weight"].t().contiguous(), weights[prefix + "lin_l.bias"]
    right = weights[prefix + "lin_r.weight"].t().contiguous()
    if kwargs.get("aggr", "mean") == "max":
        return lambda x: maximum(g, x) @ left + bias + x @ right
    return lambda x: dgl.ops.copy_u_mean(g, x @ left) + bias + x @ right


def gin(_, g, weights, prefix, __, ___):
    w1, b1 = weights[prefix + "nn.lins.0.weight"].t().contiguous(), weights[prefix + "nn.lins.0.bias"]
    w2, b2 = weights[prefix + "nn.lins.1.weight"].t().contiguous(), weights[prefix + "nn.lins.1.bias"]

    def layer(x):
        h = x @ w1
        return torch.relu(h + dgl.ops.copy_u_sum(g, h) + b1) @ w2 + b2

    return layer


def gat(_, g, weights, prefix, __, index):
    """GATConv as dgl.nn.GATConv does it: scores per node, edge softmax, weighted sum."""
    loops = with_loops(g)
    heads, width = weights[prefix + "att_src"].shape[1:]
    weight, bias = weights[prefix + "lin.weight"].t().contiguous(), weights[prefix + "bias"]
    att_src, att_dst = weights[prefix + "att_src"], weights[prefix + "att_dst"]

    def layer(x):
        h = (x @ weight).view(-1, heads, width)
        score = dgl.ops.u_add_v(loops, (h * att_src).sum(-1, keepdim=True), (h * att_dst).sum(-1, keepdim=True))
        alpha = dgl.ops.edge_softmax(loops, nn.functional.leaky_relu(score, 0.2))
        out = dgl.ops.u_mul_e_sum(loops, h, alpha)
        out = out.flatten(1) if index == 0 else out.mean(1)
        return out + bias

    return layer
