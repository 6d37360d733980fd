# SPDX-License-Identifier: Apache-2.0
"""Products with weights are tuned: cuBLAS serves where it was measured to be faster. Servers of its own."""

import json
import os
import time

import numpy as np

from bench.cuda.server_checks.comparisons import TOLERANCE, relative_l2, takes_rows
from bench.cuda.server_checks.served import Server
from bench.state import common

PRODUCT_ROWS, PRODUCT_WIDTHS = 300_000, (128, 256, 128)


def write_products(folder):
    """A sparse graph with many nodes, and a model whose time is products: Linear, ReLU, GCNConv. Returns both files and the weights'."""
    numbers = np.random.default_rng(5)
    inputs, hidden, outputs = PRODUCT_WIDTHS
    tensors = {"lin.weight": (hidden, inputs), "lin.bias": (hidden,), "conv.lin.weight": (outputs, hidden), "conv.bias": (outputs,)}
    tensors = {name: (numbers.standard_normal(shape) / np.sqrt(shape[-1])).astype("<f4") for name, shape in tensors.items()}
    files = [os.path.join(folder, "products" + end) for end in (".npz", ".json", ".safetensors")]
    common.write_safetensors(files[2], tensors)
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
    plain = server.call("classify", *asked, "--nodes", "5")  # answers of forced kernels have no revision
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
