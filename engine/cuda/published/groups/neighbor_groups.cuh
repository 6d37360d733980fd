// SPDX-License-Identifier: Apache-2.0
// The common parts of the engine's kernel (neighbor_group.cu) and the published one (neighbor_group_atomics.cu): how a
// lane sums a group's edges, and how lanes cover the columns.
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_NEIGHBOR_GROUPS_CUH_
#define VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_NEIGHBOR_GROUPS_CUH_

#include <cmath>
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/larger.cuh"
#include "engine/cuda/common/pack.cuh"
#include "engine/cuda/published/groups/neighbor_groups.h"
#include "engine/kernels/operations.h"

namespace vicinal::cuda {

// Source rows in flight at once, per group of lanes.
inline constexpr int kGroupBatch = 4;

struct GroupWork {
  CsrView adjacency;  // [R, S]
  NeighborGroups groups;
  int workers;  // lanes that share a group's columns
};

struct GroupSource {
  ConstMatrixView rows;  // [S, D]
  const float* scale;    // [S], if the adjacency has no values
  float sign;            // factor of messages: -1 for minima, computed as maxima of negated messages
};

struct GroupParts {
  float* partials;  // [cells, partial_stride]
  int64_t partial_stride;
};

struct GroupEpilogue {
  MatrixView dst;  // [R, D]
  Reduce reduce;
  float self_scale;  // of the row's own source; 0: no self term
  Epilogue epilogue;
  CarriedSums carried;
  Access dst_access;
};

// The argument of the kernels over neighbour groups. Trivially copyable.
struct GroupParams {
  GroupWork work;
  GroupSource source;
  GroupParts parts;
  GroupEpilogue out;
};

template <int kVec, int kPacks>
struct GroupSums {
  Pack<kVec> pack[kPacks];

  __device__ void Clear(float x) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) pack[p] = Pack<kVec>::Filled(x);
  }
};

template <bool kExtreme>
__device__ inline float GroupIdentity() {
  return kExtreme ? -INFINITY : 0.0f;
}

template <bool kExtreme>
__device__ inline float GroupReduced(float a, float b) {
  return kExtreme ? LargerOf(a, b) : a + b;
}

// Reduces the kGroupBatch messages as a tree, so that sums of long groups stay accurate.
template <bool kWeighted, bool kExtreme>
__device__ inline float GroupBatchOf(const float (&x)[kGroupBatch], const float (&weight)[kGroupBatch], float sign) {
  static_assert(kGroupBatch == 4);
  if constexpr (kExtreme) {
    float best = -INFINITY;
#pragma unroll
    for (int i = 0; i < kGroupBatch; ++i) best = LargerOf(best, sign * (kWeighted ? weight[i] * x[i] : x[i]));
    return best;
  } else if constexpr (kWeighted) {
    return fmaf(weight[1], x[1], weight[0] * x[0]) + fmaf(weight[3], x[3], weight[2] * x[2]);
  } else {
    return (x[0] + x[1]) + (x[2] + x[3]);
  }
}

// Adds the group's edges to `sums`. `first` is the lane's first column; its packs are `step` columns apart.
template <int kVec, int kPacks, bool kWeighted, bool kExtreme>
__device__ inline void SumGroup(const GroupParams& params, const NeighborGroup& group, int64_t first, int step,
                                GroupSums<kVec, kPacks>& sums) {
  const int32_t* col = params.work.adjacency.col + group.begin;
  for (int base = 0; base < group.size; base += kGroupBatch) {
    const int count = min(group.size - base, kGroupBatch);
    GroupSums<kVec, kPacks> rows[kGroupBatch];
    float weight[kGroupBatch];
#pragma unroll
    for (int i = 0; i < kGroupBatch; ++i) {
      const int32_t source = i < count ? __ldg(col + base + i) : -1;
      weight[i] = kWeighted && i < count
                      ? EdgeWeight(params.work.adjacency, params.source.scale, group.begin + base + i, source)
                      : (kWeighted ? 0.0f : 1.0f);
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const int64_t column = first + p * step;
        rows[i].pack[p] = Pack<kVec>::Filled(0.0f);
        if (source >= 0 && column < params.out.dst.cols) {
          rows[i].pack[p] = LoadReadOnly<kVec>(params.source.rows.data + source * params.source.rows.stride + column);
        }
      }
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int v = 0; v < kVec; ++v) {
        float x[kGroupBatch];
#pragma unroll
        for (int i = 0; i < kGroupBatch; ++i) {
          x[i] = rows[i].pack[p].v[v];
          if (kExtreme && i >= count) x[i] = x[0], weight[i] = weight[0];
        }
        float& sum = sums.pack[p].v[v];
        sum = GroupReduced<kExtreme>(sum, GroupBatchOf<kWeighted, kExtreme>(x, weight, params.source.sign));
      }
    }
  }
}

