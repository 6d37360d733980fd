// SPDX-License-Identifier: Apache-2.0
// What the parts of the aggregation "tiled_rows" share.
#ifndef VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_TILED_H_
#define VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_TILED_H_

#include <cstdint>
#include <cstring>

#include "engine/kernels/cpu/gather_job.h"

namespace vicinal::internal {

// One tile of columns and one partition of the sources, [part_begin, part_end).
struct TiledJob {
  GatherJob gather;  // its views hold the columns of the tile only
  int64_t part_begin = 0;
  int64_t part_end = 0;
  float* packed = nullptr;  // [part_end - part_begin, tile], the tile of each source of the partition, zeros beyond it
};

// What the rows of a panel keep between partitions, by row less the panel's first.
struct PanelState {
  int64_t* cursor;  // the edge to go on with
  float* sums;      // [3, tile]: the even chain, the odd chain, and the total of the blocks before
};

// The tile of one source row.
inline void CopyTile(const GatherJob& gather, int64_t source, float* to) {
  std::memcpy(to, gather.src.row(source), static_cast<size_t>(gather.dst.cols) * sizeof(float));
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_TILED_H_
