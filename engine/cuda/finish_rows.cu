// SPDX-License-Identifier: Apache-2.0
// One thread per element. Cost: each matrix read once and written once.
#include "engine/cuda/epilogue.cuh"
#include "engine/cuda/finish_rows.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 256;

unsigned BlocksFor(int64_t elements) { return static_cast<unsigned>((elements + kThreads - 1) / kThreads); }

struct Finish {
  const int64_t* row_ptr;
  const float* sums;
  int64_t stride;
  ConstMatrixView src;
  MatrixView dst;
  bool mean;
  float self_scale;
  Epilogue epilogue;
};

__global__ void __launch_bounds__(kThreads) FinishRows(const __grid_constant__ Finish params) {
  const int64_t element = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t row = element / params.dst.cols, col = element % params.dst.cols;
  if (row >= params.dst.rows) return;
  float x = params.sums[row * params.stride + col];
  const int64_t edges = params.row_ptr[row + 1] - params.row_ptr[row];
  if (params.mean && edges > 0) x = __fdiv_rn(x, static_cast<float>(edges));
  if (params.self_scale != 0.0f) x = fmaf(params.self_scale, params.src.data[row * params.src.stride + col], x);
  params.dst.data[row * params.dst.stride + col] = ApplyEpilogue(params.epilogue, x, row, col);
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

cudaError_t LaunchFinishRows(const AggregateArgs& args, const float* sums, int64_t stride, const LaunchTarget& target) {
  const int64_t elements = args.dst.rows * args.dst.cols;
  if (elements == 0) return cudaSuccess;
  const Finish params{
      args.adjacency.row_ptr, sums,         stride, args.src, args.dst, args.problem.reduce == Reduce::kMean,
      args.self_scale,        args.epilogue};
  FinishRows<<<BlocksFor(elements), kThreads, 0, target.stream>>>(params);
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
