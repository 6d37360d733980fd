#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Correctness first, then times, on a machine with a GPU. Takes a folder with bin/ (vicinal_cuda_conformance, vicinal_bench_cuda) and lib/
# (libvicinal_cuda.so, libvicinal_engine.so and the Abseil libraries it needs), writes logs and JSON to another.
#   tests/cuda/run_on_device.sh BUNDLE OUT WIDTHS GRAPH.bin ...
# compute-sanitizer, where it is there, runs over the quick groups when VICINAL_SANITIZER=1.
set -euo pipefail
bundle=$1 out=$2 widths=$3
shift 3
backend="$bundle/lib/libvicinal_cuda.so"
mkdir -p "$out"
export LD_LIBRARY_PATH="$bundle/lib:/usr/local/cuda/lib64:${LD_LIBRARY_PATH:-}"

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
"$bundle/bin/vicinal_cuda_conformance" "$backend" 2>&1 | tee "$out/conformance.log"
if [[ "${VICINAL_SANITIZER:-0}" == 1 ]] && command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck; do
    timeout 100 compute-sanitizer --tool "$tool" "$bundle/bin/vicinal_cuda_conformance" "$backend" rowwise attention 2>&1 |
      tee "$out/$tool.log" | tail -4
  done
fi
if [[ $# -gt 0 ]]; then
  "$bundle/bin/vicinal_bench_cuda" "$backend" "$out/aggregate.json" "$widths" "$@" 2>&1 | tee "$out/aggregate.log"
fi
