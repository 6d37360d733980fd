// SPDX-License-Identifier: Apache-2.0
// Cost: each matrix is read once and written once.
#include <cfloat>
#include <cmath>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/dense/cublas/detail/panel_passes.h"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 256;

unsigned BlocksFor(int64_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }
__device__ inline int64_t Thread() { return int64_t{blockIdx.x} * kThreads + threadIdx.x; }

struct FinishParams {
  MatrixView dst;
  Epilogue epilogue;
  Access dst_access;
  int64_t first, count;
  const float* products;
  int64_t stride;
};

// A thread per four columns of a row.
__global__ void __launch_bounds__(kThreads) FinishPanel(const __grid_constant__ FinishParams params) {
  const int64_t packs = (params.dst.cols + 3) / 4, row = Thread() / packs, col = Thread() % packs * 4;
  if (row >= params.count) return;
  const Pack<4> product = LoadPlain<4>(params.products + row * params.stride + col);
  const Pack<4> x = WithEpilogue<4>(params.epilogue, params.first + row, col, params.dst.cols - 1, product);
  float* const dst = params.dst.data + (params.first + row) * params.dst.stride + col;
  if (params.dst_access != Access::kElements && col + 4 <= params.dst.cols) {
    StorePack<4>(dst, x);
    return;
  }
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    if (col + v < params.dst.cols) dst[v] = x.v[v];
  }
}

__global__ void __launch_bounds__(kThreads) FillNumbers(float* data, int64_t count) {
  const int64_t i = Thread();
  if (i >= count) return;
  uint32_t x = static_cast<uint32_t>(i) * 0x9e3779b9u + static_cast<uint32_t>(i >> 32);
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  data[i] = static_cast<float>(static_cast<int32_t>(x ^ x >> 16)) * 0x1p-31f;
}

__global__ void __launch_bounds__(kThreads) DisturbRows(float* data, int64_t count, int64_t stride) {
  const int64_t i = Thread();
  if (i >= count || i / stride % 2 == 0) return;
  const int kind = static_cast<int>(i / stride / 2 % 4);
  data[i] = kind == 0 ? NAN : kind == 1 ? INFINITY : kind == 2 ? -INFINITY : FLT_MAX;
}

__global__ void __launch_bounds__(kThreads) CountDiffering(const float* a, const float* b, int64_t rows, int64_t cols,
                                                           int64_t stride, int step, int* differing) {
  const int64_t row = Thread() / cols * step, at = row * stride + Thread() % cols;
  if (row < rows && __float_as_uint(a[at]) != __float_as_uint(b[at])) atomicAdd(differing, 1);
}

}  // namespace

cudaError_t LaunchFinishPanel(const DenseUpdateArgs& args, int64_t first, int64_t count, const float* products,
                              int64_t stride, cudaStream_t stream) {
  const FinishParams params = {args.dst, args.epilogue, PacksIf(InPacks(args.dst)), first, count, products, stride};
  FinishPanel<<<BlocksFor(count * ((args.dst.cols + 3) / 4)), kThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

cudaError_t LaunchFillNumbers(float* data, int64_t count, cudaStream_t stream) {
  FillNumbers<<<BlocksFor(count), kThreads, 0, stream>>>(data, count);
  return cudaGetLastError();
}

cudaError_t LaunchDisturbRows(float* data, int64_t rows, int64_t stride, cudaStream_t stream) {
  DisturbRows<<<BlocksFor(rows * stride), kThreads, 0, stream>>>(data, rows * stride, stride);
  return cudaGetLastError();
}

cudaError_t LaunchCountDiffering(const float* a, const float* b, int64_t rows, int64_t cols, int64_t stride, int step,
                                 int* differing, cudaStream_t stream) {
  const int64_t compared = (rows + step - 1) / step;
  CountDiffering<<<BlocksFor(compared * cols), kThreads, 0, stream>>>(a, b, rows, cols, stride, step, differing);
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
