#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests need, builds, runs everything, and closes with the count of tests on a line of its own.
#   tests/run.sh                 all stages: release, clang, asan, tsan, fuzz
#   tests/run.sh --quick         before each commit: unit tests and a quarter of conformance, without CUDA
#   tests/run.sh --stage NAME    one stage; may be repeated
#   tests/run.sh --no-install    takes the packages as they are
# Stages (docs/testing.md says what each is for):
#   release  what is shipped: all tests, each header alone, layers, format, manifests, the Python example
#   clang    clang-tidy and clang's warnings, thread-safety analysis among them: all but CUDA and tests
#   asan     address and undefined-behaviour sanitizers (clang): all tests that are not labelled `slow` or `static`
#   tsan     thread sanitizer (clang): tests labelled `tsan`, which the engine's tests with threads are by themselves
#   fuzz     libFuzzer, 10 s for each parser and each service; built with asan; inputs that fail are kept in build/asan/findings
# Exit status: 0 when at least one test ran and none failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly ALL_STAGES=(release clang asan tsan fuzz)
jobs="$(nproc)"
readonly jobs

# A leak is a failure, too.
export ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1:check_initialization_order=1"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/tsan.supp"

stages=()
install=true
passed=0
failed=0
skipped=0
memory=""

usage() {
  sed -n '3,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

parse_arguments() {
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --quick) stages=(quick) ;;
      --stage)
        [[ $# -ge 2 && " ${ALL_STAGES[*]} " == *" $2 "* ]] || { echo "run.sh: --stage needs one of: ${ALL_STAGES[*]}" >&2; exit 2; }
        stages+=("$2")
        shift
        ;;
      --no-install) install=false ;;
      --help | -h) usage; exit 0 ;;
      *) echo "run.sh: unknown argument '$1'; see --help" >&2; exit 2 ;;
    esac
    shift
  done
  [[ ${#stages[@]} -gt 0 ]] || stages=("${ALL_STAGES[@]}")
}

# Runs a command with its output in a log; shows the log's end when it fails.
logged() {
  local log="$1"
  shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1; then
    grep -E -A3 'error:|FAILED:' "$log" | tail -n 60 >&2 || true
    tail -n 20 "$log" >&2
    echo "run.sh: failed: $* (all of it: $log)" >&2
    return 1
  fi
}

# build PRESET [TARGET...]: without targets, those of the build preset (CMakePresets.json), or else all
build() {
  local preset="$1"
  shift
  logged "build/$preset/configure.log" cmake --preset "$preset" &&
    logged "build/$preset/build.log" cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"}
}

# The number that ctest's own report gives for an attribute of the suite.
reported() {
  local value
  value="$(grep -o -m1 "[[:space:]]$2=\"[0-9]*\"" "$1" | tr -dc '0-9')"
  echo "${value:-0}"
}

# What GoogleTest's reports in a folder, one a program, count beyond the programs: TESTs, and those of them that skipped.
more_tests() {
  cat "$1"/*.xml 2>/dev/null | sed -n 's/^<testsuites tests="\([0-9]*\)".*/\1/p' | awk '{ more += $1 - 1 } END { print more + 0 }'
}
more_skipped() {
  cat "$1"/*.xml 2>/dev/null | grep -c 'result="skipped"' || true
}

# run_tests PRESET CTEST_ARGUMENT...: runs ctest, shows what did not pass, adds up. A program that fails counts as one failure.
# The report and the log have the stage's name: asan and fuzz share a build.
run_tests() {
  local preset="$1" report="$PWD/build/$1/$stage.xml" log="build/$1/$stage.log"
  shift
  rm -rf "$report" "build/$preset/gtest"
  # Tests of durable state mostly wait for fsync; in memory they take an eighth of the time. What a disk loses is simulated
  # there, and the release stage runs them on a real one.
  local -x TMPDIR="${TMPDIR:-/tmp}"
  [[ -z "$memory" || "$preset" == release ]] || TMPDIR="$memory"
  # More at once than there are cores: many tests mostly wait, for a server that starts or for their own threads. Under the
  # thread sanitizer two at once took 343 s of 428 s of processor time.
  ctest --test-dir "build/$preset" -j "$((2 * jobs))" --output-on-failure --no-tests=error --output-junit "$report" "$@" >"$log" 2>&1 ||
    grep -Ev '^ *(Start +[0-9]+:|[0-9]+/[0-9]+ Test .* Passed )' "$log" || true
  if [[ ! -f "$report" ]]; then
    tail -n 20 "$log"
    failed=$((failed + 1))
    return
  fi
  local all bad skip
  all=$(($(reported "$report" tests) + $(more_tests "build/$preset/gtest")))
  bad="$(reported "$report" failures)"
  skip=$(($(reported "$report" skipped) + $(reported "$report" disabled) + $(more_skipped "build/$preset/gtest")))
  echo "  $preset: $all tests, $bad failed, $skip skipped"
  passed=$((passed + all - bad - skip))
  failed=$((failed + bad))
  skipped=$((skipped + skip))
}

stage_release() {
  build release all vicinal_headers || return 1
  run_tests release
}

stage_quick() {
  build quick vicinal_tests_unit vicinal_tests_conformance || return 1
  run_tests quick -L '^unit$'
  GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=0 run_tests quick -L '^conformance$'
}

# clang-tidy parses what a build would compile, so nothing is compiled: warnings are errors in both, -Wthread-safety among
# them (cmake/VicinalTargets.cmake, .clang-tidy). Only what has to be there first is built: messages, precompiled headers.
stage_clang() {
  build clang || return 1
  logged build/clang/tidy.log run-clang-tidy-14 -quiet -j "$jobs" -p build/clang '^((?!generated|precompiled).)*$' || return 1
  echo "  clang: no warning"
  passed=$((passed + 1))
}

# `slow` tests run the same code for longer (every model with every order and kernel), too long with sanitizers; the
# release stage runs them. `static` ones look at sources and files only.
stage_asan() {
  build asan || return 1
  run_tests asan -L '^(unit|conformance|integration)$' -LE '^static$'
}

# Debian's gRPC and protobuf are not instrumented: over gRPC a correct program gives false reports. So only what is free of
# gRPC is built here.
stage_tsan() {
  build tsan || return 1
  run_tests tsan -L '^tsan$'
}

# Every target over its stored inputs, then 10 s of new ones. tests/fuzz/run.py does the same for longer. The build with
# asan's sanitizers also has the counters that libFuzzer needs, so that nothing is compiled twice.
stage_fuzz() {
  build asan vicinal_tests_fuzz || return 1
  run_tests asan -L '^fuzz$'
}

# A folder in memory for what tests write, removed at the end; none where there is too little, or where programs may not run.
make_memory() {
  local free
  free="$(df --block-size=1 --output=avail /dev/shm 2>/dev/null | tail -n 1)"
  [[ "${free:-0}" -ge $((4 << 30)) ]] || return 0
  memory="$(mktemp -d /dev/shm/vicinal_tests_XXXXXX)"
  trap 'rm -rf "$memory"' EXIT
  install -m 755 /bin/true "$memory/true"
  if ! "$memory/true" 2>/dev/null; then rm -rf "$memory"; memory=""; fi
}

main() {
  parse_arguments "$@"
  make_memory
  if $install; then
    deploy/packages.sh test
  fi
  local stage begin
  for stage in "${stages[@]}"; do
    begin=$SECONDS
    echo "== $stage"
    if ! "stage_$stage"; then
      echo "  $stage: could not be built" >&2
      failed=$((failed + 1))
    fi
    echo "  $stage: $((SECONDS - begin)) s"
  done
  echo
  if [[ $skipped -gt 0 ]]; then
    echo "$passed passed, $failed failed, $skipped skipped"
  else
    echo "$passed passed, $failed failed"
  fi
  [[ $failed == 0 && $passed -gt 0 ]]
}

main "$@"
