// SPDX-License-Identifier: Apache-2.0
// FeatGraph's hybrid partitioning on a GPU (Hu et al., SC'20, section III-C): source rows of high degree are read from
// shared memory.
//
// Idea. Sources of high degree are cut into partitions of 1,536, of which 32 columns fit a block's shared memory (16 or
// 8 if a GPU has less). There is one launch per partition. A block copies the partition's rows to shared memory (times
// their factors if weights are rank-1). Then groups of 8 lanes (or 4, or 2) walk over the rows' edges from it, 16 bytes
// per lane. A row's sum is added to that of the previous partitions in global memory: the merge cost of the paper.
// template_spmm sums all other edges. Faster if a few sources have most of the edges, so that a block reads each staged
// row many times; each partition reads and writes all sums once.
// Order of evaluation: edge j of a row and partition goes to chain j mod 4, in spans of 256 edges; spans and partitions
// are added in order. There are no float atomics. Traffic: edges * 2 (6 with weights) bytes of indices per tile of 32
// columns, blocks * 192 KiB of staging, and partitions * rows * 8 * width bytes of sums.
#include <algorithm>
#include <cstdint>

#include "engine/cuda/message/message.cuh"
#include "engine/cuda/published/staged_rows/staged_rows.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 1024, kVec = 4;
constexpr int kChains = 4, kSpanEdges = 256;
template <int kColumns>
constexpr int kShared = kStagedSources* kColumns* static_cast<int>(sizeof(float));

struct Params {
  ConstMatrixView src;
  const float* src_scale;
  StagedEdges edges;
  int64_t rows;
  Reduce reduce;
  float* sums;
  int64_t stride;
  int partition;
  int runs_per_block;
};

template <int kColumns>
__device__ inline void StageSources(const Params& params, float* staged) {
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  const int64_t from = int64_t{blockIdx.y} * kColumns + column;
  const int32_t* source = params.edges.source + int64_t{params.partition} * kStagedSources;
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x) / kColumns; i < kStagedSources; i += kThreads / kColumns) {
    const int32_t node = __ldg(source + i);
    float x = 0.0f;
    if (node >= 0 && from < params.src.cols) {
      x = __ldg(params.src.data + node * params.src.stride + from);
      if (params.src_scale != nullptr) x *= __ldg(params.src_scale + node);
    }
    staged[i * kColumns + column] = x;
  }
}

// The next kChains edges of a row. If fewer remain, the last one is repeated.
template <bool kWeighted>
struct EdgeBatch {
  int local[kChains];
  float weight[kChains];

  __device__ EdgeBatch(const StagedEdges& edges, int32_t base, int32_t end) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      const int32_t edge = min(base + i, end - 1);
      local[i] = __ldg(edges.local + edge);
      weight[i] = kWeighted ? __ldg(edges.value + edge) : 1.0f;
    }
  }
};

// Reduces edges [begin, end) of a row, at least one. `staged` points to the lane's columns. The indices of the next
// edges are loaded while the current ones are added.
template <int kColumns, bool kWeighted, bool kExtreme>
__device__ inline Pack<kVec> ReduceSpan(const Params& params, const float* staged, int32_t begin, int32_t end) {
  using Reduction = Reducer<kExtreme>;
  const float sign = Reduction::Sign(params.reduce);
  Pack<kVec> chain[kChains];
#pragma unroll
  for (int i = 0; i < kChains; ++i) chain[i] = Pack<kVec>::Filled(Reduction::Identity());
  EdgeBatch<kWeighted> edges(params.edges, begin, end);
  for (int32_t base = begin; base < end; base += kChains) {
    const EdgeBatch<kWeighted> next(params.edges, base + kChains, end);
#pragma unroll
    for (int i = 0; i < kChains; ++i) {
      if (base + i >= end) break;
      const Pack<kVec> u = LoadShared<kVec>(staged + edges.local[i] * kColumns);
#pragma unroll
      for (int v = 0; v < kVec; ++v) {
        const float m = kWeighted ? u.v[v] * edges.weight[i] : u.v[v];
        chain[i].v[v] = Reduction::Combine(chain[i].v[v], kExtreme ? sign * m : m);
      }
    }
    edges = next;
  }
  Pack<kVec> total;
#pragma unroll
  for (int v = 0; v < kVec; ++v) {
    total.v[v] = Reduction::Combine(Reduction::Combine(chain[0].v[v], chain[2].v[v]),
                                    Reduction::Combine(chain[1].v[v], chain[3].v[v]));
  }
  return total;
}

