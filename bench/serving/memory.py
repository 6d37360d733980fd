#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of the server and of its GPU under 64 clients for a while: whether it stays flat.

  python3 bench/serving/memory.py --bin build/bench/bin [--device cuda:0] [--seconds 480] [--json OUT.json]

All methods of inference on Cora, random numbers of nodes, features in some requests. Sampled every second: resident memory, memory of the
GPU (nvidia-smi), reserved bytes, calls. A line is fitted to the second half, when caches are full. Needs numpy."""

import os
import subprocess
import sys
import time

import numpy as np

import pinned  # first: it says where the next ones are

import common

MIX = "classify=8,embed=2,classify_stream=1,embed_stream=1,classify_features=1,classify_rows=2,classify_graphs=1"


def parse_arguments():
    parser = pinned.parser(__doc__, "serving_memory")
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--clients", type=int, default=64)
    return parser.parse_args()


def gpu_bytes(device):
    if not device.startswith("cuda"):
        return 0
    number = device.partition(":")[2] or "0"
    shown = subprocess.run(["nvidia-smi", f"--id={number}", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                           capture_output=True, text=True, check=True).stdout  # fmt: skip
    return int(shown.strip()) << 20


def sample(server, device, begin):
    return (time.monotonic() - begin, server.rss_bytes(), gpu_bytes(device), server.metric("vicinal_memory_bytes"), server.descriptors(),
            server.metric("vicinal_requests_total"))  # fmt: skip


def growth(times, values):
    """Of a line through the second half: MiB an hour, and MiB over that half. Requests under way come and go: what grows shows in the least and
    the median of each quarter, too."""
    half = times >= times[-1] / 2
    slope = np.polyfit(times[half], values[half], 1)[0]
    quarters = [quarter / 2**20 for quarter in np.array_split(values, 4)]
    return {"mib_per_hour": round(slope * 3600 / 2**20, 1), "mib_in_second_half": round(slope * (times[-1] / 2) / 2**20, 2),
            "least_mib": round(float(values[half].min()) / 2**20, 1), "most_mib": round(float(values[half].max()) / 2**20, 1),
            "least_of_quarters_mib": [round(float(quarter.min()), 1) for quarter in quarters],
            "median_of_quarters_mib": [round(float(np.median(quarter)), 1) for quarter in quarters]}  # fmt: skip


def watch(server, cores, options):
    load = pinned.load_arguments(cores, options.clients, options.seconds + 60, 0, "--concurrency", str(options.clients), "--graph", "cora",
                                 "--model", "cora-gcn", "--mix", MIX, "--nodes", "1..2000", "--feature_rows", "20")  # fmt: skip
    samples, begin = [], time.monotonic()
    with pinned.beside(server, *load) as process:
        while time.monotonic() < begin + options.seconds:
            time.sleep(1)
            samples.append(sample(server, options.device, begin))
            if process.poll() is not None:
                raise RuntimeError(f"the load ended with status {process.returncode}")
    return np.array(samples, float)


def main():
    options = parse_arguments()
    cores = pinned.Cores(options.load_cores)
    with common.Scratch(options.folder) as folder:
        with pinned.server(cores, options, folder) as server:
            pinned.upload_cora(server, options)
            samples = watch(server, cores, options)
    times = samples[:, 0]
    rows = [{"memory": name, **growth(times, samples[:, column])} for column, name in ((1, "resident"), (2, "gpu"), (3, "reserved"))]
    rows.append({"memory": "all", "seconds": round(times[-1]), "calls": int(samples[-1, 5]), "descriptors": int(samples[:, 4].max())})
    common.finish(options, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
