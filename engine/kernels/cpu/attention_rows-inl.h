// SPDX-License-Identifier: Apache-2.0
// One thread's share of the vectorised attention (attention_simd.cc): scores, exponentials and weighted sums of rows.
// Compiled once per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_ATTENTION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_ATTENTION_ROWS_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_ATTENTION_ROWS_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_ATTENTION_ROWS_INL_H_
#endif

#include <cmath>

#include "engine/kernels/cpu/attention_features-inl.h"
#include "engine/kernels/cpu/attention_scratch.h"
#include "engine/kernels/cpu/gather_job.h"
#include "engine/kernels/cpu/lane_sums-inl.h"
#include "engine/kernels/cpu/vector-inl.h"
#include "engine/kernels/cpu/work.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

inline constexpr int kSumVectors = kLanes >= 16 ? 8 : 4;  // columns in registers in one pass over a chunk

// Maximum columns of a group of heads for which each column's head is looked up; wider groups are summed per head.
inline constexpr int64_t kMixedColumns = 1024;

struct Largest {
  VICINAL_INLINE VF operator()(VF a, VF b) const { return hn::Max(a, b); }
};
struct Sum {
  VICINAL_INLINE VF operator()(VF a, VF b) const { return hn::Add(a, b); }
};

// Edges ahead whose rows are prefetched while scores are summed.
inline constexpr int64_t kScoresAhead = 6;

// One thread's work on rows.
class AttentionRows {
 public:
  AttentionRows(const AttentionArgs& args, const float* turned_weight, float* scratch, const StopWithin& stop)
      : args_(args),
        stop_(stop),
        last_edge_(args.adjacency.row_ptr[args.dst.rows]),
        raw_(scratch),
        scores_(scratch + kScoreFloats),
        sums_(scratch + 2 * kScoreFloats),
        width_(args.problem.head_width),
        features_(args, turned_weight, sums_ + WithSlack(args.problem.heads * args.problem.head_width)) {
    for (int64_t shift = 1; shift < kLanes; shift *= 2) {
      for (int64_t l = 0; l < kLanes; ++l) rotations_[shift][l] = static_cast<int32_t>((l + shift) % kLanes);
    }
    mixed_ = args.problem.heads > 1 && Smaller(args.problem.heads, kLanes) * width_ <= kMixedColumns;
    for (int64_t head = 0, col = 0; mixed_ && head < Smaller(args.problem.heads, kLanes); ++head) {
      for (int64_t c = 0; c < width_; ++c) heads_of_columns_[col++] = static_cast<int32_t>(head);
    }
    prefetch_ = WorthPrefetching(args.problem.kind == AttentionKind::kDot ? args.key : args.value);
  }

  void Run(int64_t begin, int64_t end) {
    const int64_t* row_ptr = args_.adjacency.row_ptr;
    for (int64_t i = begin; i < end;) {
      int64_t next = i + 1;
      if (args_.problem.heads > kLanes || row_ptr[next] - row_ptr[i] > kChunk) {
        AttendAlone(i);
      } else {
        while (next < end && row_ptr[next + 1] - row_ptr[i] <= kChunk) ++next;
        AttendTogether(i, next);
      }
      i = next;
    }
  }

 private:
  HeadGroup GroupFrom(int64_t first) const {
    HeadGroup group{first, Smaller(kLanes, args_.problem.heads - first), 1};
    while (group.padded < group.heads) group.padded *= 2;
    return group;
  }

