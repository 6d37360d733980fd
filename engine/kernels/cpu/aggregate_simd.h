// SPDX-License-Identifier: Apache-2.0
// What the files of the aggregation "simd_rows" share: the meaning of its configuration, and the storages that are
// compiled apart.
#ifndef VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_SIMD_H_
#define VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_SIMD_H_

#include <vector>

#include "engine/base/thread_pool.h"
#include "engine/kernels/cpu/gather_job.h"
#include "engine/kernels/operations.h"

namespace vicinal::internal {

// Places in KernelConfig::values.
enum AggregateParameter {
  kPrefetchEdges = 0,  // edges whose rows are prefetched ahead; 0: by the size of src, negative: none
  kTileColumns = 1,    // columns per pass over the edges; 0: as many as registers hold
  kPanelRows = 2,     // all passes over that many rows, then the next rows; 0: 32, negative: a pass over all rows first
  kStreamStores = 3,  // 1: store past the caches where dst can be; 0: by the size of dst, negative: never
  kFewEdges = 4,      // 1: rows of a few edges without branches; 0: by the adjacency, negative: no
};

// The job of all rows and columns, with what the configuration, or the default in its place, says of prefetching and
// stores.
GatherJob MakeAggregateJob(const AggregateArgs& args);

// The default, the other way for each parameter that can matter here, and what goes well together.
std::vector<KernelConfig> AggregateCandidates(const AggregateProblem& problem);

void AggregateBfloat16(const AggregateArgs& args, ThreadPool* pool);
void AggregateFloat16(const AggregateArgs& args, ThreadPool* pool);

// Rows [begin, end) of a float32 job with columns, for kernels that prepare what is gathered.
void RunGatherJob(const GatherJob& job, Reduce reduce, int64_t begin, int64_t end);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_SIMD_H_
