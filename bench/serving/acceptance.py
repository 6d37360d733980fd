#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The measurements of serving under load, one after the other, in about seven minutes on 16 cores and a GPU.

  python3 bench/serving/acceptance.py --bin build/bench/bin --device cuda:0 --out FOLDER [--only kept,overload] [--scale 0.1]

Each part is a script of this folder, which its help describes; this one chooses arguments, limits the time, and goes on when one fails.
FOLDER gets NAME.json (for bench/results/record.py) and NAME.log of each. --scale makes times and graphs smaller, for a trial. Needs numpy."""

import argparse
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", default="build/bench/bin")
    parser.add_argument("--base", help="folder of an older vicinal-server to compare with, where a part does")
    parser.add_argument("--data", help="default: tests/data of the repository")
    parser.add_argument("--device", default="cpu", help="of the parts that run on a GPU, too")
    parser.add_argument("--load-cores", type=int)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", help="names of parts, with commas")
    parser.add_argument("--scale", type=float, default=1.0)
    return parser.parse_args()


def parts(options):
    """(name, script, arguments, seconds that it may take)."""
    scale, gpu = options.scale, options.device
    seconds = lambda full: f"{max(0.3, full * scale):.1f}"
    sizes = ("--nodes", str(int(1e6 * scale)), "--edges", str(int(1e7 * scale)))
    base = ("--base", options.base) if options.base else ()
    devices = {"cpu": "cpu"} | ({"gpu": gpu} if gpu != "cpu" else {})
    yield "kept", "run.py", ("--only", "bare", "--in-flight", "1,64,256", "--rounds", "2", "--seconds", seconds(1.5)), 90
    for name, device in devices.items():
        yield f"coalescing_{name}", "coalescing.py", ("--device", device, "--seconds", seconds(2), *base), 60
    yield "overload", "overload.py", ("--seconds", seconds(3)), 150
    for name, device in devices.items():
        yield f"tuning_{name}", "tuning.py", ("--device", device, "--most", seconds(60), "--after", seconds(5), *sizes), 160
        yield f"greedy_{name}", "greedy.py", ("--device", device, "--passes", str(int(1000 * scale)), "--seconds", seconds(4), *sizes), 60
    yield "memory", "memory.py", ("--device", gpu, "--seconds", seconds(80)), 120


def run(options, name, script, arguments, limit):
    command = [sys.executable, os.path.join(HERE, script), "--bin", options.bin, "--json", os.path.join(options.out, name + ".json"), *arguments]
    for flag in ("data", "load_cores"):
        if getattr(options, flag) is not None:
            command += ["--" + flag.replace("_", "-"), str(getattr(options, flag))]
    begin = time.monotonic()
    with open(os.path.join(options.out, name + ".log"), "w", encoding="utf-8") as log:
        try:
            # With `timeout`, which ends the servers of the script, too.
            status = subprocess.run(["timeout", "--kill-after=5", str(limit), *command], stdout=log, stderr=log, check=False).returncode
        except OSError as error:
            raise RuntimeError(f"{name}: {error}") from error
    print(f"{name}: {'done' if status == 0 else f'status {status}'}, {time.monotonic() - begin:.0f} s", flush=True)
    return status == 0


def main():
    options = parse_arguments()
    os.makedirs(options.out, exist_ok=True)
    wanted = options.only.split(",") if options.only else None
    chosen = [part for part in parts(options) if wanted is None or part[0] in wanted]
    if not chosen:
        sys.exit(f"no such part: {options.only}; there are {', '.join(part[0] for part in parts(options))}")
    return 0 if all([run(options, *part) for part in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main())
