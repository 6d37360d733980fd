#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Generates Python stubs of the API (vicinal/v1) into the folder OUT. Needs protoc and grpc_python_plugin (Debian:
# protobuf-compiler, protobuf-compiler-grpc); the stubs need python3-grpcio and python3-protobuf.
set -euo pipefail

if [[ $# -ne 1 ]]; then
  echo "usage: $0 OUT" >&2
  exit 2
fi
out="$1"
proto="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../proto" && pwd)"
plugin="$(command -v grpc_python_plugin)" || { echo "$0: grpc_python_plugin is not installed" >&2; exit 1; }

mkdir -p "$out"
# error_details is for C++: Python has these messages as google.rpc (python3-googleapis-common-protos or grpcio-status).
protoc -I "$proto" --python_out="$out" --grpc_python_out="$out" --plugin=protoc-gen-grpc_python="$plugin" \
  "$proto"/vicinal/v1/{tensor,tuning,graph,model,inference,server}.proto
