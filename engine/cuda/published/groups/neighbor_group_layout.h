// SPDX-License-Identifier: Apache-2.0
// Cuts rows into neighbour groups and assigns each a place in its block's shared memory (GNNAdvisor, sections 5.1, 5.3
// and Algorithm 1). Runs on the host, in parallel; the result does not depend on the number of threads.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_NEIGHBOR_GROUP_LAYOUT_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_NEIGHBOR_GROUP_LAYOUT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/cuda/published/groups/neighbor_groups.h"
#include "engine/device/device.h"
#include "engine/kernels/adjacency_layout.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// The smallest group size that is chosen by default.
inline constexpr int kSmallestDefaultGroup = 8;
NeighborGroupConfig DefaultNeighborGroup(const AggregateProblem& problem);

struct HostNeighborGroups {
  std::vector<NeighborGroup> groups;  // by row, then by edge
  std::vector<SpreadRow> splits;      // by row
};

// Groups of at most `group_size` edges each; blocks hold `groups_per_block` of them. `row_ptr` [rows + 1].
HostNeighborGroups BuildNeighborGroups(const int64_t* row_ptr, int64_t rows, int group_size, int groups_per_block,
                                       ThreadPool& pool);

class NeighborGroupLayout final : public AdjacencyLayout {
 public:
  static StatusOr<std::shared_ptr<const NeighborGroupLayout>> Upload(const HostNeighborGroups& host, Device& device);
  int64_t size_bytes() const override { return static_cast<int64_t>(groups_.bytes() + splits_.bytes()); }
  NeighborGroups view() const {
    return {groups_.as<NeighborGroup>(), num_groups_, splits_.as<SpreadRow>(), num_splits_};
  }

 private:
  Buffer groups_, splits_;
  int64_t num_groups_ = 0, num_splits_ = 0;
};

// Upper bound of a layout's bytes. The last group of each row may not be full, and each block may end in a split row.
inline int64_t NeighborGroupBytesBound(int64_t rows, int64_t edges, int group_size) {
  const int64_t groups = edges / group_size + rows;
  return groups * static_cast<int64_t>(sizeof(NeighborGroup) + sizeof(SpreadRow));
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_NEIGHBOR_GROUP_LAYOUT_H_
