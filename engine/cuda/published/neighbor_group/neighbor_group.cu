// SPDX-License-Identifier: Apache-2.0
// neighbor_group: aggregation after GNNAdvisor (Wang et al., OSDI'21, sections 5 and 6.2).
//
// Idea. The in-edges of a row are cut into groups of at most `gs` edges. `dw` adjacent lanes sum a group; adjacent
// lanes have adjacent columns. A block of `tpb` threads has tpb / dw consecutive groups, so that for most rows all
// groups are in one block. Each group has a sum of its own. The first group of a row in a block, its leader, gathers
// the row's sums from shared memory and is the only one that writes them (leader-node scheme). Groups that are alone in
// their row and block never use shared memory.
//
// Differences from the paper: the leader adds the groups in order, from a slot per group, instead of atomic additions
// to one slot per row. A row in several blocks leaves a partial sum in each, which a second launch adds in order. Lanes
// load packs of up to 16 bytes. Edges may have weights, and maxima and minima are supported. So there are no float
// atomics, and the bits are equal in every run. But where a row's groups meet depends on the rows before it, so the
// kernel serves whole graphs only. The published form, with atomic additions in shared and global memory, is
// neighbor_group_atomics.cu.
//
// Measured on an H200, unweighted sums in float32, speed of the fastest candidate relative to the fastest cuSPARSE
// algorithm (preprocessed), widths 16 / 64 / 128: artist 0.80 / 0.77 / 0.84, amazon0505 1.35 / 0.93 / 0.99, rmat5 1.23
// / 0.73 / 0.69, proteins ordered by communities 1.36 / 1.10 / 1.09. Loading source ids a batch ahead gained 3 % on
// these, but lost 20 % and more with weights, as it takes registers. Traffic: edges * (4 + 4 * width) bytes of gather
// (4 more per edge with weights), 16 bytes per group, rows * 4 * width of stores, and partial sums of at most two rows
// per block.
#include <cmath>
#include <cstdint>

#include "engine/cuda/published/groups/finished_row.cuh"
#include "engine/cuda/published/groups/neighbor_groups.cuh"
#include "engine/cuda/published/neighbor_group/neighbor_group.h"

namespace vicinal::cuda {
namespace {

// The threads of a block that adds a split row: columns x chains of additions.
constexpr int kSplitColumns = 32, kSplitChains = 8;

template <int kVec, int kPacks, bool kExtreme>
__device__ inline void Merge(GroupSums<kVec, kPacks>& sums, const GroupSums<kVec, kPacks>& more) {
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int v = 0; v < kVec; ++v) sums.pack[p].v[v] = GroupReduced<kExtreme>(sums.pack[p].v[v], more.pack[p].v[v]);
  }
}

template <bool kExtreme>
__device__ inline float Finished(const GroupParams& params, int64_t row, int64_t col, int64_t edges, float x) {
  if (kExtreme) x = edges == 0 ? 0.0f : params.source.sign * x;
  const RowEnd end = {params.out.carried, params.out.reduce, params.out.self_scale, params.out.epilogue,
                      params.source.rows};
  return FinishedRow(end, row, col, edges, x);
}

__device__ inline int64_t DegreeOf(const GroupParams& params, int64_t row) {
  return WholeDegree(params.out.carried, params.work.adjacency.row_ptr, row);
}

template <int kVec, int kPacks, bool kExtreme>
__device__ inline void FinishRow(const GroupParams& params, int64_t row, int64_t first, int step,
                                 const GroupSums<kVec, kPacks>& sums) {
  const int64_t edges = DegreeOf(params, row);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int64_t column = first + p * step;
    float* dst = params.out.dst.data + row * params.out.dst.stride + column;
    Pack<kVec> out = sums.pack[p];
#pragma unroll
    for (int v = 0; v < kVec; ++v) {
      if (column + v >= params.out.dst.cols) continue;
      out.v[v] = Finished<kExtreme>(params, row, column + v, edges, out.v[v]);
      if (params.out.dst_access == Access::kElements) dst[v] = out.v[v];
    }
    if (params.out.dst_access != Access::kElements && column < params.out.dst.cols) StorePack<kVec>(dst, out);
  }
}

