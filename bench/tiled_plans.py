#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory and time of a pass over all nodes whose intermediate values do not fit: a server with memory for the whole plan and one without,
which runs it in tiles of rows (docs/adr/0059-layer-wise-execution-in-tiles.md). The answers must have equal bits.

    PYTHONPATH=DIR python3 bench/tiled_plans.py --server build/release/bin/vicinal-server [--json FILE]

The model is two layers of SAGEConv(max), each followed by an MLP as wide as --hidden. Prints what Explain says beforehand, the plans' bytes that
the server holds, its peak of resident memory and the median of --repeat passes."""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request

import numpy as np

import vicinal


def safetensors(tensors):
    header, data = {}, b""
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def model(features, hidden):
    rng = np.random.default_rng(1)
    draw = lambda *shape: (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
    layers, tensors = [], {}
    for i in range(2):
        layers.append({"name": f"conv{i}", "type": "SAGEConv", "args": {"out_channels": features, "aggr": "max"}})
        tensors.update({f"conv{i}.lin_l.weight": draw(features, features), f"conv{i}.lin_l.bias": draw(features),
                        f"conv{i}.lin_r.weight": draw(features, features)})
        for j, (out, width) in enumerate(((hidden, features), (hidden, hidden), (features, hidden))):
            name = f"lin{i}_{j}"
            layers += [{"name": name, "type": "Linear", "args": {"out_channels": out}}, {"name": name + "_act", "type": "ReLU"}]
            tensors.update({f"{name}.weight": draw(out, width), f"{name}.bias": draw(out)})
    return {"format": "vicinal.model/1", "in_channels": features, "layers": layers}, safetensors(tensors)


def measure(args, graph, architecture, weights, budget):
    """Peak of resident memory, plan bytes, seconds and the answer, with a memory budget of so many bytes (0: none)."""
    with tempfile.TemporaryDirectory() as folder:
        ready = pathlib.Path(folder) / "ready"
        server = subprocess.Popen([args.server, "--grpc_listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0", f"--ready_file={ready}",
                                   f"--memory_budget_bytes={budget}", "--tuning_budget=0s", "--keep_answers=never", f"--threads={args.threads}"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not ready.exists():
                if server.poll() is not None:
                    raise SystemExit(f"the server ended with {server.returncode}")
                time.sleep(0.05)
            addresses = json.loads(ready.read_text())
            client = vicinal.Client(addresses["grpc"], timeout=600)
            client.upload_graph("g", graph["edge_index"], x=graph["x"])
            client.upload_model("m", architecture, weights)
            plan = client.explain("g", "m")
            seconds = []
            for _ in range(args.repeat):
                answer = client.embed("g", "m", output="logits")
                seconds.append(answer.seconds)
            status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
            text = urllib.request.urlopen(f"http://{addresses['metrics']}/metrics").read().decode()
            tiles = re.search(r'vicinal_phase_duration_seconds_count\{phase="tiles"\} (\d+)', text)
            return {"budget_bytes": budget, "whole_scratch_bytes": plan.whole_scratch_bytes, "tiled_scratch_bytes": plan.tiled_scratch_bytes,
                    "scratch_bytes": plan.scratch_bytes, "peak_resident_bytes": int(re.search(r"VmHWM:\s+(\d+)", status)[1]) * 1024,
                    "groups_run_in_tiles": int(tiles[1]) if tiles else 0, "median_seconds": statistics.median(seconds),
                    "minimum_seconds": min(seconds)}, answer.embeddings.tobytes()
        finally:
            server.terminate()
            server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", help="where the result is written")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    graph = {"edge_index": rng.integers(0, args.nodes, (2, args.edges)),
             "x": rng.standard_normal((args.nodes, args.features), dtype=np.float32)}
    architecture, weights = model(args.features, args.hidden)
    whole, expected = measure(args, graph, architecture, weights, 0)
    # Too little for the whole plan beside what uploading takes.
    tiled, answer = measure(args, graph, architecture, weights, whole["tiled_scratch_bytes"] + (whole["whole_scratch_bytes"] - whole["tiled_scratch_bytes"]) * 3 // 4)
    result = {"whole": whole, "tiled": tiled, "equal_bits": answer == expected}
    print(json.dumps(result, indent=1))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")
    if not result["equal_bits"] or tiled["scratch_bytes"] >= whole["scratch_bytes"]:
        raise SystemExit("the second server did not run in tiles, or gave other bits")


if __name__ == "__main__":
    main()