inline int64_t GroupBlocks(int64_t groups, const NeighborGroupConfig& config) {
  return (groups + config.groups_per_block() - 1) / config.groups_per_block();
}

// Larger blocks have kernels of their own with fewer registers, in which a lane has one pack of columns.
inline constexpr int kFewGroupThreads = 512;

struct GroupGrid {
  dim3 blocks;
  int threads = 0;
  size_t shared = 0;  // a slot and an address per group
};

template <int kVec, int kPacks, class Launch>
void LaunchGroupsOf(const GroupParams& params, const NeighborGroupConfig& config, const Launch& launch) {
  const int tile = config.workers * kVec * kPacks;
  const GroupGrid grid = {dim3(static_cast<unsigned>(GroupBlocks(params.work.groups.num_groups, config)),
                               static_cast<unsigned>((params.out.dst.cols + tile - 1) / tile)),
                          config.block_threads,
                          static_cast<size_t>(config.groups_per_block()) * (tile * sizeof(float) + sizeof(int))};
  const bool weighted = params.work.adjacency.value != nullptr || params.source.scale != nullptr;
  weighted ? launch.template Run<kVec, kPacks, true>(params, grid)
           : launch.template Run<kVec, kPacks, false>(params, grid);
}

template <int kVec, class Launch>
void LaunchGroupsIn(const GroupParams& params, const NeighborGroupConfig& config, const Launch& launch) {
  const bool two = params.out.dst.cols > config.workers * kVec && config.block_threads <= kFewGroupThreads;
  two ? LaunchGroupsOf<kVec, 2>(params, config, launch) : LaunchGroupsOf<kVec, 1>(params, config, launch);
}

// Calls launch.Run<kVec, kPacks, kWeighted>(params, grid) with the template arguments that fit the problem.
template <class Launch>
void LaunchGroups(const GroupParams& params, const NeighborGroupConfig& config, const Launch& launch) {
  const int vec = PackWidth(params.source.rows);
  if (vec == 4) return LaunchGroupsIn<4>(params, config, launch);
  if (vec == 2) return LaunchGroupsIn<2>(params, config, launch);
  LaunchGroupsIn<1>(params, config, launch);
}

inline GroupParams MakeGroupParams(const AggregateArgs& args, const NeighborGroupConfig& config,
                                   const NeighborGroups& groups, void* scratch) {
  GroupParams params;
  params.work.adjacency = args.adjacency;
  params.source.scale = args.src_scale;
  params.source.rows = args.src;
  params.out.dst = args.dst;
  params.out.reduce = args.problem.reduce;
  params.source.sign = args.problem.reduce == Reduce::kMin ? -1.0f : 1.0f;
  params.out.self_scale = args.self_scale;
  params.out.epilogue = args.epilogue;
  params.work.groups = groups;
  params.work.workers = config.workers;
  params.parts.partials = static_cast<float*>(scratch);
  params.parts.partial_stride = args.dst.cols;
  const int vec = PackWidth(args.src);
  params.out.dst_access = PacksIf(InPacks(args.dst, vec) && args.dst.cols % vec == 0);
  return params;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_GROUPS_NEIGHBOR_GROUPS_CUH_
