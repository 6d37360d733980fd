#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vicinal ... | head -1`: the program ends as git and grep do when nobody reads its output any more. A server that closes its connections
is another matter: an error with an exit code."""

import os
import signal
import socket
import subprocess
import threading
import unittest

VICINAL = os.path.join(os.environ["VICINAL_BIN_DIR"], "vicinal")


def run_into_closed_pipe(*words, **how):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run([VICINAL, *words], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, **how)
    finally:
        os.close(writer)


class ClosedPipeTest(unittest.TestCase):
    def test_ends_quietly_by_the_signal(self):
        for words in (["--help"], ["--version", "--json"], ["graph", "upload", "--help"]):
            done = run_into_closed_pipe(*words)
            self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, ""), words)

    def test_also_below_a_parent_that_ignores_the_signal(self):
        done = run_into_closed_pipe("--help", restore_signals=False)  # Python ignores SIGPIPE, and so would its child
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, ""))

    def test_the_first_line_arrives(self):
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {VICINAL} --help | head -1"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.stdout.count("\n"), done.stderr), (1, ""))

    def test_a_disk_that_is_full_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([VICINAL, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (1, "vicinal: the output could not be written\n"))

    def test_connections_that_the_server_closes_do_not_end_it(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(0.2)
            ended = threading.Event()

            def accept_and_close():
                while not ended.is_set():
                    try:
                        listener.accept()[0].close()
                    except TimeoutError:
                        continue

            thread = threading.Thread(target=accept_and_close)
            thread.start()
            try:
                done = subprocess.run([VICINAL, "--server", f"127.0.0.1:{listener.getsockname()[1]}", "--timeout", "1", "graph", "list"],
                                      capture_output=True, text=True, timeout=60)
            finally:
                ended.set()
                thread.join()
        self.assertEqual(done.returncode, 3, done.stderr)


if __name__ == "__main__":
    unittest.main()
