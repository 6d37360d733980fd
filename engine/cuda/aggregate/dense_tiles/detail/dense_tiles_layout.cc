// SPDX-License-Identifier: Apache-2.0
// The dense tiles of an adjacency (common/masked_tiles.h), cut into the work of thread blocks.
#include <algorithm>
#include <utility>

#include "engine/cuda/aggregate/dense_tiles/dense_tiles.h"
#include "engine/cuda/runtime/send.h"

namespace vicinal::cuda {
namespace {

// Minimum tiles per piece: a piece costs storing and adding one more set of sums.
constexpr int64_t kShortestPiece = 32;

// Pieces of equal length within a block of rows, whose tiles are [first_tile[b], first_tile[b + 1]).
void CutPieces(const std::vector<int64_t>& first_tile, HostDenseTiles* result) {
  const int64_t longest = std::max(kShortestPiece, (first_tile.back() + kWantedPieces - 1) / kWantedPieces);
  for (size_t b = 0; b + 1 < first_tile.size(); ++b) {
    result->first_piece.push_back(static_cast<int32_t>(result->pieces.size()));
    const int64_t first = first_tile[b], count = first_tile[b + 1] - first, pieces = (count + longest - 1) / longest;
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t begin = count * p / pieces, end = count * (p + 1) / pieces;
      result->pieces.push_back({static_cast<int32_t>(first + begin), static_cast<int32_t>(end - begin),
                                static_cast<int32_t>(result->pieces.size()), 0});
    }
  }
  result->first_piece.push_back(static_cast<int32_t>(result->pieces.size()));
  std::stable_sort(result->pieces.begin(), result->pieces.end(),
                   [](const TilePiece& a, const TilePiece& b) { return a.count > b.count; });
}

}  // namespace

HostDenseTiles FindDenseTiles(const CsrView& adjacency, int64_t threshold, ThreadPool& pool) {
  CsrView edges = adjacency;
  edges.value = nullptr;
  TileRule rule;
  rule.strips = EvenBorders(adjacency.rows, kTileRows);
  rule.columns = EvenBorders(adjacency.cols, kTileCols);
  rule.min_edges = threshold;
  rule.copies_count = true;
  MaskedTiles tiles = FindMaskedTiles(edges, rule, pool);
  HostDenseTiles result;
  CutPieces(tiles.first_tile, &result);
  result.tile_col = std::move(tiles.tile_column);
  for (int32_t& column : result.tile_col) column /= kTileCols;
  result.masks = std::move(tiles.masks);
  result.row_ptr = std::move(tiles.rest_row_ptr);
  result.col = std::move(tiles.rest_col);
  return result;
}

StatusOr<std::shared_ptr<const DenseTilesLayout>> DenseTilesLayout::Upload(const HostDenseTiles& tiles,
                                                                           const CsrView& on_host,
                                                                           LayoutSource& source) {
  Device& device = source.device();
  auto layout = std::make_shared<DenseTilesLayout>();
  VICINAL_ASSIGN_OR_RETURN(layout->tile_col_, Send(tiles.tile_col, device));
  VICINAL_ASSIGN_OR_RETURN(layout->masks_, Send(tiles.masks, device));
  VICINAL_ASSIGN_OR_RETURN(layout->pieces_, Send(tiles.pieces, device));
  VICINAL_ASSIGN_OR_RETURN(layout->first_piece_, Send(tiles.first_piece, device));
  VICINAL_ASSIGN_OR_RETURN(layout->row_ptr_, Send(tiles.row_ptr, device));
  VICINAL_ASSIGN_OR_RETURN(layout->col_, Send(tiles.col, device));
  const int64_t left = static_cast<int64_t>(tiles.col.size());
  layout->rest_ = {on_host.rows, on_host.cols, left, layout->row_ptr_.as<int64_t>(), layout->col_.as<int32_t>(),
                   nullptr};
  const CsrView rest = {on_host.rows, on_host.cols, left, tiles.row_ptr.data(), tiles.col.data(), nullptr};
  VICINAL_ASSIGN_OR_RETURN(layout->rest_work_, RowWorkLayout::Upload(MakeRowWork(rest, source.pool()), device));
  VICINAL_ASSIGN_OR_RETURN(layout->all_work_, RowWorkLayout::Upload(MakeRowWork(on_host, source.pool()), device));
  return std::shared_ptr<const DenseTilesLayout>(std::move(layout));
}

int64_t DenseTilesLayout::BytesBound(int64_t rows, int64_t edges, int64_t threshold) {
  const int64_t tiles = edges / std::max<int64_t>(threshold, 1);
  return tiles * (kTileRows * static_cast<int64_t>(sizeof(uint64_t)) + 4) + MaxTilePieces(rows) * 20 + rows * 8 +
         edges * 4 + 2 * RowWorkLayout::BytesBound(rows, edges);
}

int64_t DenseTilesLayout::size_bytes() const {
  int64_t bytes = rest_work_->size_bytes() + all_work_->size_bytes();
  for (const Buffer* buffer : {&tile_col_, &masks_, &pieces_, &first_piece_, &row_ptr_, &col_}) {
    bytes += static_cast<int64_t>(buffer->bytes());
  }
  return bytes;
}

}  // namespace vicinal::cuda
