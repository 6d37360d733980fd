// SPDX-License-Identifier: Apache-2.0
// Reduce of gathered rows, the core of aggregation, sparse products and readouts. A row of the result stays in
// registers while its edges pass: up to kMaxVectors vectors of columns at once; wider rows take several passes over the
// edges, each over its own columns, which is feature tiling.
//
// Reduction order. Every aggregation kernel, with any configuration, number of threads or subset of rows, reduces row i
// with edges e_0 .. e_(n-1) as follows, so that all give the same bits (on one kind of processor):
//   1. The edges are cut into blocks of kBlockEdges, counted from e_0.
//   2. Within a block, edges at even positions and edges at odd positions form two chains. Each is reduced in the order
//      of the edges, starting with the neutral element: x = fma(w, src, x) with weights, x = x + src without;
//      x = max(x, w * src), which is NaN if either is. Two chains, because one would wait for the latency of each
//      addition when rows are narrow.
//   3. A block is even chain + odd chain. Blocks are added in order: total = total + block. Blocks keep the
//      accuracy of float32 for a hub of 100,000 edges.
//   4. No edge: 0. Mean: times the rounded 1 / n. Then fma(self_scale, src[i], result), then the epilogue.
// Columns are independent, so tiling them does not change bits.
#if defined(VICINAL_ENGINE_KERNELS_CPU_GATHER_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_GATHER_ROWS_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_GATHER_ROWS_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_GATHER_ROWS_INL_H_
#endif

#include <cmath>
#include <utility>

#include "engine/kernels/cpu/extremum-inl.h"
#include "engine/kernels/cpu/gather_job.h"
#include "engine/kernels/cpu/narrow-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

inline constexpr int64_t kBlockEdges = 256;
// Maximum number of edges for branch-free code: more edges cost time for every row, fewer exclude more rows. Of 4 to 8,
// the best on proteins and pubmed.
inline constexpr int kFewAtOnce = 6;
// Two chains of that many vectors, and the loaded values, fit in 32 or 16 registers. Narrow vectors are for machines
// that are rarely used for this, and sanitizers compile for minutes: few instances.
inline constexpr int kMaxVectors = VICINAL_SANITIZED ? 2 : kLanes >= 16 ? 8 : kLanes == 8 ? 6 : kLanes == 4 ? 4 : 2;

// The source of the weights. Maxima and minima have no instance for kSource: that of kEdge checks the job at run time.
enum class Weights { kNone, kEdge, kSource };

// A variant: the reduction (kMean is kSum and GatherJob::mean), weights, rows named by col or consecutive, and how rows
// are stored.
template <Reduce kReduceKind, Weights kWeightsOf, bool kHasCol, Storage kStored = Storage::kFloat32>
struct GatherKind {
  static constexpr Reduce kReduce = kReduceKind;
  static constexpr Weights kWeights = kWeightsOf;
  static constexpr bool kIndexed = kHasCol;
  static constexpr Storage kStorage = kStored;
};

// One instance reduces N vectors of columns; the last of them is partial unless kFull.
template <int N, bool kFull, class Kind>
class RowGatherer {
 public:
  using Rows = Stored<Kind::kStorage>;
  using Element = typename Rows::Element;
  static constexpr bool kSums = Kind::kReduce == Reduce::kSum;
  // Whether rows of a few edges may be reduced without branches.
  static constexpr bool kTakesFew =
      kSums && Kind::kIndexed && Kind::kStorage == Storage::kFloat32 && N <= 2 && kLanes >= 8;

  RowGatherer(const GatherJob& job, int64_t first_col, int64_t last_count)
      : col_(job.col),
        weight_(job.weight),
        src_(FirstRow(job) + first_col),
        stride_(Kind::kStorage == Storage::kFloat32 ? job.src.stride : job.src16.stride),
        source_mask_(job.weight_of_source ? -1 : 0),
        ahead_(Kind::kIndexed ? job.prefetch_ahead : 0),
        last_edge_(job.row_ptr[0] + job.num_edges - 1),
        first_col_(first_col),
        last_count_(kFull ? kLanes : last_count),
        last_mask_(hn::FirstN(Floats(), static_cast<size_t>(last_count_))),
        plain_(IsPlain(job)),
        job_(job) {}

