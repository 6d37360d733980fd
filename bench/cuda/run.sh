#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs all measurements and checks on a GPU machine with one command, without a network:
#   bench/cuda/run.sh OUT [--quick] [--stages LIST] [--graphs LIST] [--bundle FOLDER] [--data FOLDER]
# Stages. Each has its own time limit, so that a run can be split into several sessions. Results and logs are in OUT:
#   conformance   every kernel against its oracle
#   kernels       aggregation and attention against cuSPARSE        kernels.json
#   models        whole models against PyTorch Geometric            models.json
#   claims        claims of published systems, tested with ours     claims.md, claims-*.json
#   server        every inference method, the GPU's answers against the CPU's
#   defaults      the server's default beside forced orders and kernels  defaults.json; only if named in --stages
#   sanitizer     compute-sanitizer: memcheck and racecheck of all conformance cases, in parallel on all GPUs
# --quick: two small graphs and few widths. --graphs: names of graphs that vicinal_bench_graphs supports.
# --bundle: a folder made by deploy/bundle.sh; not needed if this script is in one. --data: tests/data.
# Environment: VICINAL_KERNEL_FLAGS (for vicinal_bench_cuda, in place of the default flags), VICINAL_MODEL_FLAGS,
# VICINAL_DEFAULTS_FLAGS, VICINAL_LIMIT_<STAGE> in seconds, PYTHON, CUDA_VISIBLE_DEVICES to select GPUs, VICINAL_JOBS:
# the file jobs_left of an earlier run, which the stages conformance and sanitizer continue. The output ends with a
# table of the stages. Exit status 1: a stage failed.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

out=""
quick=false
stages=conformance,kernels,models,claims,server,sanitizer
graphs=""
all_graphs=false
bundle="$here"
data="$here/tests/data"
python="${PYTHON:-python3}"
table=""
failed=0

usage() { sed -n '3,20s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

parse_arguments() {
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --quick) quick=true ;;
      --stages) stages="$2"; shift ;;
      --graphs) graphs="$2"; shift ;;
      --bundle) bundle="$(cd "$2" && pwd)"; shift ;;
      --data) data="$(cd "$2" && pwd)"; shift ;;
      --help | -h) usage; exit 0 ;;
      -*) echo "run.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
      *) out="$1" ;;
    esac
    shift
  done
  [[ -n "$out" ]] || { usage >&2; exit 2; }
  [[ -x "$bundle/bin/vicinal-server" ]] || { echo "run.sh: $bundle is no bundle; see --bundle" >&2; exit 2; }
  mkdir -p "$out"
  out="$(cd "$out" && pwd)"
  if [[ -z "$graphs" ]]; then
    all_graphs=true
    if $quick; then graphs=cora,artist; else graphs=cora,citeseer,pubmed,artist,blogcatalog,amazon0505,molecules,rmat5,rand-100K,proteins,reddit; fi
  fi
}

# Finds cuSPARSE for vicinal_bench_cuda, and cuBLAS for the server, in a CUDA toolkit or in the wheels that PyTorch depends on.
find_cuda_libraries() {
  local found folder
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib; do
    if compgen -G "$folder/libcusparse.so.12*" >/dev/null; then cuda_libraries="$folder"; return; fi
  done
  found="$("$python" -c 'import nvidia, os; print(":".join(os.path.join(r, d) for p in nvidia.__path__ for r, ds, _ in os.walk(p) for d in ds if d == "lib"))' 2>/dev/null)"
  cuda_libraries="$found"
}

wants() { [[ ",$stages," == *",$1,"* ]]; }

# limited SECONDS COMMAND...: runs the command with a time limit.
limited() { timeout --kill-after=20 "$@"; }

# stage NAME SECONDS LINES: calls run_NAME with its limit, shows the last lines of its log, records the result.
stage() {
  local name="$1" limit="VICINAL_LIMIT_${1^^}" begin=$SECONDS status seconds
  wants "$name" || return 0
  seconds="${!limit:-$2}"
  echo "== $name (at most $seconds s)"
  "run_$name" "$seconds" >"$out/$name.log" 2>&1
  status=$?
  tail -n "$3" "$out/$name.log"
  case $status in
    0) status=ok ;;
    3 | 124 | 137) status="cut short by its time limit" ;;
    *) status="FAILED (status $status)"; failed=1 ;;
  esac
  table+="$(printf '%-12s %-30s %4d s' "$name" "$status" $((SECONDS - begin)))"$'\n'
}

