# SPDX-License-Identifier: Apache-2.0
"""Graphs and models of tests/data for the tests of the Python client."""

import importlib.util
import json
import os
import re
import unittest

import numpy as np

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
FEATURES, CLASSES = 12, 5  # of modules to export
MODELS = os.path.join(ROOT, "tests", "data", "models")


def read_graph(name):
    with np.load(os.path.join(ROOT, "tests", "data", "graphs", name + ".npz")) as arrays:
        graph = dict(arrays)
    if "x" not in graph:
        x = np.zeros(tuple(graph["x_shape"]), dtype=np.float32)
        x[np.repeat(np.arange(len(x)), np.diff(graph["x_indptr"])), graph["x_indices"]] = graph["x_data"]
        graph["x"] = x
    return graph


def model_files(name):
    """Architecture and weights, as paths."""
    return os.path.join(MODELS, name + ".json"), os.path.join(MODELS, name + ".safetensors")


def layer_model(name):
    base = os.path.join(ROOT, "tests", "data", "layers", name)
    return base + ".json", base + ".safetensors"


def read_safetensors(path, name):
    """A tensor of a file, float32 or float64."""
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:8 + size])[name]
    begin, end = entry["data_offsets"]
    kind = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}[entry["dtype"]]
    return np.frombuffer(data[8 + size + begin:8 + size + end], dtype=kind).reshape(entry["shape"])


def safetensors(tensors):
    """A file of float32 and int64 arrays."""
    header, data = {}, b""
    for name, value in tensors.items():
        raw = value.tobytes()
        header[name] = {"dtype": {"float32": "F32", "int64": "I64"}[str(value.dtype)], "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def snippets(page, test):
    """Python code of a page of docs that says that it runs in `test`."""
    with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
        return re.findall(re.escape(f"<!-- runs in tests/python/{test} -->") + r"\n```python\n(.*?)```", file.read(), re.DOTALL)


def needs(module):
    """Skips, and says so, where an optional library is missing."""
    return unittest.skipUnless(importlib.util.find_spec(module), f"{module} is not installed for this Python")


def randomize(module):
    """Makes every parameter and statistic of a torch module random, so that none can be left out unnoticed."""
    import torch
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point() and not name.endswith(".q"):  # which quantile MedianAggregation takes
                low = torch.rand(value.shape, generator=generator) + 0.5
                value.copy_(low if "running_var" in name else torch.randn(value.shape, generator=generator) * (0.3 if value.dim() > 1 else 0.5))
    return module.eval()
