# SPDX-License-Identifier: Apache-2.0
"""Processes that answer one JSON line with one JSON line: our benchmark worker and the peers'."""

import json
import os
import subprocess
import time


class WorkerError(Exception):
    """What a worker answered instead of a result, or that it ended."""


class Process:
    def __init__(self, command, environment=None):
        self.command = command
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, **(environment or {})},
        )

    def ask(self, op, **fields):
        try:
            self.process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerError(f"{' '.join(self.command)} ended with status {self.process.wait()}")
        answer = json.loads(line)
        if not answer.pop("ok"):
            raise WorkerError(answer["error"])
        return answer

    def rest(self, at_most=0.1):
        """Waits until no thread of the process runs, or so many seconds.

        After a loop OpenMP's threads spin before they sleep, GCC's for several milliseconds: a process timed
        meanwhile has a core less.
        """
        end = time.perf_counter() + at_most
        while self._runs() and time.perf_counter() < end:
            time.sleep(0.0005)

    def _runs(self):
        folder = f"/proc/{self.process.pid}/task"
        for thread in os.listdir(folder):
            try:
                with open(f"{folder}/{thread}/stat", encoding="ascii", errors="replace") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "R":
                        return True
            except FileNotFoundError:
                continue  # it ended meanwhile
        return False

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
