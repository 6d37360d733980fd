# SPDX-License-Identifier: Apache-2.0
"""Answers of servers beside each other: of devices, of runs, of receptive fields and the full graph, and of references."""

import os

import numpy as np

TOLERANCE = 5e-6  # either device is within 2e-6 of float64
NARROW_TOLERANCE = 2e-2
FEW = "0,5,9,17,100,1000,2000,2500,2600,2707"


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


def reference_error(answer):
    """The errors that the server reports for the comparison with the reference answers, if it reports any."""
    for key, value in answer.items():
        if "reference" in key and isinstance(value, dict):
            return {k: f"{v:.2g}" for k, v in value.items() if isinstance(v, float)}
    return {}


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
