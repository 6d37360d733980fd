// SPDX-License-Identifier: Apache-2.0
// The schedule of "edge_tiles" (expression_simd.cc): which edges stand in a tile, and how many pass through the
// instructions together. No setting changes bits, as messages are reduced in pieces of kExpressionTile all the same.
#ifndef VICINAL_ENGINE_KERNELS_CPU_EXPRESSION_TILES_H_
#define VICINAL_ENGINE_KERNELS_CPU_EXPRESSION_TILES_H_

#include <algorithm>
#include <cstdint>

#include "engine/kernels/expression.h"

namespace vicinal::internal {

inline constexpr int64_t kMostTileEdges = 4 * kExpressionTile;
inline constexpr int64_t kFewestPassEdges = 4;
// Columns of a source that are prefetched, by default.
inline constexpr int64_t kPrefetchedColumns = 256;

struct TileSizes {
  int64_t edges = kExpressionTile;  // of a tile: a multiple of kExpressionTile, so that a piece of a row is never cut
  int64_t pass = kExpressionTile;   // edges that an instruction is carried out for before the next; at most `edges`
  int64_t prefetched = kPrefetchedColumns;  // of each source

  TileSizes() = default;
  // The parameters edge_tile and prefetch_columns.
  explicit TileSizes(const KernelConfig& config) {
    if (config.values[0] > 0) {
      const int64_t wanted = config.values[0];
      edges = std::clamp(wanted / kExpressionTile * kExpressionTile, kExpressionTile, kMostTileEdges);
      pass = std::clamp(wanted, kFewestPassEdges, edges);
    }
    if (config.values[1] != 0) prefetched = std::max(config.values[1], 0);
  }
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_EXPRESSION_TILES_H_
