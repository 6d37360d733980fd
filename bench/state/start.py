#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the start of a server to READY with one large graph in its state directory: from the page cache, and cold.

  PYTHONPATH=build/release/client/python/installed python3 bench/state/start.py --json start.json

Each round first reads the state directory's data files, which is the floor, and then starts the server: both with the files
in the page cache, or both after they were dropped from it (posix_fadvise; --drop_caches: all caches, as root). The floor is
dd, and a process that reads the files once into new memory, which a virtual machine may first have to get from its host. The
answer after each start must have the bits of the first one. --state keeps and reuses the prepared directory."""

import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import numpy as np

import vicinal
from bench.state import common


def prepare(options, state, folder):
    """Uploads the graph and its model to a server that writes `state`."""
    edge_index, x = common.random_graph(options.seed, options.nodes, options.edges, options.features)
    with common.Server(options, folder, f"--state_dir={state}", "--max_upload_bytes=64GiB", "--tuning_budget=0s") as server:
        with vicinal.Client(server.grpc, chunk_bytes=4 << 20) as client:
            begin = time.monotonic()
            client.upload_graph("large", edge_index, x=x, reorder=options.reorder)
            ready = time.monotonic()
            client.upload_model("sum", *common.sum_model(options.features))
            common.wait_until_durable(client.get_graph, "large")
            print(f"uploaded and prepared in {ready - begin:.0f} s, durable {time.monotonic() - ready:.1f} s later", flush=True)
        server.stop()


def drop(files, options):
    subprocess.run(["sync"], check=True)
    if options.drop_caches:
        with open("/proc/sys/vm/drop_caches", "w", encoding="utf-8") as file:
            file.write("3")
        return
    for path in files:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def read_seconds(files):
    """The floor: dd of all files, one after the other."""
    begin = time.monotonic()
    for path in files:
        subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=4M"], check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


def read_into_memory_seconds(files):
    """A second floor: a process reads all files once into new memory of their size, as any program must that keeps them."""
    code = ("import mmap, sys\n"
            "for path in sys.argv[1:]:\n"
            "    with open(path, 'rb', buffering=0) as file:\n"
            "        size = file.seek(0, 2)\n"
            "        file.seek(0)\n"
            "        memory = mmap.mmap(-1, size)\n"
            "        memory.madvise(mmap.MADV_HUGEPAGE)\n"
            "        view, done = memoryview(memory), 0\n"
            "        while done < size:\n"
            "            done += file.readinto(view[done:done + (4 << 20)])\n")
    begin = time.monotonic()
    subprocess.run([sys.executable, "-S", "-c", code, *files], check=True)
    return time.monotonic() - begin


def start_once(options, state, folder):
    """Seconds from exec to READY, of the graph's load alone, and the logits of a few nodes."""
    log = os.path.join(folder, "start.log")
    if os.path.exists(log):
        os.remove(log)
    with common.Server(options, folder, f"--state_dir={state}", f"--threads={options.threads}", name="start") as server:
        with vicinal.Client(server.grpc) as client:
            client.watch_graph("large")
            seconds = time.monotonic() - server.begin
            nodes = np.arange(0, options.nodes, options.nodes // 16)
            answer = client.classify("large", "sum", nodes, logits=True).logits.tobytes()
        load = [float(line["seconds"]) for line in server.log_lines() if line["message"] == "graph loaded"]
        server.stop()
    return seconds, load[0], answer


def measure(options, state, folder, cold, first):
    files, size = common.disk_bytes(state)
    floors, copies, starts, loads = [], [], [], []

    def settle():
        if cold:
            drop(files, options)
        else:
            read_seconds(files)  # into the page cache

    for _ in range(options.rounds):
        for read, times in ((read_seconds, floors), (read_into_memory_seconds, copies)):
            settle()
            times.append(read(files))
        settle()
        seconds, load, answer = start_once(options, state, folder)
        starts.append(seconds)
        loads.append(load)
        if first.setdefault("answer", answer) != answer:
            raise RuntimeError("a restarted server gave other bits")
    return {"case": "cold" if cold else "page cache", "nodes": options.nodes, "edges": options.edges, "features": options.features,
            "order": options.reorder, "threads": options.threads, "rounds": options.rounds, "bytes": size,
            "start_to_ready_ms": round(common.median(starts) * 1e3, 1),
            "start_to_ready_least_ms": round(min(starts) * 1e3, 1), "start_to_ready_most_ms": round(max(starts) * 1e3, 1),
            "load_ms": round(common.median(loads) * 1e3, 1), "read_ms": round(common.median(floors) * 1e3, 1),
            "read_into_memory_ms": round(common.median(copies) * 1e3, 1),
            "ratio": round(common.median(np.array(starts) / np.array(floors)), 3),
            "ratio_into_memory": round(common.median(np.array(starts) / np.array(copies)), 3)}


def main():
    parser = common.parser(__doc__, "state_start_cpu")
    parser.add_argument("--nodes", type=int, default=8_000_000)
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--reorder", default="degree")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", default="cache,cold")
    parser.add_argument("--state", default=None, help="prepared directory, made if missing, kept; default: a temporary one")
    parser.add_argument("--drop_caches", action="store_true", help="drop all caches of the machine, not only these files (root)")
    options = parser.parse_args()
    with common.Scratch(options.folder) as folder:
        state = options.state or os.path.join(folder, "state")
        if not os.path.exists(state):
            try:
                prepare(options, state, folder)
            except BaseException:
                shutil.rmtree(state, ignore_errors=True)  # half prepared
                raise
        first = {}
        common.finish(options, [measure(options, state, folder, case == "cold", first) for case in options.cases.split(",")])


if __name__ == "__main__":
    main()
