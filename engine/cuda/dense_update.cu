// SPDX-License-Identifier: Apache-2.0
// dense_update: dst = epilogue(src * W^T) in float32, in tiles held in registers.
//
// Idea. The classical blocked product: a block computes kRows x kCols of dst, panels of 16 inputs go through shared
// memory, the next panel is fetched into registers while this one is multiplied. Written by hand rather than given to
// cuBLASLt, because the contract wants a row's bits to be independent of the number of rows, and cuBLASLt promises that
// for no algorithm: it may split the inner dimension or take another kernel as the shape changes. Here every element is
// the same chain for every tile shape: fused multiply-adds over 64 inputs in ascending order, then one addition to the
// total. Folding every 64 keeps rounding low for wide inputs. Bound by arithmetic for wide outputs, by reading src for
// narrow ones (tile of 16 columns). No TF32, no tensor cores.
#include <cstdint>

#include "engine/cuda/dense_update.h"
#include "engine/cuda/epilogue.cuh"

namespace vicinal::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kDepth = 16;         // inputs per panel in shared memory
constexpr int kPanelsPerFold = 4;  // panels added up before they go to the total

struct Params {
  ConstMatrixView src;
  const float* weight;  // [F, weight_stride]
  int64_t weight_stride;
  int64_t in_width;
  MatrixView dst;
  Epilogue epilogue;
};

template <int kRows_, int kCols_, int kThreadRows_, int kThreadCols_>
struct Tile {
  static constexpr int kRows = kRows_, kCols = kCols_, kThreadRows = kThreadRows_, kThreadCols = kThreadCols_;
  static constexpr int kRowLoads = kRows * kDepth / kThreads;
  static constexpr int kColLoads = (kCols * kDepth + kThreads - 1) / kThreads;
  static constexpr int kAcross = kCols / kThreadCols;  // threads side by side
  static_assert(kAcross * (kRows / kThreadRows) == kThreads);
};

// A panel on its way from memory to shared memory.
template <class T>
struct Panel {
  float a[T::kRowLoads];
  float b[T::kColLoads];

  __device__ void Load(const Params& params, int64_t row0, int64_t col0, int64_t k0) {
#pragma unroll
    for (int i = 0; i < T::kRowLoads; ++i) {
      const int at = threadIdx.x + i * kThreads;
      const int64_t row = row0 + at / kDepth, k = k0 + at % kDepth;
      a[i] = row < params.dst.rows && k < params.in_width ? __ldg(params.src.data + row * params.src.stride + k) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < T::kColLoads; ++i) {
      const int at = threadIdx.x + i * kThreads;
      const int64_t k = k0 + at / T::kCols, col = col0 + at % T::kCols;
      const bool inside = at < T::kCols * kDepth && k < params.in_width && col < params.dst.cols;
      b[i] = inside ? __ldg(params.weight + k * params.weight_stride + col) : 0.0f;
    }
  }

  __device__ void Store(float (*rows)[T::kRows + 4], float (*cols)[T::kCols]) const {
#pragma unroll
    for (int i = 0; i < T::kRowLoads; ++i) {
      const int at = threadIdx.x + i * kThreads;
      rows[at % kDepth][at / kDepth] = a[i];
    }
#pragma unroll
    for (int i = 0; i < T::kColLoads; ++i) {
      const int at = threadIdx.x + i * kThreads;
      if (at < T::kCols * kDepth) cols[at / T::kCols][at % T::kCols] = b[i];
    }
  }
};

// This thread's rows are neighbours, its columns kAcross apart: loads from shared memory without bank conflicts, stores
// side by side.
template <class T>
__global__ void __launch_bounds__(kThreads) DenseUpdate(const Params params) {
  __shared__ float rows[2][kDepth][T::kRows + 4];
  __shared__ float cols[2][kDepth][T::kCols];
  const int64_t row0 = int64_t{blockIdx.x} * T::kRows, col0 = int64_t{blockIdx.y} * T::kCols;
  const int my_row = threadIdx.x / T::kAcross * T::kThreadRows, my_col = threadIdx.x % T::kAcross;
  float total[T::kThreadRows][T::kThreadCols] = {}, sum[T::kThreadRows][T::kThreadCols] = {};
  const int panels = static_cast<int>((params.in_width + kDepth - 1) / kDepth);
  Panel<T> next;
  next.Load(params, row0, col0, 0);
  next.Store(rows[0], cols[0]);
  __syncthreads();
  for (int panel = 0; panel < panels; ++panel) {
    const int now = panel % 2;
    if (panel + 1 < panels) next.Load(params, row0, col0, int64_t{panel + 1} * kDepth);
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float a[T::kThreadRows], b[T::kThreadCols];
#pragma unroll
      for (int i = 0; i < T::kThreadRows; ++i) a[i] = rows[now][k][my_row + i];
#pragma unroll
      for (int j = 0; j < T::kThreadCols; ++j) b[j] = cols[now][k][my_col + j * T::kAcross];
#pragma unroll
      for (int i = 0; i < T::kThreadRows; ++i) {
#pragma unroll
        for (int j = 0; j < T::kThreadCols; ++j) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
      }
    }
    if (panel % kPanelsPerFold == kPanelsPerFold - 1 || panel == panels - 1) {
#pragma unroll
      for (int i = 0; i < T::kThreadRows; ++i) {
#pragma unroll
        for (int j = 0; j < T::kThreadCols; ++j) {
          total[i][j] += sum[i][j];
          sum[i][j] = 0.0f;
        }
      }
    }
    if (panel + 1 < panels) next.Store(rows[now ^ 1], cols[now ^ 1]);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < T::kThreadRows; ++i) {
    const int64_t row = row0 + my_row + i;
    if (row >= params.dst.rows) break;
#pragma unroll
    for (int j = 0; j < T::kThreadCols; ++j) {
      const int64_t col = col0 + my_col + j * T::kAcross;
      if (col >= params.dst.cols) break;
      params.dst.data[row * params.dst.stride + col] = ApplyEpilogue(params.epilogue, total[i][j], row, col);
    }
  }
}

template <class T>
void Launch(const Params& params, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((params.dst.rows + T::kRows - 1) / T::kRows),
                  static_cast<unsigned>((params.dst.cols + T::kCols - 1) / T::kCols));
  DenseUpdate<T><<<grid, kThreads, 0, stream>>>(params);
}

}  // namespace

cudaError_t LaunchDenseUpdate(const DenseUpdateArgs& args, const LaunchTarget& target) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const Params params{args.src,
                      static_cast<const float*>(args.weight),
                      PackedStride(args.problem.out_width),
                      args.problem.in_width,
                      args.dst,
                      args.epilogue};
  // Tiles differ in shape only, never in the order of evaluation, so the number of rows may choose.
  const bool few = args.dst.rows <= int64_t{64} * target.multiprocessors;
  if (args.dst.cols <= 16) {
    few ? Launch<Tile<32, 16, 1, 2>>(params, target.stream) : Launch<Tile<128, 16, 4, 2>>(params, target.stream);
  } else {
    few ? Launch<Tile<32, 64, 2, 4>>(params, target.stream) : Launch<Tile<128, 64, 8, 4>>(params, target.stream);
  }
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
