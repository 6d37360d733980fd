#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the instructions that hot CPU paths execute with the numbers kept in counts.json.

  check_counts.py PROGRAM            compares; a path that is 2 % off, in either direction, fails
  check_counts.py PROGRAM --update   counts each path twice and writes counts.json

callgrind counts the same instructions on a busy machine as on an idle one, so a small tolerance holds. What the numbers
do depend on (compiler, flags, C library, Highway, valgrind) is kept with them. Elsewhere, or without valgrind or AVX2,
the check says so and skips.
Exit status: 0 all within the tolerance, 1 not, 2 it could not count, 77 skipped.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "counts.json")
TOLERANCE_PERCENT = 2.0
# Two counts of one build on one machine; --update writes nothing when they differ by more.
REPEAT_PERCENT = 0.05
SKIPPED = 77


class Skip(Exception):
    """This machine cannot say anything."""


class Failure(Exception):
    """A path could not be counted."""


def percent(kept, counted):
    return 100.0 * (counted - kept) / kept


def deviations(kept, counted, tolerance=TOLERANCE_PERCENT):
    """One sentence for each path that is not as kept; both are {path: instructions}."""
    found = []
    for path in sorted(kept.keys() | counted.keys()):
        if path not in counted:
            found.append(f"{path}: counts.json has a number, but the program has no such path")
        elif path not in kept:
            found.append(f"{path}: counts.json has no number")
        else:
            change = percent(kept[path], counted[path])
            if abs(change) > tolerance:
                word = "more" if change > 0 else "fewer"
                found.append(f"{path}: {abs(change):.1f} % {word} instructions, {counted[path]:,} instead of {kept[path]:,}")
    return found


def differences(kept, here):
    """What differs between two environments, as sentences."""
    return [f"{name} is '{here.get(name)}', and the numbers are for '{kept.get(name)}'"
            for name in sorted(kept.keys() | here.keys()) if kept.get(name) != here.get(name)]


def total_of(profile):
    """The instructions in a callgrind output file."""
    found = re.search(r"^totals: (\d+)", profile, re.MULTILINE)
    if not found or int(found.group(1)) == 0:
        raise Failure("callgrind counted no instructions")
    return int(found.group(1))


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == SKIPPED:
        raise Skip(done.stderr.strip().splitlines()[-1])
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def environment_of(program):
    try:
        valgrind = output_of(["valgrind", "--version"]).strip()
    except FileNotFoundError:
        raise Skip("valgrind is not installed") from None
    here = json.loads(output_of([program, "--environment"]))
    if here.pop("callgrind") != "yes":
        raise Skip("the program was built without valgrind/callgrind.h")
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        if " avx2 " not in file.read():
            raise Skip("this processor has no AVX2")
    return {**here, "valgrind": valgrind}


def count(program, path):
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "callgrind.out")
        output_of(["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={profile}", program, path])
        with open(profile, encoding="utf-8") as file:
            return total_of(file.read())


def count_twice(program, path):
    first, second = count(program, path), count(program, path)
    if abs(percent(first, second)) > REPEAT_PERCENT:
        raise Failure(f"{path}: {first:,} instructions, then {second:,}: a count that changes by itself cannot be kept")
    return first


def update(program, paths, environment):
    counts = {path: count_twice(program, path) for path in paths}
    document = {"about": "Instructions of one run of each path, AVX2, one thread; written by check_counts.py --update",
                "environment": environment, "instructions": counts}
    with open(KEPT, "w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=2) + "\n")
    print(f"{KEPT}: {len(counts)} numbers written")
    return 0


def check(program, paths, environment):
    with open(KEPT, encoding="utf-8") as file:
        kept = json.load(file)
    different = differences(kept["environment"], environment)
    if different:
        raise Skip("; ".join(different))
    counted = {path: count(program, path) for path in paths}
    for path, instructions in counted.items():
        print(f"{path:30} {instructions:>12,}", f"{percent(kept['instructions'][path], instructions):+8.3f} %"
              if path in kept["instructions"] else "")
    found = deviations(kept["instructions"], counted)
    if found:
        print(f"\nbeyond {TOLERANCE_PERCENT:g} %:", *found, sep="\n  ")
        print(f"If that is meant: {sys.executable} {os.path.abspath(__file__)} {os.path.abspath(program)} --update")
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="vicinal_instruction_counts of a release build")
    parser.add_argument("--update", action="store_true", help="write counts.json")
    arguments = parser.parse_args()
    try:
        environment = environment_of(arguments.program)
        paths = output_of([arguments.program, "--list"]).split()
        return (update if arguments.update else check)(arguments.program, paths, environment)
    except Skip as reason:
        print(f"SKIPPED: instructions are not compared: {reason}")
        return SKIPPED
    except Failure as reason:
        print(reason, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
