// SPDX-License-Identifier: Apache-2.0
// Finds an adjacency's dense tiles. Each block of rows is independent: it counts edges per tile, then builds the masks
// and collects the remaining edges.
#include <algorithm>
#include <utility>

#include "engine/cuda/aggregate/dense_tiles/dense_tiles.h"
#include "engine/cuda/runtime/send.h"

namespace vicinal::cuda {
namespace {

// Minimum tiles per piece: a piece costs storing and adding one more set of sums.
constexpr int64_t kShortestPiece = 32;

// The result for one block of rows.
struct RowBlock {
  std::vector<int32_t> tile_col;
  std::vector<uint64_t> masks;
  std::vector<int32_t> counts;  // [rows of the block] remaining edges
  std::vector<int32_t> col;     // of the remaining edges
};

class BlockMaker {
 public:
  BlockMaker(const CsrView& adjacency, int64_t threshold)
      : adjacency_(adjacency), threshold_(threshold), tile_of_((adjacency.cols + kTileCols - 1) / kTileCols) {}

  void Make(int64_t number, RowBlock* block) {
    const int64_t first = number * kTileRows, last = std::min(adjacency_.rows, first + kTileRows);
    for (int64_t e = adjacency_.row_ptr[first]; e < adjacency_.row_ptr[last]; ++e) {
      const int32_t tile = adjacency_.col[e] / kTileCols;
      if (tile_of_[tile]++ == 0) found_.push_back(tile);
    }
    std::sort(found_.begin(), found_.end());
    for (const int32_t t : found_) {
      const bool dense = tile_of_[t] >= threshold_;
      tile_of_[t] = dense ? static_cast<int64_t>(block->tile_col.size()) : -1;
      if (dense) block->tile_col.push_back(t);
    }
    block->masks.assign(block->tile_col.size() * kTileRows, 0);
    for (int64_t row = first; row < last; ++row) {
      const size_t before = block->col.size();
      SortEdges(row, row - first, block);
      block->counts.push_back(static_cast<int32_t>(block->col.size() - before));
    }
    for (const int32_t t : found_) tile_of_[t] = 0;
    found_.clear();
  }

 private:
  void SortEdges(int64_t row, int64_t within, RowBlock* block) {
    for (int64_t e = adjacency_.row_ptr[row]; e < adjacency_.row_ptr[row + 1]; ++e) {
      const int32_t source = adjacency_.col[e];
      const int64_t tile = tile_of_[source / kTileCols];
      if (tile >= 0) {
        uint64_t& mask = block->masks[tile * kTileRows + within];
        const uint64_t bit = uint64_t{1} << source % kTileCols;
        if ((mask & bit) == 0) {
          mask |= bit;
          continue;
        }
      }
      block->col.push_back(source);
    }
  }

  const CsrView& adjacency_;
  const int64_t threshold_;
  // By block of sources: first the number of edges, then the index of the tile in the block of rows, or -1. All 0
  // between blocks of rows.
  std::vector<int64_t> tile_of_;
  std::vector<int32_t> found_;  // blocks of sources with edges in this block of rows; no others are visited
};

// Pieces of equal length within a block of rows.
void CutPieces(const std::vector<RowBlock>& blocks, int64_t tiles, HostDenseTiles* result) {
  const int64_t longest = std::max(kShortestPiece, (tiles + kWantedPieces - 1) / kWantedPieces);
  int64_t first = 0;
  for (const RowBlock& block : blocks) {
    result->first_piece.push_back(static_cast<int32_t>(result->pieces.size()));
    const int64_t count = static_cast<int64_t>(block.tile_col.size()), pieces = (count + longest - 1) / longest;
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t begin = count * p / pieces, end = count * (p + 1) / pieces;
      result->pieces.push_back({static_cast<int32_t>(first + begin), static_cast<int32_t>(end - begin),
                                static_cast<int32_t>(result->pieces.size()), 0});
    }
    first += count;
  }
  result->first_piece.push_back(static_cast<int32_t>(result->pieces.size()));
  std::stable_sort(result->pieces.begin(), result->pieces.end(),
                   [](const TilePiece& a, const TilePiece& b) { return a.count > b.count; });
}

}  // namespace

HostDenseTiles FindDenseTiles(const CsrView& adjacency, int64_t threshold, ThreadPool& pool) {
  std::vector<RowBlock> blocks((adjacency.rows + kTileRows - 1) / kTileRows);
  std::vector<BlockMaker> makers(pool.num_threads(), BlockMaker(adjacency, threshold));
  pool.ParallelFor(static_cast<int64_t>(blocks.size()),
                   [&](int64_t b, int thread) { makers[thread].Make(b, &blocks[b]); });
  HostDenseTiles result;
  size_t tiles = 0, edges = 0;
  for (const RowBlock& block : blocks) tiles += block.tile_col.size(), edges += block.col.size();
  result.tile_col.reserve(tiles);
  result.masks.reserve(tiles * kTileRows);
  result.col.reserve(edges);
  result.row_ptr.assign(1, 0);
  result.row_ptr.reserve(adjacency.rows + 1);
  CutPieces(blocks, static_cast<int64_t>(tiles), &result);
  for (RowBlock& block : blocks) {
    result.tile_col.insert(result.tile_col.end(), block.tile_col.begin(), block.tile_col.end());
    result.masks.insert(result.masks.end(), block.masks.begin(), block.masks.end());
    result.col.insert(result.col.end(), block.col.begin(), block.col.end());
    for (const int32_t count : block.counts) result.row_ptr.push_back(result.row_ptr.back() + count);
    block = {};
  }
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
