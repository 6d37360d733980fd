#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Classify of a few nodes: this server beside a bare gRPC server and beside Python around PyTorch Geometric, in one run.

  python3 bench/serving/run.py --bin build/bench/bin [--python PYTHON] [--device cuda:0] [--json OUT.json]

Contestants, each a process that lives for the whole run: a gRPC callback server that answers every call with the same reply (`bare`), the
same without Abseil's search for deadlocks, which is in Debian's build and which this server turns off (`bare lean`), this server with kept
answers and without, and the Python server of python_server.py with logits kept in a tensor (threads, asyncio) and with a forward pass per
request; on the CPU, and with --device also on that GPU. `vicinal load` has cores of its own, the contestants share the others, and all are
in the session of this script, so that no scheduler weighs them differently. The others are idle while one has its turn. Answers are
compared first. Each round gives everybody a turn at every number of calls in flight; ratios are medians over rounds.

Needs only the standard library; PYTHON is an interpreter with what python_server.py needs (without: the Python servers are left out)."""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON_SERVER = os.path.join(ROOT, "bench", "serving", "python_server.py")
CHECKED = "0,5,9,17,100,1000,2000,2500,2600,2707"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default="build/bench/bin", help="vicinal, vicinal-server, vicinal_bench_bare_server")
    parser.add_argument("--data", default=os.path.join(ROOT, "tests", "data"), help="graphs/NAME.npz and models/NAME.*")
    parser.add_argument("--graph", default="cora")
    parser.add_argument("--model", default="cora-gcn", help="a ready-made class of PyTorch Geometric, without edge weights")
    parser.add_argument("--device", default="cpu", help="of this server; a GPU is one for the Python servers, too")
    parser.add_argument("--python", help="interpreter with torch, torch_geometric and grpcio")
    parser.add_argument("--pythonpath", help="folder of the package vicinal; default: found beside --bin")
    parser.add_argument("--in-flight", default="1,64,256")
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of each turn, after --warmup")
    parser.add_argument("--warmup", type=float, default=0.5, help="seconds at the start of each turn that do not count")
    parser.add_argument("--load-cores", type=int, help="default: a quarter of the cores, at least one")
    parser.add_argument("--connections", type=int, default=8, help="of the load, where so many calls are in flight")
    parser.add_argument("--only", help="names of contestants, with commas; bare is needed for ratios")
    parser.add_argument("--json", help="file for the results, for bench/results/record.py")
    options = parser.parse_args()
    options.bin = os.path.abspath(options.bin)
    options.in_flight = [int(text) for text in options.in_flight.split(",")]
    if options.pythonpath is None:
        beside = os.path.dirname(options.bin)
        places = [os.path.join(beside, "python"), os.path.join(beside, "client", "python", "installed")]
        options.pythonpath = next((place for place in places if os.path.isdir(place)), places[0])
    return options


def share_cores(load_cores):
    """The cores of the load and those of the servers; on one core both have it."""
    cores = sorted(os.sched_getaffinity(0))
    count = load_cores or max(1, len(cores) // 4)
    return (set(cores[:count]), set(cores[count:])) if count < len(cores) else (set(cores), set(cores))


class Contestant:
    """A server as a process on given cores; `address` is its own words, or its ready file's."""

    def __init__(self, name, command, cores, log, ready=None, environment=None):
        self.name = name
        self.log = log
        with open(log, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, text=True,
                                            env={**os.environ, **(environment or {})},
                                            preexec_fn=lambda: os.sched_setaffinity(0, cores))  # fmt: skip
        self.address = self.from_file(ready) if ready else self.process.stdout.readline().strip()
        if not self.address:
            self.fail()

    def from_file(self, ready):
        deadline = time.monotonic() + 60
        while not (os.path.exists(ready) and os.path.getsize(ready)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.fail()
            time.sleep(0.01)
        with open(ready, encoding="utf-8") as file:
            return json.load(file)["grpc"]

    def fail(self):
        self.stop()
        with open(self.log, encoding="utf-8") as file:
            raise RuntimeError(f"{self.name} did not start:\n{file.read()[-3000:]}")

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as file:
            user, system = file.read().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


class Bench:
    def __init__(self, options, folder, stack):
        self.options, self.folder, self.stack = options, folder, stack
        self.load_cores, self.server_cores = share_cores(options.load_cores)
        self.contestants = {}

    def program(self, name):
        return os.path.join(self.options.bin, name)

    def vicinal(self, address, *arguments, cores=None):
        done = subprocess.run([self.program("vicinal"), *arguments, "--server", address, "--json"], capture_output=True, text=True,
                              check=False, preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"vicinal {' '.join(arguments)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def wanted(self, name):
        return not self.options.only or name in self.options.only.split(",")

    def add(self, name, command, **how):
        log = os.path.join(self.folder, f"{len(self.contestants)}.log")
        made = Contestant(name, command, self.server_cores, log, **how)
        self.stack.callback(made.stop)
        self.contestants[name] = made
        return made

    def add_ours(self, name, keep):
        ready = os.path.join(self.folder, keep + ".ready.json")
        made = self.add(name, [self.program("vicinal-server"), f"--device={self.options.device}", f"--keep_answers={keep}",
                               "--grpc_listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0", f"--ready_file={ready}"], ready=ready)  # fmt: skip
        data, graph, model = self.options.data, self.options.graph, self.options.model
        self.vicinal(made.address, "graph", "upload", os.path.join(data, "graphs", graph + ".npz"), "--name", graph)
        stem = os.path.join(data, "models", model)
        self.vicinal(made.address, "model", "upload", stem + ".json", "--weights", stem + ".safetensors", "--name", model)
        return made

    def add_bare(self, name, ours, *flags):
        self.add(name, [self.program("vicinal_bench_bare_server"), f"--from={ours.address}", f"--graph={self.options.graph}",
                        f"--model={self.options.model}", f"--nodes={self.options.nodes}", *flags])  # fmt: skip

    def add_python(self, name, *flags):
        stem = os.path.join(self.options.data, "models", self.options.model)
        command = [self.options.python, "-u", PYTHON_SERVER, "--model", stem]
        command += ["--graph", os.path.join(self.options.data, "graphs", self.options.graph + ".npz"), *flags]
        self.add(name, command, environment={"PYTHONPATH": self.options.pythonpath})

    def start(self):
        ours = self.add_ours("vicinal", "always")
        if self.wanted("vicinal computing"):
            self.add_ours("vicinal computing", "never")
        self.add_bare("bare", ours)
        if self.wanted("bare lean"):
            self.add_bare("bare lean", ours, "--search_for_deadlocks=false")
        devices = ["cpu"] + ([self.options.device] if self.options.device.startswith("cuda") else [])
        for device in devices if self.options.python else []:
            kind = "GPU" if device != "cpu" else "CPU"
            for name, flags in {"kept, threads": ["--keep"], "kept, asyncio": ["--keep", "--asyncio"], "forward": []}.items():
                if self.wanted(f"Python {kind} {name}"):
                    self.add_python(f"Python {kind} {name}", "--device", device, *flags)

    def compare_answers(self):
        """Everybody but the bare ones gives the same classes, and this server's are kept where they are said to be."""
        expected = None
        for name, contestant in self.contestants.items():
            if name.startswith("bare"):
                continue
            self.load(contestant.address, 1, 0.3, 0)  # kept answers are made once they are asked for
            answer = self.classes(contestant)
            expected = expected or answer
            if answer != expected:
                raise RuntimeError(f"{name} answers {answer}, not {expected}")

    def classes(self, contestant):
        reply = self.vicinal(contestant.address, "classify", "--graph", self.options.graph, "--model", self.options.model,
                             "--nodes", CHECKED, "--ids", "none")  # fmt: skip
        if contestant.name == "vicinal" and not reply["timing"]["kept_answers"]:
            raise RuntimeError("the server with --keep_answers=always computed an answer; see its log")
        return reply["classes"]

    def load(self, address, in_flight, seconds, warmup):
        threads = min(in_flight, len(self.load_cores))
        report = self.vicinal(address, "load", "--graph", self.options.graph, "--model", self.options.model, "--nodes", str(self.options.nodes),
                              "--concurrency", str(in_flight), "--duration", str(seconds), "--warmup", str(warmup), "--threads", str(threads),
                              "--connections", str(max(threads, min(in_flight, self.options.connections))), cores=self.load_cores)  # fmt: skip
        return report["steps"][0]

    def turn(self, contestant, in_flight):
        self.load(contestant.address, in_flight, self.options.warmup, 0)
        before = contestant.cpu_seconds()
        step = self.load(contestant.address, in_flight, self.options.seconds, 0)
        cpu = contestant.cpu_seconds() - before
        if step["failed"]:
            raise RuntimeError(f"{contestant.name}: {step['failed']} calls failed at {in_flight} in flight")
        return {"per_second": step["ok_per_second"], "median_us": step["latency"]["p50"] * 1e6, "p99_us": step["latency"]["p99"] * 1e6,
                "server_median_us": step["server"]["p50"] * 1e6, "cpu_us": cpu / step["ok"] * 1e6, "reply_bytes": step["reply_bytes"] / step["ok"]}

    def run(self):
        turns = {}
        for number in range(self.options.rounds):
            for in_flight in self.options.in_flight:
                for name, contestant in self.contestants.items():
                    turns.setdefault((in_flight, name), []).append(self.turn(contestant, in_flight))
            print(f"round {number + 1} of {self.options.rounds}", file=sys.stderr, flush=True)
        return turns


def rows_of(turns):
    """One row per number of calls in flight and contestant: medians over rounds, and of the ratios within each round."""
    rows = []
    for (in_flight, name), samples in turns.items():
        row = {"in_flight": in_flight, "server": name}
        for key in ("per_second", "median_us", "p99_us", "server_median_us", "cpu_us", "reply_bytes"):
            row[key] = round(statistics.median(sample[key] for sample in samples), 1)
        for base in ("bare", "bare lean", "vicinal"):
            others = turns.get((in_flight, base))
            if others and base != name:
                pairs, key = list(zip(samples, others)), base.replace(" ", "_")
                row[f"throughput_of_{key}"] = round(statistics.median(a["per_second"] / b["per_second"] for a, b in pairs), 4)
                row[f"median_of_{key}"] = round(statistics.median(a["median_us"] / b["median_us"] for a, b in pairs), 3)
        rows.append(row)
    return rows


def print_rows(rows):
    print(f"{'in flight':>9}  {'server':<26}{'calls/s':>9}{'median us':>11}{'p99 us':>10}{'CPU us':>9}{'x bare':>8}{'vicinal is':>12}")
    for row in rows:
        bare = f"{row['throughput_of_bare']:.2f}" if "throughput_of_bare" in row else ""
        faster = f"{1 / row['throughput_of_vicinal']:.2f} x" if "throughput_of_vicinal" in row else ""
        print(f"{row['in_flight']:>9}  {row['server']:<26}{row['per_second']:>9.0f}{row['median_us']:>11.0f}{row['p99_us']:>10.0f}"
              f"{row['cpu_us']:>9.1f}{bare:>8}{faster:>12}")


def main():
    options = parse_arguments()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="vicinal-serving-"))
        bench = Bench(options, folder, stack)
        print(f"load on cores {sorted(bench.load_cores)}, servers on {sorted(bench.server_cores)}", file=sys.stderr)
        bench.start()
        bench.compare_answers()
        rows = rows_of(bench.run())
    print_rows(rows)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"load_cores": len(bench.load_cores), "server_cores": len(bench.server_cores), "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
