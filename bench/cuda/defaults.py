#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is the default the best? The server as a user has it: graphs uploaded with `reorder` unset, tuned in the background, beside every order that
can be named and, in each, the best kernels forced by hand.

  python3 bench/cuda/defaults.py --bin bin --graphs FOLDER --names amazon-photo,cnr-2000 --json defaults.json

FOLDER has the graphs of vicinal_bench_graphs, NAME.bin. Everything goes through gRPC and the command line. Times are execute_seconds of the
replies' Timing, of a GCN 64-64-41 over all nodes, with kept answers off. For each graph:

1. Uploads with `reorder` unset and with each of --orders. Waits until background tuning has measured every kind of work.
2. Times all of them, interleaved. In each order that is at most --screen times slower than the fastest, forces one kernel after another
   (`graph tune --force`) with the parameters that tuning measured as its best, for all kinds of work; in the fastest order also for one kind
   of work at a time.
3. The fastest --contenders and the default take turns for --rounds rounds. The result is the largest, over contenders, of the median over
   rounds of (default's median / contender's median): selecting the fastest of many short measurements is no bias, as these are new ones.

Answers of all orders and kernels are compared with the default's: relative L2 at most 5e-6 on a thousand nodes. Exit status 1: an answer
differs, or a call failed; 3: the time was up before all graphs were measured. Needs NumPy."""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

import numpy as np

from bench.binary_graph import read_graph
from bench.cuda import orders
from bench.cuda.server_checks.comparisons import TOLERANCE, relative_l2
from bench.cuda.server_checks.served import Server

DEFAULT = "default"  # `reorder` unset
SETTLED = ("TUNED", "FAILED")
WARM_UPS = 4  # a plan is made by the first call, recorded in the next ones
CHECKED_NODES = 1000
TURN_SECONDS, FEWEST, MOST = 0.04, 6, 60


class TimeIsUp(Exception):
    pass


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", required=True, help="folder with vicinal-server and vicinal")
    parser.add_argument("--graphs", required=True, help="folder of the graphs, NAME.bin")
    parser.add_argument("--names", required=True, help="graphs, separated by commas")
    parser.add_argument("--device", default="cuda:0", help="cpu: to try this script where there is no GPU")
    parser.add_argument("--orders", default="none,community,rcm,degree", help="to compare the default with")
    parser.add_argument("--kernels", default="", help="to force, beside those that tuning tried")
    parser.add_argument("--screen", type=float, default=1.25, help="in orders slower than the fastest by more, nothing is forced")
    parser.add_argument("--contenders", type=int, default=3, help="that take turns with the default")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tune-seconds", type=float, default=30, help="an upload that is not tuned after so long is measured as it is")
    parser.add_argument("--stop-after", type=float, default=1e9, help="seconds after which nothing is begun")
    parser.add_argument("--json", help="results, written after every graph")
    options = parser.parse_args()
    options.bin = os.path.abspath(options.bin)
    return options


def spec_of(candidate):
    """"KERNEL:PARAMETER=VALUE,..." of a candidate of a tuning record."""
    values = [f"{p['name']}={p['value']}" for p in candidate["parameters"] if p["value"] != 0]
    return candidate["kernel"] + (":" + ",".join(values) if values else "")


def best_settings(candidates, kernels):
    """{kernel: the setting of it that tuning found best}: by its measured ratio to the default, else by its measured time, else the first
    listed. A kernel that was not tried has its own parameters."""
    best = {}
    for place, candidate in enumerate(candidates):
        if candidate["ratio"] > 0:
            rank = (0, candidate["ratio"])
        elif candidate["measured_seconds"] > 0:
            rank = (1, candidate["measured_seconds"])
        else:
            rank = (2, place)
        kernel = candidate["kernel"]
        if kernel not in best or rank < best[kernel][0]:
            best[kernel] = (rank, spec_of(candidate))
    return {**{kernel: kernel for kernel in kernels}, **{kernel: spec for kernel, (_, spec) in best.items()}}


def reason_of(error):
    """What the command line said, without the rest of its JSON."""
    found = re.findall(r'"description": "([^"]*)"', error) or re.findall(r'"message": "([^"]*)"', error)
    return found[0] if found else error[-200:]


def paired_ratio(default, other):
    """Median over rounds of (default's median / the other's)."""
    return statistics.median(statistics.median(d) / statistics.median(o) for d, o in zip(default, other))


def describe(state):
    """What serves: "tuned", or what is forced for each kind of work."""
    if not state:
        return "tuned"
    if len(set(state.values())) == 1:
        return next(iter(state.values()))
    return "; ".join(f"{kind} {width}: {spec}" for (kind, width, _), spec in state.items())


class Upload:
    """A graph on the server in one order. A state is {} for what tuning chose, or {kind of work: forced setting}."""

    def __init__(self, server, graph, order, file):
        self.server, self.order, self.name = server, order, f"{graph}-{order}".lower()
        asked = [] if order == DEFAULT else ["--reorder", order]
        uploaded = server.call("graph", "upload", file, "--name", self.name, *asked)
        self.node_count = int(uploaded["graph"]["node_count"] if "graph" in uploaded else uploaded["node_count"])
        self.query = ["classify", "--graph", self.name, "--model", "gcn", "--receptive_field", "never"]
        self.state, self.tuned = {}, os.path.join(server.folder, self.name + ".tuning.json")

    def times(self, repeat):
        """execute_seconds of so many calls after a warm-up, each over all nodes."""
        answer = self.server.call(*self.query, "--nodes", "0,1,2,3", "--repeat", str(repeat + WARM_UPS))
        timing = answer["timing"]
        if int(timing["computed_node_count"]) != self.node_count or timing["kept_answers"]:
            raise RuntimeError(f"{self.name}: {timing['computed_node_count']} of {self.node_count} nodes were computed")
        return answer["execute_seconds"][WARM_UPS:]

    def turn(self, state):
        """Samples of a turn, in that state."""
        self.put(state)
        few = self.times(FEWEST)
        more = int(min(MOST, TURN_SECONDS / statistics.median(few))) - FEWEST
        return few + (self.times(more) if more > 0 else [])

    def logits(self):
        count = min(CHECKED_NODES, self.node_count)
        nodes = ",".join(str(i * self.node_count // count) for i in range(count))
        return self.server.matrix("logits", *self.query, "--nodes", nodes, "--logits")[0]

    def records(self):
        shown = self.server.call("graph", "tune", self.name, "--show")
        return [record for record in shown.get("records", []) if record["key"]["operation"] == "aggregate"]

    def wait_until_tuned(self, seconds):
        """Returns the states of its kinds of work: TUNED, unless the time is up or measuring failed. Asks without running the model, as
        requests go before tuning."""
        deadline, before = time.monotonic() + seconds, None
        while True:
            records = self.records()
            states = [record["state"].removeprefix("STATE_") for record in records]
            kinds = [key_of(record) for record in records]
            settled = bool(states) and all(state in SETTLED for state in states)
            if (settled and kinds == before) or time.monotonic() > deadline:
                break
            if settled or before is None:  # with a new choice, a plan may have work of another kind
                self.times(1)
                before = kinds
            else:
                time.sleep(0.2)
        with open(self.tuned, "w", encoding="utf-8") as file:
            json.dump(self.server.call("graph", "tune", self.name, "--export", "-"), file)
        self.kinds = {key_of(record): record for record in records}
        return states

    def put(self, state):
        if state == self.state:
            return
        if set(self.state) - set(state):  # what was forced before and is not now: back to what tuning chose
            self.server.call("graph", "tune", self.name, "--import", self.tuned)
            self.state = {}
        for key, spec in state.items():
            if self.state.get(key) != spec:
                kind, width, weights = key
                self.server.call("graph", "tune", self.name, "--operation", "aggregate", "--kinds", kind, "--widths", str(width),
                                 "--weights", weights, "--force", spec)  # fmt: skip
                self.state[key] = spec  # now, as a later one may be refused

    def settings(self, kernels):
        """{kind of work: {kernel: setting}}."""
        return {key: best_settings(record["candidates"], kernels) for key, record in self.kinds.items()}

    def order_taken(self):
        """The order in use, and why."""
        taken = self.server.call("graph", "get", self.name)["order"]
        return taken, self.server.call("graph", "explain", self.name, "--model", "gcn")["plan"]["order"]

    def delete(self):
        self.server.call("graph", "delete", self.name)


def key_of(record):
    key = record["key"]
    return key["kind"], int(key["width"]), key["weights"]


class Graph:
    """The comparison on one graph."""

    def __init__(self, options, server, name, file, deadline):
        self.options, self.server, self.name, self.file, self.deadline = options, server, name, file, deadline
        self.rows, self.faults, self.times = [], [], {}

    def check_time(self):
        if time.monotonic() > self.deadline:
            raise TimeIsUp

    def run(self):
        self.uploads = {}
        try:
            self.upload()
            self.screen()
            return self.duel()
        finally:
            for upload in self.uploads.values():
                upload.delete()

    def upload(self):
        for order in [DEFAULT, *self.options.orders.split(",")]:
            self.check_time()
            self.uploads[order] = Upload(self.server, self.name, order, self.file)
        for order, upload in self.uploads.items():
            self.check_time()
            states = upload.wait_until_tuned(self.options.tune_seconds)
            if any(state != "TUNED" for state in states):
                print(f"{self.name}, {order}: {', '.join(states)} in place of TUNED", flush=True)
        self.expected = self.uploads[DEFAULT].logits()

    def check(self, upload):
        error = relative_l2(upload.logits(), self.expected)
        if not error <= TOLERANCE:
            self.faults.append(f"{self.name}, {upload.order}, {describe(upload.state)}: relative L2 {error:.2g} to the default")
            print("WRONG " + self.faults[-1], flush=True)
        return error

    def add(self, order, state):
        """Times a state for screening, and checks its answer. A kernel that cannot be forced is a row with the reason."""
        self.check_time()
        upload, row = self.uploads[order], {"graph": self.name, "order": order, "kernels": describe(state)}
        self.rows.append(row)
        try:
            upload.put(state)
        except RuntimeError as error:
            row["refused"] = reason_of(str(error))
            return
        samples = upload.turn(state)
        self.times[order, json.dumps([[list(key), spec] for key, spec in state.items()])] = (statistics.median(samples), state)
        row.update(screened_us=1e6 * statistics.median(samples), relative_l2=self.check(upload))

    def screen(self):
        named = self.options.orders.split(",")
        for order in named:
            self.add(order, {})
        fastest = min(seconds for seconds, _ in self.times.values())
        near = [order for order in named if self.seconds(order) <= self.options.screen * fastest]
        extra = [kernel for kernel in self.options.kernels.split(",") if kernel]
        for order in near:
            settings = self.uploads[order].settings(extra)
            for kernel in sorted(set().union(*settings.values())):
                self.add(order, {key: best.get(kernel, kernel) for key, best in settings.items()})
        self.one_kind_at_a_time(extra)

    def seconds(self, order):
        """The best of an order."""
        return min(seconds for (of, _), (seconds, _) in self.times.items() if of == order)

    def one_kind_at_a_time(self, extra):
        """In the fastest state: other kernels for one of its kinds of work."""
        (order, _), (seconds, state) = min(self.times.items(), key=lambda item: item[1][0])
        settings = self.uploads[order].settings(extra)
        if len(settings) < 2:
            return
        for key, best in settings.items():
            for kernel, spec in best.items():
                uniform = [s for (of, _), (s, other) in self.times.items() if of == order and other.get(key) == spec]
                if state.get(key) != spec and uniform and min(uniform) <= self.options.screen * seconds:
                    self.add(order, {**state, key: spec})

    def duel(self):
        ranked = sorted(((seconds, order, state) for (order, _), (seconds, state) in self.times.items()), key=lambda one: one[0])
        contenders = [(DEFAULT, {})] + [(order, state) for _, order, state in ranked[: self.options.contenders]]
        samples = [[] for _ in contenders]
        for _ in range(self.options.rounds):
            self.check_time()
            for place, (order, state) in enumerate(contenders):
                samples[place].append(self.uploads[order].turn(state))
        medians = [1e6 * statistics.median(sum(rounds, [])) for rounds in samples]
        ratios = [paired_ratio(samples[0], rounds) for rounds in samples]
        best = max(range(1, len(contenders)), key=lambda place: ratios[place])
        for place, (order, state) in enumerate(contenders[1:], start=1):
            self.rows.append({"graph": self.name, "order": order, "kernels": describe(state), "median_us": medians[place],
                              "default_by_this": ratios[place]})  # fmt: skip
        default = self.uploads[DEFAULT]
        taken, reason = default.order_taken()
        self.rows.append({"graph": self.name, "order": DEFAULT, "kernels": describe(default_choice(default)), "nodes": default.node_count,
                          "taken": taken, "reason": reason, "median_us": medians[0],
                          "spread": spread(samples[0]), "best_order": contenders[best][0], "best_kernels": describe(contenders[best][1]),
                          "best_us": medians[best], "default_of_best": ratios[best]})  # fmt: skip
        return self.rows[-1]


def default_choice(upload):
    """{kind of work: the setting that tuning chose}."""
    chosen = {}
    for key, record in upload.kinds.items():
        chosen[key] = next((spec_of(c) for c in record["candidates"] if c["outcome"].endswith("CHOSEN")), "the first choice")
    return chosen


def spread(rounds):
    """Largest median of a round by the smallest."""
    medians = [statistics.median(samples) for samples in rounds]
    return max(medians) / min(medians)


def save(path, rows):
    if path:
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump({"rows": rows}, file, indent=1)
        os.replace(path + ".part", path)


def measure(options, server, folder, rows, faults):
    """Returns False if the time was up."""
    deadline = time.monotonic() + options.stop_after
    for name in options.names.split(","):
        begin = time.monotonic()
        file = os.path.join(folder, name + ".npz")
        edges, nodes = read_graph(os.path.join(options.graphs, name + ".bin"))
        x = np.random.default_rng(3).standard_normal((nodes, orders.FEATURES), np.float32)
        np.savez(file, edge_index=edges, x=x)
        del x
        graph = Graph(options, server, name, file, deadline)
        try:
            row = graph.run()
            print(f"{name:18} {row['taken']:10} {row['median_us']:9.1f} us, {row['default_of_best']:.3f} of the best: {row['best_order']}, "
                  f"{row['best_kernels']}; {edges.shape[1]} edges, {time.monotonic() - begin:.0f} s", flush=True)  # fmt: skip
        except TimeIsUp:
            print(f"{name}: the time is up", flush=True)
            return False
        except RuntimeError as error:  # a call failed: the other graphs are measured nevertheless
            faults.append(f"{name}: {error}")
            print("FAILED " + faults[-1], flush=True)
        finally:
            rows += graph.rows
            faults += graph.faults
            save(options.json, rows)
            os.remove(file)
    return True


def main():
    options = parse_arguments()
    rows, faults = [], []
    with tempfile.TemporaryDirectory() as folder:
        files = orders.write_model(folder)
        server = Server(os.path.join(folder, "server"), options.bin, options.device, "--keep_answers=never")
        try:
            server.call("model", "upload", files["architecture"], "--weights", files["weights"], "--name", "gcn")
            finished = measure(options, server, folder, rows, faults)
        finally:
            status = server.stop()
            if status != 0:
                print(f"the server ended with status {status}\n{server.log()[-3000:]}")
    results = [row for row in rows if "default_of_best" in row]
    within = sum(row["default_of_best"] <= 1.03 for row in results)
    print(f"{within} of {len(results)} graphs within 3 % of the best; {len(faults)} faults")
    if faults or status != 0:
        return 1
    return 0 if finished else 3


if __name__ == "__main__":
    sys.exit(main())
