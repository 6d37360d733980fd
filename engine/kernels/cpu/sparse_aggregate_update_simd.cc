// SPDX-License-Identifier: Apache-2.0
// Aggregates sparse source rows and multiplies by weights in one pass ("simd_rows"), without a dense matrix [R, F].
//
// Idea: the source rows of a target's neighbours are added (or maximised) into a dense row of F numbers per thread,
// with a list of the touched columns. The touched entries then multiply rows of W^T like a sparse product. A column
// that a neighbour lacks counts as 0 there, which a count per column detects.
//
// When it wins: reductions that do not commute with the product (max over a bag of words), if few features are nonzero;
// plans make crowded ones dense (FeatureShape::crowded). For sums, updating first and aggregating then is faster.
//
// Bytes moved: per target, degree * nnz per source row * 8 read, a few bytes per touched column in the near cache, and
// touched * 4 H of weights.
//
// Determinism: one thread per row; columns in order of first touch, which depends on the edges alone.
//
// Source: Gustavson's row-wise sparse accumulator (TOMS 1978), with the product fused.
#include <algorithm>
#include <cmath>
#include <memory>

#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/row_major_pack.h"
#include "engine/kernels/cpu/work.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/sparse_aggregate_update_simd.cc"
#include "engine/kernels/cpu/simd_targets.h"
#include "hwy/foreach_target.h"
//
#include "engine/kernels/cpu/gather_rows-inl.h"

#ifndef VICINAL_ENGINE_KERNELS_CPU_SPARSE_AGGREGATE_UPDATE_ONCE_
#define VICINAL_ENGINE_KERNELS_CPU_SPARSE_AGGREGATE_UPDATE_ONCE_
namespace vicinal::internal {

// A thread's sparse accumulator in its scratch. Between rows, every column has `start` and a count of zero. There are
// no data-dependent branches, as repeated columns and negative values cannot be predicted.
struct SparseAccumulator {
  double* sum;      // [F] by column; double, as a hub adds many terms
  int64_t* count;   // [F] by column: edges that have it
  float* compact;   // [F] by order of touch
  int32_t* column;  // [F + 1] by order of touch
  int64_t touched = 0;
  double start;  // the identity of the reduction

  static size_t Bytes(int64_t in_width) {
    const size_t bytes =
        static_cast<size_t>(in_width + 1) * (sizeof(double) + sizeof(int64_t) + sizeof(float) + sizeof(int32_t));
    return (bytes + 63) / 64 * 64;
  }
  static SparseAccumulator At(void* scratch, int thread, int64_t in_width, Reduce reduce) {
    SparseAccumulator a;
    a.sum = reinterpret_cast<double*>(static_cast<char*>(scratch) + static_cast<size_t>(thread) * Bytes(in_width));
    a.count = reinterpret_cast<int64_t*>(a.sum + in_width);
    a.compact = reinterpret_cast<float*>(a.count + in_width);
    a.column = reinterpret_cast<int32_t*>(a.compact + in_width);
    a.start = reduce == Reduce::kMax ? -HUGE_VAL : 0.0;
    return a;
  }
  void Clear(int64_t in_width) {
    std::fill_n(sum, in_width, start);
    std::fill_n(count, in_width, int64_t{0});
  }

  // Adds (or takes the maximum with) weight * row. Always writes the column at the end of the touched ones, which
  // counts only if it is new.
  template <bool kMax>
  void Take(const CsrView& src, int64_t row, double weight) {
    int64_t n = touched;
    for (int64_t e = src.row_ptr[row], end = src.row_ptr[row + 1]; e < end; ++e) {
      const int32_t f = src.col[e];
      const double x = src.value != nullptr ? weight * src.value[e] : weight, old = sum[f];
      sum[f] = !kMax ? old + x : ((old < x) | (x != x)) ? x : old;  // NaN propagates
      column[n] = f;
      n += count[f]++ == 0;
    }
    touched = n;
  }

  // Turns sums into the reduction over `degree` rows; a column that a row lacks is 0 there.
  void Finish(Reduce reduce, int64_t degree) {
    const double divisor = reduce == Reduce::kMean ? static_cast<double>(degree) : 1.0;
    for (int64_t t = 0; t < touched; ++t) {
      const int32_t f = column[t];
      const double least = reduce == Reduce::kMax && count[f] < degree ? 0.0 : -HUGE_VAL;
      sum[f] = (sum[f] < least ? least : sum[f]) / divisor;
    }
  }

  // Adds the self term after the reduction. Columns that no neighbour has are 0 until then.
  void TakeSelf(const CsrView& src, int64_t row, double scale) {
    for (int64_t e = src.row_ptr[row]; e < src.row_ptr[row + 1]; ++e) {
      const int32_t f = src.col[e];
      if (count[f]++ == 0) {
        column[touched++] = f;
        sum[f] = 0;
      }
      sum[f] += src.value != nullptr ? scale * src.value[e] : scale;
    }
  }

