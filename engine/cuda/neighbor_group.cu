// SPDX-License-Identifier: Apache-2.0
// neighbor_group: aggregation after GNNAdvisor (Wang et al., OSDI'21, sections 5 and 6.2).
//
// Idea. The in-edges of a row are cut into groups of at most `gs`; a group is the work of `dw` lanes side by side,
// which share its columns, neighbouring lanes taking neighbouring columns; a block of `tpb` threads holds tpb / dw
// groups that follow one another, so that all groups of most rows meet in one block. Each group has its own sum
// (leader-node scheme), and the first group of a row in a block, its leader, gathers them from shared memory and is the
// only one that writes: groups that are their row's only one in the block never touch shared memory.
//
// Differs from what is published: the leader adds the groups in their order, from a slot per group in place of atomic
// additions into one per row; a row that lies in several blocks leaves a partial sum in each, which a second launch
// adds in their order; lanes load packs of up to 16 bytes; edges may have weights; maxima and minima work, too. So no
// float atomics, and equal bits at every run; but where a row's groups meet depends on the rows before it: whole graphs
// only. The published form, with atomic additions in shared and in global memory, is below (neighbor_group_atomics).
//
// Measured on an H200, unweighted sums in float32, the fastest of its candidates against the fastest of cuSPARSE
// (preprocessed), widths 16 / 64 / 128: artist 0.80 / 0.77 / 0.84 times as fast, amazon0505 1.35 / 0.93 / 0.99,
// rmat5 1.23 / 0.73 / 0.69, proteins in the order of its communities 1.36 / 1.10 / 1.09. Reading sources a batch ahead
// of their rows gained 3 % there and lost 20 % and more with weights, for the registers it takes. Moves edges * (4 + 4
// * width) bytes of gather (4 more where weighted), 16 bytes per group, rows * 4 * width of stores, and partial sums of
// at most two rows per block.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/cuda/epilogue.cuh"
#include "engine/cuda/finish_rows.h"
#include "engine/cuda/neighbor_group.h"
#include "engine/cuda/pack.cuh"

namespace vicinal::cuda {
namespace {

// Source rows on their way at once, per lane group.
constexpr int kBatch = 4;
// Threads of a block that adds up a split row, and the chains that it adds in.
constexpr int kSplitColumns = 32, kSplitChains = 8;

struct Params {
  CsrView adjacency;
  const float* src_scale;  // in place of the adjacency's values, where it has none
  ConstMatrixView src;
  MatrixView dst;
  Reduce reduce;
  float sign;  // -1: minima as maxima of what is negated
  float self_scale;
  Epilogue epilogue;
  NeighborGroups groups;
  CarriedSums carried;
  int workers;
  float* partials;  // [cells, partial_stride]
  int64_t partial_stride;
  bool vector_store;
};

template <int kVec, int kPacks>
struct Sums {
  Pack<kVec> pack[kPacks];

  __device__ void Clear(float x) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) pack[p] = Pack<kVec>::Filled(x);
  }
};

template <bool kExtreme>
__device__ inline float Neutral() {
  return kExtreme ? -INFINITY : 0.0f;
}

template <bool kExtreme>
__device__ inline float Reduced(float a, float b) {
  return kExtreme ? fmaxf(a, b) : a + b;
}

template <int kVec, int kPacks, bool kExtreme>
__device__ inline void Merge(Sums<kVec, kPacks>& sums, const Sums<kVec, kPacks>& more) {
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int v = 0; v < kVec; ++v) sums.pack[p].v[v] = Reduced<kExtreme>(sums.pack[p].v[v], more.pack[p].v[v]);
  }
}

// What `count` edges (of kBatch) add: a tree, so that sums of long groups stay accurate.
template <bool kWeighted, bool kExtreme>
__device__ inline float BatchOf(const float (&x)[kBatch], const float (&weight)[kBatch], float sign) {
  static_assert(kBatch == 4);
  if constexpr (kExtreme) {
    float best = -INFINITY;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) best = fmaxf(best, sign * (kWeighted ? weight[i] * x[i] : x[i]));
    return best;
  } else if constexpr (kWeighted) {
    return fmaf(weight[1], x[1], weight[0] * x[0]) + fmaf(weight[3], x[3], weight[2] * x[2]);
  } else {
    return (x[0] + x[1]) + (x[2] + x[3]);
  }
}

