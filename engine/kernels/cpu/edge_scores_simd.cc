// SPDX-License-Identifier: Apache-2.0
// Edge scores, FeatGraph's generalised SDDMM ("template_sddmm"): a dot product per head or an element-wise message for
// every edge.
//
// Idea: in row order, v stays in the first-level cache while the row's edges pass, and u is gathered with prefetching.
// With the Hilbert curve, the adjacency is cut into 2^k x 2^k blocks of targets and sources, visited in the order of
// the curve, so that the rows of u and v of successive blocks stay in the caches. A row's edges within a block are
// found by binary search, so nothing is sorted, stored or allocated. Partial sums of the dot products of several edges
// are summed across lanes together.
//
// When it wins: always over the reference. The curve was slower than prefetched row order on every graph measured (one
// thread, AVX-512, 32 MiB of last-level cache): dot products 64 wide on 325,557 nodes and 3.1 M edges take 32 ms by
// rows, 61 ms at order 1, 270 ms at order 8; 256 wide on 13,752 nodes and 0.49 M edges 26 ms by rows, 34 ms at order 1.
// Row order is the default; the curve remains a candidate for dense rows and smaller caches.
//
// Bytes moved: edges * (4 + 4 D) read if src does not fit the caches, rows * 4 D (v), edges * 4 K or 4 D written. The
// curve reads indices twice, because columns must ascend within rows, which is checked first. If they do not, as in
// receptive fields, rows are processed in order.
//
// Parameters: hilbert_order, k (0: row order).
//
// Determinism: every element depends on its own edge alone, in a fixed order of evaluation. The bits are the same for
// any order of visits, number of threads and subset of rows.
//
// Source: Hu et al., "FeatGraph" (SC'20), sections III-B (template) and III-C (Hilbert order).
#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "engine/kernels/cpu/hilbert.h"
#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/work.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/edge_scores_simd.cc"
#include "engine/kernels/cpu/simd_targets.h"
#include "hwy/foreach_target.h"
//
#include "engine/kernels/cpu/edge_rows-inl.h"

#ifndef VICINAL_ENGINE_KERNELS_CPU_EDGE_SCORES_ONCE_
#define VICINAL_ENGINE_KERNELS_CPU_EDGE_SCORES_ONCE_
namespace vicinal::internal {

// With a higher order, the blocks of any graph that fits memory would be smaller than a near cache.
inline constexpr int32_t kMaxHilbertOrder = 10;

// With fewer edges of a row per block, finding them costs more than the reuse saves.
inline constexpr int64_t kEdgesPerVisit = 8;

// True if columns ascend within each row.
inline bool ColumnsAscend(const CsrView& adjacency, ThreadPool* pool) {
  std::atomic<bool> ascend = true;
  ForRows(pool, {adjacency.row_ptr, adjacency.rows, 0.5, 2}, [&](int64_t begin, int64_t end, int) {
    bool good = true;
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t e = adjacency.row_ptr[i] + 1; e < adjacency.row_ptr[i + 1]; ++e)
        good &= adjacency.col[e - 1] <= adjacency.col[e];
    }
    if (!good) ascend.store(false, std::memory_order_relaxed);
  });
  return ascend.load(std::memory_order_relaxed);
}

// The part of row i whose sources are in [first, last): its edges [begin, end), found from a sorted row.
struct EdgeRange {
  int64_t begin, end;
};
inline EdgeRange EdgesBetween(const CsrView& adjacency, int64_t i, int64_t first, int64_t last) {
  const int32_t *row_begin = adjacency.col + adjacency.row_ptr[i], *row_end = adjacency.col + adjacency.row_ptr[i + 1];
  if (row_begin == row_end || row_begin[0] >= last || row_end[-1] < first) return {0, 0};
  const int32_t* begin = std::lower_bound(row_begin, row_end, first);
  const int32_t* end = std::lower_bound(begin, row_end, last);
  return {begin - adjacency.col, end - adjacency.col};
}

}  // namespace vicinal::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

template <class Scorer>
HWY_NOINLINE void ScoreRows(const EdgeScoresArgs& args, int64_t begin, int64_t end, StopWithin stop) {
  constexpr int64_t kEdgesAtOnce = 1024;
  Scorer scorer(args);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t last = args.adjacency.row_ptr[i + 1];
    for (int64_t e = args.adjacency.row_ptr[i]; e < last; e += kEdgesAtOnce) {
      const int64_t piece_end = Smaller(last, e + kEdgesAtOnce);
      if (stop.Before(piece_end - e)) return;
      scorer.Visit(i, e, piece_end);
    }
  }
}

