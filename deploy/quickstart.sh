#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh clone to a served model: installs what is missing, builds, starts a server on free ports of this machine,
# uploads the Cora citation graph, loads a GCN with its reference answers, classifies the test nodes, and shows the
# graph's profile, the plan and some metrics. Leaves nothing running.
#   deploy/quickstart.sh           does all of this
#   deploy/quickstart.sh --keep    leaves the server running and prints how to use it and how to stop it
# The CUDA backend takes longer to build than everything else. It is built if there are a GPU and a CUDA compiler;
# VICINAL_CUDA=ON or OFF in the environment overrides this.
# Needs Debian 12, as root or with sudo. Except for packages, it writes to build/ only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly BIN=build/run/bin
readonly WORK=build/quickstart
readonly GRAPH_FILE=tests/data/graphs/cora.npz
readonly MODEL=tests/data/models/cora-gcn
keep=false
server_pid=""
current_log=""

say() { printf '\n== %s\n' "$*"; }

# Runs on every exit.
finish() {
  local status=$?
  if [[ $status != 0 && -n "$current_log" && -s "$current_log" ]]; then
    printf '\nquickstart: failed. The end of %s:\n' "$current_log" >&2
    tail -n 25 "$current_log" >&2
  fi
  if [[ -n "$server_pid" ]] && { ! $keep || [[ $status != 0 ]]; }; then
    stop_server
  fi
  exit "$status"
}

stop_server() {
  kill -TERM "$server_pid" 2>/dev/null || true
  local i
  for ((i = 0; i < 100; i++)); do
    kill -0 "$server_pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -KILL "$server_pid" 2>/dev/null || true
}

# Reads ninja's lines "[3/120] ..." and shows how far it is: in place on a terminal, a line per tenth elsewhere.
show_progress() {
  local line done_count total share last=-1
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$current_log"
    [[ "$line" =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    done_count="${BASH_REMATCH[1]}"
    total="${BASH_REMATCH[2]}"
    share=$((100 * done_count / total))
    if [[ -t 1 ]]; then
      printf '\r   %3d %%  (%d of %d)' "$share" "$done_count" "$total"
    elif ((share / 10 > last)); then
      last=$((share / 10))
      printf '   %3d %%\n' "$share"
    fi
  done
  if [[ -t 1 ]]; then printf '\r%40s\r' ""; fi
}

has_gpu() {
  [[ -e /dev/nvidia0 ]] || nvidia-smi -L >/dev/null 2>&1
}

# Whether to build the CUDA backend, in `cuda`; says so in a line. CMake looks for the compiler itself and goes without
# where there is none.
choose_cuda() {
  case "${VICINAL_CUDA:-}" in
    ON | OFF) cuda="$VICINAL_CUDA"; echo "   the CUDA backend: $cuda (set by VICINAL_CUDA)" ;;
    "")
      if has_gpu; then
        cuda=ON
        echo "   for the CPU, and for this machine's GPU if there is a CUDA compiler (VICINAL_CUDA=OFF: for the CPU only)"
      else
        cuda=OFF
        echo "   for the CPU: this machine has no GPU (VICINAL_CUDA=ON builds the CUDA backend nevertheless)"
      fi
      ;;
    *) echo "quickstart.sh: VICINAL_CUDA must be ON or OFF, not '$VICINAL_CUDA'" >&2; return 2 ;;
  esac
}

build() {
  local begin=$SECONDS cuda
  choose_cuda
  current_log="$WORK/build.log"
  : >"$current_log"
  cmake --preset run -DVICINAL_CUDA="$cuda" >>"$current_log" 2>&1
  # Each compiler of this code takes up to 1 GiB: no more of them than memory has room for.
  local jobs memory_gib
  memory_gib=$(($(awk '/^MemAvailable:/ {print $2}' /proc/meminfo) / 1048576))
  jobs="$(nproc)"
  if ((memory_gib < jobs)); then jobs=$((memory_gib > 0 ? memory_gib : 1)); fi
  cmake --build build/run -j "$jobs" 2>&1 | show_progress
  echo "   built in $((SECONDS - begin)) s"
}

