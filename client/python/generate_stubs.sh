#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Generates Python stubs of the API (vicinal/v1) into the folder OUT. Needs grpcio-tools (pip install grpcio-tools), whose
# stubs suit the grpcio that came with it; or protoc and grpc_python_plugin (Debian: protobuf-compiler,
# protobuf-compiler-grpc), whose stubs suit Debian's python3-grpcio and python3-protobuf.
set -euo pipefail

if [[ $# -ne 1 ]]; then
  echo "usage: $0 OUT" >&2
  exit 2
fi
out="$1"
proto="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../proto" && pwd)"
# Errors of calls are google.rpc's in Python (python3-googleapis-common-protos or grpcio-status); those of a stream's single requests are
# error_details.
files=("$proto"/vicinal/v1/{error_details,tensor,durability,tuning,graph,model,inference,server}.proto)

mkdir -p "$out"
if python3 -c 'import grpc_tools' 2>/dev/null; then
  python3 -m grpc_tools.protoc -I "$proto" --python_out="$out" --grpc_python_out="$out" "${files[@]}"
elif plugin="$(command -v grpc_python_plugin)" && command -v protoc >/dev/null; then
  protoc -I "$proto" --python_out="$out" --grpc_python_out="$out" --plugin=protoc-gen-grpc_python="$plugin" "${files[@]}"
else
  echo "$0: install grpcio-tools (pip), or protobuf-compiler and protobuf-compiler-grpc (Debian)" >&2
  exit 1
fi
