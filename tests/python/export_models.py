# SPDX-License-Identifier: Apache-2.0
"""Modules as people write them, for export_test.py: the habits of the examples and repositories around PyTorch Geometric."""

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_add_pool


class PlanetoidGCN(nn.Module):
    """forward(data), dropout as a function, log_softmax at the end."""

    def __init__(self, features, classes):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, 16), GCNConv(16, classes)

    def logits(self, x, edge_index):
        x = F.dropout(F.relu(self.conv1(x, edge_index)), p=0.5, training=self.training)
        return self.conv2(x, edge_index)

    def forward(self, data):
        return F.log_softmax(self.logits(data.x, data.edge_index), dim=1)


class PlainSAGE(nn.Module):
    """A loop over a ModuleList that knows its last layer."""

    def __init__(self, features, classes):
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(features, 16), SAGEConv(16, 16, aggr="max"), SAGEConv(16, classes, normalize=True)])

    def forward(self, x, edge_index):
        for i, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            if i != len(self.convs) - 1:
                x = x.relu_()
                x = F.dropout(x, p=0.5, training=self.training)
        return x


class TwoHeadedGAT(nn.Module):
    """GAT's paper: dropout of the input, concatenated heads, one averaged layer."""

    def __init__(self, features, classes):
        super().__init__()
        self.conv1 = GATConv(features, 8, heads=4, dropout=0.6)
        self.conv2 = GATConv(32, classes, heads=2, concat=False, dropout=0.6, residual=True)

    def forward(self, x, edge_index):
        x = F.dropout(x, p=0.6, training=self.training)
        x = F.elu(self.conv1(x, edge_index))
        return self.conv2(F.dropout(x, p=0.6, training=self.training), edge_index)


class OwnMessages(pyg.MessagePassing):
    """A message function of its own, and what it computes as an expression."""

    vicinal_message = {"edge_dim": 5, "aggr": "mean", "update": "relu(aggr)",
                       "message": "sigmoid(linear(cat(x_i, x_j, edge_attr), gate)) * linear(x_j, value)"}

    def __init__(self, features, out):
        super().__init__(aggr="mean")
        self.gate, self.value = nn.Linear(2 * features + 5, 1), nn.Linear(features, out)

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, x=x, edge_attr=edge_attr).relu()

    def message(self, x_i, x_j, edge_attr):
        return torch.sigmoid(self.gate(torch.cat([x_i, x_j, edge_attr], dim=-1))) * self.value(x_j)


class OwnPairs(pyg.MessagePassing):
    """Two inputs, the module's own aggregation, and tensors that no expression names: a head of training, a statistic."""

    vicinal_message = {"message": ["a = linear(x_i, query);  # a comment names head", "sigmoid(a) * tanh(x1_j)"], "update": "aggr + x1 * scale"}

    def __init__(self, features, out):
        super().__init__(aggr="max")
        self.query, self.scale = nn.Linear(features, out), nn.Parameter(torch.ones(out))
        self.head = nn.Linear(out, 3)
        self.register_buffer("seen", torch.ones(2))

    def forward(self, x, edge_index, h):
        return self.propagate(edge_index, x=x, h=h) + h * self.scale

    def message(self, x_i, h_j):
        return torch.sigmoid(self.query(x_i)) * torch.tanh(h_j)


class OwnTuples(OwnPairs):
    """The same, called with a tuple."""

    def forward(self, pair, edge_index):
        return OwnPairs.forward(self, pair[0], edge_index, pair[1])


class OwnSeveralInputs(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.own, self.tuples, self.lin = OwnPairs(features, 8), OwnTuples(8, 8), nn.Linear(features, 8)
        self.out = nn.Linear(8, classes)

    def forward(self, x, edge_index):
        h = self.lin(x)
        return self.out(self.tuples((self.own(x, edge_index, h), h), edge_index))


class Encoding(nn.Module):
    """A link predictor as the examples have it: encode and decode, without forward."""

    def __init__(self, features, out):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, 8), GCNConv(8, out)

    def encode(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)

    def decode(self, z, edge_label_index):
        return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1)