  void MakeCompact() {
    for (int64_t t = 0; t < touched; ++t) {
      const int32_t f = column[t];
      compact[t] = static_cast<float>(sum[f]);
      sum[f] = start;
      count[f] = 0;
    }
  }
};

}  // namespace vicinal::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

void MultiplyTouched(const SparseAggregateUpdateArgs& args, const SparseAccumulator& row, int64_t i) {
  const int64_t row_ptr[2] = {0, row.touched};
  GatherJob job;
  job.row_ptr = row_ptr;
  job.col = row.column;
  job.weight = row.compact;
  job.src = TransposedView(args.weight, args.dst.cols, args.problem.in_width);
  job.dst = {args.dst.row(i), 1, args.dst.cols, args.dst.stride};
  job.epilogue = args.epilogue;
  if (!job.epilogue.residual.empty()) job.epilogue.residual.data = args.epilogue.residual.row(i);
  job.num_edges = row.touched;
  GatherRows<GatherKind<Reduce::kSum, Weights::kEdge, true>>(job, 0, 1);
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vicinal::internal {
namespace {

HWY_EXPORT(MultiplyTouched);

void AggregateUpdateRows(const SparseAggregateUpdateArgs& args, int64_t begin, int64_t end, SparseAccumulator row,
                         StopWithin stop) {
  const CsrView& adjacency = args.adjacency;
  const bool max = args.problem.reduce == Reduce::kMax;
  for (int64_t i = begin; i < end; ++i) {
    row.touched = 0;
    const int64_t first = adjacency.row_ptr[i], last = adjacency.row_ptr[i + 1];
    for (int64_t e = first; e < last; ++e) {
      if (stop.Before(1)) return;
      const double weight = adjacency.value != nullptr ? adjacency.value[e] : 1.0;
      max ? row.Take<true>(args.src, adjacency.col[e], weight) : row.Take<false>(args.src, adjacency.col[e], weight);
    }
    row.Finish(args.problem.reduce, last - first);
    if (args.self_scale != 0) row.TakeSelf(args.src, i, args.self_scale);
    row.MakeCompact();
    HWY_DYNAMIC_DISPATCH(MultiplyTouched)(args, row, i);
  }
}

class SimdSparseAggregateUpdate final : public SparseAggregateUpdateKernel {
 public:
  std::string_view name() const override { return "simd_rows"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"gathered_rows", 1, true}; }
  Refusal WhyUnsupported(const SparseAggregateUpdateProblem& problem) const override {
    return problem.reduce == Reduce::kMin ? "no minima of sparse rows" : Refusal();
  }
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return TransposedBytes(out_width, in_width);
  }
  void Pack(ConstMatrixView weight, void* packed) const override { PackTransposed(weight, packed); }
  size_t ScratchBytes(const SparseAggregateUpdateProblem& problem, const KernelConfig&,
                      int num_threads) const override {
    return static_cast<size_t>(num_threads) * SparseAccumulator::Bytes(problem.in_width);
  }

  Status Run(DeviceContext& context, const SparseAggregateUpdateArgs& args, void* scratch) const override {
    if (args.dst.rows == 0) return OkStatus();
    const int64_t in_width = args.problem.in_width;
    const Reduce reduce = args.problem.reduce;
    const int threads = context.thread_pool() != nullptr ? context.thread_pool()->num_threads() : 1;
    for (int thread = 0; thread < threads; ++thread)
      SparseAccumulator::At(scratch, thread, in_width, reduce).Clear(in_width);
    // An edge costs a few nanoseconds per nonzero of its source row, estimated by their mean number.
    const double row_nnz =
        static_cast<double>(args.problem.nnz) / static_cast<double>(args.src.rows > 0 ? args.src.rows : 1);
    const double out_vectors = 1 + static_cast<double>(args.dst.cols) / 16;
    const double edge_ns = row_nnz * (2 + 0.5 * out_vectors);
    ForRows(context.thread_pool(), {args.adjacency.row_ptr, args.dst.rows, edge_ns, 20},
            [&](int64_t begin, int64_t end, int thread) {
              AggregateUpdateRows(args, begin, end, SparseAccumulator::At(scratch, thread, in_width, reduce),
                                  StopWithin(context.thread_pool(), edge_ns));
            });
    return OkStatus();
  }
};

}  // namespace

std::unique_ptr<const SparseAggregateUpdateKernel> MakeSimdSparseAggregateUpdate() {
  return std::make_unique<SimdSparseAggregateUpdate>();
}

}  // namespace vicinal::internal
#endif  // HWY_ONCE
