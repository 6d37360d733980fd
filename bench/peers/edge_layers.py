# SPDX-License-Identifier: Apache-2.0
"""Layers with features of edges: one layer of 64 columns, in our document and as PyTorch Geometric's module. Needs torch
and torch_geometric."""

import json

import numpy as np
import torch
from torch_geometric import nn as gnn

from bench.peers import exchange

WIDTH, HEADS = 64, 8  # columns in and out
HIDDEN, GAUSSIANS = 16, 8  # of NNConv's network; of GMMConv


def layer_of(kind, edge_dim, degrees=None):
    """The arguments in our document, and PyG's layer. `degrees`: how many nodes have 0, 1, ...
    in-edges, for PNAConv."""
    if kind == "GINEConv":
        nn = [{"type": "Linear", "args": {"out_channels": WIDTH}}]
        made = gnn.GINEConv(torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH)), edge_dim=edge_dim)
        return {"nn": nn, "edge_dim": edge_dim}, made
    if kind == "CGConv":
        return {"dim": edge_dim}, gnn.CGConv(WIDTH, edge_dim)
    if kind in ("ResGatedGraphConv", "GENConv"):
        args = {"out_channels": WIDTH, "edge_dim": edge_dim}
        return args, getattr(gnn, kind)(WIDTH, WIDTH, edge_dim=edge_dim)
    if kind == "NNConv":
        nn = [{"type": "Linear", "args": {"in_channels": edge_dim, "out_channels": HIDDEN}}, {"type": "ReLU"}]
        nn.append({"type": "Linear", "args": {"out_channels": WIDTH * WIDTH}})
        layers = (torch.nn.Linear(edge_dim, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, WIDTH * WIDTH))
        return {"out_channels": WIDTH, "nn": nn}, gnn.NNConv(WIDTH, WIDTH, torch.nn.Sequential(*layers))
    if kind == "GMMConv":
        made = gnn.GMMConv(WIDTH, WIDTH, edge_dim, GAUSSIANS)
        made.sigma.data.uniform_(0.5, 1.5)  # of untrained layers some are near 0, so that all weights are
        return {"out_channels": WIDTH, "dim": edge_dim, "kernel_size": GAUSSIANS}, made
    if kind == "PNAConv":
        args = {"aggregators": ["mean", "min", "max", "std"], "scalers": ["identity", "amplification", "attenuation"]}
        made = gnn.PNAConv(WIDTH, WIDTH, **args, deg=degrees, edge_dim=edge_dim)
        return {"out_channels": WIDTH, "edge_dim": edge_dim, **args}, made
    args = {"heads": HEADS, "edge_dim": edge_dim}
    return {"out_channels": WIDTH // HEADS, **args}, getattr(gnn, kind)(WIDTH, WIDTH // HEADS, **args)


def write_files(architecture, weights, kind, args, layer):
    """The layer as the two files of a model of ours."""
    document = {"format": "vicinal.model/1", "in_channels": WIDTH, "layers": [{"name": "a", "type": kind, "args": args}]}
    with open(architecture, "w", encoding="utf-8") as file:
        json.dump(document, file)
    tensors = {"a." + name: tensor.numpy() for name, tensor in layer.state_dict().items()}
    exchange.write_safetensors(weights, {n: np.atleast_1d(t) for n, t in tensors.items() if t.dtype == np.float32})