class OwnMessagesNet(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.own, self.lin = OwnMessages(features, 8), nn.Linear(8, classes)

    def forward(self, x, edge_index, edge_attr):
        return self.lin(self.own(x, edge_index, edge_attr))


class ArxivGCN(nn.Module):
    """The shape of OGB's examples: BatchNorm between convolutions."""

    def __init__(self, features, classes):
        super().__init__()
        self.convs = nn.ModuleList([GCNConv(features, 24, cached=False), GCNConv(24, 24), GCNConv(24, classes)])
        self.bns = nn.ModuleList([nn.BatchNorm1d(24), nn.BatchNorm1d(24)])

    def forward(self, x, edge_index):
        for conv, bn in zip(self.convs[:-1], self.bns):
            x = F.dropout(F.relu(bn(conv(x, edge_index))), p=0.5, training=self.training)
        return self.convs[-1](x, edge_index)


class Residual(nn.Module):
    """Blocks with a residual sum and torch.nn.LayerNorm."""

    def __init__(self, features, classes):
        super().__init__()
        self.lin = nn.Linear(features, 16)
        self.blocks = nn.ModuleList([Block(16) for _ in range(3)])
        self.head = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, classes))

    def forward(self, x, edge_index):
        x = self.lin(x)
        for block in self.blocks:
            x = block(x, edge_index)
        return self.head(x)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(width), SAGEConv(width, width)

    def forward(self, h, edge_index):
        return h + torch.relu(self.conv(self.norm(h), edge_index))


class Jumping(nn.Module):
    """JumpingKnowledge over all layers, then an MLP of PyTorch Geometric."""

    def __init__(self, features, classes):
        super().__init__()
        self.convs = nn.ModuleList([GCNConv(features, 8), GCNConv(8, 8), GCNConv(8, 8)])
        self.jump = pyg.JumpingKnowledge("cat")
        self.mlp = pyg.MLP([24, 16, classes], norm="batch_norm", act="relu")

    def forward(self, x, edge_index):
        xs = []
        for conv in self.convs:
            x = F.leaky_relu(conv(x, edge_index), negative_slope=0.1)
            xs += [x]
        return self.mlp(self.jump(xs))


class Concatenating(nn.Module):
    """torch.cat of a local and a structural branch; the input is one of the parts."""

    def __init__(self, features, classes):
        super().__init__()
        self.local, self.near = nn.Linear(features, 8), pyg.GraphConv(features, 8)
        self.far, self.out = pyg.SGConv(features, 8, K=2), nn.Linear(24 + features, classes)

    def forward(self, x, edge_index):
        parts = [torch.tanh(self.local(x)), F.relu(self.near(x, edge_index)), self.far(x, edge_index), x]
        return self.out(torch.cat(parts, dim=1))


class Appnp(nn.Module):
    """Predict, then propagate."""

    def __init__(self, features, classes):
        super().__init__()
        self.lin1, self.lin2, self.prop = nn.Linear(features, 32), nn.Linear(32, classes), pyg.APPNP(K=10, alpha=0.1)

    def forward(self, x, edge_index):
        x = F.dropout(x, training=self.training)
        x = self.lin2(F.dropout(self.lin1(x).relu(), training=self.training))
        return self.prop(x, edge_index)


class GINWithSkip(nn.Module):
    """GIN layers whose networks are Sequential, nested, and a skip by torch.add."""

    def __init__(self, features, classes):
        super().__init__()
        self.conv1 = GINConv(nn.Sequential(nn.Linear(features, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU()), train_eps=True)
        self.conv2 = GINConv(nn.Sequential(nn.Sequential(nn.Linear(16, 16), nn.ELU(0.5)), nn.Linear(16, 16)))
        self.skip, self.lin = nn.Linear(features, 16, bias=False), nn.Linear(16, classes)

    def forward(self, x, edge_index):
        h = self.conv2(self.conv1(x, edge_index), edge_index)
        return self.lin(torch.add(h, self.skip(x)))


class Transformer(nn.Module):
    """TransformerConv with a gate, EdgeConv, and one activation module used twice."""

    def __init__(self, features, classes):
        super().__init__()
        self.act = nn.LeakyReLU(0.2)
        self.attention = pyg.TransformerConv(features, 8, heads=2, beta=True)
        self.edges = pyg.EdgeConv(nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 16)), aggr="mean")
        self.v2, self.norm = pyg.GATv2Conv(16, classes, share_weights=True), pyg.LayerNorm(16, mode="node")

    def forward(self, x, edge_index):
        x = self.act(self.attention(x, edge_index))
        x = self.norm(self.act(self.edges(x, edge_index)))
        return self.v2(F.normalize(x, p=2, dim=-1), edge_index)


