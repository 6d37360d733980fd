// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/configurations.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/error.h"

namespace vicinal::bench {

StatusOr<std::vector<NamedConfiguration>> ParseConfigurations(const std::vector<std::string>& words) {
  std::vector<NamedConfiguration> configurations;
  for (const std::string& word : words) {
    const std::vector<std::string> parts = absl::StrSplit(word, ':');
    NamedConfiguration& one = configurations.emplace_back();
    one.kernel = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      const std::pair<std::string, std::string> pair = absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
      int32_t value = 0;
      if (pair.first.empty() || !absl::SimpleAtoi(pair.second, &value)) {
        return InvalidArgument("BAD_CONFIGURATION", "configurations",
                               absl::StrCat("'", word, "' is not KERNEL:PARAMETER=NUMBER:..."));
      }
      one.values.emplace_back(pair.first, value);
    }
  }
  return configurations;
}

bool Choice::Wants(const std::string& kernel) const {
  if (kernels.empty()) return true;
  return std::any_of(kernels.begin(), kernels.end(), [&](const std::string& wanted) {
    return wanted.ends_with('*') ? kernel.starts_with(wanted.substr(0, wanted.size() - 1)) : kernel == wanted;
  });
}

StatusOr<std::vector<KernelConfig>> Choice::Forced(const std::string& kernel,
                                                   const std::vector<std::string_view>& parameters) const {
  std::vector<KernelConfig> configs;
  for (const NamedConfiguration& one : configurations) {
    if (one.kernel != kernel) continue;
    KernelConfig& config = configs.emplace_back();
    for (const auto& [name, value] : one.values) {
      const auto found = std::find(parameters.begin(), parameters.end(), name);
      if (found == parameters.end()) {
        return InvalidArgument("BAD_CONFIGURATION", "configurations",
                               absl::StrCat(kernel, " has no parameter '", name, "'"));
      }
      config.values[found - parameters.begin()] = value;
    }
  }
  return configs;
}

}  // namespace vicinal::bench