  // Reduces edges [begin, end), at most a block of them, into acc.
  VICINAL_INLINE void ReduceBlock(int64_t begin, int64_t end, VF* acc) const {
    VF odd[N];
    Start(acc);
    Start(odd);
    if (begin < end) {
      int64_t edge = begin;
      for (; edge + 2 < end; edge += 2) TakePair(edge, acc, odd);
      if (ahead_ > 0) PrefetchPair(edge);
      Take(edge, acc);
      if (edge + 1 < end) Take(edge + 1, odd);
    }
    JoinAll(acc, odd);
  }

  // Whether ReduceFew may be called for the edges from `begin` on.
  VICINAL_INLINE bool IsFew(int64_t begin, int64_t degree) const {
    return degree <= kFewAtOnce && begin + kFewAtOnce <= last_edge_ + 1;
  }

  // Reduces `degree` edges, at most kFewAtOnce, without a branch: if rows have a few edges each, their number is
  // unpredictable, and a misprediction costs more than the edges. Edges beyond the row's own are gathered, too, but not
  // added.
  VICINAL_INLINE void ReduceFew(int64_t begin, int64_t degree, VF* acc) const {
    VF odd[N];
    Start(acc);
    Start(odd);
    const auto edges = hn::Set(Ints(), static_cast<int32_t>(degree));
    VICINAL_UNROLL
    for (int k = 0; k < kFewAtOnce; k += 2) {
      TakeWhere(hn::MaskFromVec(hn::BitCast(Floats(), hn::VecFromMask(Ints(), hn::Gt(edges, hn::Set(Ints(), k))))),
                begin + k, acc);
      TakeWhere(hn::MaskFromVec(hn::BitCast(Floats(), hn::VecFromMask(Ints(), hn::Gt(edges, hn::Set(Ints(), k + 1))))),
                begin + k + 1, odd);
    }
    JoinAll(acc, odd);
  }

  // Reduces more than a block of edges into total [N * kLanes].
  HWY_NOINLINE void ReduceBlocks(int64_t begin, int64_t end, float* total) const {
    for (int64_t block = begin; block < end && !job_.StopsAfter(block - begin); block += kBlockEdges) {
      VF acc[N];
      ReduceBlock(block, Smaller(end, block + kBlockEdges), acc);
      VICINAL_UNROLL
      for (int v = 0; v < N; ++v) {
        float* sum = total + v * kLanes;
        hn::Store(block == begin ? acc[v] : Join(hn::Load(Floats(), sum), acc[v]), Floats(), sum);
      }
    }
  }

  // The steps between the reduction of row i's `degree` edges and the store.
  VICINAL_INLINE void StoreRow(const GatherJob& job, int64_t i, int64_t degree, VF* acc) const {
    if (!kSums && degree == 0) {
      VICINAL_UNROLL
      for (int v = 0; v < N; ++v) acc[v] = hn::Zero(Floats());
    }
    if (!plain_) Complete(job, i, degree, acc);
    float* dst = job.dst.row(i) + first_col_;
    if (kFull && job.stream) {
      VICINAL_UNROLL
      for (int v = 0; v < N; ++v) hn::Stream(acc[v], Floats(), dst + v * kLanes);
      return;
    }
    VICINAL_UNROLL
    for (int v = 0; v < N; ++v) StoreSome(acc[v], dst + v * kLanes, kFull || v + 1 < N ? kLanes : last_count_);
  }

 private:
  // Whether a row is its reduction without further steps.
  static bool IsPlain(const GatherJob& job) { return !job.mean && job.self_scale == 0 && job.epilogue.IsPlain(); }

  VICINAL_INLINE void Complete(const GatherJob& job, int64_t i, int64_t degree, VF* acc) const {
    if (kSums && job.mean && degree > 1) {
      const VF share = hn::Set(Floats(), 1.0f / static_cast<float>(degree));
      VICINAL_UNROLL
      for (int v = 0; v < N; ++v) acc[v] = hn::Mul(acc[v], share);
    }
    if (job.self_scale != 0) {
      const VF self_scale = hn::Set(Floats(), job.self_scale);
      const Element* row = src_ + i * stride_;
      VICINAL_UNROLL
      for (int v = 0; v < N; ++v) acc[v] = hn::MulAdd(self_scale, LoadColumns(row, v), acc[v]);
    }
    FinishRow<N>(acc, job.epilogue, i, first_col_, last_count_);
  }

