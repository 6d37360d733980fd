#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Uploads, replacements, deletions, queries and restarts for --minutes: memory and descriptors must stay flat, and no file may
stay in the state directory that belongs to nothing.

  PYTHONPATH=build/release/client/python/installed python3 bench/state/churn.py --minutes 60 --json churn.json

The server ends every --restart_minutes, by turns with SIGTERM and SIGKILL. Memory and descriptors are sampled each second,
and a line is fitted to the second half of each life: to all memory, and to what the server does not account for
(vicinal_memory_bytes), which varies little with the graphs that happen to be there. Lives of less than ten minutes say nothing
about memory: answers of uploads are kept for five. In the end the server is left alone until the directory has what it lists
and nothing else, or --settle_seconds are over: replaced versions go a minute or two after they were replaced, their files a
minute or two later, and both later after a start."""

import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import numpy as np

import vicinal
from bench.state import common


class Churn:
    """Random calls. Every graph has the same extents, so that what the server holds does not grow with the run."""

    def __init__(self, options):
        self.options, self.random = options, np.random.default_rng(options.seed)
        self.there, self.counts = set(), {}
        self.arrays = [common.random_graph(options.seed + i, options.nodes, options.edges, options.features) for i in range(8)]

    def count(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1

    def step(self, client):
        name = f"g{self.random.integers(self.options.graphs)}"
        edge_index, x = self.arrays[self.random.integers(len(self.arrays))]
        kind, wait_for = self.random.random(), str(self.random.choice(["ready", "durable"]))
        if name not in self.there:
            client.upload_graph(name, edge_index, x=x, wait_for=wait_for)
            self.there.add(name)
            self.count("uploads")
        elif kind < 0.15:
            client.upload_graph(name, edge_index, x=x, replace=True, wait_for=wait_for)
            self.count("replacements")
        elif kind < 0.25:
            client.upload_features(name, x, name="other", replace=True, wait_for=wait_for)
            self.count("feature sets")
        elif kind < 0.3:
            client.delete_graph(name)
            self.there.discard(name)
            self.count("deletions")
        elif kind < 0.33:
            client.upload_model("sum", *common.sum_model(self.options.features), replace=True)
            self.count("models")
        else:
            client.classify(name, "sum", self.random.integers(0, self.options.nodes, 10))
            self.count("queries")

    def life(self, server, seconds, samples):
        """Calls until the time is over; a sample a second: seconds since the start of this life, bytes, bytes that the server accounts
        for, descriptors."""
        with vicinal.Client(server.grpc) as client:
            self.there = {graph.name for graph in client.list_graphs()}
            begin = time.monotonic()
            while (now := time.monotonic() - begin) < seconds:
                if not samples or now - samples[-1][0] >= 1:
                    samples.append((now, server.rss_bytes(), server.metric("vicinal_memory_bytes"), server.descriptors()))
                self.step(client)


def slope(hours, values):
    """Of a line fitted to the values, per hour, and its standard error. Samples of one minute are not independent: what they
    measure goes up and down with the graphs that are there. So the line is fitted to the means of minutes."""
    minutes = np.floor(60 * (hours - hours[0])).astype(int)
    x, y = (np.array([kind[minutes == minute].mean() for minute in np.unique(minutes)]) for kind in (hours, values))
    if len(x) < 4:
        return [None, None]
    fit, covariance = np.polyfit(x, y, 1, cov=True)
    return [round(float(fit[0]), 1), round(float(covariance[0, 0] ** 0.5), 1)]


def trend(samples):
    """Slopes per hour of the second half of a life with their standard errors, what was there at its end, and what was not
    accounted for in each five minutes of the life, on average."""
    rows = np.array(samples, float)
    hours, rss, unaccounted, descriptors = rows[:, 0] / 3600, rows[:, 1] / 2**20, (rows[:, 1] - rows[:, 2]) / 2**20, rows[:, 3]
    half, parts = slice(len(rows) // 2, None), (rows[:, 0] // 300).astype(int)
    return {"seconds": round(rows[-1, 0]), "rss_mib": round(rss[-1], 1), "rss_most_mib": round(max(rss), 1),
            "accounted_mib": round(rss[-1] - unaccounted[-1], 1), "rss_slope_mib_per_hour": slope(hours[half], rss[half]),
            "unaccounted_slope_mib_per_hour": slope(hours[half], unaccounted[half]),
            "unaccounted_mib_from_minute": {5 * int(part): round(float(unaccounted[parts == part].mean()), 1) for part in np.unique(parts)},
            "descriptors": int(descriptors[-1]), "descriptors_most": int(max(descriptors)),
            "descriptors_slope_per_hour": slope(hours[half], descriptors[half])}


def inspect(options, state):
    """`vicinal state list`: versions, directories without a manifest, problems."""
    command = [os.path.join(options.bin, "vicinal"), "state", "list", state, "--json"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {"versions": len(listed["versions"]), "orphans": len(listed["unpublished"]), "problems": len(listed["problems"]),
            "quarantined": len(listed["quarantined"])}


def settle(options, state, client):
    """Waits until the directory has what the server lists, and nothing else; what both have in the end, and after how long."""
    begin = time.monotonic()
    while True:
        graphs = client.list_graphs()
        known = sum(1 + len(graph.feature_sets) for graph in graphs) + len(client.list_models())
        found = inspect(options, state)
        seconds = time.monotonic() - begin
        if (found["versions"] == known and not found["orphans"]) or seconds > options.settle_seconds:
            return {"listed_by_server": known, **found, "settled_after_seconds": round(seconds)}
        time.sleep(5)


def main():
    parser = common.parser(__doc__, "state_churn_cpu")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--restart_minutes", type=float, default=20)
    parser.add_argument("--graphs", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--edges", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--settle_seconds", type=float, default=900)
    options = parser.parse_args()
    rows, churn = [], Churn(options)
    with common.Scratch(options.folder) as folder:
        state = os.path.join(folder, "state")
        # Results of finished uploads can be asked for until they expire, and take memory until then.
        with common.Server(options, folder, f"--state_dir={state}", "--upload_ttl=300s") as server:
            with vicinal.Client(server.grpc) as client:
                client.upload_model("sum", *common.sum_model(options.features))
                common.wait_until_durable(client.get_model, "sum")
            end = time.monotonic() + 60 * options.minutes
            while time.monotonic() < end:
                samples = []
                churn.life(server, min(60 * options.restart_minutes, end - time.monotonic()), samples)
                rows.append({"case": f"life {len(rows) + 1}", **trend(samples)})
                print(json.dumps(rows[-1], default=float), flush=True)
                if len(rows) % 2:
                    server.stop()
                else:
                    server.kill()
                server.start()
            with vicinal.Client(server.grpc) as client:
                found = settle(options, state, client)
            errors = [line for line in server.log_lines() if line["level"] == "error"]
            server.stop()
        check = [os.path.join(options.bin, "vicinal"), "state", "check", state, "--json"]
        found["check"] = subprocess.run(check, capture_output=True, check=False).returncode
        files = sum(len(names) for _, _, names in os.walk(state))
        rows.append({"case": "in the end", "minutes": options.minutes, "lives": len(rows), **churn.counts, **found, "files": files,
                     "errors_in_log": len(errors), "errors": errors[:3]})
    common.finish(options, rows)
    bad = found["orphans"] or found["problems"] or found["check"] or found["versions"] != found["listed_by_server"] or errors
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
