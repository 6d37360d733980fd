# SPDX-License-Identifier: Apache-2.0
"""Layers with features of edges on DGL. Its own modules where they compute the same (GINEConv, NNConv, GMMConv), else its
operators, as its modules use them: products per node rather than per edge, self-loops and what depends on weights alone
made once. LAYERS: name -> maker of a layer from a graph, the features of its edges, and PyG's weights."""

import dgl
import dgl.nn
import dgl.ops as ops
import torch
from torch import nn
from torch.nn.functional import leaky_relu, linear, softplus

EDGE_BUFFER_LIMIT = 4 << 30  # bytes


def with_mean_loops(g, attr):
    """Self-loops replaced by one per node, with the mean features of its in-edges from other nodes."""
    source, target = g.edges()
    kept = dgl.remove_self_loop(g)
    attr = attr[source != target]
    mean = ops.copy_e_mean(kept, attr)
    loops = dgl.add_self_loop(kept).formats(["csc", "coo"])
    loops.create_formats_()
    return loops, torch.cat([attr, mean])


def gat(g, attr, w):
    loops, attr = with_mean_loops(g, attr)
    heads, width = w["att_src"].shape[1:]
    edge = (w["lin_edge.weight"].view(heads, width, -1) * w["att_edge"].view(heads, width, 1)).sum(1)

    def layer(x):
        h = linear(x, w["lin.weight"]).view(-1, heads, width)
        score = ops.u_add_v(loops, (h * w["att_src"]).sum(-1), (h * w["att_dst"]).sum(-1)) + linear(attr, edge)
        alpha = ops.edge_softmax(loops, leaky_relu(score, 0.2))
        return ops.u_mul_e_sum(loops, h, alpha.unsqueeze(-1)).flatten(1) + w["bias"]

    return layer


def gatv2(g, attr, w):
    loops, attr = with_mean_loops(g, attr)
    heads, width = w["att"].shape[1:]

    def layer(x):
        source = linear(x, w["lin_l.weight"], w["lin_l.bias"]).view(-1, heads, width)
        target = linear(x, w["lin_r.weight"], w["lin_r.bias"]).view(-1, heads, width)
        z = ops.u_add_v(loops, source, target) + linear(attr, w["lin_edge.weight"]).view(-1, heads, width)
        alpha = ops.edge_softmax(loops, (leaky_relu(z, 0.2) * w["att"]).sum(-1, keepdim=True))
        return ops.u_mul_e_sum(loops, source, alpha).flatten(1) + w["bias"]

    return layer


def transformer(g, attr, w):
    heads = 8

    def layer(x):
        query, key, value = (linear(x, w[f"lin_{n}.weight"], w[f"lin_{n}.bias"]).view(len(x), heads, -1) for n in ("query", "key", "value"))
        edge = linear(attr, w["lin_edge.weight"]).view(len(attr), heads, -1)
        score = ops.u_dot_v(g, key, query) + ops.e_dot_v(g, edge, query)
        alpha = ops.edge_softmax(g, score / query.shape[-1] ** 0.5)
        out = ops.u_mul_e_sum(g, value, alpha) + ops.copy_e_sum(g, alpha * edge)
        return out.flatten(1) + linear(x, w["lin_skip.weight"], w["lin_skip.bias"])

    return layer


def gine(g, attr, w):
    conv = dgl.nn.GINEConv(lambda h: linear(h, w["nn.0.weight"], w["nn.0.bias"]))
    return lambda x: conv(g, x, linear(attr, w["lin.weight"], w["lin.bias"]))


def split(weight, width):
    """The parts of a weight that read a target, a source, and an edge."""
    return weight[:, :width].contiguous(), weight[:, width : 2 * width].contiguous(), weight[:, 2 * width :].contiguous()


def crystal(g, attr, w):
    width = w["lin_f.weight"].shape[0]
    gate, value = split(w["lin_f.weight"], width), split(w["lin_s.weight"], width)

    def of_edges(x, parts, bias):
        return ops.u_add_v(g, linear(x, parts[1]), linear(x, parts[0])) + linear(attr, parts[2], bias)

    def layer(x):
        messages = torch.sigmoid(of_edges(x, gate, w["lin_f.bias"])) * softplus(of_edges(x, value, w["lin_s.bias"]))
        return ops.copy_e_sum(g, messages) + x

    return layer


def gated(g, attr, w):
    width = w["bias"].shape[0]
    of_node = {n: w[f"lin_{n}.weight"][:, :width].contiguous() for n in ("key", "query", "value")}
    of_edge = {n: w[f"lin_{n}.weight"][:, width:].contiguous() for n in ("key", "query", "value")}
    gate_weight, gate_bias = of_edge["key"] + of_edge["query"], w["lin_key.bias"] + w["lin_query.bias"]

    def layer(x):
        gate = ops.u_add_v(g, linear(x, of_node["query"]), linear(x, of_node["key"])) + linear(attr, gate_weight, gate_bias)
        value = ops.u_add_e(g, linear(x, of_node["value"]), linear(attr, of_edge["value"], w["lin_value.bias"]))
        return ops.copy_e_sum(g, torch.sigmoid(gate) * value) + linear(x, w["lin_skip.weight"]) + w["bias"]

    return layer


def generalised(g, attr, w):
    names = sorted((n for n in w if n.startswith("mlp.") and n.endswith(".weight")), key=lambda n: int(n.split(".")[1]))
    first, norm, last = (n.removesuffix(".weight") for n in names)
    variance = w[norm + ".running_var"]
    scale = w[norm + ".weight"] / torch.sqrt(variance + 1e-5)
    shift = w[norm + ".bias"] - w[norm + ".running_mean"] * scale

    def layer(x):
        message = torch.relu(ops.u_add_e(g, x, linear(attr, w["lin_edge.weight"], w.get("lin_edge.bias")))) + 1e-7
        out = ops.copy_e_sum(g, message * ops.edge_softmax(g, message)) + x
        hidden = torch.relu(linear(out, w[first + ".weight"], w.get(first + ".bias")) * scale + shift)
        return linear(hidden, w[last + ".weight"], w.get(last + ".bias"))

    return layer


def edge_conditioned(g, attr, w):
    network = nn.Sequential(nn.Linear(*w["nn.0.weight"].T.shape), nn.ReLU(), nn.Linear(*w["nn.2.weight"].T.shape))
    network.load_state_dict({n.removeprefix("nn."): t for n, t in w.items() if n.startswith("nn.")})
    width = w["bias"].shape[0]
    conv = dgl.nn.NNConv(width, width, network, "sum", bias=False)
    return lambda x: conv(g, x, attr) + linear(x, w["lin.weight"], w["bias"])


def mixture(g, attr, w):
    kernels, dim = w["mu"].shape
    width = w["bias"].shape[0]
    conv = dgl.nn.GMMConv(width, width, dim, kernels, "mean", bias=False)
    with torch.no_grad():
        conv.fc.weight.copy_(w["g"].T)
        conv.mu.copy_(w["mu"])
        conv.inv_sigma.copy_(1 / torch.sqrt(w["sigma"] ** 2 + 1e-15))
    return lambda x: conv(g, x, attr) + linear(x, w["root.weight"], w["bias"])


LAYERS = {
    "GATConv": gat,
    "GATv2Conv": gatv2,
    "TransformerConv": transformer,
    "GINEConv": gine,
    "CGConv": crystal,
    "ResGatedGraphConv": gated,
    "GENConv": generalised,
    "NNConv": edge_conditioned,
    "GMMConv": mixture,
}