template <int kVec, int kPacks, bool kWeighted, bool kExtreme, int kMaxThreads>
__global__ void __launch_bounds__(kMaxThreads) NeighborGroupKernel(const __grid_constant__ GroupParams params) {
  extern __shared__ float4 shared[];
  const int workers = params.work.workers, local = threadIdx.x / workers, lane = threadIdx.x % workers;
  const int per_block = blockDim.x / workers, step = workers * kVec, tile = step * kPacks;
  float* slots = reinterpret_cast<float*>(shared);  // [per_block, tile]
  int* addresses = reinterpret_cast<int*>(slots + per_block * tile);
  const int64_t index = int64_t{blockIdx.x} * per_block + local;
  const int64_t first = int64_t{blockIdx.y} * tile + lane * kVec;
  NeighborGroup group;
  if (index < params.work.groups.num_groups) group = params.work.groups.groups[index];
  const int address = index < params.work.groups.num_groups ? group.address : -1;
  if (lane == 0) addresses[local] = address;
  GroupSums<kVec, kPacks> sums;
  sums.Clear(GroupIdentity<kExtreme>());
  if (address >= 0) SumGroup<kVec, kPacks, kWeighted, kExtreme>(params, group, first, step, sums);
  __syncthreads();
  const bool leads = address >= 0 && (local == 0 || addresses[local - 1] != address);
  if (address >= 0 && !leads) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) StorePack<kVec>(slots + local * tile + lane * kVec + p * step, sums.pack[p]);
  }
  __syncthreads();
  if (!leads) return;
  int next = local + 1;
  int64_t end = group.begin + group.size;
  for (; next < per_block && addresses[next] == address; ++next) {
    GroupSums<kVec, kPacks> more;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      more.pack[p] = LoadShared<kVec>(slots + next * tile + lane * kVec + p * step);
    }
    Merge<kVec, kPacks, kExtreme>(sums, more);
  }
  if (next > local + 1) {
    const NeighborGroup last = params.work.groups.groups[index + (next - 1 - local)];
    end = last.begin + last.size;
  }
  const int64_t* row_ptr = params.work.adjacency.row_ptr + group.row;
  if (group.begin == __ldg(row_ptr) && end == __ldg(row_ptr + 1)) {
    FinishRow<kVec, kPacks, kExtreme>(params, group.row, first, step, sums);
    return;
  }
  float* partial =
      params.parts.partials + (2 * int64_t{blockIdx.x} + (address == 0 ? 0 : 1)) * params.parts.partial_stride;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int64_t column = first + p * step;
#pragma unroll
    for (int v = 0; v < kVec; ++v) {
      if (column + v < params.out.dst.cols) partial[column + v] = sums.pack[p].v[v];
    }
  }
}

// Adds the partial sums of one row and kSplitColumns columns in kSplitChains chains, then adds the chains.
template <bool kExtreme>
__global__ void __launch_bounds__(kSplitColumns* kSplitChains)
    AddSplitRows(const __grid_constant__ GroupParams params) {
  __shared__ float chains[kSplitChains][kSplitColumns];
  const SpreadRow split = params.work.groups.splits[blockIdx.x];
  const int lane = threadIdx.x % kSplitColumns, chain = threadIdx.x / kSplitColumns;
  const int64_t column = int64_t{blockIdx.y} * kSplitColumns + lane;
  const bool inside = column < params.out.dst.cols;
  float sum = GroupIdentity<kExtreme>();
#pragma unroll 4
  for (int piece = chain; piece < split.pieces; piece += kSplitChains) {
    const int64_t cell = piece == 0 ? split.first : 2 * (split.first / 2 + piece);
    if (inside) sum = GroupReduced<kExtreme>(sum, params.parts.partials[cell * params.parts.partial_stride + column]);
  }
  chains[chain][lane] = sum;
  __syncthreads();
  if (chain > 0 || !inside) return;
  for (int c = 1; c < kSplitChains; ++c) sum = GroupReduced<kExtreme>(sum, chains[c][lane]);
  params.out.dst.data[split.row * params.out.dst.stride + column] =
      Finished<kExtreme>(params, split.row, column, DegreeOf(params, split.row), sum);
}

struct SumsLaunch {
  bool extreme;
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
    const auto kernel = extreme ? &NeighborGroupKernel<kVec, kPacks, kWeighted, true, kMaxThreads>
                                : &NeighborGroupKernel<kVec, kPacks, kWeighted, false, kMaxThreads>;
    kernel<<<grid.blocks, grid.threads, grid.shared, stream>>>(params);
  }
};

}  // namespace

size_t NeighborGroupScratch(const AggregateProblem& problem, const NeighborGroupConfig& config) {
  const int64_t max_groups = problem.edges / config.group_size + problem.rows;
  return static_cast<size_t>(2 * GroupBlocks(max_groups, config) * problem.width) * sizeof(float);
}

cudaError_t LaunchNeighborGroup(const AggregateArgs& args, const NeighborGroupConfig& config,
                                const NeighborGroups& groups, const CarriedSums& carried, const LaunchTarget& target,
                                void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  GroupParams params = MakeGroupParams(args, config, groups, scratch);
  params.out.carried = carried;
  const bool extreme = IsExtreme(args.problem.reduce);
  LaunchGroups(params, config, SumsLaunch{extreme, target.stream});
  if (groups.num_splits > 0) {
    const dim3 grid(static_cast<unsigned>(groups.num_splits),
                    static_cast<unsigned>((args.dst.cols + kSplitColumns - 1) / kSplitColumns));
    if (extreme) {
      AddSplitRows<true><<<grid, kSplitColumns * kSplitChains, 0, target.stream>>>(params);
    } else {
      AddSplitRows<false><<<grid, kSplitColumns * kSplitChains, 0, target.stream>>>(params);
    }
  }
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