make_graphs() {
  wants kernels || wants models || wants claims || wants defaults || return 0
  work="$(mktemp -d)"
  trap 'rm -rf "$work"' EXIT
  # shellcheck disable=SC2086  # one argument per name is meant
  "$bundle/bin/vicinal_bench_graphs" "$work" ${graphs//,/ } || failed=1
}

# Stops by itself a little before the limit, so that the summary is still written.
run_kernels() {
  local flags=() files=() name
  if [[ -n "${VICINAL_KERNEL_FLAGS:-}" ]]; then
    read -ra flags <<<"$VICINAL_KERNEL_FLAGS"
  elif $quick; then
    flags=("--widths=16,64" --budget_ms=10)
  fi
  for name in ${graphs//,/ }; do
    case "$name" in  # for long runs, the widths that papers report
      reddit | proteins) files+=("$work/$name.bin:64,128") ;;
      rand-100K) files+=("$work/$name.bin:32,128") ;;
      molecules | ogbg-molhiv | roadnet-pa | eu-2005) files+=("$work/$name.bin:32,64,128") ;;
      *) files+=("$work/$name.bin") ;;
    esac
  done
  limited "$1" env LD_LIBRARY_PATH="$cuda_libraries" "$bundle/bin/vicinal_bench_cuda" \
    --backend="$bundle/lib/libvicinal_cuda.so" --json="$out/kernels.json" --stop_after=$(($1 * 9 / 10)) "${flags[@]}" \
    "${files[@]}"
}

run_models() {
  local flags=()
  if [[ -n "${VICINAL_MODEL_FLAGS:-}" ]]; then
    read -ra flags <<<"$VICINAL_MODEL_FLAGS"
  elif $quick; then
    flags=(--rounds=3)
  fi
  limited "$1" "$python" -u "$here/bench/cuda/models.py" --graphs "$work" --names "$graphs" \
    --worker "$bundle/bin/vicinal_bench_worker" --json "$out/models.json" --stop-after $(($1 * 8 / 10)) "${flags[@]}"
}

# Measures the claims on those of the selected graphs that they concern. With the full set of graphs, also on three more
# that only claims concern, which are made here.
run_claims() {
  local names="$graphs"
  if ! $quick && $all_graphs; then
    names+=,amazon0505-ord,mann-a81,rand-100K-out
    "$bundle/bin/vicinal_bench_graphs" "$work" amazon0505-ord mann-a81 rand-100K-out || return 1
  fi
  limited "$1" env LD_LIBRARY_PATH="$cuda_libraries" "$python" -u "$here/bench/cuda/claims.py" --graphs "$work" \
    --names "$names" --bundle "$bundle" --out "$out" --stop-after $(($1 * 8 / 10)) --profile-seconds $(($1 / 5))
}

run_defaults() {
  local flags=()
  if [[ -n "${VICINAL_DEFAULTS_FLAGS:-}" ]]; then read -ra flags <<<"$VICINAL_DEFAULTS_FLAGS"; fi
  limited "$1" "$python" -u "$here/bench/cuda/defaults.py" --bin "$bundle/bin" --graphs "$work" --names "$graphs" \
    --json "$out/defaults.json" --stop-after $(($1 * 8 / 10)) "${flags[@]}"
}

run_server() {
  local flags=()
  if $quick; then flags=(--quick); fi
  limited "$1" env LD_LIBRARY_PATH="$cuda_libraries" "$python" -u "$here/bench/cuda/server_check.py" --bin "$bundle/bin" --data "$data" "${flags[@]}"
}

# job GPU SECONDS TOOL GROUP SHARE: runs one group of conformance cases, or a share of it, without a tool (TOOL none) or
# under a tool of compute-sanitizer, which runs every case once. Prints a line if it fails or does not end.
job() {
  local log="$out/$3_$4_${5/\//_of_}.log" command=() status=0 begin=$SECONDS
  local cases=("$bundle/bin/vicinal_cuda_conformance" "$bundle/lib/libvicinal_cuda.so" "$4")
  if [[ $3 != none ]]; then
    command=(compute-sanitizer --tool "$3" --print-limit 20 --error-exitcode 9)
    [[ $3 == memcheck ]] && command+=(--report-api-errors no)  # cases provoke API errors on purpose
    [[ $3 == racecheck ]] && command+=(--racecheck-num-workers 1)  # default: a thread per core, in each job
    cases+=(once)
  fi
  CUDA_VISIBLE_DEVICES="$1" limited "$2" "${command[@]}" "${cases[@]}" "$5" >"$log" 2>&1 || status=$?
  case $status in
    0) echo "$3 $4 $((SECONDS - begin)) $(awk '$1 == "all" { print $2 }' "$log")" >>"$out/jobs_done"; rm "$log" ;;
    124 | 137) echo "$3 $4 $5: did not end in $((SECONDS - begin)) s"; echo "$3 $4 $5" >>"$out/jobs_left" ;;
    *) echo "$3 $4 $5: status $status, see $log"; touch "$out/jobs_failed" ;;
  esac
}

