// SPDX-License-Identifier: Apache-2.0
// Reductions of the edges of a tile that belong to one row: sums, extremes, variances and softmax-weighted sums, joined
// with what earlier tiles of the row gave. A variance is carried as a mean and a sum of squares of differences from it,
// so that it does not cancel; a softmax as the largest score, the sum of weights and the weighted sum. Compiled once
// per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_EDGE_REDUCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_EDGE_REDUCTIONS_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_EDGE_REDUCTIONS_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_EDGE_REDUCTIONS_INL_H_
#endif

#include "engine/kernels/cpu/edge_values-inl.h"
#include "engine/kernels/cpu/message_vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

// Edges [begin, end) of a tile: consecutive ones of a row, `before` of whose edges came earlier.
struct EdgeSegment {
  int64_t row = 0;
  int64_t begin = 0, end = 0;
  int64_t before = 0;
  bool last = true;  // of the row

  int64_t edges() const { return end - begin; }
};

class EdgeReduction {
 public:
  // `state`: the result's state_floats.
  EdgeReduction(const EdgeCodeResult& result, const EdgeValues& values, float* state)
      : result_(result), values_(values), state_(state), width_(result.value.width), stride_((width_ + 15) / 16 * 16) {}

  VICINAL_INLINE void Join(const EdgeSegment& segment) {
    switch (result_.reduce) {
      case EdgeReduce::kSum:
      case EdgeReduce::kMean:
        return JoinPlain<false>(segment, hn::Zero(Floats()));
      case EdgeReduce::kMax:
        return JoinPlain<true>(segment, hn::Zero(Floats()));
      case EdgeReduce::kMin:
        return JoinPlain<true>(segment, hn::Set(Floats(), -0.0f));
      case EdgeReduce::kVar:
      case EdgeReduce::kStd:
        return JoinSpread(segment);
      case EdgeReduce::kSoftmax:
        return JoinWeighted(segment);
    }
  }

  // Columns [c, c + lanes) of the finished row of `degree` edges.
  VICINAL_INLINE VF Result(int64_t c, int64_t degree) const {
    const Floats d;
    const VF x = hn::LoadU(d, state_ + c), edges = hn::Set(d, static_cast<float>(degree));
    switch (result_.reduce) {
      case EdgeReduce::kMean:
        return hn::Div(x, edges);
      case EdgeReduce::kMin:
        return hn::Neg(x);
      case EdgeReduce::kVar:
        return hn::Div(hn::LoadU(d, state_ + stride_ + c), edges);
      case EdgeReduce::kStd: {
        const VF variance = hn::Div(hn::LoadU(d, state_ + stride_ + c), edges);
        return hn::IfThenZeroElse(hn::Le(variance, hn::Set(d, 1e-5f)), hn::Sqrt(variance));
      }
      default:
        return x;
    }
  }

  // Divides the weighted sum by the sum of weights. Called once, before Result.
  VICINAL_INLINE void Finish() {
    if (result_.reduce != EdgeReduce::kSoftmax) return;
    const float* const totals = state_ + stride_ + score_stride();
    ForEachPart([&](int64_t c, int64_t k, int64_t count) {
      const VF total = EachItsOwn() ? LoadSome(totals + c, count) : hn::Set(Floats(), totals[k]);
      StoreSome(hn::Div(LoadSome(state_ + c, count), total), state_ + c, count);
    });
  }

  int64_t width() const { return width_; }

 private:
  int64_t score_stride() const { return (result_.score.width + 15) / 16 * 16; }
  // A score for each column.
  bool EachItsOwn() const { return result_.score.width == width_; }

  // Four vectors of columns at a time, so that additions do not wait for each other.
  template <bool kExtreme>
  HWY_NOINLINE void JoinPlain(const EdgeSegment& segment, VF flip) {
    const OperandRows rows = values_.RowsOf(result_.value);
    int64_t c = 0;
    for (; c + 4 * kLanes <= width_; c += 4 * kLanes) JoinColumns<kExtreme, 4>(segment, rows, flip, c, kLanes);
    for (; c < width_; c += kLanes) JoinColumns<kExtreme, 1>(segment, rows, flip, c, width_ - c);
  }

  template <bool kExtreme, int N>
  VICINAL_INLINE void JoinColumns(const EdgeSegment& segment, const OperandRows& rows, VF flip, int64_t c,
                                  int64_t last_count) {
    using R = Reducer<kExtreme>;
    VF acc[N];
    VICINAL_UNROLL
    for (int n = 0; n < N; ++n) acc[n] = R::Start();
    for (int64_t e = segment.begin; e < segment.end; ++e) {
      const float* const row = rows[e] + c;
      VICINAL_UNROLL
      for (int n = 0; n < N; ++n) {
        const VF x = n + 1 < N ? hn::LoadU(Floats(), row + n * kLanes) : LoadSome(row + n * kLanes, last_count);
        acc[n] = R::Join(acc[n], kExtreme ? hn::Xor(x, flip) : x);
      }
    }
    VICINAL_UNROLL
    for (int n = 0; n < N; ++n) {
      float* const state = state_ + c + n * kLanes;
      hn::StoreU(segment.before > 0 ? R::Join(hn::LoadU(Floats(), state), acc[n]) : acc[n], Floats(), state);
    }
  }

