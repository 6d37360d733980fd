#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server on a GPU through gRPC: every inference method, answers beside those of the server on the CPU of the same
machine, and latency.

  python3 bench/cuda/server_check.py --bin bin --data tests/data --json server.json

Starts one server per device on free ports. Uploads the same graphs and models, with float64 reference answers that the
server checks. Sends the same requests to both and compares the answers: relative L2 at most 5e-6, and equal bits if a
request is repeated at the same numerics revision. The command line uses unary methods for few nodes and streams for
all. Exit status 1: a check failed."""

import argparse
import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import numpy as np

from bench.state import common

TOLERANCE = 5e-6  # either device is within 2e-6 of float64
NARROW_TOLERANCE = 2e-2
FEW = "0,5,9,17,100,1000,2000,2500,2600,2707"


class Server:
    """vicinal-server on a device, until stop()."""

    def __init__(self, folder, bin_folder, device, *flags):
        self.bin, self.device, self.folder = bin_folder, device, folder
        os.makedirs(folder)
        ready = os.path.join(folder, "ready.json")
        with open(os.path.join(folder, "server.log"), "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [os.path.join(bin_folder, "vicinal-server"), f"--device={device}", "--grpc_listen=127.0.0.1:0",
                 "--metrics_listen=127.0.0.1:0", f"--ready_file={ready}", *flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # fmt: skip
        deadline = time.monotonic() + 60
        while not (os.path.exists(ready) and os.path.getsize(ready)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError(f"the server on {device} did not start:\n{self.log()}")
            time.sleep(0.05)
        with open(ready, encoding="utf-8") as file:
            addresses = json.load(file)
        self.address, self.metrics = addresses["grpc"], addresses["metrics"]

    def log(self):
        with open(os.path.join(self.folder, "server.log"), encoding="utf-8") as file:
            return file.read()

    def call(self, *arguments):
        """Runs the command line against this server. Returns its JSON, or raises RuntimeError with its output."""
        command = [os.path.abspath(os.path.join(self.bin, "vicinal")), "--server", self.address, "--json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, check=False, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()[-400:]}")
        return json.loads(done.stdout)

    def metric(self, name, label=""):
        """The sum of a metric's values over its labels, or of those with that label: `kind="graphs"`."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=30) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(re.escape(name) + r"[ {]", line) and label in line)

    def matrix(self, name, *arguments):
        """The main matrix of an answer, written with --out."""
        path = os.path.join(self.folder, name + ".npy")
        answer = self.call(*arguments, "--out", path)
        return np.load(path), answer

    @contextlib.contextmanager
    def loaded(self, *arguments):
        """Other clients meanwhile: `vicinal load` with these arguments."""
        command = [os.path.abspath(os.path.join(self.bin, "vicinal")), "load", "--server", self.address, "--json", *arguments]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder) as load:
            try:
                yield
            finally:
                load.terminate()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return -9


class Checks:
    def __init__(self):
        self.results = []

    def add(self, name, ok, **more):
        self.results.append({"check": name, "ok": bool(ok), **more})
        said = ", ".join(f"{key} {value}" for key, value in more.items())
        print(f"{'ok  ' if ok else 'FAIL'} {name}{': ' + said if said else ''}", flush=True)

    def attempt(self, name, body):
        """Runs `body`, which adds checks. An exception counts as a failed check."""
        try:
            body()
        except (RuntimeError, subprocess.TimeoutExpired, OSError, KeyError, ValueError) as error:
            self.add(name, False, error=str(error)[:500])

    def failed(self):
        return sum(not result["ok"] for result in self.results)


def relative_l2(got, want):
    if got.shape != want.shape or not np.isfinite(got).all():
        return float("inf")
    norm = np.linalg.norm(want.astype(np.float64))
    return float(np.linalg.norm(got.astype(np.float64) - want) / norm) if norm else 0.0


def takes_rows(server):
    """Forces kernels that can compute any rows. Tuning may have selected one for whole graphs only, whose plans have no
    receptive fields, and may publish another order of evaluation in the meantime."""
    return [] if server.device == "cpu" else ["--kernel", "aggregate=binned_rows", "--kernel", "attention=fused_rows"]


