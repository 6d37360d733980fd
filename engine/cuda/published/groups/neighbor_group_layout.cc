// SPDX-License-Identifier: Apache-2.0
// Counts groups per chunk of rows, computes prefix sums, then fills in the groups. Then it assigns addresses, block by
// block. Only the borders between blocks are searched for rows that blocks share.
#include "engine/cuda/published/groups/neighbor_group_layout.h"

#include <algorithm>

#include "engine/cuda/runtime/send.h"

namespace vicinal::cuda {
namespace {

constexpr int64_t kChunkRows = 1 << 14;

int64_t GroupsOf(int64_t edges, int group_size) { return std::max<int64_t>(1, (edges + group_size - 1) / group_size); }

void FillRow(const int64_t* row_ptr, int64_t row, int group_size, NeighborGroup* out) {
  const int64_t end = row_ptr[row + 1];
  int64_t begin = row_ptr[row];
  do {
    const int64_t size = std::min<int64_t>(group_size, end - begin);
    *out++ = {begin, static_cast<int32_t>(row), static_cast<uint16_t>(size), 0};
    begin += size;
  } while (begin < end);
}

// Algorithm 1: a block's first group opens slot 0, and each further row opens the next slot.
void AddressBlock(NeighborGroup* begin, NeighborGroup* end) {
  uint16_t address = 0;
  for (NeighborGroup* group = begin; group != end; ++group) {
    if (group != begin && group->row != (group - 1)->row) ++address;
    group->address = address;
  }
}

std::vector<SpreadRow> FindSplits(const std::vector<NeighborGroup>& groups, int64_t per_block) {
  std::vector<SpreadRow> splits;
  const int64_t count = static_cast<int64_t>(groups.size());
  for (int64_t border = per_block; border < count; border += per_block) {
    const NeighborGroup &before = groups[border - 1], &after = groups[border];
    if (before.row != after.row) continue;
    if (splits.empty() || splits.back().row != after.row) {
      const int64_t block = border / per_block - 1;
      splits.push_back({2 * block + (before.address == 0 ? 0 : 1), after.row, 1});
    }
    ++splits.back().pieces;
  }
  return splits;
}

}  // namespace

HostNeighborGroups BuildNeighborGroups(const int64_t* row_ptr, int64_t rows, int group_size, int groups_per_block,
                                       ThreadPool& pool) {
  const int64_t chunks = (rows + kChunkRows - 1) / kChunkRows;
  std::vector<int64_t> first(chunks + 1, 0);
  const auto for_rows = [&](int64_t chunk, const auto& body) {
    for (int64_t row = chunk * kChunkRows; row < std::min(rows, (chunk + 1) * kChunkRows); ++row) body(row);
  };
  pool.ParallelFor(chunks, [&](int64_t chunk, int) {
    for_rows(chunk, [&](int64_t row) { first[chunk + 1] += GroupsOf(row_ptr[row + 1] - row_ptr[row], group_size); });
  });
  for (int64_t chunk = 0; chunk < chunks; ++chunk) first[chunk + 1] += first[chunk];
  HostNeighborGroups host;
  host.groups.resize(first[chunks]);
  pool.ParallelFor(chunks, [&](int64_t chunk, int) {
    NeighborGroup* out = host.groups.data() + first[chunk];
    for_rows(chunk, [&](int64_t row) {
      FillRow(row_ptr, row, group_size, out);
      out += GroupsOf(row_ptr[row + 1] - row_ptr[row], group_size);
    });
  });
  const int64_t count = first[chunks], span = groups_per_block * kChunkRows;
  pool.ParallelFor((count + span - 1) / span, [&](int64_t part, int) {
    for (int64_t begin = part * span; begin < std::min(count, (part + 1) * span); begin += groups_per_block) {
      AddressBlock(host.groups.data() + begin, host.groups.data() + std::min<int64_t>(count, begin + groups_per_block));
    }
  });
  host.splits = FindSplits(host.groups, groups_per_block);
  return host;
}

StatusOr<std::shared_ptr<const NeighborGroupLayout>> NeighborGroupLayout::Upload(const HostNeighborGroups& host,
                                                                                 Device& device) {
  auto layout = std::make_shared<NeighborGroupLayout>();
  VICINAL_ASSIGN_OR_RETURN(layout->groups_, Send(host.groups, device));
  VICINAL_ASSIGN_OR_RETURN(layout->splits_, Send(host.splits, device));
  layout->num_groups_ = static_cast<int64_t>(host.groups.size());
  layout->num_splits_ = static_cast<int64_t>(host.splits.size());
  return std::shared_ptr<const NeighborGroupLayout>(std::move(layout));
}

}  // namespace vicinal::cuda
