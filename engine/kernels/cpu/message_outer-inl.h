// SPDX-License-Identifier: Apache-2.0
// Reduction of messages that are all products of an edge's coefficients and its source's row, side by side. A row of
// the result is a matrix [K, D]; eight of its rows by a vector of columns stay in registers while a block of the row's
// edges passes, so that a load of a source serves eight products. Coefficients of the block's edges are made before,
// into scratch, while the sources are on their way to the cache. Edges are added in order, in blocks of kMessageBlock:
// bits do not depend on how many pass together. Compiled once per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_MESSAGE_OUTER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_MESSAGE_OUTER_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_MESSAGE_OUTER_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_MESSAGE_OUTER_INL_H_
#endif

#include <algorithm>

#include "engine/kernels/cpu/edge_features.h"
#include "engine/kernels/cpu/gather_job.h"
#include "engine/kernels/cpu/message_scratch.h"
#include "engine/kernels/cpu/message_vector-inl.h"
#include "engine/kernels/cpu/work.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

// One thread's work on rows.
class OuterRows {
 public:
  OuterRows(const MessageReduceArgs& args, float* scratch, const StopWithin& stop)
      : args_(args),
        stop_(stop),
        parts_(args.problem.coefficients()),
        share_stride_(PaddedToPanel(parts_)),
        sum_stride_(PaddedToPanel(args.problem.width)),
        together_(EdgesTogether(args.config)),
        prefetch_(WorthPrefetching(args.src)),
        shares_(scratch),
        partial_(scratch + together_ * share_stride_),
        total_(partial_ + parts_ * sum_stride_) {}

  // Rows [begin, end), or some of them if the loop is stopped.
  HWY_NOINLINE void Run(int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = args_.adjacency.row_ptr[row], last = args_.adjacency.row_ptr[row + 1];
      const EdgeFeaturesOfRow features(args_.edge, row);
      std::fill_n(partial_, parts_ * sum_stride_, 0.0f);
      for (int64_t e = first; e < last;) {
        if (e != first && (e - first) % kMessageBlock == 0) CloseBlock(e - first == kMessageBlock);
        const int64_t block_end = first + ((e - first) / kMessageBlock + 1) * kMessageBlock;
        const int64_t pass_end = Smaller(Smaller(last, e + together_), block_end);
        if (stop_.Before(pass_end - e)) return;
        for (int64_t i = e; i < pass_end; ++i) {
          if (prefetch_) PrefetchRow(args_.src.row(args_.adjacency.col[i]));
          GaussiansOf(args_, features.At(i - first), shares_ + (i - e) * share_stride_);
        }
        AddEdges(e, pass_end);
        e = pass_end;
      }
      StoreRow(row, last - first);
    }
  }

 private:
  VICINAL_INLINE void PrefetchRow(const float* row) const {
    for (int64_t c = 0; c < args_.problem.width; c += 16) hwy::Prefetch(row + c);
  }

  // Adds edges [begin, end) to partial_.
  HWY_NOINLINE void AddEdges(int64_t begin, int64_t end) {
    for (int64_t c = 0; c < args_.problem.width; c += kLanes) {
      int64_t k = 0;
      for (; k + 8 <= parts_; k += 8) AddParts<8>(begin, end, c, k);
      if (k + 4 <= parts_) AddParts<4>(begin, end, c, k), k += 4;
      for (; k < parts_; ++k) AddParts<1>(begin, end, c, k);
    }
  }

  // The same for a vector of columns from c on, and coefficients [k, k + kParts).
  template <int kParts>
  VICINAL_INLINE void AddParts(int64_t begin, int64_t end, int64_t c, int64_t k) {
    const Floats d;
    const int64_t count = args_.problem.width - c;
    float* const sums = partial_ + k * sum_stride_ + c;
    const float* share = shares_ + k;
    VF acc[kParts];
    VICINAL_UNROLL
    for (int i = 0; i < kParts; ++i) acc[i] = hn::LoadU(d, sums + i * sum_stride_);
    for (int64_t e = begin; e < end; ++e, share += share_stride_) {
      const VF u = LoadSome(args_.src.row(args_.adjacency.col[e]) + c, count);
      VICINAL_UNROLL
      for (int i = 0; i < kParts; ++i) acc[i] = hn::MulAdd(hn::Set(d, share[i]), u, acc[i]);
    }
    VICINAL_UNROLL
    for (int i = 0; i < kParts; ++i) hn::StoreU(acc[i], d, sums + i * sum_stride_);
  }

  // Adds partial_ to total_, or initialises total_ with it.
  HWY_NOINLINE void CloseBlock(bool is_first) {
    const Floats d;
    for (int64_t i = 0; i < parts_ * sum_stride_; i += kLanes) {
      const VF block = hn::LoadU(d, partial_ + i);
      hn::StoreU(is_first ? block : hn::Add(hn::LoadU(d, total_ + i), block), d, total_ + i);
      hn::StoreU(hn::Zero(d), d, partial_ + i);
    }
  }

  HWY_NOINLINE void StoreRow(int64_t row, int64_t degree) {
    const Floats d;
    const int64_t width = args_.problem.width;
    for (int64_t k = 0; k < parts_; ++k) {
      for (int64_t c = 0; c < width; c += kLanes) {
        const int64_t count = width - c, at = k * sum_stride_ + c, column = k * width + c;
        VF sum = hn::LoadU(d, partial_ + at);
        if (degree > kMessageBlock) sum = hn::Add(hn::LoadU(d, total_ + at), sum);
        StoreSome(Finish(ReducedOf(args_, degree, sum), args_.epilogue, row, column, count),
                  args_.dst.row(row) + column, count);
      }
    }
  }

  const MessageReduceArgs& args_;
  StopWithin stop_;
  const int64_t parts_, share_stride_, sum_stride_, together_;
  const bool prefetch_;
  float* const shares_;   // [together_][share_stride_]
  float* const partial_;  // of the row's current block, [parts_][sum_stride_]
  float* const total_;    // of its complete blocks
};

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_MESSAGE_OUTER_INL_H_
