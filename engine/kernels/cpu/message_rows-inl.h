// SPDX-License-Identifier: Apache-2.0
// Reduction of messages without edge layers: a target's row of the result and its own row v stay in registers while its
// edges pass, as many columns at a time as registers hold or the caller wants. Sums longer than kMessageBlock edges are
// built from partial sums, so that hubs keep float32's accuracy. Compiled once per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_MESSAGE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_MESSAGE_ROWS_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_MESSAGE_ROWS_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_MESSAGE_ROWS_INL_H_
#endif

#include <utility>

#include "engine/kernels/cpu/edge_features.h"
#include "engine/kernels/cpu/gather_job.h"
#include "engine/kernels/cpu/message_scratch.h"
#include "engine/kernels/cpu/message_vector-inl.h"
#include "engine/kernels/cpu/work.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

// Vectors of columns per pass: result, v and a message fit 32 or 16 registers.
inline constexpr int kMessageVectors = VICINAL_SANITIZED ? 2 : kLanes >= 16 ? 8 : 4;
inline constexpr int64_t kMessagesAhead = 16;

// kPlain: messages have neither weight nor activation, and edges no features.
template <int N, WithTarget kWith, bool kExtreme, bool kPlain>
class MessageColumns {
 public:
  // N vectors from `first_col` on, `last_count` columns in the last.
  MessageColumns(const MessageReduceArgs& args, int64_t first_col, int64_t last_count, const StopWithin& stop)
      : args_(args),
        stop_(stop),
        first_col_(first_col),
        last_count_(last_count),
        last_edge_(args.adjacency.row_ptr[args.dst.rows]),
        prefetch_(WorthPrefetching(args.src)) {}

  VICINAL_INLINE void Run(int64_t begin, int64_t end) {
    const int64_t* row_ptr = args_.adjacency.row_ptr;
    for (int64_t i = begin; i < end; ++i) {
      if (!kPlain && args_.problem.edge_width > 0) {
        features_ = EdgeFeaturesOfRow(args_.edge, i);
        features_begin_ = row_ptr[i];
      }
      VF acc[N], v[N];
      VICINAL_UNROLL
      for (int n = 0; n < N; ++n) {
        const float* row = kWith == WithTarget::kNothing ? nullptr : args_.target.row(i) + first_col_ + n * kLanes;
        v[n] = LoadTarget<kWith>(args_.problem.message, row, CountOf(n));
      }
      ReduceRow(row_ptr[i], row_ptr[i + 1], v, acc);
      StoreRow(i, row_ptr[i + 1] - row_ptr[i], acc);
    }
  }

 private:
  using R = Reducer<kExtreme>;
  // Several edges at once, to hide the latency of additions; the same for all N, because configurations cut columns
  // differently and must not change bits.
  static constexpr int kChains = 2;

  VICINAL_INLINE int64_t CountOf(int n) const { return n + 1 < N ? kLanes : last_count_; }

  VICINAL_INLINE const float* Source(int64_t edge) const {
    return args_.src.data + args_.adjacency.col[edge] * args_.src.stride + first_col_;
  }

  VICINAL_INLINE void Take(int64_t edge, const VF* v, VF* acc) const {
    const float* row = Source(edge);
    const float* weights = args_.adjacency.value;
    const VF weight = hn::Set(Floats(), !kPlain && weights != nullptr ? weights[edge] : 1.0f);
    const bool featured = !kPlain && args_.problem.edge_width > 0;
    VF terms[N];
    if (featured) {
      const float* features = features_.At(edge - features_begin_);
      TermsAt<N>(FeatureProductOf(args_, features, args_.problem.width), first_col_, last_count_, terms);
    }
    VICINAL_UNROLL
    for (int n = 0; n < N; ++n) {
      VF m = MessageOf<kWith>(n + 1 < N ? hn::LoadU(Floats(), row + n * kLanes) : LoadLast(row + n * kLanes), v[n]);
      if (featured) m = hn::Add(m, terms[n]);
      if (!kPlain) m = Activate(hn::Mul(m, weight), args_.activation);
      if (kExtreme) m = hn::Xor(m, FlipOf(args_.problem.reduce));
      acc[n] = R::Join(acc[n], m);
    }
  }

  // No branch if masked loads are as fast as others.
  VICINAL_INLINE VF LoadLast(const float* p) const {
#if HWY_TARGET == HWY_AVX3
    return LoadPart(p, last_count_);
#else
    return LoadSome(p, last_count_);
#endif
  }

  VICINAL_INLINE void PrefetchSource(int64_t edge) const {
    if (!prefetch_ || edge >= last_edge_) return;
    const float* row = Source(edge);
    VICINAL_UNROLL
    for (size_t line = 0; line < (N * kLanes + 15) / 16; ++line) hwy::Prefetch(row + line * 16);
  }

