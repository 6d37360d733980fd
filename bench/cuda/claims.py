#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the claims of the four published systems with the same techniques in this engine on this GPU.

  python3 bench/cuda/claims.py --graphs FOLDER --bench bin/vicinal_bench_cuda --backend lib/libvicinal_cuda.so --out OUT

FOLDER has the graphs of vicinal_bench_graphs, NAME.bin. Each claim (bench/cuda/claim_table.py) is measured with the
kernel family that implements the technique, with and without it, or compared to cuSPARSE in the same run. Additions to
memory are counted from the graphs. Bytes and transactions come from Nsight Compute; if it cannot read the counters, the
run says so. Writes OUT/claims.md and OUT/claims-*.json. Uses the standard library only."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, ROOT)

from bench.cuda import claim_cells, claim_table

METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_sectors_op_red.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "lts__t_sector_hit_rate.pct",
)
TIME_IS_UP = 3


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", required=True, help="folder of the graphs, NAME.bin")
    parser.add_argument("--names", default=",".join(claim_table.GRAPHS), help="graphs to measure on")
    parser.add_argument("--bench", required=True, help="vicinal_bench_cuda")
    parser.add_argument("--backend", required=True, help="libvicinal_cuda.so")
    parser.add_argument("--out", required=True, help="folder for the results")
    parser.add_argument("--models", help="results of bench/cuda/models.py on the same machine, if there are any")
    parser.add_argument("--budget-ms", type=float, default=10, help="device time of one timing")
    parser.add_argument("--stop-after", type=float, default=1e9, help="seconds; status 3 when something was left over")
    parser.add_argument("--profile-seconds", type=float, default=60, help="of the above, for Nsight Compute; 0: without")
    return parser.parse_args()


class Measuring:
    def __init__(self, options):
        self.options = options
        self.names = options.names.split(",")
        self.end = time.monotonic() + options.stop_after
        self.finished = True

    def left(self):
        return self.end - time.monotonic()

    def path(self, graph):
        return os.path.join(self.options.graphs, graph + ".bin")

    def command(self, graphs, widths, flags):
        files = [f"{self.path(graph)}:{','.join(map(str, widths))}" for graph in graphs]
        return [self.options.bench, f"--backend={self.options.backend}", *flags, *files]

    def studies(self):
        """The results of all runs, including the partial results of a run that was cut short."""
        documents = []
        reserve = self.options.profile_seconds if self.profiler() else 0.0
        for study in claim_table.STUDIES:
            graphs = [graph for graph in study.graphs if graph in self.names]
            seconds = self.left() - reserve
            if not graphs or seconds <= 5:
                self.finished = self.finished and not graphs
                continue
            path = os.path.join(self.options.out, f"claims-{len(documents)}.json")
            flags = [*study.flags, f"--json={path}", f"--budget_ms={self.options.budget_ms}", f"--stop_after={seconds}"]
            begin = time.monotonic()
            status = subprocess.run(self.command(graphs, study.widths, flags), stdout=subprocess.DEVNULL, check=False).returncode
            print(f"{study.name}: {', '.join(graphs)}, {time.monotonic() - begin:.1f} s" + (f", status {status}" if status else ""))
            self.finished = self.finished and status == 0
            if status not in (0, TIME_IS_UP):
                raise SystemExit(f"vicinal_bench_cuda failed with status {status}")
            with open(path, encoding="utf-8") as file:
                documents.append(json.load(file))
        return documents

    def counts(self):
        found = []
        for graph in claim_table.LARGE:
            if graph in self.names:
                lengths = claim_cells.row_lengths(self.path(graph))
                # The measured configuration: blocks of 128 threads, 16 threads per group.
                found += [(graph, size, 64, *claim_cells.additions(lengths, size, 8)) for size in (4, 16)]
        return found

    def profile(self, profile):
        """{kernel: {metric: value}}, or the reason why there are no counters."""
        log = os.path.join(self.options.out, "ncu.csv")
        ncu = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--log-file", log,
               "--kernel-name", "regex:" + profile.pattern, "--launch-count", "60", "--metrics", ",".join(METRICS)]
        bench = self.command([profile.graph], [profile.width], [*profile.flags, "--budget_ms=0"])
        try:
            done = subprocess.run([*ncu, *bench], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  timeout=max(1.0, min(self.left(), self.options.profile_seconds)), check=False)
        except subprocess.TimeoutExpired:
            return "did not end in time"
        lines = open(log, encoding="utf-8", errors="replace").read().splitlines() if os.path.exists(log) else []
        counters = claim_cells.read_counters(lines, METRICS)
        errors = [line for line in lines if line.startswith("==ERROR==")]
        return counters or f"status {done.returncode}: {errors[0] if errors else 'no counters'}"

    def profiler(self):
        return self.options.profile_seconds > 0 and shutil.which("ncu") is not None

    def profiles(self):
        if not self.profiler():
            return "No counters: Nsight Compute is not here or was not asked for. Counts above are from the graphs.\n"
        text = "Counters of Nsight Compute, medians over launches (caches flushed before each):\n"
        for profile in claim_table.PROFILES:
            if profile.graph not in self.names:
                continue
            if self.left() <= 5:
                self.finished = False
                return text + "  the time was up before all were read\n"
            counters = self.profile(profile)
            text += f"\n{profile.name}, {profile.graph}, width {profile.width}:"
            if isinstance(counters, str):
                text += f" {counters}\n"
                continue
            text += "\n"
            for kernel, metrics in counters.items():
                text += f"  {kernel}: " + ", ".join(f"{name} {value:.6g}" for name, value in metrics.items()) + "\n"
        return text


def main():
    options = parse_arguments()
    os.makedirs(options.out, exist_ok=True)
    measuring = Measuring(options)
    documents = measuring.studies()
    cells = claim_cells.Cells(documents)
    device = documents[0]["device"] if documents else "nothing was measured"
    text = f"{device}\n\n{claim_table.table(cells)}\n{claim_table.count_table(measuring.counts())}\n"
    if options.models and os.path.exists(options.models):
        with open(options.models, encoding="utf-8") as file:
            text += claim_table.models_line(json.load(file)["cells"])
    text += measuring.profiles() + claim_table.details(cells)
    if not measuring.finished:
        text += "\nThe time was up before all was measured.\n"
    print(text)
    with open(os.path.join(options.out, "claims.md"), "w", encoding="utf-8") as file:
        file.write(text)
    return 0 if measuring.finished else TIME_IS_UP


if __name__ == "__main__":
    sys.exit(main())
