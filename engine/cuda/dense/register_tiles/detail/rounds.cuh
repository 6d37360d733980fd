// SPDX-License-Identifier: Apache-2.0
// The kernel of register_tiles for at most some thousands of rows with many inputs: more folds than a block has warps
// for, or a thousand inputs with high tiles of 32 columns.
//
// Idea. As in staged.cuh, the folds of a row are split among a block's warps, two per warp, and their sums are added in
// order, so every element is the same chain in any tile. Two things differ, both for large products. Panels are boxes
// (TMA) that one lane requests, swizzled to avoid bank conflicts, so nearly all instructions are multiplications. And
// rounds do not wait for each other: a round's sums are added while the next round runs. A box takes longer to start
// than a copy by lanes, which costs small products: on an H200, 0.3 us of 7.3 for 2,708 rows of 1433 inputs and 16
// columns.
//
// Order of events: a round's sums are stored; they are added after the first panel of the next round; only then may the
// next sums be stored. The copies of a warp's next panels are in flight throughout.
//
// Traffic: src once, the weights once per tile. Clusters that split the folds would read weights less often, but were
// slower: they start a microsecond later, and their blocks wait for each other.
#ifndef VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_ROUNDS_CUH_
#define VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_ROUNDS_CUH_

#include <cuda.h>

#include <cstdint>

#include "engine/cuda/common/bulk_copy.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/dense/register_tiles/detail/folds.cuh"
#include "engine/cuda/dense/register_tiles/detail/tiles.cuh"

namespace vicinal::cuda {

// Panels in a warp's ring.
inline constexpr int kRingStages = 2;

// A thread computes kThreadRows x 4 elements of one fold at a time for each of kPacks packs of columns. A warp has 4
// lanes across, 4 down, and two folds. A panel has kDepth inputs, 16 or 32.
template <int kThreadRows_, int kPacks_, int kDepth_, int kMaxWarps_>
struct RoundsTile {
  static constexpr int kThreadRows = kThreadRows_, kPacks = kPacks_, kDepth = kDepth_, kMaxWarps = kMaxWarps_;
  static constexpr int kRowLanes = 4, kFoldLanes = 2, kPanels = kFoldInputs / kDepth;
  static constexpr int kRows = kThreadRows * kRowLanes, kCols = 16 * kPacks, kElements = kRows * kCols;
  // Bytes of shared memory. The swizzle repeats every 8 rows of a box (kPattern), and boxes start at multiples of that.
  static constexpr int kRowBytes = kDepth * 4, kPattern = 8 * kRowBytes;
  static constexpr int kRowsBox = (kRows * kRowBytes + kPattern - 1) / kPattern * kPattern;
  static constexpr int kWeightsBox = kDepth * kCols * 4;
  static constexpr int kStage = kFoldLanes * (kRowsBox + kWeightsBox), kRing = kRingStages * kStage;
  static constexpr int kArriving = kFoldLanes * (kRows * kRowBytes + kWeightsBox);
  static constexpr int kSums = kFoldLanes * kElements * 4;
  // The weights of 2^kLineShift inputs form a line of 256 elements, the maximum extent of a box.
  static constexpr int kLineShift = kPacks == 1 ? 4 : 3;
  static constexpr int kBarriers = (kMaxWarps * kRingStages + 2) * 8;
  static_assert(kCols << kLineShift == 256 && kSums <= kRing && kPattern <= kBoxAlignment);

  // In a product of one round, a warp's sums replace its ring.
  __host__ __device__ static constexpr int RingsAndSums(int warps, bool one_round) {
    return warps * (kRing + (one_round ? 0 : kSums));
  }
  // Boxes are aligned to kBoxAlignment. The barriers use what the alignment leaves free before or after them.
  static constexpr int Shared(int warps, bool one_round) { return kBoxAlignment + RingsAndSums(warps, one_round); }
  static_assert(2 * kBarriers <= kBoxAlignment);
  // Maximum warps with several rounds: the same number for each quarter of the multiprocessor.
  static constexpr int MaxWarpsOfRounds() {
    int warps = kMaxWarps / 4 * 4;
    while (Shared(warps, false) > kMaxSharedBytes) warps -= 4;
    return warps;
  }
  // With several rounds, a thread adds the sums of at most 4 elements.
  static_assert(Shared(kMaxWarps, true) <= kMaxSharedBytes && MaxWarpsOfRounds() >= 8 && kElements <= 8 * 32 * 4);
};

// How the folds of a product are distributed: in each round, `warps` warps process two folds each.
template <class T>
struct DenseRounds {
  int warps, rounds;

  __host__ explicit DenseRounds(int64_t in_width) {
    const int folds = static_cast<int>((in_width + kFoldInputs - 1) / kFoldInputs);
    const int pairs = (folds + T::kFoldLanes - 1) / T::kFoldLanes;
    const int most = pairs <= T::kMaxWarps ? T::kMaxWarps : T::MaxWarpsOfRounds();
    rounds = (pairs + most - 1) / most;
    warps = (pairs + rounds - 1) / rounds;
    if (rounds > 1) warps = (warps + 3) / 4 * 4;
  }

