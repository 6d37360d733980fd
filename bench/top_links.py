#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The best partners of 1,000 nodes among a million, beside FAISS's exhaustive search on the same rows, with equal threads.

    python3 -m venv faiss && faiss/bin/pip install faiss-cpu
    faiss/bin/python bench/top_links.py --bench build/bench/bin/vicinal_bench_top_links [--json FILE]

The two take turns, so that a busy machine disturbs both; medians and quartiles of all runs, elapsed and in processor seconds, which others on
the machine disturb less. The partners must be equal but where scores differ by less than float32's rounding."""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import faiss
import numpy as np


def ours(args, rows, width, k, out):
    words = [args.bench, f"--rows={rows}", f"--width={width}", f"--queries={args.queries}", f"--k={k}", f"--threads={args.threads}",
             f"--repeats={args.repeats}", f"--out={out}"]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)


def theirs(args, index, queries, k):
    seconds, processor_seconds = [], []
    for _ in range(args.repeats):
        begin, processor = time.perf_counter(), time.process_time()
        _, found = index.search(queries, k)
        seconds.append(time.perf_counter() - begin)
        processor_seconds.append(time.process_time() - processor)
    return {"seconds": seconds, "processor_seconds": processor_seconds}, found


def summary(values):
    low, median, high = statistics.quantiles(values, n=4)
    return {"median": median, "quartiles": [low, high], "minimum": min(values), "runs": len(values)}


def differences(rows, queries, found, expected):
    """Results whose score is not that of FAISS's at the same place, in double."""
    scores = np.einsum("qkd,qd->qk", rows[found].astype(np.float64), queries.astype(np.float64))
    wanted = np.einsum("qkd,qd->qk", rows[expected].astype(np.float64), queries.astype(np.float64))
    return int((np.abs(scores - wanted) > 1e-4 * np.maximum(1, np.abs(wanted))).sum())


def case(args, folder, width, k):
    rows = np.random.default_rng(width).standard_normal((args.nodes, width), dtype=np.float32)
    path, out = os.path.join(folder, "rows"), os.path.join(folder, "partners")
    rows.tofile(path)
    queries = np.ascontiguousarray(rows[:args.queries])
    index = faiss.IndexFlatIP(width)
    index.add(rows)
    theirs(args, index, queries, k)
    times = {"vicinal": {}, "faiss": {}}
    for _ in range(args.turns):
        answer = ours(args, path, width, k, out)
        took, expected = theirs(args, index, queries, k)
        for name, turn in (("vicinal", answer), ("faiss", took)):
            for clock in ("seconds", "processor_seconds"):
                times[name].setdefault(clock, []).extend(turn[clock])
    found = np.fromfile(out, dtype=np.int64).reshape(args.queries, k)
    result = {"nodes": args.nodes, "queries": args.queries, "width": width, "k": k, "threads": args.threads,
              "instruction_set": answer["instruction_set"], "different": differences(rows, queries, found, expected)}
    for name, clocks in times.items():
        result[name] = {clock: summary(values) for clock, values in clocks.items()}
    for clock in ("seconds", "processor_seconds"):
        result["faiss_over_vicinal_" + clock] = result["faiss"][clock]["median"] / result["vicinal"][clock]["median"]
    print(json.dumps(result), flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="vicinal_bench_top_links")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", help="where the rows are written")
    args = parser.parse_args()
    faiss.omp_set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        rows = [case(args, folder, width, k) for width in (64, 128) for k in (10, 100)]
    document = {"benchmark": "top_links", "faiss": faiss.__version__, "faiss_options": faiss.get_compile_options(), "rows": rows}
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)


if __name__ == "__main__":
    main()
