# SPDX-License-Identifier: Apache-2.0
"""What is compared: aggregations and forward passes, and under which names."""

import json
import os

WIDTHS = (16, 32, 64, 128, 256, 512)
# name -> (reduce, with edge weights)
AGGREGATIONS = {"sum": ("sum", False), "mean": ("mean", False), "max": ("max", False), "weighted": ("sum", True)}

_PYG = "torch_geometric.nn.models."
# name -> class and arguments of the model that is made where the repository has no trained one for the graph.
FORWARDS = {
    "gcn": (_PYG + "GCN", {"hidden_channels": 16, "num_layers": 2}),
    "sage": (_PYG + "GraphSAGE", {"hidden_channels": 64, "num_layers": 2}),
    "sagemax": (_PYG + "GraphSAGE", {"hidden_channels": 64, "num_layers": 2, "aggr": "max"}),
    "gin": (_PYG + "GIN", {"hidden_channels": 64, "num_layers": 2}),
    "gat": (_PYG + "GAT", {"hidden_channels": 64, "num_layers": 2, "heads": 8, "act": "elu"}),
}
CLASSES_OF_MADE_MODELS = 8
# Layers of 64 columns that read features of edges (edge_layers.py).
EDGE_LAYERS = ("GATConv", "GATv2Conv", "TransformerConv", "GINEConv", "CGConv", "ResGatedGraphConv", "GENConv", "NNConv", "GMMConv", "PNAConv")
EDGE_LAYER_WIDTH = 64


def enumerate_cells(graph, kinds, widths, edge_dims=()):
    """Cells of one graph, in the order they are run. `kinds`: names out of AGGREGATIONS, FORWARDS and EDGE_LAYERS, each of the
    last with every number of features per edge in `edge_dims`."""
    cells = []
    for width in widths:
        for name, (reduce, weighted) in AGGREGATIONS.items():
            if name in kinds:
                cells.append(
                    {
                        "graph": graph,
                        "kind": "aggregate",
                        "name": name,
                        "reduce": reduce,
                        "weighted": weighted,
                        "width": width,
                    }
                )
    for name in FORWARDS:
        if name in kinds:
            cells.append({"graph": graph, "kind": "forward", "name": name})
    for edge_dim in edge_dims:
        for name in EDGE_LAYERS:
            if name in kinds:
                cells.append({"graph": graph, "kind": "edge_layer", "name": name, "edge_dim": edge_dim})
    return cells


def cell_key(cell):
    """Unique among the cells of one run."""
    return "/".join([cell["graph"], cell["name"], str(cell.get("width", cell.get("edge_dim", ""))), str(cell["threads"])])


def model_files(models_folder, scratch_folder, graph, name):
    """(architecture file, weights file, content): those of the repository, and content None; or where they shall be
    made, and the architecture to make."""
    stem = os.path.join(models_folder, f"{graph['name']}-{name}")
    if os.path.exists(stem + ".json"):
        with open(stem + ".json", encoding="utf-8") as file:
            if json.load(file)["kwargs"]["in_channels"] == graph["features"]:
                return stem + ".json", stem + ".safetensors", None
    stem = os.path.join(scratch_folder, f"{graph['name']}-{name}")
    model_class, kwargs = FORWARDS[name]
    kwargs = {**kwargs, "in_channels": graph["features"], "out_channels": CLASSES_OF_MADE_MODELS}
    return stem + ".json", stem + ".safetensors", {"class": model_class, "kwargs": kwargs}
