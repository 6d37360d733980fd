// SPDX-License-Identifier: Apache-2.0
// The kernel of dense_update for some thousands of rows and fewer: too few for tiles that have all inputs to themselves
// to go round.
//
// Idea. The folds of a row (dense_update_tiles.cuh) are shared out among a block's warps, and within a warp among
// groups of lanes that make the same elements; their sums then meet in shared memory and are added in order: the same
// chain for every element as in the tiles, evaluated in parallel. So a block of 8 rows has as many threads as one of
// 128, each with an element tile in registers that is worth its loads. A warp works alone until the sums meet: its
// rows' inputs come by asynchronous copies into a ring of its own, a whole fold ahead, and its weights straight from
// the caches.
//
// Bytes: src once for each tile across, the weights once for each block (from the L2 or, where blocks of a
// multiprocessor share them, the L1).
#ifndef VICINAL_ENGINE_CUDA_DENSE_UPDATE_SPLIT_CUH_
#define VICINAL_ENGINE_CUDA_DENSE_UPDATE_SPLIT_CUH_

#include <algorithm>
#include <cstdint>

#include "engine/cuda/dense_update_tiles.cuh"

namespace vicinal::cuda {

// A thread makes kThreadRows x 4 elements of one fold at a time; a warp has kRowLanes lanes down, kColLanes across, and
// its other lanes have other folds.
template <int kThreadRows_, int kRowLanes_, int kColLanes_>
struct SplitTile {
  static constexpr int kThreadRows = kThreadRows_, kThreadCols = 4;
  static constexpr int kRowLanes = kRowLanes_, kColLanes = kColLanes_, kFoldLanes = 32 / (kRowLanes * kColLanes);
  static constexpr int kRows = kThreadRows * kRowLanes, kCols = kThreadCols * kColLanes;
  static constexpr int kElements = kRows * kCols;
  static constexpr int kMaxWarps = kThreadRows > 4 ? 10 : 16;  // that registers and shared memory are there for
  static constexpr int kStrips = kRows * kFoldLanes;           // rows' folds in a warp's hands
  static constexpr int kPitch = kFoldInputs + 4;               // so that strips side by side meet in no bank
  static constexpr int kRing = kStrips * kPitch;               // floats
  static constexpr int kStep = 4;                              // inputs multiplied at once
  static constexpr int kAhead = 4;                             // steps whose weights are in registers
  static constexpr int kMaxShared = (kMaxWarps * (kRing + kFoldLanes * kElements) + kElements) * 4;  // bytes
  static_assert(kFoldLanes >= 1 && kCols <= kPackedBehind && kMaxShared <= 227 * 1024);
};

// How the folds of a product are shared out: `warps` warps work on `per_round` of them at a time.
struct FoldRounds {
  int warps = 1;
  int rounds = 1;

  template <class T>
  static FoldRounds For(int64_t in_width) {
    const int folds = static_cast<int>(std::max<int64_t>(1, (in_width + kFoldInputs - 1) / kFoldInputs));
    const int most = T::kMaxWarps * T::kFoldLanes, rounds = (folds + most - 1) / most;
    const int even = (folds + rounds - 1) / rounds;
    return {(even + T::kFoldLanes - 1) / T::kFoldLanes, rounds};
  }
};

// Shared memory of a block, in floats: the warps' rings, the sums of a round's folds, and totals. In the last round
// nothing is on its way into the rings, so in a product of one round the sums lie there.
template <class T>
struct SplitShared {
  int rings, sums, total;

  __host__ __device__ SplitShared(int warps, int rounds)
      : rings(warps * T::kRing), sums(warps * T::kFoldLanes * T::kElements), total(0) {
    total = T::kElements + (rounds == 1 ? (rings > sums ? rings : sums) : rings + sums);
  }
};

// This lane's share of the copies that fill its warp's ring, a panel of kDepth inputs of every strip at a time.
template <class T, int kVec>
class StripCopies {
 public:
  static constexpr int kDepth = 32;
  static constexpr int kPanels = kFoldInputs / kDepth;

  __device__ StripCopies(const DenseParams& params, int64_t row0, float* ring)
      : params_(params),
        row_(row0 + Strip() / T::kFoldLanes),
        input_(Strip() % T::kFoldLanes * kFoldInputs + Input()),
        to_(ring + Strip() * T::kPitch + Input()) {}

