// SPDX-License-Identifier: Apache-2.0
// The part of the vectorised attention that reads features of edges. Their product with W [., A] is never stored: GAT's
// is one number per edge and head; GATv2's is formed for one edge at a time; of dot products, q . (k + W e) = q . k +
// (W^T q) . e takes one short vector per row, and the sum of a_e (v + W e) is that of a_e v plus W times that of a_e e.
// Compiled once per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_ATTENTION_FEATURES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_ATTENTION_FEATURES_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_ATTENTION_FEATURES_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_ATTENTION_FEATURES_INL_H_
#endif

#include "engine/kernels/cpu/attention_scratch.h"
#include "engine/kernels/cpu/edge_features.h"
#include "engine/kernels/cpu/feature_terms-inl.h"
#include "engine/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

inline constexpr int kSumHeads = 4;  // in registers in one pass over a chunk

// W [columns, A] of W^T, for dot products, whose vectors go along the features.
inline HWY_NOINLINE void TurnWeight(const AttentionArgs& args, float* to) {
  constexpr int64_t kTogether = 16;  // a line of `to`
  const int64_t width = args.problem.edge_width, columns = args.problem.heads * args.problem.head_width;
  for (int64_t a = 0; a < width; a += kTogether) {
    const int64_t end = Smaller(width, a + kTogether);
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t k = a; k < end; ++k) to[c * width + k] = args.edge_weight[k * columns + c];
    }
  }
}

// Up to a vector of heads, processed together; lane l of a pattern vector belongs to head first + l % padded.
struct HeadGroup {
  int64_t first;
  int64_t heads;
  int64_t padded;  // the next power of two
};

// Edges whose softmax weights are ready to be summed. Patterns: one vector each.
struct ReadyChunk {
  int64_t begin, end;
  const float* shares;
  const float* rescale;  // factor of the sums so far; null: there are none
  const float* totals;   // divisor of the final sums; null: more chunks follow
};

// The features of one row's edges at a time.
class AttentionFeatures {
 public:
  // `turned_weight`: as TurnWeight makes it. `scratch`: AttentionFeatureFloats of the problem.
  AttentionFeatures(const AttentionArgs& args, const float* turned_weight, float* scratch)
      : args_(args),
        width_(args.problem.edge_width),
        columns_(args.problem.heads * (args.problem.kind == AttentionKind::kGat ? 1 : args.problem.head_width)),
        turned_weight_(turned_weight),
        scratch_(scratch),
        sums_(scratch + WithSlack(args.problem.heads * width_)) {}

  bool any() const { return width_ > 0; }
  // Whether they are part of the values.
  bool summed() const { return any() && args_.problem.kind == AttentionKind::kDot; }

  // All that follows is about row i.
  VICINAL_INLINE void Begin(int64_t i) {
    if (!any()) return;
    row_ = EdgeFeaturesOfRow(args_.edge, i);
    first_edge_ = args_.adjacency.row_ptr[i];
  }
  VICINAL_INLINE const float* Of(int64_t edge) const { return row_.At(edge - first_edge_); }

  // GAT: adds their scores to those of the edges [begin, end), [end - begin, padded].
  HWY_NOINLINE void AddScores(const HeadGroup& group, int64_t begin, int64_t end, float* raw) const {
    const Floats d;
    for (int64_t e = begin; e < end; ++e, raw += group.padded) {
      const float* features = Of(e);
      if (columns_ == 1) {
        *raw += Dot(features, args_.edge_weight, width_);
        continue;
      }
      VF score = LoadSome(raw, group.padded);
      const float* weight = args_.edge_weight + group.first;
      for (int64_t a = 0; a < width_; ++a, weight += columns_) {
        score = hn::MulAdd(hn::Set(d, features[a]), LoadSome(weight, group.heads), score);
      }
      StoreSome(score, raw, group.padded);
    }
  }

  // GATv2: columns [col, col + count) of features times W^T, until the next call.
  VICINAL_INLINE const float* Terms(const float* features, int64_t col, int64_t count) const {
    const auto store = [to = scratch_](VF term, int64_t c, int64_t) HWY_ATTR { hn::StoreU(term, Floats(), to + c); };
    ForEachTerm({features, width_, args_.edge_weight + col, columns_}, count, store);
    return scratch_;
  }

