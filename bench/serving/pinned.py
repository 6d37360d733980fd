# SPDX-License-Identifier: Apache-2.0
"""What the measurements of a loaded server share: cores for the load and others for the server, and steps of `vicinal load`.

The script and all that it starts run on the cores of the load; only servers get the others. On few cores both have all of them."""

import contextlib
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [ROOT, os.path.join(ROOT, "bench", "state")]

import common


def parser(description, json_name):
    made = common.parser(description, json_name)
    made.add_argument("--device", default="cpu")
    made.add_argument("--data", default=os.path.join(ROOT, "tests", "data"), help="graphs/NAME.npz and models/NAME.*")
    made.add_argument("--load-cores", type=int, default=None, help="default: a quarter of the cores; all of them on fewer than four")
    return made


class Cores:
    """Those of the load, on which this process runs from now on, and those of servers."""

    def __init__(self, load_cores):
        cores = sorted(os.sched_getaffinity(0))
        count = len(cores) // 4 if load_cores is None else load_cores
        shared = not 0 < count < len(cores)
        self.load = set(cores) if shared else set(cores[:count])
        self.server = set(cores) if shared else set(cores[count:])
        os.sched_setaffinity(0, self.load)

    @contextlib.contextmanager
    def of_server(self):
        os.sched_setaffinity(0, self.server)
        try:
            yield
        finally:
            os.sched_setaffinity(0, self.load)


class Server(common.Server):
    """A server of the programs in another folder than --bin; the command line is that of --bin."""

    def __init__(self, programs, options, *arguments, **more):
        self.programs = programs
        super().__init__(options, *arguments, **more)

    def program(self):
        return os.path.join(self.programs, "vicinal-server")


def server(cores, options, folder, *flags, name="server", programs=None):
    with cores.of_server():
        return Server(programs or options.bin, options, folder, f"--device={options.device}", *flags, name=name)


def upload(made, name, npz, *flags):
    made.vicinal("graph", "upload", npz, "--name", name, *flags)


def upload_model(made, name, stem, *flags):
    made.vicinal("model", "upload", stem + ".json", "--weights", stem + ".safetensors", "--name", name, *flags)


def upload_cora(made, options, *flags):
    """Graph `cora`, model `cora-gcn`: 2,708 nodes."""
    upload(made, "cora", os.path.join(options.data, "graphs", "cora.npz"), *flags)
    upload_model(made, "cora-gcn", os.path.join(options.data, "models", "cora-gcn"), *flags)


def load_arguments(cores, in_flight, seconds, warmup, *arguments):
    threads = min(in_flight, len(cores.load), 4)
    return ["load", "--threads", str(threads), "--connections", str(max(threads, min(8, in_flight))), "--duration", str(seconds),
            "--warmup", str(warmup), *arguments]  # fmt: skip


def load(made, arguments):
    """The document of `vicinal load`, whatever share of the calls has failed."""
    done = subprocess.run([os.path.join(made.bin, "vicinal"), *arguments, "--server", made.grpc, "--json"], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise RuntimeError(f"vicinal {' '.join(arguments)}: status {done.returncode}\n{done.stdout}{done.stderr}") from error


def closed_loop(made, cores, in_flight, seconds, *arguments, warmup=0.5):
    """The document of `vicinal load` with so many calls in flight."""
    return load(made, load_arguments(cores, in_flight, seconds, warmup, "--concurrency", str(in_flight), *arguments))


def open_loop(made, cores, rate, seconds, *arguments, warmup=0.0):
    """The document of `vicinal load` with so many calls a second, in a Poisson process."""
    return load(made, load_arguments(cores, 64, seconds, warmup, "--rate", f"{rate:.1f}", *arguments))


@contextlib.contextmanager
def beside(made, *arguments):
    """A `vicinal load` that runs meanwhile; its output is dropped."""
    command = [os.path.join(made.bin, "vicinal"), *arguments, "--server", made.grpc]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def milliseconds(times, *names):
    """{"p50_ms": ...} of a histogram of `vicinal load`; nothing where it is empty."""
    return {f"{name}_ms": round(times[name] * 1e3, 3) for name in names} if times["count"] else {}
