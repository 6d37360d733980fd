# SPDX-License-Identifier: Apache-2.0
"""Graphs leave the device and the host and return with the same bits. Servers of its own."""

import os
import time

from bench.cuda.server_checks.served import Server

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
