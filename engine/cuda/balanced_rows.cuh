// SPDX-License-Identifier: Apache-2.0
// balanced_rows: aggregation by groups of lanes, work handed out by length.
//
// Idea. kLanes lanes side by side cover a tile of columns, 16 bytes each; kGroups such groups read different edges of
// one row at once, so that narrow rows keep a warp's lanes busy too. A round gathers 4 rows per lane, then adds them:
// what is in flight comes from many warps rather than from much in each, so the kernel is kept small, in registers and
// in code. (Handing indices round by shuffles, fetching those of the next round early, a block per long row: each was
// tried, and cost more in occupancy than it won.) Who works on what is decided beforehand (row_work.h): rows are
// started longest first, long ones are cut, and a second small kernel adds the parts in order: no atomics of any kind.
// Order of evaluation: row_work.h; equal bits at every run, for every tile and number of groups, with work lists and
// without.
//
// Moves edges * (4 + s * width) bytes of gather (4 more per edge with weights), rows * (16 + 4 * width) besides; s is
// 4, or 2 for rows stored in 16 bits. Bound by the L2's read speed where sources are read often, by memory where not.
// Related: GE-SpMM's coarsened warps, Sputnik's order by length, RoDe's cut of long rows.
#ifndef VICINAL_ENGINE_CUDA_BALANCED_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_BALANCED_ROWS_CUH_

#include <cmath>
#include <cstdint>

#include "engine/cuda/balanced_rows.h"
#include "engine/cuda/row_finish.cuh"
#include "engine/cuda/row_load.cuh"

namespace vicinal::cuda {

inline constexpr int kBlockThreads = 128;
inline constexpr int kChains = 4;

// How messages are made and put together.
struct PlainSum {
  static constexpr bool kWeighted = false, kExtremum = false;
};
struct WeightedSum {
  static constexpr bool kWeighted = true, kExtremum = false;
};
// The maximum of weighted messages; a minimum is that of negated ones, negated.
struct Extremum {
  static constexpr bool kWeighted = true, kExtremum = true;
};

template <class Element_, int kVec_, int kLanes_, int kGroups_>
struct RowLayout {
  using Element = Element_;
  using Load = RowLoad<Element, kVec_>;
  static constexpr int kVec = kVec_, kLanes = kLanes_, kGroups = kGroups_;
  static constexpr int kRowLanes = kLanes * kGroups;
  static constexpr int kTile = kVec * kLanes;
  static constexpr int kKept = kChains / kGroups;  // chains per lane
  static constexpr int kLoads = 4;                 // gathered rows per lane in flight
  static constexpr int kRoundEdges = kLoads * kGroups;
  // Sums of a row are spread over its groups where there are enough of them: a lane ends with this many.
  static constexpr bool kSpread = kVec >= kGroups;
  static constexpr int kMine = kSpread ? kVec / kGroups : kVec;
  static_assert(kGroups <= kChains && kRowLanes <= 32 && kPieceEdges % kRoundEdges == 0);
};

// Where a lane stands in its row's lanes.
template <class Layout>
struct Lane {
  int lane = threadIdx.x % Layout::kRowLanes;
  int group = lane / Layout::kLanes;
  int tile = static_cast<int>(blockIdx.y) * Layout::kTile;
  int offset = lane % Layout::kLanes * Layout::kVec;  // in the tile, of the columns it reads
  unsigned mask = Layout::kRowLanes == 32 ? ~0u
                                          : ((1u << Layout::kRowLanes % 32) - 1u)
                                                << (threadIdx.x % 32 / Layout::kRowLanes * Layout::kRowLanes);

  // Of the sums it ends with.
  __device__ int column() const { return tile + offset + (Layout::kSpread ? group * Layout::kMine : 0); }
  __device__ bool has_sums(const RowsParams& params) const {
    return (Layout::kSpread || group == 0) && column() < params.dst.cols;
  }
};

template <class Mode>
__device__ inline float Neutral() {
  return Mode::kExtremum ? -INFINITY : 0.0f;
}

template <class Mode>
__device__ inline float Joined(float a, float b) {
  return Mode::kExtremum ? fmaxf(a, b) : a + b;
}

template <class Mode, int kVec>
__device__ inline void Clear(float (&total)[kVec]) {
#pragma unroll
  for (int i = 0; i < kVec; ++i) total[i] = Neutral<Mode>();
}

template <class Mode, int kCount>
__device__ inline void Join(const float (&more)[kCount], float (&total)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) total[i] = Joined<Mode>(total[i], more[i]);
}

// The chains that a lane keeps.
template <class Layout, class Mode>
struct Chains {
  float v[Layout::kKept][Layout::kVec];

