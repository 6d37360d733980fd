# SPDX-License-Identifier: Apache-2.0
"""Ports for programs that cannot choose their own."""

import random
import socket


def free_port():
    """Of 127.0.0.1. It lies below those that the kernel gives to connections and to listeners on port 0: tests that run at the same time take
    many of these before the program has bound its own."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        end = int(file.read().split()[0])
    for _ in range(1000):
        port = random.randrange(10_000, end)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no port from 10000 to {end} is free")
