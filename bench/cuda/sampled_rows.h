// SPDX-License-Identifier: Apache-2.0
// Expected results of a few rows, including the one with most in-edges. Computed on the host in double precision from
// the operation's definition. A kernel with other results does not count.
#ifndef VICINAL_BENCH_CUDA_SAMPLED_ROWS_H_
#define VICINAL_BENCH_CUDA_SAMPLED_ROWS_H_

#include <cstdint>
#include <vector>

#include "bench/cuda/device_graph.h"
#include "bench/cuda/gpu.h"
#include "bench/cuda/operations.h"

namespace vicinal::bench {

class SampledRows {
 public:
  SampledRows(const DeviceGraph& graph, const Operation& operation, int64_t width);

  // Largest relative L2 error of a sampled row of `result`, infinite if a value is NaN. `storage` is that of the
  // result.
  double WorstError(Gpu& gpu, const void* result, Storage storage) const;

 private:
  struct Sample {
    int64_t begin = 0;  // of the result's elements
    std::vector<double> want;
  };
  int64_t width_;
  std::vector<Sample> samples_;
};

// Maximum rounding errors: float32 throughout; weights and result in 16 bits.
inline constexpr double kFloat32Tolerance = 1e-5, kSixteenBitTolerance = 2e-2;

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_SAMPLED_ROWS_H_
