# SPDX-License-Identifier: Apache-2.0
"""Processes that answer one JSON line with one JSON line: our benchmark worker and the peers'."""

import json
import os
import subprocess


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

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
