// SPDX-License-Identifier: Apache-2.0
// The graph and machine properties from which a kernel predicts its time (Kernel::PredictSeconds).
#ifndef VICINAL_ENGINE_KERNELS_WORK_SHAPE_H_
#define VICINAL_ENGINE_KERNELS_WORK_SHAPE_H_

#include <cstdint>
#include <functional>

namespace vicinal {

// Shares of gathers that find their row in the second-level cache, and in the last-level cache (including those in the
// second).
struct CacheShares {
  double l2 = 0.0;
  double llc = 0.0;
};

// Sizes of the adjacency, which may be a sample of the graph's rows.
struct WorkShape {
  int64_t rows = 0;               // R
  int64_t cols = 0;               // S
  int64_t edges = 0;              // E
  int num_threads = 1;            // of a CPU; GPU kernels ignore it
  double degree_deviation = 0.0;  // standard deviation of the in-degrees of the graph
  double lane_floats = 0.0;       // measured limit of Kernel::LaneFloats; 0: not measured
  // Reuse of gathered rows of that many bytes, from the graph's profile. Empty: assume random edges.
  std::function<CacheShares(int64_t row_bytes)> reuse;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_WORK_SHAPE_H_
