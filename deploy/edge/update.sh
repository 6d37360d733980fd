#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gives a running edge new files from $VICINAL_EDGE_DIR, without a restart and without a lost call (docs/edge.md):
#   deploy/edge/update.sh site | clients | tokens | servers
# servers: the list of servers in $VICINAL_EDGE_CLUSTER, and servers.pem. A file that HAProxy rejects changes nothing. Connections that
# are open keep what they were opened with.
set -euo pipefail
directory="${VICINAL_EDGE_DIR:-/etc/vicinal-edge}"
run="${VICINAL_EDGE_RUN:-/run/vicinal-edge}"
socket="$run/admin.sock"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

# One command, with its payload on standard input if $2 says so; fails unless the reply matches $3.
ask() {
  local reply
  if [[ "$2" == payload ]]; then
    # An empty line ends a payload, so the file may have none.
    reply="$({ printf '%s <<\n' "$1"; grep -v '^[[:space:]]*$'; printf '\n'; } | socat -t 10 - "UNIX-CONNECT:$socket")"
  else
    reply="$(printf '%s\n' "$1" | socat -t 10 - "UNIX-CONNECT:$socket")"
  fi
  if [[ ! "$reply" =~ $3 ]]; then
    printf 'vicinal-edge: %s: %s\n' "${1%% <<*}" "$reply" >&2
    return 1
  fi
  printf '%s' "$reply"
}

# A transaction, so that a bad file is given up as a whole.
replace_site() {
  local file="$directory/site.pem"
  ask "set ssl cert $file" payload 'Transaction (created|updated)' <"$file" >/dev/null
  if ! ask "commit ssl cert $file" none 'Success!' >/dev/null; then
    ask "abort ssl cert $file" none '.*' >/dev/null
    return 1
  fi
}

process_of_worker() {
  ask 'show info' none 'Pid: [0-9]+' 2>/dev/null | sed -n 's/^Pid: //p'
}

# A new worker takes over the listening socket; the old one ends when its connections do. Not by "commit ssl ca-file": after
# a "commit ssl cert" that crashes HAProxy 2.6.12 (https://github.com/haproxy/haproxy/issues/3165).
replace_worker() {
  local old master
  "$here/start.sh" --check || return 1
  old="$(process_of_worker)"
  master="$(cat "$run/edge.pid")"
  kill -USR2 "$master"
  for _ in {1..100}; do
    sleep 0.1
    [[ "$(process_of_worker || true)" == "$old" ]] || return 0
  done
  echo "vicinal-edge: no new worker after 10 s; see its log" >&2
  return 1
}

case "${1:-}" in
  site) replace_site ;;
  clients | servers) replace_worker ;;
  tokens)
    map="$directory/tokens.map"
    if grep -v -E -q '^([0-9a-f]{64} [^[:space:]]+)?$' "$map"; then
      echo "vicinal-edge: $map: a line is not 'SHA256 NAME'; nothing was changed" >&2
      exit 1
    fi
    version="$(ask "prepare map $map" none 'New version created: [0-9]+' | grep -o '[0-9]*$')"
    ask "add map @$version $map" payload '^$' <"$map" >/dev/null
    ask "commit map @$version $map" none '^$' >/dev/null
    ;;
  *)
    echo "usage: update.sh site | clients | tokens | servers" >&2
    exit 2
    ;;
esac
echo "vicinal-edge: the new $1 is in use"