  // Rows [first, last), whose edges fit one chunk, all heads in one group.
  HWY_NOINLINE void AttendTogether(int64_t first, int64_t last) {
    const Floats d;
    const HeadGroup group = GroupFrom(0);
    const int64_t* row_ptr = args_.adjacency.row_ptr;
    const int64_t begin = row_ptr[first], count = (row_ptr[last] - begin) * group.padded;
    const bool copied = args_.problem.kind == AttentionKind::kGat && !features_.any();
    if (copied) CopyScores(group, begin, row_ptr[last], raw_);
    for (int64_t i = first; i < last; ++i) {
      const int64_t at = (row_ptr[i] - begin) * group.padded, row_count = (row_ptr[i + 1] - row_ptr[i]) * group.padded;
      if (!copied) EdgeScores(i, group, row_ptr[i], row_ptr[i + 1], raw_ + at);
      // Stores whole vectors: lanes beyond the row are overwritten by the next row.
      const VF max = Score(i, group, raw_ + at, scores_ + at, row_count);
      for (int64_t s = at; s < at + row_count; s += kLanes)
        hn::StoreU(hn::Sub(hn::LoadU(d, scores_ + s), max), d, scores_ + s);
    }
    for (int64_t s = 0; s < count; s += kLanes) hn::StoreU(Exp(hn::LoadU(d, scores_ + s)), d, scores_ + s);
    for (int64_t i = first; i < last; ++i) {
      const int64_t at = (row_ptr[i] - begin) * group.padded, row_count = (row_ptr[i + 1] - row_ptr[i]) * group.padded;
      if (row_count == 0) {
        ClearSums();
      } else {
        HWY_ALIGN float totals[kLanes];
        hn::Store(Fold(SumOf(scores_ + at, row_count), group, Sum()), d, totals);
        if (features_.summed()) features_.Begin(i);
        WeightedSum(group, {row_ptr[i], row_ptr[i + 1], scores_ + at, nullptr, totals});
      }
      StoreRow(i);
    }
  }

  // A row of any degree, heads group by group, chunk by chunk.
  HWY_NOINLINE void AttendAlone(int64_t i) {
    if (args_.adjacency.row_ptr[i] == args_.adjacency.row_ptr[i + 1]) {
      ClearSums();
    } else {
      for (int64_t first = 0; first < args_.problem.heads; first += kLanes) AttendGroup(i, GroupFrom(first));
    }
    StoreRow(i);
  }

  VICINAL_INLINE void ClearSums() {
    for (int64_t c = 0; c < args_.problem.heads * width_; ++c) sums_[c] = 0;
  }

  // Weighted and normalised sums of the group's heads for row i, into sums_.
  HWY_NOINLINE void AttendGroup(int64_t i, const HeadGroup& group) {
    const Floats d;
    const int64_t begin = args_.adjacency.row_ptr[i], end = args_.adjacency.row_ptr[i + 1];
    HWY_ALIGN float factors[kLanes];
    HWY_ALIGN float totals[kLanes];
    VF max = hn::Set(d, -HUGE_VALF), total = hn::Zero(d);
    for (int64_t chunk = begin; chunk < end && !stop_.Before(kChunk); chunk += kChunk) {
      const int64_t chunk_end = Smaller(end, chunk + kChunk), count = (chunk_end - chunk) * group.padded;
      EdgeScores(i, group, chunk, chunk_end, raw_);
      const VF new_max = hn::Max(max, Score(i, group, raw_, scores_, count)), base = Base(new_max);
      for (int64_t s = 0; s < count; s += kLanes)
        hn::StoreU(Exp(hn::Sub(hn::LoadU(d, scores_ + s), base)), d, scores_ + s);
      const VF rescale = chunk == begin ? hn::Zero(d) : Exp(hn::Sub(max, base));
      total = hn::MulAdd(total, rescale, Fold(SumOf(scores_, count), group, Sum()));
      max = new_max;
      hn::Store(rescale, d, factors);
      hn::Store(total, d, totals);
      WeightedSum(group,
                  {chunk, chunk_end, scores_, chunk == begin ? nullptr : factors, chunk_end == end ? totals : nullptr});
    }
  }

  // The reference of the exponentials: the largest score. While that is -inf, all weights are 0, not exp(-inf + inf),
  // which is NaN, because a finite score may follow. If none does, 0 / 0 gives NaN: the row has no softmax, as in
  // PyTorch Geometric.
  static HWY_INLINE VF Base(VF max) {
    const Floats d;
    return hn::IfThenZeroElse(hn::Eq(max, hn::Set(d, -HUGE_VALF)), max);
  }

  // Combines the lanes of each head, so that every lane holds its head's result.
  template <class Combine>
  VICINAL_INLINE VF Fold(VF v, const HeadGroup& group, Combine combine) const {
    for (int64_t shift = group.padded; shift < kLanes; shift *= 2) {
      v = combine(v, hn::TableLookupLanes(v, hn::SetTableIndices(Floats(), rotations_[shift])));
    }
    return v;
  }

  // The first lanes of v, one per head, repeated over the vector.
  VICINAL_INLINE VF Repeat(VF v, const HeadGroup& group) const {
    const auto mask = hn::Set(Ints(), static_cast<int32_t>(group.padded - 1));
    return hn::TableLookupLanes(v, hn::IndicesFromVec(Floats(), hn::And(hn::Iota(Ints(), 0), mask)));
  }

