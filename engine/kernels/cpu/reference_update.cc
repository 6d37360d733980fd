// SPDX-License-Identifier: Apache-2.0
// Reference products with weights: dot products in double precision with W [H, F], row by row.
#include <algorithm>
#include <memory>

#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/reference.h"

namespace vicinal::internal {
namespace {

class ReferenceDenseUpdate final : public ReferenceWeighted<DenseUpdateKernel> {
 public:
  Status Run(DeviceContext&, const DenseUpdateArgs& args, void*) const override {
    const int64_t in_width = args.problem.in_width;
    for (int64_t i = 0; i < args.dst.rows; ++i) {
      for (int64_t h = 0; h < args.dst.cols; ++h) {
        const float* weight = static_cast<const float*>(args.weight) + h * in_width;
        double sum = 0;
        for (int64_t f = 0; f < in_width; ++f) sum += static_cast<double>(args.src.row(i)[f]) * weight[f];
        args.dst.row(i)[h] = ReferenceEpilogue(args.epilogue, sum, i, h);
      }
    }
    return OkStatus();
  }
};

class ReferenceSparseUpdate final : public ReferenceWeighted<SparseUpdateKernel> {
 public:
  Status Run(DeviceContext&, const SparseUpdateArgs& args, void*) const override {
    const CsrView& src = args.src;
    for (int64_t i = 0; i < args.dst.rows; ++i) {
      for (int64_t h = 0; h < args.dst.cols; ++h) {
        const float* weight = static_cast<const float*>(args.weight) + h * args.problem.in_width;
        double sum = 0;
        for (int64_t e = src.row_ptr[i]; e < src.row_ptr[i + 1]; ++e) {
          sum += (src.value != nullptr ? src.value[e] : 1.0) * weight[src.col[e]];
        }
        args.dst.row(i)[h] = ReferenceEpilogue(args.epilogue, sum, i, h);
      }
    }
    return OkStatus();
  }
};

// Expands each source row to a dense one, reduces them into a dense row, and multiplies that. Scratch: two rows of
// doubles. Time: O(E * F).
class ReferenceSparseAggregateUpdate final : public ReferenceWeighted<SparseAggregateUpdateKernel> {
 public:
  size_t ScratchBytes(const SparseAggregateUpdateProblem& problem, const KernelConfig&, int) const override {
    return 2 * static_cast<size_t>(problem.in_width) * sizeof(double);
  }

  Status Run(DeviceContext&, const SparseAggregateUpdateArgs& args, void* scratch) const override {
    const int64_t in_width = args.problem.in_width;
    double* reduced = static_cast<double*>(scratch);
    for (int64_t i = 0; i < args.dst.rows; ++i) {
      ReduceRow(args, i, reduced, reduced + in_width);
      for (int64_t h = 0; h < args.dst.cols; ++h) {
        const float* weight = static_cast<const float*>(args.weight) + h * in_width;
        double sum = 0;
        for (int64_t f = 0; f < in_width; ++f) {
          if (reduced[f] != 0) sum += reduced[f] * weight[f];
        }
        args.dst.row(i)[h] = ReferenceEpilogue(args.epilogue, sum, i, h);
      }
    }
    return OkStatus();
  }

 private:
  static void MakeDense(const CsrView& src, int64_t row, int64_t width, double* dense) {
    std::fill_n(dense, width, 0.0);
    for (int64_t e = src.row_ptr[row]; e < src.row_ptr[row + 1]; ++e)
      dense[src.col[e]] = src.value != nullptr ? src.value[e] : 1.0;
  }

  static void ReduceRow(const SparseAggregateUpdateArgs& args, int64_t i, double* reduced, double* row) {
    const CsrView& a = args.adjacency;
    const int64_t width = args.problem.in_width, begin = a.row_ptr[i], end = a.row_ptr[i + 1];
    std::fill_n(reduced, width, 0.0);
    for (int64_t e = begin; e < end; ++e) {
      MakeDense(args.src, a.col[e], width, row);
      const double weight = a.value != nullptr ? a.value[e] : 1.0;
      for (int64_t f = 0; f < width; ++f) {
        const double message = weight * row[f];
        reduced[f] = e == begin ? message : ReferenceJoin(args.problem.reduce, reduced[f], message);
      }
    }
    if (args.problem.reduce == Reduce::kMean && end > begin) {
      for (int64_t f = 0; f < width; ++f) reduced[f] /= static_cast<double>(end - begin);
    }
    if (args.self_scale == 0) return;
    MakeDense(args.src, i, width, row);
    for (int64_t f = 0; f < width; ++f) reduced[f] += static_cast<double>(args.self_scale) * row[f];
  }
};

}  // namespace

std::unique_ptr<const DenseUpdateKernel> MakeReferenceDenseUpdate() { return std::make_unique<ReferenceDenseUpdate>(); }
std::unique_ptr<const SparseUpdateKernel> MakeReferenceSparseUpdate() {
  return std::make_unique<ReferenceSparseUpdate>();
}
std::unique_ptr<const SparseAggregateUpdateKernel> MakeReferenceSparseAggregateUpdate() {
  return std::make_unique<ReferenceSparseAggregateUpdate>();
}

}  // namespace vicinal::internal
