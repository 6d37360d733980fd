// SPDX-License-Identifier: Apache-2.0
// Two passes over the edges, strip by strip. The first counts each strip's edges by part of the columns, which decides
// the dense blocks. The second sets mask bits and writes the remaining edges. Temporary memory: one number per part and
// thread.
#include "engine/cuda/published/partition_dual/detail/edge_blocks.h"

#include <algorithm>
#include <numeric>

#include "engine/cuda/runtime/send.h"

namespace vicinal::cuda {
namespace {

constexpr int32_t kNoTile = -1;

// Calls body(edge, part of its column, true if it repeats the previous edge) for each edge of a row.
template <class Body>
void ForEachEdge(const CsrView& host, const std::vector<int32_t>& part_of, int64_t row, const Body& body) {
  for (int64_t e = host.row_ptr[row]; e < host.row_ptr[row + 1]; ++e) {
    body(e, part_of[host.col[e]], e > host.row_ptr[row] && host.col[e] == host.col[e - 1]);
  }
}

class Builder {
 public:
  Builder(const CsrView& host, const std::vector<int64_t>& row_parts, const std::vector<int64_t>& column_parts,
          int64_t min_edges, ThreadPool& pool)
      : host_(host),
        row_parts_(row_parts),
        column_parts_(column_parts),
        min_edges_(min_edges),
        pool_(pool),
        num_strips_(static_cast<int64_t>(row_parts.size()) - 1),
        part_of_(host.cols),
        dense_(num_strips_),
        by_part_(pool.num_threads(), std::vector<int32_t>(column_parts.size(), 0)) {
    for (size_t part = 0; part + 1 < column_parts.size(); ++part) {
      std::fill(part_of_.begin() + column_parts[part], part_of_.begin() + column_parts[part + 1],
                static_cast<int32_t>(part));
    }
    result_.rest_row_ptr.assign(host.rows + 1, 0);
  }

  HostEdgeBlocks Build() {
    pool_.ParallelFor(num_strips_, [&](int64_t strip, int thread) { Count(strip, by_part_[thread]); });
    std::partial_sum(result_.rest_row_ptr.begin(), result_.rest_row_ptr.end(), result_.rest_row_ptr.begin());
    result_.rest_col.resize(result_.rest_row_ptr.back());
    std::vector<int64_t> first_tile(num_strips_ + 1, 0);
    for (int64_t s = 0; s < num_strips_; ++s) {
      first_tile[s + 1] = first_tile[s] + static_cast<int64_t>(dense_[s].size());
    }
    result_.tile_column.resize(first_tile.back());
    result_.masks.assign(first_tile.back() * kStripRows, 0);
    for (std::vector<int32_t>& tile_of : by_part_) std::fill(tile_of.begin(), tile_of.end(), kNoTile);
    pool_.ParallelFor(num_strips_,
                      [&](int64_t strip, int thread) { Fill(strip, first_tile[strip], by_part_[thread]); });
    ListStrips(first_tile);
    return std::move(result_);
  }

 private:
  template <class Body>
  void ForRows(int64_t strip, const Body& body) const {
    for (int64_t row = row_parts_[strip]; row < row_parts_[strip + 1]; ++row) body(row);
  }

  // Counts a strip's edges per part of the columns in `edges`, which is all 0 before and after.
  void Count(int64_t strip, std::vector<int32_t>& edges) {
    std::vector<int32_t> touched;
    ForRows(strip, [&](int64_t row) {
      ForEachEdge(host_, part_of_, row, [&](int64_t, int32_t part, bool copy) {
        if (!copy && edges[part]++ == 0) touched.push_back(part);
      });
    });
    ForRows(strip, [&](int64_t row) {
      ForEachEdge(host_, part_of_, row, [&](int64_t, int32_t part, bool copy) {
        if (copy || edges[part] < min_edges_) ++result_.rest_row_ptr[row + 1];
      });
    });
    for (const int32_t part : touched) {
      if (edges[part] >= min_edges_) dense_[strip].push_back(part);
      edges[part] = 0;
    }
    std::sort(dense_[strip].begin(), dense_[strip].end());
  }