def compare(checks, servers, name, arguments, tolerance=TOLERANCE, first_only=()):
    """Sends the same request to every server; to the first one twice, with `first_only`."""

    def body():
        file = name.replace(" ", "_").replace(",", "").replace("/", "_")
        first, answer = servers[0].matrix(file, *arguments, *first_only)
        again, second = servers[0].matrix(file, *arguments, *first_only)
        # Tuning may publish another order in the meantime, which then has another numerics revision.
        revisions = [a["served_by"]["numerics_revision"] for a in (answer, second)]
        same = first.tobytes() == again.tobytes()
        checks.add(f"{name}, the same bits again", same or revisions[0] != revisions[1], revisions=revisions)
        for other in servers[1:]:
            want, _ = other.matrix(file, *arguments)
            error = relative_l2(first, want)
            checks.add(f"{name}, {servers[0].device} by {other.device}", error <= tolerance, relative_l2=f"{error:.2g}")

    checks.attempt(name, body)


def receptive_fields(checks, server, arguments, model):
    """Checks that answers of a few nodes from their receptive field have the bits of the full graph's."""

    def body():
        for nodes in ("5", FEW):
            more = ["--nodes", nodes, *takes_rows(server), "--receptive_field"]
            field, answer = server.matrix(f"field_{model}", *arguments, *more, "always")
            full, other = server.matrix(f"full_{model}", *arguments, *more, "never")
            revisions = [a["served_by"]["numerics_revision"] for a in (answer, other)]
            same = field.shape == full.shape and field.tobytes() == full.tobytes()
            checks.add(f"{model}, receptive field of {nodes.count(',') + 1} nodes, the bits of the full graph",
                       same and revisions[0] == revisions[1], revisions=revisions)  # fmt: skip

    checks.attempt(f"receptive fields of {model}", body)


def upload_models(checks, servers, data, graph, models):
    """Uploads each model with its reference answers, which the server checks. Returns the names of those uploaded."""
    there = []
    for name in models:
        stem = os.path.join(data, "models", name)
        file = stem + ".vicinal.json" if os.path.exists(stem + ".vicinal.json") else stem + ".json"
        arguments = ["model", "upload", file, "--weights", stem + ".safetensors", "--name", name.replace("_", "-")]
        if graph:
            arguments += ["--reference", stem + ".reference.safetensors", "--reference_graph", graph]

        def body():
            for server in servers:
                answer = server.call(*arguments)
                checks.add(f"model {name} on {server.device}", True, **reference_error(answer))
            there.append(name.replace("_", "-"))

        checks.attempt(f"model {name}", body)
    return there


def reference_error(answer):
    """The errors that the server reports for the comparison with the reference answers, if it reports any."""
    for key, value in answer.items():
        if "reference" in key and isinstance(value, dict):
            return {k: f"{v:.2g}" for k, v in value.items() if isinstance(v, float)}
    return {}


def quick_start(checks, servers, data):
    """Cora as in deploy/quickstart.sh, then every kind of request about nodes."""
    graph_file = os.path.join(data, "graphs", "cora.npz")
    for server in servers:
        server.call("graph", "upload", graph_file, "--name", "cora")
    upload_models(checks, servers, data, "cora", ["cora-gcn", "cora-gat", "cora-sage", "cora-sagemax", "cora-gin"])
    on_cora = ["--graph", "cora", "--model", "cora-gcn"]

    def accuracy():
        for server in servers:
            said = server.call("classify", *on_cora, "--labels", graph_file, "--mask", "test_mask")["accuracy"]
            checks.add(f"quick start on {server.device}", said == {"right": 795, "counted": 1000}, accuracy=said)

    checks.attempt("quick start", accuracy)
    compare(checks, servers, "Classify", ["classify", *on_cora, "--nodes", FEW, "--logits"])
    compare(checks, servers, "ClassifyStream", ["classify", *on_cora, "--logits"])
    compare(checks, servers, "Embed", ["embed", *on_cora, "--nodes", FEW])
    compare(checks, servers, "EmbedStream", ["embed", *on_cora])
    for decoder in ("dot", "cosine"):
        more = ["--decoder", decoder]
        compare(checks, servers, f"PredictLinks by {decoder}", ["predict-links", *on_cora, "--sources", FEW, "--targets", FEW, *more])
        compare(checks, servers, f"PredictLinks of all edges by {decoder}", ["predict-links", *on_cora, "--all_edges", *more])
        compare(checks, servers, f"TopLinks by {decoder}", ["top-links", *on_cora, "--nodes", FEW, "--exclude_links", *more])
    for when in ("always", "never"):
        more = ["--nodes", FEW, "--logits", "--receptive_field", when]
        compare(checks, servers, f"Classify, receptive field {when}", ["classify", *on_cora, *more],
                first_only=takes_rows(servers[0]))  # fmt: skip
    for model in ("cora-gcn", "cora-gat", "cora-sage", "cora-sagemax", "cora-gin"):
        receptive_fields(checks, servers[0], ["classify", "--graph", "cora", "--model", model, "--logits"], model)
    compare(checks, servers, "Classify, features in the request",
            ["classify", *on_cora, "--nodes", FEW, "--logits", "--features", graph_file])  # fmt: skip
    for model in ("cora-gat", "cora-sage", "cora-sagemax", "cora-gin"):
        compare(checks, servers, f"ClassifyStream of {model}", ["classify", "--graph", "cora", "--model", model, "--logits"])
    for precision in ("bfloat16", "float16"):
        compare(checks, servers, f"ClassifyStream in {precision}",
                ["classify", *on_cora, "--logits", "--precision", precision], NARROW_TOLERANCE)  # fmt: skip
    for precision in ("tf32", "bfloat16", "float16"):
        compare(checks, servers, f"ClassifyStream, products in {precision}",
                ["classify", *on_cora, "--logits", "--product_precision", precision], NARROW_TOLERANCE)  # fmt: skip


