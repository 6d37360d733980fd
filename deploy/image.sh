#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gathers what the container images hold (Dockerfile) from a build, one folder per layer:
#   deploy/image.sh BUILD FOLDER
#   FOLDER/cpu         server, command line, every library they need, glibc too, and the few files that glibc reads
#   FOLDER/cuda        on top of it: the CUDA backend; only if BUILD has it
#   FOLDER/cuda-full   on top of both: NVIDIA's libraries of a CUDA toolkit; only where one is installed
#   FOLDER/state       the empty state directory
# There is no shell, no package manager and no other program. Each layer lists its packages for scanners: usr/share/vicinal/LAYER.spdx.json,
# and, of Debian's packages, var/lib/dpkg/status.d. FOLDER is replaced.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly BUILD="$1" FOLDER="$2"
readonly TOOLKIT="${CUDA_HOME:-/usr/local/cuda}"
# What the backend opens by name, what that needs, and NVRTC, the compiler.
readonly NVIDIA=(libcublasLt libcusparse libnvJitLink libnvrtc libnvrtc-builtins)
# NVRTC opens its built-in functions by name and does not look beside itself, so they lie where the dynamic linker looks anyway.
readonly BESIDE_GLIBC=libnvrtc-builtins
# What the driver's libcuda.so.1, which the runtime mounts, asks for beyond what the server does: parts of glibc that are empty today.
readonly DRIVER_NEEDS=(libdl.so.2 libpthread.so.0 librt.so.1)

version="$(sed -n 's/^project(.* VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"
readonly version