  // Panel `panel` of the folds from `fold` on; zeros beyond the last input. Rows beyond the last are copies of it.
  __device__ void Start(int fold, int panel) const {
    const int in_width = static_cast<int>(params_.in_width);
    int from[kFolds], valid[kFolds];
#pragma unroll
    for (int f = 0; f < kFolds; ++f) {
      const int input = input_ + (fold + f) * kFoldInputs + panel * kDepth;
      valid[f] = max(min(in_width - input, kVec), 0) * 4;
      from[f] = valid[f] > 0 ? input : 0;
    }
    float* to = to_ + panel * kDepth;
#pragma unroll 1
    for (int row = 0; row < T::kRows; row += kRows) {
      const float* src = params_.src.data + min(row_ + row, params_.dst.rows - 1) * params_.src.stride;
#pragma unroll
      for (int f = 0; f < kFolds; ++f) CopyAsync<kVec * 4>(to + f * T::kPitch, src + from[f], valid[f]);
      to += kRows * T::kFoldLanes * T::kPitch;
    }
  }

 private:
  // Lanes side by side copy from one strip, and a warp from so many at once: several rows', or some of a row's folds.
  static constexpr int kLanes = kDepth / kVec, kAtOnce = 32 / kLanes;
  static constexpr int kRows = std::max(1, kAtOnce / T::kFoldLanes), kFolds = std::max(1, T::kFoldLanes / kAtOnce);
  static_assert(T::kRows % kRows == 0);

  __device__ static int Strip() { return static_cast<int>(threadIdx.x) % 32 / kLanes; }
  __device__ static int Input() { return static_cast<int>(threadIdx.x) % kLanes * kVec; }

  const DenseParams& params_;
  const int64_t row_;
  const int input_;
  float* const to_;
};

// Weights of kStep inputs and this lane's columns.
template <class T>
struct StepWeights {
  Pack<4> w[T::kStep];

