#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/state/start.py for machines that have a bundle (deploy/bundle.sh) and Python alone: from the start of a server to READY with
one large graph in its state directory, on a CPU or with the copy to a GPU.

  python3 bench/state/start_bundle.py --bin BUNDLE/bin --device cuda:0 --json start_h200.json

Each round first reads the state directory's data files, which is the floor, and then starts the server: both with the files in the
page cache, or both after they were dropped from it. The floor is one process that reads every file once, 4 MiB at a time. The
logits of a few nodes must be the same after each start. --state keeps and reuses the prepared directory."""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

PIECE = 1 << 24  # numbers that are made at once


def random_bits(count, mask):
    """`count` random numbers of 32 bits, AND `mask` each."""
    whole = int.from_bytes(mask.to_bytes(4, "little") * count, "little")
    return (int.from_bytes(os.urandom(4 * count), "little") & whole).to_bytes(4 * count, "little")


def write_array(archive, name, kind, shape, mask):
    """An .npy of random numbers in the archive."""
    header = str({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with archive.open(name + ".npy", "w", force_zip64=True) as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        left = shape[0] * shape[1]
        while left:
            file.write(random_bits(min(left, PIECE), mask))
            left -= min(left, PIECE)


def write_inputs(options, folder):
    """Graph (nodes are a power of two, features finite and below 2), and a GraphConv whose weights are 1."""
    write_model(options.features, folder)
    with zipfile.ZipFile(os.path.join(folder, "large.npz"), "w", zipfile.ZIP_STORED) as archive:
        write_array(archive, "edge_index", "<i4", (2, options.edges), options.nodes - 1)
        write_array(archive, "x", "<f4", (options.nodes, options.features), 0xBF7FFFFF)


def write_model(features, folder):
    """sum.json and sum.safetensors."""
    layer = {"name": "conv", "type": "GraphConv", "args": {"in_channels": features, "out_channels": 4, "bias": False}}
    with open(os.path.join(folder, "sum.json"), "w", encoding="utf-8") as file:
        json.dump({"format": "vicinal.model/1", "in_channels": features, "layers": [layer]}, file)
    ones = b"\x00\x00\x80\x3f" * (4 * features)
    header = {name: {"dtype": "F32", "shape": [4, features], "data_offsets": [i * len(ones), (i + 1) * len(ones)]}
              for i, name in enumerate(("conv.lin_rel.weight", "conv.lin_root.weight"))}
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "sum.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + ones + ones)


class Server:
    """vicinal-server on a free port; `seconds` from exec to READY, which includes all graphs in memory and on the device."""

    def __init__(self, options, folder, state):
        self.options, ready, log = options, os.path.join(folder, "ready.json"), os.path.join(folder, "server.log")
        if os.path.exists(ready):
            os.remove(ready)
        flags = [f"--device={options.device}", "--grpc_listen=127.0.0.1:0", "--metrics_listen=", f"--ready_file={ready}",
                 f"--state_dir={state}", "--max_upload_bytes=64GiB", "--tuning_budget=0s", *options.flags]
        begin = time.monotonic()
        with open(log, "w", encoding="utf-8") as output:
            command = [*getattr(options, "server_command", ()), os.path.join(options.bin, "vicinal-server"), *flags]
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        while not (os.path.exists(ready) and os.path.getsize(ready)):
            if self.process.poll() is not None:
                with open(log, encoding="utf-8") as text:
                    raise RuntimeError("the server ended:\n" + text.read()[-4000:])
            time.sleep(0.002)
        with open(ready, encoding="utf-8") as file:
            self.address = json.load(file)["grpc"]
        while self.vicinal("health", check=False).returncode:
            time.sleep(0.002)
        self.seconds = time.monotonic() - begin
        with open(log, encoding="utf-8") as text:
            lines = [json.loads(line) for line in text if line.startswith("{")]
        self.loads = [float(line["seconds"]) for line in lines if line["message"] == "graph loaded"]
        self.devices = [line["device"] for line in lines if line["message"] == "engine device"]

    def vicinal(self, *arguments, check=True):
        command = [*getattr(self.options, "client_command", ()), os.path.join(self.options.bin, "vicinal"), *arguments]
        done = subprocess.run([*command, "--server", self.address], capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise RuntimeError(f"vicinal {' '.join(arguments)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(timeout=300):
            raise RuntimeError("the server did not end in order")


def prepare(options, state, folder):
    write_inputs(options, folder)
    server = Server(options, folder, state)
    graph, model = os.path.join(folder, "large.npz"), os.path.join(folder, "sum.json")
    server.vicinal("graph", "upload", graph, "--name", "large", "--reorder", options.reorder, "--wait_for", "durable")
    server.vicinal("model", "upload", model, "--weights", os.path.join(folder, "sum.safetensors"), "--name", "sum")
    server.stop()
    os.remove(graph)


def data_files(state):
    return sorted(os.path.join(where, name) for where, _, names in os.walk(state) for name in names if name.endswith(".vsec"))


def read_seconds(files):
    piece, begin = bytearray(4 << 20), time.monotonic()
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(piece):
                pass
    return time.monotonic() - begin


def drop(files):
    subprocess.run(["sync"], check=True)
    for path in files:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(options, state, folder, case, answers):
    files, reads, starts, loads, device = data_files(state), [], [], [], ""
    settle = drop if case == "cold" else read_seconds
    for _ in range(options.rounds):
        settle(files)
        reads.append(read_seconds(files))
        settle(files)
        server = Server(options, folder, state)
        starts.append(server.seconds)
        loads.extend(server.loads)
        device = server.devices[0]
        nodes = ",".join(str(i * (options.nodes // 16)) for i in range(16))
        answer = server.vicinal("classify", "--graph", "large", "--model", "sum", "--nodes", nodes, "--ids", "none", "--logits",
                                "--json").stdout
        answers.add(json.dumps(json.loads(answer)["logits"]))
        server.stop()
    if len(answers) != 1:
        raise RuntimeError("a restarted server gave other logits")
    ms = {name: round(statistics.median(values) * 1e3, 1) for name, values in (("start_to_ready_ms", starts), ("read_ms", reads))}
    return {"case": "cold" if case == "cold" else "page cache", "device": device, "nodes": options.nodes, "edges": options.edges,
            "features": options.features, "rounds": options.rounds, "bytes": sum(os.stat(file).st_blocks * 512 for file in files), **ms,
            "start_to_ready_least_ms": round(min(starts) * 1e3, 1), "start_to_ready_most_ms": round(max(starts) * 1e3, 1),
            "load_ms": round(statistics.median(loads) * 1e3, 1), "ratio": round(ms["start_to_ready_ms"] / ms["read_ms"], 3)}


def finish(options, rows):
    """Prints the rows, and writes them to the file of --json."""
    for row in rows:
        print(json.dumps(row), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"rows": rows}, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default="build/bundle/vicinal/bin", help="folder of vicinal-server and vicinal")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--nodes", type=int, default=1 << 23, help="a power of two")
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--features", type=int, default=60)
    parser.add_argument("--reorder", default="degree")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", default="cache,cold")
    parser.add_argument("--folder", default=None, help="scratch folder on the disk to measure; default: a temporary one")
    parser.add_argument("--state", default=None, help="prepared directory, made if missing, kept; default: a temporary one")
    parser.add_argument("--json", default=None, help="file for the results, for bench/results/record.py (state_start_h200)")
    parser.add_argument("flags", nargs="*", help="after --: more flags of the server")
    options = parser.parse_args()
    if options.nodes & (options.nodes - 1):
        parser.error("--nodes must be a power of two")
    folder = tempfile.mkdtemp(prefix="vicinal-bench-", dir=options.folder)
    try:
        state = options.state or os.path.join(folder, "state")
        if not os.path.exists(state):
            prepare(options, state, folder)
        answers = set()
        rows = [measure(options, state, folder, case, answers) for case in options.cases.split(",")]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    finish(options, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
