# SPDX-License-Identifier: Apache-2.0
"""Edge feature sets, with every layer that reads features of edges."""

import glob
import os

import numpy as np


def edge_set_runs(server, name, days):
    """Answers by edge feature sets, in turns so that recorded runs meet each other's inputs: how many, and how many with the bits of graphs
    that have the same features of their own."""
    tried = same = 0
    for nodes in ([], ["--nodes", "3,77,119,0", "--receptive_field", "always"]):
        asked = ["--model", name, "--logits", *nodes]
        try:
            expected = {day: server.matrix("own", "classify", "--graph", day, *asked)[0].tobytes() for day in days}
        except RuntimeError:
            continue  # the model has no receptive field, or reads what the graph has not
        for day in ("monday", "tuesday", "monday", "monday", "tuesday", "tuesday"):
            got, _ = server.matrix("set", "classify", "--graph", "sets", "--edge_feature_set", day, *asked)
            tried += 1
            same += got.tobytes() == expected[day]
    return tried, same


def edge_feature_sets(checks, servers, data):
    """Edge feature sets, with every layer that reads features of edges."""
    graph = os.path.join(data, "graphs", "tiny.npz")
    own = np.load(graph)["edge_attr"].astype(np.float32)
    days = {"monday": own[::-1].copy(), "tuesday": own * np.float32(0.5) - np.float32(0.25)}
    for server in servers:
        server.call("graph", "upload", graph, "--name", "sets", "--reorder", "rcm")
        for day, rows in days.items():
            file = os.path.join(server.folder, day + ".npy")
            np.save(file, rows)
            server.call("graph", "upload", graph, "--name", day, "--reorder", "rcm", "--edge_attr", file)
            server.call("features", "upload", file, "--graph", "sets", "--name", day, "--edges")
        tried = same = 0
        for path in sorted(glob.glob(os.path.join(data, "layers", "*.reference.safetensors"))):
            stem = path[: -len(".reference.safetensors")]
            name = "sets-" + os.path.basename(stem)
            model = server.call("model", "upload", stem + ".json", "--weights", stem + ".safetensors", "--name", name)
            if int(model.get("edge_feature_width", 0)) == own.shape[1]:
                runs = edge_set_runs(server, name, days)
                tried, same = tried + runs[0], same + runs[1]
        checks.add(f"edge feature sets on {server.device} have the bits of the graph's own features", tried > 0 and same == tried,
                   tried=tried, same=same)  # fmt: skip
