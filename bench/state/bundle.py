# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share that run with a bundle (deploy/bundle.sh) and Python alone: inputs without numpy, a server as a process, its
data files, and options."""

import argparse
import json
import os
import signal
import subprocess
import time
import zipfile

PIECE = 1 << 24  # numbers that are made at once
FEATURE_BITS = 0xBF7FFFFF  # of a random float that is finite and below 2


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


def write_graph(path, nodes, edges, features):
    """A random graph: nodes are a power of two, features finite and below 2."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        write_array(archive, "edge_index", "<i4", (2, edges), nodes - 1)
        write_array(archive, "x", "<f4", (nodes, features), FEATURE_BITS)


def write_model(features, folder):
    """sum.json and sum.safetensors: a GraphConv whose weights are 1."""
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


def data_files(state):
    return sorted(os.path.join(where, name) for where, _, names in os.walk(state) for name in names if name.endswith(".vsec"))


def read_seconds(files):
    piece, begin = bytearray(4 << 20), time.monotonic()
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(piece):
                pass
    return time.monotonic() - begin


def parser(description, device, json_name=None):
    """The options of every benchmark. The rest, after --, are flags of the server."""
    made = argparse.ArgumentParser(description=description.split("\n")[0])
    made.add_argument("--bin", default="build/bundle/vicinal/bin", help="folder of vicinal-server and vicinal")
    made.add_argument("--device", default=device)
    made.add_argument("--folder", default=None, help="scratch folder on the disk to measure; default: a temporary one")
    made.add_argument("--json", default=None, help="file for the results" + (f", for bench/results/record.py ({json_name})" if json_name else ""))
    made.add_argument("flags", nargs="*", help="after --: more flags of the server")
    return made