class Shared(nn.Module):
    """One convolution applied twice, inside a ready-made class's company; the maximum of two branches."""

    def __init__(self, features, classes):
        super().__init__()
        self.gnn, self.step, self.out = pyg.GraphSAGE(features, 8, 2), GCNConv(8, 8), nn.Linear(8, classes)

    def forward(self, x, edge_index):
        a = self.gnn(x, edge_index)
        b = self.step(F.relu(self.step(a, edge_index)), edge_index)
        return self.out(torch.max(a, b))


class WeightedGraphConv(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.conv1, self.conv2 = pyg.GraphConv(features, 16), GCNConv(16, classes)

    def forward(self, x, edge_index, edge_weight=None):
        return self.conv2(self.conv1(x, edge_index, edge_weight).relu(), edge_index, edge_weight=edge_weight)


class WeightedInitial(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.first = pyg.GCN2Conv(features, alpha=0.3, theta=0.5, layer=2)
        self.second = pyg.ARMAConv(features, classes, shared_weights=True, num_layers=3)

    def forward(self, x, edge_index, edge_weight):
        return self.second(self.first(x, x, edge_index, edge_weight), edge_index, edge_weight)


class EdgeFeatures(nn.Module):
    """Every layer that reads features of edges, and one that does not."""

    def __init__(self, features, classes, edge_features):
        super().__init__()
        self.gine = pyg.GINEConv(nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, 16)), edge_dim=edge_features, train_eps=True)
        self.gat = pyg.GATConv(16, 8, heads=2, edge_dim=edge_features)
        self.v2 = pyg.GATv2Conv(16, 8, heads=2, edge_dim=edge_features, fill_value=0.5)
        self.attention = pyg.TransformerConv(16, 8, heads=2, edge_dim=edge_features, beta=True)
        self.last = SAGEConv(16, classes)

    def forward(self, x, edge_index, edge_attr):
        x = self.gine(x, edge_index, edge_attr).relu()
        x = F.elu(self.gat(x, edge_index, edge_attr=edge_attr))
        x = F.elu(self.v2(x, edge_index, edge_attr))
        return self.last(self.attention(x, edge_index, edge_attr).relu(), edge_index)


class EdgeMessages(nn.Module):
    """Every layer whose messages are functions of both ends and of the edge's features, and the same without features."""

    def __init__(self, features, classes, edge_features):
        super().__init__()
        self.crystal, self.plain_crystal = pyg.CGConv(features, dim=edge_features, batch_norm=True), pyg.CGConv(features, bias=False)
        self.gated = pyg.ResGatedGraphConv(features, 12, edge_dim=edge_features, act=nn.Tanh())
        self.plain_gated = pyg.ResGatedGraphConv(12, 10, root_weight=False, aggr="mean")
        self.gen = pyg.GENConv(10, 12, edge_dim=edge_features, learn_t=True, msg_norm=False, norm="layer")
        self.same_gen = pyg.GENConv(12, edge_features, aggr="powermean", num_layers=1)
        self.plain_gen = pyg.GENConv(edge_features, 8, aggr="max", edge_dim=edge_features + 3, expansion=3, bias=True)
        self.gmm = pyg.GMMConv(8, 9, dim=edge_features, kernel_size=3)
        self.conditioned = pyg.NNConv(9, 8, nn.Sequential(nn.Linear(edge_features, 7), nn.ReLU(), nn.Linear(7, 72)), aggr="mean")
        self.last = pyg.NNConv(8, classes, nn.Linear(edge_features, 8 * classes), root_weight=False)

    def forward(self, x, edge_index, edge_attr):
        x = self.plain_crystal(self.crystal(x, edge_index, edge_attr).relu(), edge_index)
        x = self.plain_gated(self.gated(x, edge_index, edge_attr), edge_index).relu()
        x = self.same_gen(self.gen(x, edge_index, edge_attr).relu(), edge_index, edge_attr)
        x = self.gmm(self.plain_gen(x, edge_index).relu(), edge_index, edge_attr)
        return self.last(self.conditioned(x, edge_index, edge_attr).relu(), edge_index, edge_attr)


