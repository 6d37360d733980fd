#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/attention: the attention weights that PyTorch Geometric's layers return in float64.

For each model of tests/data/layers and tests/data/models below, `NAME.safetensors` has for every layer with attention
`LAYER.edges` int64 [m, 2] (source and target of each edge) and `LAYER.weights` float32 [m, heads]: what the layer returns with
return_attention_weights=True, by target, then source, then in the order of the upload. SuperGATConv returns none, so there it is
what its get_attention gives its message. Of the large graph only the edges of the first targets are kept. Run by hand, in an environment with torch and torch_geometric:

    python3 tests/data/make_attention_references.py
"""

import json
import pathlib
import struct

import numpy as np
import torch
import torch_geometric.nn as pyg

import make_references

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "attention"
LAYERS = ["gat-bare", "gat-edge", "gat-edge-fill", "gat-residual", "gatv2-bare", "gatv2-edge", "gatv2-edge-fill", "gatv2-residual",
          "transformer", "transformer-beta", "transformer-edge", "transformer-edge-mean", "transformer-mean", "jumps",
          "fa", "fa-weights", "supergat", "supergat-sd"]
DIRECTED = ["directed-gat", "directed-gatv2", "directed-chain-gat", "directed-chain-gatv2", "directed-chain-transformer"]
KEPT_TARGETS = 150  # of the graph `directed`
ATTENTION = (pyg.GATConv, pyg.GATv2Conv, pyg.TransformerConv, pyg.FAConv)


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    types = {"F32": np.float32, "I64": np.int64}
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin:8 + length + end], types[entry["dtype"]])
        tensors[name] = torch.from_numpy(values.reshape(entry["shape"]).copy())
    return tensors


def watch_super_gat(module, found, name):
    propagate, get_attention = module.propagate, module.get_attention

    def watched_propagate(edge_index, **arguments):
        module.edges_of_messages = edge_index  # with the loops of the layer
        return propagate(edge_index, **arguments)

    def watched_attention(*arguments, **named):
        alpha = get_attention(*arguments, **named)
        found[name] = module.edges_of_messages, alpha
        return alpha

    module.propagate, module.get_attention = watched_propagate, watched_attention


def attention_of(net, data):
    """Runs `net`; for each layer with attention what it returns beside its result."""
    found = {}

    def ask(name):
        def hook(module, args, kwargs):
            if kwargs.get("return_attention_weights"):
                return
            found[name] = module(*args, **kwargs, return_attention_weights=True)[1]
        return hook

    hooks = [module.register_forward_pre_hook(ask(name), with_kwargs=True) for name, module in net.named_modules()
             if isinstance(module, ATTENTION)]
    for name, module in net.named_modules():
        if isinstance(module, pyg.SuperGATConv):
            watch_super_gat(module, found, name)
    with torch.no_grad():
        net(data)
    for hook in hooks:
        hook.remove()
    return found


def in_order(edge_index, weights, most_targets):
    order = np.lexsort((edge_index[0].numpy(), edge_index[1].numpy()))  # stable
    order = order[edge_index[1].numpy()[order] < most_targets]
    return edge_index.t()[order].long().contiguous(), weights.reshape(len(weights), -1)[order].float()


def write(folder, name, graph, most_targets):
    path = HERE / folder / f"{name}.vicinal.json"
    declaration = json.loads((path if path.exists() else HERE / folder / f"{name}.json").read_text())
    net = (make_references.ReadyMade if "class" in declaration else make_references.Net)(declaration).eval()
    target = net.gnn if "class" in declaration else net
    target.load_state_dict(read_safetensors(HERE / folder / f"{name}.safetensors"))
    found = attention_of(net.double(), make_references.as_input(graph, torch.float64))
    tensors = {}
    for layer, (edge_index, weights) in found.items():
        edges, kept = in_order(edge_index, weights, most_targets)
        layer = layer.removeprefix("gnn.")
        tensors[f"{layer}.edges"], tensors[f"{layer}.weights"] = edges, kept
    assert tensors, name
    make_references.write_safetensors(OUT / f"{name}.safetensors", tensors)


def main():
    OUT.mkdir(exist_ok=True)
    tiny = dict(np.load(HERE / "graphs" / "tiny.npz"))
    for name in LAYERS:
        write("layers", name, tiny, tiny["x"].shape[0])
    directed = dict(np.load(HERE / "graphs" / "directed.npz"))
    if "x" not in directed:
        rows = len(directed["x_indptr"]) - 1
        x = np.zeros((rows, int(directed["feature_count"])), np.float32)
        counts = np.diff(directed["x_indptr"])
        x[np.repeat(np.arange(rows), counts), directed["x_indices"]] = directed["x_values"]
        directed["x"] = x
    for name in DIRECTED:
        write("models", name, directed, KEPT_TARGETS)


if __name__ == "__main__":
    main()
