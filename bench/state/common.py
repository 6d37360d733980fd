# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of durable state share: a server as a process, seeded graphs and one model, medians and quantiles.

They need numpy, the Python package of client/python (PYTHONPATH=build/release/client/python/installed, or installed) and
the programs of a build (--bin)."""

import argparse
import json
import os
import re
import signal
import subprocess
import time
import urllib.request

import numpy as np

from bench.state.scratch import Scratch, finish  # used as common.Scratch and common.finish

CLASSES = 4
DURABILITY_DURABLE = 3  # of vicinal.v1.Durability


def parser(description, json_name):
    """The options of every benchmark."""
    made = argparse.ArgumentParser(description=description.split("\n")[0])
    made.add_argument("--bin", default="build/release/bin", help="folder of vicinal-server and vicinal")
    made.add_argument("--folder", default=None, help="scratch folder on the disk to measure; default: a temporary one")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--json", default=None, help=f"file for the results, for bench/results/record.py ({json_name})")
    return made


class Server:
    """vicinal-server on free ports, from the time `begin` of its exec; it answers once this object is there."""

    def __init__(self, options, folder, *flags, name="server"):
        self.bin, self.folder, self.name = options.bin, folder, name
        self.flags = ["--device=cpu", "--grpc_listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0", *flags]
        self.process = None
        self.start()

    def program(self):
        return os.path.join(self.bin, "vicinal-server")

    def start(self, timeout=600):
        ready = os.path.join(self.folder, self.name + ".ready.json")
        if os.path.exists(ready):
            os.remove(ready)
        self.log = os.path.join(self.folder, self.name + ".log")
        self.begin = time.monotonic()
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([self.program(), f"--ready_file={ready}", *self.flags],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while not (os.path.exists(ready) and os.path.getsize(ready)):
            if self.process.poll() is not None or time.monotonic() > self.begin + timeout:
                self.kill()
                with open(self.log, encoding="utf-8") as log:
                    raise RuntimeError("the server did not become ready:\n" + log.read()[-4000:])
            time.sleep(0.002)
        with open(ready, encoding="utf-8") as file:
            addresses = json.load(file)
        self.grpc, self.metrics = addresses["grpc"], addresses["metrics"]

    def stop(self):
        """SIGTERM, and an orderly end."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=120)
        if status != 0:
            raise RuntimeError(f"the server ended with status {status}; see {self.log}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()

    def vicinal(self, *arguments):
        """The command line with --json; its document."""
        done = subprocess.run([os.path.join(self.bin, "vicinal"), *arguments, "--server", self.grpc, "--json"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"vicinal {' '.join(arguments)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def metric(self, name, label=""):
        """The sum over all series of a metric that have this label, such as kind="free"; by default over all."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as page:
            text = page.read().decode("utf-8")
        series = re.findall(rf"^{name}({{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for labels, value in series if label in labels)

    def rss_bytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="utf-8") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def log_lines(self):
        with open(self.log, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.startswith("{")]


def random_graph(seed, nodes, edges, features):
    """edge_index int32 [2, E] with skewed sources, x float32 [N, F]. A few sources have most of the edges, as in real graphs."""
    random = np.random.default_rng(seed)
    edge_index = np.empty((2, edges), np.int32)
    for begin in range(0, edges, 1 << 24):
        count = min(1 << 24, edges - begin)
        edge_index[0, begin:begin + count] = nodes * random.random(count, np.float32).astype(np.float64) ** 2
        edge_index[1, begin:begin + count] = random.integers(0, nodes, count, np.int32)
    return edge_index, random.standard_normal((nodes, features), np.float32)


def safetensors(tensors):
    header, data = {}, b""
    for name, value in tensors.items():
        raw = np.ascontiguousarray(value, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def write_safetensors(path, tensors):
    with open(path, "wb") as file:
        file.write(safetensors(tensors))


def sum_model(features):
    """One GraphConv that sums, all weights 1: architecture and weights. An answer is a sum of small integers where features are."""
    layer = {"name": "conv", "type": "GraphConv", "args": {"in_channels": features, "out_channels": CLASSES, "bias": False}}
    ones = np.ones((CLASSES, features))
    return ({"format": "vicinal.model/1", "in_channels": features, "layers": [layer]},
            safetensors({"conv.lin_rel.weight": ones, "conv.lin_root.weight": ones}))


def wait_until_durable(get, name, seconds=0.002):
    """Until the graph or model that `get(name)` gives (client.get_graph, client.get_model) is DURABLE."""
    while get(name).raw.durability != DURABILITY_DURABLE:
        time.sleep(seconds)


def median(values):
    return float(np.median(values))


def quantiles_ms(seconds):
    """Count, median, p99 and maximum of times, in milliseconds."""
    if not len(seconds):
        return {"count": 0}
    ms = np.asarray(seconds) * 1e3
    return {"count": len(ms), "median_ms": round(float(np.median(ms)), 3), "p99_ms": round(float(np.quantile(ms, 0.99)), 3),
            "max_ms": round(float(ms.max()), 3)}


def disk_bytes(folder, suffix=".vsec"):
    """Files of a folder with that suffix, and the bytes that they take on the disk (they have holes)."""
    files = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names if name.endswith(suffix)]
    return sorted(files), sum(os.stat(file).st_blocks * 512 for file in files)