start_server() {
  current_log="$WORK/server.log"
  rm -f "$WORK/ready.json"
  # A session of its own, so that --keep can leave it behind and Ctrl-C here reaches the script first.
  setsid "$BIN/vicinal-server" --grpc_listen=127.0.0.1:0 --metrics_listen=127.0.0.1:0 \
    --ready_file="$WORK/ready.json" >"$current_log" 2>&1 </dev/null &
  server_pid=$!
  local i
  for ((i = 0; i < 300; i++)); do
    [[ -s "$WORK/ready.json" ]] && break
    kill -0 "$server_pid" 2>/dev/null || { echo "quickstart: the server ended before it was ready" >&2; return 1; }
    sleep 0.1
  done
  local ready
  ready="$(<"$WORK/ready.json")"
  [[ "$ready" =~ \"grpc\":\ *\"([^\"]+)\" ]] || { echo "quickstart: $WORK/ready.json has no gRPC address: $ready" >&2; return 1; }
  grpc_address="${BASH_REMATCH[1]}"
  [[ "$ready" =~ \"metrics\":\ *\"([^\"]+)\" ]] || { echo "quickstart: $WORK/ready.json has no metrics address: $ready" >&2; return 1; }
  metrics_address="${BASH_REMATCH[1]}"
  echo "   gRPC on $grpc_address, metrics on http://$metrics_address/metrics"
}

vicinal() {
  "$BIN/vicinal" --server "$grpc_address" "$@"
}

# The page /metrics, without curl: bash speaks TCP.
metrics() {
  local connection
  exec {connection}<>"/dev/tcp/${metrics_address%:*}/${metrics_address##*:}"
  printf 'GET /metrics HTTP/1.0\r\nHost: %s\r\n\r\n' "$metrics_address" >&"$connection"
  cat <&"$connection"
  exec {connection}>&-
}

demonstrate() {
  say "Uploading the graph Cora (2,708 papers, 5,278 citations as 10,556 directed edges, 1,433 words each)"
  vicinal graph upload "$GRAPH_FILE" --name cora

  say "Loading a GCN that was trained with PyTorch Geometric, and its reference answers"
  vicinal model upload "$MODEL.json" --weights "$MODEL.safetensors" --name cora-gcn \
    --reference "$MODEL.reference.safetensors" --reference_graph cora

  say "Classifying the 1,000 test papers"
  vicinal classify --graph cora --model cora-gcn --labels "$GRAPH_FILE" --mask test_mask

  say "Latency: ten papers, a hundred times"
  vicinal classify --graph cora --model cora-gcn --nodes 0,1,2,3,4,5,6,7,8,9 --repeat 100

  say "The graph's profile before and after renumbering, the plan, and the kernels chosen"
  vicinal graph explain cora --model cora-gcn --verbose

  say "Some of the metrics"
  metrics | grep -E '^vicinal_(requests_total|kernel_launches_total|memory_bytes|graphs|models|executor_busy_seconds_total)' | tr -d '\r' |
    grep -v ' 0$'
}

say_goodbye() {
  if ! $keep; then
    say "Done. Nothing is left running. To keep the server: deploy/quickstart.sh --keep"
    return
  fi
  say "The server runs on (process $server_pid, log $WORK/server.log). Talk to it:"
  cat <<EOF
   $BIN/vicinal --server $grpc_address status
   $BIN/vicinal --server $grpc_address classify --graph cora --model cora-gcn --nodes 0,5,9 --top_k 3
   $BIN/vicinal --help
Its metrics: http://$metrics_address/metrics
Stop it:
   kill $server_pid
EOF
}

main() {
  case "${1:-}" in
    --keep) keep=true ;;
    --help | -h) sed -n '3,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    "") ;;
    *) echo "quickstart.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  trap finish EXIT
  trap 'exit 130' INT TERM
  mkdir -p "$WORK"

  say "Installing what is missing"
  deploy/packages.sh build
  say "Building (log: $WORK/build.log)"
  build
  say "Starting the server (log: $WORK/server.log)"
  start_server
  current_log="$WORK/server.log"
  demonstrate
  say_goodbye
}

main "$@"
