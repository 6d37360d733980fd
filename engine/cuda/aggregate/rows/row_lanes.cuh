// SPDX-License-Identifier: Apache-2.0
// How binned_rows maps the lanes of a warp to a row, and how it makes and reduces messages. kLanes adjacent lanes cover
// a tile of columns, 8 or 16 bytes each. The kGroups such groups of a warp read different edges or rows at once.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_LANES_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_LANES_CUH_

#include <cmath>
#include <cstdint>

#include "engine/cuda/aggregate/rows/row_finish.cuh"
#include "engine/cuda/aggregate/rows/row_load.cuh"
#include "engine/cuda/common/hardware.h"
#include "engine/cuda/common/larger.cuh"

namespace vicinal::cuda {

inline constexpr int kBlockThreads = 128;
inline constexpr int kBlockWarps = kBlockThreads / kWarpLanes;

// The modes: how messages are made and reduced.
struct PlainSum {
  static constexpr bool kWeighted = false, kExtremum = false;
  // Loads are written for the fewest instructions, at the cost of registers. The other modes need those for weights,
  // and were slower with it.
  static constexpr bool kLean = true;
};
struct WeightedSum {
  static constexpr bool kWeighted = true, kExtremum = false, kLean = false;
};
// The maximum of weighted messages. A minimum is the negated maximum of negated messages.
struct Extremum {
  static constexpr bool kWeighted = true, kExtremum = true, kLean = false;
};

template <class Mode>
__device__ inline float Identity() {
  return Mode::kExtremum ? -INFINITY : 0.0f;
}

template <class Mode>
__device__ inline float Combined(float a, float b) {
  return Mode::kExtremum ? LargerOf(a, b) : a + b;
}

// Reduces `so_far` with the message `weight` * `value`.
template <class Mode>
__device__ inline float WithMessage(float so_far, float weight, float value) {
  if constexpr (Mode::kExtremum) return LargerOf(so_far, weight * value);
  return Mode::kWeighted ? fmaf(weight, value, so_far) : so_far + value;
}

// kSimple: RowsEpilogue::simple() holds; such a kernel needs fewer registers. kItems: items that a bundle has room for.
// kProduct: finished rows are multiplied (RowsEpilogue::product), and one tile has all columns.
template <class Element_, int kVec_, int kLanes_, bool kSimple_, int kItems_ = kBundleItems, bool kProduct_ = false>
struct RowLayout {
  static constexpr bool kSimple = kSimple_, kProduct = kProduct_;
  static constexpr int kItems = kItems_;
  using Element = Element_;
  using Load = RowLoad<Element, kVec_>;
  static constexpr int kVec = kVec_, kLanes = kLanes_, kGroups = kWarpLanes / kLanes;
  static constexpr int kTile = kVec * kLanes;
  // Short rows (short_rows.cuh) that a group (kRows) and the warp (kSlots) sum at once.
  static constexpr int kRows = kGroups < kItems ? 2 : 1, kSlots = kRows * kGroups;
  static_assert(kGroups <= kChains);
};

// The position of a lane in its warp, tile and row.
template <class Layout>
struct Lane {
  int lane = threadIdx.x % kWarpLanes;
  int warp = threadIdx.x / kWarpLanes;
  int group = lane / Layout::kLanes;
  int tile;    // its first column
  int column;  // the first that it reads and sums