  VICINAL_INLINE void ReduceBlock(int64_t begin, int64_t end, const VF* v, VF* acc) const {
    VICINAL_UNROLL
    for (int n = 0; n < N; ++n) acc[n] = R::Start();
    int64_t edge = begin;
    VF other[N];
    VICINAL_UNROLL
    for (int n = 0; n < N; ++n) other[n] = R::Start();
    for (; edge + kChains <= end; edge += kChains) {
      PrefetchSource(edge + kMessagesAhead);
      PrefetchSource(edge + kMessagesAhead + 1);
      Take(edge, v, acc);
      Take(edge + 1, v, other);
    }
    VICINAL_UNROLL
    for (int n = 0; n < N; ++n) acc[n] = R::Join(acc[n], other[n]);
    for (; edge < end; ++edge) {
      PrefetchSource(edge + kMessagesAhead);
      Take(edge, v, acc);
    }
  }

  VICINAL_INLINE void ReduceRow(int64_t begin, int64_t end, const VF* v, VF* acc) {
    ReduceBlock(begin, Smaller(end, begin + kMessageBlock), v, acc);
    if (end - begin <= kMessageBlock) return;
    HWY_ALIGN float total[N * kLanes];
    for (int64_t block = begin + kMessageBlock; block < end && !stop_.Before(kMessageBlock); block += kMessageBlock) {
      VICINAL_UNROLL
      for (int n = 0; n < N; ++n) hn::Store(acc[n], Floats(), total + n * kLanes);
      ReduceBlock(block, Smaller(end, block + kMessageBlock), v, acc);
      VICINAL_UNROLL
      for (int n = 0; n < N; ++n) acc[n] = R::Join(hn::Load(Floats(), total + n * kLanes), acc[n]);
    }
  }

  VICINAL_INLINE void StoreRow(int64_t i, int64_t degree, const VF* acc) const {
    VICINAL_UNROLL
    for (int n = 0; n < N; ++n) {
      const int64_t col = first_col_ + n * kLanes;
      const VF result = ReducedOf(args_, degree, acc[n]);
      StoreSome(Finish(result, args_.epilogue, i, col, CountOf(n)), args_.dst.row(i) + col, CountOf(n));
    }
  }

  const MessageReduceArgs& args_;
  StopWithin stop_;
  const int64_t first_col_, last_count_, last_edge_;
  const bool prefetch_;
  EdgeFeaturesOfRow features_;  // of the row's edges, which begin at this one:
  int64_t features_begin_ = 0;
};

template <int N, WithTarget kWith, bool kExtreme, bool kPlain>
HWY_NOINLINE void ReduceColumns(const MessageReduceArgs& args, int64_t begin, int64_t end, int64_t first_col,
                                int64_t last_count, const StopWithin& stop) {
  MessageColumns<N, kWith, kExtreme, kPlain>(args, first_col, last_count, stop).Run(begin, end);
}

using ReduceColumnsFunction = void (*)(const MessageReduceArgs&, int64_t, int64_t, int64_t, int64_t, const StopWithin&);

template <WithTarget kWith, bool kExtreme, bool kPlain, int... kVectors>
ReduceColumnsFunction ReduceColumnsOf(int64_t vectors, std::integer_sequence<int, kVectors...>) {
  static constexpr ReduceColumnsFunction kTable[] = {&ReduceColumns<kVectors + 1, kWith, kExtreme, kPlain>...};
  return kTable[vectors - 1];
}

template <WithTarget kWith>
ReduceColumnsFunction ReduceColumnsOf(const MessageReduceArgs& args, int64_t vectors) {
  constexpr auto kAll = std::make_integer_sequence<int, kMessageVectors>();
  const bool extreme = args.problem.reduce == Reduce::kMax || args.problem.reduce == Reduce::kMin;
  const bool plain =
      args.adjacency.value == nullptr && args.activation.kind == ActivationKind::kNone && args.problem.edge_width == 0;
  if (extreme) {
    return plain ? ReduceColumnsOf<kWith, true, true>(vectors, kAll)
                 : ReduceColumnsOf<kWith, true, false>(vectors, kAll);
  }
  return plain ? ReduceColumnsOf<kWith, false, true>(vectors, kAll)
               : ReduceColumnsOf<kWith, false, false>(vectors, kAll);
}

// Columns [first_col, last_col) of rows [begin, end), in passes of nearly equal width.
inline HWY_NOINLINE void ReduceMessages(const MessageReduceArgs& args, int64_t begin, int64_t end, int64_t first_col,
                                        int64_t last_col, const StopWithin& stop) {
  const int64_t vectors = DivideUp(last_col - first_col, kLanes), passes = DivideUp(vectors, kMessageVectors);
  for (int64_t pass = 0, vector = 0; pass < passes; ++pass) {
    const int64_t next = vectors * (pass + 1) / passes, col = first_col + vector * kLanes;
    ReduceColumnsFunction reduce = nullptr;
    switch (WithTargetOf(args.problem.message)) {
      case WithTarget::kNothing:
        reduce = ReduceColumnsOf<WithTarget::kNothing>(args, next - vector);
        break;
      case WithTarget::kAdd:
        reduce = ReduceColumnsOf<WithTarget::kAdd>(args, next - vector);
        break;
      case WithTarget::kMultiply:
        reduce = ReduceColumnsOf<WithTarget::kMultiply>(args, next - vector);
        break;
    }
    reduce(args, begin, end, col, Smaller(kLanes, last_col - first_col - (next - 1) * kLanes), stop);
    vector = next;
  }
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_MESSAGE_ROWS_INL_H_