  __host__ int Shared() const { return T::Shared(warps, rounds == 1); }
};

// A block's shared memory: the rings of boxes, then the sums of a round (with several rounds), and the barriers.
template <class T>
struct RoundsShared {
  char* rings;
  uint32_t barriers;

  __device__ RoundsShared(char* shared, int warps, bool one_round) : rings(FirstBox(shared)) {
    const bool before = rings - shared >= T::kBarriers;
    barriers = SharedAddress(before ? shared : rings + T::RingsAndSums(warps, one_round));
  }
};

struct DenseMaps {
  CUtensorMap src;      // inputs, rows
  CUtensorMap weights;  // elements of a line, lines of a fold, folds
  int line_shift;       // a line has the weights of 2^line_shift inputs
};

// A warp's copies into its ring, one panel of both its folds at a time. Panels are numbered through all rounds.
template <class T>
struct RoundsCopies {
  const DenseMaps& maps;
  // per_round: folds of a round; first: this warp's first fold.
  int row0, col0, in_width, panels, per_round, first;
  uint32_t ring, arrived;  // a barrier per stage

  __device__ bool Exists(int panel) const {
    const int fold = panel / T::kPanels * per_round + first;
    return panel < panels && fold * kFoldInputs + panel % T::kPanels * T::kDepth < in_width;
  }

  // Called by one lane, like Start().
  __device__ void Begin() const {
    for (int stage = 0; stage < kRingStages; ++stage) InitBarrier(arrived + stage * 8, 1);
    FenceBarrierInit();
    for (int stage = 0; stage < kRingStages; ++stage) Start(stage, stage);
  }

  // Called by one lane. Elements beyond the last input, row, column or fold arrive as zeros. Does nothing if the panel
  // does not exist.
  __device__ void Start(int panel, int stage) const {
    if (!Exists(panel)) return;
    const int fold = panel / T::kPanels * per_round + first, input = panel % T::kPanels * T::kDepth;
    const uint32_t to = ring + stage * T::kStage, barrier = arrived + stage * 8;
    ArriveExpecting(barrier, T::kArriving);
#pragma unroll
    for (int f = 0; f < T::kFoldLanes; ++f) {
      CopyBox(to + f * T::kRowsBox, maps.src, (fold + f) * kFoldInputs + input, row0, barrier);
    }
    CopyBox(to + T::kFoldLanes * T::kRowsBox, maps.weights, col0, input >> maps.line_shift, fold, barrier);
  }
};

// The mapping of a lane, and the offsets that it reads in a stage.
template <class T>
struct RoundsLane : FoldLane {
  using FoldLane::FoldLane;
  __device__ int Rows() const { return fold * T::kRowsBox + row * T::kRowBytes; }
  __device__ int Weights() const { return T::kFoldLanes * T::kRowsBox + fold * T::kWeightsBox + col * 16; }
  __device__ int Sums() const { return fold * T::kElements + row * T::kCols + col * 4; }  // in floats
};

// Adds the products of a panel. `stage` is this warp's. The units of rows are swizzled (tensor_map.h). Every second row
// of a thread is 4 rows further in the swizzle pattern.
template <class T>
__device__ inline void MultiplyBoxes(const char* stage, const RoundsLane<T>& my,
                                     float (&sum)[T::kThreadRows][T::kPacks][4]) {
  constexpr int kFurther = T::kDepth == 32 ? 4 : 2;
  const char* const rows = stage + my.Rows();
  const float* const weights = reinterpret_cast<const float*>(stage + my.Weights());
  const int swizzle = T::kDepth == 32 ? my.row : my.row / 2;
#pragma unroll 4
  for (int unit = 0; unit < T::kDepth / 4; ++unit) {
    const int even = (unit ^ swizzle) * 16, odd = even ^ kFurther * 16;
    Pack<4> a[T::kThreadRows];
#pragma unroll
    for (int i = 0; i < T::kThreadRows; ++i) {
      const char* const row = rows + i * T::kRowLanes * T::kRowBytes + (i % 2 == 0 ? even : odd);
      a[i] = LoadShared<4>(reinterpret_cast<const float*>(row));
    }
    MultiplyFourInputs<T>(a, weights + unit * 4 * T::kCols, sum);
  }
}

// The sums of a round in shared memory. Those of warp w start at sums + w * pitch, fold by fold.
template <class T>
struct RoundSums {
  float* sums;
  int pitch, warps;
  uint32_t stored, added;  // barriers, with several rounds

  __device__ void InitBarriers() const {
    InitBarrier(stored, static_cast<int>(blockDim.x));
    InitBarrier(added, static_cast<int>(blockDim.x));
  }

