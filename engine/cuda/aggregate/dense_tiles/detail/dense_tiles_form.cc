// SPDX-License-Identifier: Apache-2.0
// Checking walks pieces, masks and remaining edges once.
#include "engine/cuda/aggregate/dense_tiles/detail/dense_tiles_form.h"

#include <bit>
#include <string>
#include <vector>

#include "engine/cuda/runtime/check_rows.h"

namespace vicinal::cuda {
namespace {

constexpr auto kMaskBytes = static_cast<int64_t>(kTileRows * sizeof(uint64_t));
constexpr auto kPieceBytes = static_cast<int64_t>(sizeof(TilePiece));

int64_t BlocksOf(int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

class DenseTilesCheck {
 public:
  DenseTilesCheck(const HostDenseTiles& tiles, const CsrView& adjacency)
      : tiles_(tiles), adjacency_(adjacency), count_(static_cast<int64_t>(tiles.tile_col.size())) {}

  std::string Problem() {
    if (count_ < 1 || static_cast<int64_t>(tiles_.masks.size()) != count_ * kTileRows) {
      return "tiles and masks are not as many";
    }
    if (std::string problem = Pieces(); !problem.empty()) return problem;
    for (int64_t tile = 0; tile < count_; ++tile) {
      if (std::string problem = Masks(tile); !problem.empty()) return problem;
    }
    if (edges_ + static_cast<int64_t>(tiles_.col.size()) != adjacency_.nnz) {
      return "its edges are not as many as the adjacency's";
    }
    return RowsProblem(tiles_.row_ptr, tiles_.col, adjacency_.rows, adjacency_.cols);
  }

 private:
  std::string Pieces() {
    const int64_t blocks = BlocksOf(adjacency_.rows);
    const auto pieces = static_cast<int64_t>(tiles_.pieces.size());
    const std::vector<int32_t>& first = tiles_.first_piece;
    if (static_cast<int64_t>(first.size()) != blocks + 1 || first.front() != 0 || first.back() != pieces) {
      return "the blocks of rows have other pieces";
    }
    std::vector<int64_t> block_of_sums(static_cast<size_t>(pieces), 0);
    for (int64_t block = 0; block < blocks; ++block) {
      if (first[block] > first[block + 1] || first[block + 1] > pieces) return "the pieces of blocks fall";
      for (int64_t sums = first[block]; sums < first[block + 1]; ++sums) block_of_sums[sums] = block;
    }
    block_.assign(static_cast<size_t>(count_), -1);
    std::vector<bool> done(static_cast<size_t>(pieces), false);
    for (const TilePiece& piece : tiles_.pieces) {
      if (piece.sums < 0 || piece.sums >= pieces || done[piece.sums]) return "two pieces have the same sums";
      done[piece.sums] = true;
      if (piece.count < 1 || piece.first < 0 || piece.first > count_ - piece.count) return "a piece has other tiles";
      for (int64_t tile = piece.first; tile < piece.first + piece.count; ++tile) {
        if (block_[tile] >= 0) return "a tile is in two pieces";
        block_[tile] = block_of_sums[piece.sums];
      }
    }
    return {};
  }
  std::string Masks(int64_t tile) {
    if (block_[tile] < 0) return "a tile is in no piece";
    const int64_t column = int64_t{tiles_.tile_col[tile]} * kTileCols;
    if (column < 0 || column >= adjacency_.cols) return "a tile is outside of the columns";
    for (int64_t r = 0; r < kTileRows; ++r) {
      const uint64_t mask = tiles_.masks[tile * kTileRows + r];
      if (mask == 0) continue;
      if (block_[tile] * kTileRows + r >= adjacency_.rows || column + std::bit_width(mask) > adjacency_.cols) {
        return "a mask has edges outside of the adjacency";
      }
      edges_ += std::popcount(mask);
    }
    return {};
  }

  const HostDenseTiles& tiles_;
  const CsrView& adjacency_;
  const int64_t count_;
  std::vector<int64_t> block_;  // of rows, of each tile
  int64_t edges_ = 0;           // in masks
};

}  // namespace

FlatLayout FlattenDenseTiles(const DenseTilesLayout& layout) {
  const CsrView& rest = layout.rest();
  const int64_t pieces = layout.num_pieces() * kPieceBytes, borders = 8 * (rest.rows + 1);
  const int64_t blocks = 4 * (BlocksOf(rest.rows) + 1);
  const int64_t lists = layout.rest_work().size_bytes() + layout.all_work().size_bytes();
  // All that is left are columns and masks of tiles.
  const int64_t tiles = (layout.size_bytes() - lists - pieces - blocks - borders - 4 * rest.nnz) / (kMaskBytes + 4);
  FlatLayout flat;
  flat.arrays = {{"tile_col", layout.tile_col(), 4 * tiles}, {"masks", layout.masks(), kMaskBytes * tiles},
                 {"pieces", layout.pieces(), pieces},        {"first_piece", layout.first_piece(), blocks},
                 {"row_ptr", rest.row_ptr, borders},         {"col", rest.col, 4 * rest.nnz}};
  return flat;
}

StatusOr<HostDenseTiles> ReadDenseTiles(const LayoutInput& input, const CsrView& adjacency, int64_t threshold) {
  const int64_t most_tiles = adjacency.nnz / threshold;
  HostDenseTiles tiles;
  VICINAL_RETURN_IF_ERROR(input.Fill("tile_col", most_tiles, &tiles.tile_col));
  VICINAL_RETURN_IF_ERROR(input.Fill("masks", most_tiles * kTileRows, &tiles.masks));
  VICINAL_RETURN_IF_ERROR(input.Fill("pieces", MaxTilePieces(adjacency.rows), &tiles.pieces));
  VICINAL_RETURN_IF_ERROR(input.Fill("first_piece", BlocksOf(adjacency.rows) + 1, &tiles.first_piece));
  VICINAL_RETURN_IF_ERROR(input.Fill("row_ptr", adjacency.rows + 1, &tiles.row_ptr));
  VICINAL_RETURN_IF_ERROR(input.Fill("col", adjacency.nnz, &tiles.col));
  const std::string problem = DenseTilesCheck(tiles, adjacency).Problem();
  if (!problem.empty()) return input.Bad(problem);
  return tiles;
}

}  // namespace vicinal::cuda
