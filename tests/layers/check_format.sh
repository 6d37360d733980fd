#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All tracked C++ files are formatted by clang-format 14 with the repository's .clang-format (the version matters: others
# break lines elsewhere). To mend: git ls-files '*.h' '*.cc' | xargs clang-format-14 -i
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mapfile -t files < <(git ls-files -- '*.h' '*.cc' '*.cu' '*.cuh')
[[ ${#files[@]} -gt 0 ]] || { echo "no C++ files are tracked here" >&2; exit 1; }
# Only files that are there: one may be deleted in the working tree and not yet in the index.
present=()
for file in "${files[@]}"; do
  [[ -f "$file" ]] && present+=("$file")
done
clang-format-14 --dry-run -Werror "${present[@]}"
echo "${#present[@]} files are formatted"
