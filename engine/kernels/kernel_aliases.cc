// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/kernel_aliases.h"

namespace vicinal {
namespace {

constexpr KernelAlias kAliases[] = {
    {"aggregate", "balanced_rows", "binned_rows"},
    {"aggregate", "abreast_rows", "length_sorted_rows"},
    {"aggregate", "shared_panels", "source_panels"},
    {"sparse_update", "balanced_rows", "binned_rows"},
};

}  // namespace

std::span<const KernelAlias> KernelAliases() { return kAliases; }

std::string_view CurrentKernelName(std::string_view operation, std::string_view name) {
  for (const KernelAlias& alias : kAliases)
    if (alias.operation == operation && alias.former == name) return alias.current;
  return name;
}

}  // namespace vicinal
