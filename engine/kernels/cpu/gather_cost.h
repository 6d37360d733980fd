// SPDX-License-Identifier: Apache-2.0
// Cost model of a CPU that gathers and adds rows, for the predictions of the CPU's aggregation and attention kernels
// (Kernel::PredictSeconds).
//
// Like GNNAdvisor's model (Wang et al., OSDI'21, section 7.1) it uses E, D, N and the kernel's parameters. On a CPU
// parameters determine which cache has the gathered rows. An edge costs its index, its row from the nearest cache that
// still holds it, and the additions:
//   t = passes * E * (index + sum over caches of share found there * bytes of a row in this pass / its speed)
//     + R * (row of the result), over the threads.
// Speeds are those of one core of the development machine (docs/tuning.md); only their proportions matter.
#ifndef VICINAL_ENGINE_KERNELS_CPU_GATHER_COST_H_
#define VICINAL_ENGINE_KERNELS_CPU_GATHER_COST_H_

#include <cstdint>

#include "engine/kernels/operations.h"
#include "engine/kernels/work_shape.h"

namespace vicinal::internal {

// The reference kernels compute one element at a time and take this many times as long.
inline constexpr double kScalarFactor = 8.0;

struct GatherCost {
  int64_t columns = 0;        // per row
  int64_t element_bytes = 4;  // of gathered rows
  bool weight_per_edge = false;
  int64_t tile_columns = 0;    // columns per pass over the edges; 0: as many as registers hold
  int64_t source_rows = 0;     // sources per copied tile; 0: no copies
  bool shared_copies = false;  // all threads copy and use a tile together
  bool panels = false;         // a few rows get all passes before the next rows
  bool prefetched = true;
  int64_t scored_heads = 0;  // attention: heads with a score and an exponential per edge
};

// Without tiles, panels or copies; kernels set these from their configurations.
GatherCost GatherCostOf(const AggregateProblem& problem);
GatherCost GatherCostOf(const AttentionProblem& problem);

double GatherSeconds(const GatherCost& cost, const WorkShape& shape);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_GATHER_COST_H_