  __device__ void Clear() {
#pragma unroll
    for (int k = 0; k < Layout::kKept; ++k)
#pragma unroll
      for (int i = 0; i < Layout::kVec; ++i) v[k][i] = Neutral<Mode>();
  }
  // Adds (0 + 2) + (1 + 3) to `total`: chain c is number c / kGroups of group c % kGroups.
  __device__ void AddTo(const Lane<Layout>& at, float (&total)[Layout::kMine]) const {
    float all[Layout::kVec];
#pragma unroll
    for (int i = 0; i < Layout::kVec; ++i) {
      if constexpr (Layout::kGroups == 1) {
        all[i] = Joined<Mode>(Joined<Mode>(v[0][i], v[2][i]), Joined<Mode>(v[1][i], v[3][i]));
      } else if constexpr (Layout::kGroups == 2) {
        all[i] = Joined<Mode>(v[0][i], v[1][i]);
      } else {
        all[i] = v[0][i];
      }
    }
    if constexpr (Layout::kGroups == 4) Exchange<2, Layout::kVec>(at, all);
    if constexpr (Layout::kGroups >= 2) {
      Exchange<1, Layout::kSpread ? Layout::kVec * 2 / Layout::kGroups : Layout::kVec>(at, all);
    }
#pragma unroll
    for (int i = 0; i < Layout::kMine; ++i) total[i] = Joined<Mode>(total[i], all[i]);
  }

 private:
  // Joins the first kCount of `all` with those of the group that differs in bit kBit of its number: where sums are
  // spread, each keeps one half of them and gives away the other.
  template <int kBit, int kCount>
  __device__ static void Exchange(const Lane<Layout>& at, float (&all)[Layout::kVec]) {
    if constexpr (Layout::kSpread) {
      constexpr int kHalf = kCount / 2;
      const bool upper = (at.group & kBit) != 0;
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        const float keep = upper ? all[i + kHalf] : all[i], give = upper ? all[i] : all[i + kHalf];
        all[i] = Joined<Mode>(keep, __shfl_xor_sync(at.mask, give, kBit * Layout::kLanes));
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        all[i] = Joined<Mode>(all[i], __shfl_xor_sync(at.mask, all[i], kBit * Layout::kLanes));
      }
    }
  }
};

// The weight of edge `edge` from `source`.
template <class Mode>
__device__ inline float WeightOf(const RowsParams& params, int64_t edge, int32_t source) {
  if constexpr (!Mode::kWeighted) return 1.0f;
  float weight = 1.0f;
  if (params.adjacency.value != nullptr) {
    weight = __ldg(params.adjacency.value + edge);
  } else if (params.src_scale != nullptr) {
    weight = __ldg(params.src_scale + source);
  }
  return Mode::kExtremum && params.reduce == Reduce::kMin ? -weight : weight;
}

// The next kRoundEdges of `left` edges, from `begin` on. kAll: they are all there.
template <class Layout, class Mode, bool kAll>
__device__ inline void RunRound(const RowsParams& params, const Lane<Layout>& at, const char* src, int64_t begin,
                                int left, Chains<Layout, Mode>& sum) {
  const int32_t* col = params.adjacency.col + begin + at.group;
  int32_t source[Layout::kLoads];
  float weight[Layout::kLoads];
  typename Layout::Load::Raw x[Layout::kLoads];
#pragma unroll
  for (int load = 0; load < Layout::kLoads; ++load) {
    if (kAll || load * Layout::kGroups + at.group < left) source[load] = __ldg(col + load * Layout::kGroups);
  }
#pragma unroll
  for (int load = 0; load < Layout::kLoads; ++load) {
    if (!kAll && load * Layout::kGroups + at.group >= left) continue;
    // Unsigned and of 32 bits, so that an address is one instruction.
    const uint64_t offset = uint64_t{static_cast<uint32_t>(source[load])} * params.src_stride_bytes;
    x[load] = Layout::Load::Load(reinterpret_cast<const typename Layout::Element*>(src + offset));
    weight[load] = WeightOf<Mode>(params, begin + load * Layout::kGroups + at.group, source[load]);
  }
#pragma unroll
  for (int load = 0; load < Layout::kLoads; ++load) {
    if (!kAll && load * Layout::kGroups + at.group >= left) continue;
#pragma unroll
    for (int i = 0; i < Layout::kVec; ++i) {
      float& s = sum.v[load % Layout::kKept][i];
      const float value = Layout::Load::At(x[load], i);
      if constexpr (Mode::kExtremum) {
        s = fmaxf(s, weight[load] * value);
      } else {
        s = Mode::kWeighted ? fmaf(weight[load], value, s) : s + value;
      }
    }
  }
}

// Joins the sum of edges [begin, begin + count), at most a quad, piece by piece.
template <class Layout, class Mode>
__device__ inline void SumQuad(const RowsParams& params, const Lane<Layout>& at, const char* src, int64_t begin,
                               int count, float (&total)[Layout::kMine]) {
#pragma unroll 1
  while (true) {
    int left = min(count, kPieceEdges);
    count -= left;
    Chains<Layout, Mode> sum;
    sum.Clear();
#pragma unroll 1
    for (; left >= Layout::kRoundEdges; left -= Layout::kRoundEdges, begin += Layout::kRoundEdges) {
      RunRound<Layout, Mode, true>(params, at, src, begin, left, sum);
    }
    if (left > 0) RunRound<Layout, Mode, false>(params, at, src, begin, left, sum);
    sum.AddTo(at, total);
    if (count == 0) return;
  }
}

