// SPDX-License-Identifier: Apache-2.0
// One thread's edge scores; the order of visits is explained in edge_scores_simd.cc. Dot products are collected until a
// vector of them can be summed across lanes together. Messages are elementwise. Every result depends on its own edge
// alone. Compiled once per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_EDGE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_EDGE_ROWS_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_EDGE_ROWS_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_EDGE_ROWS_INL_H_
#endif

#include "engine/kernels/cpu/gather_job.h"
#include "engine/kernels/cpu/lane_sums-inl.h"
#include "engine/kernels/cpu/message_vector-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

inline constexpr int64_t kScoreEdgesAhead = 16;

// The gathered rows of u, and whether to prefetch them.
class Sources {
 public:
  explicit Sources(const EdgeScoresArgs& args)
      : args_(args), last_edge_(args.adjacency.row_ptr[args.problem.rows]), prefetch_(WorthPrefetching(args.src)) {}

  // u of edge e.
  VICINAL_INLINE const float* Row(int64_t e) const {
    if (prefetch_ && e + kScoreEdgesAhead < last_edge_) {
      const float* next = args_.src.row(args_.adjacency.col[e + kScoreEdgesAhead]);
      for (int64_t c = 0; c < args_.problem.width; c += 16) hwy::Prefetch(next + c);
    }
    return args_.src.row(args_.adjacency.col[e]);
  }

 private:
  const EdgeScoresArgs& args_;
  const int64_t last_edge_;
  const bool prefetch_;
};

// dst[e, k] = sum_c u[k, c] v[k, c].
class DotScorer {
 public:
  explicit DotScorer(const EdgeScoresArgs& args)
      : args_(args), sources_(args), head_width_(args.problem.width / args.problem.heads) {}
  ~DotScorer() { sums_.Flush(); }
  DotScorer(const DotScorer&) = delete;
  DotScorer& operator=(const DotScorer&) = delete;

  // Edges [begin, end) of row i.
  VICINAL_INLINE void Visit(int64_t i, int64_t begin, int64_t end) {
    const float* v = args_.target.row(i);
    for (int64_t e = begin; e < end; ++e) {
      const float* u = sources_.Row(e);
      float* dst = args_.dst.row(e - args_.adjacency.row_ptr[0]);
      for (int64_t k = 0; k < args_.problem.heads; ++k) {
        sums_.Add(PartialSums(u + k * head_width_, v + k * head_width_), dst + k);
      }
    }
  }

 private:
  VICINAL_INLINE VF PartialSums(const float* u, const float* v) const {
    VF sum = hn::Zero(Floats());
    for (int64_t c = 0; c < head_width_; c += kLanes) {
      const int64_t count = head_width_ - c;
      sum = hn::MulAdd(LoadSome(u + c, count), LoadSome(v + c, count), sum);
    }
    return sum;
  }

  const EdgeScoresArgs& args_;
  const Sources sources_;
  const int64_t head_width_;
  LaneSums sums_;
};

// dst[e] = message(u, v).
template <WithTarget kWith>
class MessageScorer {
 public:
  explicit MessageScorer(const EdgeScoresArgs& args) : args_(args), sources_(args) {}

  VICINAL_INLINE void Visit(int64_t i, int64_t begin, int64_t end) {
    const int64_t width = args_.problem.width;
    const float* v = kWith == WithTarget::kNothing ? nullptr : args_.target.row(i);
    for (int64_t e = begin; e < end; ++e) {
      const float* u = sources_.Row(e);
      float* dst = args_.dst.row(e - args_.adjacency.row_ptr[0]);
      for (int64_t c = 0; c < width; c += kLanes) {
        const int64_t count = width - c;
        const VF message = MessageOf<kWith>(
            LoadSome(u + c, count),
            LoadTarget<kWith>(args_.problem.message, kWith == WithTarget::kNothing ? nullptr : v + c, count));
        StoreSome(message, dst + c, count);
      }
    }
  }

 private:
  const EdgeScoresArgs& args_;
  const Sources sources_;
};

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_EDGE_ROWS_INL_H_
