#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the JSON output of a benchmark into a result file (README.md has the schema), on standard output.

  record.py OUTPUT.json --machine TEXT --command TEXT [--date YYYY-MM-DD] [--commit HASH] [--notes TEXT]

The benchmarks write one list of cases each, beside facts about the run. The cases become rows; of a case, lists of raw
samples are left out. Standard library only."""

import argparse
import datetime
import json
import os
import subprocess
import sys

LISTS = ("rows", "cells", "cases", "results")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def cases_of(document):
    """The one list of cases in a benchmark's output."""
    if isinstance(document, list):
        return document
    names = [name for name in LISTS if isinstance(document.get(name), list)]
    if len(names) != 1:
        raise ValueError(f"expected one list among {', '.join(LISTS)}; found {names or 'none'}")
    return document[names[0]]


def without_samples(value):
    """`value` without lists of raw samples, which are long and have medians beside them."""
    if isinstance(value, dict):
        kept = {name: without_samples(one) for name, one in value.items()}
        return {name: one for name, one in kept.items() if one is not None}
    if isinstance(value, list):
        if len(value) > 3 and all(isinstance(one, (int, float, list)) for one in value):
            return None
        return [without_samples(one) for one in value]
    return value


def record(document, machine, command, date, commit, notes=None):
    rows = [without_samples(case) for case in cases_of(document)]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError("the list of cases is empty, or has entries that are not objects")
    result = {"schema": "vicinal.bench/1", "machine": machine, "date": date, "command": command, "commit": commit}
    return {**result, **({"notes": notes} if notes else {}), "rows": rows}


def to_text(result):
    """JSON with one row a line, so that a diff shows which case changed."""
    head = json.dumps({k: v for k, v in result.items() if k != "rows"}, indent=1, ensure_ascii=False)[:-2]
    rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in result["rows"])
    return f'{head},\n "rows": [\n{rows}\n ]\n}}\n'


def current_commit():
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                          check=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", help="JSON file written by a benchmark")
    parser.add_argument("--machine", required=True, help="processor or GPU, driver, versions of the peers")
    parser.add_argument("--command", required=True, help="the command that was run")
    parser.add_argument("--date", default=datetime.date.today().isoformat(), help="day of the run; default: today")
    parser.add_argument("--commit", help="commit of the build; default: the one checked out")
    parser.add_argument("--notes", help="what else a reader needs")
    options = parser.parse_args()
    try:
        with open(options.output, encoding="utf-8") as file:
            document = json.load(file)
        result = record(document, options.machine, options.command, options.date, options.commit or current_commit(),
                        options.notes)
    except (OSError, ValueError) as error:
        print(f"{options.output}: {error}", file=sys.stderr)
        return 1
    sys.stdout.write(to_text(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
