// SPDX-License-Identifier: Apache-2.0
// Selects the kernels and configurations of a benchmark. The default is all that a kernel offers to the tuner. Named
// configurations run even if no tuner would choose them, which shows the effect of a single technique.
#ifndef VICINAL_BENCH_CUDA_CONFIGURATIONS_H_
#define VICINAL_BENCH_CUDA_CONFIGURATIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/kernels/operations.h"

namespace vicinal::bench {

// "row_cache:cf=2", parsed. Parameters that are not named keep the kernel's defaults.
struct NamedConfiguration {
  std::string kernel;
  std::vector<std::pair<std::string, int32_t>> values;
};

// Errors: INVALID_ARGUMENT, which names the word.
StatusOr<std::vector<NamedConfiguration>> ParseConfigurations(const std::vector<std::string>& words);

struct Choice {
  std::vector<std::string> kernels;  // names, or prefixes that end in '*'; empty: all
  std::vector<NamedConfiguration> configurations;

  bool Wants(const std::string& kernel) const;
  // The configurations named for `kernel`, whose parameters are given; empty if none are named, and then those that it
  // offers are used. INVALID_ARGUMENT for a parameter that it does not have.
  StatusOr<std::vector<KernelConfig>> Forced(const std::string& kernel,
                                             const std::vector<std::string_view>& parameters) const;
};

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_CONFIGURATIONS_H_