# name_of_package FILE: the Debian package that a file comes from, without its architecture.
name_of_package() {
  local path found
  path="$(readlink -f "$1")"
  found="$(dpkg-query -S "$path" 2>/dev/null || dpkg-query -S "${path#/usr}" 2>/dev/null || true)"
  printf '%s\n' "${found%%:*}"
}

# Copies a file of this machine to its own path in the image, links resolved, and notes its package.
take() {
  install -D -m "$2" "$(readlink -f "$1")" "$FOLDER/cpu$1"
  packages+=("$(name_of_package "$1")")
}

# The parts of glibc that the programs and libraries ask for, and the dynamic linker at the path that is in every program.
take_glibc() {
  local path
  while read -r path; do
    take "$path" 755
  done < <(find "$FOLDER/cpu/opt/vicinal/bin" "$FOLDER/cpu/opt/vicinal/lib" -type f -exec ldd {} + 2>/dev/null |
    grep -oE '/lib[^ ]*/(ld-linux[^ ]*|lib(c|m|dl|rt|pthread|resolv|mvec)\.so[^ ]*)' | sort -u)
}

# Names, users and trusted authorities (the command line's --tls). Root is there because tools expect it.
write_etc() {
  local etc="$FOLDER/cpu/etc"
  mkdir -p "$etc"
  printf '%s\n' 'root:x:0:0:root:/:/nonexistent' 'vicinal:x:65532:65532:vicinal:/var/lib/vicinal:/nonexistent' >"$etc/passwd"
  printf '%s\n' 'root:x:0:' 'vicinal:x:65532:' >"$etc/group"
  printf 'hosts: files dns\n' >"$etc/nsswitch.conf"
  take /etc/os-release 644
  take /etc/ssl/certs/ca-certificates.crt 644
  packages+=(ca-certificates)
  install -d -m 1777 "$FOLDER/cpu/tmp"
  # Where runtimes mount; with a read-only root not all of them can make these.
  mkdir -p "$FOLDER"/cpu/{dev,proc,sys,run/secrets}
}

# write_sbom LAYER: SPDX of the packages that are in "NAME VERSION SUPPLIER LICENCE" lines on standard input.
write_sbom() {
  local name number supplier licence first="" lines=()
  while read -r name number supplier licence; do
    first="${first:-$name}"
    lines+=("$(printf '{"name": "%s", "SPDXID": "SPDXRef-%s", "versionInfo": "%s", "supplier": "Organization: %s", "licenseDeclared": "%s", "downloadLocation": "NOASSERTION", "filesAnalyzed": false}' \
      "$name" "${name//[^A-Za-z0-9.]/-}" "$number" "$supplier" "$licence")")
  done
  local file="$FOLDER/$1/usr/share/vicinal/$1.spdx.json"
  mkdir -p "$(dirname "$file")"
  {
    printf '{"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "vicinal-%s",\n' "$1"
    printf ' "documentNamespace": "urn:vicinal:image:%s:%s",\n' "$1" "$version"
    printf ' "creationInfo": {"created": "%s", "creators": ["Tool: vicinal-deploy-image.sh"]},\n' \
      "$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)"
    printf ' "documentDescribes": ["SPDXRef-%s"],\n "packages": [\n' "$first"
    printf "  %s" "${lines[0]}"
    printf ',\n  %s' "${lines[@]:1}"
    printf ']}\n'
  } >"$file"
}

# Debian's packages with their version; scanners read status.d as dpkg's own list.
list_packages() {
  local package number status="$FOLDER/cpu/var/lib/dpkg/status.d"
  mkdir -p "$status"
  echo "vicinal $version Vicinal Apache-2.0"
  while read -r package; do
    number="$(dpkg-query -W -f '${Version}' "$package")"
    dpkg-query -s "$package" >"$status/$package"
    cp -L "/usr/share/doc/$package/copyright" "$FOLDER/cpu/opt/vicinal/share/licenses/$package"
    echo "$package $number Debian NOASSERTION"
  done
}

gather_cpu() {
  packages=()
  deploy/bundle.sh --build "$BUILD" --serving "$FOLDER/cpu/opt/vicinal"
  take_glibc
  write_etc
  # The bundle keeps the licence of each library's package under the package's name.
  { printf '%s\n' "${packages[@]}"; ls "$FOLDER/cpu/opt/vicinal/share/licenses"; } | grep -vx -e vicinal -e '' | sort -u |
    list_packages | write_sbom cpu
  install -d -m 700 "$FOLDER/state"
}

# Below the root of the image.
folder_of_glibc() {
  (cd "$FOLDER/cpu" && find . -name libc.so.6 -printf '%h')
}

gather_cuda() {
  local backend=opt/vicinal/lib/libvicinal_cuda.so
  [[ -f "$FOLDER/cpu/$backend" ]] || return 0
  mkdir -p "$FOLDER/cuda/${backend%/*}"
  mv "$FOLDER/cpu/$backend" "$FOLDER/cuda/$backend"
  local compiler=opt/vicinal/bin/vicinal-kernel-compiler library glibc
  mkdir -p "$FOLDER/cuda/${compiler%/*}"
  mv "$FOLDER/cpu/$compiler" "$FOLDER/cuda/$compiler"
  glibc="$(folder_of_glibc)"
  for library in "${DRIVER_NEEDS[@]}"; do
    install -D -m 755 "$(readlink -f "/$glibc/$library")" "$FOLDER/cuda/$glibc/$library"
  done
  echo "vicinal-cuda $version Vicinal Apache-2.0" | write_sbom cuda
}

gather_cuda_full() {
  local library target paths=()
  [[ -d "$FOLDER/cuda" ]] || return 0
  for library in "${NVIDIA[@]}"; do
    # The name with the major version is the one that is asked for.
    paths+=("$(find "$TOOLKIT/lib64/" -maxdepth 1 -name "$library.so.*" 2>/dev/null | sort | head -n 1 || true)")
    [[ -n "${paths[-1]}" ]] || { echo "image.sh: $TOOLKIT has no $library: no layer cuda-full" >&2; return 0; }
  done
  for library in "${paths[@]}"; do
    target=opt/vicinal/lib
    [[ "$library" != */"$BESIDE_GLIBC".* ]] || target="$(folder_of_glibc)"
    install -D -m 755 "$(readlink -f "$library")" "$FOLDER/cuda-full/$target/$(basename "$library")"
    library="$(basename "$library")"
    echo "${library%%.so.*} ${library#*.so.} NVIDIA NOASSERTION"
  done | write_sbom cuda-full
}

[[ $# == 2 ]] || { echo "usage: deploy/image.sh BUILD FOLDER" >&2; exit 2; }
rm -rf "$FOLDER"
mkdir -p "$FOLDER"
gather_cpu
gather_cuda
gather_cuda_full
du -sm "$FOLDER"/*
