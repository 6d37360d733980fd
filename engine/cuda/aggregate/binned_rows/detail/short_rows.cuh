// SPDX-License-Identifier: Apache-2.0
// Short rows of binned_rows (row_work.h). A warp sums several at once, so that loads of many rows are in flight
// although one row has few edges. Each group of lanes sums kRows rows at a time, edge by edge.
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_DETAIL_SHORT_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_DETAIL_SHORT_ROWS_CUH_

#include <cstdint>

#include "engine/cuda/aggregate/rows/row_lanes.cuh"
#include "engine/cuda/aggregate/rows/row_product.cuh"
#include "engine/cuda/common/overlap.cuh"
#include "engine/cuda/common/warp_extremes.cuh"

namespace vicinal::cuda {

template <class Layout>
struct ShortRows {
  static constexpr int kLoads = 8;  // gathered rows per lane in flight
  // Words per list: 4 more than a row, so that groups use different banks.
  static constexpr int kList = kShortEdges + 4;
};

// Stages the edges of the short rows among the warp's items. List s belongs to item s; none has more than `longest`
// edges. Pads each list to `longest`, rounded up to whole steps, with a valid source. Padded rows are loaded but not
// added, as a conditional load is slower.
template <class Layout, class Mode>
__device__ inline void StageRows(const RowsParams& params, const Item& mine, int longest, int lane,
                                 Staged<Layout, Mode>* staged) {
  // kWidth lanes per item fetch kAtOnce items at a time, in kParts rounds.
  constexpr int kWidth = 8, kAtOnce = kWarpLanes / kWidth, kParts = Layout::kItems / kAtOnce;
  constexpr int kCount = 2 * kParts;  // per lane: two edges of each part at a time
  int64_t first[kParts];
  int left[kParts], to[kParts];
  const int32_t* col[kParts];  // if lean: of the next load
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int slot = part * kAtOnce + lane / kWidth;
    first[part] =
        static_cast<int64_t>(__shfl_sync(kWholeWarp, static_cast<long long>(mine.begin), slot)) + lane % kWidth;
    left[part] = __shfl_sync(kWholeWarp, mine.finish.count, slot) - lane % kWidth;
    to[part] = slot * ShortRows<Layout>::kList + lane % kWidth;
    col[part] = params.work.adjacency.col + first[part];
    // Stops the compiler from recomputing it for every load.
    if constexpr (Mode::kLean) asm volatile("" : "+l"(col[part]));
  }
#pragma unroll 1
  for (int done = 0; done < longest; done += 2 * kWidth) {
    const auto within = [&](int i) { return done + i / kParts * kWidth; };
    const auto wanted = [&](int i) { return within(i) < left[i % kParts]; };
    int32_t source[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      source[i] = 0;
      if (wanted(i)) source[i] = __ldg(col[i % kParts] + (Mode::kLean ? i / kParts * kWidth : within(i)));
    }
#pragma unroll
    for (int part = 0; part < kParts && Mode::kLean; ++part) col[part] += 2 * kWidth;
    float weight[kCount];
    FetchWeights<Mode>(
        params, source, [&](int i) { return first[i % kParts] + within(i); }, wanted, weight);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      staged->source[to[i % kParts] + within(i)] = source[i];
      if constexpr (Mode::kWeighted) staged->weight[to[i % kParts] + within(i)] = weight[i];
    }
  }
}

// Adds edges [begin, begin + kStep) of each of the group's rows. Row r has `counts[r]` edges and its list starts at
// lists[r].
template <class Layout, class Mode, int kRows, int kStep>
__device__ inline void AddStep(const RowsParams& params, const char* src, const Staged<Layout, Mode>& staged, int begin,
                               const int (&lists)[kRows], const int (&counts)[kRows],
                               float (&total)[kRows][Layout::kVec]) {
  typename Layout::Load::Raw x[kRows][kStep];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int four = 0; four < kStep; four += 4) {
      const FourSources source(staged, lists[r] + begin + four);
#pragma unroll
      for (int i = four; i < four + 4; ++i) {
        x[r][i] = Gathered<Layout, Mode::kLean>(params, src, source[i - four]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int four = 0; four < kStep; four += 4) {
      const FourWeights weight(staged, lists[r] + begin + four);
#pragma unroll
      for (int i = four; i < four + 4; ++i) {
        if (Mode::kLean ? i >= counts[r] - begin : begin + i >= counts[r]) continue;
#pragma unroll
        for (int c = 0; c < Layout::kVec; ++c) {
          total[r][c] = WithMessage<Mode>(total[r][c], weight[i - four], Layout::Load::At(x[r][i], c));
        }
      }
    }
  }
}

