// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the aggregation "simd_rows": the meaning of its configuration, and the storages that are
// compiled separately.
#ifndef VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_SIMD_H_
#define VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_SIMD_H_

#include <vector>

#include "engine/base/thread_pool.h"
#include "engine/kernels/cpu/gather_job.h"
#include "engine/kernels/operations.h"

namespace vicinal::internal {

// Indices into KernelConfig::values.
enum AggregateParameter {
  kPrefetchEdges = 0,  // edges whose rows are prefetched ahead; 0: by the size of src, negative: none
  kTileColumns = 1,    // columns per pass over the edges; 0: as many as registers hold
  kPanelRows = 2,      // rows that get all passes before the next rows; 0: 32, negative: each pass covers all rows
  kStreamStores = 3,   // 1: non-temporal stores where dst allows them; 0: by the size of dst, negative: never
  kFewEdges = 4,       // 1: branch-free code for rows of a few edges; 0: by the adjacency, negative: no
};

// The job of all rows and columns, with the prefetching and stores of the configuration, or by default for values of
// 0.
GatherJob MakeAggregateJob(const AggregateArgs& args, const ThreadPool* pool);

// The default, the alternatives of each parameter that matters for the problem, and useful combinations.
std::vector<KernelConfig> AggregateCandidates(const AggregateProblem& problem);
// The parameters that the cost model distinguishes; the others stay with their defaults.
std::vector<std::vector<int32_t>> AggregateSearchSpace(const AggregateProblem& problem);

void AggregateBfloat16(const AggregateArgs& args, ThreadPool* pool);
void AggregateFloat16(const AggregateArgs& args, ThreadPool* pool);

// Rows [begin, end) of a float32 job with columns, for kernels that prepare the gathered rows themselves.
void RunGatherJob(const GatherJob& job, Reduce reduce, int64_t begin, int64_t end);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_SIMD_H_
