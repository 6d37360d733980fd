// SPDX-License-Identifier: Apache-2.0
// The flat form of edge blocks, and what is checked of it. Two passes over masks, one over strips and remaining edges.
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
    for (int64_t row = 0; row < kTileRows; ++row) {
      const uint64_t mask = blocks.masks[tile * kTileRows + row];
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
  if (static_cast<int64_t>(blocks.masks.size()) != tiles * kTileRows) return "tiles and masks are not as many";
  std::vector<bool> tile_done(static_cast<size_t>(tiles), false), row_done(static_cast<size_t>(adjacency.rows), false);
  int64_t done = 0;
  for (const RowStrip& strip : blocks.strips) {
    if (strip.row < 0 || strip.rows < 1 || strip.rows > kTileRows || strip.row > adjacency.rows - strip.rows) {
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

// The first thing wrong with the weights; empty: nothing. The masks have `in_masks` edges.
std::string WeightsProblem(const HostEdgeBlocks& blocks, bool weighted, int64_t in_masks) {
  const size_t tiles = blocks.tile_column.size();
  if (!weighted) {
    const bool none =
        blocks.values.empty() && blocks.first_value.empty() && blocks.row_offsets.empty() && blocks.rest_value.empty();
    return none ? "" : "it has weights, and the adjacency has none";
  }
  if (static_cast<int64_t>(blocks.values.size()) != in_masks || blocks.rest_value.size() != blocks.rest_col.size()) {
    return "weights and edges are not as many";
  }
  if (blocks.first_value.size() != tiles || blocks.row_offsets.size() != blocks.masks.size()) {
    return "the places of weights are not as many as the masks";
  }
  for (size_t i = 0; i < blocks.masks.size(); ++i) {
    const int64_t first = blocks.first_value[i / kTileRows], from = first + blocks.row_offsets[i];
    if (first < 0 || first > in_masks || from > in_masks - std::popcount(blocks.masks[i])) {
      return "a row's weights are outside of the weights";
    }
  }
  return {};
}

}  // namespace

FlatLayout EdgeBlocksLayout::Flatten() const {
  FlatLayout flat;
  flat.arrays = {{"strips", strips_.data(), BytesIn(strips_)},
                 {"tile_column", tile_column_.data(), BytesIn(tile_column_)},
                 {"masks", masks_.data(), BytesIn(masks_)},
                 {"values", values_.data(), BytesIn(values_)},
                 {"first_value", first_value_.data(), BytesIn(first_value_)},
                 {"row_offsets", row_offsets_.data(), BytesIn(row_offsets_)},
                 {"rest_row_ptr", rest_row_ptr_.data(), BytesIn(rest_row_ptr_)},
                 {"rest_col", rest_col_.data(), BytesIn(rest_col_)},
                 {"rest_value", rest_value_.data(), BytesIn(rest_value_)}};
  return flat;
}

StatusOr<HostEdgeBlocks> ReadEdgeBlocks(const LayoutInput& input, const CsrView& adjacency, int64_t min_edges) {
  const int64_t most_tiles = adjacency.nnz / min_edges;
  HostEdgeBlocks blocks;
  VICINAL_RETURN_IF_ERROR(input.Fill("strips", adjacency.rows, &blocks.strips));
  VICINAL_RETURN_IF_ERROR(input.Fill("tile_column", most_tiles, &blocks.tile_column));
  VICINAL_RETURN_IF_ERROR(input.Fill("masks", most_tiles * kTileRows, &blocks.masks));
  VICINAL_RETURN_IF_ERROR(input.Fill("values", adjacency.nnz, &blocks.values));
  VICINAL_RETURN_IF_ERROR(input.Fill("first_value", most_tiles, &blocks.first_value));
  VICINAL_RETURN_IF_ERROR(input.Fill("row_offsets", most_tiles * kTileRows, &blocks.row_offsets));
  VICINAL_RETURN_IF_ERROR(input.Fill("rest_row_ptr", adjacency.rows + 1, &blocks.rest_row_ptr));
  VICINAL_RETURN_IF_ERROR(input.Fill("rest_col", adjacency.nnz, &blocks.rest_col));
  VICINAL_RETURN_IF_ERROR(input.Fill("rest_value", adjacency.nnz, &blocks.rest_value));
  auto edges = static_cast<int64_t>(blocks.rest_col.size());
  std::string problem = RowsProblem(blocks.rest_row_ptr, blocks.rest_col, adjacency.rows, adjacency.cols);
  if (problem.empty()) problem = StripsProblem(blocks, adjacency, &edges);
  if (problem.empty() && edges != adjacency.nnz) problem = "its edges are not as many as the adjacency's";
  const int64_t in_masks = edges - static_cast<int64_t>(blocks.rest_col.size());
  if (problem.empty()) problem = WeightsProblem(blocks, adjacency.value != nullptr, in_masks);
  if (!problem.empty()) return input.Bad(problem);
  return blocks;
}

}  // namespace vicinal::cuda