def small_graphs(checks, servers, data):
    upload_models(checks, servers, data, None, ["proteins-ginpool"])
    batch = os.path.join(data, "graphs", "proteins.npz")
    compare(checks, servers, "ClassifyGraphs", ["classify-graphs", batch, "--model", "proteins-ginpool", "--logits"])
    for server in servers:
        beside_others(checks, server, ["classify-graphs", batch, "--model", "proteins-ginpool", "--logits"])


def message_functions(checks, servers, data):
    """Message functions of published models as expressions, on a directed graph with features of edges."""
    for server in servers:
        server.call("graph", "upload", os.path.join(data, "graphs", "tiny.npz"), "--name", "tiny")
    for path in sorted(glob.glob(os.path.join(data, "layers", "message-*.reference.safetensors"))):
        stem = path[: -len(".reference.safetensors")]
        name = os.path.basename(stem)

        def body():
            for server in servers:
                answer = server.call("model", "upload", stem + ".json", "--weights", stem + ".safetensors", "--name", name,
                                     "--reference", path, "--reference_graph", "tiny")  # fmt: skip
                checks.add(f"{name} on {server.device}", True, **reference_error(answer))

        checks.attempt(f"model {name}", body)
        on_tiny = ["classify", "--graph", "tiny", "--model", name, "--logits"]
        compare(checks, servers, f"{name}, Classify", on_tiny)

        def field():
            for server in servers:
                # On a GPU, plans that read out-edges have no receptive field (docs/layers.md).
                when = "auto" if name == "message-outdegrees" and server.device != "cpu" else "always"
                some, _ = server.matrix("some", *on_tiny, "--nodes", "3,77,119,0", "--receptive_field", when)
                full, _ = server.matrix("full", *on_tiny, "--nodes", "3,77,119,0", "--receptive_field", "never")
                checks.add(f"{name} on {server.device}, a receptive field has the bits of the full graph",
                           some.tobytes() == full.tobytes())  # fmt: skip

        checks.attempt(f"receptive field of {name}", field)


def edge_set_runs(server, name, days):
    """Answers by edge feature sets, in turns so that recorded runs meet each other's inputs: how many, and how many with the bits of graphs
    that have the same features of their own."""
    tried = same = 0
    for nodes in ([], ["--nodes", "3,77,119,0", "--receptive_field", "always"]):
        asked = ["--model", name, "--logits", *nodes]
        try:
            expected = {day: server.matrix("own", "classify", "--graph", day, *asked)[0].tobytes() for day in days}
        except RuntimeError:
            continue  # the model has no receptive field, or reads what the graph has not
        for day in ("monday", "tuesday", "monday", "monday", "tuesday", "tuesday"):
            got, _ = server.matrix("set", "classify", "--graph", "sets", "--edge_feature_set", day, *asked)
            tried += 1
            same += got.tobytes() == expected[day]
    return tried, same


