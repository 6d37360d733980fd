// SPDX-License-Identifier: Apache-2.0
// sparse_aggregate_update: reduces the sparse feature rows of a node's neighbours, then multiplies by W^T, without a
// dense matrix [R, F].
//
// Idea. A block takes a target row and keeps its reduced features in a dense row of scratch, which stays in the L2
// cache. It adds edges one by one; threads add different features of the edge's source, so no two threads write the
// same one. Features that an edge does not have are 0, which matters for maxima: the kernel counts the edges that have
// each feature. Then each warp multiplies part of the features, and the parts are added in order. Simple rather than
// fast: a hub is processed by one block, and the product reads all F features of a row. Deterministic.
#include <cmath>
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/larger.cuh"
#include "engine/cuda/sparse/dense_row/dense_row.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ void ReduceEdges(const SparseAggregateUpdateArgs& args, int64_t row, float* reduced, int* seen) {
  const bool max = args.problem.reduce == Reduce::kMax;
  for (int64_t e = args.adjacency.row_ptr[row]; e < args.adjacency.row_ptr[row + 1]; ++e) {
    const int64_t source = args.adjacency.col[e];
    const float weight = args.adjacency.value != nullptr ? args.adjacency.value[e] : 1.0f;
    for (int64_t i = args.src.row_ptr[source] + threadIdx.x; i < args.src.row_ptr[source + 1]; i += kThreads) {
      const int32_t feature = args.src.col[i];
      const float x = args.src.value != nullptr ? args.src.value[i] : 1.0f;
      if (max) {
        reduced[feature] = seen[feature] > 0 ? LargerOf(reduced[feature], weight * x) : weight * x;
        ++seen[feature];
      } else {
        reduced[feature] = fmaf(weight, x, reduced[feature]);
      }
    }
    __syncthreads();
  }
}

// For maxima, includes the 0 of edges that lack a feature. For means, divides. Then adds the node's own features.
__device__ void FinishReduced(const SparseAggregateUpdateArgs& args, int64_t row, float* reduced, const int* seen) {
  const int64_t edges = args.adjacency.row_ptr[row + 1] - args.adjacency.row_ptr[row];
  for (int64_t f = threadIdx.x; f < args.problem.in_width; f += kThreads) {
    if (args.problem.reduce == Reduce::kMax && seen[f] > 0 && seen[f] < edges) {
      reduced[f] = LargerOf(reduced[f], 0.0f);
    }
    if (args.problem.reduce == Reduce::kMean && edges > 0) {
      reduced[f] = __fdiv_rn(reduced[f], static_cast<float>(edges));
    }
  }
  __syncthreads();
  if (args.self_scale == 0.0f) return;
  for (int64_t i = args.src.row_ptr[row] + threadIdx.x; i < args.src.row_ptr[row + 1]; i += kThreads) {
    const int32_t feature = args.src.col[i];
    reduced[feature] = fmaf(args.self_scale, args.src.value != nullptr ? args.src.value[i] : 1.0f, reduced[feature]);
  }
  __syncthreads();
}

__device__ void Multiply(const SparseAggregateUpdateArgs& args, int64_t weight_stride, int64_t row,
                         const float* reduced) {
  __shared__ float parts[kWarps][32];
  const float* weight = static_cast<const float*>(args.weight);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int64_t h0 = 0; h0 < args.dst.cols; h0 += 32) {
    const int64_t h = h0 + lane;
    float sum = 0.0f;
    for (int64_t f = warp; f < args.problem.in_width; f += kWarps) {
      const float x = reduced[f];
      if (x != 0.0f && h < args.dst.cols) sum = fmaf(x, __ldg(weight + f * weight_stride + h), sum);
    }
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && h < args.dst.cols) {
      float total = parts[0][lane];
      for (int w = 1; w < kWarps; ++w) total += parts[w][lane];
      args.dst.data[row * args.dst.stride + h] = ApplyEpilogue(args.epilogue, total, row, h);
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads) SparseAggregateUpdate(const SparseAggregateUpdateArgs args, float* scratch,
                                                                  int64_t row_floats, int64_t weight_stride) {
  float* reduced = scratch + blockIdx.x * row_floats;
  int* seen = reinterpret_cast<int*>(reduced + args.problem.in_width);
  for (int64_t row = blockIdx.x; row < args.dst.rows; row += gridDim.x) {
    for (int64_t f = threadIdx.x; f < args.problem.in_width; f += kThreads) reduced[f] = 0.0f, seen[f] = 0;
    __syncthreads();
    ReduceEdges(args, row, reduced, seen);
    FinishReduced(args, row, reduced, seen);
    Multiply(args, weight_stride, row, reduced);
  }
}

}  // namespace

cudaError_t LaunchSparseAggregateUpdate(const SparseAggregateUpdateArgs& args, const LaunchTarget& target,
                                        void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const unsigned blocks = static_cast<unsigned>(std::min(args.problem.rows, kSparseAggregateBlocks));
  SparseAggregateUpdate<<<blocks, kThreads, 0, target.stream>>>(
      args, static_cast<float*>(scratch), SparseAggregateRowFloats(args.problem), PackedStride(args.problem.out_width));
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
