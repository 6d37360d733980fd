#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs each attack of attacks.py against vicinal-server, alone or behind the edge, while an honest client calls:

    VICINAL_BIN_DIR=build/release/bin tests/hostile/hostile.py [--where alone|mtls|edge] [--token] [--scale 1] [--check] [--json FILE]

Prints one line an attack: whether the server lives, its memory (the peak, and within 10 s of serving normally again), the peak of the edge's, the server's
processor time, the honest client's p99 before, during and after, its failures, and how soon it is served normally again. "mtls": the server itself
wants client certificates, and the attacker has none. table.py runs all of them beside each other on a machine with many cores. --check: fails unless all that behind the edge is in order (for CI, with a small scale). Where control groups
of version 1 can be made, the server has 683 MiB; elsewhere its memory is only watched."""

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import threading
import time

import grpc

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
for folder in ("deploy", "edge", "hostile"):
    sys.path.insert(0, os.path.join(ROOT, "tests", folder))
from attacks import ATTACKS, COMPARISONS, Sent, Target  # noqa: E402
from edge_process import TOKEN, Authority, Edge, wait_until  # noqa: E402
from server_process import ServerProcess  # noqa: E402

LIMIT_BYTES = 683 << 20
SPAWN = multiprocessing.get_context("spawn")


@contextlib.contextmanager
def memory_limit(process):
    group = f"/sys/fs/cgroup/memory/vicinal-hostile-{process}"
    try:
        os.mkdir(group)
    except OSError:
        yield False
        return
    try:
        for name, value in (("memory.limit_in_bytes", LIMIT_BYTES), ("cgroup.procs", process)):
            with open(os.path.join(group, name), "w", encoding="ascii") as file:
                file.write(str(value))
        yield True
    finally:
        with contextlib.suppress(OSError):
            with open("/sys/fs/cgroup/memory/cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(process))
        with contextlib.suppress(OSError):
            os.rmdir(group)


def memory_mib(process, name):
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return next((int(line.split()[1]) // 1024 for line in file if line.startswith(name)), 0)  # 0: it has ended


class Honest:
    """Calls one after another, from another address than the attacker's and in a process of its own, so that what it measures is
    the server. `credentials`: (authority, key, certificate) in PEM, or None without TLS. `rate`: calls per second, at most."""

    def __init__(self, address, credentials, rate):
        self.calls = []  # (begin, seconds, failed)
        self.pipe, there = SPAWN.Pipe()
        self.process = SPAWN.Process(target=call_until_told, args=(there, address, credentials, rate))
        self.process.start()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        while (call := self.pipe.recv()) is not None:
            self.calls.append(call)

    def finish(self):
        self.pipe.send(None)
        self.reader.join()
        self.process.join()


def call_until_told(pipe, address, credentials, rate):
    """In the honest client's process."""
    os.setsid()
    options = [("grpc.ssl_target_name_override", "localhost")]
    channel = (grpc.secure_channel(address, grpc.ssl_channel_credentials(*credentials), options=options) if credentials
               else grpc.insecure_channel(address))
    call = channel.unary_unary("/vicinal.v1.ServerService/GetCapabilities")
    while not pipe.poll(1 / rate):
        begin, failed = time.monotonic(), False
        try:
            call(b"", metadata=(("authorization", f"Bearer {TOKEN}"),), timeout=20)
        except grpc.RpcError as error:
            failed = True
            print(error.code(), error.details(), file=sys.stderr)
        pipe.send((begin, time.monotonic() - begin, failed))
    pipe.send(None)


def attack_in_process(pipe, name, target, scale, seconds, processors):
    """In the attacker's process, on processors of its own or else yielding to the others: a real attacker has a machine of its own."""
    os.setsid()
    if processors:
        os.sched_setaffinity(0, processors)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as file:
        file.write("10")
    attack, total, begin = next(attack for attack in (*ATTACKS, *COMPARISONS) if attack.__name__ == name), (0, 0), time.monotonic()
    while True:
        sent = Sent()
        attack(Target(*target), sent, scale)
        total = (total[0] + sent.bytes, total[1] + sent.connections)
        if time.monotonic() > begin + seconds:
            return pipe.send(total)


