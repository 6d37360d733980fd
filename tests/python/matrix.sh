#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheel of the Python client in clean virtual environments: each PYTHON given with protobuf 4 to 7, newest of each. Run by hand; needs
# a package index, a built server (VICINAL_BIN_DIR) and protoc.
#   VICINAL_BIN_DIR=build/quick/bin tests/python/matrix.sh WORK_DIR python3.9 python3.13 ...
set -euo pipefail

if [[ $# -lt 2 ]]; then
  echo "usage: $0 WORK_DIR PYTHON..." >&2
  exit 2
fi
work="$1"
shift
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
VICINAL_BIN_DIR="$(realpath "${VICINAL_BIN_DIR:-$root/build/release/bin}")"
export VICINAL_BIN_DIR
mkdir -p "$work"

for python in "$@"; do
  for protobuf in 4 5 6 7; do
    venv="$work/$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-protobuf$protobuf"
    "$python" -m venv --clear "$venv"
    if ! "$venv/bin/pip" install -q "$root/client/python" "protobuf==$protobuf.*" scipy networkx pandas >"$venv/pip.log" 2>&1; then
      echo "$venv: pip failed: $(tail -n 1 "$venv/pip.log")"
      continue
    fi
    what="$("$venv/bin/python" -c 'import sys, google.protobuf, grpc, numpy
print(f"python {sys.version.split()[0]}, protobuf {google.protobuf.__version__}, grpcio {grpc.__version__}, numpy {numpy.__version__}")')"
    for name in arrays client faults async; do
      result="$(PYTHONPATH="$root/tests/deploy" "$venv/bin/python" -W error::DeprecationWarning:vicinal "$root/tests/python/${name}_test.py" 2>"$venv/$name.log" >"$venv/$name.out" \
        && echo passed || echo FAILED)"
      what+=", $name $result ($(grep -oE 'Ran [0-9]+ tests|skipped=[0-9]+' "$venv/$name.log" | tr '\n' ' '))"
    done
    echo "$what"
  done
done
