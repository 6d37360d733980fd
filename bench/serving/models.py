# SPDX-License-Identifier: Apache-2.0
"""Models with random weights for the measurements of serving."""

import json
import os

import numpy as np

import common


def write_model(folder, name, architecture, weights):
    """The two files of a model. Returns their path without an ending."""
    stem = os.path.join(folder, name)
    with open(stem + ".json", "w", encoding="utf-8") as file:
        json.dump(architecture, file)
    with open(stem + ".safetensors", "wb") as file:
        file.write(weights)
    return stem


def write_gcn(folder, seed, features, hidden, classes):
    """Two GCNConv with a ReLU between them."""
    random = np.random.default_rng(seed)
    layers = [
        {"name": "conv1", "type": "GCNConv", "args": {"in_channels": features, "out_channels": hidden}},
        {"name": "act", "type": "ReLU"},
        {"name": "conv2", "type": "GCNConv", "args": {"in_channels": hidden, "out_channels": classes}},
    ]
    weights = {
        "conv1.lin.weight": random.standard_normal((hidden, features)) / 8,
        "conv1.bias": random.standard_normal(hidden),
        "conv2.lin.weight": random.standard_normal((classes, hidden)),
        "conv2.bias": random.standard_normal(classes),
    }
    architecture = {"format": "vicinal.model/1", "in_channels": features, "layers": layers}
    return write_model(folder, "gcn", architecture, common.safetensors(weights))
