// SPDX-License-Identifier: Apache-2.0
// tensor_tiles: dense products on tensor cores, for requests that allow their factors to be rounded (TF32, bfloat16,
// float16); sums are float32.
//
// Idea. Few inputs make products of GNN layers a matter of memory once multiplications cost nothing, so factors stay
// float32 in memory and in shared memory and are rounded (to nearest; ties to even, in TF32 away from zero) on their
// way into the tensor cores' registers: no second copy of the features, no pass to make one. Panels of kDepth inputs
// travel by asynchronous copies, others under way while one is multiplied; a warp makes 16 rows x kCols. Rows are
// padded in shared memory so that a warp's reads of fragments (mma.sync m16n8k8 for TF32, m16n8k16 for 16 bits) meet in
// no bank.
//
// Moves each input once for each kCols outputs, each weight once per block, each output once. A row's bits depend on
// that row and on kDepth alone: whatever the block, its sums go through the same instructions in the same order.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "engine/cuda/alignment.h"
#include "engine/cuda/async_copy.cuh"
#include "engine/cuda/dense_update.h"
#include "engine/cuda/epilogue.cuh"
#include "engine/cuda/tensor_tiles.h"

namespace vicinal::cuda {
namespace {

constexpr int kLanes = 32;
constexpr int kWarpRows = 16;
constexpr int kDepth = 32;

// A pair of neighbouring inputs as one register, the first in its low half.
template <ProductPrecision kPrecision>
__device__ inline uint32_t Rounded(float low, float high) {
  if constexpr (kPrecision == ProductPrecision::kBfloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return uint32_t{__bfloat16_as_ushort(pair.x)} | uint32_t{__bfloat16_as_ushort(pair.y)} << 16;
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return uint32_t{__half_as_ushort(pair.x)} | uint32_t{__half_as_ushort(pair.y)} << 16;
  }
}

__device__ inline uint32_t RoundedToTf32(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

// One step of kInputs inputs: fragments of A [16, kInputs] and B [kInputs, 8], and sum += A B. Lane l stands at row
// l / 4 and l % 4 across (PTX, "Matrix fragments for mma.m16n8k8" and "mma.m16n8k16"). `a`: the lane's row in shared
// memory, rows `stride` floats apart; `b`: the lane's column, inputs `stride` floats apart.
template <ProductPrecision kPrecision>
struct Step {
  static constexpr int kInputs = 16;
  static constexpr int kStride = kDepth + 8;  // of rows of A: pairs of 4 rows meet in no bank
  uint32_t a[4];

  __device__ void LoadA(const float* row, int across) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair =
          *reinterpret_cast<const float2*>(row + (i % 2 == 0 ? 0 : 8 * kStride) + (i < 2 ? 0 : 8) + 2 * across);
      a[i] = Rounded<kPrecision>(pair.x, pair.y);
    }
  }
  __device__ void Multiply(const float* column, int stride, int across, float (&sum)[4]) const {
    uint32_t b[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float* const at = column + (2 * across + 8 * i) * stride;
      b[i] = Rounded<kPrecision>(at[0], at[stride]);
    }
    if constexpr (kPrecision == ProductPrecision::kBfloat16) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
  }
};

template <>
struct Step<ProductPrecision::kTf32> {
  static constexpr int kInputs = 8;
  static constexpr int kStride = kDepth + 4;
  uint32_t a[4];

  __device__ void LoadA(const float* row, int across) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[i] = RoundedToTf32(row[(i % 2 == 0 ? 0 : 8 * kStride) + (i < 2 ? 0 : 4) + across]);
    }
  }
  __device__ void Multiply(const float* column, int stride, int across, float (&sum)[4]) const {
    const uint32_t b0 = RoundedToTf32(column[across * stride]), b1 = RoundedToTf32(column[(across + 4) * stride]);
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

struct TensorParams {
  ConstMatrixView src;
  const float* weight;  // packed: inputs down, outputs across, zeros behind both
  int64_t weight_stride;
  MatrixView dst;
  Epilogue epilogue;
  int64_t tiles;  // of dst; those of the same rows follow one another
  int col_tiles;
  bool aligned;  // rows of src begin at multiples of 16 bytes
  bool pairs;    // pairs of columns of dst begin at multiples of 8 bytes
};

// kStages: panels in shared memory.
template <ProductPrecision kPrecision_, int kCols_, int kStages_>
struct TensorTile {
  static constexpr int kStages = kStages_;
  static constexpr ProductPrecision kPrecision = kPrecision_;
  using Step = cuda::Step<kPrecision>;
  static constexpr int kCols = kCols_;
  static constexpr int kWeightStride = kCols + 8;  // neighbouring inputs 8 banks apart
  __host__ __device__ static constexpr int StageFloats(int rows) {
    return rows * Step::kStride + kDepth * kWeightStride;
  }
};

// Starts the copies of the panel's inputs of the block's rows; what lies outside src is zeros.
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
      CopyAsync<kBytes>(panel + i / kUnits * T::Step::kStride + i % kUnits * kFloats, from, valid);
    }
  };
  if (params.aligned) {
    fetch.template operator()<16>();
  } else {
    fetch.template operator()<4>();
  }
}

