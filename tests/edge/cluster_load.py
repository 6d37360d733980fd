#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three real servers behind the edge are killed, restarted and rolled under load, again and again; prints calls, failures and latency of
each kind of event as JSON:

    VICINAL_BIN_DIR=build/release/bin PYTHONPATH=build/release/client/python/installed \\
      tests/edge/cluster_load.py [--rounds 5] [--threads 4] [--quiet 10] [--no_retries] [--json FILE]

A round kills one reader, the other and the writer with SIGKILL, each at once started again, then rolls all three with SIGTERM, one after
another. `quiet`: seconds without an event, before the first round, for comparison."""

import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster_process import Cluster, Load  # noqa: E402

GRAPHS = [f"cora-{i}" for i in range(1, 7)]
# After an event, so that calls that were tried again belong to it.
SETTLE_SECONDS = 2


def one_event(cluster, load, name, end):
    """(begin, end) of the event."""
    begin, member = time.monotonic(), cluster.members[name]
    getattr(member, end)()
    member.start()
    cluster.wait_until_served()
    time.sleep(SETTLE_SECONDS)
    load.wait_for_calls(1)
    return begin, time.monotonic()


def row(load, label, spans):
    return {"event": label, "times": len(spans), "seconds": round(sum(end - begin for begin, end in spans), 1), **load.milliseconds(spans)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--quiet", type=float, default=10)
    parser.add_argument("--no_retries", action="store_true", help="of the client: shows what it would see without them")
    parser.add_argument("--json")
    options = parser.parse_args()
    with Cluster() as cluster:
        cluster.fill(GRAPHS)
        with Load(cluster, GRAPHS, options.threads, **({"service_config": None} if options.no_retries else {})) as load:
            events = {"none": [(time.monotonic(), time.monotonic() + options.quiet)]}
            time.sleep(options.quiet)
            for _ in range(options.rounds):
                for end, names in (("kill", ("reader-1", "reader-2", "writer")), ("stop", ("writer", "reader-1", "reader-2"))):
                    for name in names:
                        label = f"{'kill -9' if end == 'kill' else 'SIGTERM'} {name.partition('-')[0]}"
                        events.setdefault(label, []).append(one_event(cluster, load, name, end))
    result = {"calls": len(load.calls), "failed": len(load.failures), "failures": sorted(set(load.failures))[:10],
              "threads": options.threads, "graphs": len(GRAPHS), "events": [row(load, label, spans) for label, spans in events.items()]}
    text = json.dumps(result, indent=1)
    print(text)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    return 1 if load.failures else 0


if __name__ == "__main__":
    sys.exit(main())