// Adds the group's edges to `sums`. `first` is the lane's first column, its packs lie `step` columns apart.
template <int kVec, int kPacks, bool kWeighted, bool kExtreme>
__device__ inline void SumGroup(const Params& params, const NeighborGroup& group, int64_t first, int step,
                                Sums<kVec, kPacks>& sums) {
  const int32_t* col = params.adjacency.col + group.begin;
  for (int base = 0; base < group.size; base += kBatch) {
    const int count = min(group.size - base, kBatch);
    Sums<kVec, kPacks> rows[kBatch];
    float weight[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int32_t source = i < count ? __ldg(col + base + i) : -1;
      weight[i] = kWeighted && i < count
                      ? EdgeWeight(params.adjacency, params.src_scale, group.begin + base + i, source)
                      : (kWeighted ? 0.0f : 1.0f);
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const int64_t column = first + p * step;
        rows[i].pack[p] = Pack<kVec>::Filled(0.0f);
        if (source >= 0 && column < params.dst.cols) {
          rows[i].pack[p] = LoadReadOnly<kVec>(params.src.data + source * params.src.stride + column);
        }
      }
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int v = 0; v < kVec; ++v) {
        float x[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          x[i] = rows[i].pack[p].v[v];
          if (kExtreme && i >= count) x[i] = x[0], weight[i] = weight[0];
        }
        float& sum = sums.pack[p].v[v];
        sum = Reduced<kExtreme>(sum, BatchOf<kWeighted, kExtreme>(x, weight, params.sign));
      }
    }
  }
}

// Mean, what was carried, self term and epilogue of one element of a finished row.
template <bool kExtreme>
__device__ inline float Finished(const Params& params, int64_t row, int64_t col, int64_t edges, float x) {
  if (kExtreme) x = edges == 0 ? 0.0f : params.sign * x;
  if (params.carried.data != nullptr) x += params.carried.data[row * params.carried.stride + col];
  if (params.reduce == Reduce::kMean && edges > 0) x = __fdiv_rn(x, static_cast<float>(edges));
  if (params.self_scale != 0.0f) x = fmaf(params.self_scale, params.src.data[row * params.src.stride + col], x);
  return ApplyEpilogue(params.epilogue, x, row, col);
}

__device__ inline int64_t DegreeOf(const Params& params, int64_t row) {
  const int64_t* ptr = params.carried.degree_ptr != nullptr ? params.carried.degree_ptr : params.adjacency.row_ptr;
  return __ldg(ptr + row + 1) - __ldg(ptr + row);
}

template <int kVec, int kPacks, bool kExtreme>
__device__ inline void StoreRow(const Params& params, int64_t row, int64_t first, int step,
                                const Sums<kVec, kPacks>& sums) {
  const int64_t edges = DegreeOf(params, row);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int64_t column = first + p * step;
    float* dst = params.dst.data + row * params.dst.stride + column;
    Pack<kVec> out = sums.pack[p];
#pragma unroll
    for (int v = 0; v < kVec; ++v) {
      if (column + v >= params.dst.cols) continue;
      out.v[v] = Finished<kExtreme>(params, row, column + v, edges, out.v[v]);
      if (!params.vector_store) dst[v] = out.v[v];
    }
    if (params.vector_store && column < params.dst.cols) StorePack<kVec>(dst, out);
  }
}

template <int kVec, int kPacks, bool kWeighted, bool kExtreme>
__global__ void NeighborGroupKernel(const __grid_constant__ Params params) {
  extern __shared__ float4 shared[];
  const int workers = params.workers, local = threadIdx.x / workers, lane = threadIdx.x % workers;
  const int per_block = blockDim.x / workers, step = workers * kVec, tile = step * kPacks;
  float* slots = reinterpret_cast<float*>(shared);  // [per_block, tile]
  int* addresses = reinterpret_cast<int*>(slots + per_block * tile);
  const int64_t index = int64_t{blockIdx.x} * per_block + local;
  const int64_t first = int64_t{blockIdx.y} * tile + lane * kVec;
  NeighborGroup group;
  if (index < params.groups.num_groups) group = params.groups.groups[index];
  const int address = index < params.groups.num_groups ? group.address : -1;
  if (lane == 0) addresses[local] = address;
  Sums<kVec, kPacks> sums;
  sums.Clear(Neutral<kExtreme>());
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
    Sums<kVec, kPacks> more;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      more.pack[p] = LoadShared<kVec>(slots + next * tile + lane * kVec + p * step);
    }
    Merge<kVec, kPacks, kExtreme>(sums, more);
  }
  if (next > local + 1) {
    const NeighborGroup last = params.groups.groups[index + (next - 1 - local)];
    end = last.begin + last.size;
  }
  const int64_t* row_ptr = params.adjacency.row_ptr + group.row;
  if (group.begin == __ldg(row_ptr) && end == __ldg(row_ptr + 1)) {
    StoreRow<kVec, kPacks, kExtreme>(params, group.row, first, step, sums);
    return;
  }
  float* partial = params.partials + (2 * int64_t{blockIdx.x} + (address == 0 ? 0 : 1)) * params.partial_stride;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int64_t column = first + p * step;
