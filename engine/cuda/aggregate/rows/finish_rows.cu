// SPDX-License-Identifier: Apache-2.0
// Cost: each matrix is read once and written once.
#include "engine/cuda/aggregate/rows/finish_rows.h"
#include "engine/cuda/aggregate/rows/row_load.cuh"
#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/larger.cuh"
#include "engine/cuda/common/overlap.cuh"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 256;

unsigned BlocksFor(int64_t elements) { return static_cast<unsigned>((elements + kThreads - 1) / kThreads); }

struct FinishParams {
  const int64_t* row_ptr;
  const float* sums;
  int64_t stride;
  RowPieces pieces;
  LaunchCondition condition;
  SourceRows src;
  MatrixView dst;
  Reduce reduce;
  float self_scale;
  Epilogue epilogue;

  __device__ bool extremum() const { return IsExtreme(reduce); }
};

__device__ inline float PiecesOf(const FinishParams& params, int row, int col) {
  const RowPieces& pieces = params.pieces;
  const int block = row / pieces.block_rows, within = row % pieces.block_rows;
  float sum = params.extremum() ? -INFINITY : 0.0f;
  for (int piece = pieces.first[block]; piece < pieces.first[block + 1]; ++piece) {
    const float* const part = pieces.sums + (int64_t{piece} * pieces.block_rows + within) * pieces.stride;
    sum = SumOrLarger(params.extremum(), sum, __ldcs(part + col));
  }
  return sum;
}

// The reduced value of a row of `edges` edges, given the sum or maximum of its messages.
__device__ inline float Reduced(const FinishParams& params, float sum, int64_t edges) {
  if (params.extremum()) return edges == 0 ? 0.0f : params.reduce == Reduce::kMin ? -sum : sum;
  return params.reduce == Reduce::kMean && edges > 0 ? __fdiv_rn(sum, static_cast<float>(edges)) : sum;
}

// A warp per row.
__global__ void __launch_bounds__(kThreads) FinishRows(const __grid_constant__ FinishParams params) {
  const int64_t row = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (row >= params.dst.rows || !Holds(params.condition)) return;
  const int64_t edges = params.row_ptr[row + 1] - params.row_ptr[row];
  for (int64_t col = threadIdx.x % 32; col < params.dst.cols; col += 32) {
    float x = params.sums != nullptr ? params.sums[row * params.stride + col] : 0.0f;
    const EpilogueTerms terms = TermsOf(params.epilogue, row, col);
    const float own = params.self_scale != 0.0f ? ElementAt(params.src, row, col) : 0.0f;
    if (params.pieces.sums != nullptr) {
      const float pieces = PiecesOf(params, static_cast<int>(row), static_cast<int>(col));
      x = params.sums != nullptr ? SumOrLarger(params.extremum(), x, pieces) : pieces;
    }
    x = Reduced(params, x, edges);
    if (params.self_scale != 0.0f) x = fmaf(params.self_scale, own, x);
    params.dst.data[row * params.dst.stride + col] = ApplyEpilogue(params.epilogue, terms, x);
  }
}

// 2^shift lanes per row, each of which copies kVec columns at a time.
template <int kVec>
__global__ void __launch_bounds__(kThreads)
    CopySources(const SourceRows rows, const float* scale, const __grid_constant__ MatrixView dst, int shift) {
  TriggerNextLaunch();
  const int64_t row = int64_t{blockIdx.x} * (kThreads >> shift) + (threadIdx.x >> shift);
  const float factor = scale != nullptr && row < dst.rows ? __ldg(scale + row) : 1.0f;
  AwaitPreviousKernels();
  if (row >= dst.rows) return;
  float* const out = dst.data + row * dst.stride;
  for (int64_t col = (threadIdx.x & ((1 << shift) - 1)) * kVec; col < dst.cols; col += kVec << shift) {
    if constexpr (kVec == 4) {
      const float4 x = *reinterpret_cast<const float4*>(static_cast<const float*>(rows.data) + row * rows.stride + col);
      *reinterpret_cast<float4*>(out + col) = make_float4(factor * x.x, factor * x.y, factor * x.z, factor * x.w);
    } else {
      out[col] = factor * ElementAt(rows, row, col);
    }
  }
}

template <int kVec>
cudaError_t LaunchCopy(const AggregateArgs& args, const MatrixView& dst, const LaunchTarget& target) {
  int shift = 0;
  while (shift < 5 && kVec << shift < dst.cols) ++shift;
  const dim3 grid(BlocksFor(dst.rows << shift));
  return LaunchOverlapping(target.overlap, CopySources<kVec>, grid, kThreads, target.stream, SourceRowsOf(args),
                           args.src_scale, dst, shift);
}

}  // namespace

cudaError_t LaunchFinishRows(const AggregateArgs& args, const float* sums, int64_t stride, const RowPieces& pieces,
                             const LaunchCondition& condition, const LaunchTarget& target) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const FinishParams params = {args.adjacency.row_ptr,
                               sums,
                               stride,
                               pieces,
                               condition,
                               SourceRowsOf(args),
                               args.dst,
                               args.problem.reduce,
                               args.self_scale,
                               args.epilogue};
  FinishRows<<<BlocksFor(args.dst.rows * 32), kThreads, 0, target.stream>>>(params);
  return cudaGetLastError();
}

cudaError_t LaunchCopySources(const AggregateArgs& args, const MatrixView& dst, const LaunchTarget& target) {
  if (dst.rows == 0 || dst.cols == 0) return cudaSuccess;
  const bool packs =
      args.problem.storage == Storage::kFloat32 && dst.cols % 4 == 0 && InPacks(args.src) && InPacks(dst);
  return packs ? LaunchCopy<4>(args, dst, target) : LaunchCopy<1>(args, dst, target);
}

int64_t ScaledSourcesBytes(const AggregateProblem& problem) {
  return problem.cols * PackedStride(problem.width) * int64_t{sizeof(float)};
}

cudaError_t LaunchScaleFirst(void* copy, AggregateArgs* args, LaunchTarget* target) {
  const AggregateProblem& problem = args->problem;
  const MatrixView scaled = {static_cast<float*>(copy), problem.cols, problem.width, PackedStride(problem.width)};
  const cudaError_t error = LaunchCopySources(*args, scaled, *target);
  args->problem.weighted = args->problem.source_scaled = false;
  args->src = scaled;
  args->src_scale = nullptr;
  target->overlap = true;  // safe whatever ran before, as the copy itself does not start early
  return error;
}

}  // namespace vicinal::cuda
