#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gathers server, command line, benches and conformance of the CUDA backend with every library they need but glibc's into
# a folder that runs wherever it lies, on any Linux with glibc 2.36 or later (Debian 12, Ubuntu 24.04): the release
# tarball, and the way onto a GPU machine. docs/bundle.md says what is in it.
#   deploy/bundle.sh [FOLDER]          builds with the preset `bundle`, gathers in FOLDER (build/bundle/vicinal)
#   deploy/bundle.sh --build BUILD     takes what lies built in BUILD
#   deploy/bundle.sh --tar FILE        also packs it: .tar.gz or .tar.xz
#   deploy/bundle.sh --data            with tests/data, so that bench/cuda/run.sh can check the server there
#   deploy/bundle.sh --serving         server, command line and their libraries alone (deploy/image.sh)
# FOLDER is replaced. CUDA's own libraries stay behind: only vicinal_bench_cuda needs one, cuSPARSE, and
# vicinal_bench_products another, cuBLAS, and they find them where a CUDA toolkit is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=""
folder=build/bundle/vicinal
archive=""
with_data=false
serving=false

# Parts of glibc belong to the machine: they must fit its dynamic linker and its kernel.
is_glibc() {
  [[ "$1" =~ ^(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|anl|nsl|mvec|nss_[a-z]*))\.so ]]
}
is_cuda() {
  [[ "$1" =~ ^lib(cusparse|cublas|cublasLt|nvJitLink|cuda|nvidia).*\.so ]]
}

parse_arguments() {
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --build) build="$2"; shift ;;
      --tar) archive="$2"; shift ;;
      --data) with_data=true ;;
      --serving) serving=true ;;
      --help | -h) sed -n '3,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
      -*) echo "bundle.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
      *) folder="$1" ;;
    esac
    shift
  done
}

# The conformance program is configured with the tests.
build_all() {
  deploy/packages.sh test
  cmake --preset bundle >/dev/null
  cmake --build --preset bundle
  build=build/bundle
}

# The programs and libraries of our own.
our_files() {
  find "$folder/bin" "$folder/lib" -maxdepth 1 -type f \( -path '*/bin/*' -o -name 'libvicinal_*' \)
}

# "NAME PATH" of each library that a file loads, in the dynamic linker's own words; PATH is "not" where it finds none.
libraries_of() {
  LD_LIBRARY_PATH="" ldd "$1" | awk '$2 == "=>" {print $1, $3}'
}

install_ours() {
  rm -rf "$folder"
  cmake --install "$build" --prefix "$folder" --strip >/dev/null
  $serving || cmake --install "$build" --prefix "$folder" --strip --component measuring >/dev/null
}

# The licence of the package that a library came in.
keep_licence() {
  local path package
  path="$(readlink -f "$1")"
  package="$(dpkg-query -S "$path" 2>/dev/null || dpkg-query -S "${path#/usr}" 2>/dev/null || true)"
  package="${package%%:*}"
  if [[ -n "$package" && -f "/usr/share/doc/$package/copyright" ]]; then
    cp -L "/usr/share/doc/$package/copyright" "$folder/share/licenses/$package"
  fi
}

copy_libraries() {
  local file name path
  mkdir -p "$folder/share/licenses"
  cp LICENSE "$folder/share/licenses/vicinal"
  while read -r file; do
    while read -r name path; do
      if is_glibc "$name" || is_cuda "$name" || [[ -e "$folder/lib/$name" ]]; then continue; fi
      [[ -f "$path" ]] || { echo "bundle.sh: $file needs $name, which is not here" >&2; return 1; }
      install -m 755 "$(readlink -f "$path")" "$folder/lib/$name"
      keep_licence "$path"
    done < <(libraries_of "$file")
  done < <(our_files)
}

# At the places they have in the repository, where they look for each other.
copy_scripts() {
  mkdir -p "$folder/bench/cuda/server_checks" "$folder/bench/peers" "$folder/bench/serving" "$folder/bench/state"
  cp bench/binary_graph.py "$folder/bench"
  cp bench/cuda/*.py bench/cuda/*.sh "$folder/bench/cuda"
  cp bench/cuda/server_checks/*.py "$folder/bench/cuda/server_checks"
  cp bench/peers/__init__.py bench/peers/exchange.py bench/peers/figures.py bench/peers/workers.py "$folder/bench/peers"
  cp bench/serving/*.py "$folder/bench/serving"
  cp bench/state/common.py bench/state/scratch.py "$folder/bench/state"
  # The Python package, where the build has it.
  if [[ -d "$build/client/python/installed/vicinal" ]]; then
    mkdir -p "$folder/python"
    cp -r "$build/client/python/installed/vicinal" "$folder/python"
  fi
  if $with_data; then
    mkdir -p "$folder/tests"
    cp -r tests/data "$folder/tests/data"
  fi
}

# Nothing may come from outside the folder but glibc and CUDA.
check() {
  local root file name path bad=0
  root="$(cd "$folder" && pwd)"
  while read -r file; do
    while read -r name path; do
      if is_glibc "$name" || is_cuda "$name" || [[ "$(readlink -f "$path")" == "$root"/* ]]; then continue; fi
      echo "bundle.sh: $file would load $name from $path" >&2
      bad=1
    done < <(libraries_of "$file")
  done < <(our_files)
  return $bad
}

pack() {
  local packed
  tar -C "$(dirname "$folder")" --owner=0 --group=0 -caf "$archive" "$(basename "$folder")"
  packed="$(stat -c %s "$archive")"
  echo "$archive: $((packed >> 20)) MiB"
}

main() {
  parse_arguments "$@"
  [[ -n "$build" ]] || build_all
  install_ours
  copy_libraries
  $serving || copy_scripts
  check
  echo "$folder: $(du -sm "$folder" | cut -f1) MiB, $(find "$folder/lib" -name '*.so*' -type f | wc -l) libraries," \
    "programs: $(find "$folder/bin" -type f -printf '%f ' | tr -d '\n')"
  [[ -z "$archive" ]] || pack
}

main "$@"
