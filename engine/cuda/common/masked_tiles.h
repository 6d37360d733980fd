// SPDX-License-Identifier: Apache-2.0
// The dense parts of an adjacency as bitmasks for matrix products, the rest as rows: what dense_tiles and
// partition_dual have in common. Built on the host, in parallel; the result does not depend on the number of threads.
#ifndef VICINAL_ENGINE_CUDA_COMMON_MASKED_TILES_H_
#define VICINAL_ENGINE_CUDA_COMMON_MASKED_TILES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/thread_pool.h"
#include "engine/device/views.h"

namespace vicinal::cuda {

// A tile has at most so many rows (targets) and columns (sources).
inline constexpr int kTileRows = 128, kTileCols = 64;

// How rows and columns are cut, and which tiles are dense. Borders ascend from 0 to the number of rows or columns.
struct TileRule {
  std::vector<int64_t> strips;   // borders of at most kTileRows rows each
  std::vector<int64_t> columns;  // borders of at most kTileCols columns each
  // A tile is dense if it has at least so many edges.
  int64_t min_edges = 1;
  // Whether copies of an edge count as edges.
  bool copies_count = false;
  // Borders of larger blocks, which are borders of strips or columns, too. If there are any, whole blocks are dense or
  // not: those with at least min_edges edges per tile in the mean. Empty: each tile decides for itself.
  std::vector<int64_t> row_blocks, column_blocks;
};

// Tiles of a strip are adjacent, in ascending order of columns. A mask holds an edge once; further copies are in the
// rest, as are edges whose weight is not exact in three bfloat16 terms (ExactInTerms).
struct MaskedTiles {
  std::vector<int64_t> first_tile;   // [strips + 1]
  std::vector<int32_t> tile_column;  // [tiles] first column
  std::vector<uint64_t> masks;       // [tiles, kTileRows]; bit c: an edge from tile_column + c
  // Weights of the masks' edges, in the order of tiles, rows and columns; empty if the adjacency has none.
  std::vector<float> values;
  std::vector<int64_t> first_value;   // [tiles] of the tile
  std::vector<uint16_t> row_offsets;  // [tiles, kTileRows] of the row, after first_value
  // The other edges, as an adjacency.
  std::vector<int64_t> rest_row_ptr;
  std::vector<int32_t> rest_col;
  std::vector<float> rest_value;
};

// REQUIRES: columns ascend within a row.
MaskedTiles FindMaskedTiles(const CsrView& adjacency, const TileRule& rule, ThreadPool& pool);

// Borders of equal steps, from 0 to `count`.
std::vector<int64_t> EvenBorders(int64_t count, int64_t step);
// Each of the parts between `borders`, cut into equal pieces of at most `most`.
std::vector<int64_t> CutEach(std::span<const int64_t> borders, int64_t most);

// Whether x is finite and the sum of three bfloat16 numbers that are cut off, not rounded: all but some of the smallest
// numbers of float32 are.
bool ExactInTerms(float x);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMMON_MASKED_TILES_H_