  // Dot products: W^T q for each head of the group and the query of row i, for AddDot.
  HWY_NOINLINE void TurnQuery(int64_t i, const HeadGroup& group) {
    const int64_t head_width = args_.problem.head_width;
    for (int64_t head = group.first; head < group.first + group.heads; ++head) {
      const auto store = [to = scratch_ + head * width_](VF sum, int64_t a, int64_t count)
                             HWY_ATTR { StoreSome(sum, to + a, count); };
      const float* const query = args_.query.row(i) + head * head_width;
      ForEachTerm({query, head_width, turned_weight_ + head * head_width * width_, width_}, width_, store);
    }
  }
  // Adds the lanes of (W^T q) . features to `sum`.
  VICINAL_INLINE VF AddDot(const float* features, int64_t head, VF sum) const {
    const float* turned = scratch_ + head * width_;
    for (int64_t a = 0; a < width_; a += kLanes) {
      sum = hn::MulAdd(LoadSome(turned + a, width_ - a), LoadSome(features + a, width_ - a), sum);
    }
    return sum;
  }

  // Adds the features of the chunk's edges to their weighted sums, per head; with the last chunk, W times these to
  // `values`, the group's sums of values.
  HWY_NOINLINE void Sum(const HeadGroup& group, const ReadyChunk& chunk, float* values) {
    int64_t head = 0;
    for (; head + kSumHeads <= group.heads; head += kSumHeads) {
      for (int64_t a = 0; a < width_; a += kLanes) SumVectors<kSumHeads>(group, head, a, chunk);
    }
    for (; head < group.heads; ++head) {
      for (int64_t a = 0; a < width_; a += kLanes) SumVectors<1>(group, head, a, chunk);
    }
    if (chunk.totals != nullptr) AddProduct(group, values);
  }

 private:
  static VICINAL_INLINE float Dot(const float* x, const float* y, int64_t count) {
    const Floats d;
    VF sum = hn::Zero(d);
    for (int64_t c = 0; c < count; c += kLanes) {
      sum = hn::MulAdd(LoadSome(x + c, count - c), LoadSome(y + c, count - c), sum);
    }
    return hn::GetLane(hn::SumOfLanes(d, sum));
  }

  // A vector of features for N heads at once, which share its loads.
  template <int N>
  VICINAL_INLINE void SumVectors(const HeadGroup& group, int64_t head, int64_t a, const ReadyChunk& chunk) {
    const Floats d;
    const int64_t count = width_ - a;
    const float* share = chunk.shares + head;
    VF acc[N];
    VICINAL_UNROLL
    for (int h = 0; h < N; ++h) acc[h] = hn::Zero(d);
    for (int64_t e = chunk.begin; e < chunk.end; ++e, share += group.padded) {
      const VF features = LoadSome(Of(e) + a, count);
      VICINAL_UNROLL
      for (int h = 0; h < N; ++h) acc[h] = hn::MulAdd(hn::Set(d, share[h]), features, acc[h]);
    }
    VICINAL_UNROLL
    for (int h = 0; h < N; ++h) {
      float* const sum = sums_ + (group.first + head + h) * width_ + a;
      if (chunk.rescale != nullptr) {
        acc[h] = hn::MulAdd(LoadSome(sum, count), hn::Set(d, chunk.rescale[head + h]), acc[h]);
      }
      if (chunk.totals != nullptr) acc[h] = hn::Div(acc[h], hn::Set(d, chunk.totals[head + h]));
      StoreSome(acc[h], sum, count);
    }
  }

  VICINAL_INLINE void AddProduct(const HeadGroup& group, float* values) const {
    const int64_t head_width = args_.problem.head_width;
    for (int64_t head = group.first; head < group.first + group.heads; ++head) {
      const auto add = [to = values + head * head_width](VF sum, int64_t c, int64_t count)
                           HWY_ATTR { StoreSome(hn::Add(LoadSome(to + c, count), sum), to + c, count); };
      ForEachTerm({sums_ + head * width_, width_, args_.edge_weight + head * head_width, columns_}, head_width, add);
    }
  }

  const AttentionArgs& args_;
  const int64_t width_;    // A
  const int64_t columns_;  // of W^T
  const float* const turned_weight_;
  float* const scratch_;  // of dot products: W^T q, [K, A]; of GATv2: the terms of an edge
  float* const sums_;     // [K, A]
  EdgeFeaturesOfRow row_;
  int64_t first_edge_ = 0;  // of the row
};

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_ATTENTION_FEATURES_INL_H_