  static const Element* FirstRow(const GatherJob& job) {
    if constexpr (Kind::kStorage == Storage::kFloat32) {
      return job.src.data;
    } else {
      return job.src16.data;
    }
  }

  VICINAL_INLINE int64_t SourceOf(int64_t edge) const { return Kind::kIndexed ? col_[edge] : edge; }

  // Maxima and minima with weights are rare: one instance checks at each edge.
  VICINAL_INLINE int64_t WeightOf(int64_t edge, int64_t source) const {
    if constexpr (kSums) return Kind::kWeights == Weights::kSource ? source : edge;
    return edge ^ ((edge ^ source) & source_mask_);
  }

  VICINAL_INLINE VF LoadColumns(const Element* row, int v) const {
    return kFull || v + 1 < N ? Rows::Load(row + v * kLanes)
                              : Rows::LoadPart(row + v * kLanes, last_count_, last_mask_);
  }

  static VICINAL_INLINE VF Join(VF a, VF b) {
    if constexpr (kSums) return hn::Add(a, b);
    return ExtremeOf<Kind::kReduce>(a, b);
  }

  // The term of an edge.
  struct Term {
    const Element* row;
    VF weight;
  };
  VICINAL_INLINE Term TermOf(int64_t edge) const {
    const int64_t source = SourceOf(edge);
    const bool weighted = Kind::kWeights != Weights::kNone;
    return {src_ + source * stride_, hn::Set(Floats(), weighted ? weight_[WeightOf(edge, source)] : 1.0f)};
  }
  VICINAL_INLINE VF Columns(const Term& term, int v) const {
    const VF x = LoadColumns(term.row, v);
    return Kind::kWeights != Weights::kNone ? hn::Mul(term.weight, x) : x;
  }

  VICINAL_INLINE void Take(int64_t edge, VF* acc) const {
    const Term term = TermOf(edge);
    VICINAL_UNROLL
    for (int v = 0; v < N; ++v) {
      if constexpr (kSums && Kind::kWeights != Weights::kNone) {
        acc[v] = hn::MulAdd(term.weight, LoadColumns(term.row, v), acc[v]);
      } else {
        acc[v] = Join(acc[v], Columns(term, v));
      }
    }
  }

  // Like Take, in the lanes of `where`: all or none.
  VICINAL_INLINE void TakeWhere(hn::Mask<Floats> where, int64_t edge, VF* acc) const {
    VF taken[N];
    VICINAL_UNROLL
    for (int v = 0; v < N; ++v) taken[v] = acc[v];
    Take(edge, taken);
    VICINAL_UNROLL
    for (int v = 0; v < N; ++v) acc[v] = hn::IfThenElse(where, taken[v], acc[v]);
  }

  VICINAL_INLINE void TakePair(int64_t edge, VF* even, VF* odd) const {
    if (ahead_ > 0) PrefetchPair(edge);
    if constexpr (kSums) {
      Take(edge, even);
      Take(edge + 1, odd);
    } else {
      const Term first = TermOf(edge), second = TermOf(edge + 1);
      VICINAL_UNROLL
      for (int v = 0; v < N; ++v) {
        TakeExtremes<Kind::kReduce>(Columns(first, v), Columns(second, v), &even[v], &odd[v]);
      }
    }
  }

  VICINAL_INLINE void PrefetchPair(int64_t edge) const {
    Prefetch(edge + ahead_);
    Prefetch(edge + 1 + ahead_);
  }

  VICINAL_INLINE void Prefetch(int64_t edge) const {
    constexpr int64_t kLine = 64 / sizeof(Element);
    const Element* row = src_ + SourceOf(Smaller(edge, last_edge_)) * stride_;
    VICINAL_UNROLL
    for (int line = 0; line < static_cast<int>((N * kLanes + kLine - 1) / kLine); ++line) {
      hwy::Prefetch(row + line * kLine);
    }
  }

  static VICINAL_INLINE void Start(VF* acc) {
    const float neutral = kSums ? 0.0f : Kind::kReduce == Reduce::kMax ? -HUGE_VALF : HUGE_VALF;
    VICINAL_UNROLL
    for (int v = 0; v < N; ++v) acc[v] = hn::Set(Floats(), neutral);
  }