def edge_feature_sets(checks, servers, data):
    """Edge feature sets, with every layer that reads features of edges."""
    graph = os.path.join(data, "graphs", "tiny.npz")
    own = np.load(graph)["edge_attr"].astype(np.float32)
    days = {"monday": own[::-1].copy(), "tuesday": own * np.float32(0.5) - np.float32(0.25)}
    for server in servers:
        server.call("graph", "upload", graph, "--name", "sets", "--reorder", "rcm")
        for day, rows in days.items():
            file = os.path.join(server.folder, day + ".npy")
            np.save(file, rows)
            server.call("graph", "upload", graph, "--name", day, "--reorder", "rcm", "--edge_attr", file)
            server.call("features", "upload", file, "--graph", "sets", "--name", day, "--edges")
        tried = same = 0
        for path in sorted(glob.glob(os.path.join(data, "layers", "*.reference.safetensors"))):
            stem = path[: -len(".reference.safetensors")]
            name = "sets-" + os.path.basename(stem)
            model = server.call("model", "upload", stem + ".json", "--weights", stem + ".safetensors", "--name", name)
            if int(model.get("edge_feature_width", 0)) == own.shape[1]:
                runs = edge_set_runs(server, name, days)
                tried, same = tried + runs[0], same + runs[1]
        checks.add(f"edge feature sets on {server.device} have the bits of the graph's own features", tried > 0 and same == tried,
                   tried=tried, same=same)  # fmt: skip


def beside_others(checks, server, arguments):
    """Checks that a batch of graphs has the same bits when it shares a run with those of other clients."""

    def body():
        alone, answer = server.matrix("alone", *arguments)
        with server.loaded("--model", "proteins-ginpool", "--mix", "classify_graphs", "--concurrency", "64", "--duration", "60"):
            shared = same = 0
            for _ in range(30):
                among, other = server.matrix("among", *arguments)
                same += among.tobytes() == alone.tobytes()
                shared += other["timing"]["run_request_count"] > 1
        revisions = {a["served_by"]["numerics_revision"] for a in (answer, other)}
        checks.add(f"ClassifyGraphs on {server.device} among those of others", same == 30 and shared > 0 and len(revisions) == 1,
                   shared=shared, same=same)  # fmt: skip

    checks.attempt(f"batches of graphs together on {server.device}", body)


def explain(checks, servers):
    def body():
        for server in servers:
            said = server.call("graph", "explain", "cora", "--model", "cora-gcn")
            kernels = [step.get("kernel") for step in said.get("plan", {}).get("steps", said.get("steps", []))]
            checks.add(f"Explain on {server.device}", True, kernels=kernels)

    checks.attempt("Explain", body)


