// SPDX-License-Identifier: Apache-2.0
// Aggregation, vectorised over columns, rows in parallel ("simd_rows").
//
// Idea: a target's row of the result stays in registers over all its edges; where the rows that are gathered lie far
// off, neighbours ahead are prefetched, since no hardware prefetcher follows a gather; scales, bias, residual and
// activation are applied before the one store, which goes past the caches where the result would not stay in them.
// Weights of rank one need no value per edge: one side is read with the source, the other scales the row. Rows of
// bfloat16 and float16 are widened as they are loaded and added in float32 (aggregate_narrow_simd.cc).
//
// When it wins: over the reference always; over tiled_rows unless nodes have tens of edges and wide rows. It is bound
// by the gather for wide rows and by branches for rows of a few edges; narrow rows of a few edges are summed without
// branches where there are too many for a processor to learn.
//
// Bytes moved: edges * (4 + 4 weighted + s * D) read, rows * (8 + 4 * D) read or written; s is the size of an element.
// D beyond 128 reads indices once per 128 (AVX-512; 48 with AVX2), from the near cache: all passes over 32 rows come
// before the next 32.
//
// Determinism: each row by one thread, in the reduction order of gather_rows-inl.h; the same bits for any
// configuration, number of threads and subset of rows. Kinds of processor without fused multiply-add may differ.
//
// Source: coalesced row caching and row-split of GE-SpMM (Huang et al., SC'20) and the CPU schedule of FeatGraph (Hu
// et al., SC'20), re-thought for registers instead of shared memory.
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
  std::vector<KernelConfig> Candidates(const AggregateProblem& problem) const override {
    return AggregateCandidates(problem);
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
