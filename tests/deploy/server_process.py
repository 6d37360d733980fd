# SPDX-License-Identifier: Apache-2.0
"""A real vicinal-server for the length of a test: free ports, a ready file, a clean stop that is checked."""

import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.request

BIN = os.environ.get("VICINAL_BIN_DIR", "build/release/bin")
START_SECONDS = 60
STOP_SECONDS = 60


class ServerProcess:
    """with ServerProcess("--admin_token_file=...") as server: server.grpc, server.metrics are HOST:PORT. `program`: another build."""

    def __init__(self, *flags, program=None):
        self.flags, self.program = flags, program or os.path.join(BIN, "vicinal-server")
        self.folder = tempfile.TemporaryDirectory(prefix="vicinal-test-")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def __enter__(self):
        ready = self.path("ready.json")
        self.log = open(self.path("server.log"), "w+", encoding="utf-8")
        command = [self.program, "--grpc_listen=127.0.0.1:0", "--metrics_listen=127.0.0.1:0",
                   f"--ready_file={ready}", *self.flags]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + START_SECONDS
        while not (os.path.exists(ready) and os.path.getsize(ready) > 0):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                self.process.wait()
                raise RuntimeError("the server did not become ready:\n" + self.read_log())
            time.sleep(0.02)
        with open(ready, encoding="utf-8") as file:
            addresses = json.load(file)
        self.grpc = addresses["grpc"]
        self.metrics = addresses["metrics"]
        # Only with --health_listen.
        self.health = addresses.get("health")
        # Only with --status_listen.
        self.status = addresses.get("status")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            log = self.read_log()
            self.log.close()
            self.folder.cleanup()
        if status != 0:
            raise RuntimeError(f"the server ended with status {status}:\n{log}")

    def read_log(self):
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def vicinal(self, *arguments, check=True):
        """Runs the command line against this server; its standard output."""
        command = [os.path.join(BIN, "vicinal"), "--server", self.grpc, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder.name, check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def scrape(self):
        """The metrics page, as text."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as page:
            return page.read().decode("utf-8")
