// SPDX-License-Identifier: Apache-2.0
// The parameters of a kernel, and why a kernel does not support a problem, as plain values.
#ifndef VICINAL_ENGINE_API_KERNEL_CONFIG_H_
#define VICINAL_ENGINE_API_KERNEL_CONFIG_H_

#include <array>
#include <cstdint>
#include <string>

namespace vicinal {

// Parameters of a kernel as a plain value; the kernel defines their names and meanings (Kernel::ParameterNames). All
// zeros: the kernel's own default. Parameters change where and when values are computed. They change the reduction
// order of a row, and so the bits of the result, only as far as Kernel::ReductionOrder shows.
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
