// SPDX-License-Identifier: Apache-2.0
// The values of a kernel's parameter that a client may force. A kernel may take any other value for the nearest of
// these, but whoever named it would not learn of that: requests, TuneGraph and kept decisions with one are refused.
#ifndef VICINAL_ENGINE_KERNELS_PARAMETER_RANGE_H_
#define VICINAL_ENGINE_KERNELS_PARAMETER_RANGE_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace vicinal {

// Plain value. 0, with which a kernel takes its own default, is always allowed.
class ParameterRange {
 public:
  // Of parameters that count rows, columns or edges without a limit of the kernel.
  static constexpr int32_t kHighest = 1 << 20;

  static ParameterRange Between(int32_t lowest, int32_t highest) { return {lowest, highest, {}}; }
  static ParameterRange AtLeast(int32_t lowest) { return {lowest, kHighest, {}}; }
  static ParameterRange OneOf(std::initializer_list<int32_t> values) { return {0, 0, values}; }

  bool Allows(int32_t value) const;
  // "0 or 4 to 192", "-1 to 1048576", "0, 16, 32 or 64".
  std::string Describe() const;

 private:
  ParameterRange(int32_t lowest, int32_t highest, std::vector<int32_t> values)
      : lowest_(lowest), highest_(highest), values_(std::move(values)) {}

  int32_t lowest_, highest_;
  std::vector<int32_t> values_;  // not empty: these alone
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_PARAMETER_RANGE_H_
