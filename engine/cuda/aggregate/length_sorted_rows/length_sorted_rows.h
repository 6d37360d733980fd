// SPDX-License-Identifier: Apache-2.0
// The launcher of length_sorted_rows (length_sorted_rows.cuh has the idea) and its work list, free of device code.
//
// Order of evaluation: a row of n edges is cut into ceil(n / part) parts, as equally long as can be; kStretchEdges
// edges of a part are added one after the other, then the stretches, then four parts at a time, then those. It follows
// from the row and `part` alone, so a row has equal bits in every graph and every subset of rows.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_LENGTH_SORTED_ROWS_LENGTH_SORTED_ROWS_H_
#define VICINAL_ENGINE_CUDA_AGGREGATE_LENGTH_SORTED_ROWS_LENGTH_SORTED_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/aggregate/rows/row_work.h"
#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

inline constexpr int kStretchEdges = 64;
inline constexpr int64_t kMinPart = 64, kMaxPart = int64_t{1} << 20;

struct LengthSortedConfig {
  int tile = 0;  // columns that a group of lanes takes: 16, 32 or 64, of 16 bits 32 or 64; 0: 32, or 64 of 16 bits
  int64_t part = 256;  // most edges of a part
  int64_t window = 0;  // rows that are put in order of length together; 0: all
  // Factors of sources of float32 are multiplied with them beforehand, in a copy in scratch, where no own rows are
  // added. Products are rounded before they are added, so bits differ.
  bool scale_first = false;
};

// Parts of a row of `count` edges, and where part number `index` of them begins.
__host__ __device__ inline int64_t PartsOf(int64_t count, int64_t part) {
  return count <= part ? 1 : (count + part - 1) / part;
}
__host__ __device__ inline int64_t PartBegin(int64_t count, int64_t parts, int64_t index) {
  return count * index / parts;
}

// Rows and parts of rows, window by window: those of as many parts one after the other, first all first parts, then all
// second ones, so that neighbours begin at like places of the list of sources and are of like length. All are what
// RowWork::num_short counts.
RowWork MakeLengthSortedWork(const CsrView& adjacency, const LengthSortedConfig& config, ThreadPool& pool);

// Upper bound of the bytes of such a list, whatever the configuration.
int64_t LengthSortedBytesBound(int64_t rows, int64_t edges);

size_t LengthSortedScratchBytes(const AggregateProblem& problem, const LengthSortedConfig& config);

// Whether `config` has that effect, but for own rows.
bool ScalesFirst(const AggregateProblem& problem, const LengthSortedConfig& config);

// Without `work` a warp has a few rows, and all of it each long one: for adjacencies that are there for one run only.
// scratch: LengthSortedScratchBytes(args.problem, config), where there is `work` or it scales first.
cudaError_t LaunchLengthSortedRows(const AggregateArgs& args, const RowWorkLayout* work,
                                   const LengthSortedConfig& config, const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_LENGTH_SORTED_ROWS_LENGTH_SORTED_ROWS_H_
