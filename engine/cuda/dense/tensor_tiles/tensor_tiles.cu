// SPDX-License-Identifier: Apache-2.0
// tensor_tiles: dense products on tensor cores, for requests that allow rounded factors (TF32, bfloat16, float16). Sums
// are float32.
//
// Idea. With free multiplications, GNN layers have so few inputs that a product is bound by memory. So factors stay
// float32 in global and shared memory and are rounded on their way into the tensor cores' registers (to nearest; ties
// to even, or away from zero for TF32). That needs no second copy of the features and no pass that makes one. If the
// weights fit shared memory, they stay there and rows are streamed (tensor_rows.cu). This file has the other cases:
// many inputs, and rows that are not aligned to 16 bytes. Asynchronous copies bring panels of kDepth inputs and their
// weights to shared memory, some in flight while one is multiplied. A warp computes 16 rows x kCols.
//
// Traffic: each input once per kCols outputs, each weight once per block, each output once. A row's bits depend on that
// row alone: in any block and kernel, its sums take the same instructions in the same order.
#include <algorithm>
#include <cstdint>

#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/async_copy.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/dense/tensor_tiles/detail/tensor_product.cuh"
#include "engine/cuda/dense/tensor_tiles/detail/tensor_rows.h"
#include "engine/cuda/dense/tensor_tiles/tensor_tiles.h"

namespace vicinal::cuda {
namespace {

constexpr int kWarpRows = 16;
struct StreamedParams {
  TensorParams product;
  int64_t tiles;  // of dst; those of the same rows are consecutive
  int col_tiles;
};

// kStages: panels in shared memory.
template <ProductPrecision kPrecision_, int kCols_, int kStages_>
struct TensorTile {
  static constexpr int kStages = kStages_;
  static constexpr ProductPrecision kPrecision = kPrecision_;
  using Step = TensorStep<kPrecision>;
  static constexpr int kCols = kCols_;
  static constexpr int kRowStride = kDepth + Step::kRowPadding, kWeightStride = kCols + Step::kWeightPadding;
  __host__ __device__ static constexpr int StageFloats(int rows) { return rows * kRowStride + kDepth * kWeightStride; }
};

// Starts the copies of the panel's inputs of the block's rows. Elements outside src are zeros.
template <class T>
__device__ inline void FetchRows(const TensorParams& params, int64_t first_row, int64_t first_input, int rows,
                                 float* panel) {
  const int64_t inputs = params.src.cols;
  const auto fetch = [&]<int kBytes>() {
    constexpr int kFloats = kBytes / 4, kUnits = kDepth / kFloats;
    for (int i = static_cast<int>(threadIdx.x); i < rows * kUnits; i += static_cast<int>(blockDim.x)) {
      const int64_t row = first_row + i / kUnits, input = first_input + i % kUnits * kFloats;
      const int64_t left = row < params.src.rows ? inputs - input : 0;
      const int valid = left <= 0 ? 0 : left < kFloats ? static_cast<int>(left) * 4 : kBytes;
      const float* const from = valid > 0 ? params.src.data + row * params.src.stride + input : params.src.data;
      CopyAsync<kBytes>(panel + i / kUnits * T::kRowStride + i % kUnits * kFloats, from, valid);
    }
  };
  if (params.src_access != Access::kElements) {
    fetch.template operator()<16>();
  } else {
    fetch.template operator()<4>();
  }
}

// Starts the copies of the panel's weights.
template <class T>
__device__ inline void FetchWeights(const TensorParams& params, int64_t first_input, int64_t first_col, float* panel) {
  constexpr int kUnits = T::kCols / 4;
  for (int i = static_cast<int>(threadIdx.x); i < kDepth * kUnits; i += static_cast<int>(blockDim.x)) {
    const int64_t input = first_input + i / kUnits, col = first_col + i % kUnits * 4;
    // The packed weights have zeros up to whole panels, and rows of whole packs.
    const int valid = col < params.weight_stride ? 16 : 0;
    const float* const from = valid > 0 ? params.weight + input * params.weight_stride + col : params.weight;
    CopyAsync<16>(panel + i / kUnits * T::kWeightStride + i % kUnits * 4, from, valid);
  }
}

// A lane's rows in a panel.
template <class T>
struct PanelRows {
  const float* row;

