// SPDX-License-Identifier: Apache-2.0
// dense_row as a kernel of the operation sparse_aggregate_update.
#include <cstddef>
#include <memory>

#include "engine/cuda/runtime/cuda_kernel.h"
#include "engine/cuda/sparse/dense_row/dense_row.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

class DenseRow final : public CudaWeightedKernel<SparseAggregateUpdateKernel> {
 public:
  DenseRow() : CudaWeightedKernel("dense_row") {}
  DeclaredOrder declared_order() const override { return {"dense_rows", 1, true}; }
  Refusal WhyUnsupported(const SparseAggregateUpdateProblem& problem) const override {
    if (problem.reduce == Reduce::kMin) return "only sum, mean and max";
    return WhyWidthUnsupported(problem.out_width);
  }
  size_t ScratchBytes(const SparseAggregateUpdateProblem& problem, const KernelConfig&, int) const override {
    return SparseAggregateScratchBytes(problem);
  }

 protected:
  cudaError_t Launch(const SparseAggregateUpdateArgs& args, const LaunchTarget& target, void* scratch) const override {
    return LaunchSparseAggregateUpdate(args, target, scratch);
  }
};

}  // namespace

void AddDenseRow(KernelRegistry& registry) { registry.sparse_aggregate_update.Add(std::make_unique<DenseRow>()); }

}  // namespace vicinal::cuda
