// SPDX-License-Identifier: Apache-2.0
// Former names of kernels. They are accepted wherever a kernel is named: forced by a request, forced on a graph, or in
// settings from an earlier release. The server always reports the current name.
#ifndef VICINAL_ENGINE_KERNELS_KERNEL_ALIASES_H_
#define VICINAL_ENGINE_KERNELS_KERNEL_ALIASES_H_

#include <span>
#include <string_view>

namespace vicinal {

struct KernelAlias {
  std::string_view operation;
  std::string_view former;
  std::string_view current;
};

// Entries are added when a kernel is renamed and never removed; docs/tuning.md lists them.
std::span<const KernelAlias> KernelAliases();

// The current name of the kernel that `name` means in `operation`; `name` itself if it is not a former name.
std::string_view CurrentKernelName(std::string_view operation, std::string_view name);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_KERNEL_ALIASES_H_
