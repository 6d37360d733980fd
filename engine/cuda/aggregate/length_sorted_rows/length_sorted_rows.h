// SPDX-License-Identifier: Apache-2.0
// The launcher of length_sorted_rows and its work list, free of device code. The idea is in
// detail/length_sorted_rows.cuh.
//
// Order of evaluation: a row of n edges is cut into ceil(n / part) parts of nearly equal length. Within a part,
// stretches of kStretchEdges edges are added edge by edge, then the stretches are added. Then parts are added four at a
// time, then these sums. The order depends only on the row and `part`, so a row has the same bits in every graph and
// every subset of rows.
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
  int tile = 0;        // columns per group of lanes: 16, 32 or 64 (16 bits: 32 or 64); 0: 32 (16 bits: 64)
  int64_t part = 256;  // maximum edges of a part
  int64_t window = 0;  // rows that are sorted by length together; 0: all rows
  // Multiplies float32 sources by their factors first, in a copy in scratch, unless there is a self term. Products are
  // rounded before they are added, so the bits differ.
  bool scale_first = false;
};

// The number of parts of a row of `count` edges, and the first edge of part `index`.
__host__ __device__ inline int64_t PartsOf(int64_t count, int64_t part) {
  return count <= part ? 1 : (count + part - 1) / part;
}
__host__ __device__ inline int64_t PartBegin(int64_t count, int64_t parts, int64_t index) {
  return count * index / parts;
}

// Rows and parts of rows, window by window. Rows with the same number of parts are adjacent: first all their first
// parts, then all second parts, and so on, so that adjacent items have similar lengths and nearby edges. All items are
// counted in RowWork::num_short.
RowWork MakeLengthSortedWork(const CsrView& adjacency, const LengthSortedConfig& config, ThreadPool& pool);

// Upper bound of the bytes of such a list for any configuration.
int64_t LengthSortedBytesBound(int64_t rows, int64_t edges);

size_t LengthSortedScratchBytes(const AggregateProblem& problem, const LengthSortedConfig& config);

// True if sources are scaled first (a self term, which rules it out, is not considered).
bool ScalesFirst(const AggregateProblem& problem, const LengthSortedConfig& config);

// Without `work`, a warp has a few adjacent rows, and sums each long one with all lanes: for adjacencies that exist for
// one run only.
// scratch: LengthSortedScratchBytes(args.problem, config) bytes if there is `work` or the launch scales first.
cudaError_t LaunchLengthSortedRows(const AggregateArgs& args, const RowWorkLayout* work,
                                   const LengthSortedConfig& config, const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_LENGTH_SORTED_ROWS_LENGTH_SORTED_ROWS_H_
