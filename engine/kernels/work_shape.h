// SPDX-License-Identifier: Apache-2.0
// What a kernel may know of a graph and machine when it predicts its time (Kernel::PredictSeconds).
#ifndef VICINAL_ENGINE_KERNELS_WORK_SHAPE_H_
#define VICINAL_ENGINE_KERNELS_WORK_SHAPE_H_

#include <cstdint>
#include <functional>

namespace vicinal {

// Shares of gathers that find their row in the second-level cache, and in the last-level cache (that includes those in
// the second).
struct CacheShares {
  double l2 = 0.0;
  double llc = 0.0;
};

// Sizes are those of the adjacency, which may be a sample of the graph's rows.
struct WorkShape {
  int64_t rows = 0;     // R
  int64_t cols = 0;     // S
  int64_t edges = 0;    // E
  int num_threads = 1;  // of a CPU; a GPU's kernels do not ask
  // Reuse of gathered rows of that many bytes, from the graph's profile. Empty: as of edges drawn at random.
  std::function<CacheShares(int64_t row_bytes)> reuse;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_WORK_SHAPE_H_
