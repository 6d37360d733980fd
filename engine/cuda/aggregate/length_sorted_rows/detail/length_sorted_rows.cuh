// SPDX-License-Identifier: Apache-2.0
// length_sorted_rows: aggregation by groups of lanes that process rows of similar length side by side.
//
// Idea. The sources of a row are sorted, so rows of similar length that start together read the same part of the
// sources at about the same time. A source that one row fetched from the L2 is in the L1 cache when the others need it.
// This is self-synchronising: rows that are ahead wait for the L2, rows behind hit the L1 and catch up. The more rows a
// multiprocessor processes at once, the better. So a row has only one group of lanes (8 lanes, 32 columns of float32),
// and all rows of a large block start together. Rows are cut into parts of similar length and sorted by length, with
// all first parts before all second ones.
// Faster than binned_rows if a source has many edges within the reach of the L1: on dense graphs in any node order, and
// more so with communities (`window`). A second small kernel adds the parts in order, without atomics. Order of
// evaluation: length_sorted_rows.h. The bits are equal in every run.
//
// Traffic: as binned_rows, edges * (4 + s * width) bytes to the multiprocessors (4 more per edge with weights), part of
// which hits the L1. On an H200 this saves a fifth of the time on graphs with 1 in 50 to 1 in 500 of all possible edges
// (docs/performance.md). Related work: Sputnik's subwarp per row and order by length (Gale et al., SC'20, 5.1.2).
#ifndef VICINAL_ENGINE_CUDA_AGGREGATE_LENGTH_SORTED_ROWS_DETAIL_LENGTH_SORTED_ROWS_CUH_
#define VICINAL_ENGINE_CUDA_AGGREGATE_LENGTH_SORTED_ROWS_DETAIL_LENGTH_SORTED_ROWS_CUH_

#include <cstdint>

#include "engine/cuda/aggregate/length_sorted_rows/length_sorted_rows.h"
#include "engine/cuda/aggregate/rows/held_edges.cuh"
#include "engine/cuda/aggregate/rows/row_lanes.cuh"
#include "engine/cuda/aggregate/rows/split_rows.cuh"
#include "engine/cuda/common/overlap.cuh"
#include "engine/cuda/common/warp_extremes.cuh"

namespace vicinal::cuda {

// Edges [begin, begin + count) of the adjacency, summed by one group of lanes.
struct EdgeSpan {
  int64_t begin;
  int count;
};

// Eight edges of a span, distributed over its group of lanes.
template <class Layout, class Mode>
struct EightEdges {
  using Held = HeldEdges<Layout>;
  int32_t source[Held::kHeld];
  float weight[Held::kHeld];