class UnsupportedMessages(nn.Module):
    """What is refused: powers of a mean, a Gaussian per pair of channels, widths of both ends."""

    def __init__(self, features, classes, edge_features):
        super().__init__()
        self.power = pyg.GENConv(features, 8, aggr="powermean", p=2.0)
        self.separate = pyg.GMMConv(8, 8, dim=edge_features, kernel_size=2, separate_gaussians=True)
        self.pair = pyg.CGConv((8, 6), dim=edge_features)
        self.last = nn.Linear(8, classes)

    def forward(self, x, edge_index, edge_attr):
        x = self.separate(self.power(x, edge_index), edge_index, edge_attr)
        return self.last(self.pair(x, edge_index, edge_attr))


class WithoutTheirFeatures(nn.Module):
    """What is refused: features left out, taken by a layer that has no use for them, a loop's features of a kind without counterpart."""

    def __init__(self, features, classes, edge_features):
        super().__init__()
        self.left_out, self.unused = pyg.GATConv(features, 8, edge_dim=edge_features), GCNConv(8, 8)
        self.largest = pyg.GATv2Conv(8, classes, edge_dim=edge_features, fill_value="max")

    def forward(self, x, edge_index, edge_attr):
        x = self.unused(self.left_out(x, edge_index), edge_index, edge_attr)
        return self.largest(x, edge_index, edge_attr)


class GraphGIN(nn.Module):
    """Graph classification: two pools concatenated."""

    def __init__(self, features, classes):
        super().__init__()
        self.conv1 = GINConv(nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, 16)))
        self.conv2, self.lin = GCNConv(16, 16), nn.Linear(32, classes)

    def forward(self, x, edge_index, batch):
        x = self.conv2(self.conv1(x, edge_index).relu(), edge_index)
        return self.lin(torch.cat([global_add_pool(x, batch), pyg.global_mean_pool(x, batch)], dim=-1))


class Propagating(nn.Module):
    """Convolutions that repeat a sum over neighbours, with norms over the whole graph and activations as functions and as modules."""

    def __init__(self, features, classes):
        super().__init__()
        self.tag, self.ssg, self.cheb = pyg.TAGConv(features, 16, K=2), pyg.SSGConv(16, 16, alpha=0.1, K=2), pyg.ChebConv(16, 16, K=3)
        self.cluster, self.gated, self.lg = pyg.ClusterGCNConv(16, 16, diag_lambda=0.5), pyg.GatedGraphConv(16, 2), pyg.LGConv()
        self.norm1, self.norm2, self.norm3 = pyg.GraphNorm(16), pyg.PairNorm(scale=2.0), pyg.InstanceNorm(16, affine=True)
        self.prelu, self.mish, self.head = nn.PReLU(16), nn.Mish(), nn.Linear(16, classes)

    def forward(self, x, edge_index):
        x = F.gelu(self.norm1(self.tag(x, edge_index)), approximate="tanh")
        x = self.prelu(self.norm2(self.ssg(x, edge_index)))
        x = F.silu(self.norm3(self.cheb(x, edge_index)))
        x = self.mish(self.cluster(x, edge_index))
        x = F.softplus(self.gated(x, edge_index), beta=2)
        return self.head(F.hardtanh(self.lg(x, edge_index), -2.0, 2.0))


class Initial(nn.Module):
    """GCN2Conv mixes the first layer's output in; ARMAConv's stacks, with an activation of its own."""

    def __init__(self, features, classes):
        super().__init__()
        self.first, self.alpha = nn.Linear(features, 16), nn.Parameter(torch.tensor(0.75))
        self.convs = nn.ModuleList([pyg.GCN2Conv(16, alpha=0.1, theta=0.5, layer=i + 1, shared_weights=i == 0) for i in range(2)])
        self.plain = pyg.GCN2Conv(16, alpha=0.2, normalize=False)
        self.arma = pyg.ARMAConv(16, classes, num_stacks=2, num_layers=2, act=nn.LeakyReLU(0.1), dropout=0.25)

    def forward(self, x, edge_index):
        x = x_0 = self.first(F.dropout(x, training=self.training)).relu()
        for conv in self.convs:
            x = conv(x, x_0, edge_index).relu()
        x = self.alpha * x + (1 - 0.25) * self.plain(x, x_0, edge_index)
        return self.arma(x, edge_index)


