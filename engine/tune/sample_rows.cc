// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/sample_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace vicinal {
namespace {

struct Block {
  int64_t begin = 0, end = 0;  // rows
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
  std::vector<Block> edges;
  std::vector<int64_t> sampled_ptr = {0};
  for (const Block& block : ChooseBlocks(row_ptr, share)) {
    edges.push_back({row_ptr[block.begin], row_ptr[block.end]});
    for (int64_t row = block.begin; row < block.end; ++row)
      sampled_ptr.push_back(sampled_ptr.back() + row_ptr[row + 1] - row_ptr[row]);
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