  // Writes a strip's masks and remaining edges. `tile_of` (per part of the columns) is all kNoTile before and after.
  void Fill(int64_t strip, int64_t first_tile, std::vector<int32_t>& tile_of) {
    const std::vector<int32_t>& dense = dense_[strip];
    for (size_t i = 0; i < dense.size(); ++i) {
      tile_of[dense[i]] = static_cast<int32_t>(i);
      result_.tile_column[first_tile + static_cast<int64_t>(i)] = static_cast<int32_t>(column_parts_[dense[i]]);
    }
    ForRows(strip, [&](int64_t row) {
      int64_t rest = result_.rest_row_ptr[row];
      ForEachEdge(host_, part_of_, row, [&](int64_t edge, int32_t part, bool copy) {
        if (copy || tile_of[part] == kNoTile) {
          result_.rest_col[rest++] = host_.col[edge];
        } else {
          const int64_t tile = first_tile + tile_of[part];
          result_.masks[tile * kStripRows + row - row_parts_[strip]] |= uint64_t{1}
                                                                        << (host_.col[edge] - column_parts_[part]);
        }
      });
    });
    for (const int32_t part : dense) tile_of[part] = kNoTile;
  }

  void ListStrips(const std::vector<int64_t>& first_tile) {
    for (int64_t s = 0; s < num_strips_; ++s) {
      if (dense_[s].empty()) continue;
      result_.strips.push_back({first_tile[s], static_cast<int32_t>(row_parts_[s]),
                                static_cast<int32_t>(row_parts_[s + 1] - row_parts_[s]),
                                static_cast<int32_t>(dense_[s].size())});
    }
    std::stable_sort(result_.strips.begin(), result_.strips.end(),
                     [](const RowStrip& a, const RowStrip& b) { return a.tiles > b.tiles; });
  }

  const CsrView& host_;
  const std::vector<int64_t>&row_parts_, &column_parts_;
  const int64_t min_edges_;
  ThreadPool& pool_;
  const int64_t num_strips_;
  std::vector<int32_t> part_of_;               // per column
  std::vector<std::vector<int32_t>> dense_;    // parts of columns, per strip
  std::vector<std::vector<int32_t>> by_part_;  // per thread: a number per part of columns
  HostEdgeBlocks result_;
};

}  // namespace

std::vector<int64_t> CutParts(std::span<const int64_t> blocks, int64_t count, int64_t most) {
  const int64_t whole[] = {0, count};
  if (blocks.size() < 2 || blocks.back() != count) blocks = whole;
  std::vector<int64_t> parts = {0};
  for (size_t b = 1; b < blocks.size(); ++b) {
    const int64_t begin = blocks[b - 1], end = blocks[b];
    // Small blocks share a part as long as they fit. A large block starts a part of its own.
    if (begin > parts.back() && end - parts.back() > most) parts.push_back(begin);
    if (end - parts.back() <= most) continue;
    const int64_t from = parts.back(), cuts = (end - from + most - 1) / most;
    for (int64_t cut = 1; cut < cuts; ++cut) parts.push_back(from + (end - from) * cut / cuts);
  }
  if (parts.back() != count) parts.push_back(count);
  return parts;
}

HostEdgeBlocks BuildEdgeBlocks(const CsrView& host, const std::vector<int64_t>& row_parts,
                               const std::vector<int64_t>& column_parts, int64_t min_edges, ThreadPool& pool) {
  return Builder(host, row_parts, column_parts, min_edges, pool).Build();
}

StatusOr<std::shared_ptr<const EdgeBlocksLayout>> EdgeBlocksLayout::Upload(
    const HostEdgeBlocks& host, std::shared_ptr<const NeighborGroupLayout> rest_groups, Device& device) {
  auto layout = std::make_shared<EdgeBlocksLayout>();
  VICINAL_ASSIGN_OR_RETURN(layout->strips_, Send(host.strips, device));
  VICINAL_ASSIGN_OR_RETURN(layout->tile_column_, Send(host.tile_column, device));
  VICINAL_ASSIGN_OR_RETURN(layout->masks_, Send(host.masks, device));
  VICINAL_ASSIGN_OR_RETURN(layout->rest_row_ptr_, Send(host.rest_row_ptr, device));
  VICINAL_ASSIGN_OR_RETURN(layout->rest_col_, Send(host.rest_col, device));
  layout->rest_groups_ = std::move(rest_groups);
  layout->view_ = {layout->strips_.as<RowStrip>(),
                   static_cast<int64_t>(host.strips.size()),
                   layout->tile_column_.as<int32_t>(),
                   layout->masks_.as<uint64_t>(),
                   layout->rest_row_ptr_.as<int64_t>(),
                   layout->rest_col_.as<int32_t>(),
                   static_cast<int64_t>(host.rest_col.size()),
                   layout->rest_groups_->view()};
  return std::shared_ptr<const EdgeBlocksLayout>(std::move(layout));
}

int64_t EdgeBlocksLayout::size_bytes() const {
  return static_cast<int64_t>(strips_.bytes() + tile_column_.bytes() + masks_.bytes() + rest_row_ptr_.bytes() +
                              rest_col_.bytes()) +
         rest_groups_->size_bytes();
}

}  // namespace vicinal::cuda
