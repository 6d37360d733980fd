// SPDX-License-Identifier: Apache-2.0
// Aggregation, vectorised over columns, rows in parallel ("simd_rows").
//
// Idea: a row of the result stays in registers over all its edges. If the gathered rows are far from the core, the rows
// of later edges are prefetched, as no hardware prefetcher follows a gather. Scales, bias, residual and activation are
// applied before the one store, which is non-temporal if the result would not stay in the caches. Rank-1 weights need
// no value per edge: one side is read with the source, the other scales the row. Rows of bfloat16 and float16 are
// widened as they are loaded and added in float32 (aggregate_narrow_simd.cc).
//
// When it wins: always over the reference; over tiled_rows unless nodes have tens of edges and wide rows. Wide rows are
// bound by the gather, rows of a few edges by branch mispredictions. Narrow rows of a few edges are therefore summed
// without branches if there are too many for the branch predictor to learn.
//
// Bytes moved: edges * (4 + 4 weighted + s * D) read, rows * (8 + 4 * D) read or written; s is the size of an element.
// If D exceeds 128 (AVX-512) or 48 (AVX2), indices are read once per pass over that many columns, from the near cache:
// 32 rows get all passes before the next 32.
//
// Determinism: one thread per row, in the reduction order of gather_rows-inl.h. The bits are the same for any
// configuration, number of threads and subset of rows. Processors without fused multiply-add may give other bits.
//
// Source: coalesced row caching and row splitting of GE-SpMM (Huang et al., SC'20) and the CPU schedule of FeatGraph
// (Hu et al., SC'20), applied to registers instead of shared memory.
#include "engine/kernels/cpu/aggregate_simd.h"

#include <memory>

#include "engine/kernels/cpu/gather_cost.h"
#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/work.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/aggregate_simd.cc"
#include "engine/kernels/cpu/simd_targets.h"
#include "hwy/foreach_target.h"
//
#include "engine/kernels/cpu/aggregate_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

void Aggregate(const AggregateArgs& args, ThreadPool* pool) { AggregateRows<Storage::kFloat32>(args, pool); }

void GatherJobRows(const GatherJob& job, Reduce reduce, int64_t begin, int64_t end) {
  const ColumnPasses columns(job.dst.cols, 0);
  const GatherPassFunction gather = AggregatePassOf<Storage::kFloat32>(job, reduce);
  for (int64_t pass = 0; pass < columns.passes; ++pass) gather(job, columns, pass, begin, end);
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "engine/kernels/registry.h"

namespace vicinal {
namespace internal {
namespace {

HWY_EXPORT(Aggregate);
HWY_EXPORT(GatherJobRows);

class SimdAggregate final : public AggregateKernel {
 public:
  std::string_view name() const override { return "simd_rows"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"even_odd_blocks", 1, true}; }
  Refusal WhyUnsupported(const AggregateProblem&) const override { return {}; }
  std::vector<std::string_view> ParameterNames() const override {
    return {"prefetch_edges", "tile_columns", "panel_rows", "stream_stores", "few_edges"};
  }
  std::vector<ParameterRange> ParameterRanges() const override {
    return {ParameterRange::AtLeast(-1), ParameterRange::AtLeast(0), ParameterRange::AtLeast(-1),
            ParameterRange::OneOf({-1, 1}), ParameterRange::OneOf({-1, 1})};
  }
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override {
    return AggregateCandidates(problem);
  }
  std::vector<std::vector<int32_t>> SearchSpace(const AggregateProblem& problem) const override {
    return AggregateSearchSpace(problem);
  }
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig& config,
                                       const WorkShape& shape) const override {
    GatherCost cost = GatherCostOf(problem);
    cost.tile_columns = config.values[kTileColumns];
    cost.panels = config.values[kPanelRows] > 0;
    cost.prefetched = config.values[kPrefetchEdges] >= 0;
    return GatherSeconds(cost, shape);
  }
  Status Run(DeviceContext& context, const AggregateArgs& args, void*) const override {
    switch (args.problem.storage) {
      case Storage::kFloat32:
        HWY_DYNAMIC_DISPATCH(Aggregate)(args, context.thread_pool());
        break;
      case Storage::kBfloat16:
        AggregateBfloat16(args, context.thread_pool());
        break;
      case Storage::kFloat16:
        AggregateFloat16(args, context.thread_pool());
        break;
    }
    return OkStatus();
  }
};

}  // namespace

void RunGatherJob(const GatherJob& job, Reduce reduce, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(GatherJobRows)(job, reduce, begin, end);
}

std::unique_ptr<const AggregateKernel> MakeSimdAggregate() { return std::make_unique<SimdAggregate>(); }

}  // namespace internal

std::string CpuInstructionSet() {
  // Targets are bits, the best is the lowest; the same choice that HWY_DYNAMIC_DISPATCH makes.
  const int64_t usable = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(usable & -usable);
}

}  // namespace vicinal
#endif  // HWY_ONCE
