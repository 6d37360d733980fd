# SPDX-License-Identifier: Apache-2.0
"""Graphs and weights as files that every contestant can read: data sets (npz) and safetensors. Needs numpy."""

import json
import struct

import numpy as np

_NAMES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8")}


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(data[begin:end], _NAMES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    spelling = {dtype: name for name, dtype in _NAMES.items()}
    header, offset = {}, 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": spelling[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())


def pattern(rows, cols):
    """The numbers of bench/pattern.h: element i is the top 24 bits of i * 2654435761 mod 2^32, mapped to [-1, 1)."""
    i = np.arange(rows * cols, dtype=np.uint32)
    i *= np.uint32(2654435761)
    i >>= np.uint32(8)
    values = i.astype(np.float32)
    del i
    values /= np.float32(8388608)
    values -= np.float32(1)
    return values.reshape(rows, cols)


def load_dataset(path, random_features=64, edge_dim=None):
    """A graph of an npz data set as tensors of an upload. Where it has no edge weights or no features it is given some:
    weights in (0, 1), and `random_features` dense columns. With `edge_dim` it has that many features of each edge, and
    `random_features` columns in place of its own."""
    data = np.load(path, allow_pickle=False)
    edges = data["edge_index"].astype("<i4")
    nodes = (
        len(data["y"])
        if "y" in data
        else int(data["x_shape"][0]) if "x_shape" in data else len(data["x"]) if "x" in data else int(edges.max()) + 1
    )
    tensors = {"edge_index": edges}
    tensors["edge_weight"] = (
        data["edge_weight"] if "edge_weight" in data else (pattern(1, edges.shape[1])[0] + np.float32(1.0009)) / 2
    ).astype("<f4")
    if edge_dim:
        tensors["edge_attr"] = pattern(edges.shape[1], edge_dim)
    if "x_indptr" in data and not edge_dim:
        features = int(data["x_shape"][1])
        tensors["x_indptr"] = data["x_indptr"].astype("<i8")
        tensors["x_indices"] = data["x_indices"].astype("<i4")
        tensors["x_values"] = data["x_data"].astype("<f4")
    else:
        tensors["x"] = (data["x"] if "x" in data and not edge_dim else pattern(nodes, random_features)).astype("<f4")
        features = tensors["x"].shape[1]
    return {"nodes": nodes, "edges": edges.shape[1], "features": features, "tensors": tensors}