  // `from`: of input 0 and the lane's first column.
  __device__ void Load(const float* from, int input, int stride) {
    from += int64_t{input} * stride;
#pragma unroll
    for (int s = 0; s < T::kStep; ++s) {
      w[s] = LoadReadOnly<4>(from);
      from += stride;
    }
  }
};

// Adds the products of kStep inputs; `strip`: this lane's first, at the first of them.
template <class T>
__device__ inline void MultiplyStep(const float* strip, const StepWeights<T>& weights,
                                    float (&sum)[T::kThreadRows][T::kThreadCols]) {
  Pack<T::kStep> a[T::kThreadRows];
#pragma unroll
  for (int i = 0; i < T::kThreadRows; ++i) {
    a[i] = LoadShared<T::kStep>(strip + i * T::kRowLanes * T::kFoldLanes * T::kPitch);
  }
#pragma unroll
  for (int s = 0; s < T::kStep; ++s) {
#pragma unroll
    for (int i = 0; i < T::kThreadRows; ++i) {
#pragma unroll
      for (int j = 0; j < T::kThreadCols; ++j) sum[i][j] = fmaf(a[i].v[s], weights.w[s].v[j], sum[i][j]);
    }
  }
}

// Adds the sums of a round's `folds` to the totals, in order; after the last round, epilogue and store instead.
template <class T>
__device__ inline void AddFolds(const DenseParams& params, int64_t row0, int64_t col0, const float* sums, int folds,
                                bool last, float* totals) {
  for (int e = static_cast<int>(threadIdx.x); e < T::kElements; e += static_cast<int>(blockDim.x)) {
    const int64_t row = row0 + e / T::kCols, col = col0 + e % T::kCols;
    const bool stores = last && row < params.dst.rows && col < params.dst.cols;
    EpilogueTerms terms = {};
    if (stores) terms = TermsOf(params.epilogue, row, col);
    float total = totals[e];
#pragma unroll 4
    for (int f = 0; f < folds; ++f) total += sums[f * T::kElements + e];
    totals[e] = total;
    if (stores) params.dst.data[row * params.dst.stride + col] = ApplyEpilogue(params.epilogue, terms, total);
  }
}

template <class T, int kVec>
__global__ void __launch_bounds__(32 * T::kMaxWarps)
    DenseSplit(const __grid_constant__ DenseParams params, int rounds) {
  using Copies = StripCopies<T, kVec>;
  LetNextBegin();
  extern __shared__ __align__(16) float shared[];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32, per_round = warps * T::kFoldLanes;
  const SplitShared<T> places(warps, rounds);
  float* const totals = shared;
  float* const ring = shared + T::kElements + warp * T::kRing;
  float* const sums = shared + T::kElements + (rounds == 1 ? 0 : places.rings);
  const unsigned across = static_cast<unsigned>((params.dst.cols + T::kCols - 1) / T::kCols);
  const int64_t row0 = int64_t{blockIdx.x / across} * T::kRows, col0 = int64_t{blockIdx.x % across} * T::kCols;
  // Lanes side by side have columns side by side.
  const int my_col = lane % T::kColLanes * 4, my_strip = lane / T::kColLanes;
  const int my_fold = my_strip % T::kFoldLanes;
  const int in_width = static_cast<int>(params.in_width);
  const int folds = max((in_width + kFoldInputs - 1) / kFoldInputs, 1);

  const int stride = static_cast<int>(params.weight_stride);
  const float* const weight = params.weight + col0 + my_col;
  const Copies copies(params, row0, ring);
  const auto start = [&](int fold, int panel) {
    if (fold * kFoldInputs + panel * Copies::kDepth < in_width) copies.Start(fold, panel);
    CommitCopies();
  };
  const int first = warp * T::kFoldLanes;  // of this warp's folds in a round
#pragma unroll
  for (int panel = 0; panel < Copies::kPanels; ++panel) start(first, panel);
  // Beyond the last fold its weights stand in, and nobody asks for the sums.
  const auto first_input = [&](int fold) { return min(fold + my_fold, folds - 1) * kFoldInputs; };
  StepWeights<T> weights[T::kAhead];
#pragma unroll
  for (int i = 0; i < T::kAhead - 1; ++i) weights[i].Load(weight, first_input(first) + i * T::kStep, stride);
  for (int e = static_cast<int>(threadIdx.x); e < T::kElements; e += static_cast<int>(blockDim.x)) totals[e] = 0.0f;

  for (int round = 0; round < rounds; ++round) {
    const int fold = round * per_round + first;
    float sum[T::kThreadRows][T::kThreadCols] = {};
    for (int panel = 0; panel < Copies::kPanels && fold * kFoldInputs + panel * Copies::kDepth < in_width; ++panel) {
      AwaitCopies<Copies::kPanels - 1>();
      __syncwarp();
      const int input = first_input(fold) + panel * Copies::kDepth;
      const float* strip = ring + my_strip * T::kPitch + panel * Copies::kDepth;
      const bool last_panel = panel + 1 == Copies::kPanels;
#pragma unroll
      for (int s = 0; s < Copies::kDepth; s += T::kStep) {
        constexpr int kDistance = (T::kAhead - 1) * T::kStep;
        // After a fold's last steps come the first of the next round's.
        const int over = s + kDistance - Copies::kDepth;
        const int from = over >= 0 && last_panel ? first_input(fold + per_round) + over : input + s + kDistance;
        weights[(s / T::kStep + T::kAhead - 1) % T::kAhead].Load(weight, from, stride);
        MultiplyStep<T>(strip + s, weights[s / T::kStep % T::kAhead], sum);
      }
      __syncwarp();  // all have read what is overwritten now
      start(fold + per_round, panel);
    }
    if (rounds == 1) {
      AwaitCopies<0>();
      __syncthreads();  // the sums take the rings' place
    }
    float* const my_sums = sums + (first + my_fold) * T::kElements + my_col;
#pragma unroll
    for (int i = 0; i < T::kThreadRows; ++i) {
      const int row = my_strip / T::kFoldLanes + i * T::kRowLanes;
      StorePack<4>(my_sums + row * T::kCols, {sum[i][0], sum[i][1], sum[i][2], sum[i][3]});
    }
    __syncthreads();
    AddFolds<T>(params, row0, col0, sums, min(per_round, folds - round * per_round), round + 1 == rounds, totals);
    if (round + 1 < rounds) __syncthreads();
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_UPDATE_SPLIT_CUH_
