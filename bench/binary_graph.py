# SPDX-License-Identifier: Apache-2.0
"""Reads the files of bench/binary_graph.h: int64 nodes, int64 edges, int32 row_ptr[nodes + 1], int32 col[edges], little-endian."""

import numpy as np


def read_graph(path):
    """edge_index int32 [2, E] (sources, targets) by target, and the number of nodes. ValueError where the file's length does not fit."""
    nodes, edges = (int(number) for number in np.fromfile(path, np.int64, 2))
    numbers = np.fromfile(path, np.int32, offset=16)
    targets = np.repeat(np.arange(nodes, dtype=np.int32), np.diff(numbers[: nodes + 1]))
    sources = numbers[nodes + 1 :]
    if len(sources) != edges or len(targets) != edges:
        raise ValueError(f"{path}: its length does not fit {nodes} nodes and {edges} edges")
    return np.stack([sources, targets]), nodes
