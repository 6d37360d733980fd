// SPDX-License-Identifier: Apache-2.0
// The kernel of register_tiles for at most some thousands of rows, too few to fill a GPU with tiles that sum all inputs
// (tiles.cuh), and at most as many inputs as a block has warps for.
//
// Idea. The folds of a row are split among a block's warps, two per warp. Their sums meet in shared memory and are
// added in order: every element is the same chain as in the tiles, evaluated in parallel. The launcher chooses the
// highest tile that loads the multiprocessors' warps evenly, so that the weights, which each tile reads once, are read
// few times. A warp works alone until the sums meet: asynchronous copies bring panels of 16 inputs of its two folds,
// rows and weights, into a ring of its own, with one or two of them in flight while one is multiplied. Weights are not
// prefetched into registers, as the compiler undid that: it moved the loads of several steps to the first use, where
// each warp then waited for the L2.
//
// Shared memory: 16-byte chunks of rows are permuted to avoid bank conflicts of copies and reads. Traffic: src once,
// the weights once per tile.
#ifndef VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_STAGED_CUH_
#define VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_STAGED_CUH_

#include <cstdint>

#include "engine/cuda/common/async_copy.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/dense/register_tiles/detail/folds.cuh"
#include "engine/cuda/dense/register_tiles/detail/tiles.cuh"

namespace vicinal::cuda {

// A thread computes kThreadRows x 4 elements of one fold at a time for each of kPacks packs of columns. A warp has 4
// lanes across, 4 down, and two folds.
template <int kThreadRows_, int kPacks_>
struct StagedTile {
  static constexpr int kThreadRows = kThreadRows_, kPacks = kPacks_, kRowLanes = 4, kFoldLanes = 2;
  static constexpr int kRows = kThreadRows * kRowLanes, kCols = 16 * kPacks, kElements = kRows * kCols;
  // Inputs per panel, panels per fold, panels in the ring. If panels take long to multiply, one in flight is enough.
  static constexpr int kDepth = 16, kPanels = kFoldInputs / kDepth, kStages = kPacks == 1 ? 3 : 2;
  static constexpr int kStrips = kRows * kFoldLanes;                       // a strip is one fold of one row
  static constexpr int kWeights = kDepth * kCols;                          // floats per fold
  static constexpr int kStage = kStrips * kDepth + kFoldLanes * kWeights;  // floats
  static constexpr int kRing = kStages * kStage, kSums = kFoldLanes * kElements;
  static constexpr int kMaxWarps = 12, kMaxFolds = kMaxWarps * kFoldLanes;

  // Bytes of shared memory. A warp's sums replace its ring.
  static constexpr int Shared(int warps) { return warps * kRing * static_cast<int>(sizeof(float)); }
  static_assert(kSums <= kRing && Shared(kMaxWarps) <= kMaxSharedBytes);

  // The warps for this many inputs; an even number.
  static constexpr int Warps(int64_t in_width) {
    const int folds = static_cast<int>((in_width + kFoldInputs - 1) / kFoldInputs);
    return (folds + 2 * kFoldLanes - 1) / (2 * kFoldLanes) * 2;
  }
};

// A warp's copies into its ring, one panel of both its folds at a time.
template <class T>
class StagedCopies {
 public:
  __device__ StagedCopies(const DenseParams& params, int64_t row0, int64_t col0, int first, float* ring)
      : src_(reinterpret_cast<const char*>(params.source.rows.data + row0 * params.source.rows.stride)),
        weight_bytes_(col0 + Column() < params.source.weight_stride ? 16 : 0),
        // If W has no such columns, its first ones stand in, and the copy reads none of them.
        weight_(params.source.weight + Lane() / kColumnLanes * params.source.weight_stride +
                (weight_bytes_ > 0 ? col0 + Column() : 0)),
        stride_(static_cast<int>(params.source.rows.stride) * 4),
        last_row_(static_cast<int>(min(params.out.dst.rows - row0, int64_t{T::kRows})) - 1),
        weight_stride_(static_cast<int>(params.source.weight_stride)),
        in_width_(static_cast<int>(params.source.in_width)),
        first_(first),
        rows_to_(ring + Strip() * T::kDepth + (Lane() % 4 ^ Strip() / 2 % 4) * 4),
        weights_to_(ring + T::kStrips * T::kDepth + Lane() * 4) {}

  // Inputs beyond the last are zeros, and rows beyond the last are copies of it. Does nothing if the warp has no fold.
  __device__ void Start(int panel, int stage) const {
    const int inputs = panel * T::kDepth;
    if (panel < T::kPanels && first_ * kFoldInputs + inputs < in_width_) {
      const int input = (first_ + Strip() % 2) * kFoldInputs + inputs + Lane() % 4 * 4;
      const int valid = max(min(in_width_ - input, 4), 0) * 4;
      const char* const from = src_ + (valid > 0 ? int64_t{input} * 4 : 0);
      float* const to = rows_to_ + stage * T::kStage;
#pragma unroll
      for (int i = 0; i < T::kThreadRows; ++i) {
        const int row = min(i * T::kRowLanes + Strip() / 2, last_row_);
        CopyAsync<16>(to + i * T::kRowLanes * T::kFoldLanes * T::kDepth, from + int64_t{row} * stride_, valid);
      }
      const int last_fold = (in_width_ - 1) / kFoldInputs;
#pragma unroll
      for (int f = 0; f < T::kFoldLanes; ++f) {
        // Beyond the last fold, its weights stand in: they are multiplied by zeros.
        const int first = min(first_ + f, last_fold) * kFoldInputs + inputs;
        float* const weights_to = weights_to_ + stage * T::kStage + f * T::kWeights;
#pragma unroll
        for (int i = 0; i < T::kDepth; i += 32 / kColumnLanes) {
          const float* const weight = weight_ + int64_t{first + i} * weight_stride_;
          CopyAsync<16>(weights_to + i * T::kCols, weight, weight_bytes_);
        }
      }
    }
    CommitCopies();
  }

