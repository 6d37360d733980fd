// SPDX-License-Identifier: Apache-2.0
// row_cache: aggregation after GE-SpMM (Huang et al., SC'20). Uses CSR as it is, needs no preparation, supports any
// reduce.
//
// Idea. A warp takes a row and 32 * CF columns. Coalesced row caching (CRC): the warp loads 32 column indices (and
// weights) of the row at once into shared memory, converted to row pointers; then all lanes walk over them.
// Coarse-grained warp merging (CWM): CF groups of columns per warp share this walk, with CF independent loads in
// flight. Below 32 columns, groups of 4, 8, 16 or 32 lanes cache a row each (RowCacheNarrow). To measure the value of
// both, there are also kernels without them (the paper's Algorithm 1): every lane reads the row itself, with 32 columns
// per warp (RowPlain) or, for fewer columns, one element of dst per thread (RowAlone).
// Two differences from the published kernel: maxima start from minus infinity (a minimum is the negated maximum of
// negated messages), and sums are folded every 32 edges and again every 1024, so that rounding hardly grows with the
// length of a row. Measured on an H200, it was faster than binned_rows only on small graphs (cora, pubmed). It serves
// as the published baseline, and needs no scratch memory. A hub is summed by one warp, which is slow. Traffic: edges *
// (4 + 4 * width) bytes of gather (4 more per edge with weights) and rows * 4 * width of stores. Deterministic: one
// warp adds a row in the order of its edges.
#include <cmath>
#include <cstdint>

#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/common/larger.cuh"
#include "engine/cuda/published/row_cache/row_cache.h"

