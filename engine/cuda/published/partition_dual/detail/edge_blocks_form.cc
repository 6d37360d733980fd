// SPDX-License-Identifier: Apache-2.0
// The flat form of edge blocks, and what is checked of it. One pass over strips, masks and remaining edges.
#include <bit>
#include <string>
#include <vector>

#include "engine/cuda/published/partition_dual/detail/edge_blocks.h"
#include "engine/cuda/runtime/check_rows.h"

namespace vicinal::cuda {
namespace {

int64_t BytesIn(const Buffer& buffer) { return static_cast<int64_t>(buffer.bytes()); }

// The first thing wrong with the masks of a strip; empty: nothing. Adds its edges to `edges`.
std::string MaskProblem(const HostEdgeBlocks& blocks, const RowStrip& strip, int64_t cols, int64_t* edges) {
  for (int64_t tile = strip.first_tile; tile < strip.first_tile + strip.tiles; ++tile) {
    const int64_t column = blocks.tile_column[tile];
    if (column < 0 || column >= cols) return "a tile begins outside of the columns";
    for (int64_t row = 0; row < kStripRows; ++row) {
      const uint64_t mask = blocks.masks[tile * kStripRows + row];
      if (mask == 0) continue;
      if (row >= strip.rows) return "a mask has edges below its strip";
      if (column + std::bit_width(mask) > cols) return "a mask has edges outside of the columns";
      *edges += std::popcount(mask);
    }
  }
  return {};
}

std::string StripsProblem(const HostEdgeBlocks& blocks, const CsrView& adjacency, int64_t* edges) {
  const auto tiles = static_cast<int64_t>(blocks.tile_column.size());
  if (static_cast<int64_t>(blocks.masks.size()) != tiles * kStripRows) return "tiles and masks are not as many";
  std::vector<bool> tile_done(static_cast<size_t>(tiles), false), row_done(static_cast<size_t>(adjacency.rows), false);
  int64_t done = 0;
  for (const RowStrip& strip : blocks.strips) {
    if (strip.row < 0 || strip.rows < 1 || strip.rows > kStripRows || strip.row > adjacency.rows - strip.rows) {
      return "a strip is outside of the rows";
    }
    if (strip.tiles < 1 || strip.first_tile < 0 || strip.first_tile > tiles - strip.tiles) {
      return "a strip is outside of the tiles";
    }
    for (int64_t row = strip.row; row < strip.row + strip.rows; ++row) {
      if (row_done[row]) return "two strips overlap";
      row_done[row] = true;
    }
    for (int64_t tile = strip.first_tile; tile < strip.first_tile + strip.tiles; ++tile) {
      if (tile_done[tile]) return "two strips share a tile";
      tile_done[tile] = true;
    }
    done += strip.tiles;
    if (std::string problem = MaskProblem(blocks, strip, adjacency.cols, edges); !problem.empty()) return problem;
  }
  return done == tiles ? "" : "a tile is in no strip";
}

}  // namespace

FlatLayout EdgeBlocksLayout::Flatten() const {
  FlatLayout flat;
  flat.arrays = {{"strips", strips_.data(), BytesIn(strips_)},
                 {"tile_column", tile_column_.data(), BytesIn(tile_column_)},
                 {"masks", masks_.data(), BytesIn(masks_)},
                 {"rest_row_ptr", rest_row_ptr_.data(), BytesIn(rest_row_ptr_)},
                 {"rest_col", rest_col_.data(), BytesIn(rest_col_)}};
  return flat;
}

StatusOr<HostEdgeBlocks> ReadEdgeBlocks(const LayoutInput& input, const CsrView& adjacency, int64_t min_edges) {
  const int64_t most_tiles = adjacency.nnz / min_edges;
  HostEdgeBlocks blocks;
  VICINAL_RETURN_IF_ERROR(input.Fill("strips", adjacency.rows, &blocks.strips));
  VICINAL_RETURN_IF_ERROR(input.Fill("tile_column", most_tiles, &blocks.tile_column));
  VICINAL_RETURN_IF_ERROR(input.Fill("masks", most_tiles * kStripRows, &blocks.masks));
  VICINAL_RETURN_IF_ERROR(input.Fill("rest_row_ptr", adjacency.rows + 1, &blocks.rest_row_ptr));
  VICINAL_RETURN_IF_ERROR(input.Fill("rest_col", adjacency.nnz, &blocks.rest_col));
  auto edges = static_cast<int64_t>(blocks.rest_col.size());
  std::string problem = RowsProblem(blocks.rest_row_ptr, blocks.rest_col, adjacency.rows, adjacency.cols);
  if (problem.empty()) problem = StripsProblem(blocks, adjacency, &edges);
  if (problem.empty() && edges != adjacency.nnz) problem = "its edges are not as many as the adjacency's";
  if (!problem.empty()) return input.Bad(problem);
  return blocks;
}

}  // namespace vicinal::cuda