  __device__ float One(int half, int input) const { return row[8 * half * T::kRowStride + input]; }
  __device__ float4 Four(int half, int input) const {
    return *reinterpret_cast<const float4*>(row + 8 * half * T::kRowStride + input);
  }
};

// A lane's part of B, from its column of the weights.
template <class T>
__device__ inline typename T::Step::B WeightsAt(const float* column, int q) {
  float w[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) w[k] = column[T::Step::InputOf(q, k) * T::kWeightStride];
  return T::Step::RoundedB(w);
}

// Blocks are persistent: the first panels of the next tile are in flight while this one is multiplied and stored.
template <class T>
__device__ inline void MultiplyAllTiles(const StreamedParams& params) {
  extern __shared__ __align__(16) float shared[];
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes, lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int rows = static_cast<int>(blockDim.x) / kWarpLanes * kWarpRows, down = lane / 4, across = lane % 4;
  const int panels = static_cast<int>((params.product.src.cols + kDepth - 1) / kDepth);
  const auto row_of = [&](int64_t tile) { return tile / params.col_tiles * rows; };
  const auto col_of = [&](int64_t tile) { return tile % params.col_tiles * T::kCols; };
  int64_t fetched_tile = blockIdx.x;
  int fetched_panel = 0, to = 0, from = 0;  // stages
  const auto fetch = [&] {
    if (fetched_tile < params.tiles) {
      float* const stage = shared + to * T::StageFloats(rows);
      FetchRows<T>(params.product, row_of(fetched_tile), int64_t{fetched_panel} * kDepth, rows, stage);
      FetchWeights<T>(params.product, int64_t{fetched_panel} * kDepth, col_of(fetched_tile),
                      stage + rows * T::kRowStride);
      if (++fetched_panel == panels) fetched_panel = 0, fetched_tile += gridDim.x;
      if (++to == T::kStages) to = 0;
    }
    CommitCopies();
  };
  for (int i = 0; i < T::kStages - 1; ++i) fetch();
#pragma unroll 1
  for (int64_t tile = blockIdx.x; tile < params.tiles; tile += gridDim.x) {
    float sum[T::kCols / 8][4] = {};
#pragma unroll 1
    for (int panel = 0; panel < panels; ++panel) {
      AwaitCopies<T::kStages - 2>();
      // All copies of the panel have arrived, and no warp reads the previous one any more.
      __syncthreads();
      fetch();
      const float* const stage = shared + from * T::StageFloats(rows);
      const float* const a = stage + (warp * kWarpRows + down) * T::kRowStride;
      const float* const b = stage + rows * T::kRowStride + down;
#pragma unroll
      for (int input = 0; input < kDepth; input += kStepInputs) {
        const auto step = T::Step::RoundedA(PanelRows<T>{a + input}, across);
#pragma unroll
        for (int j = 0; j < T::kCols / 8; ++j) {
          T::Step::Multiply(step, WeightsAt<T>(b + input * T::kWeightStride + 8 * j, across), sum[j]);
        }
      }
      if (++from == T::kStages) from = 0;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      StoreRow(params.product, row_of(tile) + warp * kWarpRows + down + 8 * half, col_of(tile) + 2 * across, half, sum);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(256) MultiplyTiles(const __grid_constant__ StreamedParams params) {
  if constexpr (kCompiledFor >= kAsyncCopies) MultiplyAllTiles<T>(params);
}

template <class T>
int TileBytes(int warps) {
  return T::kStages * T::StageFloats(warps * kWarpRows) * static_cast<int>(sizeof(float));
}

template <class T>
cudaError_t LaunchTile(const TensorParams& product, int warps, const LaunchTarget& target) {
  const int rows = warps * kWarpRows, bytes = TileBytes<T>(warps);
  const cudaError_t error = AllowShared(MultiplyTiles<T>, bytes, target.limits);
  if (error != cudaSuccess) return error;
  StreamedParams params = {product, 0, static_cast<int>((product.dst.cols + T::kCols - 1) / T::kCols)};
  params.tiles = (product.dst.rows + rows - 1) / rows * params.col_tiles;
  // As many blocks as are resident at once.
  const int64_t resident = target.limits.Resident(warps * kWarpLanes, bytes, 32 / warps);
  const int64_t blocks = std::min(params.tiles, resident * target.limits.multiprocessors);
  MultiplyTiles<T><<<static_cast<unsigned>(blocks), warps * kWarpLanes, bytes, target.stream>>>(params);
  return cudaGetLastError();
}

template <ProductPrecision kPrecision, int kCols>
cudaError_t LaunchRows(const TensorParams& params, const LaunchTarget& target) {
  // Tall blocks load weights less often. Lower ones, with more panels in flight, are used if tall ones would leave
  // multiprocessors idle and shared memory has room for the panels.
  int warps = 8;
  while (warps > 1 && params.dst.rows < int64_t{target.limits.multiprocessors} * warps * kWarpRows) warps /= 2;
  using Deep = TensorTile<kPrecision, kCols, 8>;
  const bool deep = warps < 8 && target.limits.Fits(TileBytes<Deep>(warps));
  return deep ? LaunchTile<Deep>(params, warps, target)
              : LaunchTile<TensorTile<kPrecision, kCols, 3>>(params, warps, target);
}

template <ProductPrecision kPrecision>
cudaError_t LaunchColumns(const TensorParams& params, const LaunchTarget& target) {
  if (params.dst.cols <= 16) return LaunchRows<kPrecision, 16>(params, target);
  if (params.dst.cols <= 32) return LaunchRows<kPrecision, 32>(params, target);
  return LaunchRows<kPrecision, 64>(params, target);
}

}  // namespace

cudaError_t LaunchTensorTiles(const DenseUpdateArgs& args, const LaunchTarget& target) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  TensorParams params;
  params.src = args.src;
  params.weight = static_cast<const float*>(args.weight);
  params.weight_stride = PackedStride(args.dst.cols);
  params.dst = args.dst;
  params.epilogue = args.epilogue;
  params.src_access = PacksIf(InPacks(args.src));
  params.dst_access = PacksIf(InPacks(args.dst, 2));
  if (params.src_access != Access::kElements && TensorWeightsStay(args.problem) &&
      TensorRowsFit(args.problem, target.limits))
    return LaunchTensorRows(args.problem, params, target);
  switch (args.problem.precision) {
    case ProductPrecision::kTf32:
      return LaunchColumns<ProductPrecision::kTf32>(params, target);
    case ProductPrecision::kBfloat16:
      return LaunchColumns<ProductPrecision::kBfloat16>(params, target);
    case ProductPrecision::kFloat16:
      return LaunchColumns<ProductPrecision::kFloat16>(params, target);
    case ProductPrecision::kFloat32:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace vicinal::cuda
