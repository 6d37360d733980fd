# SPDX-License-Identifier: Apache-2.0
"""Every inference method on small graphs, its answers on all devices; what Explain says; latency."""

import glob
import os

from bench.cuda.server_checks.comparisons import FEW, NARROW_TOLERANCE, compare, receptive_fields, reference_error, takes_rows, upload_models


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
