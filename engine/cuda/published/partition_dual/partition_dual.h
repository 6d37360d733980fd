// SPDX-License-Identifier: Apache-2.0
// The edge blocks of partition_dual in device memory, and its launcher, free of device code. The idea is in
// partition_dual.cu.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_PARTITION_DUAL_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_PARTITION_DUAL_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/common/launch.h"
#include "engine/cuda/common/masked_tiles.h"
#include "engine/cuda/published/groups/neighbor_groups.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// At most kTileRows consecutive rows that have dense blocks: tiles [first_tile, first_tile + tiles).
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
  const uint64_t* masks = nullptr;       // [tiles, kTileRows]: bit c of a row is its edge from tile_column + c
  // As MaskedTiles has them; null: no weights.
  const float* values = nullptr;
  const int64_t* first_value = nullptr;
  const uint16_t* row_offsets = nullptr;
  // The edges outside of masks, as an adjacency, and their groups; without groups they are summed as published.
  const int64_t* rest_row_ptr = nullptr;
  const int32_t* rest_col = nullptr;
  const float* rest_value = nullptr;
  int64_t rest_edges = 0;
  bool grouped = true;
  NeighborGroups rest;
};

size_t PartitionDualScratch(const AggregateProblem& problem, const NeighborGroupConfig& rest);
// REQUIRES: `blocks` has values if args.adjacency has.
cudaError_t LaunchPartitionDual(const AggregateArgs& args, const NeighborGroupConfig& rest, const EdgeBlocks& blocks,
                                const LaunchTarget& target, void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_PARTITION_DUAL_H_
