# SPDX-License-Identifier: Apache-2.0
"""Models with ever new expressions come and go, and memory stays flat; expressions are tuned, with equal bits. Servers of their own."""

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


TUNED_NODES, TUNED_EDGES, TUNED_COLUMNS = 20_000, 400_000, 64
# Of values that meet column by column, and with a product per edge; another one to stop with.
TUNED_MESSAGES = {"columns": ("tanh(x_j * x_i) / (1 + abs(x_j - x_i))", "mean"), "product": ("linear(tanh(x_i * x_j), w) * x_j", "max")}
STOPPED = {"stopped": ("tanh(x_j - x_i) * abs(x_j * x_i)", "sum")}


def write_tuned(folder):
    """A graph, and a model per message. Files by name, in `folder`."""
    numbers = np.random.default_rng(11)
    np.savez(os.path.join(folder, "tuned.npz"), edge_index=numbers.integers(0, TUNED_NODES, (2, TUNED_EDGES)),
             x=numbers.standard_normal((TUNED_NODES, TUNED_COLUMNS)).astype(np.float32))  # fmt: skip
    for name, (message, aggr) in {**TUNED_MESSAGES, **STOPPED}.items():
        layer = {"name": "own", "type": "MessagePassing", "args": {"message": message, "aggr": aggr}}
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
            json.dump({"format": "vicinal.model/1", "in_channels": TUNED_COLUMNS, "layers": [layer]}, file)
        weights = {"own.w": numbers.standard_normal((TUNED_COLUMNS, TUNED_COLUMNS)).astype("<f4")} if "w)" in message else {}
        common.write_safetensors(os.path.join(folder, name + ".safetensors"), weights)


def expression_records(server):
    """What the graph knows of message functions."""
    return [r for r in server.call("graph", "tune", "tuned", "--show").get("records", []) if r["key"]["operation"] == "expression"]


def state_of(server, model, name):
    """The bits of all nodes, the revision that served a node, and the step that computes the message."""
    values, _ = server.matrix(name, "classify", "--logits", "--graph", "tuned", "--model", model)
    plain = server.call("classify", "--graph", "tuned", "--model", model, "--nodes", "5")
    said = server.call("graph", "explain", "tuned", "--model", model)
    step = next(s for s in said.get("plan", said)["steps"] if s.get("operation") == "expression")
    return values, plain["served_by"]["numerics_revision"], step


def settings(parameters):
    """Those that are not the kernel's own."""
    return {p["name"]: p["value"] for p in parameters or [] if p.get("value", 0) != 0}


def chosen_of(record):
    return next((settings(c.get("parameters")) for c in record.get("candidates", []) if c.get("outcome") == "CHOSEN"), None)


def median_us(server, model, *forced):
    trips = sorted(server.call("classify", "--graph", "tuned", "--model", model, "--nodes", "5", "--receptive_field", "never",
                               "--repeat", "40", *forced)["round_trip_seconds"])  # fmt: skip
    return round(1e6 * trips[len(trips) // 2])


def tuned_in_background(checks, server, model):
    """Uploads the model, asks it all the while, and waits until tuning has ended."""
    known = len(expression_records(server))
    server.call("model", "upload", model + ".json", "--weights", model + ".safetensors", "--name", model)
    interpreted = [] if server.device == "cpu" else ["--kernel", "expression=edge_programs:compile=-1"]
    before, _ = server.matrix("before", "classify", "--logits", "--graph", "tuned", "--model", model, *interpreted)
    began, trips, record = time.monotonic(), [], {}
    while time.monotonic() < began + 60 and record.get("state") not in ("TUNED", "FAILED"):
        trips += server.call("classify", "--graph", "tuned", "--model", model, "--nodes", "5,7", "--repeat", "20")["round_trip_seconds"]
        records = expression_records(server)
        record = records[known] if len(records) > known else {}
    seconds = time.monotonic() - began
    after, revision, step = state_of(server, model, "after")
    candidates = record.get("candidates", [])
    checks.add(f"the expression {model} is tuned on {server.device} in the background, with equal bits",
               record.get("state") == "TUNED" and before.tobytes() == after.tobytes() and 2 <= len(candidates) <= 5
               and max(trips) < 1.0,
               seconds=round(seconds, 1), state=record.get("state"), gain=round(record.get("gain", 0), 3), note=record.get("note", ""),
               chosen=chosen_of(record), slowest_request_ms=round(1e3 * max(trips), 1), requests=len(trips), why_interpreted=step.get("refusals", []),
               tried_us=[(settings(c.get("parameters")), round(1e6 * c.get("measured_seconds", 0), 1)) for c in candidates])  # fmt: skip
    return before, revision, record.get("key", {}).get("program")


def chosen_again(checks, server, model, before, revision, program):
    """Reset, asked for, and forced: equal bits, and one numerics revision for all."""
    tune = ["graph", "tune", "tuned", "--operation", "expression", *(["--programs", program] if program else [])]
    kernel = "edge_tiles:edge_tile=96" if server.device == "cpu" else "edge_programs:edge_tile=16"
    seen = {}
    for name, how in (("reset", ["--reset"]), ("measured", []), ("forced", ["--force", kernel])):
        server.call(*tune, *how)
        values, served, step = state_of(server, model, name)
        seen[name] = (values.tobytes() == before.tobytes() and served == revision, median_us(server, model), chosen_of(step.get("tuning", {})))
    checks.add(f"the expression {model} reset, measured when asked, and forced on {server.device}: equal bits, one numerics revision",
               all(same for same, _, _ in seen.values()), revision=revision, **{name: seen[name] for name in seen})  # fmt: skip


def stops_while_compiling(checks, server):
    """The server is told to stop while kernels for a tuning are being compiled."""
    server.call("model", "upload", "stopped.json", "--weights", "stopped.safetensors", "--name", "stopped")
    server.call("classify", "--graph", "tuned", "--model", "stopped", "--nodes", "5")
    states = [r.get("state") for r in expression_records(server)]
    began = time.monotonic()
    status = server.stop()
    seconds = time.monotonic() - began
    checks.add(f"clean stop on {server.device} while expressions are tuned", status == 0 and seconds < 10, status=status,
               seconds=round(seconds, 2), states=states)  # fmt: skip


def tuned(checks, folder, options):
    """Message functions are tuned on the first device, in the background and when asked; nobody waits for the compiler."""
    device = options.devices.split(",")[0]
    server = Server(os.path.join(folder, "expression-tuning"), options.bin, device, "--keep_answers=never")

    def body():
        write_tuned(server.folder)
        server.call("graph", "upload", "tuned.npz", "--name", "tuned", "--reorder", "none")
        for model in TUNED_MESSAGES:
            before, revision, program = tuned_in_background(checks, server, model)
            chosen_again(checks, server, model, before, revision, program)
        if device != "cpu":
            counts = {outcome: int(server.metric("vicinal_kernel_compilations_total", f'"{outcome}"')) for outcome in ("compiled", "failed")}
            checks.add("kernels were compiled for tuning", counts["failed"] == 0 and counts["compiled"] >= 2 * len(TUNED_MESSAGES), **counts)

    checks.attempt("tuned expressions", body)
    checks.attempt("a stop while expressions are tuned", lambda: stops_while_compiling(checks, server))
