// SPDX-License-Identifier: Apache-2.0
// Edges by partitions of their sources on the device, and the launcher over them (staged_rows.cu has the idea), free of
// device code.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_STAGED_ROWS_STAGED_ROWS_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_STAGED_ROWS_STAGED_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// A partition's sources, 32 columns of them, take 192 KiB of the 227 that a block may have.
inline constexpr int kStagedSources = 1536, kStagedColumns = 32;
// Every further partition reads and writes the sums once more.
inline constexpr int64_t kMaxPartitions = 32;
// Runs of rows, about equal in work, that blocks take one, two or four of.
inline constexpr int kRowRuns = 132;

// On the device.
struct StagedEdges {
  int64_t partitions = 0;
  const int32_t* source = nullptr;   // [partitions, kStagedSources], rising; -1: none
  const int32_t* row_ptr = nullptr;  // [partitions, rows + 1]: into local and value
  const int32_t* border = nullptr;   // [partitions, kRowRuns + 1]: rows
  const uint16_t* local = nullptr;   // number of an edge's source in its partition
  const float* value = nullptr;      // weights, or null
  const int64_t* rest_row_ptr = nullptr;
  const int32_t* rest_col = nullptr;
  const float* rest_value = nullptr;
  int64_t rest_edges = 0;
};

// sums [R, stride] = what the staged edges of each row come to; negated for minima, the reduce's neutral element where
// there are none. `stride` is a multiple of 4 and at least the width.
cudaError_t LaunchStagedRows(const AggregateArgs& args, const StagedEdges& edges, float* sums, int64_t stride,
                             const LaunchTarget& target);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_STAGED_ROWS_STAGED_ROWS_H_