  __device__ explicit Lane(uint32_t tile_number)
      : tile(static_cast<int>(tile_number) * Layout::kTile), column(tile + lane % Layout::kLanes * Layout::kVec) {}
  __device__ bool has_columns(const RowsParams& params) const { return column < params.out.dst.cols; }
  // The lane's part of row 0. Lanes without columns read what others read, and their results are discarded.
  __device__ const char* Source(const RowsParams& params) const {
    const char* src = static_cast<const char*>(params.source.rows.data) +
                      (has_columns(params) ? column : tile) * sizeof(typename Layout::Element);
    // Keeps the compiler from computing the address again at every load, which takes four more instructions.
    asm volatile("" : "+l"(src));
    __builtin_assume(__isGlobal(src));
    return src;
  }
};

// A lane's part of the row of `source`. `src` is its part of row 0.
template <class Layout, bool kLean = false>
__device__ inline typename Layout::Load::Raw Gathered(const RowsParams& params, const char* src, int32_t source) {
  // Unsigned 32 bits, and hidden from the compiler's view as a launch constant, so that an address is one instruction.
  // For a launch constant the compiler adds the upper half of the product, which is zero, separately.
  uint32_t stride = params.source.stride_bytes;
  if constexpr (kLean) asm("" : "+r"(stride));
  const uint64_t offset = uint64_t{static_cast<uint32_t>(source)} * stride;
  return Layout::Load::Load(reinterpret_cast<const typename Layout::Element*>(src + offset));
}

// The weights of kCount edges: edge(i) of the adjacency, from source[i], for each i with wanted(i).
template <class Mode, int kCount, class Edge, class Wanted>
__device__ inline void FetchWeights(const RowsParams& params, const int32_t (&source)[kCount], const Edge& edge,
                                    const Wanted& wanted, float (&weight)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) weight[i] = 1.0f;
  if constexpr (Mode::kWeighted) {
    // One branch for all of them, so that their loads are issued together.
    if (params.source.weights != nullptr && params.source.weights_of != WeightsOf::kEdges) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (wanted(i)) weight[i] = __ldg(params.source.weights + source[i]);
      }
    } else if (params.source.weights != nullptr) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (wanted(i)) weight[i] = __ldg(params.source.weights + edge(i));
      }
    }
  }
  if constexpr (Mode::kExtremum) {
    if (params.out.reduce != Reduce::kMin) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) weight[i] = -weight[i];
  }
}

// An item as it is fetched.
struct Item {
  Finish finish;
  int64_t begin;
};

// The last part of a split row may have few edges, but is summed like its row, which is long.
__device__ inline bool IsLong(const Finish& finish) { return finish.count > kShortEdges || finish.row < 0; }

// An item of the work list.
__device__ inline Item LoadItem(const RowsParams& params, const RowItem* item) {
  const int4 packed = __ldg(reinterpret_cast<const int4*>(item));
  const int64_t begin = static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(packed.w)) << 32 |
                                             static_cast<uint32_t>(packed.z));
  return {FinishOf(params, packed.x, packed.y), begin};
}

// Item `slot` of the warp's bundle: from the work list or, without one, from the rows in their order.
template <class Layout>
__device__ inline Item LoadBundled(const RowsParams& params, uint32_t bundle, int slot) {
  if (params.work.bundled != nullptr)
    return LoadItem(params, params.work.bundled + uint64_t{bundle} * Layout::kItems + slot);
  const int64_t row = int64_t{bundle} * params.work.bundle_rows + slot;
  if (slot >= params.work.bundle_rows || row >= params.out.dst.rows) return {{0, -1, 0.0f, 0.0f}, 0};
  const int64_t begin = __ldg(params.work.adjacency.row_ptr + row);
  const int count = static_cast<int>(__ldg(params.work.adjacency.row_ptr + row + 1) - begin);
  return {FinishOf(params, static_cast<int>(row), count), begin};
}

// A warp's shared memory. It holds the warp's items, which keeps them out of registers until they are finished, and the
// source ids and weights of their next edges. All lanes fetch these together, and each lane of a group then reads them
// from lists, four entries at a time.
template <class Mode, int kItems>
struct alignas(16) StagedItems {
  // A list of kShortEdges entries for each item; large enough for a whole piece (long_rows.cuh).
  static constexpr int kWords = kItems * (kShortEdges + 4);
  Finish finish[kItems];
  int32_t source[kWords];
  float weight[Mode::kWeighted ? kWords : 4];
};
template <class Layout, class Mode>
using Staged = StagedItems<Mode, Layout::kItems>;

// Four consecutive entries of a list, read at once.
struct FourSources {
  int4 four;
  template <class Mode, int kItems>
  __device__ FourSources(const StagedItems<Mode, kItems>& staged, int at)
      : four(*reinterpret_cast<const int4*>(staged.source + at)) {}
  __device__ int32_t operator[](int i) const { return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w; }
};
struct FourWeights {
  float4 four = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
  template <class Mode, int kItems>
  __device__ FourWeights(const StagedItems<Mode, kItems>& staged, int at) {
    if constexpr (Mode::kWeighted) four = *reinterpret_cast<const float4*>(staged.weight + at);
  }
  __device__ float operator[](int i) const { return i == 0 ? four.x : i == 1 ? four.y : i == 2 ? four.z : four.w; }
};