def processor_of_attacker():
    """Keeps one processor free of this process, and of all that it starts, if there are enough; empty: there are not."""
    first, *others = sorted(os.sched_getaffinity(0))
    if len(others) < 2:
        return set()
    os.sched_setaffinity(0, others)
    return {first}


def attack_apart(attack, target, scale, seconds, processors):
    """(bytes, connections) of the attack, which is repeated until `seconds` have passed."""
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=attack_in_process, args=(there, attack.__name__, target, scale, seconds, processors))
    process.start()
    total = here.recv()
    process.join()
    return total


def p99(seconds):
    ordered = sorted(seconds)
    return ordered[int(0.99 * (len(ordered) - 1))] if ordered else 0.0


def recovery_seconds(honest, end, normal):
    """Until five calls in a row took no longer than normal; None: not within 12 s."""
    while time.monotonic() < end + 12:
        time.sleep(0.05)
        calls = [call for call in honest.calls if call[0] + call[1] > end]
        for first in range(len(calls) - 4):
            if all(not failed and seconds <= normal for _, seconds, failed in calls[first:first + 5]):
                return max(0.0, calls[first][0] - end)
    return None


def processor_seconds(process):
    with open(f"/proc/{process}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Certificates:
    """Of a server that wants client certificates: its flags, and the channel of an honest client."""

    def __init__(self, folder):
        self.authority = Authority(folder, "authority-of-the-server")
        self.flags, self.honest = [], self.authority.issue("honest")
        certificate, key = self.authority.issue("server")
        for name, content in (("cert", certificate), ("key", key), ("client_ca", self.authority.pem())):
            path = os.path.join(folder, name + ".pem")
            with open(path, "wb") as file:
                file.write(content)
            self.flags.append(f"--tls_{name}_file={path}")

    def of_honest(self):
        """For Honest."""
        certificate, key = self.honest
        return self.authority.pem(), key, certificate


def open_way(where, server, certificates, token, connection_rate, stack):
    """How the attacker and an honest client reach the server: (arguments of Target, arguments of Honest, edge or None)."""
    if where == "edge":
        edge = stack.enter_context(Edge(server.grpc, connection_rate=connection_rate))
        authority = edge.authority.pem()
        return (edge.target, authority, token), (edge.target, (authority, None, None)), edge
    if where == "mtls":
        return (server.grpc, certificates.authority.pem(), token), (server.grpc, certificates.of_honest()), None
    return (server.grpc, None, token), (server.grpc, None), None


def run_one(attack, where, processors, arguments):
    token = TOKEN if arguments.token else None
    scale, seconds = arguments.scale, arguments.seconds
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(Edge("127.0.0.1:1").temporary)
        flags = ["--memory_budget_bytes=512MiB"]
        for role, secret in (("infer", TOKEN), ("admin", TOKEN + "admin")):
            path = os.path.join(folder, role)
            with open(path, "w", encoding="ascii") as file:
                file.write(secret + "\n")
            flags.append(f"--{role}_token_file={path}")
        certificates = Certificates(folder) if where == "mtls" else None
        server = ServerProcess(*flags, *(certificates.flags if certificates else ()))
        server.__enter__()
        process = server.process
        stack.callback(process.kill)  # where what follows is cut off; it has ended otherwise
        with contextlib.ExitStack() as inner:
            limited = inner.enter_context(memory_limit(process.pid))
            target, way, edge = open_way(where, server, certificates, token, arguments.connection_rate, inner)
            honest = Honest(*way, arguments.rate)
            inner.callback(honest.finish)
            wait_until(lambda: honest.calls, "the honest client is not served")
            honest.calls.clear()
            time.sleep(max(1.5, seconds))
            before = p99([seconds for _, seconds, failed in honest.calls if not failed])
            begin, processor, calm_mib = time.monotonic(), processor_seconds(process.pid), memory_mib(process.pid, "VmRSS")
            sent_bytes, connections = attack_apart(attack, target, scale, seconds, processors)
            end = time.monotonic()
            alive = process.poll() is None
            processor = processor_seconds(process.pid) - processor if alive else None
            recovered = recovery_seconds(honest, end, max(3 * before, 0.1)) if alive else None
            # Once it serves as before, memory that was taken for a while is given back within 10 s.
            normal = time.monotonic()
            while alive and (time.monotonic() < normal + max(1.5, seconds) or
                             time.monotonic() < normal + 10 and memory_mib(process.pid, "VmRSS") > calm_mib + 20):
                time.sleep(0.2)
                alive = process.poll() is None
            during = [call for call in honest.calls if call[0] + call[1] > begin and call[0] < end]
            after = [call for call in honest.calls if call[0] > normal]
            row = {"attack": attack.__name__, "where": where + (", with a token" if token else ""),
                   "sent_mb": sent_bytes / 1e6, "connections": connections,
                   "lives": alive, "limited": limited, "peak_mib": memory_mib(process.pid, "VmHWM") if alive else None,
                   "after_mib": memory_mib(process.pid, "VmRSS") if alive else None, "processor_s": processor,
                   "edge_mib": edge.peak_mib() if edge else None,
                   "p99_before_ms": before * 1e3, "p99_during_ms": p99([seconds for _, seconds, _ in during]) * 1e3,
                   "p99_after_ms": p99([seconds for _, seconds, _ in after]) * 1e3, "calls_during": len(during),
                   "failed": sum(failed for _, _, failed in during + after), "recovered_s": recovered if alive else None}
        if alive:
            server.__exit__()
        else:
            server.log.close()
            server.folder.cleanup()
        return row


def line_of(row):
    def shown(value, form="{:.0f}"):
        return "-" if value is None else form.format(value)

    return (f"| {row['attack']} | {row['where']} | {row['sent_mb']:.1f} | {row['connections']} | "
            f"{'lives' if row['lives'] else '**ended**'} | {shown(row['peak_mib'])}, {shown(row['after_mib'])} | "
            f"{shown(row['edge_mib'])} | {shown(row['processor_s'], '{:.1f}')} | "
            f"{row['p99_before_ms']:.1f}, {row['p99_during_ms']:.1f}, {row['p99_after_ms']:.1f} | "
            f"{row['failed']} | {shown(row['recovered_s'], '{:.1f}')} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--where", choices=("alone", "mtls", "edge"), action="append")
    parser.add_argument("--token", action="store_true", help="the attacker has the infer token")
    parser.add_argument("--seconds", type=float, default=0, help="repeat each attack for so long, so that there is a p99")
    parser.add_argument("--scale", type=float, default=1.0, help="of what is sent; 1 is the whole attack")
    parser.add_argument("--rate", type=float, default=100, help="calls per second of the honest client, at most")
    parser.add_argument("--connection_rate", type=int, default=10000,
                        help="of the edge, in 10 s; its own is 100, which also bounds how often an attack can be repeated")
    parser.add_argument("--json", metavar="FILE", help="writes the rows, too")
    parser.add_argument("--attack", choices=[attack.__name__ for attack in (*ATTACKS, *COMPARISONS)], action="append",
                        help="these only; busy_client is no attack, but a client to compare with")
    parser.add_argument("--check", action="store_true", help="fail unless the server behind the edge is unharmed")
    arguments = parser.parse_args()
    print("| attack | where | sent MB | connections | server | peak, after MiB | edge MiB | processor s | p99 before, during, after ms | "
          "failed | normal after s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    rows, wrong = [], []
    processors = processor_of_attacker()
    wanted = [attack for attack in (*ATTACKS, *COMPARISONS) if attack.__name__ in arguments.attack] if arguments.attack else ATTACKS
    for attack in wanted:
        for where in arguments.where or ("alone", "mtls", "edge"):
            row = run_one(attack, where, processors, arguments)
            print(line_of(row), flush=True)
            rows.append(row)
            if arguments.json:  # after each, so that what was measured stays if the rest is cut off
                with open(arguments.json, "w", encoding="utf-8") as file:
                    json.dump({"rows": rows}, file, indent=1)
            unharmed = row["lives"] and row["failed"] == 0 and row["recovered_s"] is not None and row["recovered_s"] < 10
            if where == "edge" and not unharmed:
                wrong.append(row)
    for row in wrong if arguments.check else ():
        print("not unharmed:", row, file=sys.stderr)
    return 1 if arguments.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
