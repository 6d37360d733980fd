# SPDX-License-Identifier: Apache-2.0
"""Message functions of published models: each as a document for Vicinal's layer MessagePassing, and as the PyTorch
module that it must equal. make_references.py writes one model per entry of MESSAGES; the layer is called as the entry.

A module's forward takes the layer's inputs, edge_index, and a dictionary with edge_attr and edge_weight. Nodes have 12
features (some models read the last three as positions), edges 4.
"""

import torch
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.utils import add_self_loops, degree, remove_self_loops, softmax

H, EDGES, HEADS = 8, 4, 2


class Messages(pyg.MessagePassing):
    """A MessagePassing whose message may take `edge_attr`."""

    def forward(self, x, edge_index, data):
        return self.finish(x, self.propagate(edge_index, x=x, edge_attr=data["edge_attr"]), edge_index)

    def finish(self, x, aggregated, edge_index):
        return aggregated


class Egnn(Messages):
    """E(n)-equivariant layer (Satorras et al. 2021): invariant messages, and steps along differences of positions."""

    def __init__(self):
        super().__init__(aggr="add")
        self.edge1, self.edge2 = nn.Linear(9 + 9 + 1 + EDGES, H), nn.Linear(H, H)
        self.coord1, self.coord2 = nn.Linear(H, H), nn.Linear(H, 1, bias=False)
        self.node1, self.node2 = nn.Linear(9 + H, H), nn.Linear(H, 9)

    def message(self, x_i, x_j, edge_attr):
        away = x_i[:, 9:] - x_j[:, 9:]
        distance = (away**2).sum(-1, keepdim=True)
        m = self.edge2(nn.functional.silu(self.edge1(torch.cat([x_i[:, :9], x_j[:, :9], distance, edge_attr], -1))))
        m = nn.functional.silu(m)
        return torch.cat([m, away * self.coord2(nn.functional.silu(self.coord1(m)))], -1)

    def finish(self, x, aggregated, edge_index):
        count = degree(edge_index[1], x.shape[0], dtype=x.dtype).clamp(min=1)[:, None]
        h = self.node2(nn.functional.silu(self.node1(torch.cat([x[:, :9], aggregated[:, :H]], -1))))
        return torch.cat([x[:, :9] + h, x[:, 9:] + aggregated[:, H:] / count], -1)


class SchNet(Messages):
    """Continuous filters (Schuett et al. 2017): Gaussians of a distance, a network, and an element-wise product."""

    def __init__(self):
        super().__init__(aggr="add")
        self.offset = nn.Parameter(torch.zeros(10))
        self.filter1, self.filter2 = nn.Linear(10, H), nn.Linear(H, H)
        self.lin1, self.lin2 = nn.Linear(12, H, bias=False), nn.Linear(H, 5)

    def message(self, x_j, edge_attr):
        rbf = torch.exp(-2.0 * (edge_attr[:, :1].abs() - self.offset) ** 2)
        weight = self.filter2(nn.functional.softplus(self.filter1(rbf)) - torch.log(torch.tensor(2.0)).item())
        return self.lin1(x_j) * weight

    def finish(self, x, aggregated, edge_index):
        return self.lin2(aggregated)


class GatedGcn(Messages):
    """GatedGCN (Bresson and Laurent 2017; Dwivedi et al. 2020): gates are divided by their sum."""

    def __init__(self):
        super().__init__(aggr="add")
        self.a, self.b, self.u, self.v = (nn.Linear(12, H) for _ in range(4))
        self.c = nn.Linear(EDGES, H)

    def message(self, x_i, x_j, edge_attr):
        gate = torch.sigmoid(self.a(x_i) + self.b(x_j) + self.c(edge_attr))
        return torch.cat([gate * self.v(x_j), gate], -1)

    def finish(self, x, aggregated, edge_index):
        return self.u(x) + aggregated[:, :H] / (aggregated[:, H:] + 1e-6)


class EdgeGate(Messages):
    """A learned gate per edge, one number from both ends and the edge's features."""

    def __init__(self):
        super().__init__(aggr="mean")
        self.gate, self.value = nn.Linear(12 + 12 + EDGES, 1), nn.Linear(12, H)

    def message(self, x_i, x_j, edge_attr):
        return torch.sigmoid(self.gate(torch.cat([x_i, x_j, edge_attr], -1))) * self.value(x_j)


