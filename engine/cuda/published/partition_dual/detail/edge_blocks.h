// SPDX-License-Identifier: Apache-2.0
// The edge blocks of a partition (PCGCN, IPDPS'20, section III). Blocks with enough edges become masked tiles for
// matrix products (full mode), all other edges an adjacency (selective mode). Built on the host.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_DETAIL_EDGE_BLOCKS_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_DETAIL_EDGE_BLOCKS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/cuda/common/masked_tiles.h"
#include "engine/cuda/published/groups/neighbor_group_layout.h"
#include "engine/cuda/published/partition_dual/partition_dual.h"
#include "engine/device/device.h"
#include "engine/device/views.h"
#include "engine/kernels/layout_codec.h"

namespace vicinal::cuda {

// Ascending boundaries, from 0 to `count`, of parts of at most `most` of `count` nodes. Parts are unions of `blocks`
// (LayoutSource::blocks) or equal cuts of one block. Without blocks, they are equal cuts of all nodes.
std::vector<int64_t> CutParts(std::span<const int64_t> blocks, int64_t count, int64_t most);

// Ascending boundaries of `parts` parts of about as many nodes: each boundary is the one of `blocks` that is nearest to
// where equal cuts would be, or that place itself if none is nearer than half a part. Fewer parts if there are fewer
// nodes.
std::vector<int64_t> PartBorders(std::span<const int64_t> blocks, int64_t count, int64_t parts);

// The rule for an adjacency [rows, cols] whose rows and, if it is square, columns are cut into `blocks`. parts > 0: the
// parts x parts blocks of a partition are dense or not; 0: each tile is.
TileRule EdgeBlockRule(const CsrView& adjacency, std::span<const int64_t> blocks, int64_t parts, int64_t min_edges);

// Masked tiles (as MaskedTiles has them, in host memory) by the strips that have any.
struct HostEdgeBlocks {
  std::vector<RowStrip> strips;  // in descending order of tiles
  std::vector<int32_t> tile_column;
  std::vector<uint64_t> masks;
  std::vector<float> values;
  std::vector<int64_t> first_value;
  std::vector<uint16_t> row_offsets;
  std::vector<int64_t> rest_row_ptr;
  std::vector<int32_t> rest_col;
  std::vector<float> rest_value;
};

// REQUIRES: columns ascend within a row.
HostEdgeBlocks BuildEdgeBlocks(const CsrView& host, const TileRule& rule, ThreadPool& pool);

// Reads blocks of that `adjacency`, in memory of any device, from their flat form. DATA_LOSS unless every index is in
// its range, strips do not overlap, and masks and remaining edges are as many as the edges.
StatusOr<HostEdgeBlocks> ReadEdgeBlocks(const LayoutInput& input, const CsrView& adjacency, int64_t min_edges);

class EdgeBlocksLayout final : public AdjacencyLayout {
 public:
  // `rest_groups`: of the rest; null: it is summed as published.
  static StatusOr<std::shared_ptr<const EdgeBlocksLayout>> Upload(
      const HostEdgeBlocks& host, std::shared_ptr<const NeighborGroupLayout> rest_groups, Device& device);
  int64_t size_bytes() const override;
  const EdgeBlocks& view() const { return view_; }
  // Without the groups, which follow from the borders of the remaining edges' rows.
  FlatLayout Flatten() const;

 private:
  EdgeBlocks view_;
  Buffer strips_, tile_column_, masks_, values_, first_value_, row_offsets_, rest_row_ptr_, rest_col_, rest_value_;
  std::shared_ptr<const NeighborGroupLayout> rest_groups_;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_DETAIL_EDGE_BLOCKS_H_
