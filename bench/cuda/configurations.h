// SPDX-License-Identifier: Apache-2.0
// Which kernels a benchmark runs, and in which configurations: by default all that a kernel offers to the tuner; named
// ones also where nobody would choose them, to tell what a single technique is worth.
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

// "row_cache:cf=2", parsed; parameters that are not named are the kernel's own.
struct NamedConfiguration {
  std::string kernel;
  std::vector<std::pair<std::string, int32_t>> values;
};

// INVALID_ARGUMENT, naming the word.
StatusOr<std::vector<NamedConfiguration>> ParseConfigurations(const std::vector<std::string>& words);

struct Choice {
  std::vector<std::string> kernels;  // names, or beginnings of names that end in '*'; empty: all
  std::vector<NamedConfiguration> configurations;

  bool Wants(const std::string& kernel) const;
  // The configurations that are named for a kernel with these parameters; none: those it offers. INVALID_ARGUMENT for
  // a parameter that it does not have.
  StatusOr<std::vector<KernelConfig>> Forced(const std::string& kernel,
                                             const std::vector<std::string_view>& parameters) const;
};

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_CONFIGURATIONS_H_