#pragma unroll
    for (int v = 0; v < kVec; ++v) {
      if (column + v < params.dst.cols) partial[column + v] = sums.pack[p].v[v];
    }
  }
}

// Adds the partial sums of one row and 32 columns, in eight chains, then the chains.
template <bool kExtreme>
__global__ void __launch_bounds__(kSplitColumns* kSplitChains) AddSplitRows(const __grid_constant__ Params params) {
  __shared__ float chains[kSplitChains][kSplitColumns];
  const SpreadRow split = params.groups.splits[blockIdx.x];
  const int lane = threadIdx.x % kSplitColumns, chain = threadIdx.x / kSplitColumns;
  const int64_t column = int64_t{blockIdx.y} * kSplitColumns + lane;
  const bool inside = column < params.dst.cols;
  float sum = Neutral<kExtreme>();
#pragma unroll 4
  for (int piece = chain; piece < split.pieces; piece += kSplitChains) {
    const int64_t cell = piece == 0 ? split.first : 2 * (split.first / 2 + piece);
    if (inside) sum = Reduced<kExtreme>(sum, params.partials[cell * params.partial_stride + column]);
  }
  chains[chain][lane] = sum;
  __syncthreads();
  if (chain > 0 || !inside) return;
  for (int c = 1; c < kSplitChains; ++c) sum = Reduced<kExtreme>(sum, chains[c][lane]);
  params.dst.data[split.row * params.dst.stride + column] =
      Finished<kExtreme>(params, split.row, column, DegreeOf(params, split.row), sum);
}

// --- the published form ---

// Sums of a row meet in one slot of shared memory, by atomic additions; its leader adds the slot to the row.
template <int kVec, int kPacks, bool kWeighted>
__global__ void NeighborGroupAtomics(const __grid_constant__ Params params) {
  extern __shared__ float4 shared[];
  const int workers = params.workers, local = threadIdx.x / workers, lane = threadIdx.x % workers;
  const int per_block = blockDim.x / workers, step = workers * kVec, tile = step * kPacks;
  float* slots = reinterpret_cast<float*>(shared);  // [rows of the block, tile]
  int* addresses = reinterpret_cast<int*>(slots + per_block * tile);
  const int64_t index = int64_t{blockIdx.x} * per_block + local;
  const int64_t first = int64_t{blockIdx.y} * tile + lane * kVec;
  NeighborGroup group;
  if (index < params.groups.num_groups) group = params.groups.groups[index];
  const int address = index < params.groups.num_groups ? group.address : -1;
  if (lane == 0) addresses[local] = address;
  for (int i = threadIdx.x; i < per_block * tile; i += blockDim.x) slots[i] = 0.0f;
  __syncthreads();
  Sums<kVec, kPacks> sums;
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
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int v = 0; v < kVec; ++v) {
      const int64_t column = first + p * step + v;
      if (column >= params.dst.cols) continue;
      atomicAdd(params.partials + group.row * params.partial_stride + column,
                slots[address * tile + lane * kVec + p * step + v]);
    }
  }
}

// Without the block's part, for what that is worth: each group adds to its row in memory by itself.
template <int kVec, int kPacks, bool kWeighted>
__global__ void NeighborGroupsApart(const __grid_constant__ Params params) {
  const int workers = params.workers, lane = threadIdx.x % workers;
  const int step = workers * kVec;
  const int64_t index = int64_t{blockIdx.x} * (blockDim.x / workers) + threadIdx.x / workers;
  const int64_t first = int64_t{blockIdx.y} * step * kPacks + lane * kVec;
  if (index >= params.groups.num_groups) return;
  const NeighborGroup group = params.groups.groups[index];
  Sums<kVec, kPacks> sums;
  sums.Clear(0.0f);
  SumGroup<kVec, kPacks, kWeighted, false>(params, group, first, step, sums);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int v = 0; v < kVec; ++v) {
      const int64_t column = first + p * step + v;
      if (column >= params.dst.cols) continue;
      atomicAdd(params.partials + group.row * params.partial_stride + column, sums.pack[p].v[v]);
    }
  }
}

// --- launches ---

int PackWidth(const ConstMatrixView& src) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(src.data);
  if (address % 16 == 0 && src.stride % 4 == 0) return 4;
  if (address % 8 == 0 && src.stride % 2 == 0) return 2;
  return 1;
}

bool StoresPacks(const MatrixView& dst, int vec) {
  return reinterpret_cast<uintptr_t>(dst.data) % (4 * vec) == 0 && dst.stride % vec == 0 && dst.cols % vec == 0;
}

int64_t BlocksFor(int64_t groups, const NeighborGroupConfig& config) {
  return (groups + config.groups_per_block() - 1) / config.groups_per_block();
}

enum class Kind { kSums, kExtremes, kAtomicSums, kAtomicSumsApart };

