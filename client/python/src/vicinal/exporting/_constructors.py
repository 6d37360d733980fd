# SPDX-License-Identifier: Apache-2.0
"""Which arguments of each class's constructor an export reads or checks, and which have no effect on answers. What is in neither list is
refused by name unless the module shows that it has its default: a later PyTorch Geometric may know arguments that this package does not."""

from __future__ import annotations

import inspect
from typing import Any

from vicinal.exporting._result import Unsupported

# Of PyTorch Geometric. MessagePassing's own arguments (aggr, aggr_kwargs, flow, node_dim) are checked for all convolutions.
READ: dict[str, str] = {
    "GCNConv": "in_channels out_channels improved add_self_loops normalize bias",
    "SAGEConv": "in_channels out_channels aggr normalize root_weight project bias",
    "GraphConv": "in_channels out_channels aggr bias",
    "GINConv": "nn eps train_eps",
    "GINEConv": "nn eps train_eps edge_dim",
    "GATConv": "in_channels out_channels heads concat negative_slope add_self_loops edge_dim fill_value bias residual",
    "GATv2Conv": "in_channels out_channels heads concat negative_slope add_self_loops edge_dim fill_value bias share_weights residual",
    "TransformerConv": "in_channels out_channels heads concat beta edge_dim bias root_weight",
    "EdgeConv": "nn aggr",
    "SGConv": "in_channels out_channels K add_self_loops bias",
    "APPNP": "K alpha add_self_loops normalize",
    "LGConv": "normalize",
    "SSGConv": "in_channels out_channels alpha K add_self_loops bias",
    "TAGConv": "in_channels out_channels K bias normalize",
    "ClusterGCNConv": "in_channels out_channels diag_lambda add_self_loops bias",
    "ChebConv": "in_channels out_channels K normalization bias",
    "GatedGraphConv": "out_channels num_layers aggr bias",
    "GCN2Conv": "channels alpha theta layer shared_weights add_self_loops normalize",
    "CGConv": "channels dim aggr batch_norm bias",
    "ResGatedGraphConv": "in_channels out_channels act edge_dim root_weight bias",
    "GENConv": "in_channels out_channels aggr t learn_t p learn_p msg_norm learn_msg_scale norm num_layers expansion eps bias edge_dim",
    "GMMConv": "in_channels out_channels dim kernel_size separate_gaussians aggr root_weight bias",
    "NNConv": "in_channels out_channels nn aggr root_weight bias",
    "PNAConv": "in_channels out_channels aggregators scalers deg edge_dim towers pre_layers post_layers divide_input act act_kwargs",
    "FAConv": "channels eps add_self_loops normalize",
    "SuperGATConv": "in_channels out_channels heads concat negative_slope add_self_loops bias attention_type",
    "DirGNNConv": "conv alpha root_weight",
    "ARMAConv": "in_channels out_channels num_stacks num_layers shared_weights act bias",
    "BatchNorm": "in_channels eps affine track_running_stats",
    "LayerNorm": "in_channels eps affine mode",
    "GraphNorm": "in_channels eps",
    "PairNorm": "scale scale_individually eps",
    "InstanceNorm": "in_channels eps affine track_running_stats",
    "MessageNorm": "",
    "DiffGroupNorm": "in_channels groups lamda eps affine track_running_stats",
    "JumpingKnowledge": "mode channels num_layers",
    "SumAggregation": "", "MeanAggregation": "", "MaxAggregation": "", "MinAggregation": "",
    "VarAggregation": "", "StdAggregation": "", "MedianAggregation": "fill_value", "SortAggregation": "k", "MultiAggregation": "aggrs aggrs_kwargs mode mode_kwargs",
    "SoftmaxAggregation": "t learn channels",
    "AttentionalAggregation": "gate_nn nn",
    "Linear": "in_channels out_channels bias",
    "MLP": "channel_list in_channels hidden_channels out_channels num_layers act act_first act_kwargs norm norm_kwargs plain_last bias",
}
WITHOUT_EFFECT: dict[str, str] = {
    "GCNConv": "cached", "SGConv": "cached", "APPNP": "cached dropout", "SSGConv": "cached", "GCN2Conv": "cached", "ARMAConv": "dropout",
    "PNAConv": "train_norm", "FAConv": "dropout cached", "SuperGATConv": "dropout neg_sample_ratio edge_sample_ratio is_undirected",
    "VarAggregation": "semi_grad", "StdAggregation": "semi_grad", "GATConv": "dropout", "GATv2Conv": "dropout", "TransformerConv": "dropout", "BatchNorm": "momentum allow_single_element device",
    "LayerNorm": "device", "GraphNorm": "device", "InstanceNorm": "momentum device", "MessageNorm": "learn_scale device",
    "DiffGroupNorm": "momentum device", "SoftmaxAggregation": "semi_grad", "Linear": "weight_initializer bias_initializer", "MLP": "dropout",
}
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check_constructor(module: Any) -> None:
    """Refuses what a class of PyTorch Geometric was made with if nothing here knows the argument. REQUIRES: READ has the class."""
    kind = type(module).__name__
    known = {*READ[kind].split(), *WITHOUT_EFFECT.get(kind, "").split()}
    for name, parameter in inspect.signature(type(module).__init__).parameters.items():
        if name == "self" or parameter.kind in _VARIADIC or name in known:
            continue
        if not hasattr(module, name) or getattr(module, name) != parameter.default:
            raise Unsupported(f"{kind} has an argument {name}, which this package does not know",
                              "it is newer than the package: use an older torch_geometric, or a newer vicinal")


def check_direction(conv: Any) -> None:
    if getattr(conv, "flow", "source_to_target") != "source_to_target":
        raise Unsupported(f"flow={conv.flow!r}", "train with flow='source_to_target' and the rows of edge_index swapped")
    if getattr(conv, "node_dim", -2) not in (-2, 0):
        raise Unsupported(f"node_dim={conv.node_dim}", "nodes are the rows: leave node_dim out")


def check_message_passing(conv: Any, aggregations: tuple[str, ...]) -> None:
    """Arguments that convolutions pass on to MessagePassing. `aggregations`: those that the layer may have."""
    check_direction(conv)
    parts = conv.aggr if isinstance(conv.aggr, (list, tuple)) else [conv.aggr]
    strange = [part for part in parts if part not in aggregations]
    several = isinstance(conv.aggr, (list, tuple)) and "std" not in aggregations
    if strange or several:
        listed = ", ".join(aggregations)
        raise Unsupported(f"aggr={conv.aggr!r}", f"train with one of {listed}" + (", or a list of them" if "std" in aggregations else ""))
    mode = getattr(conv.aggr_module, "mode", "cat")
    if mode != "cat":
        raise Unsupported(f"aggr_kwargs: mode={mode!r}", "several aggregations stand side by side: leave aggr_kwargs out")


def check_width(conv: Any) -> None:
    """A pair of widths is a bipartite layer, unless both are equal."""
    pair = getattr(conv, "in_channels", None)
    if not isinstance(pair, (tuple, list)):
        return
    if pair[0] != pair[1]:
        raise Unsupported(f"in_channels={pair}: a bipartite layer", "graphs have one type of nodes: use one width")
    if getattr(conv, "lin_src", None) is not None:
        raise Unsupported(f"in_channels={pair}: sources and targets have weights of their own", "use one width, not a pair")
