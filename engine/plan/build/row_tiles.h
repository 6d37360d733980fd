// SPDX-License-Identifier: Apache-2.0
// Tiles of rows: steps in a row whose intermediate values need not exist for all rows at once. Such steps run block by
// block of rows, each over one block before the next begins, and what is only read within the group is stored for one
// block. Every row is computed by the same operations in the same order, so its bits are the same. A value that is
// gathered along edges is needed whole, so a group ends where one of its values is gathered
// (docs/adr/0059-layer-wise-execution-in-tiles.md).
#ifndef VICINAL_ENGINE_PLAN_BUILD_ROW_TILES_H_
#define VICINAL_ENGINE_PLAN_BUILD_ROW_TILES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/plan/rewrite/program.h"

namespace vicinal::internal {

// Nodes [first, last] of a program, and the roots of the values that are stored for one block.
struct TiledNodes {
  int first = 0;
  int last = 0;
  std::vector<ValueId> stored;
};

// Rows of a block of a graph of `nodes` nodes: a sixteenth, as a multiple of 64, at most 16,384.
int64_t TileRows(int64_t nodes);

// The groups of `program`, in order; each stores at least one value by blocks. `can_cut` tells of a node by its index
// whether its launch can run on some of its rows.
std::vector<TiledNodes> FindTiledNodes(const Program& program, const std::function<bool(int node)>& can_cut);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_ROW_TILES_H_