  // Turns `count` raw scores of row i into scores, returns their maximum per head. Lanes beyond the last edge become
  // -inf, of which exp is 0.
  VICINAL_INLINE VF Score(int64_t i, const HeadGroup& group, const float* raw, float* scores, int64_t count) {
    const Floats d;
    const bool gat = args_.problem.kind == AttentionKind::kGat;
    const VF own = gat ? Repeat(LoadSome(args_.score_dst.row(i) + group.first, group.heads), group) : hn::Zero(d);
    const VF slope = hn::Set(d, args_.negative_slope), lowest = hn::Set(d, -HUGE_VALF);
    VF max = lowest;
    for (int64_t at = 0; at < count; at += kLanes) {
      VF score = hn::LoadU(d, raw + at);
      if (gat) score = LeakyRelu(hn::Add(score, own), slope);
      if (count - at < kLanes) score = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(count - at)), score, lowest);
      hn::StoreU(score, d, scores + at);
      max = hn::Max(max, score);
    }
    return Fold(max, group, Largest());
  }

  // Raw scores of the edges [begin, end) of row i.
  VICINAL_INLINE void EdgeScores(int64_t i, const HeadGroup& group, int64_t begin, int64_t end, float* raw) {
    features_.Begin(i);
    switch (args_.problem.kind) {
      case AttentionKind::kGat:
        CopyScores(group, begin, end, raw);
        if (features_.any()) features_.AddScores(group, begin, end, raw);
        return;
      case AttentionKind::kGatV2:
        return features_.any() ? DotScores<false, true>(i, group, begin, end, raw)
                               : DotScores<false, false>(i, group, begin, end, raw);
      case AttentionKind::kDot:
        if (!features_.any()) return DotScores<true, false>(i, group, begin, end, raw);
        features_.TurnQuery(i, group);
        return DotScores<true, true>(i, group, begin, end, raw);
    }
  }

  // GAT's scores of the sources, edge by edge.
  VICINAL_INLINE void CopyScores(const HeadGroup& group, int64_t begin, int64_t end, float* raw) {
    for (int64_t e = begin; e < end; ++e, raw += group.padded) {
      const int64_t j = args_.adjacency.col[e];
      const float* from = args_.score_src.row(j) + group.first;
      if (group.heads == 1) {
        *raw = *from;
      } else {
        StoreSome(LoadSome(from, group.heads), raw, group.padded);
      }
      if (prefetch_) PrefetchColumns(args_.value.row(j) + group.first * width_, group.heads * width_);
    }
  }

  VICINAL_INLINE static void PrefetchColumns(const float* row, int64_t count) {
    for (int64_t c = 0; c < count; c += 16) hwy::Prefetch(row + c);
  }

  // One vector's part of a score.
  template <bool kDotProduct>
  static VICINAL_INLINE VF AddScores(VF x, VF query, VF att, VF slope, VF sum) {
    return kDotProduct ? hn::MulAdd(query, x, sum) : hn::MulAdd(att, LeakyRelu(hn::Add(x, query), slope), sum);
  }

  // The columns of a head beyond its last whole vector; `rest` is created once.
  VICINAL_INLINE VF LoadRest(const float* p, hn::Mask<Floats> rest) const {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
    return hn::MaskedLoad(rest, Floats(), p);
#else
    (void)rest;
    return LoadPart(p, width_ % kLanes);
#endif
  }

  // GATv2's and dot-product scores, a sum per edge and head: partial sums of kLanes of them stay in their lanes until
  // they are summed across together. kFeatures: edges have features.
  template <bool kDotProduct, bool kFeatures>
  HWY_NOINLINE void DotScores(int64_t i, const HeadGroup& group, int64_t begin, int64_t end, float* raw) {
    const Floats d;
    HWY_ALIGN float partial[kLanes * kLanes];
    const ConstMatrixView& gathered = kDotProduct ? args_.key : args_.value;
    const int64_t first_col = group.first * width_, cols = group.heads * width_;
    const float* query = args_.query.row(i) + first_col;
    const float* att = kDotProduct ? nullptr : args_.att + first_col;
    const VF slope = hn::Set(d, args_.negative_slope), scale = hn::Set(d, kDotProduct ? args_.score_scale : 1.0f);
    const auto rest = hn::FirstN(d, static_cast<size_t>(width_ % kLanes));
    int64_t lane = 0;
    for (int64_t e = begin; e < end; ++e) {
      const float* row = gathered.row(args_.adjacency.col[e]) + first_col;
      const float* features = kFeatures ? features_.Of(e) : nullptr;
      const float* terms = kFeatures && !kDotProduct ? features_.Terms(features, first_col, cols) : nullptr;
      if (prefetch_) PrefetchAhead(e + kScoresAhead, gathered, first_col, cols);
      for (int64_t head = 0; head < group.padded; ++head) {
        VF sum = hn::Zero(d);
        const int64_t first = head * width_;
        int64_t c = head < group.heads ? 0 : width_;
        for (; c + kLanes <= width_; c += kLanes) {
          VF x = hn::LoadU(d, row + first + c);
          if (terms != nullptr) x = hn::Add(x, hn::LoadU(d, terms + first + c));
          sum = AddScores<kDotProduct>(x, hn::LoadU(d, query + first + c),
                                       kDotProduct ? sum : hn::LoadU(d, att + first + c), slope, sum);
        }
        if (c < width_) {
          VF x = LoadRest(row + first + c, rest);
          if (terms != nullptr) x = hn::Add(x, LoadRest(terms + first + c, rest));
          sum = AddScores<kDotProduct>(x, LoadRest(query + first + c, rest),
                                       kDotProduct ? sum : LoadRest(att + first + c, rest), slope, sum);
        }
        if (kDotProduct && kFeatures && head < group.heads) sum = features_.AddDot(features, group.first + head, sum);
        hn::Store(sum, d, partial + lane * kLanes);
        if (++lane < kLanes) continue;
        hn::StoreU(hn::Mul(scale, SumsOfVectors(partial)), d, raw);
        raw += kLanes;
        lane = 0;
      }
    }
    // The last scores: unused lanes are cleared, and their sums go into the slack.
    if (lane == 0) return;
    for (int64_t l = lane * kLanes; l < kLanes * kLanes; ++l) partial[l] = 0;
    hn::StoreU(hn::Mul(scale, SumsOfVectors(partial)), d, raw);
  }

  VICINAL_INLINE void PrefetchAhead(int64_t edge, ConstMatrixView rows, int64_t first_col, int64_t cols) const {
    if (edge < last_edge_) PrefetchColumns(rows.row(args_.adjacency.col[edge]) + first_col, cols);
  }

  // Per lane, without lanes beyond `count`.
  VICINAL_INLINE VF SumOf(const float* shares, int64_t count) const {
    const Floats d;
    VF sum = hn::Zero(d);
    for (int64_t at = 0; at < count; at += kLanes) {
      VF share = hn::LoadU(d, shares + at);
      if (count - at < kLanes) share = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count - at)), share);
      sum = hn::Add(sum, share);
    }
    return sum;
  }

  VICINAL_INLINE void WeightedSum(const HeadGroup& group, const ReadyChunk& chunk) {
    SumValues(group, chunk);
    if (features_.summed()) features_.Sum(group, chunk, sums_);
  }

  VICINAL_INLINE void SumValues(const HeadGroup& group, const ReadyChunk& chunk) {
    constexpr int64_t kStep = kSumVectors * kLanes;
    if (mixed_) {
      // Heads share vectors: columns of the whole group, each lane with its own head's share.
      const int64_t cols = group.heads * width_;
      for (int64_t col = 0; col < cols; col += kStep)
        SumColumns<true>(group, 0, col, Smaller(cols - col, kStep), chunk);
      return;
    }
    for (int64_t head = 0; head < group.heads; ++head) {
      for (int64_t col = 0; col < width_; col += kStep) {
        SumColumns<false>(group, head, head * width_ + col, Smaller(width_ - col, kStep), chunk);
      }
    }
  }

  // `count` columns from `col` of the group on: chooses the number of vectors at compile time.
  template <bool kMixed>
  VICINAL_INLINE void SumColumns(const HeadGroup& group, int64_t head, int64_t col, int64_t count,
                                 const ReadyChunk& chunk) {
    switch (DivideUp(count, kLanes)) {
      case 1:
        return SumVectors<1, kMixed>(group, head, col, count, chunk);
      case 2:
        return SumVectors<2, kMixed>(group, head, col, count, chunk);
      case 3:
        return SumVectors<3, kMixed>(group, head, col, count, chunk);
      case 4:
        return SumVectors<4, kMixed>(group, head, col, count, chunk);
      case 5:
        return SumVectors<HWY_MIN(5, kSumVectors), kMixed>(group, head, col, count, chunk);
      case 6:
        return SumVectors<HWY_MIN(6, kSumVectors), kMixed>(group, head, col, count, chunk);
      case 7:
        return SumVectors<HWY_MIN(7, kSumVectors), kMixed>(group, head, col, count, chunk);
      default:
        return SumVectors<kSumVectors, kMixed>(group, head, col, count, chunk);
    }
  }

  // Head (within the group) that each lane of the vector at column `col` of the group belongs to.
  VICINAL_INLINE auto HeadsOfLanes(int64_t col) const { return hn::SetTableIndices(Floats(), heads_of_columns_ + col); }

  template <int N, bool kMixed>
  HWY_NOINLINE void SumVectors(const HeadGroup& group, int64_t head, int64_t col, int64_t count,
                               const ReadyChunk& chunk) {
    const Floats d;
    using Table = decltype(HeadsOfLanes(0));
    Table tables[N];
    VF acc[N];
    VICINAL_UNROLL
    for (int v = 0; v < N; ++v) {
      acc[v] = hn::Zero(d);
      if (kMixed) tables[v] = HeadsOfLanes(col + v * kLanes);
    }
    const float* shares = chunk.shares + head;
    const float* values = args_.value.data + group.first * width_ + col;
    for (int64_t e = chunk.begin; e < chunk.end; ++e, shares += group.padded) {
      const float* value = values + args_.adjacency.col[e] * args_.value.stride;
      const VF share = kMixed ? hn::LoadU(d, shares) : hn::Set(d, *shares);
      VICINAL_UNROLL
      for (int v = 0; v < N; ++v) {
        const VF x = LoadSome(value + v * kLanes, count - v * kLanes);
        acc[v] = hn::MulAdd(kMixed ? hn::TableLookupLanes(share, tables[v]) : share, x, acc[v]);
      }
    }
    float* sums = sums_ + group.first * width_ + col;
    const auto of_head = [&](const float* pattern, int v) HWY_ATTR {
      return kMixed ? hn::TableLookupLanes(hn::Load(d, pattern), tables[v]) : hn::Set(d, pattern[head]);
    };
    VICINAL_UNROLL
    for (int v = 0; v < N; ++v) {
      const int64_t left = count - v * kLanes;
      if (chunk.rescale != nullptr)
        acc[v] = hn::MulAdd(LoadSome(sums + v * kLanes, left), of_head(chunk.rescale, v), acc[v]);
      if (chunk.totals != nullptr) acc[v] = hn::Div(acc[v], of_head(chunk.totals, v));
      StoreSome(acc[v], sums + v * kLanes, left);
    }
  }

  VICINAL_INLINE void StoreRow(int64_t i) {
    const int64_t heads = args_.problem.concat ? 1 : args_.problem.heads;
    const VF divisor = hn::Set(Floats(), static_cast<float>(heads));
    for (int64_t c = 0; c < args_.dst.cols; c += kLanes) {
      const int64_t count = args_.dst.cols - c;
      VF result = LoadSome(sums_ + c, count);
      for (int64_t head = 1; head < heads; ++head) result = hn::Add(result, LoadSome(sums_ + head * width_ + c, count));
      if (heads > 1) result = hn::Div(result, divisor);
      StoreSome(Finish(result, args_.epilogue, i, c, count), args_.dst.row(i) + c, count);
    }
  }

  const AttentionArgs& args_;
  StopWithin stop_;
  const int64_t last_edge_;  // edges below it may be looked at ahead of time
  float* const raw_;
  float* const scores_;
  float* const sums_;
  const int64_t width_;  // C
  AttentionFeatures features_;
  bool prefetch_;
  bool mixed_;  // a vector of columns may belong to several heads
  HWY_ALIGN int32_t rotations_[kLanes][kLanes];
  // The head of each column of a full group; entries beyond the last column are valid heads of lanes that are not
  // stored.
  HWY_ALIGN int32_t heads_of_columns_[kMixedColumns + kLanes] = {};
};

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_ATTENTION_ROWS_INL_H_