  HWY_NOINLINE void JoinSpread(const EdgeSegment& segment) {
    const Floats d;
    const OperandRows rows = values_.RowsOf(result_.value);
    const auto here = static_cast<float>(segment.edges()), before = static_cast<float>(segment.before);
    for (int64_t c = 0; c < width_; c += kLanes) {
      const int64_t count = width_ - c;
      VF sum = hn::Zero(d), squares = hn::Zero(d);
      for (int64_t e = segment.begin; e < segment.end; ++e) sum = hn::Add(sum, LoadSome(rows[e] + c, count));
      VF mean = hn::Div(sum, hn::Set(d, here));
      for (int64_t e = segment.begin; e < segment.end; ++e) {
        const VF difference = hn::Sub(LoadSome(rows[e] + c, count), mean);
        squares = hn::MulAdd(difference, difference, squares);
      }
      if (segment.before > 0) {
        const VF mean_before = hn::LoadU(d, state_ + c), difference = hn::Sub(mean, mean_before);
        const VF share = hn::Set(d, here / (here + before));
        squares = hn::Add(squares, hn::LoadU(d, state_ + stride_ + c));
        squares = hn::MulAdd(hn::Mul(difference, difference), hn::Mul(share, hn::Set(d, before)), squares);
        mean = hn::MulAdd(difference, share, mean_before);
      }
      hn::StoreU(mean, d, state_ + c);
      hn::StoreU(squares, d, state_ + stride_ + c);
    }
  }

  // Calls f(c, k, count) for runs of up to a vector of columns that have one score, k, or scores of their own.
  template <class F>
  VICINAL_INLINE void ForEachPart(const F& f) const {
    if (EachItsOwn()) {
      for (int64_t c = 0; c < width_; c += kLanes) f(c, c, width_ - c);
      return;
    }
    const int64_t part = width_ / result_.score.width;
    for (int64_t k = 0; k < result_.score.width; ++k) {
      for (int64_t c = 0; c < part; c += kLanes) f(k * part + c, k, part - c);
    }
  }

  HWY_NOINLINE void JoinWeighted(const EdgeSegment& segment) {
    const Floats d;
    const int64_t scores = result_.score.width, stride = result_.shares.stride;
    float *const largest = state_ + stride_, *const totals = largest + score_stride();
    float* const shares = values_.Register(result_.shares);
    const OperandRows score_rows = values_.RowsOf(result_.score), rows = values_.RowsOf(result_.value);
    for (int64_t k = 0; k < scores; k += kLanes) {
      const int64_t count = scores - k;
      const VF before = segment.before > 0 ? hn::LoadU(d, largest + k) : hn::Set(d, -HUGE_VALF);
      VF most = before;
      for (int64_t e = segment.begin; e < segment.end; ++e)
        most = ExtremeOf<Reduce::kMax>(most, LoadSome(score_rows[e] + k, count));
      // While all scores are -infinity, their shares are 0: -infinity less itself is no number.
      const VF base = hn::IfThenZeroElse(hn::Eq(most, hn::Set(d, -HUGE_VALF)), most);
      VF total = hn::Zero(d);
      for (int64_t e = segment.begin; e < segment.end; ++e) {
        const VF share = Exp(hn::Sub(LoadSome(score_rows[e] + k, count), base));
        StoreSome(share, shares + e * stride + k, count);
        total = hn::Add(total, share);
      }
      if (segment.before > 0) {
        // What was carried shrinks by the same factor as the sum of its weights.
        const VF shrink = Exp(hn::Sub(before, base));
        total = hn::MulAdd(hn::LoadU(d, totals + k), shrink, total);
        hn::StoreU(shrink, d, largest + k);
        ShrinkColumns(k, Smaller(count, kLanes), largest);
      }
      hn::StoreU(most, d, largest + k);
      hn::StoreU(total, d, totals + k);
    }
    const bool own = EachItsOwn();
    ForEachPart([&](int64_t c, int64_t k, int64_t count) {
      // A sum of its own per segment: edge by edge, a row of a million loses three digits.
      VF sum = hn::Zero(d);
      for (int64_t e = segment.begin; e < segment.end; ++e) {
        const float* const share = shares + e * stride + k;
        sum = hn::MulAdd(own ? LoadSome(share, count) : hn::Set(d, *share), LoadSome(rows[e] + c, count), sum);
      }
      if (segment.before > 0) sum = hn::Add(LoadSome(state_ + c, count), sum);
      StoreSome(sum, state_ + c, count);
    });
  }

  // The weighted sums of scores [k, k + count) times their factors.
  VICINAL_INLINE void ShrinkColumns(int64_t k, int64_t count, const float* factors) {
    const int64_t part = width_ / result_.score.width;
    for (int64_t s = k; s < k + count; ++s) {
      for (int64_t c = s * part; c < (s + 1) * part; ++c) state_[c] *= factors[s];
    }
  }

  const EdgeCodeResult& result_;
  const EdgeValues& values_;
  float* const state_;
  const int64_t width_, stride_;
};

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_EDGE_REDUCTIONS_INL_H_