class Pna(Messages):
    """Principal neighbourhood aggregation (Corso et al. 2020): four reductions, scaled by degrees."""

    def __init__(self):
        super().__init__(aggr=["mean", "min", "max", "std"])
        self.pre, self.post = nn.Linear(12 + 12 + EDGES, H), nn.Linear(12 + 12 * H, 6)

    def message(self, x_i, x_j, edge_attr):
        return self.pre(torch.cat([x_i, x_j, edge_attr], -1))

    def finish(self, x, aggregated, edge_index):
        count = degree(edge_index[1], x.shape[0], dtype=x.dtype)[:, None]
        more = torch.log(count + 1) / 1.5
        less = 1.5 / torch.log(count.clamp(min=1) + 1)
        return self.post(torch.cat([x, aggregated, aggregated * more, aggregated * less], -1))


class Moments(Messages):
    """All that a list of reductions may have, over a message with a product after an activation."""

    def __init__(self):
        super().__init__(aggr=["sum", "var", "softmax", "min"])
        self.lin1, self.lin2 = nn.Linear(24, 20), nn.Linear(20, 18)

    def message(self, x_i, x_j):
        return self.lin2(torch.tanh(self.lin1(torch.cat([x_i, x_j], -1))))


class PointNet(Messages):
    """PointNet++ (Qi et al. 2017): features of neighbours beside their relative positions; every node has a loop."""

    def __init__(self):
        super().__init__(aggr="max")
        self.local1, self.local2, self.world = nn.Linear(12, H), nn.Linear(H, H), nn.Linear(H, 5)

    def forward(self, x, edge_index, data):
        edge_index, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=x.shape[0])
        return torch.relu(self.world(self.propagate(edge_index, x=x)))

    def message(self, x_i, x_j):
        local = torch.cat([x_j[:, :9], x_j[:, 9:] - x_i[:, 9:]], -1)
        return self.local2(torch.relu(self.local1(local)))


class HeadScores(Messages):
    """Attention by a network of both ends and the edge, a score per head."""

    def __init__(self):
        super().__init__(aggr="add")
        self.score1, self.score2, self.value = nn.Linear(24 + EDGES, H), nn.Linear(H, HEADS), nn.Linear(12, 6)

    def message(self, x_i, x_j, edge_attr, index, ptr, size_i):
        score = self.score2(torch.tanh(self.score1(torch.cat([x_i, x_j, edge_attr], -1))))
        weight = softmax(score, index, ptr, size_i)
        return self.value(x_j) * weight.repeat_interleave(3, dim=-1)


class Interaction(Messages):
    """A network of both ends and the edge, summed or averaged (interaction networks: Battaglia et al. 2016)."""

    def __init__(self, aggr):
        super().__init__(aggr=aggr)
        self.edge1, self.edge2 = nn.Linear(24 + EDGES, H), nn.Linear(H, 7)

    def message(self, x_i, x_j, edge_attr):
        return self.edge2(torch.relu(self.edge1(torch.cat([x_i, x_j, edge_attr], -1))))


class OutDegrees(Messages):
    """A random walk's share of each source, and numbers of out-edges at both ends and of the node."""

    def __init__(self):
        super().__init__(aggr="add")
        self.lin = nn.Linear(12, H)

    def forward(self, x, edge_index, data):
        self.out = degree(edge_index[0], x.shape[0], dtype=x.dtype)[:, None]
        return super().forward(x, edge_index, data)

    def message(self, x_j, edge_index_i, edge_index_j):
        return self.lin(x_j) * torch.sqrt(self.out[edge_index_i] + 1) / self.out[edge_index_j].clamp(min=1)

    def finish(self, x, aggregated, edge_index):
        return aggregated * torch.log(self.out + 1)


class OfLibrary(nn.Module):
    """A convolution of PyTorch Geometric, called with what it takes of an edge."""

    def __init__(self, conv, takes=None, inputs=1):
        super().__init__()
        self.conv, self.takes, self.inputs = conv, takes, inputs

    def forward(self, *arguments):
        inputs, edge_index, data = arguments[: self.inputs], arguments[self.inputs], arguments[self.inputs + 1]
        return self.conv(*inputs, edge_index, *([data[self.takes]] if self.takes else []))


