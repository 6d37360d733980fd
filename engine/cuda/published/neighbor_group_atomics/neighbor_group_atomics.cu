// SPDX-License-Identifier: Apache-2.0
// neighbor_group_atomics: GNNAdvisor as published (Wang et al., OSDI'21, sections 5 and 6.2). It has the groups of
// neighbor_group.cu, but combines them by atomic additions: in shared memory within a block, and in global memory by
// their leaders. A further pass applies mean, self term and epilogue. Bits may differ from run to run, so it is used
// only if forced, for measurements. Sums and means only. Traffic: that of neighbor_group, plus one more pass over the
// sums: cleared, added to at the L2, read and stored.
#include <cstdint>

#include "engine/cuda/aggregate/rows/finish_rows.h"
#include "engine/cuda/published/groups/neighbor_groups.cuh"
#include "engine/cuda/published/neighbor_group_atomics/neighbor_group_atomics.h"

namespace vicinal::cuda {
namespace {

// Atomically adds value(pack, v) for each of the lane's columns to the row's sums in global memory.
template <int kVec, int kPacks, class Value>
__device__ inline void AddToRow(const GroupParams& params, int64_t row, int64_t first, int step, const Value& value) {
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int v = 0; v < kVec; ++v) {
      const int64_t column = first + p * step + v;
      if (column < params.out.dst.cols)
        atomicAdd(params.parts.partials + row * params.parts.partial_stride + column, value(p, v));
    }
  }
}

// The groups of a row in a block add to one slot of shared memory; their leader adds the slot to the row.
template <int kVec, int kPacks, bool kWeighted, int kMaxThreads>
__global__ void __launch_bounds__(kMaxThreads) NeighborGroupAtomics(const __grid_constant__ GroupParams params) {
  extern __shared__ float4 shared[];
  const int workers = params.work.workers, local = threadIdx.x / workers, lane = threadIdx.x % workers;
  const int per_block = blockDim.x / workers, step = workers * kVec, tile = step * kPacks;
  float* slots = reinterpret_cast<float*>(shared);  // [rows of the block, tile]
  int* addresses = reinterpret_cast<int*>(slots + per_block * tile);
  const int64_t index = int64_t{blockIdx.x} * per_block + local;
  const int64_t first = int64_t{blockIdx.y} * tile + lane * kVec;
  NeighborGroup group;
  if (index < params.work.groups.num_groups) group = params.work.groups.groups[index];
  const int address = index < params.work.groups.num_groups ? group.address : -1;
  if (lane == 0) addresses[local] = address;
  for (int i = threadIdx.x; i < per_block * tile; i += blockDim.x) slots[i] = 0.0f;
  __syncthreads();
  GroupSums<kVec, kPacks> sums;
  sums.Clear(0.0f);
  if (address >= 0) {
    SumGroup<kVec, kPacks, kWeighted, false>(params, group, first, step, sums);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int v = 0; v < kVec; ++v) atomicAdd(slots + address * tile + lane * kVec + p * step + v, sums.pack[p].v[v]);
    }
  }
  __syncthreads();
  if (address < 0 || (local > 0 && addresses[local - 1] == address)) return;
  const float* const slot = slots + address * tile + lane * kVec;
  AddToRow<kVec, kPacks>(params, group.row, first, step, [&](int p, int v) { return slot[p * step + v]; });
}

// Without the block-level optimisation, to measure its value: each group adds to its row in global memory.
template <int kVec, int kPacks, bool kWeighted, int kMaxThreads>
__global__ void __launch_bounds__(kMaxThreads) NeighborGroupsApart(const __grid_constant__ GroupParams params) {
  const int workers = params.work.workers, lane = threadIdx.x % workers;
  const int step = workers * kVec;
  const int64_t index = int64_t{blockIdx.x} * (blockDim.x / workers) + threadIdx.x / workers;
  const int64_t first = int64_t{blockIdx.y} * step * kPacks + lane * kVec;
  if (index >= params.work.groups.num_groups) return;
  const NeighborGroup group = params.work.groups.groups[index];
  GroupSums<kVec, kPacks> sums;
  sums.Clear(0.0f);
  SumGroup<kVec, kPacks, kWeighted, false>(params, group, first, step, sums);
  AddToRow<kVec, kPacks>(params, group.row, first, step, [&](int p, int v) { return sums.pack[p].v[v]; });
}

struct AtomicsLaunch {
  bool apart;
  cudaStream_t stream;

  template <int kVec, int kPacks, bool kWeighted>
  void Run(const GroupParams& params, const GroupGrid& grid) const {
    if constexpr (kPacks == 1) {
      if (grid.threads > kFewGroupThreads) return RunOf<kVec, kPacks, kWeighted, kMaxGroupThreads>(params, grid);
    }
    RunOf<kVec, kPacks, kWeighted, kFewGroupThreads>(params, grid);
  }

 private:
  template <int kVec, int kPacks, bool kWeighted, int kMaxThreads>
  void RunOf(const GroupParams& params, const GroupGrid& grid) const {
    if (apart) {
      NeighborGroupsApart<kVec, kPacks, kWeighted, kMaxThreads><<<grid.blocks, grid.threads, 0, stream>>>(params);
    } else {
      NeighborGroupAtomics<kVec, kPacks, kWeighted, kMaxThreads>
          <<<grid.blocks, grid.threads, grid.shared, stream>>>(params);
    }
  }
};

}  // namespace

size_t NeighborGroupAtomicsScratch(const AggregateProblem& problem) {
  return static_cast<size_t>(problem.rows * problem.width) * sizeof(float);
}

cudaError_t LaunchNeighborGroupAtomics(const AggregateArgs& args, const NeighborGroupConfig& config,
                                       const NeighborGroups& groups, bool apart, const LaunchTarget& target,
                                       void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const GroupParams params = MakeGroupParams(args, config, groups, scratch);
  const int64_t elements = args.dst.rows * args.dst.cols;
  const cudaError_t error = cudaMemsetAsync(scratch, 0, elements * sizeof(float), target.stream);
  if (error != cudaSuccess) return error;
  LaunchGroups(params, config, AtomicsLaunch{apart, target.stream});
  return LaunchFinishRows(args, params.parts.partials, params.parts.partial_stride, {}, {}, target);
}

}  // namespace vicinal::cuda