  __device__ void Store(int warp, const RoundsLane<T>& my, const float (&sum)[T::kThreadRows][T::kPacks][4]) const {
    float* const to = sums + warp * pitch + my.Sums();
#pragma unroll
    for (int i = 0; i < T::kThreadRows; ++i) {
#pragma unroll
      for (int p = 0; p < T::kPacks; ++p) {
        const float(&x)[4] = sum[i][p];
        StorePack<4>(to + i * T::kRowLanes * T::kCols + p * 16, {x[0], x[1], x[2], x[3]});
      }
    }
  }

  // Adds the sums of elements [element, element + 4) in order. Missing folds have sums of zero.
  __device__ void AddTo(Pack<4>* total, int element) const {
#pragma unroll 4
    for (int w = 0; w < warps; ++w) {
#pragma unroll
      for (int f = 0; f < T::kFoldLanes; ++f) {
        const Pack<4> x = LoadShared<4>(sums + w * pitch + f * T::kElements + element);
#pragma unroll
        for (int v = 0; v < 4; ++v) total->v[v] += x.v[v];
      }
    }
  }
};

// Adds the last round's sums to this thread's total and stores the result. In a product of one round there is no total
// yet, and a thread may have several packs.
template <class T>
__device__ inline void FinishRounds(const DenseParams& params, int64_t row0, int64_t col0, int rounds,
                                    const RoundSums<T>& sums, Pack<4> total) {
  const int first = static_cast<int>(threadIdx.x) * 4;
  if (rounds == 1) {
    __syncthreads();
  } else {
    AwaitPhase(sums.stored, (rounds - 1) % 2);
  }
#pragma unroll 1
  for (int e = first; e < T::kElements; e += static_cast<int>(blockDim.x) * 4) {
    if (e != first) total = Pack<4>::Filled(0.0f);  // only with one round
    sums.AddTo(&total, e);
    StoreSums<4>(params, row0 + e / T::kCols, col0 + e % T::kCols, total);
  }
}

// Blocks of the same blockIdx.y have the same rows. REQUIRES: warps and rounds are those of DenseRounds.
template <class T>
__device__ inline void MakeTileInRounds(const DenseMaps& maps, const DenseParams& params, int rounds) {
  TriggerNextLaunch();
  extern __shared__ __align__(16) char raw[];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int64_t row0 = int64_t{blockIdx.y} * T::kRows, col0 = int64_t{blockIdx.x} * T::kCols;
  const RoundsShared<T> shared(raw, warps, rounds == 1);
  const char* const ring = shared.rings + warp * T::kRing;
  const uint32_t barriers = shared.barriers, arrived = barriers + (2 + warp * kRingStages) * 8;
  const RoundsCopies<T> copies{maps,
                               static_cast<int>(row0),
                               static_cast<int>(col0),
                               static_cast<int>(params.source.in_width),
                               rounds * T::kPanels,
                               warps * T::kFoldLanes,
                               warp * T::kFoldLanes,
                               SharedAddress(ring),
                               arrived};
  const int ring_bytes = rounds == 1 ? 0 : warps * T::kRing;
  const RoundSums<T> sums{reinterpret_cast<float*>(shared.rings + ring_bytes), (rounds == 1 ? T::kRing : T::kSums) / 4,
                          warps, barriers, barriers + 8};
  if (thread == 0) sums.InitBarriers();
  if (lane == 0) copies.Begin();
  __syncthreads();

  const RoundsLane<T> my(lane);
  const int element = thread * 4;
  Pack<4> total = Pack<4>::Filled(0.0f);
  int panel = 0, stage = 0, phase = 0;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    float sum[T::kThreadRows][T::kPacks][4] = {};
#pragma unroll 1
    for (int i = 0; i < T::kPanels; ++i, ++panel) {
      if (copies.Exists(panel)) {
        AwaitPhase(arrived + stage * 8, phase);
        MultiplyBoxes<T>(ring + stage * T::kStage, my, sum);
      }
      __syncwarp();  // all lanes have read the stage that is overwritten now
      if (lane == 0) copies.Start(panel + kRingStages, stage);
      if (++stage == kRingStages) stage = 0, phase ^= 1;
      if (i > 0 || round == 0) continue;
      AwaitPhase(sums.stored, (round - 1) % 2);
      if (element < T::kElements) sums.AddTo(&total, element);
      Arrive(sums.added);
    }
    if (round > 0) AwaitPhase(sums.added, (round - 1) % 2);
    __syncwarp();
    sums.Store(warp, my, sum);
    if (rounds > 1) Arrive(sums.stored);
  }
  FinishRounds<T>(params, row0, col0, rounds, sums, total);
}

template <class T>
__global__ void __launch_bounds__(32 * T::kMaxWarps, 1)
    DenseInRounds(const __grid_constant__ DenseMaps maps, const __grid_constant__ DenseParams params, int rounds) {
  if constexpr (kCompiledFor >= kBulkCopies) MakeTileInRounds<T>(maps, params, rounds);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_REGISTER_TILES_DETAIL_ROUNDS_CUH_
