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
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from bench.cuda.server_checks import edge_sets, expressions, inference, products, tiers
from bench.cuda.server_checks.served import Checks, Server


def everything(checks, folder, options, data):
    servers, device = [], options.devices.split(",")[0]
    try:
        for number, name in enumerate(options.devices.split(",")):
            servers.append(Server(os.path.join(folder, str(number)), options.bin, name))
        checks.attempt("quick start", lambda: inference.quick_start(checks, servers, data))
        checks.attempt("small graphs", lambda: inference.small_graphs(checks, servers, data))
        checks.attempt("message functions", lambda: inference.message_functions(checks, servers, data))
        checks.attempt("edge feature sets", lambda: edge_sets.edge_feature_sets(checks, servers, data))
        inference.explain(checks, servers)
        inference.latency(checks, servers)
        if device != "cpu":
            tiers.tiers(checks, folder, options, data)
            products.tuned_products(checks, folder, device, options.bin)
            expressions.come_and_go(checks, folder, options, data)
            expressions.tuned(checks, folder, options)
        if not options.quick:
            inference.all_models(checks, servers, data)
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
    parser.add_argument("--only", choices=("tiers", "products", "expressions", "expression_tuning"), help="one part that has servers of its own, on the first device")
    parser.add_argument("--json")
    options = parser.parse_args()
    checks, data, device = Checks(), os.path.abspath(options.data), options.devices.split(",")[0]
    with tempfile.TemporaryDirectory() as folder:
        if options.only == "tiers":
            tiers.tiers(checks, folder, options, data)
        elif options.only == "products":
            products.tuned_products(checks, folder, device, options.bin)
        elif options.only == "expressions":
            expressions.come_and_go(checks, folder, options, data)
        elif options.only == "expression_tuning":
            expressions.tuned(checks, folder, options)
        else:
            everything(checks, folder, options, data)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(checks.results, file, indent=1)
    print(f"{len(checks.results)} checks, {checks.failed()} failed")
    return 1 if checks.failed() else 0


if __name__ == "__main__":
    sys.exit(main())
