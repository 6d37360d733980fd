#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that is measured and checked on a GPU machine, in one command, without a network:
#   bench/cuda/run.sh OUT [--quick] [--stages LIST] [--graphs LIST] [--bundle FOLDER] [--data FOLDER]
# Stages, each with a time limit of its own, so that a run can be cut into several sessions; results and logs in OUT:
#   conformance   every kernel against its oracle
#   kernels       aggregation and attention beside cuSPARSE         kernels.json
#   models        whole models beside PyTorch Geometric             models.json
#   claims        what published systems claim, beside ours         claims.md, claims-*.json
#   server        every inference method, the GPU's answers beside the CPU's
#   sanitizer     compute-sanitizer: memcheck and racecheck over the conformance cases, side by side
# --quick: two small graphs and few widths. --graphs: names that vicinal_bench_graphs knows.
# --bundle: the folder that deploy/bundle.sh made; left out where this script lies in one. --data: tests/data.
# More by environment: VICINAL_KERNEL_FLAGS (for vicinal_bench_cuda, in place of those below), VICINAL_MODEL_FLAGS,
# VICINAL_LIMIT_<STAGE> in seconds, PYTHON. A table of the stages comes last; exit status 1 when one failed.
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

usage() { sed -n '3,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

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

# cuSPARSE, for vicinal_bench_cuda: of a toolkit, or of the wheels that PyTorch brings.
find_cuda_libraries() {
  local found folder
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/targets/x86_64-linux/lib; do
    if compgen -G "$folder/libcusparse.so.12*" >/dev/null; then cuda_libraries="$folder"; return; fi
  done
  found="$("$python" -c 'import nvidia, os; print(":".join(os.path.join(r, d) for p in nvidia.__path__ for r, ds, _ in os.walk(p) for d in ds if d == "lib"))' 2>/dev/null)"
  cuda_libraries="$found"
}

wants() { [[ ",$stages," == *",$1,"* ]]; }

# Runs a command for so many seconds at most.
limited() { timeout --kill-after=20 "$@"; }

# stage NAME SECONDS LINES: calls run_NAME with its limit, shows the last lines of its log, notes how it went.
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
  wants kernels || wants models || wants claims || return 0
  work="$(mktemp -d)"
  trap 'rm -rf "$work"' EXIT
  # shellcheck disable=SC2086  # one argument per name is meant
  "$bundle/bin/vicinal_bench_graphs" "$work" ${graphs//,/ } || failed=1
}

run_conformance() {
  limited "$1" "$bundle/bin/vicinal_cuda_conformance" "$bundle/lib/libvicinal_cuda.so"
}

# A little before the limit it stops by itself, so that the summary is still written.
run_kernels() {
  local flags=() files=() name
  if [[ -n "${VICINAL_KERNEL_FLAGS:-}" ]]; then
    read -ra flags <<<"$VICINAL_KERNEL_FLAGS"
  elif $quick; then
    flags=("--widths=16,64" --budget_ms=10)
  fi
  for name in ${graphs//,/ }; do
    case "$name" in  # where a run takes long, the widths that papers report
      reddit | proteins) files+=("$work/$name.bin:64,128") ;;
      rand-100K) files+=("$work/$name.bin:32,128") ;;
      molecules) files+=("$work/$name.bin:32,64,128") ;;
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

# On those of the graphs that claims are about, and on three that only claims are about: made here, where the full set is
# wanted.
run_claims() {
  local names="$graphs"
  if ! $quick && $all_graphs; then
    names+=,amazon0505-ord,mann-a81,rand-100K-out
    "$bundle/bin/vicinal_bench_graphs" "$work" amazon0505-ord mann-a81 rand-100K-out || return 1
  fi
  limited "$1" env LD_LIBRARY_PATH="$cuda_libraries" "$python" -u "$here/bench/cuda/claims.py" --graphs "$work" \
    --names "$names" --bench "$bundle/bin/vicinal_bench_cuda" --backend "$bundle/lib/libvicinal_cuda.so" --out "$out" \
    --models "$out/models.json" --stop-after $(($1 * 8 / 10)) --profile-seconds $(($1 / 5))
}

run_server() {
  local flags=()
  if $quick; then flags=(--quick); fi
  limited "$1" "$python" -u "$here/bench/cuda/server_check.py" --bin "$bundle/bin" --data "$data" "${flags[@]}"
}

# sanitize SECONDS TOOL GROUP SHARE: one group of cases, or a share of it, by one tool of compute-sanitizer. One that does
# not end in time is told, and no failure: races in large cases take long to look for.
sanitize() {
  local log="$out/sanitizer_$2_$3${4:+_${4/\//_of_}}.log" status=0
  # Calls that are refused on purpose are no errors.
  local flags=()
  [[ $2 == memcheck ]] && flags=(--report-api-errors no)
  limited "$1" compute-sanitizer --tool "$2" "${flags[@]}" --print-limit 20 --error-exitcode 9 \
    "$bundle/bin/vicinal_cuda_conformance" "$bundle/lib/libvicinal_cuda.so" "$3" ${4:+"$4"} >"$log" 2>&1 || status=$?
  if [[ $status == 124 ]]; then
    echo "$2 $3 $4: did not end in $1 s"
  elif [[ $status == 0 ]]; then
    echo "$2 $3 $4: $(grep -oE '(ERROR|RACECHECK) SUMMARY: .*' "$log" | tail -n 1)"
  else
    echo "$2 $3 $4: status $status, see $log"
    touch "$out/sanitizer_failed"
  fi
}

# All side by side: most of a case's time is the host's, and aggregation is cut into shares.
run_sanitizer() {
  local tool group share aggregate_shares=8
  command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not here"; return 0; }
  rm -f "$out/sanitizer_failed"
  for tool in memcheck racecheck; do
    for group in device rowwise update overlap attention message edge field; do
      # `device` holds that a timed step takes the time it should, which it does not under racecheck.
      [[ $tool == racecheck && $group == device ]] || sanitize "$1" "$tool" "$group" "" &
    done
    for ((share = 0; share < aggregate_shares; ++share)); do
      sanitize "$1" "$tool" aggregate "$share/$aggregate_shares" &
    done
  done
  wait
  [[ ! -e "$out/sanitizer_failed" ]]
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
    stage conformance 300 4
    stage kernels 60 60
    stage models 60 30
    stage claims 60 60
    stage server 45 60
    stage sanitizer 80 60
  else
    stage conformance 300 4
    stage kernels 500 60
    stage models 500 40
    stage claims 400 200
    stage server 240 20
    stage sanitizer 480 60
  fi
  echo
  printf '%s' "$table" | tee -a "$out/run.log"
  return "$failed"
}

main "$@"