// What a lane needs to finish a row besides its sums. Loaded together, and before anything is stored, as the residual
// may be dst; but after the sums, whose loop needs the registers.
template <class Layout>
struct LaneTerms {
  typename Layout::Load::Raw own;
  float residual[Layout::kVec];

  // REQUIRES: AwaitPreviousKernels() was called. `src` is the lane's part of row 0.
  __device__ void Load(const RowsParams& params, const Lane<Layout>& at, const char* src, const Finish& finish) {
    if (Layout::kSimple || finish.row < 0 || finish.count < 0) return;
    if (params.out.self_scale != 0.0f) own = Gathered<Layout>(params, src, finish.row);
    const ConstMatrixView& from = params.out.epilogue.residual;
    if (from.data == nullptr || !at.has_columns(params)) return;
    const int columns = static_cast<int>(params.out.dst.cols);
    const float* const begin = from.data + finish.row * from.stride + at.column;
    if constexpr (Layout::kVec % 4 == 0) {
      if (params.out.residual_access != Access::kElements) {
#pragma unroll
        for (int i = 0; i < Layout::kVec; i += 4) {
          const float4 x = __ldcg(reinterpret_cast<const float4*>(begin + i));
          residual[i] = x.x, residual[i + 1] = x.y, residual[i + 2] = x.z, residual[i + 3] = x.w;
        }
        return;
      }
    }
#pragma unroll
    for (int i = 0; i < Layout::kVec; ++i) {
      if (at.column + i < columns) residual[i] = __ldcg(begin + i);
    }
  }
};

// Turns a lane's sums `x` of a row into its results, except for rare activations; sums of a part stay as they are.
// Terms that do not apply are skipped by a branch: for short rows, this is a large share of all instructions.
template <class Layout>
__device__ inline void MakeResults(const RowsParams& params, const Lane<Layout>& at, const Finish& finish,
                                   const LaneTerms<Layout>& terms, float (&x)[Layout::kVec]) {
  if (finish.row < 0) return;
  const int columns = static_cast<int>(params.out.dst.cols);
  if (params.out.scaled()) {
#pragma unroll
    for (int i = 0; i < Layout::kVec; ++i) {
      x[i] = Scaled(params, finish, x[i]);
      if constexpr (!Layout::kSimple) x[i] = WithSelf(params, Layout::Load::At(terms.own, i), x[i]);
      x[i] = __fmul_rn(x[i], finish.factor);
    }
  }
  if (params.out.epilogue.bias != nullptr) {
#pragma unroll
    for (int i = 0; i < Layout::kVec; ++i) {
      if (at.column + i < columns) x[i] = __fadd_rn(x[i], __ldg(params.out.epilogue.bias + at.column + i));
    }
  }
#pragma unroll
  for (int i = 0; i < Layout::kVec; ++i) {
    if constexpr (!Layout::kSimple) x[i] = WithResidual(params.out.epilogue, terms.residual[i], x[i]);
  }
  if (params.out.epilogue.activation.kind == ActivationKind::kRelu) {
#pragma unroll
    for (int i = 0; i < Layout::kVec; ++i) x[i] = Rectified(x[i]);
  }
}

// Applies rare activations and stores a lane's results.
template <class Layout>
__device__ inline void StoreResults(const RowsParams& params, const Lane<Layout>& at, const Finish& finish,
                                    float (&x)[Layout::kVec]) {
  if constexpr (!Layout::kSimple) {
    if (finish.row >= 0) ApplyRareActivation(params.out.epilogue.activation, x);
  }
  StoreColumns(params, finish, at.column, x);
}

// Turns a lane's sums of a row into results and stores them. Sums of a part are stored as they are.
template <class Layout>
__device__ inline void FinishRow(const RowsParams& params, const Lane<Layout>& at, const char* src,
                                 const Finish& finish, float (&sum)[Layout::kVec]) {
  LaneTerms<Layout> terms;
  terms.Load(params, at, src, finish);
  MakeResults(params, at, finish, terms, sum);
  StoreResults(params, at, finish, sum);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_ROWS_ROW_LANES_CUH_
