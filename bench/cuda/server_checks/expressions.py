# SPDX-License-Identifier: Apache-2.0
"""Models with ever new expressions come and go, and memory stays flat. A server of its own."""

import json
import os
import subprocess
import time

import numpy as np

from bench.cuda.server_checks.served import Server
from bench.state import common


def memory_of(server):
    """Bytes of the server's own host memory, and of all that is used on its GPU."""
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as file:
        host = next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))
    if server.device == "cpu":
        return host, 0
    index = server.device.partition(":")[2] or "0"
    used = subprocess.run(["nvidia-smi", f"--id={index}", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    return host, int(used.stdout) << 20


def serve_once(server, number):
    """Uploads a model whose expression no other number has, asks it, deletes it. Returns the answer's bytes."""
    layer = {"name": "own", "type": "MessagePassing", "args": {
        "message": f"s = tanh(x_j * x_i + {0.01 * (number + 1):.2f}); s / (1 + abs(x_j - x_i))", "aggr": "sum", "update": "linear(aggr, out)"}}
    with open(os.path.join(server.folder, "own.json"), "w", encoding="utf-8") as file:
        json.dump({"format": "vicinal.model/1", "in_channels": 12, "layers": [layer]}, file)
    common.write_safetensors(os.path.join(server.folder, "own.safetensors"), {"own.out.weight": np.linspace(-1, 1, 60).reshape(5, 12)})
    server.call("model", "upload", "own.json", "--weights", "own.safetensors", "--name", f"own-{number}")
    forced = [] if server.device == "cpu" else ["--kernel", "expression=edge_programs:compile=1"]
    answer, _ = server.matrix("own", "classify", "--graph", "tiny", "--model", f"own-{number}", "--logits", *forced)
    server.call("model", "delete", f"own-{number}")
    return answer.tobytes()


def come_and_go(checks, folder, options, data, programs=60, rounds=4):
    """Models with ever new expressions: their kernels leave the device and the host. Later rounds read kernels that the first one
    compiled, so that there are many in little time; each is loaded and unloaded again."""
    device = options.devices.split(",")[0]
    server = Server(os.path.join(folder, "expressions"), options.bin, device, "--tuning_budget=0s",
                    f"--state_dir={os.path.join(folder, 'expressions-state')}")  # fmt: skip

    def body():
        server.call("graph", "upload", os.path.join(data, "graphs", "tiny.npz"), "--name", "tiny")
        begin = time.monotonic()
        answers = [serve_once(server, number) for number in range(programs)]
        compiling, first = time.monotonic() - begin, memory_of(server)
        same = all([serve_once(server, number) for number in range(programs)] == answers for _ in range(rounds - 1))
        last = memory_of(server)
        counts = {outcome: int(server.metric("vicinal_kernel_compilations_total", f'"{outcome}"'))
                  for outcome in ("compiled", "kept", "failed", "unloaded")}  # fmt: skip
        loaded = counts["compiled"] + counts["kept"] - counts["unloaded"]
        grown = [after - before for before, after in zip(first, last)]
        checks.add(f"memory of {device} and its host is flat while models with {programs} expressions come and go {rounds} times",
                   same and len(set(answers)) == programs and grown[0] < 24 << 20 and grown[1] <= 8 << 20 and loaded <= 20
                   and (device == "cpu" or counts["compiled"] == programs),
                   host_growth=grown[0], device_growth=grown[1], host=last[0], device=last[1], loaded=loaded,
                   first_round_seconds=round(compiling, 1), same=same, **counts)  # fmt: skip

    checks.attempt("expressions that come and go", body)
    status = server.stop()
    checks.add(f"clean stop on {device} after them", status == 0, status=status)