// Blocks of a multiprocessor that registers must be left for: the most that do not make the compiler spill.
template <class Layout, class Mode>
constexpr int ResidentBlocks() {
  if (Layout::kVec > 4 || (Layout::kGroups == 1 && Mode::kWeighted)) return 8;
  return Layout::kKept == 1 && !Mode::kWeighted ? 10 : 9;
}

template <class Layout, class Mode>
__global__ void __launch_bounds__(kBlockThreads, (ResidentBlocks<Layout, Mode>()))
    BalancedRows(const __grid_constant__ RowsParams params) {
  const int64_t item = int64_t{blockIdx.x} * (kBlockThreads / Layout::kRowLanes) + threadIdx.x / Layout::kRowLanes;
  if (item >= params.num_items || !Holds(params.condition)) return;
  int row = static_cast<int>(item), count;
  int64_t begin;
  if (params.items != nullptr) {
    const int4 packed = __ldg(reinterpret_cast<const int4*>(params.items) + item);
    row = packed.x;
    count = packed.y;
    begin = static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(packed.w)) << 32 |
                                 static_cast<uint32_t>(packed.z));
  } else {
    begin = __ldg(params.adjacency.row_ptr + row);
    count = static_cast<int>(__ldg(params.adjacency.row_ptr + row + 1) - begin);
  }
  const Lane<Layout> at;
  // Lanes without columns read what others read; nothing comes of it.
  const int column = at.tile + (at.tile + at.offset < params.dst.cols ? at.offset : 0);
  const char* src = static_cast<const char*>(params.src) + column * sizeof(typename Layout::Element);
  float result[Layout::kMine];
  Clear<Mode>(result);
#pragma unroll 1
  do {
    const int quad = min(count, kQuadEdges);
    float total[Layout::kMine];
    Clear<Mode>(total);
    SumQuad<Layout, Mode>(params, at, src, begin, quad, total);
    Join<Mode>(total, result);
    count -= quad;
    begin += quad;
  } while (count > 0);
  if (at.has_sums(params)) FinishRow(params, item, row, at.column(), result);
}

template <class Layout, class Mode>
cudaError_t LaunchRowLayout(const RowsParams& params, cudaStream_t stream) {
  constexpr int kItems = kBlockThreads / Layout::kRowLanes;
  const int64_t blocks = (params.num_items + kItems - 1) / kItems;
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>((params.dst.cols + Layout::kTile - 1) / Layout::kTile));
  BalancedRows<Layout, Mode><<<grid, kBlockThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

// One mode each, in files of their own: they compile side by side. `lanes`: 2 to 32, a power of two; `groups`: 1, or as
// many as there are lanes for. Elements of 4 bytes are read `vec` (1 or 4) at a time, those of 2 bytes 1 or 8.
cudaError_t LaunchPlainSum(const RowsParams& params, int vec, int lanes, int groups, cudaStream_t stream);
cudaError_t LaunchWeightedSum(const RowsParams& params, int vec, int lanes, int groups, cudaStream_t stream);
cudaError_t LaunchExtremum(const RowsParams& params, int vec, int lanes, int groups, cudaStream_t stream);
cudaError_t LaunchNarrow(const RowsParams& params, int vec, int lanes, cudaStream_t stream);

// The layouts of rows of float32.
template <class Mode>
cudaError_t LaunchFloatRows(const RowsParams& params, int vec, int lanes, int groups, cudaStream_t stream) {
  if (vec == 1) {
    return lanes <= 8 ? LaunchRowLayout<RowLayout<float, 1, 8, 4>, Mode>(params, stream)
                      : LaunchRowLayout<RowLayout<float, 1, 32, 1>, Mode>(params, stream);
  }
  if (lanes <= 2) {
    return groups == 1 ? LaunchRowLayout<RowLayout<float, 4, 2, 1>, Mode>(params, stream)
                       : LaunchRowLayout<RowLayout<float, 4, 2, 4>, Mode>(params, stream);
  }
  if (lanes <= 4) {
    return groups == 1 ? LaunchRowLayout<RowLayout<float, 4, 4, 1>, Mode>(params, stream)
                       : LaunchRowLayout<RowLayout<float, 4, 4, 4>, Mode>(params, stream);
  }
  if (lanes <= 8) {
    return groups == 1 ? LaunchRowLayout<RowLayout<float, 4, 8, 1>, Mode>(params, stream)
                       : LaunchRowLayout<RowLayout<float, 4, 8, 4>, Mode>(params, stream);
  }
  if (lanes <= 16) {
    return groups == 1 ? LaunchRowLayout<RowLayout<float, 4, 16, 1>, Mode>(params, stream)
                       : LaunchRowLayout<RowLayout<float, 4, 16, 2>, Mode>(params, stream);
  }
  return LaunchRowLayout<RowLayout<float, 4, 32, 1>, Mode>(params, stream);
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_BALANCED_ROWS_CUH_