// Blocks [begin, end) along the curve.
template <class Scorer>
HWY_NOINLINE void ScoreBlocks(const EdgeScoresArgs& args, int order, int64_t begin, int64_t end) {
  const CsrView& a = args.adjacency;
  const int64_t side = int64_t{1} << order;
  Scorer scorer(args);
  for (int64_t index = begin; index < end; ++index) {
    const HilbertCell cell = HilbertCellAt(order, index);
    const int64_t first = args.problem.cols * cell.col / side, last = args.problem.cols * (cell.col + 1) / side;
    const int64_t last_row = args.problem.rows * (cell.row + 1) / side;
    for (int64_t i = args.problem.rows * cell.row / side; i < last_row; ++i) {
      const EdgeRange edges = EdgesBetween(a, i, first, last);
      scorer.Visit(i, edges.begin, edges.end);
    }
  }
}

template <class Scorer>
void ScoreEdges(const EdgeScoresArgs& args, ThreadPool* pool) {
  const int order = std::min(args.config.values[0], kMaxHilbertOrder);
  const double vectors = static_cast<double>(DivideUp(args.problem.width, kLanes));
  const RowWork work = {args.adjacency.row_ptr, args.problem.rows,
                        2 + vectors + 2 * static_cast<double>(args.problem.heads), 5};
  if (order > 0 && ColumnsAscend(args.adjacency, pool)) {
    const int64_t cells = int64_t{1} << (2 * order);
    const double cell_ns =
        (work.Before(work.rows) + 4.0 * static_cast<double>(work.rows << order)) / static_cast<double>(cells);
    ForRows(pool, {nullptr, cells, 0, cell_ns},
            [&](int64_t begin, int64_t end, int) { ScoreBlocks<Scorer>(args, order, begin, end); });
    return;
  }
  ForRows(pool, work, [&](int64_t begin, int64_t end, int) {
    ScoreRows<Scorer>(args, begin, end, StopWithin(pool, work.edge_ns));
  });
}

void EdgeScoresAll(const EdgeScoresArgs& args, ThreadPool* pool) {
  if (args.problem.dot) return ScoreEdges<DotScorer>(args, pool);
  switch (WithTargetOf(args.problem.message)) {
    case WithTarget::kNothing:
      return ScoreEdges<MessageScorer<WithTarget::kNothing>>(args, pool);
    case WithTarget::kAdd:
      return ScoreEdges<MessageScorer<WithTarget::kAdd>>(args, pool);
    case WithTarget::kMultiply:
      return ScoreEdges<MessageScorer<WithTarget::kMultiply>>(args, pool);
  }
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vicinal::internal {
namespace {

HWY_EXPORT(EdgeScoresAll);

class TemplateSddmm final : public EdgeScoresKernel {
 public:
  std::string_view name() const override { return "template_sddmm"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"dot_lanes", 1, true}; }
  Refusal WhyUnsupported(const EdgeScoresProblem& problem) const override {
    if (problem.dot && (problem.heads < 1 || problem.width % problem.heads != 0))
      return "the width must be a multiple of the number of heads";
    return {};
  }

  std::vector<std::string_view> ParameterNames() const override { return {"hilbert_order"}; }
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::Between(0, kMaxHilbertOrder)};
  }
  // Blocks whose rows of u fit a near cache, or larger ones if a row would have only a few edges in each.
  std::vector<KernelConfig> Candidates(const EdgeScoresProblem& problem) const override {
    const int64_t bytes = problem.cols * problem.width * static_cast<int64_t>(sizeof(float));
    int32_t order = 0;
    while (order < kMaxHilbertOrder && bytes >> order > kNearCacheBytes &&
           problem.rows << (order + 1) <= problem.edges / kEdgesPerVisit) {
      ++order;
    }
    if (order == 0) return {KernelConfig()};
    return {KernelConfig(), {{order}}};
  }

  Status Run(DeviceContext& context, const EdgeScoresArgs& args, void*) const override {
    HWY_DYNAMIC_DISPATCH(EdgeScoresAll)(args, context.thread_pool());
    return OkStatus();
  }
};

}  // namespace

std::unique_ptr<const EdgeScoresKernel> MakeTemplateSddmm() { return std::make_unique<TemplateSddmm>(); }

}  // namespace vicinal::internal
#endif  // HWY_ONCE
