// SPDX-License-Identifier: Apache-2.0
// Edges by partition of their sources in device memory, and the launcher, free of device code. The idea is in
// staged_rows.cu.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_STAGED_ROWS_STAGED_ROWS_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_STAGED_ROWS_STAGED_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// 32 columns of a partition's sources take 192 of the 227 KiB of shared memory that a block of a Hopper GPU may have,
// 16 columns 96 of 99 KiB, 8 columns 48 KiB.
inline constexpr int kStagedSources = 1536;
// Each partition after the first reads and writes all sums once more.
inline constexpr int64_t kMaxPartitions = 32;
// Runs of rows with about equal work. A block takes one, two or four of them.
inline constexpr int kRowRuns = 132;

// Arrays are in device memory.
struct StagedEdges {
  int64_t partitions = 0;
  const int32_t* source = nullptr;   // [partitions, kStagedSources], ascending; -1: no source
  const int32_t* row_ptr = nullptr;  // [partitions, rows + 1]: into local and value
  const int32_t* border = nullptr;   // [partitions, kRowRuns + 1]: rows
  const uint16_t* local = nullptr;   // index of an edge's source in its partition
  const float* value = nullptr;      // weights; null: none
  const int64_t* rest_row_ptr = nullptr;
  const int32_t* rest_col = nullptr;
  const float* rest_value = nullptr;
  int64_t rest_edges = 0;
};

// sums [R, stride] = the reduced messages of each row's staged edges, negated for minima; the identity of the reduction
// for rows without staged edges. REQUIRES: `stride` is a multiple of 4 and at least the width.
cudaError_t LaunchStagedRows(const AggregateArgs& args, const StagedEdges& edges, float* sums, int64_t stride,
                             const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_STAGED_ROWS_STAGED_ROWS_H_
