#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""By hand: latency and throughput of one server alone, with TLS, with client certificates, and behind the edge, in turns, by `vicinal load`:

    VICINAL_BIN_DIR=build/release/bin tests/edge/latency.py [--turns 5] [--seconds 4] [--server OTHER=PROGRAM ...] [--json FILE]

Classifies 10 random nodes of Cora with a GCN, 1 and 64 calls in flight; prints medians over the turns. --server adds another build of
vicinal-server, alone, under that name; --json writes the rows for bench/results/record.py."""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from edge_process import ROOT, TOKEN, Edge  # noqa: E402

for folder in ("deploy", "hostile"):
    sys.path.insert(0, os.path.join(ROOT, "tests", folder))
import server_process  # noqa: E402
from hostile import Certificates  # noqa: E402

DATA = os.path.join(ROOT, "tests", "data")


def load(address, credentials, in_flight, seconds):
    """(calls per second, median, p99 in microseconds)."""
    program = os.path.join(os.environ["VICINAL_BIN_DIR"], "vicinal")
    done = subprocess.run([program, "--server", address, *credentials, "load", "--graph", "cora", "--model", "gcn", "--concurrency",
                           str(in_flight), "--duration", str(seconds), "--warmup", "0.5", "--nodes", "10", "--json"],
                          capture_output=True, text=True, check=True)
    step = json.loads(done.stdout)["steps"][0]
    return step["ok_per_second"], step["latency"]["p50"] * 1e6, step["latency"]["p99"] * 1e6


def fill(server, credentials):
    for arguments in (("graph", "upload", f"{DATA}/graphs/cora.npz", "--name", "cora"),
                      ("model", "upload", f"{DATA}/models/cora-gcn.json", "--weights", f"{DATA}/models/cora-gcn.safetensors", "--name", "gcn")):
        server.vicinal(*credentials, *arguments)


def start(stack, folder, name, *flags, program=None):
    token = os.path.join(folder, name + ".token")
    with open(token, "w", encoding="ascii") as file:
        file.write(TOKEN + "\n")
    server = server_process.ServerProcess(f"--admin_token_file={token}", "--tuning_budget=0", *flags, program=program)
    return stack.enter_context(server), ("--token_file", token)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--server", action="append", default=[], metavar="NAME=PROGRAM")
    arguments = parser.parse_args()

    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(Edge("127.0.0.1:1").temporary)
        ways = {}
        for name, program in [("alone", None), *(pair.split("=", 1) for pair in arguments.server)]:
            server, token = start(stack, folder, "alone", program=program)
            fill(server, token)
            ways[name] = (server.grpc, token)
        edge = stack.enter_context(Edge(ways["alone"][0], request_rate=100_000_000))
        ways["edge"] = (edge.target, (*ways["alone"][1], "--tls_ca_file", edge.authority.path("pem")))
        certificates = Certificates(folder)
        mine = os.path.join(folder, "mine")
        for end, content in zip(("crt", "key"), certificates.honest):
            with open(f"{mine}.{end}", "wb") as file:
                file.write(content)
        for name, flags, more in (("TLS", certificates.flags[:2], ()),
                                  ("mTLS", certificates.flags, ("--tls_cert_file", mine + ".crt", "--tls_key_file", mine + ".key"))):
            server, token = start(stack, folder, name, *flags)
            credentials = (*token, "--tls_ca_file", certificates.authority.path("pem"), *more)
            fill(server, credentials)
            ways[name] = (server.grpc, credentials)
        rows = []
        print("| way | in flight | calls/s | median us | p99 us |\n|---|---|---|---|---|")
        for in_flight in (1, 64):
            measured = {name: [] for name in ways}
            for _ in range(arguments.turns):
                for name, (address, credentials) in ways.items():
                    measured[name].append(load(address, credentials, in_flight, arguments.seconds))
            for name, results in measured.items():
                rate, median, p99 = (statistics.median(column) for column in zip(*results))
                print(f"| {name} | {in_flight} | {rate:.0f} | {median:.0f} | {p99:.0f} |", flush=True)
                rows.append({"way": name, "in_flight": in_flight, "calls_per_second": round(rate), "median_us": round(median),
                             "p99_us": round(p99), "turns": arguments.turns})
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"rows": rows}, file)


if __name__ == "__main__":
    main()
