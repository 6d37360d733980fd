// SPDX-License-Identifier: Apache-2.0
// The parameters of a kernel, and why a kernel was passed over, as plain values.
#ifndef VICINAL_ENGINE_API_KERNEL_CONFIG_H_
#define VICINAL_ENGINE_API_KERNEL_CONFIG_H_

#include <array>
#include <cstdint>
#include <string>

namespace vicinal {

// Parameters of a kernel as a plain value; their names and meanings are the kernel's (Kernel::ParameterNames). All
// zeros: the kernel's own default. Whatever they are, the bits of the result are the same: parameters change where and
// when things are computed, not the order in which a row's terms are added, unless Kernel::ReductionOrder says so.
struct KernelConfig {
  std::array<int32_t, 5> values = {};

  friend bool operator==(const KernelConfig&, const KernelConfig&) = default;
};

// A kernel that does not support a problem, and why.
struct KernelRefusal {
  std::string kernel;
  std::string reason;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_KERNEL_CONFIG_H_
