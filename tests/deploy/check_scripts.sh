#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every shell script of the repository is clean by shellcheck.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mapfile -t scripts < <(git ls-files -- '*.sh' .ci/run)
[[ ${#scripts[@]} -gt 0 ]] || { echo "no scripts are tracked here" >&2; exit 1; }
shellcheck "${scripts[@]}"
echo "${#scripts[@]} scripts are clean"
