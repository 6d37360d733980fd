#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of the server and of its GPU under 64 clients for a while: whether it grows with requests, or with time.

  python3 bench/serving/memory.py --bin build/bench/bin [--device cuda:0] [--seconds 480] [--json OUT.json]

All methods of inference on Cora, random numbers of nodes, features in some requests. What requests under way hold comes and goes, the more so on a
busy machine. So the load rests every --round seconds until no call is under way, and memory is read then: what the allocator has handed out, what
is resident, what is reserved, what the GPU has. Every fourth round is silent, so that calls and time do not go hand in hand: a plane is fitted to
the readings after the first third, when caches are full, and its two slopes say how many bytes a million calls and an hour leave behind, each with
its standard error. "flat": neither slope is both larger than three of its standard errors and than 1 % of the memory in this run. Needs numpy."""

import os
import subprocess
import sys
import time

import numpy as np

import pinned  # first: it says where the next ones are

import common

MIX = "classify=8,embed=2,classify_stream=1,embed_stream=1,classify_features=1,classify_rows=2,classify_graphs=1"
MEMORIES = ("allocated", "resident", "reserved", "gpu")
SILENT = 4  # of so many rounds one


def parse_arguments():
    parser = pinned.parser(__doc__, "serving_memory")
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--round", type=float, default=20, help="seconds of load between two readings")
    parser.add_argument("--rest", type=float, default=2, help="seconds without a call before a reading")
    return parser.parse_args()


def gpu_bytes(device):
    if not device.startswith("cuda"):
        return 0
    number = device.partition(":")[2] or "0"
    shown = subprocess.run(["nvidia-smi", f"--id={number}", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                           capture_output=True, text=True, check=True).stdout  # fmt: skip
    return int(shown.strip()) << 20


def await_rest(server, seconds):
    """Until no call has been under way for so long."""
    quiet_since = None
    while quiet_since is None or time.monotonic() < quiet_since + seconds:
        busy = server.metric("vicinal_requests_in_flight") > 0
        quiet_since = None if busy else quiet_since or time.monotonic()
        time.sleep(0.2)


def reading(server, options, begin):
    """[seconds, calls, descriptors, bytes by MEMORIES...] of a server at rest."""
    await_rest(server, options.rest)
    allocated = sum(server.metric("process_allocator_bytes", f'kind="{kind}"') for kind in ("in_use", "mapped"))
    return [time.monotonic() - begin, server.metric("vicinal_requests_total"), server.descriptors(), allocated, server.rss_bytes(),
            server.metric("vicinal_memory_bytes"), gpu_bytes(options.device)]  # fmt: skip


def watch(server, cores, options):
    load = pinned.load_arguments(cores, options.clients, options.round + 600, 0, "--concurrency", str(options.clients), "--graph", "cora",
                                 "--model", "cora-gcn", "--mix", MIX, "--nodes", "1..2000", "--feature_rows", "20")  # fmt: skip
    readings, begin, number = [], time.monotonic(), 0
    while time.monotonic() < begin + options.seconds:
        number += 1
        if number % SILENT == 0:
            time.sleep(options.round)
        else:
            with pinned.beside(server, *load) as process:
                time.sleep(options.round)
                if process.poll() is not None:
                    raise RuntimeError(f"the load ended with status {process.returncode}")
        readings.append(reading(server, options, begin))
        print(f"{readings[-1][0]:6.0f} s {readings[-1][1]:9.0f} calls", *(f"{name} {value / 2**20:.1f} MiB" for name, value in
              zip(MEMORIES, readings[-1][3:])), file=sys.stderr, flush=True)  # fmt: skip
    return np.array(readings, float)


def slopes(times, calls, values):
    """Bytes for each call and each second, and their standard errors: least squares."""
    table = np.column_stack([np.ones(len(times)), calls - calls[0], times - times[0]])
    found = np.linalg.lstsq(table, values, rcond=None)[0]
    left = values - table @ found
    freedom = max(1, len(times) - 3)
    errors = np.sqrt(np.diag(np.linalg.pinv(table.T @ table)) * (left @ left) / freedom)
    return found[1:], errors[1:]


def growth(name, readings, values):
    later = readings[:, 0] >= readings[-1, 0] / 3
    times, calls, values = readings[later, 0], readings[later, 1], values[later]
    (of_call, of_second), (call_error, second_error) = slopes(times, calls, values)
    flat = True
    for slope, error, extent in ((of_call, call_error, calls[-1] - calls[0]), (of_second, second_error, times[-1] - times[0])):
        flat = flat and (slope <= 3 * error or slope * extent <= 0.01 * values[-1])
    mib = 2**20
    return {"memory": name, "flat": bool(flat), "mib_per_million_calls": round(of_call * 1e6 / mib, 3),
            "error_of_it": round(call_error * 1e6 / mib, 3), "mib_per_hour": round(of_second * 3600 / mib, 3),
            "error_of_that": round(second_error * 3600 / mib, 3), "first_mib": round(values[0] / mib, 1), "last_mib": round(values[-1] / mib, 1),
            "least_mib": round(float(values.min()) / mib, 1), "most_mib": round(float(values.max()) / mib, 1)}  # fmt: skip


def main():
    options = parse_arguments()
    cores = pinned.Cores(options.load_cores)
    with common.Scratch(options.folder) as folder:
        with pinned.server(cores, options, folder) as server:
            pinned.upload_cora(server, options)
            readings = watch(server, cores, options)
    shown = MEMORIES if options.device.startswith("cuda") else MEMORIES[:-1]
    rows = [growth(name, readings, readings[:, 3 + i]) for i, name in enumerate(shown)]
    rows.append({"memory": "all", "seconds": round(readings[-1, 0]), "calls": int(readings[-1, 1]), "descriptors_at_rest": int(readings[:, 2].max()),
                 "readings": [[int(value) for value in line] for line in readings]})  # fmt: skip
    common.finish(options, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
