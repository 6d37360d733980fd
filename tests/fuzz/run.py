#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzz targets: first their stored inputs, then new ones, each target for so many seconds on one processor.

  run.py --program build/asan/bin/vicinal_fuzz --seconds 10 --short     what CI runs: one target per service
  run.py --program ... --seconds 600 --jobs 16 --json OUT               every target, one per method among them
  run.py --program ... --target npy --seconds 60                        one target; may be repeated

Inputs that fail are kept in --findings, with the command that reproduces each. Exit status 1 if there is one.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
OPTIONS = ["-timeout=25", "-rss_limit_mb=2048", "-max_len=8192", "-print_final_stats=1", "-use_value_profile=0"]


def targets_of(program):
    """Names of targets and of their corpora."""
    lines = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [line.split() for line in lines]


def fuzz(program, name, corpus, seconds, findings):
    """One target; returns what became of it."""
    prefix = findings / f"{name}-"
    seeds = CORPUS / corpus
    command = [program, f"--target={name}", f"-max_total_time={seconds}", f"-artifact_prefix={prefix}", *OPTIONS]
    dictionary = CORPUS.parent / "dictionaries" / f"{corpus}.dict"
    if dictionary.is_file():
        command.append(f"-dict={dictionary}")
    with tempfile.TemporaryDirectory() as new:
        run = subprocess.run([*command, new, *([str(seeds)] if seeds.is_dir() else [])], stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    log = run.stderr
    executions = re.findall(r"stat::number_of_executed_units:\s+(\d+)", log) or re.findall(r"^#(\d+)", log, re.M)
    coverage = re.findall(r"cov: (\d+)", log)
    found = re.findall(r"Test unit written to (\S+)", log)
    result = {"target": name, "seconds": seconds, "executions": int(executions[-1]) if executions else 0,
              "coverage": int(coverage[-1]) if coverage else 0, "failed": run.returncode != 0, "findings": found}
    if run.returncode != 0:
        result["log"] = log[-6000:]
    return result


def report(result, program):
    """One line a target, and of a failure the end of its log and how to reproduce it."""
    print(f"{result['target']}: {result['executions']} inputs, {result['coverage']} edges"
          f"{', FAILED' if result['failed'] else ''}", flush=True)
    if result["failed"]:
        print(result["log"])
    for path in result["findings"]:
        print(f"reproduce: {program} --target={result['target']} {path}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--short", action="store_true", help="one target per service in place of one per method")
    parser.add_argument("--target", action="append")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--findings", type=pathlib.Path, default=pathlib.Path("findings"))
    arguments = parser.parse_args()
    arguments.findings.mkdir(parents=True, exist_ok=True)
    chosen = [(name, corpus) for name, corpus in targets_of(arguments.program)
              if (name in arguments.target if arguments.target else not (arguments.short and "." in name))]
    if not chosen:
        sys.exit("run.py: no such target")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = [pool.submit(fuzz, arguments.program, name, corpus, arguments.seconds, arguments.findings)
                for name, corpus in chosen]
        results = []
        for job in concurrent.futures.as_completed(jobs):
            results.append(job.result())
            report(results[-1], arguments.program)
    if arguments.json:
        arguments.json.write_text(json.dumps(sorted(results, key=lambda r: r["target"]), indent=1) + "\n")
    failed = sum(result["failed"] for result in results)
    print(f"{len(results)} targets, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
