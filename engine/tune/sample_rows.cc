// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/sample_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace vicinal {
namespace {

struct Block {
  int64_t begin = 0, end = 0;  // rows, or edges
};

// Blocks of equal numbers of edges, so that a hub's row counts by its cost.
std::vector<Block> ChooseBlocks(const std::vector<int64_t>& row_ptr, double share) {
  const int64_t rows = static_cast<int64_t>(row_ptr.size()) - 1;
  const double edges = static_cast<double>(row_ptr.back() - row_ptr.front());
  const auto row_at = [&](double edge) {
    const int64_t wanted = row_ptr.front() + static_cast<int64_t>(edge);
    const int64_t row = std::lower_bound(row_ptr.begin(), row_ptr.end(), wanted) - row_ptr.begin();
    return std::min(row, rows);
  };
  std::vector<Block> blocks;
  const double step = edges / static_cast<double>(kSampleBlocks);
  for (int64_t b = 0; b < kSampleBlocks; ++b) {
    const double begin = step * (static_cast<double>(b) + 0.5 * (1.0 - share));
    Block block = {row_at(begin), row_at(begin + share * step)};
    block.end = std::min(rows, std::max(block.end, block.begin + 1));
    if (!blocks.empty()) block.begin = std::max(block.begin, blocks.back().end);
    if (block.begin < block.end) blocks.push_back(block);
  }
  return blocks;
}

// The edges of each block, at most kMaxSampleExcess times its share where all blocks together have more than that. Only
// the last row of a block is cut: the rows before it have no more than the share.
std::vector<Block> EdgesOf(const std::vector<Block>& blocks, const std::vector<int64_t>& row_ptr, double share) {
  const double most = kMaxSampleExcess * share * static_cast<double>(row_ptr.back() - row_ptr.front());
  std::vector<Block> edges;
  int64_t total = 0;
  for (const Block& block : blocks) {
    edges.push_back({row_ptr[block.begin], row_ptr[block.end]});
    total += edges.back().end - edges.back().begin;
  }
  if (static_cast<double>(total) <= most) return edges;
  const int64_t of_block = std::max<int64_t>(1, std::llround(most / static_cast<double>(kSampleBlocks)));
  for (Block& block : edges) block.end = std::min(block.end, block.begin + of_block);
  return edges;
}

template <class T>
StatusOr<Buffer> CopyRanges(const T* from, const std::vector<Block>& ranges, int64_t count, Device& device) {
  std::vector<T> host(count);
  int64_t done = 0;
  for (const Block& range : ranges) {
    const int64_t part = range.end - range.begin;
    VICINAL_RETURN_IF_ERROR(device.CopyToHost(host.data() + done, from + range.begin, part * sizeof(T)));
    done += part;
  }
  VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(count * sizeof(T)));
  VICINAL_RETURN_IF_ERROR(device.CopyFromHost(buffer.data(), host.data(), count * sizeof(T)));
  return buffer;
}

}  // namespace

StatusOr<SampledRows> SampleRows(const CsrView& adjacency, double share, Device& device) {
  std::vector<int64_t> row_ptr(adjacency.rows + 1);
  VICINAL_RETURN_IF_ERROR(device.CopyToHost(row_ptr.data(), adjacency.row_ptr, row_ptr.size() * sizeof(int64_t)));
  const std::vector<Block> blocks = ChooseBlocks(row_ptr, share);
  const std::vector<Block> edges = EdgesOf(blocks, row_ptr, share);
  std::vector<int64_t> sampled_ptr = {0};
  for (size_t b = 0; b < blocks.size(); ++b) {
    const int64_t before = sampled_ptr.back() - edges[b].begin;
    for (int64_t row = blocks[b].begin; row < blocks[b].end; ++row)
      sampled_ptr.push_back(before + std::min(row_ptr[row + 1], edges[b].end));
  }
  SampledRows sampled;
  const int64_t nnz = sampled_ptr.back();
  VICINAL_ASSIGN_OR_RETURN(sampled.row_ptr, device.Allocate(sampled_ptr.size() * sizeof(int64_t)));
  VICINAL_RETURN_IF_ERROR(
      device.CopyFromHost(sampled.row_ptr.data(), sampled_ptr.data(), sampled_ptr.size() * sizeof(int64_t)));
  VICINAL_ASSIGN_OR_RETURN(sampled.col, CopyRanges(adjacency.col, edges, nnz, device));
  if (adjacency.value != nullptr) {
    VICINAL_ASSIGN_OR_RETURN(sampled.value, CopyRanges(adjacency.value, edges, nnz, device));
  }
  sampled.view = {static_cast<int64_t>(sampled_ptr.size()) - 1,
                  adjacency.cols,
                  nnz,
                  sampled.row_ptr.as<int64_t>(),
                  sampled.col.as<int32_t>(),
                  adjacency.value != nullptr ? sampled.value.as<float>() : nullptr};
  return sampled;
}

}  // namespace vicinal