template <int kVec, int kPacks, bool kWeighted>
void LaunchKind(const Params& params, const NeighborGroupConfig& config, Kind kind, cudaStream_t stream) {
  const int tile = config.workers * kVec * kPacks;
  const dim3 grid(static_cast<unsigned>(BlocksFor(params.groups.num_groups, config)),
                  static_cast<unsigned>((params.dst.cols + tile - 1) / tile));
  const size_t shared = static_cast<size_t>(config.groups_per_block()) * (tile * sizeof(float) + sizeof(int));
  if (kind == Kind::kSums) {
    NeighborGroupKernel<kVec, kPacks, kWeighted, false><<<grid, config.block_threads, shared, stream>>>(params);
  } else if (kind == Kind::kExtremes) {
    NeighborGroupKernel<kVec, kPacks, kWeighted, true><<<grid, config.block_threads, shared, stream>>>(params);
  } else if (kind == Kind::kAtomicSums) {
    NeighborGroupAtomics<kVec, kPacks, kWeighted><<<grid, config.block_threads, shared, stream>>>(params);
  } else {
    NeighborGroupsApart<kVec, kPacks, kWeighted><<<grid, config.block_threads, 0, stream>>>(params);
  }
}

template <int kVec>
void LaunchVec(const Params& params, const NeighborGroupConfig& config, Kind kind, cudaStream_t stream) {
  const bool weighted = params.adjacency.value != nullptr || params.src_scale != nullptr;
  const bool two_packs = params.dst.cols > config.workers * kVec;
  if (two_packs) {
    weighted ? LaunchKind<kVec, 2, true>(params, config, kind, stream)
             : LaunchKind<kVec, 2, false>(params, config, kind, stream);
  } else {
    weighted ? LaunchKind<kVec, 1, true>(params, config, kind, stream)
             : LaunchKind<kVec, 1, false>(params, config, kind, stream);
  }
}

void LaunchGroups(const Params& params, const NeighborGroupConfig& config, Kind kind, cudaStream_t stream) {
  const int vec = PackWidth(params.src);
  if (vec == 4) return LaunchVec<4>(params, config, kind, stream);
  if (vec == 2) return LaunchVec<2>(params, config, kind, stream);
  LaunchVec<1>(params, config, kind, stream);
}

Params MakeParams(const AggregateArgs& args, const NeighborGroupConfig& config, const NeighborGroups& groups,
                  void* scratch) {
  Params params;
  params.adjacency = args.adjacency;
  params.src_scale = args.src_scale;
  params.src = args.src;
  params.dst = args.dst;
  params.reduce = args.problem.reduce;
  params.sign = args.problem.reduce == Reduce::kMin ? -1.0f : 1.0f;
  params.self_scale = args.self_scale;
  params.epilogue = args.epilogue;
  params.groups = groups;
  params.workers = config.workers;
  params.partials = static_cast<float*>(scratch);
  params.partial_stride = args.dst.cols;
  params.vector_store = StoresPacks(args.dst, PackWidth(args.src));
  return params;
}

}  // namespace

size_t NeighborGroupScratch(const AggregateProblem& problem, const NeighborGroupConfig& config) {
  const int64_t most_groups = problem.edges / config.group_size + problem.rows;
  return static_cast<size_t>(2 * BlocksFor(most_groups, config) * problem.width) * sizeof(float);
}

cudaError_t LaunchNeighborGroup(const AggregateArgs& args, const NeighborGroupConfig& config,
                                const NeighborGroups& groups, const CarriedSums& carried, const LaunchTarget& target,
                                void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  Params params = MakeParams(args, config, groups, scratch);
  params.carried = carried;
  const bool extreme = args.problem.reduce == Reduce::kMax || args.problem.reduce == Reduce::kMin;
  LaunchGroups(params, config, extreme ? Kind::kExtremes : Kind::kSums, target.stream);
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

size_t NeighborGroupAtomicsScratch(const AggregateProblem& problem) {
  return static_cast<size_t>(problem.rows * problem.width) * sizeof(float);
}

cudaError_t LaunchNeighborGroupAtomics(const AggregateArgs& args, const NeighborGroupConfig& config,
                                       const NeighborGroups& groups, bool apart, const LaunchTarget& target,
                                       void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const Params params = MakeParams(args, config, groups, scratch);
  const int64_t elements = args.dst.rows * args.dst.cols;
  const cudaError_t error = cudaMemsetAsync(scratch, 0, elements * sizeof(float), target.stream);
  if (error != cudaSuccess) return error;
  LaunchGroups(params, config, apart ? Kind::kAtomicSumsApart : Kind::kAtomicSums, target.stream);
  return LaunchFinishRows(args, params.partials, params.partial_stride, target);
}

}  // namespace vicinal::cuda