// Starts the copies of its weights.
template <class T>
__device__ inline void FetchWeights(const TensorParams& params, int64_t first_input, int64_t first_col, float* panel) {
  constexpr int kUnits = T::kCols / 4;
  for (int i = static_cast<int>(threadIdx.x); i < kDepth * kUnits; i += static_cast<int>(blockDim.x)) {
    const int64_t input = first_input + i / kUnits, col = first_col + i % kUnits * 4;
    // The packed form has zeros up to whole panels, and rows of whole packs.
    const int valid = col < params.weight_stride ? 16 : 0;
    const float* const from = valid > 0 ? params.weight + input * params.weight_stride + col : params.weight;
    CopyAsync<16>(panel + i / kUnits * T::kWeightStride + i % kUnits * 4, from, valid);
  }
}

// Makes a lane's results of its sums of a tile, and stores them.
template <class T>
__device__ inline void StoreTile(const TensorParams& params, int64_t first_row, int64_t first_col,
                                 const float (&sum)[T::kCols / 8][4]) {
#pragma unroll
  for (int j = 0; j < T::kCols / 8; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t row = first_row + 8 * half, col = first_col + 8 * j;
      if (row >= params.dst.rows || col >= params.dst.cols) continue;
      const bool both = col + 1 < params.dst.cols;
      const EpilogueTerms terms = TermsOf(params.epilogue, row, col);
      const EpilogueTerms next = both ? TermsOf(params.epilogue, row, col + 1) : terms;
      const float2 x = make_float2(ApplyEpilogue(params.epilogue, terms, sum[j][2 * half]),
                                   ApplyEpilogue(params.epilogue, next, sum[j][2 * half + 1]));
      float* const dst = params.dst.data + row * params.dst.stride + col;
      if (both && params.pairs) {
        *reinterpret_cast<float2*>(dst) = x;
      } else {
        dst[0] = x.x;
        if (both) dst[1] = x.y;
      }
    }
  }
}

// Blocks take tile after tile: the first panels of the next travel while this one is multiplied and stored.
template <class T>
__global__ void __launch_bounds__(256) MultiplyTiles(const __grid_constant__ TensorParams params) {
  extern __shared__ __align__(16) float shared[];
  const int warp = static_cast<int>(threadIdx.x) / kLanes, lane = static_cast<int>(threadIdx.x) % kLanes;
  const int rows = static_cast<int>(blockDim.x) / kLanes * kWarpRows, down = lane / 4, across = lane % 4;
  const int panels = static_cast<int>((params.src.cols + kDepth - 1) / kDepth);
  const auto row_of = [&](int64_t tile) { return tile / params.col_tiles * rows; };
  const auto col_of = [&](int64_t tile) { return tile % params.col_tiles * T::kCols; };
  int64_t fetched_tile = blockIdx.x;
  int fetched_panel = 0, to = 0, from = 0;  // stages
  const auto fetch = [&] {
    if (fetched_tile < params.tiles) {
      float* const stage = shared + to * T::StageFloats(rows);
      FetchRows<T>(params, row_of(fetched_tile), int64_t{fetched_panel} * kDepth, rows, stage);
      FetchWeights<T>(params, int64_t{fetched_panel} * kDepth, col_of(fetched_tile), stage + rows * T::Step::kStride);
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
      // It has come, for all, and nobody reads the one before any more.
      __syncthreads();
      fetch();
      const float* const stage = shared + from * T::StageFloats(rows);
      const float* const a = stage + (warp * kWarpRows + down) * T::Step::kStride;
      const float* const b = stage + rows * T::Step::kStride + down;
#pragma unroll
      for (int input = 0; input < kDepth; input += T::Step::kInputs) {
        typename T::Step step;
        step.LoadA(a + input, across);
#pragma unroll
        for (int j = 0; j < T::kCols / 8; ++j) {
          step.Multiply(b + input * T::kWeightStride + 8 * j, T::kWeightStride, across, sum[j]);
        }
      }
      if (++from == T::kStages) from = 0;
    }
    StoreTile<T>(params, row_of(tile) + warp * kWarpRows + down, col_of(tile) + 2 * across, sum);
  }
}

template <class T>
cudaError_t LaunchTile(TensorParams params, int warps, const LaunchTarget& target) {
  const int rows = warps * kWarpRows, bytes = T::kStages * T::StageFloats(rows) * static_cast<int>(sizeof(float));
  const cudaError_t error = cudaFuncSetAttribute(MultiplyTiles<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  params.col_tiles = static_cast<int>((params.dst.cols + T::kCols - 1) / T::kCols);
  params.tiles = (params.dst.rows + rows - 1) / rows * params.col_tiles;
  // As many blocks as fit side by side: a multiprocessor has 227 KB of shared memory, a block takes 1 KB more than its.
  const int64_t resident = std::clamp(232448 / (bytes + 1024), 1, 32 / warps);
  const int64_t blocks = std::min(params.tiles, resident * target.multiprocessors);
  MultiplyTiles<T><<<static_cast<unsigned>(blocks), warps * kLanes, bytes, target.stream>>>(params);
  return cudaGetLastError();
}

template <ProductPrecision kPrecision, int kCols>
cudaError_t LaunchRows(const TensorParams& params, const LaunchTarget& target) {
  // Tall blocks load weights less often; lower ones, with more panels under way, where those would leave
  // multiprocessors idle.
  int warps = 8;
  while (warps > 1 && params.dst.rows < int64_t{target.multiprocessors} * warps * kWarpRows) warps /= 2;
  return warps == 8 ? LaunchTile<TensorTile<kPrecision, kCols, 3>>(params, warps, target)
                    : LaunchTile<TensorTile<kPrecision, kCols, 8>>(params, warps, target);
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
  params.aligned = InPacks(args.src);
  params.pairs = reinterpret_cast<uintptr_t>(args.dst.data) % 8 == 0 && args.dst.stride % 2 == 0;
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
