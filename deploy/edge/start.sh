#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts the hardened edge in the foreground (docs/edge.md): deploy/edge/start.sh [--check]
# Files in $VICINAL_EDGE_DIR (default: /etc/vicinal-edge):
#   site.pem      the edge's certificate chain and its key
#   clients.pem   authorities that sign client certificates; without such, any certificate, and VICINAL_EDGE_CLIENT_CERTS=none
#   servers.pem   with VICINAL_EDGE_CLUSTER, a file like cluster.cfg: authorities that sign the servers' certificates
#   tokens.map    one "SHA256 NAME" a line, the hexadecimal SHA-256 of a token: printf %s "$TOKEN" | sha256sum
# Other variables: the first lines of haproxy.cfg. --check only checks version, files and configuration.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly wanted=2.6.12-1+deb12u4

fail() {
  echo "vicinal-edge: $*" >&2
  exit 1
}

command -v haproxy >/dev/null || fail "haproxy is missing: apt-get install haproxy"
version="$(haproxy -v | sed -n '1s/^HAProxy version \([^ ]*\) .*/\1/p')"
dpkg --compare-versions "$version" ge "$wanted" ||
  fail "haproxy is $version; $wanted or later is needed: it corrects how HTTP/2 frames are read"

export VICINAL_EDGE_DIR="${VICINAL_EDGE_DIR:-/etc/vicinal-edge}"
export VICINAL_EDGE_RUN="${VICINAL_EDGE_RUN:-/run/vicinal-edge}"
export VICINAL_EDGE_CLIENT_CERTS="${VICINAL_EDGE_CLIENT_CERTS:-optional}"
[[ -n "${VICINAL_EDGE_METRICS:-}" ]] || unset VICINAL_EDGE_METRICS
# On its unix socket the server takes more metadata, so a larger certificate fits beside what clients send.
if [[ "${VICINAL_EDGE_SERVER:-}" == unix@* ]]; then
  export VICINAL_EDGE_CERTIFICATE_BYTES="${VICINAL_EDGE_CERTIFICATE_BYTES:-4096}"
fi
install -d -m 700 "$VICINAL_EDGE_RUN"
files=(site.pem clients.pem tokens.map)
configuration=(-f "$here/haproxy.cfg")
if [[ -n "${VICINAL_EDGE_CLUSTER:-}" ]]; then
  files+=(servers.pem)
  configuration+=(-f "$VICINAL_EDGE_CLUSTER")
  [[ -r "$VICINAL_EDGE_CLUSTER" ]] || fail "VICINAL_EDGE_CLUSTER: $VICINAL_EDGE_CLUSTER is missing or cannot be read"
else
  unset VICINAL_EDGE_CLUSTER
fi
for file in "${files[@]}"; do
  [[ -r "$VICINAL_EDGE_DIR/$file" ]] || fail "$VICINAL_EDGE_DIR/$file is missing or cannot be read"
done
if [[ "${1:-}" == --check ]]; then
  exec haproxy -c -q "${configuration[@]}"
fi
# A master, which update.sh asks to take over new authorities, and its worker. SIGTERM ends both; SIGUSR1 lets calls finish.
exec haproxy -W -db -p "$VICINAL_EDGE_RUN/edge.pid" "${configuration[@]}"
