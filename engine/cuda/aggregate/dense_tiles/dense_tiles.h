// SPDX-License-Identifier: Apache-2.0
// dense_tiles: the dense parts of an adjacency as bitmasks, multiplied on tensor cores, and the rest as rows
// (binned_rows). This file has the prepared layout and the launcher; dense_tiles.cu has the kernel and its idea.
//
// Layout. The adjacency is cut into tiles of kTileRows targets x kTileCols sources, in execution order. A tile with at
// least `threshold` edges is dense and becomes a mask with a bit per possible edge; its edges are removed from the
// rows. The mask has one copy of a repeated edge, the rows keep the others. Communities with adjacent ids (reorder/)
// give such tiles; the layout needs no other information about communities.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_DENSE_TILES_DENSE_TILES_H_
#define VICINAL_ENGINE_CUDA_AGGREGATE_DENSE_TILES_DENSE_TILES_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/aggregate/rows/row_work.h"
#include "engine/cuda/common/launch.h"
#include "engine/cuda/common/masked_tiles.h"
#include "engine/kernels/adjacency_layout.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Dense tiles [first, first + count) of a block of kTileRows rows: the work of one thread block. `sums` is the index of
// its partial sums.
struct alignas(16) TilePiece {
  int32_t first = 0;
  int32_t count = 0;
  int32_t sums = 0;
  int32_t unused = 0;
};

// In host memory.
struct HostDenseTiles {
  std::vector<int32_t> tile_col;     // [tiles] index of the block of sources; tiles of a block of rows are adjacent
  std::vector<uint64_t> masks;       // [tiles, kTileRows]; bit c: source kTileCols * tile_col + c
  std::vector<TilePiece> pieces;     // longest first
  std::vector<int32_t> first_piece;  // [blocks of rows + 1]: block b has sums [first_piece[b], first_piece[b + 1])
  std::vector<int64_t> row_ptr;      // the remaining edges, without values
  std::vector<int32_t> col;
};
HostDenseTiles FindDenseTiles(const CsrView& adjacency, int64_t threshold, ThreadPool& pool);

// Pieces that the tiles are cut into if there are too few blocks of rows; more than any GPU runs at once.
inline constexpr int64_t kWantedPieces = 256;
// Upper bound of the pieces of an adjacency with `rows` rows.
inline int64_t MaxTilePieces(int64_t rows) { return (rows + kTileRows - 1) / kTileRows + kWantedPieces; }

// HostDenseTiles in device memory, with two work lists: one of the remaining edges, and one of the whole adjacency for
// sources that are not finite or outside of bfloat16's range.
class DenseTilesLayout final : public AdjacencyLayout {
 public:
  static StatusOr<std::shared_ptr<const DenseTilesLayout>> Upload(const HostDenseTiles& tiles, const CsrView& on_host,
                                                                  LayoutSource& source);
  // For tiles of at least `threshold` edges.
  static int64_t BytesBound(int64_t rows, int64_t edges, int64_t threshold);

  int64_t size_bytes() const override;
  const int32_t* tile_col() const { return tile_col_.as<int32_t>(); }
  const uint64_t* masks() const { return masks_.as<uint64_t>(); }
  const TilePiece* pieces() const { return pieces_.as<TilePiece>(); }
  const int32_t* first_piece() const { return first_piece_.as<int32_t>(); }
  int64_t num_pieces() const { return static_cast<int64_t>(pieces_.bytes() / sizeof(TilePiece)); }
  const CsrView& rest() const { return rest_; }
  const RowWorkLayout& rest_work() const { return *rest_work_; }
  const RowWorkLayout& all_work() const { return *all_work_; }

 private:
  Buffer tile_col_, masks_, pieces_, first_piece_, row_ptr_, col_;
  CsrView rest_;
  std::shared_ptr<const RowWorkLayout> rest_work_, all_work_;
};

// Scratch bytes of a launch.
size_t DenseTilesScratchBytes(const AggregateProblem& problem);

// REQUIRES: an adjacency without values; sum or mean. scratch: DenseTilesScratchBytes(args.problem) bytes.
cudaError_t LaunchDenseTiles(const AggregateArgs& args, const DenseTilesLayout& layout, const LaunchTarget& target,
                             void* scratch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_DENSE_TILES_DENSE_TILES_H_
