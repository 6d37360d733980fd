// SPDX-License-Identifier: Apache-2.0
// Cost: each matrix read once and written once.
#include "engine/cuda/epilogue.cuh"
#include "engine/cuda/finish_rows.h"
#include "engine/cuda/row_load.cuh"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 256;

unsigned BlocksFor(int64_t elements) { return static_cast<unsigned>((elements + kThreads - 1) / kThreads); }

struct Finish {
  const int64_t* row_ptr;
  const float* sums;
  int64_t stride;
  RowPieces pieces;
  LaunchCondition condition;
  SourceRows src;
  MatrixView dst;
  bool mean;
  float self_scale;
  Epilogue epilogue;
};

__device__ inline float PiecesOf(const RowPieces& pieces, int row, int col) {
  const int block = row / pieces.block_rows, within = row % pieces.block_rows;
  float sum = 0.0f;
  for (int piece = pieces.first[block]; piece < pieces.first[block + 1]; ++piece) {
    sum += __ldcs(pieces.sums + (int64_t{piece} * pieces.block_rows + within) * pieces.stride + col);
  }
  return sum;
}

// A warp to a row.
__global__ void __launch_bounds__(kThreads) FinishRows(const __grid_constant__ Finish params) {
  const int64_t row = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (row >= params.dst.rows || !Holds(params.condition)) return;
  const int64_t edges = params.row_ptr[row + 1] - params.row_ptr[row];
  const float divisor = params.mean && edges > 0 ? static_cast<float>(edges) : 1.0f;
  for (int64_t col = threadIdx.x % 32; col < params.dst.cols; col += 32) {
    float x = params.sums[row * params.stride + col];
    const EpilogueTerms terms = TermsOf(params.epilogue, row, col);
    const float own = params.self_scale != 0.0f ? ElementAt(params.src, row, col) : 0.0f;
    if (params.pieces.sums != nullptr) x += PiecesOf(params.pieces, static_cast<int>(row), static_cast<int>(col));
    x = __fdiv_rn(x, divisor);
    if (params.self_scale != 0.0f) x = fmaf(params.self_scale, own, x);
    params.dst.data[row * params.dst.stride + col] = ApplyEpilogue(params.epilogue, terms, x);
  }
}

__global__ void __launch_bounds__(kThreads)
    ScaleRows(const ConstMatrixView src, const float* scale, const MatrixView dst) {
  const int64_t element = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t row = element / dst.cols, col = element % dst.cols;
  if (row >= dst.rows) return;
  const float x = src.data[row * src.stride + col];
  dst.data[row * dst.stride + col] = scale != nullptr ? scale[row] * x : x;
}

}  // namespace

cudaError_t LaunchFinishRows(const AggregateArgs& args, const float* sums, int64_t stride, const RowPieces& pieces,
                             const LaunchCondition& condition, const LaunchTarget& target) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const Finish params = {args.adjacency.row_ptr,
                         sums,
                         stride,
                         pieces,
                         condition,
                         SourceRowsOf(args),
                         args.dst,
                         args.problem.reduce == Reduce::kMean,
                         args.self_scale,
                         args.epilogue};
  FinishRows<<<BlocksFor(args.dst.rows * 32), kThreads, 0, target.stream>>>(params);
  return cudaGetLastError();
}

cudaError_t LaunchScaleRows(const ConstMatrixView& src, const float* scale, const MatrixView& dst,
                            const LaunchTarget& target) {
  const int64_t elements = dst.rows * dst.cols;
  if (elements == 0) return cudaSuccess;
  ScaleRows<<<BlocksFor(elements), kThreads, 0, target.stream>>>(src, scale, dst);
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