// Sums and finishes staged items [slot, slot + kRows * groups), kRows per group: row r of group g is item slot + r *
// groups + g.
template <class Layout, class Mode, int kRows>
__device__ inline void SumSlots(const RowsParams& params, const Lane<Layout>& at, const char* src,
                                const Staged<Layout, Mode>& staged, int slot) {
  constexpr int kStep = ShortRows<Layout>::kLoads / kRows;
  int lists[kRows], counts[kRows], longest = -1;
  float total[kRows][Layout::kVec];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int mine = slot + r * Layout::kGroups + at.group;
    lists[r] = mine * ShortRows<Layout>::kList;
    counts[r] = staged.finish[mine].count;
    longest = max(longest, counts[r]);
#pragma unroll
    for (int c = 0; c < Layout::kVec; ++c) total[r][c] = Identity<Mode>();
  }
  longest = WarpMax(longest);
  if (longest < 0) return;
#pragma unroll 1
  for (int begin = 0; begin < longest; begin += kStep) {
    AddStep<Layout, Mode, kRows, kStep>(params, src, staged, begin, lists, counts, total);
  }
  LaneTerms<Layout> terms[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    terms[r].Load(params, at, src, staged.finish[slot + r * Layout::kGroups + at.group]);
  }
  if constexpr (Layout::kProduct) {
    int rows[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Finish finish = staged.finish[slot + r * Layout::kGroups + at.group];
      rows[r] = finish.count < 0 ? -1 : finish.row;
      MakeResults(params, at, finish, terms[r], total[r]);
    }
    MultiplyRows(params, at, rows, WeightsAhead<0>(), total);
  }
  if constexpr (!Layout::kSimple && !Layout::kProduct) {
    // All are computed before the first is stored: a rare activation is a function call, across which few values should
    // be live.
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      MakeResults(params, at, staged.finish[slot + r * Layout::kGroups + at.group], terms[r], total[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const Finish finish = staged.finish[slot + r * Layout::kGroups + at.group];
    if (Layout::kProduct || finish.count < 0 || !at.has_columns(params)) continue;
    if constexpr (Layout::kSimple) MakeResults(params, at, finish, terms[r], total[r]);
    StoreResults(params, at, finish, total[r]);
  }
}

// Sums the short rows among the warp's items. Lane l has fetched item l mod kItems.
template <class Layout, class Mode>
__device__ inline void SumShortRows(const RowsParams& params, const Lane<Layout>& at, const char* src, Item mine,
                                    Staged<Layout, Mode>* staged) {
  if (IsLong(mine.finish)) mine.finish.count = -1;
  const int longest = WarpMax(mine.finish.count);
  if (longest < 0) return;
  __syncwarp();
  StageRows<Layout, Mode>(params, mine, longest, at.lane, staged);
  // Not earlier: this waits for the row's factor.
  if (at.lane < Layout::kItems) staged->finish[at.lane] = mine.finish;
  AwaitPreviousKernels();
  __syncwarp();
  const bool alone = (__ballot_sync(kWholeWarp, mine.finish.count >= 0) & ((1u << Layout::kItems) - 1u)) == 1u;
  if (alone && Layout::kRows > 1) {
    SumSlots<Layout, Mode, 1>(params, at, src, *staged, 0);
    return;
  }
#pragma unroll 1
  for (int slot = 0; slot < Layout::kItems; slot += Layout::kSlots) {
    SumSlots<Layout, Mode, Layout::kRows>(params, at, src, *staged, slot);
  }
}

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_BINNED_ROWS_DETAIL_SHORT_ROWS_CUH_