namespace vicinal::cuda {
namespace {

constexpr int kWarps = 4;

struct Params {
  CsrView adjacency;
  const float* src_scale;  // if the adjacency has no values
  ConstMatrixView src;
  MatrixView dst;
  Reduce reduce;
  float sign;  // factor of messages: -1 for minima, computed as maxima of negated messages
  float self_scale;
  Epilogue epilogue;
};

template <bool kMax>
__device__ float Reduced(float a, float b) {
  return kMax ? LargerOf(a, b) : a + b;
}

template <bool kWeighted, bool kMax>
__device__ float Accumulated(float sum, float weight, float x, float sign) {
  if (kMax) return LargerOf(sum, sign * (kWeighted ? weight * x : x));
  return kWeighted ? fmaf(weight, x, sum) : sum + x;
}

// Adds the sum of 32 edges to the fold, and the fold to the total if it is full or the row ends. The first of the 32
// edges is edge `first` of the row.
template <bool kMax>
__device__ void Fold(float& total, float& folded, float sum, int64_t first, bool last) {
  folded = Reduced<kMax>(folded, sum);
  if (!last && first % 1024 != 1024 - 32) return;
  total = Reduced<kMax>(total, folded);
  folded = kMax ? -INFINITY : 0.0f;
}

__device__ void Store(const Params& params, int64_t row, int64_t col, int64_t edges, float x) {
  x = edges == 0 ? 0.0f : params.sign * x;
  if (params.reduce == Reduce::kMean && edges > 0) x = __fdiv_rn(x, static_cast<float>(edges));
  if (params.self_scale != 0.0f) x = fmaf(params.self_scale, params.src.data[row * params.src.stride + col], x);
  params.dst.data[row * params.dst.stride + col] = ApplyEpilogue(params.epilogue, x, row, col);
}

// Source rows in flight at once, per group of columns.
template <int kFactor>
constexpr int kAtOnce = kFactor == 8   ? 2
                        : kFactor == 4 ? 4
                                       : 8;

// Adds the first `count` of 32 cached edges in order. inside[f]: the lane has a column in group f.
template <int kFactor, bool kWeighted, bool kMax>
__device__ void AddCached(const Params& params, const float* const (&row)[32], const float (&weight)[32], int count,
                          int64_t first, const bool (&inside)[kFactor], float (&sum)[kFactor]) {
  constexpr int kBatch = kAtOnce<kFactor>;
  for (int base = 0; base < count; base += kBatch) {
    float x[kBatch][kFactor];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const float* source = row[base + i] + first;
#pragma unroll
      for (int f = 0; f < kFactor; ++f) {
        x[i][f] = base + i < count && inside[f] ? __ldg(source + 32 * f) : 0.0f;
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (base + i >= count) break;
      const float w = kWeighted ? weight[base + i] : 1.0f;
#pragma unroll
      for (int f = 0; f < kFactor; ++f) sum[f] = Accumulated<kWeighted, kMax>(sum[f], w, x[i][f], params.sign);
    }
  }
}

template <int kFactor, bool kWeighted, bool kMax>
__global__ void __launch_bounds__(32 * kWarps) RowCache(const Params params) {
  __shared__ const float* cached_row[kWarps][32];
  __shared__ float cached_value[kWarps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t row = int64_t{blockIdx.x} * kWarps + warp;
  if (row >= params.adjacency.rows) return;
  const int64_t begin = params.adjacency.row_ptr[row], end = params.adjacency.row_ptr[row + 1];
  const int64_t first = int64_t{blockIdx.y} * 32 * kFactor + lane;
  bool inside[kFactor];
  float total[kFactor], folded[kFactor];
#pragma unroll
  for (int f = 0; f < kFactor; ++f) {
    inside[f] = first + 32 * f < params.dst.cols;
    total[f] = folded[f] = kMax ? -INFINITY : 0.0f;
  }
  for (int64_t tile = begin; tile < end; tile += 32) {
    // Beyond the row's end, lanes cache the last edge again; it is not added.
    const int64_t edge = min(tile + lane, end - 1);
    const int32_t source = __ldg(params.adjacency.col + edge);
    cached_row[warp][lane] = params.src.data + source * params.src.stride;
    if (kWeighted) cached_value[warp][lane] = EdgeWeight(params.adjacency, params.src_scale, edge, source);
    __syncwarp();
    const int count = static_cast<int>(min(end - tile, int64_t{32}));
    float sum[kFactor];
#pragma unroll
    for (int f = 0; f < kFactor; ++f) sum[f] = kMax ? -INFINITY : 0.0f;
    AddCached<kFactor, kWeighted, kMax>(params, cached_row[warp], cached_value[warp], count, first, inside, sum);
#pragma unroll
    for (int f = 0; f < kFactor; ++f) Fold<kMax>(total[f], folded[f], sum[f], tile - begin, tile + 32 >= end);
    __syncwarp();
  }
#pragma unroll
  for (int f = 0; f < kFactor; ++f) {
    if (inside[f]) Store(params, row, first + 32 * f, end - begin, total[f]);
  }
}

// Sums one column of a row by one lane, folded as in RowCache: the bits are equal.
template <bool kWeighted, bool kMax>
__device__ float WalkedAlone(const Params& params, int64_t begin, int64_t end, int64_t col) {
  float total = kMax ? -INFINITY : 0.0f, folded = total;
  for (int64_t tile = begin; tile < end; tile += 32) {
    const int64_t tile_end = min(end, tile + 32);
    float sum = kMax ? -INFINITY : 0.0f;
#pragma unroll 4
    for (int64_t e = tile; e < tile_end; ++e) {
      const int32_t source = __ldg(params.adjacency.col + e);
      const float x = __ldg(params.src.data + source * params.src.stride + col);
      const float weight = kWeighted ? EdgeWeight(params.adjacency, params.src_scale, e, source) : 1.0f;
      sum = Accumulated<kWeighted, kMax>(sum, weight, x, params.sign);
    }
    Fold<kMax>(total, folded, sum, tile - begin, tile_end == end);
  }
  return total;
}

template <bool kWeighted, bool kMax>
__global__ void __launch_bounds__(32 * kWarps) RowPlain(const Params params) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  const int64_t col = int64_t{blockIdx.y} * 32 + threadIdx.x % 32;
  if (row >= params.adjacency.rows || col >= params.dst.cols) return;
  const int64_t begin = params.adjacency.row_ptr[row], end = params.adjacency.row_ptr[row + 1];
  Store(params, row, col, end - begin, WalkedAlone<kWeighted, kMax>(params, begin, end, col));
}

// Row caching for fewer than 32 columns. A row has kLanes lanes, at least as many as columns.
template <int kLanes, bool kWeighted, bool kMax>
__global__ void __launch_bounds__(32 * kWarps) RowCacheNarrow(const Params params) {
  constexpr int kGroups = 32 * kWarps / kLanes;
  __shared__ const float* cached_row[kGroups][32];
  __shared__ float cached_value[kGroups][32];
  const int lane = threadIdx.x % kLanes, group = threadIdx.x / kLanes;
  const unsigned mine = kWholeWarp >> (32 - kLanes) << threadIdx.x % 32 / kLanes * kLanes;
  const int64_t row = int64_t{blockIdx.x} * kGroups + group;
  if (row >= params.adjacency.rows) return;
  const int64_t begin = params.adjacency.row_ptr[row], end = params.adjacency.row_ptr[row + 1];
  const bool inside[1] = {lane < params.dst.cols};
  float total = kMax ? -INFINITY : 0.0f, folded = total;
  for (int64_t tile = begin; tile < end; tile += 32) {
    const int count = static_cast<int>(min(end - tile, int64_t{32}));
    for (int i = lane; i < count; i += kLanes) {
      const int32_t source = __ldg(params.adjacency.col + tile + i);
      cached_row[group][i] = params.src.data + source * params.src.stride;
      if (kWeighted) cached_value[group][i] = EdgeWeight(params.adjacency, params.src_scale, tile + i, source);
    }
    __syncwarp(mine);
    float sum[1] = {kMax ? -INFINITY : 0.0f};
    AddCached<1, kWeighted, kMax>(params, cached_row[group], cached_value[group], count, lane, inside, sum);
    Fold<kMax>(total, folded, sum[0], tile - begin, tile + 32 >= end);
    __syncwarp(mine);
  }
  if (inside[0]) Store(params, row, lane, end - begin, total);
}

template <bool kWeighted, bool kMax>
__global__ void __launch_bounds__(32 * kWarps) RowAlone(const Params params) {
  const int64_t element = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t row = element / params.dst.cols, col = element % params.dst.cols;
  if (row >= params.adjacency.rows) return;
  const int64_t begin = params.adjacency.row_ptr[row], end = params.adjacency.row_ptr[row + 1];
  Store(params, row, col, end - begin, WalkedAlone<kWeighted, kMax>(params, begin, end, col));
}

template <int kLanes, bool kWeighted, bool kMax>
void LaunchCachedNarrow(const Params& params, cudaStream_t stream) {
  constexpr int kRows = 32 * kWarps / kLanes;
  const unsigned blocks = static_cast<unsigned>((params.dst.rows + kRows - 1) / kRows);
  RowCacheNarrow<kLanes, kWeighted, kMax><<<blocks, 32 * kWarps, 0, stream>>>(params);
}

template <bool kWeighted, bool kMax>
void LaunchNarrow(const Params& params, bool cached, cudaStream_t stream) {
  if (!cached) {
    const int64_t elements = params.dst.rows * params.dst.cols;
    const unsigned blocks = static_cast<unsigned>((elements + 32 * kWarps - 1) / (32 * kWarps));
    RowAlone<kWeighted, kMax><<<blocks, 32 * kWarps, 0, stream>>>(params);
  } else if (params.dst.cols <= 4) {
    LaunchCachedNarrow<4, kWeighted, kMax>(params, stream);
  } else if (params.dst.cols <= 8) {
    LaunchCachedNarrow<8, kWeighted, kMax>(params, stream);
  } else if (params.dst.cols <= 16) {
    LaunchCachedNarrow<16, kWeighted, kMax>(params, stream);
  } else {
    LaunchCachedNarrow<32, kWeighted, kMax>(params, stream);
  }
}

template <bool kWeighted, bool kMax>
void Launch(const Params& params, const RowCacheConfig& config, cudaStream_t stream) {
  if (params.dst.cols < kCachedColumns) {
    LaunchNarrow<kWeighted, kMax>(params, config.cached, stream);
    return;
  }
  const int factor = config.cached ? config.coarsening : 1;
  const dim3 grid(static_cast<unsigned>((params.dst.rows + kWarps - 1) / kWarps),
                  static_cast<unsigned>((params.dst.cols + 32 * factor - 1) / (32 * factor)));
  if (!config.cached) {
    RowPlain<kWeighted, kMax><<<grid, 32 * kWarps, 0, stream>>>(params);
  } else if (factor == 1) {
    RowCache<1, kWeighted, kMax><<<grid, 32 * kWarps, 0, stream>>>(params);
  } else if (factor == 2) {
    RowCache<2, kWeighted, kMax><<<grid, 32 * kWarps, 0, stream>>>(params);
  } else if (factor == 4) {
    RowCache<4, kWeighted, kMax><<<grid, 32 * kWarps, 0, stream>>>(params);
  } else {
    RowCache<8, kWeighted, kMax><<<grid, 32 * kWarps, 0, stream>>>(params);
  }
}

}  // namespace

cudaError_t LaunchRowCache(const AggregateArgs& args, const RowCacheConfig& config, const LaunchTarget& target) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const float sign = args.problem.reduce == Reduce::kMin ? -1.0f : 1.0f;
  const Params params{args.adjacency,      args.src_scale, args.src,        args.dst,
                      args.problem.reduce, sign,           args.self_scale, args.epilogue};
  const bool weighted = args.adjacency.value != nullptr || args.src_scale != nullptr;
  if (IsExtreme(args.problem.reduce)) {
    weighted ? Launch<true, true>(params, config, target.stream) : Launch<false, true>(params, config, target.stream);
  } else {
    weighted ? Launch<true, false>(params, config, target.stream) : Launch<false, false>(params, config, target.stream);
  }
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
