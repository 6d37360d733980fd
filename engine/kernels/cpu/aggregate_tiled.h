// SPDX-License-Identifier: Apache-2.0
// Shared by the parts of the aggregation "tiled_rows".
#ifndef VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_TILED_H_
#define VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_TILED_H_

#include <cstdint>
#include <cstring>

#include "engine/kernels/cpu/gather_job.h"

namespace vicinal::internal {

// One tile of columns and one partition of the sources, [part_begin, part_end).
struct TiledJob {
  GatherJob gather;  // its views contain only the columns of the tile
  int64_t part_begin = 0;
  int64_t part_end = 0;
  float* packed = nullptr;  // [part_end - part_begin, tile], the tile of each source of the partition, zeros beyond it
};

// The state of a panel's rows between partitions, indexed by row minus the panel's first row.
struct PanelState {
  int64_t* cursor;  // the next edge
  float* sums;      // [3, tile]: the even chain, the odd chain, and the total of the blocks before
};

// The tile of one source row.
inline void CopyTile(const GatherJob& gather, int64_t source, float* to) {
  std::memcpy(to, gather.src.row(source), static_cast<size_t>(gather.dst.cols) * sizeof(float));
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_TILED_H_