  // Loads the edges from index `first` on, as far as they exist. REQUIRES: the span has edges.
  __device__ void Fetch(const RowsParams& params, const EdgeSpan& span, int first, int lane) {
    const int32_t* const col = params.work.adjacency.col + span.begin;
#pragma unroll
    for (int h = 0; h < Held::kHeld; ++h) source[h] = __ldg(col + Held::Edge(first, h, lane, span.count - 1));
    if constexpr (Mode::kWeighted) {
      if (params.source.weights == nullptr || params.source.weights_of != WeightsOf::kEdges) return;
      const float* const weights = params.source.weights + span.begin;
#pragma unroll
      for (int h = 0; h < Held::kHeld; ++h) weight[h] = __ldg(weights + Held::Edge(first, h, lane, span.count - 1));
    }
  }
};

// Adds the eight edges from index `first` on, which `edges` holds, to `sum`, and prefetches the next eight. kAll: all
// eight exist in every group. Otherwise rows are loaded for missing edges too, but not added.
template <class Layout, class Mode, bool kAll>
__device__ inline void AddEight(const RowsParams& params, const EdgeSpan& span, int first, int lane, const char* src,
                                EightEdges<Layout, Mode>& edges, float (&sum)[Layout::kVec]) {
  using Held = HeldEdges<Layout>;
  typename Layout::Load::Raw x[Held::kStep];
  LoadRows<Layout, 0, Held::kStep>(edges.source, src, params.source.stride_bytes, x);
  float weight[Held::kHeld];
  if constexpr (Mode::kWeighted) {
#pragma unroll
    for (int h = 0; h < Held::kHeld; ++h) {
      weight[h] = edges.weight[h];
      if (params.source.weights_of != WeightsOf::kEdges && params.source.weights != nullptr)
        weight[h] = __ldg(params.source.weights + edges.source[h]);
    }
  }
  if (first + Held::kStep < span.count) edges.Fetch(params, span, first + Held::kStep, lane);
#pragma unroll
  for (int i = 0; i < Held::kStep; ++i) {
    float w = 1.0f;
    if constexpr (Mode::kWeighted) w = Held::Of(weight, i);
    if (Mode::kExtremum && params.out.reduce == Reduce::kMin) w = -w;
    if (!kAll && first + i >= span.count) continue;
#pragma unroll
    for (int c = 0; c < Layout::kVec; ++c) sum[c] = WithMessage<Mode>(sum[c], w, Layout::Load::At(x[i], c));
  }
}

// Sums the spans of a warp's groups. To be called by all lanes of the warp.
template <class Layout, class Mode>
__device__ inline void SumSpans(const RowsParams& params, const EdgeSpan& span, int lane, const char* src,
                                float (&total)[Layout::kVec]) {
  constexpr int kStep = HeldEdges<Layout>::kStep;
  const int longest = WarpMax(span.count), shortest = WarpMin(span.count);
  EightEdges<Layout, Mode> edges;
#pragma unroll
  for (int h = 0; h < HeldEdges<Layout>::kHeld; ++h) edges.source[h] = 0, edges.weight[h] = 1.0f;
  if (span.count > 0) edges.Fetch(params, span, 0, lane);
  AwaitPreviousKernels();
  float sum[Layout::kVec];
#pragma unroll
  for (int c = 0; c < Layout::kVec; ++c) total[c] = sum[c] = Identity<Mode>();
#pragma unroll 1
  for (int first = 0; first < longest; first += kStep) {
    if (first + kStep <= shortest) {
      AddEight<Layout, Mode, true>(params, span, first, lane, src, edges, sum);
    } else {
      AddEight<Layout, Mode, false>(params, span, first, lane, src, edges, sum);
    }
    if ((first + kStep) % kStretchEdges != 0) continue;
#pragma unroll
    for (int c = 0; c < Layout::kVec; ++c) {
      total[c] = Combined<Mode>(total[c], sum[c]);
      sum[c] = Identity<Mode>();
    }
  }
#pragma unroll
  for (int c = 0; c < Layout::kVec; ++c) total[c] = Combined<Mode>(total[c], sum[c]);
}

// Finishes a row, or a part of one, whose sum the group holds.
template <class Layout>
__device__ inline void FinishSpan(const RowsParams& params, const Lane<Layout>& at, const char* src, int row, int count,
                                  float (&sum)[Layout::kVec]) {
  if (at.has_columns(params)) FinishRow(params, at, src, FinishOf(params, row, count), sum);
}

// With a work list: an item per group.
template <class Layout, class Mode, int kThreads>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    LengthSortedRows(const __grid_constant__ RowsParams params) {
  TriggerNextLaunch();
  const uint32_t group = (blockIdx.x * kThreads + threadIdx.x) / Layout::kLanes;
  const Lane<Layout> at(blockIdx.y);
  int4 item = make_int4(0, -1, 0, 0);
  if (group < params.work.num_short) item = __ldg(reinterpret_cast<const int4*>(params.work.bundled) + group);
  const EdgeSpan span = {
      static_cast<int64_t>(static_cast<uint64_t>(static_cast<uint32_t>(item.w)) << 32 | static_cast<uint32_t>(item.z)),
      item.y};
  const char* const src = at.Source(params);
  float sum[Layout::kVec];
  SumSpans<Layout, Mode>(params, span, at.lane, src, sum);
  if (span.count >= 0) FinishSpan(params, at, src, item.x, span.count, sum);
}

// Adds the parts of a row of `count` edges from `begin` on, with all lanes of the warp and one part per group at a
// time.
template <class Layout, class Mode>
__device__ inline void SumParts(const RowsParams& params, const Lane<Layout>& at, const char* src, int64_t begin,
                                int count, int64_t part, float (&total)[Layout::kVec]) {
  const auto parts = static_cast<int>(PartsOf(count, part));
  float quad[Layout::kVec];
#pragma unroll
  for (int c = 0; c < Layout::kVec; ++c) total[c] = quad[c] = Identity<Mode>();
#pragma unroll 1
  for (int first = 0; first < parts; first += Layout::kGroups) {
    EdgeSpan span = {begin, 0};
    if (first + at.group < parts) {
      const int64_t from = PartBegin(count, parts, first + at.group);
      span = {begin + from, static_cast<int>(PartBegin(count, parts, first + at.group + 1) - from)};
    }
    float sum[Layout::kVec];
    SumSpans<Layout, Mode>(params, span, at.lane, src, sum);
#pragma unroll 1
    for (int group = 0; group < Layout::kGroups && first + group < parts; ++group) {
      const int index = first + group;
      const bool ends = (index + 1) % kPiecesPerQuad == 0 || index + 1 == parts;
#pragma unroll
      for (int c = 0; c < Layout::kVec; ++c) {
        const float x = __shfl_sync(kWholeWarp, sum[c], group * Layout::kLanes + at.lane % Layout::kLanes);
        quad[c] = index % kPiecesPerQuad == 0 ? x : Combined<Mode>(quad[c], x);
        if (ends) total[c] = index < kPiecesPerQuad ? quad[c] : Combined<Mode>(total[c], quad[c]);
      }
    }
  }
}

// Without a work list: a row per group. The warp sums its rows of several parts afterwards, one by one.
template <class Layout, class Mode>
__global__ void __launch_bounds__(kBlockThreads, 5)
    LengthSortedRowsUnlisted(const __grid_constant__ RowsParams params, int64_t part) {
  TriggerNextLaunch();
  const Lane<Layout> at(blockIdx.y);
  const int64_t row = (int64_t{blockIdx.x} * kBlockThreads + threadIdx.x) / Layout::kLanes;
  const char* const src = at.Source(params);
  int64_t begin = 0;
  int count = -1;
  if (row < params.out.dst.rows) {
    begin = __ldg(params.work.adjacency.row_ptr + row);
    count = static_cast<int>(__ldg(params.work.adjacency.row_ptr + row + 1) - begin);
  }
  const bool cut = count > part;
  float sum[Layout::kVec];
  SumSpans<Layout, Mode>(params, {begin, cut ? 0 : count}, at.lane, src, sum);
  if (count >= 0 && !cut) FinishSpan(params, at, src, static_cast<int>(row), count, sum);
  unsigned left = __ballot_sync(kWholeWarp, cut && at.lane % Layout::kLanes == 0);
#pragma unroll 1
  for (; left != 0; left &= left - 1) {
    const int from = __ffs(static_cast<int>(left)) - 1;
    const auto first = static_cast<int64_t>(__shfl_sync(kWholeWarp, static_cast<long long>(begin), from));
    const int edges = __shfl_sync(kWholeWarp, count, from);
    SumParts<Layout, Mode>(params, at, src, first, edges, part, sum);
    if (at.lane / Layout::kLanes == from / Layout::kLanes)
      FinishSpan(params, at, src, static_cast<int>(row), count, sum);
  }
}

// The parameters that select the kernel of a launch.
struct LengthSortedLaunch {
  const RowsParams& params;
  int tile;     // columns
  bool packed;  // sources are read 16 bytes at a time
  int threads;  // per block with a work list: 128, 512 or 1024; 0: no list
  int64_t part;
  const LaunchTarget& target;
};

template <class Layout, class Mode>
cudaError_t LaunchLengthSortedLayout(const LengthSortedLaunch& launch) {
  const RowsParams& params = launch.params;
  const int threads = launch.threads > 0 ? launch.threads : kBlockThreads;
  const int64_t items = launch.threads > 0 ? int64_t{params.work.num_short} : params.out.dst.rows;
  const int64_t groups = threads / Layout::kLanes;
  const dim3 grid(static_cast<unsigned>((items + groups - 1) / groups),
                  static_cast<unsigned>((params.out.dst.cols + Layout::kTile - 1) / Layout::kTile));
  const auto start = [&](auto kernel, const auto&... arguments) {
    return LaunchOverlapping(launch.target.overlap, kernel, grid, threads, launch.target.stream, params, arguments...);
  };
  if (launch.threads == 0) return start(LengthSortedRowsUnlisted<Layout, Mode>, launch.part);
  if (launch.threads == 1024) return start(LengthSortedRows<Layout, Mode, 1024>);
  if (launch.threads == 512) return start(LengthSortedRows<Layout, Mode, 512>);
  return start(LengthSortedRows<Layout, Mode, kBlockThreads>);
}

template <class Element, int kVec, int kLanes>
cudaError_t LaunchLengthSortedModes(const LengthSortedLaunch& launch) {
  using Layout = RowLayout<Element, kVec, kLanes, /*kSimple=*/false>;
  if (launch.params.out.extremum()) return LaunchLengthSortedLayout<Layout, Extremum>(launch);
  return launch.params.source.weights != nullptr ? LaunchLengthSortedLayout<Layout, WeightedSum>(launch)
                                                 : LaunchLengthSortedLayout<Layout, PlainSum>(launch);
}

// Rows of float32, and of 16 bits, in separate files that compile in parallel.
cudaError_t LaunchLengthSortedFloats(const LengthSortedLaunch& launch);
cudaError_t LaunchLengthSortedNarrow(const LengthSortedLaunch& launch);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_AGGREGATE_LENGTH_SORTED_ROWS_DETAIL_LENGTH_SORTED_ROWS_CUH_
