// SPDX-License-Identifier: Apache-2.0
// The K x K edge blocks of a partition (PCGCN, IPDPS'20, section III). Blocks with enough edges become bitmasks for
// matrix products (full mode), all other edges an adjacency (selective mode). Built on the host, in parallel; the
// result does not depend on the number of threads.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_DETAIL_EDGE_BLOCKS_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_DETAIL_EDGE_BLOCKS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/cuda/published/groups/neighbor_group_layout.h"
#include "engine/cuda/published/partition_dual/partition_dual.h"
#include "engine/device/device.h"
#include "engine/device/views.h"
#include "engine/kernels/layout_codec.h"

namespace vicinal::cuda {

// Ascending boundaries, from 0 to `count`, of parts of at most `most` of `count` nodes. Parts are unions of `blocks`
// (LayoutSource::blocks) or equal cuts of one block. Without blocks, they are equal cuts of all nodes.
std::vector<int64_t> CutParts(std::span<const int64_t> blocks, int64_t count, int64_t most);

struct HostEdgeBlocks {
  std::vector<RowStrip> strips;
  std::vector<int32_t> tile_column;
  std::vector<uint64_t> masks;
  std::vector<int64_t> rest_row_ptr;
  std::vector<int32_t> rest_col;
};

// A block is dense if it has at least `min_edges` distinct edges. Further copies of an edge go to the rest.
// `row_parts` and `column_parts` are results of CutParts, with at most kStripRows rows and kTileColumns columns each.
// REQUIRES: columns ascend within a row.
HostEdgeBlocks BuildEdgeBlocks(const CsrView& host, const std::vector<int64_t>& row_parts,
                               const std::vector<int64_t>& column_parts, int64_t min_edges, ThreadPool& pool);

// Reads blocks of that `adjacency`, in memory of any device, from their flat form. DATA_LOSS unless every index is in
// its range, strips do not overlap, and masks and remaining edges are as many as the edges.
StatusOr<HostEdgeBlocks> ReadEdgeBlocks(const LayoutInput& input, const CsrView& adjacency, int64_t min_edges);

class EdgeBlocksLayout final : public AdjacencyLayout {
 public:
  static StatusOr<std::shared_ptr<const EdgeBlocksLayout>> Upload(
      const HostEdgeBlocks& host, std::shared_ptr<const NeighborGroupLayout> rest_groups, Device& device);
  int64_t size_bytes() const override;
  const EdgeBlocks& view() const { return view_; }
  // Without the groups, which follow from the borders of the remaining edges' rows.
  FlatLayout Flatten() const;

 private:
  EdgeBlocks view_;
  Buffer strips_, tile_column_, masks_, rest_row_ptr_, rest_col_;
  std::shared_ptr<const NeighborGroupLayout> rest_groups_;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_DETAIL_EDGE_BLOCKS_H_
