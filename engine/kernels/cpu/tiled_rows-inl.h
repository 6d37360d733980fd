// SPDX-License-Identifier: Apache-2.0
// Aggregation of one tile of columns, partition by partition of the sources (aggregate_tiled_simd.cc). The rows of a
// panel keep both chains and the total of the reduction order (gather_rows-inl.h) between partitions, so that the bits
// equal those of one pass over the row. Compiled once per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_TILED_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_TILED_ROWS_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_TILED_ROWS_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_TILED_ROWS_INL_H_
#endif

#include "engine/kernels/cpu/aggregate_tiled.h"
#include "engine/kernels/cpu/gather_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

// Tiles of N vectors.
template <int N, Reduce kReduce, bool kWeighted>
class PartitionGatherer {
 public:
  static constexpr int64_t kWidth = N * kLanes;

  explicit PartitionGatherer(const TiledJob& job) : job_(job), source_mask_(job.gather.weight_of_source ? -1 : 0) {}

  // Adds row i's edges from state.cursor on, in order, up to the first one that belongs to a later partition.
  VICINAL_INLINE void Advance(int64_t i, const PanelState& state, int64_t r) const {
    const int64_t first = job_.gather.row_ptr[i], last = job_.gather.row_ptr[i + 1];
    int64_t edge = state.cursor[r];
    if (edge == last || job_.gather.col[edge] >= job_.part_end) return;
    float* kept = state.sums + r * 3 * kWidth;
    VF even[N], odd[N];
    if (edge == first) {
      Start(even);
      Start(odd);
    } else {
      Load(kept, even);
      Load(kept + kWidth, odd);
    }
    do {
      if (job_.gather.StopsAfter(edge - first)) break;
      if ((edge - first) % kBlockEdges == 0 && edge != first) CloseBlock(edge - first, kept + 2 * kWidth, even, odd);
      const int64_t stop = Smaller(last, first + ((edge - first) / kBlockEdges + 1) * kBlockEdges);
      if ((edge - first) % 2 != 0) Take(edge++, odd);
      for (; edge + 2 <= stop && Before(edge) && Before(edge + 1); edge += 2) {
        Take(edge, even);
        Take(edge + 1, odd);
      }
      if (edge < stop && Before(edge)) Take(edge++, even);
    } while (edge < last && Before(edge));
    Store(even, kept);
    Store(odd, kept + kWidth);
    state.cursor[r] = edge;
  }

  // The reduction of row i, after all its edges, into kept [kWidth].
  VICINAL_INLINE void Finish(int64_t i, const PanelState& state, int64_t r) const {
    const int64_t edges = job_.gather.row_ptr[i + 1] - job_.gather.row_ptr[i];
    if (edges == 0) return;
    float* kept = state.sums + r * 3 * kWidth;
    VF even[N], odd[N];
    Load(kept, even);
    Load(kept + kWidth, odd);
    JoinAll(even, odd);
    if (edges > kBlockEdges) {
      Load(kept + 2 * kWidth, odd);
      JoinAll(odd, even);
      Store(odd, kept);
    } else {
      Store(even, kept);
    }
  }

 private:
  static VICINAL_INLINE VF Join(VF a, VF b) {
    if constexpr (kReduce == Reduce::kSum) return hn::Add(a, b);
    return ExtremeOf<kReduce>(a, b);
  }
  static VICINAL_INLINE void JoinAll(VF* a, const VF* b) {
    VICINAL_UNROLL
    for (int v = 0; v < N; ++v) a[v] = Join(a[v], b[v]);
  }
  static VICINAL_INLINE void Start(VF* acc) {
    const float neutral = kReduce == Reduce::kSum ? 0.0f : kReduce == Reduce::kMax ? -HUGE_VALF : HUGE_VALF;
    VICINAL_UNROLL
    for (int v = 0; v < N; ++v) acc[v] = hn::Set(Floats(), neutral);
  }
  static VICINAL_INLINE void Load(const float* p, VF* acc) {
    VICINAL_UNROLL
    for (int v = 0; v < N; ++v) acc[v] = hn::Load(Floats(), p + v * kLanes);
  }
  static VICINAL_INLINE void Store(const VF* acc, float* p) {
    VICINAL_UNROLL
    for (int v = 0; v < N; ++v) hn::Store(acc[v], Floats(), p + v * kLanes);
  }