// Sums in spans, which keep the chains short and so the rounding small.
template <int kColumns, bool kWeighted, bool kExtreme>
__device__ inline void AddStaged(const Params& params, const float* staged, int32_t begin, int32_t end,
                                 Pack<kVec>& sum) {
  for (; begin < end; begin += kSpanEdges) {
    const Pack<kVec> more =
        ReduceSpan<kColumns, kWeighted, kExtreme>(params, staged, begin, min(begin + kSpanEdges, end));
#pragma unroll
    for (int v = 0; v < kVec; ++v) sum.v[v] = Reducer<kExtreme>::Combine(sum.v[v], more.v[v]);
  }
}

template <int kColumns, bool kWeighted, bool kExtreme>
__global__ void __launch_bounds__(kThreads, 1) StagedRows(const __grid_constant__ Params params) {
  constexpr int kLanes = kColumns / kVec, kGroups = kThreads / kLanes;
  extern __shared__ float4 shared[];
  float* staged = reinterpret_cast<float*>(shared);  // [kStagedSources, kColumns]
  StageSources<kColumns>(params, staged);
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int64_t column = int64_t{blockIdx.y} * kColumns + lane * kVec;
  if (column >= params.stride) return;
  const int32_t* border = params.edges.border + int64_t{params.partition} * (kRowRuns + 1);
  const int32_t* row_ptr = params.edges.row_ptr + params.partition * (params.rows + 1);
  const int first_run = static_cast<int>(blockIdx.x) * params.runs_per_block;
  const int32_t end = __ldg(border + first_run + params.runs_per_block);
  int32_t row = __ldg(border + first_run) + static_cast<int>(threadIdx.x) / kLanes;
  int32_t from = 0, to = 0;
  if (row < end) from = __ldg(row_ptr + row), to = __ldg(row_ptr + row + 1);
  for (; row < end; row += kGroups) {
    const int32_t begin = from, count = to - from;
    if (row + kGroups < end) from = __ldg(row_ptr + row + kGroups), to = __ldg(row_ptr + row + kGroups + 1);
    if (count == 0 && params.partition > 0) continue;
    float* sums = params.sums + row * params.stride + column;
    Pack<kVec> sum = Pack<kVec>::Filled(Reducer<kExtreme>::Identity());
    if (params.partition > 0) sum = LoadCoherent<kVec>(sums);
    AddStaged<kColumns, kWeighted, kExtreme>(params, staged + lane * kVec, begin, begin + count, sum);
    StorePack<kVec>(sums, sum);
  }
}

// One or two waves of blocks per partition, whatever the number of column tiles.
int RunsPerBlock(int64_t tiles) { return tiles >= 4 ? 4 : tiles >= 2 ? 2 : 1; }

template <int kColumns, bool kWeighted, bool kExtreme>
cudaError_t LaunchColumns(Params params, int64_t width, const LaunchTarget& target) {
  const auto kernel = &StagedRows<kColumns, kWeighted, kExtreme>;
  const cudaError_t error = AllowShared(kernel, kShared<kColumns>, target.limits);
  if (error != cudaSuccess) return error;
  const int64_t tiles = (width + kColumns - 1) / kColumns;
  params.runs_per_block = RunsPerBlock(tiles);
  const dim3 grid(static_cast<unsigned>(kRowRuns / params.runs_per_block), static_cast<unsigned>(tiles));
  for (params.partition = 0; params.partition < params.edges.partitions; ++params.partition) {
    kernel<<<grid, kThreads, kShared<kColumns>, target.stream>>>(params);
  }
  return cudaGetLastError();
}

// Uses as many columns per tile as fit. The bits are equal for all.
template <bool kWeighted, bool kExtreme>
cudaError_t Launch(const Params& params, int64_t width, const LaunchTarget& target) {
  if (target.limits.Fits(kShared<32>)) return LaunchColumns<32, kWeighted, kExtreme>(params, width, target);
  if (target.limits.Fits(kShared<16>)) return LaunchColumns<16, kWeighted, kExtreme>(params, width, target);
  return LaunchColumns<8, kWeighted, kExtreme>(params, width, target);
}

}  // namespace

cudaError_t LaunchStagedRows(const AggregateArgs& args, const StagedEdges& edges, float* sums, int64_t stride,
                             const LaunchTarget& target) {
  static_assert(kRowRuns % 4 == 0, "blocks take whole numbers of runs");
  const Params params{args.src, args.src_scale, edges, args.dst.rows, args.problem.reduce, sums, stride, 0, 0};
  const bool extreme = IsExtreme(args.problem.reduce);
  if (edges.value != nullptr) {
    return extreme ? Launch<true, true>(params, args.dst.cols, target)
                   : Launch<true, false>(params, args.dst.cols, target);
  }
  return extreme ? Launch<false, true>(params, args.dst.cols, target)
                 : Launch<false, false>(params, args.dst.cols, target);
}

}  // namespace vicinal::cuda