def latency(checks, servers):
    def body():
        for server in servers:
            for model in ("cora-gcn", "cora-gat"):
                said = server.call("classify", "--graph", "cora", "--model", model, "--nodes", FEW, "--repeat", "500")
                us = sorted(1e6 * s for s in said["round_trip_seconds"])
                checks.add(f"latency of 10 nodes, {model} on {server.device}", True,
                           median_us=round(us[len(us) // 2], 1), p99_us=round(us[len(us) * 99 // 100], 1))  # fmt: skip

    checks.attempt("latency", body)


TIER_GRAPHS = 12
TIER_MODELS = ("pubmed-gcn", "pubmed-gat", "pubmed-sage")


def fill_tiers(server, data):
    """The same graph under several names, in two orders, and models for it; with a state directory all durable."""
    for i in range(TIER_GRAPHS):
        server.call("graph", "upload", os.path.join(data, "graphs", "pubmed.npz"), "--name", f"tier-{i}", "--reorder", ("none", "rcm")[i % 2])
    for model in TIER_MODELS:
        stem = os.path.join(data, "models", model)
        file = stem + ".vicinal.json" if os.path.exists(stem + ".vicinal.json") else stem + ".json"
        server.call("model", "upload", file, "--weights", stem + ".safetensors", "--name", model)


def tier_answers(server):
    return [server.matrix("tier", "classify", "--graph", f"tier-{i}", "--model", model, "--logits")[0].tobytes()
            for i in range(TIER_GRAPHS) for model in TIER_MODELS]  # fmt: skip


def tiers(checks, folder, options, data):
    """Graphs leave a GPU that is short of memory, then the host, and answer with the same bits. What kernels allocate for themselves evicts
    nothing, and may go beyond the limit."""
    device = options.devices.split(",")[0]
    fixed = ("--tuning_budget=0s", "--keep_answers=never")  # no tuning: the same kernels in all servers

    def roomy():
        server = Server(os.path.join(folder, "roomy"), options.bin, device, *fixed)
        try:
            fill_tiers(server, data)
            answers = tier_answers(server)
            stored = sum(server.metric("vicinal_memory_bytes", f'kind="{kind}"') for kind in ("graphs", "features"))
            allocated, left = (server.metric("vicinal_" + name) for name in ("device_allocated_bytes", "graphs_left_device_total"))
            return answers, int(allocated), int(stored), left
        finally:
            server.stop()

    def short(name, answers, limit, *flags):
        server = Server(os.path.join(folder, name), options.bin, device, f"--device_memory_bytes={limit}", *fixed, *flags)
        try:
            fill_tiers(server, data)
            begin = time.monotonic()
            same = [tier_answers(server) == answers for _ in range(3)]
            seconds = time.monotonic() - begin
            metrics = {short_name: server.metric("vicinal_" + full) for short_name, full in (
                ("left_device", "graphs_left_device_total"), ("returned", "graph_return_duration_seconds_count"),
                ("return_seconds", "graph_return_duration_seconds_sum"), ("evicted", "graphs_evicted_total"),
                ("loaded", "graph_load_duration_seconds_count"), ("load_seconds", "graph_load_duration_seconds_sum"),
                ("allocated", "device_allocated_bytes"), ("on_host", "host_graphs"))}  # fmt: skip
            listed = [graph.get("tier") for graph in server.call("graph", "list")["graphs"]]
            return all(same), {"limit": limit, "seconds": round(seconds, 2), **metrics, "tiers": listed}
        finally:
            server.stop()

    def body():
        answers, allocated, stored, left = roomy()
        checks.add(f"with room for all, nothing leaves {device}", left == 0, allocated=allocated, stored=stored)
        limit = allocated // 3
        same, said = short("short", answers, limit)
        checks.add(f"graphs leave {device} and return with the same bits",
                   same and said["left_device"] > 0 and said["returned"] > 0 and said["allocated"] <= 1.25 * limit and said["evicted"] == 0, **said)
        # Room for more graphs on the host than on the device, but not for all; plans count, too.
        limit = allocated // 6
        same, said = short("shorter", answers, limit, f"--memory_budget_bytes={stored * 9 // 10}", f"--state_dir={os.path.join(folder, 'state')}")
        checks.add(f"graphs leave {device}, then the host, and return with the same bits",
                   same and said["left_device"] > 0 and said["evicted"] > 0 and said["loaded"] > 0 and said["allocated"] <= 1.25 * limit, **said)

    checks.attempt("tiers", body)


def write_tensors(path, tensors):
    """A safetensors file of float32 arrays."""
    with open(path, "wb") as file:
        file.write(common.safetensors(tensors))


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
    write_tensors(os.path.join(server.folder, "own.safetensors"), {"own.out.weight": np.linspace(-1, 1, 60).reshape(5, 12)})
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


PRODUCT_ROWS, PRODUCT_WIDTHS = 300_000, (128, 256, 128)


def write_products(folder):
    """A sparse graph with many nodes, and a model whose time is products: Linear, ReLU, GCNConv. Returns both files and the weights'."""
    numbers = np.random.default_rng(5)
    inputs, hidden, outputs = PRODUCT_WIDTHS
    tensors = {"lin.weight": (hidden, inputs), "lin.bias": (hidden,), "conv.lin.weight": (outputs, hidden), "conv.bias": (outputs,)}
    tensors = {name: (numbers.standard_normal(shape) / np.sqrt(shape[-1])).astype("<f4") for name, shape in tensors.items()}
    files = [os.path.join(folder, "products" + end) for end in (".npz", ".json", ".safetensors")]
    write_tensors(files[2], tensors)
    with open(files[1], "w", encoding="utf-8") as file:
        json.dump({"format": "vicinal.model/1", "in_channels": inputs, "layers": [
            {"name": "lin", "type": "Linear", "args": {"in_channels": inputs, "out_channels": hidden}},
            {"name": "act", "type": "ReLU"},
            {"name": "conv", "type": "GCNConv", "args": {"in_channels": hidden, "out_channels": outputs}}]}, file)  # fmt: skip
    np.savez(files[0], edge_index=numbers.integers(0, PRODUCT_ROWS, (2, 2 * PRODUCT_ROWS)),
             x=numbers.standard_normal((PRODUCT_ROWS, inputs)).astype(np.float32))  # fmt: skip
    return files


def product_state(server, asked):
    """What serves: the kernels of the products by Explain, and answers: of all nodes, of a few from their receptive field and by the full
    graph, and the median time of a full pass for a few nodes."""
    said = server.call("graph", "explain", "products", "--model", "products")
    steps = [s for s in said.get("plan", said)["steps"] if s.get("operation") == "dense_update"]
    whole, answer = server.matrix("whole", "classify", *asked, "--logits", *takes_rows(server)[:2])
    _, plain = server.matrix("plain", "classify", *asked, "--logits")  # answers of forced kernels have no revision
    few = ["classify", *asked, "--logits", "--nodes", "5,0,299999,77,5", *takes_rows(server)[:2], "--receptive_field"]
    field, by_field = server.matrix("field", *few, "always")
    full, _ = server.matrix("full", *few, "never")
    passes = sorted(server.call(*few, "never", "--repeat", "40")["round_trip_seconds"])
    rows = whole[[5, 0, 299999, 77, 5]]
    revisions = [a["served_by"]["numerics_revision"] for a in (answer, by_field)]
    return {"kernels": [s["kernel"] for s in steps], "whole": whole, "revision": plain["served_by"]["numerics_revision"],
            "us": round(1e6 * passes[len(passes) // 2]),
            "same": revisions[0] == revisions[1] and rows.tobytes() == field.tobytes() == full.tobytes(),
            "records": [s["tuning"] for s in steps if "tuning" in s]}  # fmt: skip


def tuned_products(checks, folder, device, bin_folder):
    """Products are tuned: what was measured, cuBLAS forced on the graph, and back. Answers as the CPU's, and of a few nodes with the bits of
    the full pass."""
    fixed = ("--tuning_budget=0s", "--keep_answers=never")
    asked = ["--graph", "products", "--model", "products"]
    tune = ["graph", "tune", "products", "--operation", "dense_update"]

    def body():
        graph, model, weights = write_products(folder)
        servers = []
        try:
            for number, where in enumerate((device, "cpu")):
                servers.append(Server(os.path.join(folder, f"products{number}"), bin_folder, where, *fixed))
                servers[-1].call("graph", "upload", graph, "--name", "products", "--reorder", "none")
                servers[-1].call("model", "upload", model, "--weights", weights, "--name", "products")
            gpu, cpu = servers
            want, _ = cpu.matrix("whole", "classify", *asked, "--logits")

            def check(name, state, ok=True, **more):
                error = relative_l2(state["whole"], want)
                checks.add(f"products on {device}, {name}", ok and state["same"] and error <= TOLERANCE, kernels=state["kernels"],
                           few_rows_have_the_bits_of_all=state["same"], relative_l2=f"{error:.2g}", full_pass_us=state["us"], **more)  # fmt: skip

            untuned = product_state(gpu, asked)
            check("untuned", untuned, "cublas" not in untuned["kernels"] and len(untuned["records"]) == 2)
            began = time.monotonic()
            records = gpu.call(*tune)["records"]
            seconds = time.monotonic() - began
            tried = [{c["kernel"]: round(c.get("measured_seconds", 0) * 1e6, 1) for c in r.get("candidates", [])} for r in records]
            refused = [{c["kernel"]: c["reason"] for c in r.get("refusals", [])} for r in records]
            chosen = [c["kernel"] for r in records for c in r.get("candidates", []) if c["outcome"].endswith("CHOSEN")]
            tuned = product_state(gpu, asked)
            moved = "cublas" in chosen
            check("tuned", tuned, sorted(tuned["kernels"]) == sorted(chosen) and moved == (tuned["revision"] != untuned["revision"]),
                  revisions=[untuned["revision"], tuned["revision"]], chosen=chosen, tuning_seconds=round(seconds, 2), tried_us=tried,
                  gains=[round(r.get("gain", 0), 3) for r in records],
                  refused=refused, notes=[r.get("note", "") for r in records])  # fmt: skip
            if any("cublas" in one for one in tried):
                gpu.call(*tune, "--force", "cublas")
                forced = product_state(gpu, asked)
                check("cublas forced on the graph", forced, forced["kernels"] == ["cublas", "cublas"] and forced["revision"] != untuned["revision"],
                      revisions=[untuned["revision"], forced["revision"]])
            gpu.call(*tune, "--reset")
            again = product_state(gpu, asked)
            check("reset", again, again["revision"] == untuned["revision"] and again["whole"].tobytes() == untuned["whole"].tobytes())
        finally:
            for server in servers:
                server.stop()

    checks.attempt("tuned products", body)


def all_models(checks, servers, data):
    """Every model in the data on its graph, in two node orders."""
    for path in sorted(glob.glob(os.path.join(data, "graphs", "*.npz"))):
        graph = os.path.basename(path)[: -len(".npz")]
        models = sorted(os.path.basename(f)[: -len(".reference.safetensors")]
                        for f in glob.glob(os.path.join(data, "models", graph + "-*.reference.safetensors")))  # fmt: skip
        models = [m for m in models if not m.endswith("pool")]
        for order in ("none", "rcm") if models else ():
            name = f"{graph}-{order}".replace("_", "-")

            def upload():
                for server in servers:
                    server.call("graph", "upload", path, "--name", name, "--reorder", order)

            checks.attempt(f"graph {name}", upload)
            for model in models:
                stem = os.path.join(data, "models", model)
                file = stem + ".vicinal.json" if os.path.exists(stem + ".vicinal.json") else stem + ".json"
                served = f"{model}-{order}".replace("_", "-")

                def put():
                    for server in servers:
                        server.call("model", "upload", file, "--weights", stem + ".safetensors", "--name", served,
                                    "--reference", stem + ".reference.safetensors", "--reference_graph", name)  # fmt: skip

                checks.attempt(f"model {served}", put)
                compare(checks, servers, f"{served} on {name}", ["classify", "--graph", name, "--model", served, "--logits"])


def everything(checks, folder, options, data):
    servers, device = [], options.devices.split(",")[0]
    try:
        for number, name in enumerate(options.devices.split(",")):
            servers.append(Server(os.path.join(folder, str(number)), options.bin, name))
        checks.attempt("quick start", lambda: quick_start(checks, servers, data))
        checks.attempt("small graphs", lambda: small_graphs(checks, servers, data))
        checks.attempt("message functions", lambda: message_functions(checks, servers, data))
        checks.attempt("edge feature sets", lambda: edge_feature_sets(checks, servers, data))
        explain(checks, servers)
        latency(checks, servers)
        if device != "cpu":
            tiers(checks, folder, options, data)
            tuned_products(checks, folder, device, options.bin)
            come_and_go(checks, folder, options, data)
        if not options.quick:
            all_models(checks, servers, data)
    finally:
        for server in servers:
            status = server.stop()
            checks.add(f"clean stop on {server.device}", status == 0, status=status)
            if status != 0:
                print(server.log()[-3000:])




def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", required=True, help="folder with vicinal-server and vicinal")
    parser.add_argument("--data", required=True, help="folder with graphs/, models/ and layers/")
    parser.add_argument("--devices", default="cuda:0,cpu", help="the first is compared with the others")
    parser.add_argument("--quick", action="store_true", help="Cora and small graphs only")
    parser.add_argument("--only", choices=("tiers", "products", "expressions"), help="one part that has servers of its own, on the first device")
    parser.add_argument("--json")
    options = parser.parse_args()
    checks, data, device = Checks(), os.path.abspath(options.data), options.devices.split(",")[0]
    with tempfile.TemporaryDirectory() as folder:
        if options.only == "tiers":
            tiers(checks, folder, options, data)
        elif options.only == "products":
            tuned_products(checks, folder, device, options.bin)
        elif options.only == "expressions":
            come_and_go(checks, folder, options, data)
        else:
            everything(checks, folder, options, data)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(checks.results, file, indent=1)
    print(f"{len(checks.results)} checks, {checks.failed()} failed")
    return 1 if checks.failed() else 0


if __name__ == "__main__":
    sys.exit(main())
