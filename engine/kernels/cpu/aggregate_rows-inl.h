// SPDX-License-Identifier: Apache-2.0
// Aggregation by rows for one storage; the idea is in aggregate_simd.cc. Turns arguments and configuration into passes
// over ranges of rows. Compiled once per instruction set, hence the guard that toggles.
#if defined(VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_ROWS_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_ROWS_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_ROWS_INL_H_
#endif

#include "engine/kernels/cpu/aggregate_simd.h"
#include "engine/kernels/cpu/gather_rows-inl.h"
#include "engine/kernels/cpu/work.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

using GatherPassFunction = void (*)(const GatherJob&, const ColumnPasses&, int64_t, int64_t, int64_t);

template <Reduce kReduce, Storage kStorage>
GatherPassFunction AggregatePassOf(Weights weights) {
  if (weights == Weights::kNone) return &GatherPass<GatherKind<kReduce, Weights::kNone, true, kStorage>>;
  if constexpr (kReduce == Reduce::kSum) {
    if (weights == Weights::kSource) return &GatherPass<GatherKind<kReduce, Weights::kSource, true, kStorage>>;
  }
  return &GatherPass<GatherKind<kReduce, Weights::kEdge, true, kStorage>>;
}

template <Storage kStorage>
GatherPassFunction AggregatePassOf(const GatherJob& job, Reduce reduce) {
  const Weights weights = job.weight == nullptr  ? Weights::kNone
                          : job.weight_of_source ? Weights::kSource
                                                 : Weights::kEdge;
  switch (reduce) {
    case Reduce::kMax:
      return AggregatePassOf<Reduce::kMax, kStorage>(weights);
    case Reduce::kMin:
      return AggregatePassOf<Reduce::kMin, kStorage>(weights);
    default:
      return AggregatePassOf<Reduce::kSum, kStorage>(weights);
  }
}

template <Storage kStorage>
void AggregateRows(const AggregateArgs& args, ThreadPool* pool) {
  const GatherJob job = MakeAggregateJob(args, pool);
  const ColumnPasses columns(args.dst.cols, DivideUp(args.config.values[kTileColumns], kLanes));
  const GatherPassFunction gather = AggregatePassOf<kStorage>(job, args.problem.reduce);
  const int64_t wanted_rows = args.config.values[kPanelRows], panel_rows = wanted_rows == 0 ? 32 : wanted_rows;
  RowWork work = {job.row_ptr, args.dst.rows};
  if (panel_rows < 0 || columns.passes == 1) {
    const double vectors = static_cast<double>(columns.vectors) / static_cast<double>(columns.passes);
    work.edge_ns = 0.4 + 0.5 * vectors, work.row_ns = 5 + vectors;
    ForPasses(pool, work, columns.passes,
              [&](int64_t pass, int64_t begin, int64_t end, int) { gather(job, columns, pass, begin, end); });
    return;
  }
  const double vectors = static_cast<double>(columns.vectors);
  work.edge_ns = 0.4 + 0.5 * vectors, work.row_ns = 5 + vectors;
  ForRows(pool, work, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; row += panel_rows) {
      for (int64_t pass = 0; pass < columns.passes; ++pass) {
        gather(job, columns, pass, row, Smaller(end, row + panel_rows));
      }
    }
  });
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_AGGREGATE_ROWS_INL_H_
