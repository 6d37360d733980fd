// SPDX-License-Identifier: Apache-2.0
// Neighbour groups (GNNAdvisor, OSDI'21) on the device: the work of neighbor_group, neighbor_group_atomics and
// partition_dual. Free of device code.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_NEIGHBOR_GROUPS_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_NEIGHBOR_GROUPS_H_

#include <cstdint>

namespace vicinal::cuda {

// Edges [begin, begin + size) of `row`. A row without edges has one group of size 0.
struct NeighborGroup {
  int64_t begin = 0;
  int32_t row = 0;
  uint16_t size = 0;
  uint16_t address = 0;  // index of the row within its block: node_shared_addr of the paper's Algorithm 1
};

// A row with groups in several blocks. Its partial sums are in cell `first` and in the even cells that follow.
struct SpreadRow {
  int64_t first = 0;
  int32_t row = 0;
  int32_t pieces = 0;
};

// Arrays are in device memory.
struct NeighborGroups {
  const NeighborGroup* groups = nullptr;
  int64_t num_groups = 0;
  const SpreadRow* splits = nullptr;
  int64_t num_splits = 0;
};

// The paper's largest blocks.
inline constexpr int kMaxGroupThreads = 1024;

struct NeighborGroupConfig {
  int group_size = 0;     // gs
  int workers = 0;        // dw: adjacent lanes that share a group's columns; a power of two up to 32
  int block_threads = 0;  // tpb

  int groups_per_block() const { return block_threads / workers; }
};

// Sums of earlier launches, which are added to each row's sum. Empty: none.
struct CarriedSums {
  const float* data = nullptr;
  int64_t stride = 0;
  // row_ptr of the whole adjacency, if the groups hold a part of it. Null: that of the arguments.
  const int64_t* degree_ptr = nullptr;
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_NEIGHBOR_GROUPS_H_