def mlp(*widths):
    layers = []
    for i, (before, after) in enumerate(zip(widths, widths[1:])):
        layers += [nn.ReLU()] if i > 0 else []
        layers.append(nn.Linear(before, after))
    return nn.Sequential(*layers)


INTERACTION = {"edge_dim": EDGES, "message": "linear(relu(linear(cat(x_i, x_j, edge_attr), edge1)), edge2)"}

# name: arguments of the layer, more of its declaration, the module, its inputs, and the width of what it gives.
MESSAGES = {
    "egnn": ({
        "edge_dim": EDGES,
        "message": [
            "away = x_i[9:12] - x_j[9:12];",
            "m = silu(linear(silu(linear(cat(x_i[0:9], x_j[0:9], sum(square(away)), edge_attr), edge1)), edge2));",
            "cat(m, away * linear(silu(linear(m, coord1)), coord2))"],
        "aggr": "sum",
        "update": [
            "h = x[0:9];",
            "cat(h + linear(silu(linear(cat(h, aggr[0:8]), node1)), node2), x[9:12] + aggr[8:11] / max(degree, 1))"],
    }, {}, Egnn, 12),
    "schnet": ({
        "edge_dim": EDGES,
        "message": [
            "rbf = exp(-2 * square(abs(edge_attr[0:1]) - offset));",
            "filter = linear(softplus(linear(rbf, filter1)) - 0.6931471805599453, filter2);",
            "linear(x_j, lin1) * filter"],
        "update": "linear(aggr, lin2)",
    }, {}, SchNet, 5),
    "gatedgcn": ({
        "edge_dim": EDGES,
        "message": [
            "gate = sigmoid(linear(x_i, a) + linear(x_j, b) + linear(edge_attr, c));",
            "cat(gate * linear(x_j, v), gate)"],
        "update": "linear(x, u) + aggr[:8] / (aggr[8:] + 1e-6)",
    }, {}, GatedGcn, H),
    "edgegate": ({
        "edge_dim": EDGES,
        "message": "sigmoid(linear(cat(x_i, x_j, edge_attr), gate)) * linear(x_j, value)",
        "aggr": "mean",
    }, {}, EdgeGate, H),
    "pna": ({
        "edge_dim": EDGES,
        "message": "linear(cat(x_i, x_j, edge_attr), pre)",
        "aggr": ["mean", "min", "max", "std"],
        "update": [
            "more = log(degree + 1) / 1.5;",
            "less = 1.5 / log(max(degree, 1) + 1);",
            "linear(cat(x, aggr, aggr * more, aggr * less), post)"],
    }, {}, Pna, 6),
    "moments": ({
        "message": "linear(tanh(linear(cat(x_i, x_j), lin1)), lin2)",
        "aggr": ["sum", "var", "softmax", "min"],
    }, {}, Moments, 72),
    "edgeconv": ({
        "message": "linear(relu(linear(cat(x_i, x_j - x_i), conv.nn.0)), conv.nn.2)",
        "aggr": "max",
    }, {}, lambda: OfLibrary(pyg.EdgeConv(mlp(24, 20, 7))), 7),
    "gine": ({
        "edge_dim": EDGES,
        "message": "relu(x_j + linear(edge_attr, conv.lin))",
        "update": "linear(relu(linear(x * (1 + conv.eps) + aggr, conv.nn.0)), conv.nn.2)",
    }, {}, lambda: OfLibrary(pyg.GINEConv(mlp(12, 9, 6), train_eps=True, edge_dim=EDGES), "edge_attr"), 6),
    "gatv2": ({
        "edge_dim": EDGES, "self_loops": "replace", "fill_value": "mean",
        "message": "linear(x_j, conv.lin_l)",
        "score": "dot(leaky_relu(linear(x_j, conv.lin_l) + linear(x_i, conv.lin_r) + linear(edge_attr, conv.lin_edge), 0.2),"
                 " conv.att, 3)",
        "aggr": "softmax",
        "update": "aggr + conv.bias",
    }, {}, lambda: OfLibrary(pyg.GATv2Conv(12, 5, heads=3, edge_dim=EDGES), "edge_attr"), 15),
    "supergat": ({
        "self_loops": "replace",
        "message": [
            "h_i = linear(x_i, conv.lin); h_j = linear(x_j, conv.lin);",
            "h_j"],
        "score": "leaky_relu((dot(h_j, conv.att_l, 2) + dot(h_i, conv.att_r, 2)) * sigmoid(dot(h_i, h_j, 2)), 0.2)",
        "aggr": "softmax",
        "update": "aggr + conv.bias",
    }, {}, lambda: OfLibrary(pyg.SuperGATConv(12, 5, heads=2, attention_type="MX")), 10),
    "faconv": ({
        "self_loops": "add_remaining", "normalize": True,
        "message": "tanh(linear(x_j, conv.att_l) + linear(x_i, conv.att_r)) * edge_weight * x_j",
        "update": "aggr + 0.3 * x1",
    }, {"inputs": ["first", "x"]}, lambda: OfLibrary(pyg.FAConv(12, eps=0.3), inputs=2), 12),
    "leconv": ({
        "message": "edge_weight * (linear(x_j, conv.lin1) - linear(x_i, conv.lin2))",
        "update": "aggr + linear(x, conv.lin3)",
    }, {"edge_weight": True}, lambda: OfLibrary(pyg.LEConv(12, 7), "edge_weight"), 7),
    "pointnet": ({
        "self_loops": "replace",
        "message": "linear(relu(linear(cat(x_j[0:9], x_j[9:12] - x_i[9:12]), local1)), local2)",
        "aggr": "max",
        "update": "relu(linear(aggr, world))",
    }, {}, PointNet, 5),
    "interaction": (INTERACTION, {}, lambda: Interaction("add"), 7),
    "interaction-mean": ({**INTERACTION, "aggr": "mean"}, {}, lambda: Interaction("mean"), 7),
    "outdegrees": ({
        "message": "linear(x_j, lin) * sqrt(out_degree_i + 1) / max(out_degree_j, 1)",
        "update": "aggr * log(out_degree + 1)",
    }, {}, OutDegrees, H),
    "agnn": ({
        "self_loops": "replace",
        "message": "x_j",
        "score": ["to = x_i * rsqrt(max(sum(square(x_i)), 1e-24)); from = x_j * rsqrt(max(sum(square(x_j)), 1e-24));",
                  "conv.beta * dot(to, from)"],
        "aggr": "softmax",
    }, {}, lambda: OfLibrary(pyg.AGNNConv()), 12),
    "feast": ({
        "self_loops": "replace",
        "message": ["q = exp(linear(x_j - x_i, conv.u) + conv.c);",
                    "h = linear(x_j, conv.lin) * repeat(q / sum(q), 5);",
                    "h[0:5] + h[5:10] + h[10:15]"],
        "aggr": "mean",
        "update": "aggr + conv.bias",
    }, {}, lambda: OfLibrary(pyg.FeaStConv(12, 5, heads=3)), 5),
    "simple": ({
        "message": "edge_weight * x_j",
        "aggr": "mean",
        "update": "cat(x, aggr)",
    }, {"edge_weight": True}, lambda: OfLibrary(pyg.SimpleConv(aggr="mean", combine_root="cat"), "edge_weight"), 24),
    "wlcontinuous": ({
        "message": "cat(edge_weight * x_j, edge_weight)",
        "update": "0.5 * (x + aggr[0:12] / max(aggr[12:13], 1e-12))",
    }, {"edge_weight": True}, lambda: OfLibrary(pyg.WLConvContinuous(), "edge_weight"), 12),
    "general": ({
        "edge_dim": EDGES,
        "message": ["m = linear(x_j, conv.lin_msg) + linear(x_i, conv.lin_msg_i) + linear(edge_attr, conv.lin_edge);",
                    "m"],
        "score": "leaky_relu(dot(m, conv.att_msg, 3), 0.2)",
        "aggr": "softmax",
        "update": ["out = (aggr[0:5] + aggr[5:10] + aggr[10:15]) / 3 + linear(x, conv.lin_self);",
                   "out * rsqrt(max(sum(square(out)), 1e-24))"],
    }, {}, lambda: OfLibrary(pyg.GeneralConv(12, 5, in_edge_channels=EDGES, directed_msg=False, heads=3, attention=True,
                                             l2_normalize=True), "edge_attr"), 5),
    "eg": ({
        "message": "linear(x_j, conv.bases_lin)",
        "aggr": ["sum", "max", "var"],
        "update": ["w = linear(x, conv.comb_lin);",
                   "cat(" + ", ".join(" + ".join(f"w[{6 * head + k}:{6 * head + k + 1}] * aggr[{4 * k}:{4 * k + 4}]"
                                                 for k in range(6)) for head in range(2)) + ") + conv.bias"],
    }, {}, lambda: OfLibrary(pyg.EGConv(12, 8, aggregators=["sum", "max", "var"], num_heads=2, num_bases=2,
                                        add_self_loops=False)), 8),
    "eg-symnorm": ({
        "self_loops": "add_remaining", "normalize": True,
        "message": "edge_weight * linear(x_j, conv.bases_lin)",
        "update": ["w = linear(x, conv.comb_lin);",
                   "cat(w[0:1] * aggr[0:3] + w[1:2] * aggr[3:6], w[2:3] * aggr[0:3] + w[3:4] * aggr[3:6]) + conv.bias"],
    }, {}, lambda: OfLibrary(pyg.EGConv(12, 6, num_heads=2, num_bases=2)), 6),
    "film": ({
        "message": ["f = linear(x_i, conv.films.0);",
                    "relu(f[7:14] * linear(x_j, conv.lins.0) + f[0:7])"],
        "aggr": "mean",
        "update": ["s = linear(x, conv.film_skip);",
                   "relu(s[7:14] * linear(x, conv.lin_skip) + s[0:7]) + aggr"],
    }, {}, lambda: OfLibrary(pyg.FiLMConv(12, 7)), 7),
    "pointnetconv": ({
        "self_loops": "replace",
        "message": "linear(relu(linear(cat(x_j, x1_j - x1_i), conv.local_nn.0)), conv.local_nn.2)",
        "aggr": "max",
        "update": "linear(aggr, conv.global_nn.0)",
    }, {"inputs": ["first", "x"]}, lambda: OfLibrary(pyg.PointNetConv(mlp(24, 9, 8), mlp(8, 6)), inputs=2), 6),
    "pointtransformer": ({
        "self_loops": "replace",
        "message": ["delta = linear(relu(linear(x1_i - x1_j, conv.pos_nn.0)), conv.pos_nn.2);",
                    "linear(x_j, conv.lin) + delta"],
        "score": "linear(linear(x_i, conv.lin_dst) - linear(x_j, conv.lin_src) + delta, conv.attn_nn)",
        "aggr": "softmax",
    }, {"inputs": ["first", "x"]}, lambda: OfLibrary(pyg.PointTransformerConv(12, 7, mlp(12, 9, 7), nn.Linear(7, 7)), inputs=2), 7),
    "pointgnn": ({
        "message": ["e = cat(x1_j - x1_i + linear(x_i, conv.mlp_h.0), x_j);",
                    "linear(relu(linear(e, conv.mlp_f.0)), conv.mlp_f.2)"],
        "aggr": "max",
        "update": "x + linear(aggr, conv.mlp_g.0)",
    }, {"inputs": ["first", "x"]}, lambda: OfLibrary(pyg.PointGNNConv(mlp(12, 12), mlp(24, 10, 9), mlp(9, 12)), inputs=2), 12),
    "headscores": ({
        "edge_dim": EDGES,
        "message": "linear(x_j, value)",
        "score": "linear(tanh(linear(cat(x_i, x_j, edge_attr), score1)), score2)",
        "aggr": "softmax",
    }, {}, HeadScores, 6),
}


def declarations():
    """A model per message function: the layer between two products."""
    models = {}
    for name, (arguments, more, _, _) in MESSAGES.items():
        layers = [{"name": "first", "type": "Linear", "args": {"out_channels": 12}},
                  {"name": name, "type": "MessagePassing", "args": arguments, **more},
                  {"name": "last", "type": "Linear", "args": {"out_channels": 5}}]
        models[f"message-{name}"] = {"format": "vicinal.model/1", "in_channels": 12, "layers": layers}
    return models
