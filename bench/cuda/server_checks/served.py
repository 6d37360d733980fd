# SPDX-License-Identifier: Apache-2.0
"""A server of its own on a device, asked with the command line, and the list of what was checked."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.request

import numpy as np


class Server:
    """vicinal-server on a device, until stop()."""

    def __init__(self, folder, bin_folder, device, *flags):
        self.bin, self.device, self.folder = bin_folder, device, folder
        os.makedirs(folder)
        ready = os.path.join(folder, "ready.json")
        with open(os.path.join(folder, "server.log"), "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [os.path.join(bin_folder, "vicinal-server"), f"--device={device}", "--grpc_listen=127.0.0.1:0",
                 "--metrics_listen=127.0.0.1:0", f"--ready_file={ready}", *flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # fmt: skip
        deadline = time.monotonic() + 60
        while not (os.path.exists(ready) and os.path.getsize(ready)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError(f"the server on {device} did not start:\n{self.log()}")
            time.sleep(0.05)
        with open(ready, encoding="utf-8") as file:
            addresses = json.load(file)
        self.address, self.metrics = addresses["grpc"], addresses["metrics"]

    def log(self):
        with open(os.path.join(self.folder, "server.log"), encoding="utf-8") as file:
            return file.read()

    def call(self, *arguments):
        """Runs the command line against this server. Returns its JSON, or raises RuntimeError with its output."""
        command = [os.path.abspath(os.path.join(self.bin, "vicinal")), "--server", self.address, "--json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, check=False, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()[-400:]}")
        return json.loads(done.stdout)

    def metric(self, name, label=""):
        """The sum of a metric's values over its labels, or of those with that label: `kind="graphs"`."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=30) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(re.escape(name) + r"[ {]", line) and label in line)

    def matrix(self, name, *arguments):
        """The main matrix of an answer, written with --out."""
        path = os.path.join(self.folder, name + ".npy")
        answer = self.call(*arguments, "--out", path)
        return np.load(path), answer

    @contextlib.contextmanager
    def loaded(self, *arguments):
        """Other clients meanwhile: `vicinal load` with these arguments."""
        command = [os.path.abspath(os.path.join(self.bin, "vicinal")), "load", "--server", self.address, "--json", *arguments]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder) as load:
            try:
                yield
            finally:
                load.terminate()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return -9


class Checks:
    def __init__(self):
        self.results = []

    def add(self, name, ok, **more):
        self.results.append({"check": name, "ok": bool(ok), **more})
        said = ", ".join(f"{key} {value}" for key, value in more.items())
        print(f"{'ok  ' if ok else 'FAIL'} {name}{': ' + said if said else ''}", flush=True)

    def attempt(self, name, body):
        """Runs `body`, which adds checks. An exception counts as a failed check."""
        try:
            body()
        except (RuntimeError, subprocess.TimeoutExpired, OSError, KeyError, ValueError) as error:
            self.add(name, False, error=str(error)[:500])

    def failed(self):
        return sum(not result["ok"] for result in self.results)