  static VICINAL_INLINE void JoinAll(VF* acc, const VF* other) {
    VICINAL_UNROLL
    for (int v = 0; v < N; ++v) acc[v] = Join(acc[v], other[v]);
  }

  const int32_t* const col_;
  const float* const weight_;
  const Element* const src_;   // first column of the N vectors, row 0
  const int64_t stride_;       // of src
  const int64_t source_mask_;  // all ones where weights belong to sources, else 0
  const int64_t ahead_;        // edges to prefetch ahead
  const int64_t last_edge_;    // no prefetching beyond it
  const int64_t first_col_;    // of the N vectors
  const int64_t last_count_;   // columns of the last vector
  const hn::Mask<Floats> last_mask_;
  const bool plain_;
  const GatherJob& job_;
};

template <int N, bool kFull, class Kind>
HWY_NOINLINE void GatherColumns(const GatherJob& job, int64_t begin, int64_t end, int64_t first_col,
                                int64_t last_count) {
  const RowGatherer<N, kFull, Kind> gatherer(job, first_col, last_count);
  const bool few = RowGatherer<N, kFull, Kind>::kTakesFew && job.few_edges;
  const int64_t* row_ptr = job.row_ptr;
  int64_t last = row_ptr[begin];
  for (int64_t i = begin; i < end; ++i) {
    VF acc[N];
    const int64_t first = last;
    last = row_ptr[i + 1];
    if (few && gatherer.IsFew(first, last - first)) {
      gatherer.ReduceFew(first, last - first, acc);
    } else if (HWY_LIKELY(last - first <= kBlockEdges)) {
      gatherer.ReduceBlock(first, last, acc);
    } else {
      HWY_ALIGN float total[N * kLanes];
      gatherer.ReduceBlocks(first, last, total);
      VICINAL_UNROLL
      for (int v = 0; v < N; ++v) acc[v] = hn::Load(Floats(), total + v * kLanes);
    }
    gatherer.StoreRow(job, i, last - first, acc);
  }
  if (job.stream) hwy::FlushStream();
}

using GatherColumnsFunction = void (*)(const GatherJob&, int64_t, int64_t, int64_t, int64_t);

template <bool kFull, class Kind, int... kVectors>
GatherColumnsFunction GatherColumnsOf(int64_t vectors, std::integer_sequence<int, kVectors...>) {
  static constexpr GatherColumnsFunction kTable[] = {&GatherColumns<kVectors + 1, kFull, Kind>...};
  return kTable[vectors - 1];
}

// Splits the columns into passes of nearly equal numbers of vectors, at most `tile` columns (0: as many as registers
// hold).
struct ColumnPasses {
  int64_t width, vectors, passes;

  ColumnPasses(int64_t w, int64_t tile) : width(w), vectors(DivideUp(w, kLanes)) {
    passes = DivideUp(vectors, tile > 0 ? Smaller(tile, kMaxVectors) : kMaxVectors);
  }
  int64_t Begin(int64_t pass) const { return vectors * pass / passes; }
};

// Rows [begin, end) of the job, the columns of one pass.
template <class Kind>
void GatherPass(const GatherJob& job, const ColumnPasses& columns, int64_t pass, int64_t begin, int64_t end) {
  constexpr std::make_integer_sequence<int, kMaxVectors> kAll;
  const int64_t vector = columns.Begin(pass), next = columns.Begin(pass + 1);
  const int64_t last_count = Smaller(kLanes, columns.width - (next - 1) * kLanes);
  const GatherColumnsFunction gather = last_count == kLanes ? GatherColumnsOf<true, Kind>(next - vector, kAll)
                                                            : GatherColumnsOf<false, Kind>(next - vector, kAll);
  gather(job, begin, end, vector * kLanes, last_count);
}

// Rows [begin, end) of the job, all columns.
template <class Kind>
void GatherRows(const GatherJob& job, int64_t begin, int64_t end) {
  const ColumnPasses columns(job.dst.cols, 0);
  for (int64_t pass = 0; pass < columns.passes; ++pass) GatherPass<Kind>(job, columns, pass, begin, end);
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_GATHER_ROWS_INL_H_
