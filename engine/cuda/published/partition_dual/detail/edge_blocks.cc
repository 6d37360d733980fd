// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/published/partition_dual/detail/edge_blocks.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "engine/cuda/runtime/send.h"

namespace vicinal::cuda {

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

std::vector<int64_t> PartBorders(std::span<const int64_t> blocks, int64_t count, int64_t parts) {
  const bool known = blocks.size() >= 2 && blocks.back() == count;
  std::vector<int64_t> borders = {0};
  for (int64_t part = 1; part < parts; ++part) {
    const int64_t even = count * part / parts;
    int64_t border = even, off = (count / parts + 1) / 2;
    if (known) {
      const auto after = std::lower_bound(blocks.begin(), blocks.end(), even);
      for (auto near = after == blocks.begin() ? after : std::prev(after); near != blocks.end(); ++near) {
        if (std::abs(*near - even) < off) border = *near, off = std::abs(*near - even);
        if (near == after) break;
      }
    }
    if (border > borders.back() && border < count) borders.push_back(border);
  }
  if (count > 0) borders.push_back(count);
  return borders;
}

TileRule EdgeBlockRule(const CsrView& adjacency, std::span<const int64_t> blocks, int64_t parts, int64_t min_edges) {
  const std::span<const int64_t> of_columns = adjacency.rows == adjacency.cols ? blocks : std::span<const int64_t>();
  TileRule rule;
  rule.min_edges = min_edges;
  if (parts == 0) {
    rule.strips = CutParts(blocks, adjacency.rows, kTileRows);
    rule.columns = CutParts(of_columns, adjacency.cols, kTileCols);
    return rule;
  }
  rule.row_blocks = PartBorders(blocks, adjacency.rows, parts);
  rule.column_blocks = PartBorders(of_columns, adjacency.cols, parts);
  rule.strips = CutEach(rule.row_blocks, kTileRows);
  rule.columns = CutEach(rule.column_blocks, kTileCols);
  return rule;
}

HostEdgeBlocks BuildEdgeBlocks(const CsrView& host, const TileRule& rule, ThreadPool& pool) {
  MaskedTiles tiles = FindMaskedTiles(host, rule, pool);
  HostEdgeBlocks blocks;
  for (size_t s = 0; s + 1 < rule.strips.size(); ++s) {
    const int64_t count = tiles.first_tile[s + 1] - tiles.first_tile[s];
    if (count == 0) continue;
    blocks.strips.push_back({tiles.first_tile[s], static_cast<int32_t>(rule.strips[s]),
                             static_cast<int32_t>(rule.strips[s + 1] - rule.strips[s]), static_cast<int32_t>(count)});
  }
  std::stable_sort(blocks.strips.begin(), blocks.strips.end(),
                   [](const RowStrip& a, const RowStrip& b) { return a.tiles > b.tiles; });
  blocks.tile_column = std::move(tiles.tile_column);
  blocks.masks = std::move(tiles.masks);
  blocks.values = std::move(tiles.values);
  blocks.first_value = std::move(tiles.first_value);
  blocks.row_offsets = std::move(tiles.row_offsets);
  blocks.rest_row_ptr = std::move(tiles.rest_row_ptr);
  blocks.rest_col = std::move(tiles.rest_col);
  blocks.rest_value = std::move(tiles.rest_value);
  return blocks;
}

StatusOr<std::shared_ptr<const EdgeBlocksLayout>> EdgeBlocksLayout::Upload(
    const HostEdgeBlocks& host, std::shared_ptr<const NeighborGroupLayout> rest_groups, Device& device) {
  auto layout = std::make_shared<EdgeBlocksLayout>();
  VICINAL_ASSIGN_OR_RETURN(layout->strips_, Send(host.strips, device));
  VICINAL_ASSIGN_OR_RETURN(layout->tile_column_, Send(host.tile_column, device));
  VICINAL_ASSIGN_OR_RETURN(layout->masks_, Send(host.masks, device));
  VICINAL_ASSIGN_OR_RETURN(layout->values_, Send(host.values, device));
  VICINAL_ASSIGN_OR_RETURN(layout->first_value_, Send(host.first_value, device));
  VICINAL_ASSIGN_OR_RETURN(layout->row_offsets_, Send(host.row_offsets, device));
  VICINAL_ASSIGN_OR_RETURN(layout->rest_row_ptr_, Send(host.rest_row_ptr, device));
  VICINAL_ASSIGN_OR_RETURN(layout->rest_col_, Send(host.rest_col, device));
  VICINAL_ASSIGN_OR_RETURN(layout->rest_value_, Send(host.rest_value, device));
  layout->rest_groups_ = std::move(rest_groups);
  EdgeBlocks& view = layout->view_;
  view.strips = layout->strips_.as<RowStrip>();
  view.num_strips = static_cast<int64_t>(host.strips.size());
  view.tile_column = layout->tile_column_.as<int32_t>();
  view.masks = layout->masks_.as<uint64_t>();
  if (!host.values.empty()) {
    view.values = layout->values_.as<float>();
    view.first_value = layout->first_value_.as<int64_t>();
    view.row_offsets = layout->row_offsets_.as<uint16_t>();
  }
  view.rest_row_ptr = layout->rest_row_ptr_.as<int64_t>();
  view.rest_col = layout->rest_col_.as<int32_t>();
  if (!host.rest_value.empty()) view.rest_value = layout->rest_value_.as<float>();
  view.rest_edges = static_cast<int64_t>(host.rest_col.size());
  view.grouped = layout->rest_groups_ != nullptr;
  if (view.grouped) view.rest = layout->rest_groups_->view();
  return std::shared_ptr<const EdgeBlocksLayout>(std::move(layout));
}

int64_t EdgeBlocksLayout::size_bytes() const {
  int64_t bytes = rest_groups_ != nullptr ? rest_groups_->size_bytes() : 0;
  for (const Buffer* buffer : {&strips_, &tile_column_, &masks_, &values_, &first_value_, &row_offsets_, &rest_row_ptr_,
                               &rest_col_, &rest_value_}) {
    bytes += static_cast<int64_t>(buffer->bytes());
  }
  return bytes;
}

}  // namespace vicinal::cuda