class Gated(nn.Module):
    """Several aggregations side by side, a learnt gate as a product, differences, a softmax inside."""

    def __init__(self, features, classes):
        super().__init__()
        self.many = SAGEConv(features, 16, aggr=["mean", "max", "std", "min"])
        self.deviation, self.gate = SAGEConv(16, 16, aggr="std"), nn.Sequential(nn.Linear(16, 32), nn.GLU())
        self.norm, self.message, self.groups = nn.RMSNorm(16), pyg.MessageNorm(learn_scale=True), pyg.DiffGroupNorm(16, groups=3)
        self.soft, self.out = nn.Softmax(dim=-1), nn.Linear(16, classes)

    def forward(self, x, edge_index):
        h = self.many(x, edge_index).relu()
        g = torch.sigmoid(self.gate(h))
        h = g * self.deviation(h, edge_index) + (h - h * g) / 2
        h = self.message(h, self.norm(h))
        h = self.groups(torch.sub(h, self.soft(h), alpha=0.5))
        return self.out(h * F.softmax(-h, dim=-1))


class JumpingLstm(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.convs = nn.ModuleList([GCNConv(features, 8), GCNConv(8, 8), GCNConv(8, 8)])
        self.jump, self.lin = pyg.JumpingKnowledge("lstm", channels=8, num_layers=3), nn.Linear(8, classes)

    def forward(self, x, edge_index):
        xs = []
        for conv in self.convs:
            x = conv(x, edge_index).relu()
            xs.append(x)
        return self.lin(self.jump(xs) + sum(xs))


class GraphAttention(nn.Module):
    """Readouts that weigh nodes: with scores of an MLP, of one layer, and of the features."""

    def __init__(self, features, classes):
        super().__init__()
        self.conv = GCNConv(features, 16)
        self.by_mlp = pyg.aggr.AttentionalAggregation(pyg.MLP([16, 8, 1], norm=None), nn.Sequential(nn.Linear(16, 16), nn.Tanh()))
        self.by_layer = pyg.aggr.AttentionalAggregation(nn.Linear(16, 16), pyg.MLP([16, 16], norm=None))
        self.fixed, self.learnt = pyg.aggr.SoftmaxAggregation(t=0.5), pyg.aggr.SoftmaxAggregation(learn=True, channels=16)
        self.lin = nn.Linear(64, classes)

    def forward(self, x, edge_index, batch):
        x = self.conv(x, edge_index).relu()
        return self.lin(torch.cat([self.by_mlp(x, batch), self.by_layer(x, index=batch), self.fixed(x, batch), self.learnt(x, batch)], dim=-1))


class Directed(nn.Module):
    """Convolutions over in-edges and out-edges, with roots and loops of the wrapped ones that have no effect."""

    def __init__(self, features, classes):
        super().__init__()
        self.sage, self.gcn = pyg.DirGNNConv(SAGEConv(features, 16), alpha=0.3), pyg.DirGNNConv(GCNConv(16, 12, cached=True))
        self.gat = pyg.DirGNNConv(GATConv(12, 8), root_weight=False)
        self.attention = pyg.DirGNNConv(pyg.TransformerConv(8, classes, beta=True))

    def forward(self, x, edge_index):
        x = self.gcn(self.sage(x, edge_index).relu(), edge_index).relu()
        return self.attention(F.elu(self.gat(x, edge_index)), edge_index)


class Frequencies(nn.Module):
    """SuperGATConv in both kinds, and FAConv, which mixes the first rows in."""

    def __init__(self, features, classes):
        super().__init__()
        self.mixed, self.scaled = pyg.SuperGATConv(features, 8, heads=2, dropout=0.5), pyg.SuperGATConv(16, 12, heads=3, concat=False, attention_type="SD")
        self.frequencies = nn.ModuleList([pyg.FAConv(12, eps=0.2, cached=True), pyg.FAConv(12, add_self_loops=False)])
        self.out = nn.Linear(12, classes)

    def forward(self, x, edge_index):
        x = x_0 = self.scaled(F.elu(self.mixed(x, edge_index)), edge_index)
        for conv in self.frequencies:
            x = conv(x, x_0, edge_index)
        return self.out(x)


class DeepBlocks(nn.Module):
    """DeepGCNLayer in all kinds of blocks."""

    def __init__(self, features, classes):
        super().__init__()
        self.first = nn.Linear(features, 8)
        self.blocks = nn.ModuleList([
            pyg.DeepGCNLayer(pyg.GENConv(8, 8), pyg.BatchNorm(8), nn.ReLU(inplace=True), block="res+", dropout=0.1, ckpt_grad=True),
            pyg.DeepGCNLayer(SAGEConv(8, 8), pyg.LayerNorm(8, mode="node"), nn.ReLU(), block="res"),
            pyg.DeepGCNLayer(GCNConv(8, 8), nn.BatchNorm1d(8), nn.ELU(), block="dense", dropout=0.2),
            pyg.DeepGCNLayer(GCNConv(16, 8), None, nn.ReLU(), block="plain")])
        self.out = nn.Linear(8, classes)

    def forward(self, x, edge_index):
        x = self.first(x)
        for block in self.blocks:
            x = block(x, edge_index)
        return self.out(x)


class DegreeScaled(nn.Module):
    """PNAConv with towers and features of edges, and without."""

    def __init__(self, features, classes, edge_features):
        super().__init__()
        deg = torch.tensor([2, 9, 30, 11, 4])
        self.first = pyg.PNAConv(features, 12, ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"], deg, edge_dim=edge_features,
                                 towers=4, pre_layers=2, post_layers=2, act=nn.LeakyReLU(0.2))
        self.second = pyg.PNAConv(12, 8, ["sum", "var"], ["linear", "inverse_linear"], deg, towers=2, divide_input=True, train_norm=True)
        self.ready = pyg.PNA(8, 8, 2, classes, aggregators=["mean", "max"], scalers=["identity", "attenuation"], deg=deg, edge_dim=edge_features)

    def forward(self, x, edge_index, edge_attr):
        x = self.second(self.first(x, edge_index, edge_attr).relu(), edge_index).relu()
        return self.ready(x, edge_index, edge_attr=edge_attr)


class SeveralReadouts(nn.Module):
    """Readouts side by side, with and without weights."""

    def __init__(self, features, classes):
        super().__init__()
        self.conv = GCNConv(features, 8)
        self.several = pyg.aggr.MultiAggregation(["mean", "std", pyg.aggr.SoftmaxAggregation(learn=True), pyg.aggr.AttentionalAggregation(nn.Linear(8, 1))])
        self.spread, self.middle, self.top = pyg.aggr.VarAggregation(), pyg.aggr.MedianAggregation(), pyg.aggr.SortAggregation(k=12)
        self.lin = nn.Linear(40 + 8 + 96, classes)

    def forward(self, x, edge_index, batch):
        x = self.conv(x, edge_index).tanh()
        return self.lin(torch.cat([self.several(x, batch), self.spread(x, batch), self.middle(x, batch), self.top(x, batch)], dim=-1))


class Unsupported(nn.Module):
    """Five things that the server has no layer for."""

    def __init__(self, features, classes):
        super().__init__()
        self.embedding = nn.Embedding(10, features)
        self.conv1, self.conv2 = pyg.FeaStConv(features, 8), SAGEConv(8, classes, aggr="median")

    def forward(self, x, edge_index):
        x = self.embedding(x)
        x = self.conv1(x, edge_index)
        x = torch.sin(x)  # sin here
        return self.conv2(x % 2, edge_index)


class Deciding(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.conv = GCNConv(features, classes)

    def forward(self, x, edge_index):
        if x.sum() > 0:
            return self.conv(x, edge_index)
        return x


NODE_MODELS = [PlainSAGE, TwoHeadedGAT, ArxivGCN, Residual, Jumping, Concatenating, Appnp, GINWithSkip, Transformer, Shared, Propagating,
               Initial, Gated, JumpingLstm, Directed, Frequencies, DeepBlocks]
