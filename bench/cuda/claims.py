#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the claims of the four published systems with the same techniques in this engine on this GPU.

  python3 bench/cuda/claims.py --graphs FOLDER --bundle BUNDLE --out OUT

FOLDER has the graphs of vicinal_bench_graphs, NAME.bin; BUNDLE has bin/ and lib/. Each claim (bench/cuda/claim_table.py)
is measured with the kernel family that implements the technique, with and without it, or compared to cuSPARSE in the
same run. Whole models are compared to PyTorch Geometric (models.py), maxima too (claim_pool.py); claims about CPUs are
measured on this machine's cores (claim_cpu.py). Additions to memory are counted from the graphs. Counters come from
Nsight Compute; if it cannot read them, the run says so. Parts of it: --parts. Writes OUT/claims.md and OUT/claims-*.json;
a part that is not run is read from there, so that a run can be split. Uses the standard library only,
but the programs that it starts need torch and torch_geometric in this interpreter."""

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
    # What a kernel is limited by: the share of the peak rate of DRAM, L2 and L1, of the warps that fit, and of the issue slots.
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
)
TIME_IS_UP = 3


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", required=True, help="folder of the graphs, NAME.bin")
    parser.add_argument("--names", default=",".join(claim_table.GRAPHS), help="graphs to measure on")
    parser.add_argument("--bundle", required=True, help="folder with bin/ and lib/")
    parser.add_argument("--parts", default="kernels,models,pool,cpu,counters", help="which of these to measure")
    parser.add_argument("--out", required=True, help="folder for the results")
    parser.add_argument("--budget-ms", type=float, default=10, help="device time of one timing")
    parser.add_argument("--stop-after", type=float, default=1e9, help="seconds; status 3 when something was left over")
    parser.add_argument("--profile-seconds", type=float, default=60, help="of the above, for the counters")
    return parser.parse_args()


class Measuring:
    def __init__(self, options):
        self.options = options
        self.names = options.names.split(",")
        self.end = time.monotonic() + options.stop_after
        self.finished = True
        self.parts = options.parts.split(",")

    def left(self):
        return self.end - time.monotonic()

    def path(self, graph):
        return os.path.join(self.options.graphs, graph + ".bin")

    def command(self, graphs, widths, flags):
        files = [f"{self.path(graph)}:{','.join(map(str, widths))}" for graph in graphs]
        return [self.program("vicinal_bench_cuda"), f"--backend={self.options.bundle}/lib/libvicinal_cuda.so", *flags, *files]

    def program(self, name):
        return os.path.join(self.options.bundle, "bin", name)

    def file(self, name):
        return os.path.join(self.options.out, f"claims-{name}.json")

    def read(self, name):
        """What a part wrote, in this run or an earlier one; {} if it is not there."""
        if not os.path.exists(self.file(name)):
            return {}
        with open(self.file(name), encoding="utf-8") as file:
            return json.load(file)

    def start(self, name, script, *arguments):
        """Runs one of the other scripts; its results are in file(name)."""
        if self.left() - self.reserved() <= 5:
            self.finished = False
            return
        command = [sys.executable, "-u", os.path.join(ROOT, "bench", "cuda", script), *arguments, "--json", self.file(name)]
        begin = time.monotonic()
        status = subprocess.run(command, check=False).returncode
        print(f"{name}: {time.monotonic() - begin:.1f} s" + (f", status {status}" if status else ""), flush=True)
        self.finished = self.finished and status == 0

    def models(self):
        """Cells of whole models, with their device."""
        cells = []
        for number, (device, graphs, models) in enumerate(claim_table.MODEL_RUNS):
            names = [graph for graph in graphs if graph in self.names]
            if names and "models" in self.parts:
                self.start(f"models-{number}", "models.py", "--graphs", self.options.graphs, "--names", ",".join(names),
                           "--models", ",".join(models), "--worker", self.program("vicinal_bench_worker"), "--device", device,
                           "--rounds", "3", "--stop-after", str(self.left() - self.reserved()))
            cells += [{**cell, "device": device} for cell in self.read(f"models-{number}").get("cells", [])]
        return cells

    def pool(self):
        study = next(one for one in claim_table.STUDIES if one.name == "maxima")
        names = [graph for graph in study.graphs if graph in self.names]
        if names and "pool" in self.parts:
            self.start("pool", "claim_pool.py", "--graphs", self.options.graphs, "--names", ",".join(names),
                       "--widths", ",".join(map(str, study.widths)))
        return self.read("pool").get("cells", [])

    def cpu(self):
        if claim_table.CPU_GRAPH in self.names and "cpu" in self.parts:
            self.start("cpu", "claim_cpu.py", "--graph", self.path(claim_table.CPU_GRAPH), "--worker",
                       self.program("vicinal_bench_worker"), "--width", str(claim_table.CPU_WIDTH), "--scaling-width",
                       str(claim_table.CPU_SCALING_WIDTH), "--stop-after", str(self.left() - self.reserved()))
        return self.read("cpu").get("cells", [])

    def studies(self):
        """The results of all runs, including the partial results of a run that was cut short."""
        documents = []
        reserve = self.reserved()
        for number, study in enumerate(claim_table.STUDIES):
            graphs = [graph for graph in study.graphs if graph in self.names]
            seconds = self.left() - reserve
            if "kernels" not in self.parts:
                documents += [document for document in [self.read(str(number))] if document]
                continue
            if not graphs or seconds <= 5:
                self.finished = self.finished and not graphs
                continue
            path = self.file(str(number))
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
               "--kernel-name", "regex:" + profile.pattern, "--launch-count", "120", "--metrics", ",".join(METRICS)]
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

    def reserved(self):
        """Seconds that the other parts leave for the counters."""
        return self.options.profile_seconds if self.profiler() else 0.0

    def profiler(self):
        return "counters" in self.parts and shutil.which("ncu") is not None

    def profiles(self):
        """{name of a profile: {kernel: {metric: value}}}, or a reason in place of the kernels."""
        if not self.profiler():
            return self.read("counters")
        found = {}
        for profile in claim_table.PROFILES:
            if profile.graph not in self.names:
                continue
            name = f"{profile.name}, {profile.graph}, width {profile.width}"
            if self.left() <= 5:
                self.finished = False
                found[name] = "the time was up"
                continue
            found[name] = self.profile(profile)
            with open(self.file("counters"), "w", encoding="utf-8") as file:
                json.dump(found, file, indent=1)
        return found


def counters_text(found):
    if not found:
        return "No counters: Nsight Compute is not here or was not asked for. Counts above are from the graphs.\n"
    text = "Counters of Nsight Compute, medians over launches (caches flushed before each):\n"
    for name, kernels in found.items():
        if isinstance(kernels, str):
            text += f"\n{name}: {kernels}\n"
            continue
        text += f"\n{name}:\n"
        for kernel, metrics in kernels.items():
            text += f"  {kernel}: " + ", ".join(f"{metric} {value:.6g}" for metric, value in metrics.items()) + "\n"
    return text


def main():
    options = parse_arguments()
    os.makedirs(options.out, exist_ok=True)
    measuring = Measuring(options)
    documents = measuring.studies()
    models = measuring.models()
    pool = measuring.pool()  # short, so before the CPU's part, which takes minutes
    cells = claim_cells.Cells(documents, models, measuring.cpu(), pool)
    device = documents[0]["device"] if documents else "nothing was measured"
    text = f"{device}\n\n{claim_table.table(cells)}\n{claim_table.count_table(measuring.counts())}\n"
    text += claim_table.models_line(models)
    text += counters_text(measuring.profiles()) + claim_table.details(cells)
    if not measuring.finished:
        text += "\nThe time was up before all was measured.\n"
    print(text)
    with open(os.path.join(options.out, "claims.md"), "w", encoding="utf-8") as file:
        file.write(text)
    return 0 if measuring.finished else TIME_IS_UP


if __name__ == "__main__":
    sys.exit(main())
