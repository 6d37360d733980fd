// SPDX-License-Identifier: Apache-2.0
// How the aggregation "tiled_rows" cuts a problem into tiles of columns, parts of the sources and panels of rows
// (aggregate_tiled_simd.cc).
#ifndef VICINAL_ENGINE_KERNELS_CPU_TILING_H_
#define VICINAL_ENGINE_KERNELS_CPU_TILING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/kernels/operations.h"

namespace vicinal::internal {

// Up to this size, the tile of all sources is one part: the excess over the second level comes from the last level, but
// rows keep nothing between parts. Larger tiles are cut into parts that fit the second level.
inline constexpr int64_t kOneTileBytes = int64_t{4} << 20;
inline constexpr int64_t kTilePartBytes = int64_t{768} << 10;
// The same if threads share parts, which then lie in the last level.
inline constexpr int64_t kSharedPartBytes = int64_t{8} << 20;
// Rows that keep their sums between parts. The number is large, as each panel packs every part again. It is also the
// number of rows between two checks for a stop.
inline constexpr int64_t kTiledPanelRows = 8192;

inline size_t Aligned(int64_t bytes) { return (static_cast<size_t>(bytes) + 63) / 64 * 64; }

struct Tiling {
  int64_t tile;       // columns, a multiple of 16
  int64_t tiles;      // of them
  int64_t fit_rows;   // maximum sources per part
  int64_t part_rows;  // sources per part
  int64_t parts;
  int64_t groups;  // ranges of rows, so that all threads have work with few tiles
  int64_t panel_rows;
  bool shared;  // all threads work on one part at a time

  Tiling(const AggregateProblem& problem, const KernelConfig& config, int num_threads) {
    shared = config.values[2] != 0;
    const int64_t sources = std::max<int64_t>(problem.cols, 1), columns = (problem.width + 15) / 16 * 16;
    const auto choose = [&](int64_t wanted_tile) {
      tile = std::min<int64_t>(columns, std::max<int64_t>(16, wanted_tile / 16 * 16));
      const int64_t whole = shared ? kSharedPartBytes : kOneTileBytes,
                    part = shared ? kSharedPartBytes : kTilePartBytes;
      const int64_t by_cache = 4 * tile * sources <= whole ? sources : part / (4 * tile);
      const int64_t fit = config.values[0] > 0 ? config.values[0] : std::max<int64_t>(by_cache, 1);
      fit_rows = std::min(sources, fit);
      parts = (sources + fit_rows - 1) / fit_rows;
    };
    choose(config.values[1] > 0 ? config.values[1] : 16);
    // Sums that are kept between parts are tiles of 16 or 32 columns.
    if (parts > 1 && tile > 32) choose(32);
    // Parts of equal size, so that the last one is not a remnant.
    part_rows = (sources + parts - 1) / parts;
    tiles = std::max<int64_t>((problem.width + tile - 1) / tile, 1);
    groups = std::max<int64_t>(1, (int64_t{2} * num_threads + tiles - 1) / tiles);
    if (num_threads == 1) groups = 1;
    const int64_t panel = kTiledPanelRows * (shared ? num_threads : 1);
    panel_rows = parts == 1 ? 0 : std::min<int64_t>(panel, std::max<int64_t>(problem.rows, 1));
  }

  // Never more for fewer rows or sources, as a plan reserves scratch for the whole graph.
  size_t PackedBytes() const { return Aligned(fit_rows * tile * 4); }
  size_t CursorBytes() const { return Aligned(panel_rows * 8); }
  // Of a thread, or with `shared` of all.
  size_t Bytes() const { return PackedBytes() + CursorBytes() + Aligned(panel_rows * 3 * tile * 4); }
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_TILING_H_
