// SPDX-License-Identifier: Apache-2.0
// Launches that run block by block of rows (build/row_tiles.h): before each run of a launch its views, as bound to the
// full graph or to a receptive field, are cut to the block.
#ifndef VICINAL_ENGINE_PLAN_RUN_TILED_RUN_H_
#define VICINAL_ENGINE_PLAN_RUN_TILED_RUN_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/plan/run/launch.h"

namespace vicinal::internal {

// Bytes of values that are stored for one block.
struct StoredRange {
  const char* begin = nullptr;
  const char* end = nullptr;
};

// A group of launches [first, last]. The pointers are into the plan's arena, in host memory.
struct LaunchTiles {
  int first = 0;
  int last = 0;
  int64_t rows = 0;  // of a block
  std::vector<StoredRange> stored;
  int64_t* row_ptr = nullptr;  // [rows + 1], of the block's part of an adjacency
  int32_t* nodes = nullptr;    // [rows], of its rows; null: no launch reads features of edges

  static size_t RowPtrBytes(int64_t rows) { return static_cast<size_t>(rows + 1) * sizeof(int64_t); }
  static size_t NodesBytes(int64_t rows) { return static_cast<size_t>(rows) * sizeof(int32_t); }
};

// The rows that a launch computes as it is bound.
int64_t RowsOf(const Launch& launch);

// Binds `launch` to its rows [first, first + count) of those that it computes. REQUIRES: they are at most tiles.rows;
// the launch belongs to `tiles`.
void CutToBlock(const LaunchTiles& tiles, int64_t first, int64_t count, Launch* launch);

// Runs the group over all blocks; `run(launch)` runs one launch as it is bound then. Afterwards the launches are bound
// as before. Allocates nothing. Stops at the first error of `run`.
template <class Run>
Status RunTiles(const LaunchTiles& tiles, const std::vector<std::unique_ptr<Launch>>& launches, const Run& run) {
  int64_t most = 0;
  for (int i = tiles.first; i <= tiles.last; ++i) most = std::max(most, RowsOf(*launches[static_cast<size_t>(i)]));
  for (int64_t first = 0; first < most; first += tiles.rows) {
    for (int i = tiles.first; i <= tiles.last; ++i) {
      Launch& launch = *launches[static_cast<size_t>(i)];
      // In a receptive field, values that are gathered later have more rows than others.
      const int64_t count = std::min(tiles.rows, RowsOf(launch) - first);
      if (count <= 0) continue;
      const auto whole = launch.bound;
      CutToBlock(tiles, first, count, &launch);
      Status ran = run(launch);
      launch.bound = whole;
      VICINAL_RETURN_IF_ERROR(ran);
    }
  }
  return OkStatus();
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_RUN_TILED_RUN_H_
