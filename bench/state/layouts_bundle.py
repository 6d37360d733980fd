#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layouts on disk (docs/adr/0049-layouts-on-disk.md), for machines that have a bundle (deploy/bundle.sh) and Python alone: what making each
takes, what reading it takes, and what the first call after a start waits for with and without stored layouts.

  python3 bench/state/layouts_bundle.py --bin BUNDLE/bin --device cuda:0 --json layouts.json

Half of the edges join nodes of the same 128, so that there are dense blocks. Logits must be the same with made and with stored layouts."""

import glob
import json
import os
import shutil
import sys
import time
import zipfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.state import bundle
from bench.state.scratch import Scratch, finish

KERNELS = ("binned_rows", "length_sorted_rows", "neighbor_group", "partition_dual", "dense_tiles", "template_spmm:degree=2000", "source_panels")


def write_edges(archive, nodes, edges):
    """edge_index int32 [2, edges]: targets at random; sources, each half of them, from the same 128 nodes or from all."""
    header = str({"descr": "<i4", "fortran_order": False, "shape": (2, edges)}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with archive.open("edge_index.npy", "w", force_zip64=True) as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        pieces = [min(bundle.PIECE, edges - begin) for begin in range(0, edges, bundle.PIECE)]
        targets = [bundle.random_bits(count, nodes - 1) for count in pieces]
        for index, (count, target) in enumerate(zip(pieces, targets)):
            away = bundle.random_bits(count, 127 if index % 2 else nodes - 1)
            both = int.from_bytes(target, "little") ^ int.from_bytes(away, "little")
            file.write(both.to_bytes(4 * count, "little"))
        for target in targets:
            file.write(target)


def lines_of(folder, message):
    with open(os.path.join(folder, "server.log"), encoding="utf-8") as text:
        lines = [json.loads(line) for line in text if line.startswith("{")]
    return [line for line in lines if line["message"].startswith(message)]


def ask(server, kernel, nodes):
    """Seconds and logits of the first call with that kernel; None: it refuses this graph."""
    begin = time.monotonic()
    done = server.vicinal("classify", "--graph", "large", "--model", "sum", "--nodes", nodes, "--ids", "none", "--logits", "--json",
                          "--kernel", f"aggregate={kernel}", check=False)
    seconds = time.monotonic() - begin
    return (seconds, json.dumps(json.loads(done.stdout)["logits"])) if done.returncode == 0 else (None, done.stderr.strip()[-200:])


def measure(options, folder, state):
    with zipfile.ZipFile(os.path.join(folder, "large.npz"), "w", zipfile.ZIP_STORED) as archive:
        write_edges(archive, options.nodes, options.edges)
        bundle.write_array(archive, "x", "<f4", (options.nodes, options.features), bundle.FEATURE_BITS)
    bundle.write_model(options.features, folder)
    nodes = ",".join(str(i * (options.nodes // 16)) for i in range(16))
    server = bundle.Server(options, folder, state)
    server.vicinal("graph", "upload", os.path.join(folder, "large.npz"), "--name", "large", "--reorder", "none", "--wait_for", "durable")
    server.vicinal("model", "upload", os.path.join(folder, "sum.json"), "--weights", os.path.join(folder, "sum.safetensors"), "--name", "sum")
    made = {kernel: ask(server, kernel, nodes) for kernel in options.kernels.split(",")}
    server.stop()
    verdicts = lines_of(folder, "layout stored") + lines_of(folder, "layout not stored")
    device = server.devices[0]

    def restart():
        bundle.read_seconds(bundle.data_files(state))  # both starts from the page cache
        server = bundle.Server(options, folder, state)
        answers = {kernel: ask(server, kernel, nodes) for kernel, (seconds, _) in made.items() if seconds is not None}
        server.stop()
        return server.seconds, answers

    stored_start, stored = restart()
    restored = lines_of(folder, "layouts restored")
    for path in glob.glob(os.path.join(state, "graphs/large/*/layouts")) + glob.glob(os.path.join(state, "graphs/large/*/documents/layouts-*")):
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    plain_start, plain = restart()
    rows = [{"case": "starts", "device": device, "nodes": options.nodes, "edges": options.edges,
             "start_with_layouts_ms": round(stored_start * 1e3, 1), "start_without_ms": round(plain_start * 1e3, 1),
             "restored": [{"layouts": int(line["layouts"]), "seconds": float(line["seconds"])} for line in restored]}]
    for kernel, (seconds, answer) in made.items():
        if seconds is None:
            rows.append({"case": kernel, "refused": answer})
            continue
        if {stored[kernel][1], plain[kernel][1]} != {answer}:
            raise RuntimeError(f"{kernel}: other logits after a start")
        rows.append({"case": kernel, "first_call_ever_ms": round(seconds * 1e3, 1), "first_call_stored_ms": round(stored[kernel][0] * 1e3, 1),
                     "first_call_made_ms": round(plain[kernel][0] * 1e3, 1)})
    for line in verdicts:
        rows.append({"case": "layout", "layout": line["layout"], "stored": line["message"] == "layout stored", "bytes": int(line["bytes"]),
                     "make_ms": round(float(line["make_seconds"]) * 1e3, 1), "read_ms": round(float(line["read_seconds"]) * 1e3, 1)})
    return rows


def main():
    parser = bundle.parser(__doc__, "cuda:0")
    parser.add_argument("--nodes", type=int, default=1 << 18, help="a power of two")
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--kernels", default=",".join(KERNELS))
    options = parser.parse_args()
    with Scratch(options.folder) as folder:
        rows = measure(options, folder, os.path.join(folder, "state"))
    finish(options, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
