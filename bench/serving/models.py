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


def write_gcn(folder, seed, *widths):
    """GCNConv from each width to the next, with a ReLU after all but the last."""
    random = np.random.default_rng(seed)
    layers, weights = [], {}
    for number, (inputs, outputs) in enumerate(zip(widths, widths[1:]), start=1):
        if layers:
            layers.append({"name": f"act{number - 1}", "type": "ReLU"})
        layers.append({"name": f"conv{number}", "type": "GCNConv", "args": {"in_channels": inputs, "out_channels": outputs}})
        weights[f"conv{number}.lin.weight"] = random.standard_normal((outputs, inputs)) / 8
        weights[f"conv{number}.bias"] = random.standard_normal(outputs)
    architecture = {"format": "vicinal.model/1", "in_channels": widths[0], "layers": layers}
    return write_model(folder, "gcn", architecture, common.safetensors(weights))
