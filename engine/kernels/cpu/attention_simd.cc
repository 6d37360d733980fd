// SPDX-License-Identifier: Apache-2.0
// Softmax attention over in-edges (GAT, GATv2, dot products), scores, softmax and weighted sum fused per target row
// ("simd_rows").
//
// Idea: a row's edges are processed in chunks of kChunk. The scores of all heads of a chunk are stored edge by edge,
// with heads padded to a power of two, so that a vector always holds whole repetitions of the heads. One vectorised
// pass computes the maximum, one the exponentials and their sum, and one the weighted sum, with a register for every
// vector of columns. Between chunks, the running sums are rescaled by exp(old maximum - new maximum). This is the exact
// softmax, without a buffer that depends on the degree, for hubs of any size. Rows of few edges share a chunk, so that
// copies, exponentials and sums of several rows overlap; each row takes the same arithmetic as alone.
//
// When it wins: always over the reference, which recomputes scores. Nothing of the size of the edges is stored.
//
// Bytes moved: edges * (8 + 4 K C + 4 K) read. GATv2 reads the values twice, the second time from the near cache. Dot
// products read 8 K C for keys and values. Features of edges: 4 A more (attention_features-inl.h).
//
// Determinism: one thread per row, chunks and edges in order. The bits are the same for any number of threads and any
// subset of rows.
//
// Source: Velickovic et al., "Graph Attention Networks" (ICLR 2018); Brody et al., "How Attentive are Graph
// Attention Networks?" (ICLR 2022); Shi et al., "Masked Label Prediction" (IJCAI 2021); rescaling: Milakov and
// Gimelshein, "Online normalizer calculation for softmax" (2018).
#include <memory>

#include "engine/kernels/cpu/attention_scratch.h"
#include "engine/kernels/cpu/gather_cost.h"
#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/work.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/attention_simd.cc"
#include "engine/kernels/cpu/simd_targets.h"
#include "hwy/foreach_target.h"
//
#include "engine/kernels/cpu/attention_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

HWY_NOINLINE void AttendRows(const AttentionArgs& args, int64_t begin, int64_t end, const float* turned_weight,
                             float* scratch, const StopWithin& stop) {
  AttentionRows(args, turned_weight, scratch, stop).Run(begin, end);
}

void Attention(const AttentionArgs& args, ThreadPool* pool, float* scratch) {
  const AttentionProblem& p = args.problem;
  const double columns = static_cast<double>(p.heads * p.head_width) / static_cast<double>(kLanes);
  const double score_ns =
      p.kind == AttentionKind::kGat ? 0.5 : 4 + static_cast<double>(p.head_width) / static_cast<double>(kLanes);
  const int64_t floats = AttentionScratchFloats(p);
  // Multiply-adds with features: GATv2's take them for each column, the others for each head.
  const double feature_ns = 0.5 * static_cast<double>(p.edge_width) *
                            (p.kind == AttentionKind::kGatV2 ? columns : static_cast<double>(p.heads));
  const double edge_ns = 2 + columns + score_ns * static_cast<double>(p.heads) + feature_ns;
  float* const turned_weight = scratch;
  float* const of_threads = scratch + TurnedWeightFloats(p);
  if (TurnedWeightFloats(p) > 0) TurnWeight(args, turned_weight);
  ForRows(pool, {args.adjacency.row_ptr, args.dst.rows, edge_ns, 50}, [&](int64_t begin, int64_t end, int thread) {
    AttendRows(args, begin, end, turned_weight, of_threads + thread * floats, StopWithin(pool, edge_ns));
  });
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vicinal::internal {
namespace {

HWY_EXPORT(Attention);

class SimdAttention final : public AttentionKernel {
 public:
  std::string_view name() const override { return "simd_rows"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"online_softmax", 2, true}; }
  Refusal WhyUnsupported(const AttentionProblem&) const override { return {}; }
  std::optional<double> PredictSeconds(const AttentionProblem& problem, const KernelConfig&,
                                       const WorkShape& shape) const override {
    return GatherSeconds(GatherCostOf(problem), shape);
  }
  size_t ScratchBytes(const AttentionProblem& problem, const KernelConfig&, int num_threads) const override {
    const int64_t floats = TurnedWeightFloats(problem) + num_threads * AttentionScratchFloats(problem);
    return static_cast<size_t>(floats) * sizeof(float);
  }
  Status Run(DeviceContext& context, const AttentionArgs& args, void* scratch) const override {
    HWY_DYNAMIC_DISPATCH(Attention)(args, context.thread_pool(), static_cast<float*>(scratch));
    return OkStatus();
  }
};

}  // namespace

std::unique_ptr<const AttentionKernel> MakeSimdAttention() { return std::make_unique<SimdAttention>(); }

}  // namespace vicinal::internal
#endif  // HWY_ONCE