 private:
  __device__ static int Lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int Strip() { return Lane() / 4; }  // of the first kRowLanes rows
  static constexpr int kColumnLanes = T::kCols / 4;
  __device__ static int Column() { return Lane() % kColumnLanes * 4; }

  const char* const src_;  // the tile's first row
  const int weight_bytes_;
  const float* const weight_;
  const int stride_;  // bytes
  const int last_row_, weight_stride_, in_width_, first_;
  float* const rows_to_;
  float* const weights_to_;
};

// Adds the products of a panel. `rows` and `weights` are this lane's; `row` is its FoldLane::row.
template <class T>
__device__ inline void MultiplyStaged(const float* rows, int row, const float* weights,
                                      float (&sum)[T::kThreadRows][T::kPacks][4]) {
#pragma unroll
  for (int k = 0; k < T::kDepth; k += 4) {
    const float* const chunk = rows + (k / 4 ^ row) * 4;
    Pack<4> a[T::kThreadRows];
#pragma unroll
    for (int i = 0; i < T::kThreadRows; ++i) a[i] = LoadShared<4>(chunk + i * T::kRowLanes * T::kFoldLanes * T::kDepth);
    MultiplyFourInputs<T>(a, weights + k * T::kCols, sum);
  }
}

// Adds the sums of all folds in order, of two warps at a time, applies the epilogue and stores. Missing folds have sums
// of zero.
template <class T>
__device__ inline void AddStaged(const DenseParams& params, int64_t row0, int64_t col0, const float* shared) {
  const int warps = static_cast<int>(blockDim.x) / 32;
#pragma unroll 1
  for (int e = static_cast<int>(threadIdx.x); e < T::kElements; e += static_cast<int>(blockDim.x)) {
    float total = 0.0f;
#pragma unroll 1
    for (int w = 0; w < warps; w += 2) {
      const float* const sums = shared + w * T::kRing + e;
#pragma unroll
      for (int g = 0; g < 2 * T::kFoldLanes; ++g) {
        total += sums[g / T::kFoldLanes * T::kRing + g % T::kFoldLanes * T::kElements];
      }
    }
    StoreSums<1>(params, row0 + e / T::kCols, col0 + e % T::kCols, {total});
  }
}

// Blocks of the same blockIdx.y have the same rows. REQUIRES: rows of src are aligned to 16 bytes; the number of warps
// is even, two for every four folds.
template <class T>
__global__ void __launch_bounds__(32 * T::kMaxWarps, 1) DenseStaged(const __grid_constant__ DenseParams params) {
  TriggerNextLaunch();
  extern __shared__ __align__(16) float shared[];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int fold = warp * T::kFoldLanes;
  const int64_t row0 = int64_t{blockIdx.y} * T::kRows, col0 = int64_t{blockIdx.x} * T::kCols;
  float* const ring = shared + warp * T::kRing;
  const StagedCopies<T> copies(params, row0, col0, fold, ring);
#pragma unroll 1
  for (int panel = 0; panel < T::kStages - 1; ++panel) copies.Start(panel, panel);

  const FoldLane my(lane);
  const float* const my_rows = ring + (my.row * T::kFoldLanes + my.fold) * T::kDepth;
  const float* const my_weights = ring + T::kStrips * T::kDepth + my.fold * T::kWeights + my.col * 4;
  float* const my_sums = ring + my.fold * T::kElements + my.row * T::kCols + my.col * 4;
  float sum[T::kThreadRows][T::kPacks][4] = {};
  int stage = 0, next = T::kStages - 1;
#pragma unroll 1
  for (int panel = 0; panel < T::kPanels; ++panel) {
    AwaitCopies<T::kStages - 2>();
    __syncwarp();  // all copies have arrived, and all lanes have read the stage that is overwritten now
    copies.Start(panel + T::kStages - 1, next);
    if (fold * kFoldInputs + panel * T::kDepth < static_cast<int>(params.source.in_width)) {
      MultiplyStaged<T>(my_rows + stage * T::kStage, my.row, my_weights + stage * T::kStage, sum);
    }
    stage = stage + 1 == T::kStages ? 0 : stage + 1;
    next = next + 1 == T::kStages ? 0 : next + 1;
  }
  AwaitCopies<0>();
  __syncwarp();  // the sums replace the ring
#pragma unroll
  for (int i = 0; i < T::kThreadRows; ++i) {
#pragma unroll
    for (int p = 0; p < T::kPacks; ++p) {
      const float(&x)[4] = sum[i][p];
      StorePack<4>(my_sums + i * T::kRowLanes * T::kCols + p * 16, {x[0], x[1], x[2], x[3]});
    }
  }
  __syncthreads();
  AddStaged<T>(params, row0, col0, shared);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_STAGED_CUH_