  // Called when a block of edges is complete. Adds it to the total and restarts both chains.
  VICINAL_INLINE void CloseBlock(int64_t edges_before, float* total, VF* even, VF* odd) const {
    JoinAll(even, odd);
    if (edges_before > kBlockEdges) {
      VF sum[N];
      Load(total, sum);
      JoinAll(sum, even);
      Store(sum, total);
    } else {
      Store(even, total);
    }
    Start(even);
    Start(odd);
  }

  VICINAL_INLINE bool Before(int64_t edge) const { return job_.gather.col[edge] < job_.part_end; }

  VICINAL_INLINE void Take(int64_t edge, VF* acc) const {
    const int64_t source = job_.gather.col[edge];
    // If columns do not ascend, an edge may belong to an earlier partition: its row is then read from the source
    // itself.
    if (HWY_UNLIKELY(source < job_.part_begin)) return TakeFar(edge, source, acc);
    TakeRow(edge, source, job_.packed + (source - job_.part_begin) * kWidth, acc);
  }

  VICINAL_INLINE void TakeFar(int64_t edge, int64_t source, VF* acc) const {
    HWY_ALIGN float row[kWidth] = {};
    CopyTile(job_.gather, source, row);
    TakeRow(edge, source, row, acc);
  }

  VICINAL_INLINE void TakeRow(int64_t edge, int64_t source, const float* row, VF* acc) const {
    if constexpr (kWeighted) {
      const VF weight = hn::Set(Floats(), job_.gather.weight[edge ^ ((edge ^ source) & source_mask_)]);
      VICINAL_UNROLL
      for (int v = 0; v < N; ++v) {
        const VF x = hn::Load(Floats(), row + v * kLanes);
        acc[v] = kReduce == Reduce::kSum ? hn::MulAdd(weight, x, acc[v]) : Join(acc[v], hn::Mul(weight, x));
      }
    } else {
      VICINAL_UNROLL
      for (int v = 0; v < N; ++v) acc[v] = Join(acc[v], hn::Load(Floats(), row + v * kLanes));
    }
  }

  const TiledJob& job_;
  const int64_t source_mask_;
};

template <int N, Reduce kReduce, bool kWeighted>
HWY_NOINLINE void AdvancePanel(const TiledJob& job, const PanelState& state, int64_t begin, int64_t end) {
  const PartitionGatherer<N, kReduce, kWeighted> gatherer(job);
  for (int64_t i = begin; i < end; ++i) gatherer.Advance(i, state, i - begin);
}

// The steps from the kept sums of row i to dst, as in RowGatherer::StoreRow.
template <int N, Reduce kReduce>
HWY_NOINLINE void FinishPanel(const TiledJob& job, const PanelState& state, int64_t begin, int64_t end) {
  const PartitionGatherer<N, kReduce, false> gatherer(job);
  const GatherJob& gather = job.gather;
  for (int64_t i = begin; i < end; ++i) {
    gatherer.Finish(i, state, i - begin);
    const int64_t edges = gather.row_ptr[i + 1] - gather.row_ptr[i];
    const float* kept = state.sums + (i - begin) * 3 * N * kLanes;
    for (int64_t col = 0; col < gather.dst.cols; col += kLanes) {
      const int64_t count = gather.dst.cols - col;
      VF result = edges == 0 ? hn::Zero(Floats()) : hn::Load(Floats(), kept + col);
      if (gather.mean && edges > 1) {
        result = hn::Mul(result, hn::Set(Floats(), 1.0f / static_cast<float>(edges)));
      }
      if (gather.self_scale != 0) {
        result = hn::MulAdd(hn::Set(Floats(), gather.self_scale), LoadSome(gather.src.row(i) + col, count), result);
      }
      StoreSome(HWY_NAMESPACE::Finish(result, gather.epilogue, i, col, count), gather.dst.row(i) + col, count);
    }
  }
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_TILED_ROWS_INL_H_
