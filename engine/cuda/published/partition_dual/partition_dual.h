// SPDX-License-Identifier: Apache-2.0
// The edge blocks of partition_dual in device memory, and its launcher, free of device code. The idea is in
// partition_dual.cu.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_PARTITION_DUAL_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_PARTITION_DUAL_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/cuda/published/groups/neighbor_groups.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// A dense block is a bitmask of kStripRows rows and kTileColumns columns.
inline constexpr int kStripRows = 128, kTileColumns = 64;

// At most kStripRows consecutive rows that have dense blocks: tiles [first_tile, first_tile + tiles).
struct RowStrip {
  int64_t first_tile = 0;
  int32_t row = 0;
  int32_t rows = 0;
  int32_t tiles = 0;
};

// Arrays are in device memory.
struct EdgeBlocks {
  const RowStrip* strips = nullptr;  // in descending order of tiles
  int64_t num_strips = 0;
  const int32_t* tile_column = nullptr;  // first column of each tile
  const uint64_t* masks = nullptr;       // [tiles, kStripRows]: bit c of a row is its edge from tile_column + c
  // The edges outside of masks, as an adjacency, and their groups.
  const int64_t* rest_row_ptr = nullptr;
  const int32_t* rest_col = nullptr;
  int64_t rest_edges = 0;
  NeighborGroups rest;
};

size_t PartitionDualScratch(const AggregateProblem& problem, const NeighborGroupConfig& rest);
// REQUIRES: args.adjacency has no values.
cudaError_t LaunchPartitionDual(const AggregateArgs& args, const NeighborGroupConfig& rest, const EdgeBlocks& blocks,
                                const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_PARTITION_DUAL_H_
