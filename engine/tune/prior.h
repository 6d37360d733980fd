// SPDX-License-Identifier: Apache-2.0
// A guess at how long a kernel takes, from bytes moved: which candidates come first, which are not worth a run, and
// what Explain shows as predicted. The measurement decides; this only saves it time.
//
// As GNNAdvisor's model (Wang et al., OSDI'21, section 7.1, Eq. 2 to 4) it takes E, D, N and the kernel's parameters
// and says which settings deserve a trial. On a CPU what parameters move is where gathered rows are found. The cost of
// an edge is that of its index, of its row from the nearest cache that still holds it, and of the additions:
//   t = passes * E * (index + sum over caches of share found there * bytes of a row in this pass / its speed)
//     + R * (row of the result), over the threads.
// Speeds are those of one core of the development machine (docs/tuning.md); only their proportions matter here.
//
// On a GPU it is the bytes of indices, gathered rows and results over the speeds of L2 and memory of an H200, times
// what a family was measured to take by binned_rows. Within neighbor_group Eq. 2, by which the paper orders its
// settings (gs, dw, tpb), moves that by a quarter at most: it says which come first, not which are hopeless. (Eq. 3 and
// 4, what a setting may ask of a thread and of shared memory, are in the kernel's Candidates.)
#ifndef VICINAL_ENGINE_TUNE_PRIOR_H_
#define VICINAL_ENGINE_TUNE_PRIOR_H_

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/device/device.h"
#include "engine/tune/record.h"

namespace vicinal {

// Shares of gathers that find their row in the second-level cache, and in the last-level cache (that includes those in
// the second).
struct CacheShares {
  double l2 = 0.0;
  double llc = 0.0;
};

// What is predicted for.
struct WorkShape {
  int64_t rows = 0;   // R
  int64_t cols = 0;   // S
  int64_t edges = 0;  // E
  int num_threads = 1;
  DeviceKind device = DeviceKind::kCpu;
  // Reuse of gathered rows of that many bytes, from the graph's profile. Empty: as of edges drawn at random.
  std::function<CacheShares(int64_t row_bytes)> reuse;
};

// `parameters`: of the kernel, by name. Names that the model does not know change nothing.
double PredictSeconds(const TuningKey& key, const WorkShape& shape, std::string_view kernel,
                      const std::vector<NamedParameter>& parameters);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_PRIOR_H_