# run_jobs SECONDS: runs the jobs of $out/jobs ("TOOL GROUP SHARE") in parallel, about one per core but at most 12 per
# GPU, as most of a case's time is spent on the host. Jobs that did not end in time, or start, are in $out/jobs_left.
run_jobs() {
  local end=$((SECONDS + $1)) gpus workers worker count
  [[ -z "${VICINAL_JOBS:-}" ]] || cp "$VICINAL_JOBS" "$out/jobs"
  count=$(wc -l <"$out/jobs")
  IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-$(nvidia-smi --query-gpu=index --format=csv,noheader | paste -sd,)}"
  workers=$(($(nproc) - 2))
  ((workers > 12 * ${#gpus[@]})) && workers=$((12 * ${#gpus[@]}))
  ((workers < 1)) && workers=1
  rm -f "$out"/jobs_{failed,done,left}
  touch "$out"/jobs_{done,left}
  for ((worker = 0; worker < workers; ++worker)); do
    while ((SECONDS < end)); do
      # shellcheck disable=SC2016  # the inner shell's
      next="$(flock "$out/jobs_lock" sh -c 'sed -n 1p "$1" && sed -i 1d "$1"' sh "$out/jobs")"
      [[ -n "$next" ]] || break
      # shellcheck disable=SC2086  # three words
      job "${gpus[worker % ${#gpus[@]}]}" $((end - SECONDS + 1)) $next
    done &
  done
  wait
  cat "$out/jobs" >>"$out/jobs_left"
  awk '{ name = $1 " " $2; ++n[name]; sum[name] += $3; cases[name] += $4; if ($3 > most[name]) most[name] = $3 }
       END { for (name in n) printf "%s: %d shares, %d cases without a finding, %d s in all, %d s the longest\n", name, n[name], cases[name], sum[name], most[name] }' \
    "$out/jobs_done" | sort
  echo "$(wc -l <"$out/jobs_done") of $count ended well, $(wc -l <"$out/jobs_left") left, $workers side by side"
  [[ ! -e "$out/jobs_failed" ]] || return 1
  [[ ! -s "$out/jobs_left" ]] || return 124
}

# shares TOOL GROUP N: prints the N jobs of a group.
shares() { for ((share = 0; share < $3; ++share)); do echo "$1 $2 $share/$3"; done; }

run_conformance() {
  local group
  {
    shares none expression 24  # most of it is compiling
    for group in device rowwise edge; do shares none "$group" 1; done
    for group in field overlap product message feature update attention aggregate; do shares none "$group" 6; done
  } >"$out/jobs"
  run_jobs "$1"
}

run_sanitizer() {
  local group
  command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not here"; return 0; }
  {
    # The longest first, so that none runs alone at the end.
    for group in update overlap attention aggregate; do shares racecheck "$group" 96; done
    for group in product message feature field expression; do shares racecheck "$group" 32; done
    for group in device rowwise edge; do shares racecheck "$group" 1; shares memcheck "$group" 1; done
    shares memcheck aggregate 96
    for group in attention field overlap product message feature expression update; do shares memcheck "$group" 32; done
  } >"$out/jobs"
  run_jobs "$1"
}

main() {
  parse_arguments "$@"
  find_cuda_libraries
  {
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv,noheader
    uname -srm
    date -u
  } 2>&1 | tee "$out/run.log"
  make_graphs
  if $quick; then
    stage conformance 300 20
    stage kernels 60 60
    stage models 60 30
    stage claims 60 60
    stage server 45 60
    stage defaults 120 20
    stage sanitizer 80 60
  else
    stage conformance 300 20
    stage kernels 500 60
    stage models 500 40
    stage claims 400 200
    stage server 240 20
    stage defaults 500 20
    stage sanitizer 900 60
  fi
  echo
  printf '%s' "$table" | tee -a "$out/run.log"
  return "$failed"
}

main "$@"
